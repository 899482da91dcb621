
# The tables of the manual agree with the server: settings, views, functions.

use strict;
use warnings;

use FindBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Test::More;

# The manual's table of settings is what the server has.
{
	my $manual = "$FindBin::RealBin/../../docs/settings.md";

	my $node = new_node('settings_are_documented');
	my $text = slurp_file($manual);
	my ($table) = $text =~ /<!-- settings:.*?-->\n\| setting .*?\n\|---.*?\n(.*?)<!-- end -->/s;
	my @documented = split /\n/, $table;
	my @settings = split /\n/, value($node, q{
	SELECT format('| `%s` | %s | %s | %s | %s |', name,
		CASE name WHEN 'steno.file_mode' THEN '`0600`'
		ELSE '`' || coalesce(nullif(boot_val, ''), ' ') || coalesce(CASE WHEN boot_val NOT IN ('0', '-1') THEN unit END, '') || '`' END,
		CASE vartype WHEN 'bool' THEN '`on`, `off`'
			WHEN 'enum' THEN (SELECT string_agg('`' || v || '`', ', ') FROM unnest(enumvals) v)
			WHEN 'integer' THEN CASE name WHEN 'steno.file_mode' THEN '`0600`, `0640`, `0644`'
				ELSE min_val || ' – ' || max_val || coalesce(' ' || unit, '') END
			ELSE CASE WHEN name IN ('steno.log', 'steno.log_start', 'steno.mandatory', 'steno.sync') THEN 'list of classes'
				WHEN name = 'steno.role' THEN 'name of a role' WHEN name = 'steno.retention_age' THEN 'time' WHEN name LIKE 'steno.app%' THEN 'text'
				WHEN name LIKE 'steno.%command' THEN 'shell command' ELSE 'path' END END,
		CASE context WHEN 'postmaster' THEN 'restart' WHEN 'sighup' THEN 'reload' WHEN 'user' THEN 'anyone' ELSE context END,
		concat_ws(' ', short_desc, extra_desc))
	FROM pg_settings WHERE name LIKE 'steno.%' ORDER BY name});

	is_deeply(\@documented, \@settings, 'docs/settings.md')
	  or diag("The table should be:\n" . join("\n", @settings));

	# Every setting that needs more words has them under its own name.
	my %names = map { /`(steno\.\w+)`/ ? ($1 => 1) : () } @settings;
	my @mentioned = map { split /, / } $text =~ /^### (steno\..*)$/mg;

	is_deeply([ grep { !$names{$_} } @mentioned ], [], 'no heading names a setting that does not exist');
	is_deeply(
		[ grep { my $n = $_; !grep { $_ eq $n } @mentioned } sort keys %names ],
		[], 'every setting has a paragraph');
	foreach my $class (split /, /, value($node, q{SELECT substring(extra_desc FROM 'classes: ([^.]*)\.') FROM pg_settings WHERE name = 'steno.log'}))
	{
		like($text, qr/`$class`/, "class $class is named");
	}
	$node->stop;
}

# The manual's tables of views and functions are what the catalog has.
{
	my $manual = "$FindBin::RealBin/../../docs/sql.md";

	my $node = new_node('sql_is_documented');
	my $text = slurp_file($manual);

	# The first cells of a table's rows.
	sub rows
	{
		my ($mark, $cells) = @_;
		my ($table) = $text =~ /<!-- $mark:.*?-->\n\|.*?\n\|---.*?\n(.*?)<!-- end -->/s;

		return [ map { join ' ', (split / *\| */)[ 1 .. $cells ] } split /\n/, $table // '' ];
	}

	foreach my $view (split /\n/, value($node, q{SELECT 'steno.' || relname FROM pg_class WHERE relnamespace = 'steno'::regnamespace}))
	{
		my @columns = split /\n/, value($node, qq{
	SELECT format('`%s` `%s`', attname, format_type(atttypid, atttypmod))
	FROM pg_attribute WHERE attrelid = '$view'::regclass AND attnum > 0 ORDER BY attnum});

		is_deeply(rows("view $view", 2), \@columns, "columns of $view");
	}

	my @functions = split /\n/, value($node, q{
	SELECT format('`steno.%s(%s)` `%s`', proname, pg_get_function_identity_arguments(oid),
		pg_get_function_result(oid))
	FROM pg_proc WHERE pronamespace = 'steno'::regnamespace ORDER BY 1});

	is_deeply([ sort map { s/`steno\.(\w+)\(OUT [^)]*\)`/`steno.$1()`/r } @functions ],
		[ sort @{ rows('functions', 2) } ], 'functions');

	# The errors that it lists are those of the code.
	foreach my $message ($text =~ /^\| `(.*?)` \| [0-9A-Z]{5} \|/mg)
	{
		my $sources = join '', map { slurp_file($_) } glob "$FindBin::RealBin/../*/*.c";
		my $quoted = $message =~ s/"/\\"/gr;

		ok(index($sources, $quoted) >= 0, "an error of the code: $message");
	}
	$node->stop;
}

done_testing();

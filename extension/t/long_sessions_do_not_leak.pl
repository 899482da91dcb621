
# The memory of a session does not grow with the number of its statements, including nested ones and
# those that fail.
#
#	STENO_LONG=1	a million statements instead of twenty thousand

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Test::More;

my $count = $ENV{STENO_LONG} ? 1_000_000 : 20_000;

# What may vary: catalog caches grow with the objects that they see, and no further.
my $slack = 64 * 1024;

my $node = new_node('main');
my $c = Steno::Client->new($node, application_name => 'long');

$c->query($_) foreach (
	'CREATE TABLE t (id int PRIMARY KEY, v text)',
	q{INSERT INTO t SELECT i, 'v' FROM generate_series(1, 100) i},
	'CREATE ROLE other',
	'GRANT ALL ON t TO other',
	q{CREATE FUNCTION nested(i int) RETURNS int LANGUAGE plpgsql AS
$$ BEGIN UPDATE t SET v = 'n' WHERE id = i; RETURN (SELECT count(*) FROM t WHERE id = i); END $$},
	q{CREATE FUNCTION caught(i int) RETURNS int LANGUAGE plpgsql AS
$$ BEGIN PERFORM nested(i); INSERT INTO t VALUES (i, 'twice'); RETURN 0;
EXCEPTION WHEN unique_violation THEN PERFORM nested(i); RETURN 1; END $$},
	q{CREATE FUNCTION fails(i int) RETURNS int LANGUAGE plpgsql AS
$$ BEGIN PERFORM caught(i); RETURN 1 / (i - i); END $$},
	'PREPARE p(int, text) AS SELECT * FROM t WHERE id = $1 AND v <> $2');

# One of each: protocol, SQL, and how it ends.  Twenty-five messages or so, about as
# many nested statements.
my $round = 0;
my $statements = 0;

sub round_of_statements
{
	my $i = 1 + $round++ % 100;
	my $long = 'x' x 3000;

	foreach my $sql (
		"SELECT v FROM t WHERE id = $i",
		"UPDATE t SET v = 'u' WHERE id = $i",
		"SELECT nested($i)",
		"SELECT caught($i)",
		"SELECT fails($i)",
		"DO \$\$ BEGIN PERFORM caught($i); END \$\$",
		"DO \$\$ BEGIN PERFORM fails($i); END \$\$",
		"EXECUTE p($i, 'x')",
		'SELECT * FROM missing',
		'SELEC 1',
		'SELECT no_column FROM t',
		"INSERT INTO t VALUES ($i, '$long')",
		"BEGIN; DECLARE c CURSOR FOR SELECT * FROM t; FETCH 3 FROM c; SELECT 1/0; COMMIT",
		'ROLLBACK',
		"BEGIN; SAVEPOINT s; SELECT 1",
		'SELECT 1/0',
		'ROLLBACK TO s',
		"SET LOCAL ROLE other; SELECT count(*) FROM t",
		'COMMIT',
		"SET steno.app_user = 'user $i'",
		"SET application_name = 'long $i'",
		'CREATE TEMP TABLE temporary (a int)',
		'DROP TABLE temporary')
	{
		$c->query($sql);
		$statements++;
	}
	foreach my $values ([ $i, 'x' ], [ $i, $long ], [ $i, undef ])
	{
		$c->extended('SELECT nested($1::int), $2::text', @$values);
		$c->extended('SELECT fails($1::int), $2::text', @$values);

		# types are created and dropped in between, and with them the cache of output functions
		$c->extended('SELECT $1::int[], $2::text', "{$i,2}", 'array');
		$statements += 3;
	}
	return;
}

sub run_statements
{
	my ($n) = @_;
	my $end = $statements + $n;

	round_of_statements() while $statements < $end;
	return;
}

# All memory contexts of the session, by name.
sub memory
{
	my %used = map { @$_ } @{ $c->query(
			q{SELECT name, sum(used_bytes) FROM pg_backend_memory_contexts WHERE name !~ '^(Message|Portal|ExprContext|ExecutorState|TopTransaction)' GROUP BY name}
		)->{rows} };

	return \%used;
}

run_statements($count / 10);
my $before = memory();
run_statements($count);
my $after = memory();
my ($total_before, $total_after) = (0, 0);
$total_before += $_ foreach values %$before;
$total_after += $_ foreach values %$after;
my @grown = map { sprintf '%s: %d to %d', $_, $before->{$_} // 0, $after->{$_} }
  grep { $after->{$_} > ($before->{$_} // 0) + 4096 } sort keys %$after;

note "memory: $total_before, then $total_after";
cmp_ok($total_before, '>', 100_000, 'there is memory to look at');
cmp_ok($total_after, '<', $total_before + $slack, "after $count statements the session's memory is what it was")
  or diag(join "\n", @grown);

# A leak of some bytes for each statement would be larger than this tolerance.
cmp_ok($count, '>', $slack / 8, 'a leak of 8 bytes a statement would be seen');
$c->quit;
$node->stop;
verify_ok($node, 'the trail is whole');
done_testing();


# A function that returns a set leaves its query open between two rows.  If its caller does not ask for all of them, the
# executor never ends that query: whatever ends it, it has one record, with the rows that it has delivered.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Test::More;

my $node = new_node('main');

$node->safe_psql('postgres', <<'SQL');
CREATE TABLE hidden AS SELECT i AS x FROM generate_series(1, 30) i;
CREATE FUNCTION rd() RETURNS SETOF int LANGUAGE sql VOLATILE AS $$SELECT x FROM hidden ORDER BY x$$;
CREATE FUNCTION rd2() RETURNS SETOF int LANGUAGE sql VOLATILE AS $$SELECT rd()$$;
CREATE FUNCTION slow(n int) RETURNS SETOF int LANGUAGE sql VOLATILE AS
	$$SELECT x + (pg_sleep(0.001) IS NULL)::int FROM hidden WHERE x <= n ORDER BY x$$;
SQL

my $cursor = 'DECLARE c CURSOR FOR SELECT rd()';

# name, statements, rows that the function's query has delivered (undef: not compared), number of its records
my @cases = (
	[ 'ROLLBACK', [ 'BEGIN', $cursor, 'FETCH 3 FROM c', 'ROLLBACK' ], 3 ],
	[ 'COMMIT', [ 'BEGIN', $cursor, 'FETCH 3 FROM c', 'COMMIT' ], 3 ],
	[ 'CLOSE', [ 'BEGIN', $cursor, 'FETCH 3 FROM c', 'CLOSE c', 'COMMIT' ], 3 ],
	[ 'ROLLBACK TO', [ 'BEGIN', 'SAVEPOINT s', $cursor, 'FETCH 3 FROM c', 'ROLLBACK TO s', 'COMMIT' ], 3 ],
	[ 'an error in another statement', [ 'BEGIN', $cursor, 'FETCH 3 FROM c', 'FETCH 2 FROM c', 'SELECT 1 / 0', 'ROLLBACK' ], 5 ],
	[ 'disconnection', [ 'BEGIN', $cursor, 'FETCH 3 FROM c' ], 3 ],
	[ 'an error in the caller', ['SELECT rd(), 1 / (5 - generate_series(1, 10))'], 5 ],
	[ 'an error in COPY', ['COPY (SELECT rd(), 1 / (9 - generate_series(1, 50))) TO STDOUT'], 9 ],
	[ 'an exception in a loop', [ q{DO $$DECLARE r record; BEGIN FOR r IN SELECT rd() AS x LOOP IF r.x = 4 THEN RAISE 'enough'; END IF; END LOOP; END$$} ], undef ],
	[ 'an exception that is caught', [ q{DO $$DECLARE r record; BEGIN FOR r IN SELECT rd() AS x LOOP IF r.x = 4 THEN RAISE 'enough'; END IF; END LOOP;
		EXCEPTION WHEN raise_exception THEN NULL; END$$} ], undef ],
	[ 'a limit', ['SELECT rd() LIMIT 3'], undef ],
	[ 'all rows', ['SELECT rd()'], 30 ],
	[ 'as a table', ['SELECT * FROM rd() LIMIT 3'], undef ],
	[ 'nested', [ 'BEGIN', 'DECLARE c CURSOR FOR SELECT rd2()', 'FETCH 3 FROM c', 'ROLLBACK' ], 3 ]);

foreach my $case (@cases)
{
	my ($name, $statements, $rows) = @$case;
	my $c = Steno::Client->new($node, application_name => $name);
	my $pid = $c->{pid};
	my @reads;

	$c->query($_) foreach @$statements;
	if ($name eq 'disconnection')
	{
		close $c->{socket};
		wait_until 'the session ends', sub { records($node, pid => $pid, kind => 'disconnect') };
	}
	else
	{
		$c->quit;
	}
	@reads = statements($node, pid => $pid, text => qr/^SELECT x FROM hidden/);
	is(scalar @reads, 1, "$name: one record of the read");
	is_deeply([ map { $_->{name} } @{ $reads[0]{relations} } ], ['public.hidden'], 'with its relation');
	is($reads[0]{outcome}, 'ok', 'its outcome');
	is($reads[0]{rows}, $rows, 'its rows') if defined $rows;
}

# A portal of the protocol, with a limit.
{
	my $c = Steno::Client->new($node, application_name => 'limited');
	my @reads;

	$c->query('BEGIN');
	$c->parse('', 'SELECT rd()')->bind_values('', '')->execute('', 4)->sync->finish;
	$c->query('ROLLBACK');
	$c->quit;
	@reads = statements($node, application => 'limited', text => qr/^SELECT x FROM hidden/);
	is_deeply([ map { "$_->{outcome} $_->{rows}" } @reads ], ['ok 4'], 'a portal with a limit');
}

# The client's pauses are not its work.
{
	my $c = Steno::Client->new($node, application_name => 'slow');
	my $r;

	$c->query($_) foreach 'BEGIN', 'DECLARE c CURSOR FOR SELECT slow(30)', 'FETCH 2 FROM c', 'SELECT pg_sleep(0.5)', 'FETCH 1 FROM c', 'COMMIT';
	$c->quit;
	$r = the_record($node, 'a slow one', application => 'slow', text => qr/^SELECT x \+/);
	cmp_ok($r->{duration_us}, '<', 400_000, 'the time between two rows is not in its duration');
	cmp_ok($r->{elapsed_us}, '>', 500_000, 'it is told apart');
}
verify_ok($node, 'the trail is whole');
gapless($node, 'no session has gaps');

done_testing();

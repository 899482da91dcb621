
# The in-flight entry of a session is that of one statement.  If a portal of the extended protocol has delivered rows when
# another statement takes the entry, a start record says so: a kill leaves no statement without any record whose rows a
# client has.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Test::More;

my $node = new_node('main', conf => "restart_after_crash = on\nsteno.start_after = -1\nsteno.log_parameter = on\n");

value($node, q{
CREATE TABLE read_one (i int);
INSERT INTO read_one SELECT generate_series(1, 10);
CREATE TABLE written (i int);
CREATE FUNCTION announced() RETURNS bool LANGUAGE plpgsql AS
	$$BEGIN RETURN (SELECT announced FROM steno.in_flight WHERE pid = pg_backend_pid()); END$$;
});

my $read = 'SELECT i FROM read_one WHERE i > $1::int';
my $insert = 'INSERT INTO written VALUES ($1::int) RETURNING i';

# A session, in which p is prepared.
sub session
{
	my ($name) = @_;
	my $c = Steno::Client->new($node, application_name => $name);

	$c->parse('p', $read)->sync->finish;
	return $c;
}

# A portal, by its parameter, is executed for so many rows.
sub run
{
	my ($c, $name, $rows) = @_;

	return $c->bind_values($name, 'p', length $name)->execute($name, $rows);
}

# The records of statements with parameters in a session, in the order of the statements: kind, parameter, outcome, rows.
sub recorded
{
	my ($name) = @_;

	return [
		map { join ' ', $_->{kind}, $_->{params}[0], $_->{outcome}, $_->{rows} // '-' }
		sort { $a->{statement} <=> $b->{statement} || $a->{kind} cmp $b->{kind} }
		  grep { $_->{params} } records($node, application => $name, kind => qr/^(statement|start)$/)
	];
}

# ---- sessions that end well: a start record more, and one record of the end ----

{
	my $c = session('well');
	my ($start, $end);

	$c->query('BEGIN');
	run($c, 'a', 2)->sync->finish;
	$c->query('SELECT 1');
	$c->execute('a', 3)->sync->finish;
	$c->query('SELECT 2');
	$c->put('C', "Pa\0")->sync->finish;
	run($c, 'bb', 0)->sync->finish;
	$c->query('SELECT 3');
	run($c, 'ccc', 7)->sync->finish;
	$c->bind_values('dddd', 'p', 4)->sync->finish;
	$c->query('COMMIT');
	$c->quit;
	is_deeply(
		recorded('well'),
		[ 'start 1 running 2', 'statement 1 ok 5', 'statement 2 ok 8', 'start 3 running 7', 'statement 3 ok 7', 'statement 4 ok 0' ],
		'a portal that waits while others run has a start record; not one that has ended, nor one that has delivered nothing');
	($start) = records($node, application => 'well', kind => 'start', rows => 2);
	($end) = statements($node, application => 'well', rows => 5);
	is_deeply([ @$start{qw(statement text portal prepared)} ], [ @$end{qw(statement text portal prepared)} ], 'the start of the statement');
	is_deeply($start->{relations}, $end->{relations}, 'with its relations');
	ok(!defined $start->{duration_us}, 'and without a duration');
	gapless($node, 'numbers without gaps');
}

# A writer makes start records of statements that run for long, unless they have one: a portal that takes the entry back
# says so.
{
	my $c = session('again');
	my $rows = sub { $_[0]->execute('o', 1)->sync->finish->{rows} };

	$c->query('BEGIN');
	$c->parse('o', 'SELECT i, announced() FROM read_one ORDER BY i');
	is_deeply($rows->($c->bind_values('o', 'o')), [ [ 1, 'f' ] ], 'no start record when it has the entry first');
	run($c, 'a', 3)->sync->finish;
	is_deeply($rows->($c), [ [ 2, 't' ] ], 'it has one when it has the entry again, after another portal, which has one, too');
	$c->query('COMMIT');
	$c->quit;
}

# ---- killed sessions ----

my %sessions = map { ($_ => session($_)) } qw(other turns closed unplanned pipeline);
my %recorded;
my $start = -s $node->logfile;

# another statement has run, and ended
{
	my $c = $sessions{other};

	$c->query('BEGIN');
	run($c, 'a', 3)->sync->finish;
	$c->query('SELECT 1');
}

# two portals by turns: the entry is that of the one that has run last
{
	my $c = $sessions{turns};

	$c->query('BEGIN');
	run($c, 'a', 3)->sync->finish;
	run($c, 'bb', 2)->sync->finish;
	$c->execute('a', 1)->sync->finish;
}

# one that was parked is closed, while another one has the entry
{
	my $c = $sessions{closed};

	$c->query('BEGIN');
	run($c, 'a', 3)->sync->finish;
	run($c, 'bb', 2)->sync->finish;
	$c->put('C', "Pa\0")->sync->finish;
}

# a statement fails before it could begin
{
	my $c = $sessions{unplanned};

	$c->query('BEGIN');
	$c->bind_values('a', 'p', 1)->sync->finish;
	$c->query('SAVEPOINT s');
	$c->execute('a', 3)->sync->finish;
	is($c->query('SELECT 1 / 0')->{sqlstate}, '22012', 'a statement that cannot be planned');
}

# what waits for its commit leaves the entry, too
{
	my $c = $sessions{pipeline};
	my $answered = 0;

	run($c, 'a', 3)->parse('i', $insert)->bind_values('', 'i', 2)->execute('')->execute('a', 1)->put('H', '')->send_all;
	while ($answered < 3)
	{
		my ($type) = $c->receive;

		die if $type eq 'E';
		$answered += $type =~ /[sC]/;
	}
}

# the query of a cursor: its FETCH does not name the table
my $cursor = Steno::Client->new($node, application_name => 'cursor');
$cursor->query($_) foreach 'BEGIN', "DECLARE c CURSOR FOR SELECT i FROM read_one", 'FETCH 2 FROM c', 'FETCH 1 FROM c';

# one that outlives its transaction
my $held = Steno::Client->new($node, application_name => 'held');
$held->query($_) foreach "DECLARE c CURSOR WITH HOLD FOR SELECT i FROM read_one", "DECLARE d CURSOR WITH HOLD FOR SELECT i FROM written",
  'MOVE 3 FROM c', 'FETCH 2 FROM c', 'FETCH 1 FROM c', 'MOVE ALL FROM d', 'FETCH 1 FROM d';

kill 'KILL', $sessions{other}{pid};
$node->wait_for_log(qr/all server processes terminated; reinitializing/, $start);
wait_until 'the server is back', sub { can_connect($node) };
wait_until 'the rings of before are drained', sub { scalar(my @files = ring_files($node)) == 1 };

is_deeply(recorded('other'), ['start 1 running 3'], 'killed after another statement: the rows that it had delivered');
is_deeply(
	recorded('turns'),
	[ 'start 1 running 3', 'start 2 running 2' ],
	'killed between two portals: what both had delivered');
is_deeply(
	[ map { "$_->{outcome} $_->{text}" } statements($node, application => 'turns', text => $read) ],
	["ok $read"], 'and the one that has run last waited for its client');
is_deeply(recorded('closed'), [ 'start 1 running 3', 'statement 1 ok 3' ], 'killed when the first of two portals was closed');
is_deeply([ map { $_->{outcome} } statements($node, application => 'closed', text => $read) ], [ 'ok', 'ok' ], 'and the second had waited');
is_deeply(
	[ map { $_->{outcome} } statements($node, application => 'unplanned', text => $read) ],
	['ok'], 'killed after a statement that could not be planned');
is_deeply(
	recorded('pipeline'),
	[ 'start 1 running 3', 'start 2 running 1' ],
	'killed in a pipeline that has written');
is_deeply(
	[ map { join ' ', $_->{kind}, $_->{outcome}, $_->{rows}, map { $_->{name} } @{ $_->{relations} } } records($node, application => 'cursor', class => 'read', depth => 1) ],
	['start running 2 public.read_one'], 'killed with an open cursor: its query has the relations');
is_deeply(
	[ map { join ' ', $_->{kind}, $_->{outcome}, $_->{rows}, map { $_->{name} } @{ $_->{relations} } } records($node, application => 'held', class => 'read', depth => 1) ],
	['start running 2 public.read_one'], 'killed with a held cursor: its query has them, if it has delivered rows');
verify_ok($node, 'the trail is whole');
$node->stop;
done_testing();

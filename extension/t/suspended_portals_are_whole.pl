
# Portals of the extended protocol that run in parts, by turns, or not to their end.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno::Client;
use Steno;
use Test::More;

# Portals of a session that are open at the same time have a record each, in whatever order they run
# or end.
{
	my $node = new_node('portals_run_in_turns', conf => 'steno.log_parameter = on');
	my $client = Steno::Client->new($node, application_name => 'portals');

	# What was recorded since the last call, sorted: text, rows, outcome, parameters.
	my $seen = 0;

	sub recorded
	{
		my @all = statements($node, application => 'portals');
		my @new = @all[ $seen .. $#all ];

		$seen = @all;
		return [
			sort { $a cmp $b } map {
				join ' ', $_->{text}, $_->{rows} // '-', $_->{outcome},
				  @{ $_->{params} // [] }
			} @new
		];
	}

	sub select_of
	{
		my ($name) = @_;

		return "SELECT '$name', i FROM generate_series(1, \$1::int) i";
	}

	$client->query('BEGIN');
	foreach my $name (qw(a b c))
	{
		$client->parse($name, select_of($name));
	}
	$client->sync->finish;
	recorded();

	# b takes the ring from a, and ends; c is staged then, and a ends before c
	$client->bind_values('a', 'a', 10)->execute('a', 2);
	$client->bind_values('b', 'b', 20)->execute('b', 3)->put('C', "Pb\0");
	$client->bind_values('c', 'c', 30)->execute('c', 4);
	$client->execute('a', 0)->put('C', "Pa\0");
	$client->execute('c', 1)->put('C', "Pc\0")->sync->finish;
	is_deeply(
		recorded(),
		[
			select_of('a') . ' 10 ok 10',
			select_of('b') . ' 3 ok 20',
			select_of('c') . ' 5 ok 30',
		],
		'portals that end in another order than they began in');

	# bound together before any of them runs
	$client->bind_values($_, $_, 5) foreach qw(a b c);
	$client->execute($_) foreach qw(c a b);
	$client->put('C', "P$_\0") foreach qw(b c a);
	$client->sync->finish;
	is_deeply(
		recorded(),
		[ map { select_of($_) . ' 5 ok 5' } qw(a b c) ],
		'portals that are bound together');

	# one fails while the others are open
	$client->query('SAVEPOINT before');
	recorded();
	$client->parse('d', 'SELECT 1 / (3 - i) FROM generate_series(1, 5) i');
	$client->bind_values('a', 'a', 10)->execute('a', 2);
	$client->bind_values('b', 'b', 20)->execute('b', 3)->put('C', "Pb\0");
	$client->bind_values('d', 'd')->execute('d', 1);
	$client->bind_values('c', 'c', 30)->execute('c', 4);
	$client->execute('d', 0)->sync->finish;
	$client->query('ROLLBACK');
	is_deeply(
		recorded(),
		[
			'ROLLBACK - ok',
			select_of('a') . ' 2 ok 10',
			select_of('b') . ' 3 ok 20',
			select_of('c') . ' 4 ok 30',
			'SELECT 1 / (3 - i) FROM generate_series(1, 5) i 1 error',
		],
		'a portal that fails while others are open');

	# nested statements belong to the portal that runs them, also if another portal began after it
	$node->safe_psql('postgres', q{CREATE FUNCTION says(t text) RETURNS text LANGUAGE plpgsql AS
	$$BEGIN EXECUTE format('SELECT /* in %s */ 1', t); RETURN t; END$$});
	$client->parse($_, "SELECT says('$_'), i FROM generate_series(1, 6) i") foreach qw(e f);
	$client->bind_values($_, $_)->execute($_, 1) foreach qw(e f);
	$client->execute($_, 1) foreach qw(e f e e f);
	$client->put('C', "P$_\0") foreach qw(e f);
	$client->sync->finish;
	{
		my %of;

		foreach my $name (qw(e f))
		{
			my $portal = the_record($node, "portal $name", kind => 'statement', depth => undef, text => "SELECT says('$name'), i FROM generate_series(1, 6) i");
			my @nested = records($node, kind => 'statement', depth => 1, text => "SELECT /* in $name */ 1");

			is_deeply([ map { $_->{statement} } @nested ], [ ($portal->{statement}) x @nested ], "what portal $name ran has its number");
			is_deeply([ sort { $a <=> $b } map { $_->{substatement} } @nested ], [ 1 .. ($name eq 'e' ? 4 : 3) ], 'and numbers of its own');
		}
	}

	# rows that FETCH passes over on its way are not delivered, nor those of MOVE
	$client->query('BEGIN');
	recorded();
	$client->bind_values('a', 'a', 40)->execute('a', 2)->sync->finish;
	is($client->query('FETCH ABSOLUTE 7 FROM a')->{rows}[0][1], '7', 'it has passed over four rows');
	$client->query('MOVE 3 FROM a');
	is($client->query('FETCH RELATIVE 2 FROM a')->{rows}[0][1], '12', 'over one more');
	$client->execute('a', 5)->sync->finish;
	$client->query('CLOSE a');
	is_deeply([ grep { /generate_series/ } @{ recorded() } ], [ select_of('a') . ' 9 ok 40' ], 'FETCH and MOVE in a portal');

	# an error of the query, in a FETCH
	$client->query('SAVEPOINT before');
	$client->bind_values('d', 'd')->execute('d', 1)->sync->finish;
	is($client->query('FETCH 5 FROM d')->{sqlstate}, '22012', 'the query of a portal fails in a FETCH');
	$client->query('ROLLBACK TO before');
	is_deeply([ grep { /^SELECT/ } @{ recorded() } ], ['SELECT 1 / (3 - i) FROM generate_series(1, 5) i 1 error'], 'it has failed');
	$client->query('ROLLBACK');

	# The record of a prepared statement that runs again and again is brief, and has its number from the in-flight entry.
	$client->parse('u', select_of('u'))->sync->finish;
	$client->bind_values('', 'u', $_)->execute('')->sync->finish foreach 1 .. 20;
	$client->query('BEGIN');
	$client->bind_values('a', 'a', 60)->execute('a', 2)->sync->finish;
	$client->bind_values('', 'u', 50)->execute('', 2)->sync->finish;
	$client->execute('a', 1)->sync->finish;
	$client->bind_values('', 'u', 51)->execute('', 2)->sync->finish;
	$client->query('COMMIT');
	{
		my %of = map { ($_->{params}[0] => $_->{statement}) } grep { ($_->{params} // [''])->[0] =~ /\A(50|51|60)\z/ } statements($node, application => 'portals');

		is_deeply([ map { $of{$_} - $of{60} } 50, 51 ], [ 1, 2 ], 'a portal that is closed while another has run last has its number');
	}

	$client->quit;
	gapless($node, 'numbers without gaps');
	verify_ok($node, 'the trail is whole');
}

# A portal of the extended protocol that a client leaves open keeps relations, parameters and
# rows in its record, however it ends: by an abort, a disconnect, a timeout, a kill of its session.
{
	my $node = new_node('suspended_portals_keep_what_they_read', conf => "steno.log_parameter = on\nsteno.log_nested = on\n");

	$node->safe_psql(
		'postgres', q{
	CREATE TABLE read_one (i int);
	INSERT INTO read_one SELECT generate_series(1, 10);
	CREATE FUNCTION reads() RETURNS bigint LANGUAGE plpgsql AS $$BEGIN RETURN (SELECT count(*) FROM pg_class); END$$;
	});

	sub gone
	{
		my ($c) = @_;

		wait_until 'the session is over', sub { !kill 0, $c->{pid} };
		return;
	}

	# How the session ends; what ends it comes after the portal has run.
	my %ends = (
		'ROLLBACK' => sub { $_[0]->query('ROLLBACK') },
		'ROLLBACK TO' => sub { $_[0]->query('ROLLBACK TO s'); $_[0]->query('COMMIT') },
		'a statement that fails' => sub { $_[0]->query('SELECT 1 / 0'); $_[0]->query('ROLLBACK') },
		'a statement that is no SQL' => sub { $_[0]->query('selec 1'); $_[0]->query('ROLLBACK') },
		'a Bind of its name' => sub { $_[0]->bind_values('portal', 'p', 2)->sync->finish; $_[0]->query('ROLLBACK') },
		'a FETCH backward' => sub { $_[0]->query('FETCH BACKWARD 1 FROM portal'); $_[0]->query('ROLLBACK') },
		'a FETCH backward in a subtransaction' => sub {
			$_[0]->query('SAVEPOINT t');
			$_[0]->query('FETCH ABSOLUTE 1 FROM portal');
			$_[0]->query('ROLLBACK TO t');
			$_[0]->query('COMMIT');
		},
		'a FETCH backward that a function catches' => sub {
			$_[0]->query(q{DO $$DECLARE c refcursor := 'portal'; x int;
				BEGIN FETCH BACKWARD FROM c INTO x; EXCEPTION WHEN object_not_in_prerequisite_state THEN NULL; END$$});
			$_[0]->query('COMMIT');
		},
		'a disconnect' => sub { },
		'idle_in_transaction_session_timeout' => sub {
			$_[0]->query(q{SET idle_in_transaction_session_timeout = '10ms'});
			gone($_[0]);
		},
		'pg_terminate_backend' => sub {
			value($node, "SELECT pg_terminate_backend($_[0]->{pid})");
			gone($_[0]);
		},
	);

	# Texts, and how often the portal is executed.  A text with a function has nested statements; a long
	# one does not fit the ring at once.  Prepared statements have a generic plan after some executions.
	my %texts = (
		'a query' => 'SELECT i FROM read_one WHERE i > $1::int',
		'one with nested statements' => 'SELECT i FROM read_one WHERE i > $1::int AND reads() > 0',
		'a long one' => 'SELECT i FROM read_one WHERE i > $1::int AND $$' . ('some long text ' x 20000) . "\$\$ <> ''",
	);
	my $session = 0;

	foreach my $what (sort keys %texts)
	{
		foreach my $end (sort keys %ends)
		{
			foreach my $earlier (0, 8)
			{
				my $name = 'session ' . ++$session;
				my $c = Steno::Client->new($node, application_name => $name);

				$c->parse('p', $texts{$what})->sync->finish;
				$c->bind_values('', 'p', 100)->execute('', 0)->sync->finish foreach 1 .. $earlier;
				$c->query('BEGIN');
				$c->query('SAVEPOINT s');
				# a simple query would end the unnamed one
				my $portal = $end eq 'a disconnect' || $end eq 'pg_terminate_backend' ? '' : 'portal';
				$c->bind_values($portal, 'p', 2)->execute($portal, $earlier ? 0 : 3)->sync->finish;
				$ends{$end}->($c);
				$c->quit;
				gone($c);
				my @r = grep { ($_->{params} // [''])->[0] eq '2' } statements($node, application => $name);
				is_deeply(
					[ map { [ $_->{outcome}, $_->{rows}, map { $_->{name} } @{ $_->{relations} // [] } ] } @r ],
					[ [ 'ok', $earlier ? 8 : 3, 'public.read_one' ] ],
					"$what, after $earlier others, ended by $end");
				is($r[0]{text}, $texts{$what}, 'with its text');
			}
		}
	}
	gapless($node, 'numbers without gaps');
	verify_ok($node, 'the trail is whole');
	$node->stop;
}

done_testing();

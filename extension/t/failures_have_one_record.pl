
# Each failure that the client was told of has one record: also if the server dies while it reports
# the failure, if no statement is running, after a commit, and in deferred work.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno::Client;
use Steno::Faults;
use Steno;
use Test::More;

# A server that dies while a session still sends its client the report of a failure:
# the failed statement has one record, and the end of the session another.  Statements that
# notice it while they run end without an error.
{
	my @asleep;

	my $node = new_node('failures_have_one_record');

	$node->safe_psql(
		'postgres', q{
	CREATE FUNCTION shout() RETURNS void LANGUAGE plpgsql AS
		$$BEGIN RAISE EXCEPTION '%', repeat('e', 2000000); END$$});

	# more than the sockets between take, and nobody reads
	my $c = Steno::Client->new($node, application_name => 'deaf');
	$c->put('Q', "SELECT shout()\0")->send_all;
	wait_until 'the failure is recorded', sub { scalar statements($node, application => 'deaf') };
	is($node->safe_psql('postgres', q{SELECT wait_event FROM pg_stat_activity WHERE application_name = 'deaf'}),
		'ClientWrite', 'its report is being sent');
	foreach my $sql ('SELECT pg_sleep(1000)', q{DO $$BEGIN PERFORM pg_sleep(1000); END$$})
	{
		my $sleeper = Steno::Client->new($node, application_name => 'asleep');

		$sleeper->put('Q', "$sql\0")->send_all;
		push @asleep, $sleeper;
	}
	wait_until 'they sleep', sub { value($node, q{SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'}) eq '2' };
	$node->kill9;
	foreach my $client ($c, @asleep)
	{
		wait_until 'the session ends', sub { !kill 0, $client->{pid} };
	}
	$node->start;
	wait_until 'earlier rings are drained', sub { scalar(my @files = ring_files($node)) == 1 };

	is_deeply(
		[ map { [ @$_{qw(text outcome sqlstate)} ] } statements($node, application => 'deaf') ],
		[ [ 'SELECT shout()', 'error', 'P0001' ] ],
		'the statement has failed once');
	is(the_record($node, 'the end of the session', kind => 'disconnect', application => 'deaf')->{sqlstate},
		'57P01', 'and tells of the server');
	is_deeply(
		[ sort map { join ' ', @$_{qw(text outcome)}, $_->{sqlstate} // 'none', $_->{message} // 'none' }
			statements($node, application => 'asleep') ],
		[
			q{DO $$BEGIN PERFORM pg_sleep(1000); END$$ interrupted none none},
			'SELECT pg_sleep(1000) interrupted none none'
		],
		'what ran is interrupted');
	gapless($node, 'no session has gaps');
	$node->stop;
	verify_ok($node, 'the trail is whole');
}

# An error that the client gets has a record, also when no statement is at hand: a prepared statement or
# a portal that is not there, and a timeout that is served after its statement has ended.
{
	my $node = new_node('failures_without_text_are_recorded');

	my $c = Steno::Client->new($node, application_name => 'messages');
	is($c->bind_values('', 'nothing')->sync->finish->{sqlstate}, '26000', 'a statement that is not there');
	is($c->execute('nothing')->sync->finish->{sqlstate}, '34000', 'a portal that is not there');
	is($c->put('D', "Pnothing\0")->sync->finish->{sqlstate}, '34000', 'described');
	$c->query('SELECT 1');
	$c->quit;
	is_deeply(
		[ map { join ' ', $_->{class}, $_->{outcome}, $_->{sqlstate} // '', $_->{text} // '-' } statements($node, application => 'messages') ],
		[ 'error error 26000 -', 'error error 34000 -', 'error error 34000 -', 'read ok  SELECT 1' ],
		'each has a record');

	# The server does not check for interrupts between the last row and the end of the message; wherever an
	# interrupt is served, the client and the trail get the same errors.
	$c = Steno::Client->new($node, application_name => 'timeouts');
	my @told;

	$c->query(q{SET statement_timeout = '100ms'});
	foreach my $mb (20, 50, 100, 200)
	{
		my $sql = "SELECT length(sha512(convert_to(repeat(repeat('x', 1000), $mb * \$1::int), 'UTF8')))";
		my $answer = $c->parse('', $sql)->bind_values('', '', 1000)->execute('', 1)->sync->finish;

		push @told, $answer->{sqlstate} if $answer->{sqlstate};
	}
	# an error in between statements comes with the next one's answer
	for (1 .. 3)
	{
		my $answer = $c->put('S', '')->finish;

		push @told, $answer->{sqlstate} if $answer->{sqlstate};
	}
	$c->quit;
	wait_until 'the session is over', sub { !kill 0, $c->{pid} };
	is_deeply(
		[ map { $_->{sqlstate} } grep { $_->{outcome} eq 'error' } statements($node, application => 'timeouts') ],
		\@told, 'a timeout has one record') or diag(scalar @told);

	gapless($node, 'numbers without gaps');
	verify_ok($node, 'the trail is whole');
	$node->stop;
}

# A statement_timeout that fires after the last check of its statement, and is served after the
# commit, is an error that the client gets: it has a record, and the statement, which has
# succeeded, has another one.
{
	my $faults = Steno::Faults->new;
	my $node = new_node('errors_after_a_commit_are_recorded', start => 0);

	$faults->start($node);
	value($node, 'CREATE EXTENSION pg_steno');
	$node->safe_psql('postgres', "SET allow_in_place_tablespaces = on;\nCREATE TABLESPACE dropped LOCATION ''");

	my $c = Steno::Client->new($node, application_name => 'dropping');
	my $answer;

	# DROP TABLESPACE removes folders after its last check for interrupts.
	$c->query(q{SET statement_timeout = '1h'});
	$faults->set('hold_rmdir');
	$c->put('Q', "DROP TABLESPACE dropped\0")->send_all;
	wait_until 'it removes folders', sub { $faults->is_set('holding.rmdir') };

	# The timer fires an hour later.
	$faults->set('clock_of_all', '7200');
	kill 'ALRM', $c->{pid} or die;
	wait_until 'it has heard of it', sub { slurp_file("/proc/$c->{pid}/status") !~ /^(?:SigPnd|ShdPnd):\s*0*[1-9a-f]/m };
	$faults->unset('clock_of_all');
	$faults->unset('hold_rmdir');

	$answer = $c->finish;
	is_deeply([ $answer->{tags}, $answer->{sqlstate} ], [ ['DROP TABLESPACE'], undef ], 'it has committed');
	$answer = $c->query("SELECT 'next'");
	is($answer->{sqlstate}, '57014', 'the timeout is the answer to the next message, which is not looked at');
	is($c->query("SELECT 'after'")->{rows}[0][0], 'after', 'then the session goes on');
	is(value($node, q{SELECT count(*) FROM pg_tablespace WHERE spcname = 'dropped'}), 0, 'the tablespace is gone');
	$c->quit;
	wait_until 'the session is over', sub { !kill 0, $c->{pid} };
	is_deeply(
		[ map { join ' ', $_->{class}, $_->{command} // '-', $_->{outcome}, $_->{sqlstate} // '-', $_->{text} // '-' }
			grep { ($_->{command} // '') ne 'SET' } sort { $a->{seq} <=> $b->{seq} } statements($node, application => 'dropping') ],
		[ 'ddl DROP TABLESPACE ok - DROP TABLESPACE dropped', 'error - error 57014 -', q{read SELECT ok - SELECT 'after'} ],
		'each has its record');
	gapless($node, 'numbers without gaps');
	$node->stop;
	verify_ok($node, 'the trail is whole');
}

# What runs at a commit belongs to no statement of the client: when it fails, the commit
# has the record of the failure, whether the query was planned already or not.
{
	my $node = new_node('deferred_work_that_fails');

	$node->safe_psql(
		'postgres', q{
	CREATE TABLE t (a int CHECK (a < 100));
	CREATE FUNCTION cannot_be_planned() RETURNS trigger LANGUAGE plpgsql AS
		$$BEGIN INSERT INTO t VALUES (1 / 0); RETURN NULL; END$$;
	CREATE FUNCTION cannot_be_run() RETURNS trigger LANGUAGE plpgsql AS
		$$BEGIN INSERT INTO t VALUES (200); RETURN NULL; END$$;
	CREATE TABLE planned (a int);
	CREATE TABLE run (a int);
	CREATE CONSTRAINT TRIGGER late AFTER INSERT ON planned DEFERRABLE INITIALLY DEFERRED
		FOR EACH ROW EXECUTE FUNCTION cannot_be_planned();
	CREATE CONSTRAINT TRIGGER late AFTER INSERT ON run DEFERRABLE INITIALLY DEFERRED
		FOR EACH ROW EXECUTE FUNCTION cannot_be_run();
	});

	foreach my $case (
		[ 'planned', '22012', 'INSERT INTO t VALUES (1 / 0)' ],
		[ 'run', '23514', 'INSERT INTO t VALUES (200)' ])
	{
		my ($table, $code, $inside) = @$case;

		foreach my $nested (qw(on off))
		{
			my $name = "$table $nested";
			my $client = Steno::Client->new($node, application_name => $name);

			$client->query("SET steno.log_nested = $nested");
			$client->query('BEGIN');
			$client->query("INSERT INTO $table VALUES (1)");
			is($client->query('COMMIT')->{sqlstate}, $code, "$name: the commit fails");
			$client->query('SELECT 1');
			$client->quit;
			my @r = grep { $_->{text} !~ /^SET/ } statements($node, application => $name);

			is_deeply(
				[ sort map { join(' ', $_->{depth} // 0, $_->{outcome}, $_->{text}) } grep { $_->{outcome} eq 'error' } @r ],
				[ '0 error COMMIT', $nested eq 'on' ? "1 error $inside" : () ],
				"$name: what has failed");
			is($r[-1]{text}, 'SELECT 1', "$name: the next statement");
		}
	}

	gapless($node, 'numbers without gaps');
	verify_ok($node, 'the trail is whole');
}

done_testing();

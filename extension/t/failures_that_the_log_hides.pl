
# With log_min_messages = panic, no hook is called for errors.  The failure of a statement that has
# started to run is recorded nevertheless, and later statements are recorded as usual.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Test::More;

my $node = new_node('main', conf => "log_min_messages = panic\nsteno.log_nested = off\n");

$node->safe_psql(
	'postgres', q{
CREATE TABLE t (a int CHECK (a < 100));
CREATE TABLE forbidden (a int);
CREATE ROLE nobody;
GRANT nobody TO CURRENT_USER;
CREATE FUNCTION planned() RETURNS int LANGUAGE plpgsql AS
	$$BEGIN INSERT INTO t VALUES (1 / 0); RETURN 1; END$$;
CREATE FUNCTION executed() RETURNS int LANGUAGE plpgsql AS
	$$BEGIN INSERT INTO t VALUES (200); RETURN 1; END$$;
CREATE FUNCTION raised_again() RETURNS int LANGUAGE plpgsql AS
	$$BEGIN INSERT INTO t VALUES (300); RETURN 1; EXCEPTION WHEN OTHERS THEN RAISE; END$$;
CREATE FUNCTION caught() RETURNS int LANGUAGE plpgsql AS
	$$BEGIN INSERT INTO t VALUES (400); RETURN 1; EXCEPTION WHEN OTHERS THEN RETURN 2; END$$;
CREATE PROCEDURE rolls_back() LANGUAGE plpgsql AS
	$$BEGIN INSERT INTO t VALUES (1); ROLLBACK; INSERT INTO t VALUES (2); PERFORM caught(); ROLLBACK; END$$;
});

# The records of a new session that sends these, each a message: depth, outcome,
# SQLSTATE, command or text.
my $sessions = 0;

sub recorded
{
	my ($send) = @_;
	my $name = 'session ' . ++$sessions;
	my $client = Steno::Client->new($node, application_name => $name);

	$send->($client);
	$client->quit;
	return [
		map { join ' ', $_->{depth} // 0, $_->{outcome}, $_->{sqlstate} // '-', $_->{text} }
		  statements($node, application => $name)
	];
}

sub both
{
	my ($way, $send) = @_;

	foreach my $case (
		[ 'SELECT a / 0 FROM generate_series(1, 2) a', '22012' ],
		[ 'SELECT planned()', '22012' ],
		[ 'SELECT executed()', '23514' ],
		[ 'SELECT raised_again()', '23514' ],
		[ 'INSERT INTO t VALUES (500)', '23514' ],
		[ 'DO $$BEGIN PERFORM executed(); END$$', '23514' ],
		[ 'DO $$BEGIN PERFORM raised_again(); END$$', '23514' ])
	{
		my ($sql, $code) = @$case;

		is_deeply(
			recorded(
				sub {
					my ($client) = @_;

					is($send->($client, $sql)->{sqlstate}, $code, "$way: $sql fails");
					$send->($client, 'SELECT 1 AS afterwards');
					$send->($client, 'INSERT INTO t VALUES (3)');
				}),
			[
				"0 error $code $sql",
				'0 ok - SELECT 1 AS afterwards',
				'0 ok - INSERT INTO t VALUES (3)'
			],
			"$way: $sql");
	}
	return;
}

both('a simple query', sub { $_[0]->query($_[1]) });
both('the extended protocol', sub { $_[0]->extended($_[1]) });

# a plan that is made for one set of parameters goes with its transaction
is_deeply(
	recorded(
		sub {
			my ($client) = @_;

			$client->query('SET ROLE nobody');
			$client->extended('INSERT INTO forbidden VALUES ($1::int)', 7);
			$client->extended('SELECT a FROM forbidden WHERE a = $1::int', 7);
			$client->query('RESET ROLE');
		}),
	[
		'0 ok - SET ROLE nobody',
		'0 error 42501 INSERT INTO forbidden VALUES ($1::int)',
		'0 error 42501 SELECT a FROM forbidden WHERE a = $1::int',
		'0 ok - RESET ROLE'
	],
	'queries that may not be run, with parameters');

# after a savepoint, the transaction goes on
is_deeply(
	recorded(
		sub {
			my ($client) = @_;

			$client->query($_)
			  foreach 'BEGIN', 'SAVEPOINT s', 'SELECT a / 0 FROM generate_series(1, 2) a', 'ROLLBACK TO s',
			  'SELECT 1 AS afterwards', 'SAVEPOINT s', 'DO $$BEGIN PERFORM executed(); END$$', 'ROLLBACK TO s', 'COMMIT';
		}),
	[
		'0 ok - BEGIN',
		'0 ok - SAVEPOINT s',
		'0 error 22012 SELECT a / 0 FROM generate_series(1, 2) a',
		'0 ok - ROLLBACK TO s',
		'0 ok - SELECT 1 AS afterwards',
		'0 ok - SAVEPOINT s',
		'0 error 23514 DO $$BEGIN PERFORM executed(); END$$',
		'0 ok - ROLLBACK TO s',
		'0 ok - COMMIT'
	],
	'after a savepoint');

# a procedure that rolls back has not failed, whatever was caught in it
is_deeply(
	recorded(
		sub {
			my ($client) = @_;

			$client->query('CALL rolls_back()');
			$client->query('SELECT 1 AS afterwards');
		}),
	[ '0 ok - CALL rolls_back()', '0 ok - SELECT 1 AS afterwards' ],
	'a procedure that rolls back');

# a session that is terminated
{
	my $client = Steno::Client->new($node, application_name => 'terminated');

	$client->put(Q => "DO 'BEGIN PERFORM pg_sleep(1000); END'\0")->send_all;
	wait_until('it sleeps',
		sub { value($node, q{SELECT count(*) FROM pg_stat_activity WHERE application_name = 'terminated' AND wait_event = 'PgSleep'}) });
	value($node, q{SELECT pg_terminate_backend(pid, 180000) FROM pg_stat_activity WHERE application_name = 'terminated'});
	is_deeply(
		[ map { "$_->{outcome} $_->{sqlstate}" } statements($node, application => 'terminated') ],
		['error 57P01'], 'a statement whose session is terminated');
}

# a login that is refused behind the authentication looks like a session: dossiers and reports say that they cannot know
{
	my ($code, $out, $err);

	value($node, 'CREATE ROLE refused LOGIN');
	isnt($node->psql('postgres', 'SELECT 1', extra_params => [ '-d', $node->connstr('nowhere') . ' user=refused' ]), 0, 'a login is refused');
	isnt($node->psql('postgres', 'SELECT 1', extra_params => [ '-d', $node->connstr('postgres') . ' user=missing' ]), 0, 'and another one');
	flush($node);
	foreach my $who ('refused', 'missing')
	{
		($code, $out, $err) = steno_result('review', 'person', '--user', $who, trail($node));
		is($code, 0, "review person $who") or diag($err);
		like($out, qr/^REFUSED LOGINS\n  None was recorded\. Refused logins may have no record: log_min_messages = "panic" throughout\.\n/m, '... does not say that there was none');
		like($out, qr/^FAILURES\n  None was recorded\. Statements that failed before they were planned may have no record: log_min_messages = "panic"/m, '... nor of failures');
	}
	($code, $out, $err) = steno_result('review', 'person', '--user', 'refused', trail($node));
	like($out, qr/^SESSIONS\n  A login that the server refused after it had authenticated the user may look like a session that did nothing: log_min_messages = "panic"/m, 'nor that it was a session');
	($code, $out, $err) = steno_result('report', '--format', 'markdown', trail($node));
	like($out, qr/Refused logins may have no record, and some then look like a login: log.{0,2}_min.{0,2}_messages = "panic" throughout/, 'so does a report') or diag($err);
}

gapless($node, 'numbers without gaps');
verify_ok($node, 'the trail is whole');
done_testing();

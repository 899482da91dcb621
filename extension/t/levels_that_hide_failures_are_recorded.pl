
# A session whose log_min_messages hides failures from the server's log, and so from the trail, has a record of that,
# however the value was set.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Test::More;

my $node = new_node('main');
my $runs = 0;
my $fails = 'SELECT * FROM nowhere';

sub changes
{
	return [
		map { [ @{ $_->{extra} }{qw(old new source)} ] }
		  sort { $a->{seq} <=> $b->{seq} }
		  grep { $_->{extra}{name} eq 'log_min_messages' } records($node, kind => 'setting', @_)
	];
}

# What the statements of a new session change; their failures are expected.
sub run
{
	my ($sql, %o) = @_;
	my $name = 'run ' . ++$runs;
	my $c = Steno::Client->new($node, application_name => $name, %o);

	foreach (@$sql)
	{
		my $state = $c->query($_)->{sqlstate};
		die "$_: $state" if defined $state && $_ ne $fails && !/doomed/;
	}
	$c->quit;
	return changes(application => $name);
}

my @set = ([ 'warning', 'panic', 'session' ]);
my @reset = (@set, [ 'panic', 'warning', 'session' ]);

is_deeply(run([ 'SELECT 1', 'SET log_min_messages = error', 'SET log_min_messages = debug1', 'RESET log_min_messages' ]),
	[], 'levels that hide nothing have no record');
is_deeply(run([ 'SET log_min_messages = panic', $fails ]), \@set, 'SET');
is_deeply(run([ 'SET log_min_messages = panic', $fails, 'RESET log_min_messages', $fails ]), \@reset, 'SET and RESET');
is_deeply(run([ 'SET log_min_messages = log', $fails ]), [ [ 'warning', 'log', 'session' ] ], 'LOG is higher than ERROR');
is_deeply(run([ q{SET U&"log\005Fmin\005Fmessages" = 'panic'}, $fails ]), \@set, 'a name with escapes');
is_deeply(run([ q{SELECT set_config('log_min_' || 'messages', 'panic', false)}, $fails ]), \@set, 'set_config()');
is_deeply(run([ q{UPDATE pg_settings SET setting = 'panic' WHERE name ~ '^log_min_m'}, $fails ]), \@set, 'pg_settings');
is_deeply(run([ q{DO $$ BEGIN EXECUTE 'SET log_' || 'min_messages = panic'; END $$}, $fails ]), \@set, 'DO');
is_deeply(run([ 'BEGIN', 'SET LOCAL log_min_messages = panic', $fails, 'ROLLBACK', 'SELECT 1' ]), \@reset, 'SET LOCAL');
is_deeply(run([ 'BEGIN', 'SET log_min_messages = panic', 'ROLLBACK' ]), \@reset, 'what is taken back');
is_deeply(
	run([ 'SET log_min_messages = fatal', 'SET log_min_messages = panic', 'SET log_min_messages = debug1' ]),
	[ [ 'warning', 'fatal', 'session' ], [ 'fatal', 'panic', 'session' ], [ 'panic', 'debug1', 'session' ] ],
	'one level after the other');
is_deeply(run([ ('SET log_min_messages = panic') x 3 ]), \@set, 'the same level again has no record');
is_deeply(
	run([ 'SET log_min_messages = panic', q{SELECT set_config('log_min_messages', 'debug1', false), set_config('log_min_messages', 'fatal', false)} ]),
	[ @set, [ 'panic', 'fatal', 'session' ] ], 'one that nothing came between');

value($node, <<'SQL');
CREATE FUNCTION quiet() RETURNS int LANGUAGE plpgsql SET log_min_messages = panic AS $$ BEGIN RETURN 1; END $$;
CREATE FUNCTION doomed() RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN PERFORM set_config('log_min_' || 'messages', 'panic', false); RAISE 'hidden'; END $$;
CREATE FUNCTION brief() RETURNS int LANGUAGE internal SET log_min_messages = panic AS 'pg_backend_pid';
CREATE ROLE evil SUPERUSER LOGIN;
CREATE ROLE granted LOGIN;
GRANT SET ON PARAMETER log_min_messages TO granted;
SQL
is_deeply(run([ 'SELECT quiet()' ]), \@reset, 'a function with the setting');
is_deeply(run([ 'SELECT brief()' ]), \@reset, 'a function in which no statement runs');
is_deeply(run([ 'SELECT doomed()' ]), \@reset, 'a function that the planner calls, and that fails');
is_deeply(run([ 'SET log_min_messages = panic', $fails ], user => 'granted'), \@set, 'a role that may');
is_deeply(run([ $fails ], options => '-c log_min_messages=panic'), [ [ 'warning', 'panic', 'connection' ] ], 'the connection');
value($node, 'ALTER ROLE evil SET log_min_messages = panic');
is_deeply(run([ $fails ], user => 'evil'), [ [ 'warning', 'panic', 'role' ] ], 'the role, and nothing but failures');
is_deeply(run([ 'SELECT count(*) FROM generate_series(1, 10)' ], user => 'granted'), [], 'other sessions');

# it is there while the session goes on, before it has run anything
my $c = Steno::Client->new($node, application_name => 'idle', user => 'evil');
flush($node);
is_deeply(changes(application => 'idle'), [ [ 'warning', 'panic', 'role' ] ], 'a session that has run nothing');
$c->quit;

# the record of what a statement has hidden is of the time before its failure
$c = Steno::Client->new($node, application_name => 'late');
$c->query('SELECT 1');
my $before = value($node, 'SELECT now()');
$c->query('SELECT doomed()');
my $after = value($node, 'SELECT clock_timestamp()');
$c->query('SELECT 2');
$c->quit;
my ($hid, $shown) = sort { $a->{seq} <=> $b->{seq} } records($node, kind => 'setting', application => 'late');
is(value($node, "SELECT '$hid->{time}'::timestamptz BETWEEN '$before' AND '$after'"), 't', 'the time of the assignment');
is(value($node, "SELECT '$shown->{time}'::timestamptz > '$after'::timestamptz"), 't', 'until a statement was seen again');
is(scalar(grep { ($_->{text} // '') =~ /nowhere/ } records($node)), 1, 'only the failure after a RESET was seen');

# of several levels in one statement, the record has the last one, and the time of the first
$c = Steno::Client->new($node, application_name => 'twice');
my $times = $c->query(
	q{SELECT set_config('log_min_messages', 'panic', false), pg_sleep(0.01), clock_timestamp(), set_config('log_min_messages', 'fatal', false)});
$c->quit;
flush($node);
my ($twice) = records($node, kind => 'setting', application => 'twice');
is_deeply(changes(application => 'twice'), [ [ 'warning', 'fatal', 'session' ] ], 'two levels in one statement');
is(value($node, "SELECT '$twice->{time}'::timestamptz < '$times->{rows}[0][2]'::timestamptz"), 't', 'since the first one');

# what the server's configuration sets is no session's
my $idle = Steno::Client->new($node, application_name => 'waits');
my $busy = Steno::Client->new($node, application_name => 'works');
$_->query('SELECT 1') foreach $idle, $busy;
foreach my $level (qw(fatal warning))
{
	value($node, $_) foreach "ALTER SYSTEM SET log_min_messages = $level", 'SELECT pg_reload_conf()';
	wait_until("it is $level", sub { $busy->query('SELECT 1'); value($node, 'SHOW log_min_messages') eq $level });
	wait_until('its record is there', sub { grep { $_->[1] eq $level && $_->[2] eq 'server' } @{ changes() } });
}
$_->query('SELECT 2') foreach $idle, $busy;
$_->quit foreach $idle, $busy;
flush($node);
is_deeply(changes(application => $_), [], "a session that $_ while the server's value changes") foreach qw(waits works);
is_deeply(
	[ map { $_->[1] } grep { $_->[2] eq 'server' } @{ changes() } ], [ 'fatal', 'warning' ], 'the server has its own records');

# whoever reads the start record knows that texts need not be searched
my ($start) = grep { $_->{event} eq 'start' } map { $_->{extra} } records($node, kind => 'server');
is($start->{log_min_messages_of_sessions}, 'recorded', 'the record of the start says so');

done_testing();

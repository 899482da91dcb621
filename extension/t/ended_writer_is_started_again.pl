
# A writer ends while the server keeps running: the postmaster starts it again, no record is lost or
# duplicated, and views, log, alert and trail report it.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Test::More;

my $base = PostgreSQL::Test::Utils::tempdir();
my $node = new_node(
	'main', conf => qq{
steno.writers = 2
steno.ring_size = 16kB
steno.large_buffers = 0
steno.flush_interval = 20ms
steno.alert_command = 'echo %e %s %m >>$base/alerts'
});
my $watch = Steno::Client->new($node, application_name => 'watch');
my $numbers = 0;

$watch->query(q{SET steno.log = 'none'});

sub pid_of
{
	return $watch->value("SELECT pid FROM steno.writers WHERE writer = $_[0]") // 0;
}

sub run_numbers
{
	my ($n, @sessions) = @_;

	foreach (1 .. $n)
	{
		my $answer = $sessions[ $_ % @sessions ]->query("SELECT 'number " . ++$numbers . "', '" . filler(200) . "'");

		die "number $numbers: $answer->{message}" if $answer->{sqlstate};
	}
	return;
}

# Ended by a signal, and started again.
sub end
{
	my ($writer) = @_;
	my $pid = pid_of($writer);

	kill 'TERM', $pid or die "could not end writer $writer: $!";
	wait_until "writer $writer is another process",
	  sub { my $now = pid_of($writer); $now != 0 && $now != $pid };
	return $pid;
}

my @sessions = Steno::Client->of_both_writers($node, $watch, application_name => 'numbers');
my $start = -s $node->logfile;

# Each of them, one after the other, under load, also while a session waits for the disk.
foreach my $round (1 .. 3)
{
	foreach my $writer (0, 1)
	{
		my $pid = pid_of($writer);

		run_numbers(40, @sessions);
		kill 'TERM', $pid;
		run_numbers(400, @sessions);
		wait_until 'it runs again', sub { my $now = pid_of($writer); $now != 0 && $now != $pid };
	}
}
$watch->value('SELECT steno.flush()');
is($watch->value('SELECT state FROM steno.status'), 'ok', 'all writers run');
numbers_are_there($node, 'after writers have ended', 1, $numbers);
gapless($node, 'and the numbers of sessions are without gaps');
verify_ok($node, 'the trail is whole');

my @restarts = records($node, kind => 'server');
is(scalar(grep { ($_->{extra}{event} // '') eq 'start' } @restarts), 1, 'the server has started once');
is(scalar(grep { ($_->{extra}{event} // '') eq 'stop' } @restarts), 0, 'and not stopped');
@restarts = grep { ($_->{extra}{event} // '') eq 'restart' } @restarts;
is(join(' ', sort map { $_->{extra}{writer} } @restarts), '0 0 0 1 1 1', 'the trail says which writers were started again');
like($restarts[0]{extra}{since}, qr/^\d{4}-\d\d-\d\dT[\d:]{8}Z$/, 'and since when they were gone');

my $log = slurp_file($node->logfile, $start);
is(scalar(() = $log =~ /LOG:  terminating steno writer due to administrator command/g), 6, 'the log says that they end');
is(scalar(() = $log =~ /LOG:  steno writer \d is running again after /g), 6, 'and that they are there again');
is(scalar(() = slurp_file("$base/alerts") =~ /^restart [01] writer [01] was not running for /mg), 6, 'and so does the alert');

# What happens without it: the postmaster is stopped, so that it does not start it again.
{
	my $postmaster = $node->{_pid};
	my $pid = pid_of(1);
	my @of_1 = grep { $watch->value("SELECT writer FROM steno.rings WHERE pid = $_->{pid}") == 1 } @sessions;
	my ($c, $flushing) = @of_1;

	$start = -s $node->logfile;
	stop_process($postmaster);
	kill 'TERM', $pid;
	wait_until 'it is gone', sub { pid_of(1) == 0 };
	is($watch->value('SELECT state FROM steno.status'), 'not running', 'the state says that one is not running');
	is($watch->value('SELECT failure FROM steno.status'), 'writer 1 is not running', 'and which');
	is($watch->value(q{SELECT string_agg(state, ', ' ORDER BY writer) FROM steno.writers}), 'ok, not running', 'the other one is');
	is($watch->value('SELECT state_since IS NOT NULL FROM steno.writers WHERE writer = 1'), 't', 'since when it is not');
	run_numbers(3, $c);
	wait_until 'reported in the log',
	  sub { slurp_file($node->logfile, $start) =~ /WARNING:  steno writer 1 is not running/ };
	wait_until 'and the alert', sub { slurp_file("$base/alerts") =~ /^writer_gone 1 writer 1 is not running$/m };
	is($flushing->query('SELECT steno.flush()')->{message},
		'steno writer 1 is not running', 'nobody waits for its answer for ever');

	# sessions with a full ring wait, as for a slow writer
	$c->put('Q', "SELECT 'number " . ++$numbers . "', '" . 'x' x 40000 . "'\0")->send_all;
	wait_until 'it waits', sub { $watch->value("SELECT wait_event FROM pg_stat_activity WHERE pid = $c->{pid}") eq 'StenoRingFull' };
	$flushing->put('Q', "BEGIN; SET LOCAL steno.sync = 'write'; CREATE TABLE waited (); INSERT INTO waited DEFAULT VALUES; COMMIT\0")
	  ->send_all;
	wait_until 'it waits',
	  sub { $watch->value("SELECT wait_event FROM pg_stat_activity WHERE pid = $flushing->{pid}") =~ /^Steno/ };
	continue_process($postmaster);
	ok(!$c->finish->{sqlstate}, 'a statement that waited for space continues');
	ok(!$flushing->finish->{sqlstate}, 'and so does one that waited for the disk');
	wait_until 'all is well again', sub { $watch->value('SELECT state FROM steno.status') eq 'ok' };
	is(scalar(() = slurp_file($node->logfile, $start) =~ /WARNING:  steno writer 1 is not running/g), 1, 'the log said so once');
	numbers_are_there($node, 'after an absence', 1, $numbers);
	verify_ok($node, 'the trail is whole');
}

# A reload that writer 0 does not see is recorded all the same, and comes into force.
{
	my $postmaster = $node->{_pid};
	my $pid = pid_of(0);

	$watch->value('ALTER SYSTEM SET steno.log_rows = off');
	stop_process($postmaster);
	kill 'HUP', $postmaster;
	kill 'TERM', $pid;
	wait_until 'it is gone', sub { pid_of(0) == 0 };
	continue_process($postmaster);
	wait_until 'it runs again', sub { pid_of(0) != 0 };
	wait_until 'the change is in force', sub { $watch->value('SHOW steno.log_rows') eq 'off' };
	$watch->value('SELECT steno.flush()');
	is( join(' ', map { "$_->{extra}{old} $_->{extra}{new}" }
		  grep { ($_->{extra}{name} // '') eq 'steno.log_rows' } records($node, kind => 'setting')),
		'on off', 'a reload that came meanwhile is recorded once');
}

# A writer that cannot open any file does not take its end for that of the server.
{
	my $pid = pid_of(0);

	$start = -s $node->logfile;
	# not even with its last descriptors gone
	system_or_bail('prlimit', "--pid=$pid", '--nofile=0:');
	kill 'TERM', $pid;
	wait_until 'it runs again', sub { my $now = pid_of(0); $now != 0 && $now != $pid };
	run_numbers(400, @sessions);
	$watch->value('SELECT steno.flush()');
	is(scalar(grep { ($_->{extra}{event} // '') eq 'stop' } records($node, kind => 'server')), 0, 'without descriptors: no stop is recorded');
	like(slurp_file($node->logfile, $start), qr/LOG:  steno writer 0 is running again/, 'without descriptors: it is started again');
	numbers_are_there($node, 'without descriptors', 1, $numbers);
	verify_ok($node, 'without descriptors: the trail is whole');
}

# At the end, the server stops normally.
$_->quit foreach @sessions, $watch;
end_cleanly('fast');
$node->start;
end_cleanly('smart');

sub end_cleanly
{
	my ($mode) = @_;

	$node->stop($mode);
	is_deeply([ grep { -f } glob(rings_of($node) . '/* ' . rings_of($node) . '/*/*') ], [], "$mode: no ring file is left");
	is((grep { defined } map { $_->{extra}{event} } records($node, kind => 'server'))[-1], 'stop', "$mode: recorded in the trail");
	verify_ok($node, "$mode: the trail is whole");
	return;
}
done_testing();

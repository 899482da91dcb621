
# A ring directory with little more room than for the ring file of one run.  After a crash, the
# file of the run that crashed is drained only when the new one is there, so it gives back what it
# does not need, and if that is not enough, the new rings are smaller.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Steno::Faults;
use Test::More;

my $faults = Steno::Faults->new;
my $node = new_node(
	'main',
	start => 0,
	conf => q{
restart_after_crash = on
steno.ring_size = 64kB
steno.disk_reserve = 0
});
my $smaller = qr/WARNING:  rings have (\d+) kB instead of the 64 kB of "steno\.ring_size", until the server is restarted/;
my ($watch, $full);

sub begin
{
	$faults->start($node) if !$node->{_pid};
	value($node, 'CREATE EXTENSION IF NOT EXISTS pg_steno');
	$watch = Steno::Client->new($node, application_name => 'steno_test_helper');
	drained();
	return;
}

sub drained
{
	wait_until 'earlier ring files are drained', sub { scalar(my @files = ring_files($node)) == 1 };
	return;
}

# How many bytes there are for ring files, from now on.
sub room
{
	my ($bytes) = @_;

	$faults->unset('ring_room') if $faults->is_set('ring_room');
	$faults->set('ring_room', "$bytes\n");
	return;
}

sub recorded
{
	my ($text) = @_;

	return map { $_->{outcome} } statements($node, application => 'crash', text => $text);
}

# Sessions whose records stay in their rings, because the writer does not drain them.
sub undrained
{
	my ($sessions, $statements) = @_;
	my @c = map { Steno::Client->new($node, application_name => 'crash') } 1 .. $sessions;

	flush($node);
	stop_process(writer_pid($watch));
	foreach my $c (@c)
	{
		$c->query("SELECT 'undrained $_', '" . filler(1000) . "'") foreach 1 .. $statements;
	}
	return @c;
}

begin();
($full) = map { -s $_ } ring_files($node);

# A session is killed: the server is back, with rings as before.
{
	my $start = -s $node->logfile;
	my $c = Steno::Client->new($node, application_name => 'crash');

	room($full + 1024 * 1024);
	$c->put('Q', "SELECT 'killed', pg_sleep(1000)\0")->send_all;
	wait_until 'it runs', sub { $watch->value("SELECT count(*) FROM pg_stat_activity WHERE query ~ '^SELECT .killed'") eq '1' };
	kill KILL => $c->{pid};
	wait_until 'all sessions end', sub { !kill 0, $watch->{pid} };
	wait_until 'the server is back', sub { can_connect($node) };
	begin();
	is(-s (ring_files($node))[0], $full, 'after a crash, rings are as large as before');
	is_deeply([ recorded(qr/^SELECT 'killed'/) ], ['interrupted'], 'what ran is recorded');
	unlike(slurp_file($node->logfile, $start), $smaller, 'and nothing is to be said');
}

# What was not drained needs its place, and is recorded.
{
	my $start = -s $node->logfile;
	my @c = undrained(4, 40);

	$node->stop('immediate');
	room($full + 1024 * 1024);
	begin();
	is(-s (ring_files($node))[0], $full, 'with little to be drained, rings are as large as before');
	is(scalar(grep { $_ eq 'ok' } recorded(qr/^SELECT 'undrained/)), 160, 'nothing is lost');
	unlike(slurp_file($node->logfile, $start), $smaller, 'and nothing is to be said');
}

# More than there is space for beside rings of that size.
{
	my $start = -s $node->logfile;
	my @c = undrained(20, 40);

	$node->stop('immediate');
	room($full + 512 * 1024);
	begin();
	cmp_ok(-s (ring_files($node))[0], '<', $full, 'with much to be drained, rings are smaller');
	like(slurp_file($node->logfile, $start), $smaller, 'which the log says');
	like(slurp_file($node->logfile, $start), qr/HINT:  Make this file system larger .*--shm-size.* restart the server\./, 'and what to do');
	is(scalar(grep { $_ eq 'ok' } recorded(qr/^SELECT 'undrained/)), 160 + 800, 'nothing is lost');
	$watch->quit;
	$node->stop;
	$start = -s $node->logfile;
	begin();
	is(-s (ring_files($node))[0], $full, 'the next start has rings of the full size');
	unlike(slurp_file($node->logfile, $start), $smaller, 'and nothing to say');
}

# No space for the smallest rings: the old file stays, and can be read.
{
	my $start = -s $node->logfile;
	my @c = undrained(1, 7);
	my @left;

	$node->stop('immediate');
	@left = ring_files($node);
	room(2 * 1024 * 1024);
	ok(!$faults->start($node, fail_ok => 1), 'without any space, the server does not start');
	like(slurp_file($node->logfile, $start), qr/FATAL:  could not create ring file "[^"]*": .*No space left on device/, 'and says why');
	like(slurp_file($node->logfile, $start), qr/DETAIL:  \d+ rings of 16 kB need \d+ bytes, in addition to what an earlier run has left in its ring file\./, 'how much it needs');
	like(slurp_file($node->logfile, $start), qr/HINT:  Do not remove that file: it holds records that are not in the trail\. Make "[^"]*" larger/, 'and what to do');
	is_deeply([ ring_files($node) ], \@left, 'the file is still there, and no other');
	is(scalar(statements(recovered_copy($node), application => 'crash', text => qr/^SELECT 'undrained/)), 160 + 800 + 7, 'it has its records');
	$faults->unset('ring_room');
	begin();
	is(scalar(grep { $_ eq 'ok' } recorded(qr/^SELECT 'undrained/)), 160 + 800 + 7, 'with space, the server starts, and nothing is lost');
}
$watch->quit;
$node->stop;
verify_ok($node, 'the trail is whole');
gapless($node, 'no session has gaps');

# A start warns if there is not even space for what a drained file keeps.  A library tells the server how
# full the file system is; a clean stop waits for the writer, which warns before it records the start.
{
	my $warning = qr/WARNING:  "[^"]*" has little space for a second ring file, so that rings will be smaller after a crash/;
	my $log_of_run = sub {
		my $start = -s $node->logfile;

		$faults->start($node);
		$node->stop;
		return slurp_file($node->logfile, $start);
	};

	$faults->set('disk', "90 1\n");
	unlike($log_of_run->(), $warning, 'with some room, there is no warning');
	$faults->unset('disk');
	$faults->set('disk', "90 0\n");
	my $log = $log_of_run->();
	like($log, $warning, 'without any, the start warns');
	like($log, qr/DETAIL:  At least \d+ bytes are needed, and 0 bytes are free\./, 'and says how much is missing');
	like($log, qr/HINT:  Make this file system larger .*--shm-size.*"steno\.ring_size"/, 'and what to do');
}
done_testing();

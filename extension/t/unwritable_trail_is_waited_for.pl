
# The trail cannot be written for a while, for example because the disk is full: this is reported once,
# statements continue until their rings are full, and nothing is lost when the trail can be written
# again.  The writer's limit on the size of files stands in for the disk.

use strict;
use warnings;

use IO::Select;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Test::More;

my $node = new_node('main', conf => "steno.ring_size = 16kB\nsteno.compression = none\n");
my $numbers = 0;

# The observing session must not wait for space itself.
my $watch = watch();

sub watch
{
	my $c = Steno::Client->new($node, application_name => 'watch');

	$c->query(q{SET steno.log = 'none'});
	return $c;
}

sub writer
{
	return $watch->value('SELECT pid FROM steno.writers');
}

# The disk is full except for some bytes; and no longer full.
sub fill_disk
{
	my ($left) = @_;
	my ($segment) = (sort glob trail($node) . '/0/*.steno')[-1];

	flush($node);
	system_or_bail('prlimit', '--pid', writer(), '--fsize=' . ((-s $segment) + $left) . ':unlimited');
	return;
}

sub free_disk
{
	my ($pid) = @_;

	system_or_bail('prlimit', '--pid', $pid, '--fsize=unlimited:unlimited');
	return;
}

sub statement
{
	$numbers++;
	return "SELECT 'number $numbers', '" . filler(300) . "'";
}

# Run statements until one waits; returns what the client does at the end.
sub run_until_waiting
{
	my ($c) = @_;
	my $waits = $watch->value("SELECT waits FROM steno.rings WHERE pid = $c->{pid}");

	for (1 .. 1000)
	{
		my $waiting;

		$c->put('Q', statement() . "\0")->send_all;
		wait_until 'it is answered, or waits', sub {
			return 1 if IO::Select->new($c->{socket})->can_read(0.01);
			$waiting = $watch->value("SELECT waits FROM steno.rings WHERE pid = $c->{pid}") > $waits;
			return $waiting;
		};
		return if $waiting;
		$c->finish;
	}
	die 'no statement ever waited';
}

my $failed = qr/WARNING:  steno writer 0 could not write the trail: [^"]*"[^"]*": File too large/;

# Statements wait, and continue.
{
	my $c = Steno::Client->new($node, application_name => 'waiting');
	my $start = -s $node->logfile;
	my ($pid, $log);

	$c->query('SELECT 1');
	$pid = writer();
	fill_disk(1000);
	run_until_waiting($c);
	pass('a statement waits when the disk and its ring are full');
	$node->wait_for_log($failed, $start);
	wait_until 'it tries again',
	  sub { $watch->value('SELECT errors FROM steno.writers') >= 3 };
	$log = slurp_file($node->logfile, $start);
	is(scalar(my @lines = $log =~ /$failed/g), 1, 'reported in the log once');
	like($log, qr/HINT:  .*The writer tries again every second and goes on by itself\./, 'and what comes');

	free_disk($pid);
	ok(!$c->finish->{sqlstate}, 'the statement goes on when there is room again');
	$node->wait_for_log(qr/LOG:  steno writer 0 can write the trail again/, $start);
	$c->quit;
	flush($node);
	is(writer(), $pid, 'the writer is the same process');
	numbers_are_there($node, 'a full disk', 1, $numbers);
	verify_ok($node, 'a full disk: the trail is whole');
}

# A session that waits can be ended.
{
	my $c = Steno::Client->new($node, application_name => 'terminated');
	my $pid = writer();

	$c->query('SELECT 1');
	fill_disk(1000);
	run_until_waiting($c);
	$watch->value("SELECT pg_terminate_backend($c->{pid})");
	wait_until 'it is gone',
	  sub { $watch->value("SELECT count(*) FROM pg_stat_activity WHERE pid = $c->{pid}") eq '0' };
	pass('a session that waits for room can be terminated');
	free_disk($pid);
	flush($node);

	# a statement that did not fit has no record, but its number is missing or accounted for
	verify_ok($node, 'the trail is whole');
	$numbers--;
	numbers_are_there($node, 'terminated', 1, $numbers);
	$numbers++;
}

# No segment can be begun: only the session that asked for one waits.
{
	my $c = Steno::Client->new($node, application_name => 'rotating');
	my $stream = trail($node) . '/0';
	my $start = -s $node->logfile;
	my $segments = () = glob "$stream/*.steno";
	my $refused = qr/WARNING:  steno writer 0 could not write the trail: could not create segment "[^"]*": Permission denied/;
	my ($errors, $log);

	$c->query(statement());
	chmod(0500, $stream) or die "could not change mode of $stream: $!";
	$c->put('Q', "SELECT steno.rotate()\0")->send_all;
	$node->wait_for_log($refused, $start);
	flush($node);
	pass('others are served');
	$errors = $watch->value('SELECT errors FROM steno.writers');
	wait_until 'it tries again', sub { $watch->value('SELECT errors FROM steno.writers') > $errors };
	$watch->query(statement()) for 1 .. 3;
	flush($node);
	ok(!IO::Select->new($c->{socket})->can_read(0), 'rotate() does not return before there is a new segment');
	$log = slurp_file($node->logfile, $start);
	is(scalar(my @lines = $log =~ /$refused/g), 1, 'reported in the log once');
	like($log, qr/DETAIL:  Records go on into the present segment\./, 'and where records go');
	$numbers -= 3;    # of a session that is not recorded

	chmod(0700, $stream) or die "could not change mode of $stream: $!";
	ok(!$c->finish->{sqlstate}, 'rotate() returns when it can');
	is(scalar(() = glob "$stream/*.steno"), $segments + 1, 'and there is one more segment');
	$node->wait_for_log(qr/LOG:  steno writer 0 can begin segments of the trail again/, $start);
	$c->quit;
	verify_ok($node, 'the trail is whole');
}

# The server can stop with a full disk; the next start writes the rest.
{
	my $c = Steno::Client->new($node, application_name => 'stopped');
	my @left;

	fill_disk(100);
	$c->query(statement()) for 1 .. 5;
	$c->quit;
	$node->stop('fast');
	@left = ring_files($node);
	is(scalar @left, 1, 'stopped with a full disk: the ring file stays');
	$node->start;
	$watch = watch();
	wait_until 'it is drained', sub { !-e $left[0] };
	flush($node);
	is(scalar(statements($node, application => 'stopped')), 5, 'the next start writes what was left');
	is(scalar(records($node, application => 'stopped', kind => 'disconnect')), 1, 'and the end of the session');
}

# Also if only its own last record is left: readers of the trail must not take the next start for one
# after a power failure.
{
	my ($segment, $pid, @left);

	$node->stop;
	$node->append_conf('postgresql.conf', "steno.log = 'none'\nsteno.mandatory = 'none'\n");
	$node->start;
	$watch = watch();
	flush($node);
	wait_until 'nothing is left', sub { $watch->value('SELECT lag_bytes FROM steno.writers') == 0 };
	($segment) = (sort glob trail($node) . '/0/*.steno')[-1];
	$pid = writer();
	system_or_bail('prlimit', '--pid', $pid, '--fsize=' . (-s $segment) . ':unlimited');
	$node->stop('fast');
	@left = ring_files($node);
	is(scalar @left, 1, 'stopped with an empty ring and a full disk: the ring file stays');
	$node->start;
	wait_until 'it is drained', sub { !-e $left[0] };
	is_deeply([ (map { $_->{extra}{event} } records($node, kind => 'server'))[ -2, -1 ] ], [ 'recover', 'start' ], 'recorded in the trail');
}
$node->stop;
verify_ok($node, 'the trail is whole');
done_testing();

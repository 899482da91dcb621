
# The disk fails to write or to sync: the writer tries again, and sessions wait as steno.delivery says.

use strict;
use warnings;

use IO::Select;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno::Client;
use Steno::Faults;
use Steno;
use Test::More;

# A disk that fails to write or to sync, for a while or for good: said once,
# nobody is told that records are on disk that are not, and nothing is lost that
# the kernel has not lost.
{
	my $faults = Steno::Faults->new;
	my $node = new_node(
		'failing_disk_is_waited_for',
		start => 0,
		conf => q{
	restart_after_crash = on
	steno.compression = none
	steno.mandatory = ''
	});
	my $numbers = 0;
	my ($watch, $c);

	sub begin
	{
		$faults->start($node);
		$watch = Steno::Client->new($node, application_name => 'watch');
		$watch->query(q{SET steno.log = 'none'});
		$c = Steno::Client->new($node, application_name => 'numbers');
		return;
	}

	# By a session that is not recorded, so that the writer has no record to write.
	sub run_statements
	{
		my ($n) = @_;

		$c->query("SELECT 'number " . ++$numbers . "'") for 1 .. $n;
		return;
	}

	# flush() as a request that is not answered yet.
	sub ask_flush
	{
		my $f = Steno::Client->new($node, application_name => 'steno_test_helper');

		$f->put('Q', "SELECT steno.flush()\0")->send_all;
		return $f;
	}

	sub answered
	{
		my ($f) = @_;

		return IO::Select->new($f->{socket})->can_read(0);
	}

	sub errors
	{
		return $watch->value('SELECT errors FROM steno.writers');
	}

	# How often the log has this text since start.
	sub said
	{
		my ($pattern, $start) = @_;

		return scalar(() = slurp_file($node->logfile, $start) =~ /$pattern/g);
	}

	$node->start;
	value($node, 'CREATE EXTENSION pg_steno');
	$node->stop;
	begin();
	run_statements(3);
	$watch->value('SELECT steno.flush()');

	# A sync that fails again and again.
	{
		my $start = -s $node->logfile;
		my $failed = qr/WARNING:  steno writer 0 could not write the trail: could not sync segment "[^"]*": Input\/output error/;
		my ($before, $f) = (errors());

		$faults->set('sync_fails');
		run_statements(3);
		$f = ask_flush();
		wait_until 'it has failed three times', sub { errors() >= $before + 3 };
		run_statements(3);
		ok(!answered($f), 'a sync that fails: flush() does not return');
		is(said($failed, $start), 1, 'reported in the log once');
		is(said(qr/may not be on disk; it will be written again\./, $start), 1, 'and what it means');
		$faults->unset('sync_fails');
		ok(!$f->finish->{sqlstate}, 'flush() returns when it succeeds');
		ok(!$faults->is_set('lied'), 'what was in doubt had been written again by then');
		is(said(qr/LOG:  steno writer 0 can sync the trail again/, $start), 1, 'reported in the log');
		is(said(qr/WARNING:  (?!steno writer 0 could not write)/, $start), 0, 'nothing is lost');
		$f->quit;
		numbers_are_there($node, 'a sync that fails', 1, $numbers);
		verify_ok($node, 'a sync that fails: the trail is whole');
	}

	# A slow sync: no other session waits for it.
	{
		my $f;

		$faults->set('hold_sync');
		run_statements(1);
		$f = ask_flush();
		wait_until 'it takes its time', sub { $faults->is_set('holding.0') };
		run_statements(20);
		ok(!answered($f), 'a slow sync: flush() does not return');
		$faults->unset('hold_sync');
		ok(!$f->finish->{sqlstate}, 'flush() returns when it is done');
		$f->quit;
		$watch->value('SELECT steno.flush()');
		numbers_are_there($node, 'a slow sync', 1, $numbers);
	}

	# Writes that fail, with and without a part of the block in the file.
	foreach my $fault (qw(write_fails write_stops))
	{
		my $start = -s $node->logfile;
		my $failed = qr/WARNING:  steno writer 0 could not write the trail: could not write segment "[^"]*": No space left on device/;

		$faults->set_times($fault, 2);
		run_statements(5);
		$watch->value('SELECT steno.flush()');
		ok(!$faults->is_set($fault), "$fault: twice");
		is(said($failed, $start), 1, "$fault: reported in the log once");
		is(said(qr/LOG:  steno writer 0 can write the trail again/, $start), 1, "$fault: and that it is over");
		numbers_are_there($node, $fault, 1, $numbers);
		verify_ok($node, "$fault: the trail is whole");
	}

	# A segment that cannot be begun for want of a sync, then one that can.
	{
		my $start = -s $node->logfile;
		my $segments = () = glob trail($node) . '/0/*.steno';

		$faults->set_times('begin_fails', 1);
		run_statements(1);
		$watch->value('SELECT steno.rotate()');
		ok(!$faults->is_set('begin_fails'), 'a segment could not be begun');
		is(scalar(() = glob trail($node) . '/0/*.steno'), $segments + 1, 'then one is begun');
		is(said(qr/LOG:  steno writer 0 can begin segments of the trail again/, $start), 1, 'which the log says');
		run_statements(1);
		$watch->value('SELECT steno.flush()');
		numbers_are_there($node, 'a segment that could not be begun', 1, $numbers);
		verify_ok($node, 'the trail is whole');
	}

	# A trail that cannot be opened at the start of the server.
	{
		my $start;

		$c->quit;
		$watch->quit;
		$node->stop;
		$start = -s $node->logfile;
		$faults->set_times('begin_fails', 1);
		begin();
		run_statements(3);
		$watch->value('SELECT steno.flush()');
		ok(!$faults->is_set('begin_fails'), 'a trail could not be opened');
		is(said(qr/LOG:  steno writer 0 can write the trail again/, $start), 1, 'then it can');
		numbers_are_there($node, 'a trail that could not be opened', 1, $numbers);
		verify_ok($node, 'the trail is whole');
	}

	# A kernel that has dropped what it could not write: what is gone is named, and
	# the rest is there.
	{
		my $start = -s $node->logfile;
		my ($lost, $out, $err, %seen);

		# Sessions of others end in their own time; the record of that would be in a block of its own.
		wait_until 'no other session is there',
		  sub { $watch->value(q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'}) eq '2' };
		$watch->value('SELECT steno.flush()');
		$faults->set('hold_write');
		run_statements(1);
		wait_until 'the writer is at it', sub { $faults->is_set('holding.0') };
		$faults->set_times('sync_loses', 1);
		$faults->unset('hold_write');
		$watch->value('SELECT steno.flush()');
		ok(!$faults->is_set('sync_loses'), 'what was written is gone');
		is(said(qr/WARNING:  stream 0 of the trail has lost 1 block, of numbers (\d+) to \1$/m, $start), 1, 'reported in the log');
		$lost = $numbers;
		run_statements(3);
		$watch->value('SELECT steno.flush()');
		$c->quit;
		$watch->quit;
		$node->stop;

		# it reads what is there, and reports the damage
		ok(!IPC::Run::run([ $ENV{STENO}, 'cat', '--format', 'json', trail($node) ], '>', \$out, '2>', \$err),
			'steno cat tells of damage');
		$seen{$_}++ foreach $out =~ /'number (\d+)'/g;
		is_deeply([ grep { ($seen{$_} // 0) != 1 } 1 .. $numbers ],
			[$lost], 'what is gone is not there, and all else is');
		is(scalar(() = $out =~ /"event":"lost"/g), 1, 'recorded in the trail');
		ok(!IPC::Run::run([ $ENV{STENO}, 'verify', trail($node) ], '>', \$out, '2>', \$err),
			'steno verify calls the trail damaged');
	}
}

# A disk that fails to sync what recovery has written: the writer tries again, and the
# server goes on with it.
{
	my $faults = Steno::Faults->new;
	my $node = new_node('failing_sync_at_recovery', start => 0);
	my ($c, $start);

	$faults->start($node);
	value($node, 'CREATE EXTENSION pg_steno');
	$c = Steno::Client->new($node, application_name => 'before');
	$c->query(q{SELECT 'before'});
	$node->stop('immediate');
	$start = -s $node->logfile;
	$faults->set_times('sync_fails', 2);
	$faults->start($node);
	$node->wait_for_log(qr/steno writer 0 can sync the trail again/, $start);
	wait_until 'the ring of the last run is drained', sub { scalar(my @files = ring_files($node)) == 1 };
	is(value($node, 'SELECT count(pid) FROM steno.writers'), 1, 'the writer is there');
	is(scalar statements($node, application => 'before', text => q{SELECT 'before'}), 1, 'and has what was left');
	$node->stop;
	verify_ok($node, 'the trail is whole');
	gapless($node, 'no session has gaps');
}

done_testing();

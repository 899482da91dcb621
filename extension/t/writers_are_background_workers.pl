
# Writers are background workers: they need slots, are shown in pg_stat_activity, and sleep when there
# is nothing to do.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno::Client;
use Steno;
use Test::More;
use Time::HiRes qw(sleep time);

# Writers are background workers, and need slots of max_worker_processes.  A server that
# has too few of them does not start, whoever has taken them, before or after us.
{
	my $node = new_node('writers_have_worker_slots', start => 0, conf => "max_worker_processes = 8\nsteno.writers = 8\n");

	# the launcher of logical replication has one of them
	refuses_to_start(
		$node, 'as many writers as slots', '',
		qr/FATAL:  too few background worker slots for 8 steno writers/,
		qr/DETAIL:  "max_worker_processes" is 8, and 1 of these slots have been taken by other workers/,
		qr/HINT:  Set "max_worker_processes" to at least 9, /);

	$node->append_conf('postgresql.conf', 'max_worker_processes = 9');
	$node->start;
	value($node, 'CREATE EXTENSION pg_steno');
	ok(writer_pid($node, 7), 'with one slot more all writers run');
	is(value($node, 'SELECT count(pid) FROM steno.writers'), 8, 'as many as are set');
	is(value($node, 'SELECT state FROM steno.status'), 'ok', 'and the state says so');
	value($node, 'SELECT steno.flush()');
	$node->stop;

	SKIP:
	{
		skip 'no library with another worker', 6 if !has_module('pg_prewarm');
		refuses_to_start(
			$node, 'another worker before ours',
			"shared_preload_libraries = 'pg_prewarm, pg_steno'",
			qr/FATAL:  too few background worker slots for 8 steno writers/,
			qr/HINT:  Set "max_worker_processes" to at least 10, /);

		# a worker that is registered after ours finds no slot, which the server only logs: auditing does not need it
		$node->append_conf('postgresql.conf', "shared_preload_libraries = 'pg_steno, pg_prewarm'");
		$node->start;
		ok(writer_pid($node, 7), 'another one after ours');
		$node->stop;
		like(slurp_file($node->logfile), qr/LOG:  too many background workers/, 'is the one that has no slot');
	}
}

# Writers, and who waits for them, are in pg_stat_activity, their waits by names.
{
	my $node = new_node('writers_are_shown_by_the_server', conf => "steno.writers = 2\nsteno.ring_size = 16kB\nsteno.large_buffers = 0\n");
	my $watch = Steno::Client->new($node, application_name => 'watch');

	$watch->query(q{SET steno.log = 'none'});

	sub look
	{
		return $watch->query($_[0])->{rows}[0][0];
	}

	# The wait of a process, as the server shows it.
	sub wait_event
	{
		my ($pid) = @_;

		return look("SELECT wait_event FROM pg_stat_activity WHERE pid = $pid") // '';
	}

	is( look(q{SELECT string_agg(writer::text, ' ' ORDER BY writer) FROM steno.writers
	JOIN pg_stat_activity USING (pid) WHERE backend_type = 'steno writer'}),
		'0 1',
		'each writer is a process that the server shows');
	wait_until 'an idle writer waits for records',
	  sub { wait_event(look('SELECT pid FROM steno.writers WHERE writer = 0')) eq 'StenoWriterMain' };

	# Sessions of both writers, and both writers are stopped.
	my @sessions = Steno::Client->of_both_writers($node, $watch, application_name => 'waiting');
	my @writers = map { look("SELECT pid FROM steno.writers WHERE writer = $_") } 0, 1;

	$watch->query('SELECT steno.flush()');
	stop_process($_) foreach @writers;
	$_->put('Q', "SELECT '" . 'x' x 20000 . "'\0")->send_all foreach @sessions;
	foreach my $c (@sessions)
	{
		wait_until 'it waits for room', sub { wait_event($c->{pid}) eq 'StenoRingFull' };
		pass('who waits for room in the ring is shown so');
	}
	continue_process($_) foreach @writers;
	ok(!$_->finish->{sqlstate}, 'and goes on') foreach @sessions;

	$watch->query('CREATE TABLE t ()');
	$_->query(q{SET steno.sync = 'write'}) foreach @sessions;
	$watch->query('SELECT steno.flush()');
	stop_process($_) foreach @writers;
	$_->put('Q', "INSERT INTO t DEFAULT VALUES\0")->send_all foreach @sessions;
	foreach my $c (@sessions)
	{
		wait_until 'it waits for the disk', sub { wait_event($c->{pid}) eq 'StenoSync' };
		pass('who waits for the disk is shown so');
	}
	continue_process($_) foreach @writers;
	ok(!$_->finish->{sqlstate}, 'and goes on') foreach @sessions;

	# steno.flush()
	stop_process($writers[1]);
	$sessions[0]->query('SET steno.sync = none');
	$sessions[0]->put('Q', "SELECT steno.flush()\0")->send_all;
	wait_until 'it waits for an answer', sub { wait_event($sessions[0]{pid}) eq 'StenoAnswer' };
	pass('who waits for an answer is shown so');
	continue_process($writers[1]);
	ok(!$sessions[0]->finish->{sqlstate}, 'and gets it');

	# No process waits for a writer that waits: it does not take part in the server's barriers.
	stop_process($_) foreach @writers;
	$watch->query('SET statement_timeout = 0');
	ok(!$watch->query('CREATE DATABASE other')->{sqlstate}, 'databases are made');
	ok(!$watch->query('DROP DATABASE other')->{sqlstate}, 'and dropped while writers hang');
	continue_process($_) foreach @writers;
	$_->quit foreach @sessions, $watch;
	$node->stop;
	verify_ok($node, 'the trail is whole');
}

# Writers that have nothing to do hardly wake up, and a record wakes them.
{
	my $node = new_node('idle_writers_rest', conf => "steno.writers = 2\n");
	my $c = Steno::Client->new($node);
	my (%before, %after, $elapsed, $start);

	sub passes
	{
		return map { @$_ } @{ $c->query('SELECT writer, passes FROM steno.writers')->{rows} };
	}

	# A sync or two come after the last records.  The session that looks is of one
	# writer; this one has its records to write.
	for (1 .. 10)
	{
		%before = passes();
		sleep 2;
		%after = passes();
		last if $after{0} - $before{0} <= 4 || $after{1} - $before{1} <= 4;
	}
	$start = time;
	%before = passes();
	sleep 6;
	%after = passes();
	$elapsed = time - $start;

	# The query itself makes a record for one of the two writers: one pass at each end is for that.
	my @rates = sort { $a <=> $b } map { ($after{$_} - $before{$_}) / $elapsed } 0, 1;

	note "passes a second: @rates";
	cmp_ok($rates[0], '<', 2, 'a writer without records: less than two wake-ups a second');
	cmp_ok($rates[1], '<', 5, 'a writer with one record in a while rests soon');

	# Records that follow are written without a request.
	$c->query("SELECT 'after the rest'");
	wait_until 'the record is in the trail',
	  sub { scalar(grep { /after the rest/ } lines(trail($node))) };
	pass('a record wakes a writer that rests');
	$c->quit;
	$node->stop;
}

done_testing();

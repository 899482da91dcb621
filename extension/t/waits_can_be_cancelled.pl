
# A statement that waits for space in its ring can be canceled, by a client or a timeout, and its
# session can be terminated.  The statement then fails, and has one record, of its failure; after a
# commit there is a warning.

use strict;
use warnings;

use IO::Select;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Test::More;

my $node = new_node('main', conf => "steno.ring_size = 16kB\n");
my $writer = writer_pid($node);
my $pad = 'x' x 500;

value($node, 'CREATE TABLE t (i int); CREATE TABLE big (i int)');
my $watch = Steno::Client->new($node, application_name => 'watch');
$watch->query(q{SET steno.log = 'none'});

sub stop_writer
{
	$watch->value('SELECT steno.flush()');
	stop_process($writer);
	return;
}

sub ring
{
	my ($client, $column) = @_;

	return $watch->value("SELECT $column FROM steno.rings WHERE pid = $client->{pid}");
}

# Runs statements until one waits; sql makes the n-th of them.  Returns its number.
sub run_until_waiting
{
	my ($c, $sql) = @_;
	my $waits = ring($c, 'waits');

	foreach my $n (1 .. 1000)
	{
		my $waiting;

		$c->put('Q', $sql->($n) . "\0")->send_all;
		wait_until 'either', sub {
			return 1 if IO::Select->new($c->{socket})->can_read(0.01);
			$waiting = ring($c, 'waits') > $waits;
			return $waiting;
		};
		return $n if $waiting;
		$c->finish;
	}
	die 'the ring is never full';
}

sub session
{
	my ($name, @settings) = @_;
	my $c = Steno::Client->new($node, application_name => $name);

	$c->query("SET $_") foreach @settings;
	return $c;
}

# All numbers of the session are there, or named by its gap records.
sub account
{
	my ($name, $drops) = @_;
	my @r = sort { $a->{seq} <=> $b->{seq} } records($node, application => $name);
	my ($next, $named) = (1, 0);
	my @wrong;

	foreach my $r (@r)
	{
		if ($r->{kind} eq 'gap')
		{
			push @wrong, "gap from $r->{extra}{first_seq}, not $next" if $r->{extra}{first_seq} != $next;
			$next = $r->{extra}{last_seq} + 1;
			$named += $r->{extra}{count};
		}
		push @wrong, "$r->{seq}, not $next" if $r->{seq} != $next;
		$next = $r->{seq} + 1;
	}
	is_deeply(\@wrong, [], "$name: each number is there once, or named by a gap record");
	is($named, $drops, "$name: gap records name what was counted") if defined $drops;
	return @r;
}

# At the end of a statement, in each way: it fails, and its changes are undone.
foreach my $how (qw(cancel timeout terminate))
{
	my $c = session("end $how", q{steno.log = 'all, -transaction'});
	my $code = $how eq 'terminate' ? '57P01' : '57014';
	my $drops = ring($c, 'drops');
	my ($n, $answer, @r, $pid);

	$c->query("SET statement_timeout = '2s'") if $how eq 'timeout';
	$pid = $c->{pid};
	stop_writer();
	$n = run_until_waiting($c, sub { "INSERT INTO t VALUES ($_[0]) -- end, $how, $pad" });
	ok(!IO::Select->new($c->{socket})->can_read(0), "$how: statement $n waits") if $how ne 'timeout';
	$watch->value("SELECT pg_cancel_backend($pid)") if $how eq 'cancel';
	$watch->value("SELECT pg_terminate_backend($pid)") if $how eq 'terminate';
	$answer = $c->finish;
	is($answer->{sqlstate}, $code, "$how: it fails at once, the writer being stopped");
	is($watch->value("SELECT count(*) FROM t WHERE i = $n"), 0, "$how: it has done nothing");
	is($watch->value("SELECT count(*) FROM t WHERE i = $n - 1"), 1, "$how: the one before has");
	if ($how ne 'terminate')
	{
		is(ring($c, 'drops'), $drops, "$how: no record is dropped");
		continue_process($writer);
		$watch->value('SELECT steno.flush()');
		ok(!$c->query("SELECT 'after'")->{sqlstate}, "$how: the session goes on");
		$c->quit;
	}
	else
	{
		continue_process($writer);
		wait_until 'it has gone', sub { $watch->value("SELECT count(*) FROM pg_stat_activity WHERE pid = $pid") == 0 };
	}
	@r = account("end $how", 0);
	is_deeply([ map { "$_->{outcome} $_->{sqlstate}" } grep { ($_->{text} // '') =~ /^INSERT INTO t VALUES \($n\)/ } @r ],
		["error $code"], "$how: one record says that it has failed");
	is(scalar(grep { ($_->{text} // '') =~ /^INSERT INTO t VALUES/ && $_->{outcome} eq 'ok' } @r),
		$n - 1, "$how: those that did have theirs");
	value($node, 'TRUNCATE t');
}

# If there is space by the time it fails, it has its record, with its number.
# The text is too big for the ring, so that a part of it was sent, or not at all.
foreach my $size (2000, 9000)
{
	my $c = session("room $size", q{steno.log = 'all, -transaction'});
	my ($n, @r);

	stop_writer();
	$n = run_until_waiting($c, sub { "DO \$\$ BEGIN END \$\$ -- $_[0] " . 'x' x $size });
	$watch->value("SELECT pg_cancel_backend($c->{pid})");
	is($c->finish->{sqlstate}, '57014', "$size bytes: a utility statement is cancelled");
	continue_process($writer);
	$watch->value('SELECT steno.flush()');
	$c->query("SELECT 'after'");
	$c->quit;
	@r = account("room $size");
	is(scalar(grep { ($_->{text} // '') =~ /^DO .* -- $n / && $_->{outcome} eq 'ok' } @r), 0, "$size bytes: it has failed");
	is(scalar(grep { ($_->{text} // '') =~ /^DO / && $_->{outcome} eq 'ok' && $_->{text} !~ /x{$size}$/ } @r),
		0, "$size bytes: all others are whole");
}

# In the extended protocol, too: of a portal whose rows were all fetched, and of one that is closed by the commit, for
# which the server has no timeout any more.
foreach my $rows (0, 1)
{
	my $c = session("portal $rows", q{steno.log = 'all, -transaction'}, "statement_timeout = '700ms'");
	my $what = $rows ? 'a portal that is left' : 'a portal that is read';
	my ($n, $answer) = (0);

	stop_writer();
	do
	{
		$c->put('P', "\0SELECT generate_series(1, 3), " . ++$n . ", '" . filler(500) . "'\0" . pack('n', 0));
		$c->put('B', "\0\0" . pack('n n n', 0, 0, 0));
		$c->put('E', "\0" . pack('N', $rows));
		$c->put('S', '')->send_all;
		$answer = $c->finish;
	} until $answer->{sqlstate} || $n == 200;
	is($answer->{sqlstate} // '', '57014', "$what: statement_timeout ends the wait");
	continue_process($writer);
	$watch->value('SELECT steno.flush()');
	ok(!$c->query("SELECT 'after'")->{sqlstate}, "$what: the session goes on");
	$c->quit;
	account("portal $rows");
}

# In a function that catches it: the function continues, and waits again.
{
	my $c = session('nested', q{steno.log = 'all, -transaction'});
	my $log = -s $node->logfile;
	my (@r, $answer, $waits);

	stop_writer();
	$waits = ring($c, 'waits');
	$c->put('Q', q{DO $$ DECLARE n int := 0; BEGIN
		LOOP
			n := n + 1;
			BEGIN
				EXECUTE format('INSERT INTO t VALUES (%s) -- nested %s', n, repeat('x', 500));
			EXCEPTION WHEN query_canceled THEN
				RAISE WARNING 'caught at %', n;
				INSERT INTO t VALUES (-1);
				EXIT;
			END;
		END LOOP; END $$} . "\0")->send_all;
	wait_until 'a nested statement waits', sub { ring($c, 'waits') > $waits };
	$waits = ring($c, 'waits');
	$watch->value("SELECT pg_cancel_backend($c->{pid})");
	$node->wait_for_log(qr/WARNING:  caught at \d+/, $log);
	wait_until 'the next one waits, too', sub { ring($c, 'waits') > $waits };
	continue_process($writer);
	$answer = $c->finish;
	ok(!$answer->{sqlstate}, 'the function goes on');
	my ($n) = $answer->{notices}[0] =~ /caught at (\d+)/;
	is($watch->value("SELECT count(*) FROM t WHERE i IN (-1, $n)"), 1, 'what was cancelled has done nothing');
	$c->quit;
	@r = account('nested');
	is(scalar(grep { ($_->{text} // '') =~ /^INSERT INTO t VALUES \($n\)/ && $_->{outcome} eq 'ok' } @r), 0, 'and has not succeeded');
	is(scalar(grep { ($_->{text} // '') =~ /^INSERT INTO t VALUES \(-1\)/ } @r), 1, 'the next one is there');
	value($node, 'TRUNCATE t');
}

# A statement that has failed, and waits to record that.
{
	my $c = session('failed');
	my $n;

	stop_writer();
	$n = run_until_waiting($c, sub { "SELECT $_[0] / 0 -- $pad" });
	$watch->value("SELECT pg_cancel_backend($c->{pid})");
	is($c->finish->{sqlstate}, '22012', 'the record of a failure is waited for until that is cancelled');
	continue_process($writer);
	$watch->value('SELECT steno.flush()');
	ok(!$c->query("SELECT 'after'")->{sqlstate}, 'then the session goes on');
	$c->quit;
	account('failed', 0);
}

# After the commit: nothing can be undone.
foreach my $how (qw(cancel terminate))
{
	my $c = session("commit $how", q{steno.log = 'transaction'});
	my ($n, $answer, $pid);

	$pid = $c->{pid};
	$watch->value('SELECT steno.flush()');
	stop_writer();
	$n = run_until_waiting($c, sub { "INSERT INTO t VALUES ($_[0])" });
	$watch->value("SELECT pg_cancel_backend($pid)") if $how eq 'cancel';
	$watch->value("SELECT pg_terminate_backend($pid)") if $how eq 'terminate';
	$answer = $c->finish;
	if ($how eq 'cancel')
	{
		is($answer->{notices}[0], 'canceling wait for room for audit records due to user request',
			'after the commit: a warning');
		is($answer->{tags}[0], 'INSERT 0 1', 'and the statement has succeeded');
		continue_process($writer);
		$watch->value('SELECT steno.flush()');
		ok(!$c->query('INSERT INTO t VALUES (-1)')->{sqlstate}, 'the session goes on');
		$c->quit;
	}
	else
	{
		ok(!$answer || !@{ $answer->{tags} }, 'after the commit, terminated: it is not acknowledged');
		continue_process($writer);
		wait_until 'it has gone', sub { $watch->value("SELECT count(*) FROM pg_stat_activity WHERE pid = $pid") == 0 };
	}
	is($watch->value("SELECT count(*) FROM t WHERE i = $n"), 1, "$how: it has committed");
	account("commit $how", 0);
	value($node, 'TRUNCATE t');
}

# At a ROLLBACK, which cannot fail any more.
{
	my $c = session('rollback', q{steno.log = 'transaction'}, 'client_min_messages = error');
	my ($n, $answer);

	stop_writer();
	$n = run_until_waiting($c, sub { "INSERT INTO t VALUES ($_[0]); ROLLBACK" });
	$c->put('Q', "SELECT 'follows'\0")->send_all;
	$watch->value("SELECT pg_cancel_backend($c->{pid})");
	$answer = $c->finish;
	is($answer->{sqlstate}, undef, 'a ROLLBACK whose wait is canceled');
	is_deeply($answer->{tags}, [ 'INSERT 0 1', 'ROLLBACK' ], 'has rolled back');
	is($c->finish->{rows}[0][0], 'follows', 'and the next statement is not hit');
	is($watch->value("SELECT count(*) FROM t WHERE i = $n"), 0, 'which it has');
	continue_process($writer);
	$watch->value('SELECT steno.flush()');
	$c->quit;
	account('rollback');
}

# A note.
{
	my $c = session('note');
	my $n;

	stop_writer();
	$n = run_until_waiting($c, sub { "SELECT steno.note(repeat('x', 1500))" });
	$watch->value("SELECT pg_cancel_backend($c->{pid})");
	is($c->finish->{sqlstate}, '57014', 'a note is cancelled');
	continue_process($writer);
	$watch->value('SELECT steno.flush()');
	$c->query("SELECT 'after'");
	$c->quit;
	account('note');
}

$watch->quit;
$node->stop;
verify_ok($node, 'the trail is whole');
done_testing();

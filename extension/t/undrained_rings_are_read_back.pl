
# Records that are in the rings of a killed server, and in no block of the trail: "steno recover" reads
# them from the ring file, each of them once, into a copy of the trail; and the server itself finds the
# same records when it starts.

use strict;
use warnings;

use Digest::SHA ();
use JSON::PP ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::RecursiveCopy;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Steno::Faults;
use Test::More;

my $json = JSON::PP->new->utf8->canonical;
my $saved = PostgreSQL::Test::Utils::tempdir();
my $faults = Steno::Faults->new;
my $rounds = 0;

# Runs steno recover; returns the exit code, its report, and its messages.
sub recover
{
	my (@args) = @_;
	my ($code, $out, $err) = steno_result('recover', '--format', 'json', @args);

	return ($code, $out ne '' ? $json->decode($out) : {}, $err);
}

# Name and hash of each file below a directory.
sub contents
{
	my ($directory) = @_;

	return { map { ($_ => Digest::SHA->new(256)->addfile($_)->hexdigest) }
		  grep { -f $_ } glob "$directory/* $directory/*/*" };
}

# %told is what clients were told: text => [application, outcome, SQLSTATE, depth].
sub compare_with_told
{
	my ($directory, $told, $what) = @_;
	my (%seen, @wrong);

	foreach my $r (records($directory, kind => 'statement'))
	{
		my $t = $told->{ $r->{text} };

		next if !$t;
		$seen{ $r->{text} }++;
		push @wrong, substr($r->{text}, 0, 60) . ": $r->{application} $r->{outcome}"
		  if "@$t" ne join ' ', $r->{application}, $r->{outcome}, $r->{sqlstate} // '-', $r->{depth} // 0;
	}
	is_deeply(\@wrong, [], "$what: what clients were told of each statement");
	is_deeply(
		[ map { substr $_, 0, 60 } grep { ($seen{$_} // 0) != 1 } sort keys %$told ],
		[], "$what: each statement is there, once");
	return;
}

# The server is dead.  steno recover reads its ring file; then the server does.
sub recovered_as_by_server
{
	my ($node, $told, $what, $gaps) = @_;
	my $folder = "$saved/" . ++$rounds;
	my ($code, $report, $err, $before, $file, %ours, $ours, $theirs);

	mkdir $folder or die;
	PostgreSQL::Test::RecursiveCopy::copypath(trail($node), "$folder/trail");
	PostgreSQL::Test::RecursiveCopy::copypath(rings_of($node), "$folder/rings");
	$before = { %{ contents("$folder/trail") }, %{ contents("$folder/rings") } };

	($code, $report, $err) = recover("$folder/trail", '--out', "$folder/copy", '--rings', "$folder/rings");
	is($code, 0, "$what: nothing is lost") or diag($err, explain $report);
	is_deeply({ %{ contents("$folder/trail") }, %{ contents("$folder/rings") } },
		$before, "$what: the evidence is as it was");
	is(scalar @{ $report->{ring_files} }, 1, "$what: one ring file");
	$file = $report->{ring_files}[0];
	note("$what: $file->{published_records} records published, $file->{already_in_trail} of them written, $file->{recovered_records} recovered");
	is($file->{recovered_records},
		$file->{published_records} - $file->{already_in_trail} + $file->{interrupted_statements} + $file->{interrupted_sessions} + ($gaps // 0),
		"$what: all that was published, and the ends of sessions");
	verify_ok("$folder/copy", "$what: the copy is whole");
	gapless("$folder/copy", "$what: no session has gaps") if !$gaps;
	compare_with_told("$folder/copy", $told, "$what, recovered");

	# a further run finds all of it in the copy
	($code, $report) = recover("$folder/copy", '--out', "$folder/again", '--rings', "$folder/rings");
	is($code, 0, "$what: again");
	is($report->{ring_files}[0]{recovered_records}, 0, "$what: all is there already");

	$node->start;
	wait_until 'the server has drained it', sub { scalar(my @files = ring_files($node)) == 1 };
	flush($node);
	compare_with_told($node, $told, "$what, drained");
	# by all sessions, including those that records() leaves out
	$ours = [ map { $json->decode($_) } lines("$folder/copy") ];
	$ours{ $_->{session} } = 1 foreach grep { $_->{kind} ne 'server' } @$ours;
	$theirs = [ map { $json->decode($_) } lines($node) ];
	is_deeply(
		[ sort map { without_origin($_) } grep { $ours{ $_->{session} } && $_->{kind} ne 'server' } @$ours ],
		[ sort map { without_origin($_) } grep { $ours{ $_->{session} } && $_->{kind} ne 'server' } @$theirs ],
		"$what: the server finds the same records");
	($code, $report) = recover(trail($node), '--out', "$folder/drained", '--rings', "$folder/rings");
	is($report->{ring_files}[0]{recovered_records}, 0, "$what: nothing more after that");
	return;
}

# Waits for a session to sleep in a statement.
sub sleeping
{
	my ($watch, $c) = @_;

	wait_until 'it sleeps', sub {
		$watch->query("SELECT count(*) FROM pg_stat_activity WHERE pid = $c->{pid} AND wait_event = 'PgSleep'")->{rows}[0][0] eq '1';
	};
	return;
}

# The writers are stopped while sessions run statements of all sorts, and then
# everything is killed.
{
	my $node = new_node(
		'stopped', conf => q{
restart_after_crash = off
steno.writers = 2
steno.mandatory = ''
});
	my $what = 'writers stopped';
	my (%told, @writers, @c, %writer);
	my $watch = Steno::Client->new($node, application_name => 'steno_test_helper');

	$node->safe_psql(
		'postgres', q{
CREATE TABLE t (a int, b text);
CREATE FUNCTION nested(text) RETURNS int LANGUAGE plpgsql AS $$ BEGIN EXECUTE 'SELECT ' || quote_literal($1); RETURN 1; END $$;
CREATE FUNCTION fails_inside() RETURNS int LANGUAGE plpgsql AS $$ BEGIN PERFORM 1/0; RETURN 1; END $$});
	$watch->query(q{SET steno.log = 'none'});
	until (keys %writer == 2 && @c >= 6)
	{
		push @c, Steno::Client->new($node, application_name => 'app');
		$writer{ $watch->query("SELECT writer FROM steno.rings WHERE pid = $c[-1]{pid}")->{rows}[0][0] } = 1;
	}

	# run, as a client would, and note what it was told
	my $run = sub {
		my ($c, $text, %o) = @_;
		my $answer = $o{values} ? $c->extended($text, @{ $o{values} }) : $c->query($text);

		$told{$text} = [ $o{application} // 'app', $answer->{sqlstate} ? 'error' : 'ok', $answer->{sqlstate} // '-', 0 ];
		return $answer;
	};
	$run->($_, "SELECT 'in the trail', $_->{pid}") foreach @c;
	$watch->query('SELECT steno.flush()');
	@writers = map { $_->[0] } @{ $watch->query('SELECT pid FROM steno.writers')->{rows} };
	is(scalar @writers, 2, "$what: two of them");
	stop_process($_) foreach @writers;

	foreach my $c (@c)
	{
		$run->($c, "SELECT 'plain', $c->{pid}");
		$run->($c, "SELECT \$1::int, \$2::text, $c->{pid}", values => [ 42, undef ]);
		$run->($c, "SELECT 1/0, $c->{pid}");
		$run->($c, "SELEC $c->{pid}");
		$run->($c, "SELECT no_such_column, $c->{pid}");
		$told{"SELECT 'in a function $c->{pid}'"} = [ 'app', 'ok', '-', 1 ];
		$run->($c, "SELECT nested('in a function $c->{pid}')");
		$run->($c, "SELECT fails_inside(), $c->{pid}");
		$run->($c, "INSERT INTO t VALUES ($c->{pid}, 'x')");
		$run->($c, "CREATE TABLE t_$c->{pid} (a int)");
		$run->($c, "SELECT length('" . "big $c->{pid} " x 3000 . "')");
		$run->($c, "SELECT length(\$1), $c->{pid}", values => [ "value $c->{pid} " x 3000 ]);
		$run->($c, "SET application_name = 'other'", application => 'other');
		delete $told{"SET application_name = 'other'"};    # of all sessions
		$run->($c, "SELECT 'with another name', $c->{pid}", application => 'other');
	}
	# one that ends, and one that begins and fails to log in
	shift(@c)->quit;
	Steno::Client->new($node, application_name => 'nobody', user => 'nobody');
	# what runs when the server dies: a query, with all that is known of it; one that has run nested
	# statements; a utility statement; one that does not fit its ring
	foreach my $text (
		'SELECT pg_sleep(1000)',
		"SELECT nested('before'), pg_sleep(1001)",
		q{DO $$ BEGIN PERFORM pg_sleep(1002); END $$})
	{
		my $c = shift @c;

		$c->put('Q', "$text\0")->send_all;
		sleeping($watch, $c);
		$told{$text} = [ 'other', 'interrupted', '-', 0 ];
	}
	{
		my $c = shift @c;
		my $text = 'SELECT pg_sleep(1003), ' . "'" . 'long ' x 10_000 . "'";

		$c->put('Q', "$text\0")->send_all;
		sleeping($watch, $c);
		$told{ substr $text, 0, 232 } = [ 'other', 'interrupted', '-', 0 ];
	}

	# a server that lives keeps its rings
	my ($code, $report, $err) = recover(trail($node), '--out', "$saved/refused", '--rings', ring_files($node));
	is($code, 2, 'the ring file of a server that runs is refused');
	like($err, qr/process \d+ uses this ring file/, 'with the reason');
	ok(!-e "$saved/refused", 'and nothing is written');

	kill_server($node);
	recovered_as_by_server($node, \%told, $what);

	# in the copy, the interrupted query has what was known of it
	my $r = the_record("$saved/1/copy", 'interrupted', text => 'SELECT pg_sleep(1000)');
	is_deeply([ @$r{qw(outcome command class statement)} ], [ 'interrupted', 'SELECT', 'read', 15 ], 'an interrupted query');
	$r = the_record("$saved/1/copy", 'a long one', text => qr/^SELECT pg_sleep\(1003\)/);
	is($r->{text_bytes}, 50_025, 'its length');
	is(scalar(records("$saved/1/copy", kind => 'auth_failed', application => 'nobody')), 1, 'who was refused');

	# files that are not for this
	my ($ring) = glob "$saved/1/rings/*/*";
	my $bytes = slurp_file($ring);
	foreach my $case ([ 8, 'another version', qr/ring file has version 99, but this program reads/ ], [ 32, 'another cluster', qr/ring file belongs to cluster \d+, but the trail belongs to cluster/ ])
	{
		my ($offset, $name, $message) = @$case;
		my $changed = $bytes;

		substr($changed, $offset, 1) = chr 99;
		append_to_file("$saved/changed$offset", $changed);
		($code, $report, $err) = recover("$saved/1/trail", '--out', "$saved/refused", '--rings', "$saved/changed$offset");
		is($code, 2, "a ring file of $name is refused");
		like($err, $message, 'with the reason');
		ok(!-e "$saved/refused", 'and nothing is written');
	}
	$node->stop;
}

# Records that found no space: of sessions that have ended, of running ones, and of sessions that had no
# space even for their description.
{
	my $node = new_node(
		'dropped', conf => q{
restart_after_crash = off
steno.ring_size = 16kB
steno.delivery = drop
steno.mandatory = ''
});
	my $what = 'records dropped';
	my (%told, $writer, $lives, $ends, $after);
	my $watch = Steno::Client->new($node, application_name => 'steno_test_helper');

	$watch->query(q{SET steno.log = 'none'});
	$lives = Steno::Client->new($node, application_name => 'app');
	$ends = Steno::Client->new($node, application_name => 'app');
	$watch->query('SELECT steno.flush()');
	$writer = writer_pid($watch);
	stop_process($writer);
	foreach my $c ($lives, $ends)
	{
		foreach my $i (1 .. 30)
		{
			$c->query("SELECT $i, '" . 'x' x 1500 . "'");
		}
	}
	my $ring = $watch->query("SELECT ring FROM steno.rings WHERE pid = $ends->{pid}")->{rows}[0][0];
	$ends->quit;
	wait_until 'its ring is free', sub { $watch->query("SELECT count(*) FROM steno.rings WHERE pid = $ends->{pid}")->{rows}[0][0] eq '0' };
	# the next session gets its ring, and finds it full
	$after = Steno::Client->of_ring($node, $watch, $ring, application_name => 'app');
	$after->query("SELECT $_") foreach 1 .. 5;
	kill_server($node);
	# three gap records, and the end of the session that has ended
	recovered_as_by_server($node, \%told, $what, 4);
	$node->stop;
}

# The copy in the trail's place: the server goes on with it, and finds no ring file.
{
	my $node = new_node('in_place', conf => "restart_after_crash = off\nsteno.mandatory = ''\n");
	my ($id) = value($node, 'SELECT system_identifier FROM pg_control_system()');
	my ($writer) = writer_pid($node);
	my $c = Steno::Client->new($node, application_name => 'app');
	my ($code, $report, $err, %told);

	stop_process($writer);
	foreach my $i (1 .. 10)
	{
		$c->query("SELECT 'in place $i'");
		$told{"SELECT 'in place $i'"} = [ 'app', 'ok', '-', 0 ];
	}
	($code, $report, $err) = recover(trail($node), '--in-place', '--confirm', $id);
	is($code, 2, 'the trail of a server that runs is not replaced');
	like($err, qr/process \d+ has the trail open: stop the server first/, 'with the reason');
	kill_server($node);
	($code, $report, $err) = recover(trail($node), '--in-place', '--rings', rings_of($node));
	is($code, 2, 'nor is any without a confirmation');
	like($err, qr/add --confirm $id/, 'which it asks for');
	($code, $report, $err) = recover(trail($node), '--in-place', '--confirm', $id, '--rings', rings_of($node));
	is($code, 0, 'in place: nothing is lost') or diag($err);
	is_deeply([ ring_files($node) ], [], 'the ring file is not where it was');
	is(scalar(my @kept = glob "$report->{evidence}/rings/*"), 1, 'it was kept');
	$node->start;
	compare_with_told($node, \%told, 'in place');
	$c = Steno::Client->new($node, application_name => 'after');
	$c->query("SELECT 'after'");
	is(scalar(statements($node, application => 'after', text => "SELECT 'after'")), 1, 'the server goes on');
	$node->stop;
	verify_ok($node, 'in place: the trail is whole');
	gapless($node, 'in place: no session has gaps');
}

# A writer dies just before, in the middle of, or just after its write of a block, and the whole server with it.
{
	my $node = new_node(
		'between',
		start => 0,
		conf => q{
restart_after_crash = off
steno.writers = 2
steno.ring_size = 16kB
steno.block_size = 64kB
steno.mandatory = ''
});
	my ($n, $first) = (0, 1);

	$faults->start($node);
	value($node, 'CREATE EXTENSION pg_steno');
	foreach my $fault (qw(kill_before_write kill_in_write kill_after_write))
	{
		foreach my $stream (0, 1)
		{
			my $what = "$fault of stream $stream";
			my $name = 'round ' . ++$n;
			my (%told, @c, @pids);
			my $watch;

			if (!$first)
			{
				$node->stop;
				$faults->start($node);
			}
			$first = 0;
			$watch = Steno::Client->new($node, application_name => 'steno_test_helper');
			$watch->query(q{SET steno.log = 'none'});
			@c = Steno::Client->of_both_writers($node, $watch, application_name => $name);
			my $run = sub {
				my ($phase, $application) = @_;

				foreach my $c (@c)
				{
					foreach my $i (1 .. 3)
					{
						my $text = "SELECT '$name $phase $c->{pid} $i'";

						$c->query($text);
						$told{$text} = [ $application, 'ok', '-', 0 ];
					}
				}
			};
			$run->('trail', $name);
			$watch->query('SELECT steno.flush()');
			$faults->set('hold_write');
			$run->('block', $name);
			wait_until 'the writer is at it', sub { $faults->is_set("holding.$stream") };
			$_->query("SET application_name = '$name changed'") foreach @c;
			$run->('ring', "$name changed");
			@pids = ($node->{_pid}, split ' ', `ps -o pid= --ppid $node->{_pid}`);
			# the other writer waits until it is killed with the rest
			$faults->set_times("$fault.$stream", 1);
			$faults->unset('hold_write');
			server_gone($node, @pids);
			close $_->{socket} foreach @c, $watch;
			recovered_as_by_server($node, \%told, $what);
		}
	}
	$node->stop;
}
done_testing();

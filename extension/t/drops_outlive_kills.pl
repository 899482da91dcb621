
# Gap records count dropped records, and neither a kill nor a stop loses that count.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno::Client;
use Steno::Faults;
use Steno;
use Test::More;

# With steno.delivery = drop, what a session has dropped and could not say any more is
# said by those who recover, whether it was killed or ended, and also when nothing at
# all of it had found room, its description included.  Of several such sessions that
# had one ring in turn, all but the first are counted only: by the writer, or, when
# that was killed, by those who recover.
{
	my $faults = Steno::Faults->new;
	my $node = new_node(
		'drops_outlive_kills',
		start => 0,
		conf => q{
	steno.ring_size = 16kB
	steno.delivery = drop
	restart_after_crash = on
	});
	$faults->start($node);
	value($node, 'CREATE EXTENSION pg_steno');
	my $watch = Steno::Client->new($node, application_name => 'steno_test_helper');
	my $writer = writer_pid($watch);

	sub ring_of
	{
		my ($client) = @_;

		return $watch->query("SELECT ring FROM steno.rings WHERE pid = $client->{pid}")->{rows}[0][0];
	}

	sub run_statements
	{
		my ($client, $n) = @_;

		$client->query("SELECT '" . filler(500) . "'") foreach 1 .. $n;
		return;
	}

	# first is described, fills its ring, and ends; second has that ring, and nothing of it
	# finds room; third is described, and drops.
	my $first = Steno::Client->new($node, application_name => 'first');
	my $third = Steno::Client->new($node, application_name => 'third');
	my $ring = ring_of($first);
	my $second;

	$watch->query('SELECT steno.flush()');
	stop_process($writer);
	run_statements($first, 60);
	run_statements($third, 70);
	$first->quit;
	wait_until 'it has gone', sub { !kill 0, $first->{pid} };
	$second = Steno::Client->of_ring($node, $watch, $ring, application_name => 'second');
	run_statements($second, 50);
	kill 'KILL', $third->{pid};
	wait_until 'the rings of before are drained', sub {
		my $client = slurp_file($node->logfile) =~ /all server processes terminated; reinitializing/
		  && eval { Steno::Client->new($node, application_name => 'steno_test_helper') };

		$client && !$client->{greeting}{sqlstate} && scalar(my @files = ring_files($node)) == 1;
	};

	# connection and statements, and of the first the end
	foreach my $case ([ $first, 'first', 62 ], [ $second, 'second', 51 ], [ $third, 'third', 71 ])
	{
		my ($client, $name, $records) = @$case;
		my @r = grep { $_->{pid} == $client->{pid} } records($node);
		my @gaps = grep { $_->{kind} eq 'gap' } @r;
		my $dropped = 0;

		$dropped += $_->{extra}{count} foreach @gaps;
		# what recovery adds: gap records, and the ends of the killed
		is(scalar(@r) - @gaps - ($name eq 'first' ? 0 : 1) + $dropped, $records, "$name: each record is there, or in a gap");
		cmp_ok($dropped, '>', 10, "$name: records were dropped");
		is(scalar(grep { $_->{kind} eq 'disconnect' && $_->{outcome} eq 'interrupted' } @r),
			$name eq 'first' ? 0 : 1, "$name: its end");
	}

	# ---- one ring, several sessions that find no room at all ----

	# A session that gets that ring.
	sub next_of
	{
		my ($ring) = @_;

		return Steno::Client->of_ring($node, $watch, $ring, application_name => 'next');
	}

	foreach my $how ('the writer', 'recovery', 'kill_before_write.0', 'kill_after_write.0', 'the writer, before it ends')
	{
		my (@r, @first, @gaps, $described, $counted, %known);

		$watch = Steno::Client->new($node, application_name => 'steno_test_helper');
		$writer = writer_pid($watch);
		$first = Steno::Client->new($node, application_name => 'first');
		$ring = ring_of($first);
		$watch->query('SELECT steno.flush()');
		$known{"$_->{session} $_->{seq}"} = 1 foreach records($node, kind => 'gap');
		stop_process($writer);
		run_statements($first, 60);
		$first->quit;
		wait_until 'it has gone', sub { !kill 0, $first->{pid} };
		# each with its connection; the first of them finds a place for its numbers
		foreach my $n (3, 5, 7)
		{
			my $next = next_of($ring);

			run_statements($next, $n);
			$next->quit;
			wait_until 'it has gone', sub { !kill 0, $next->{pid} };
		}
		if ($how =~ /recovery|kill/)
		{
			my $start = -s $node->logfile;

			$faults->set_times($how, 1) if $how =~ /kill/;
			kill $how =~ /kill/ ? 'CONT' : 'KILL', $writer;
			$node->wait_for_log(qr/steno writer 0 recovered/, $start);
			wait_until 'one can connect', sub {
				my $client = eval { Steno::Client->new($node, application_name => 'steno_test_helper') };
				$client && !$client->{greeting}{sqlstate};
			};
		}
		else
		{
			continue_process($writer);
			$watch->query('SELECT steno.flush()') if $how eq 'the writer';
		}
		if ($how =~ /ends/)
		{
			# what is left is for the next start
			$node->stop;
			$faults->start($node);
		}
		elsif ($how eq 'the writer')
		{
			next_of($ring)->quit;    # which tells of the first of them
		}
		flush($node);
		@r = records($node);
		@gaps = grep { $_->{kind} eq 'gap' && !$known{"$_->{session} $_->{seq}"} } @r;
		@first = grep { $_->{pid} == $first->{pid} && $_->{kind} ne 'gap' } @r;
		cmp_ok(scalar @first, '>', 5, "$how: of the first session, something is there");
		$described += $_->{extra}{count} foreach grep { $_->{pid} == $first->{pid} } @gaps;
		is(@first + $described, 62, "$how: and all else of it is in gap records with its numbers");
		$counted += $_->{extra}{count} foreach grep { $_->{pid} != $first->{pid} } @gaps;
		is($counted, (1 + 3 + 1) + (1 + 5 + 1) + (1 + 7 + 1), "$how: drops of sessions that found no space are counted");
		cmp_ok(scalar(grep { !defined $_->{extra}{first_seq} } @gaps), '>', 0, "$how: and not by number");
		is(scalar(grep { $_->{extra}{reason} ne 'ring full' } @gaps), 0, "$how: with their reason");
	}

	# ---- the same, while the trail cannot be written: that is what they say ----

	foreach my $how ('the writer', 'recovery')
	{
		my (%known, %reasons, $counted);

		$watch = Steno::Client->new($node, application_name => 'steno_test_helper');
		$first = Steno::Client->new($node, application_name => 'first');
		$ring = ring_of($first);
		$writer = writer_pid($watch);
		$watch->query('SELECT steno.flush()');
		$known{"$_->{session} $_->{seq}"} = 1 foreach records($node, kind => 'gap');
		my $start = -s $node->logfile;
		$faults->set('write_fails');
		run_statements($first, 60);
		$node->wait_for_log(qr/could not write segment/, $start);
		run_statements($first, 1);
		$first->quit;
		wait_until 'it has gone', sub { !kill 0, $first->{pid} };
		foreach my $n (3, 5)
		{
			my $next = next_of($ring);

			run_statements($next, $n);
			$next->quit;
			wait_until 'it has gone', sub { !kill 0, $next->{pid} };
		}
		kill 'KILL', $writer if $how eq 'recovery';
		$faults->unset('write_fails');
		if ($how eq 'recovery')
		{
			$node->wait_for_log(qr/steno writer 0 recovered/, $start);
			wait_until 'one can connect', sub {
				my $client = eval { Steno::Client->new($node, application_name => 'steno_test_helper') };
				$client && !$client->{greeting}{sqlstate};
			};
		}
		flush($node);
		foreach my $gap (grep { !$known{"$_->{session} $_->{seq}"} && !defined $_->{extra}{first_seq} } records($node, kind => 'gap'))
		{
			$reasons{ $gap->{extra}{reason} } = 1;
			$counted += $gap->{extra}{count};
		}
		cmp_ok($counted, '>', 0, "trail not writable, $how: drops are counted");
		is_deeply([ keys %reasons ], ['trail not writable'], 'with their reason');
	}

	$node->stop;
	is_deeply([ ring_files($node) ], [], 'no ring file is left');
	verify_ok($node, 'every number has a record, or is in a gap');
}

# With a full disk and statements that go on, a session drops records and ends before
# there is room to say so.  No session gets its ring again.  When there is room, the writer
# writes its gap record; when it is killed meanwhile, the next run has the gap record once.
{
	my $faults = Steno::Faults->new;
	my $node = new_node(
		'clean_stop_tells_of_drops',
		start => 0,
		conf => q{
	steno.ring_size = 16kB
	steno.on_failure = continue
	restart_after_crash = off
	autovacuum = off
	});

	foreach my $how ('stop', 'kill_before_write.0', 'kill_after_write.0')
	{
		my ($watch, $client, $before, $dropped, @gaps, %last);
		my $named = 0;

		$faults->start($node);
		$watch = Steno::Client->new($node, application_name => 'steno_test_helper');
		$watch->query(q{SET steno.log = 'none'});
		$client = Steno::Client->new($node, application_name => 'drops');
		$client->query("SELECT 'before'");
		$watch->query('SELECT steno.flush()') if $how ne 'stop' || $watch->query('CREATE EXTENSION pg_steno');
		# of the runs before
		$before = $how eq 'stop' ? 0 : $watch->value('SELECT dropped FROM steno.status');
		$faults->set('write_fails');
		wait_until 'the writer cannot write', sub {
			$client->query("SELECT '" . filler(500) . "'");
			return $watch->query("SELECT drops FROM steno.rings WHERE pid = $client->{pid}")->{rows}[0][0] > 0;
		};
		# until there is no room for gap records either
		$client->query("SELECT '" . filler(500) . "'") foreach 1 .. 100;
		$client->quit;
		wait_until 'it has gone', sub { !kill 0, $client->{pid} };
		$dropped = $watch->value('SELECT dropped FROM steno.status') - $before;
		if ($how eq 'stop')
		{
			$faults->unset('write_fails');
			$node->stop;
			is(scalar(my @files = ring_files($node)), 0, 'stop: no ring file is left');
		}
		else
		{
			$faults->set_times($how, 1);
			$faults->unset('write_fails');
			wait_until 'the server has ended', sub { !-e $node->data_dir . '/postmaster.pid' };
			$node->{_pid} = undef;
			ok(!-e "$faults->{folder}/$how", "$how: the writer was killed");
			is(scalar(my @files = ring_files($node)), 1, "$how: the ring file is left");
			$node->start;
			$node->stop;
		}
		@gaps = grep { $_->{kind} eq 'gap' && $_->{pid} == $client->{pid} } records($node);
		$named += $_->{extra}{count} foreach @gaps;
		is($named, $dropped, "$how: gap records name what the session has dropped");
		is(scalar(records($node, kind => 'disconnect', pid => $client->{pid})), 1, "$how: it has an end");
		$last{ $_->{extra}{last_seq} }++ foreach @gaps;
		is(scalar keys %last, scalar @gaps, "$how: each is of other records");
		verify_ok($node, "$how: the trail is whole");
	}
}

done_testing();

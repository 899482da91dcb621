
# The statements of killed sessions have records that say how far they came.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno::Client;
use Steno::Ring;
use Steno;
use Test::More;

# A session killed in the middle of a statement: the statement is recorded as
# interrupted, with its text, and so is the end of the session.
{
	my $node = new_node('killed_sessions_are_interrupted', conf => "restart_after_crash = on\n");
	my $restarts = 0;

	# Start sql in a session of that name, kill the session while it sleeps, and
	# wait for the server to be back.
	sub killed_in
	{
		my ($name, $sql) = @_;
		my $c = Steno::Client->new($node, application_name => $name);
		my $start = -s $node->logfile;

		$c->query("SELECT 'before'");
		$c->put('Q', "$sql\0")->send_all;
		wait_until 'it sleeps',
		  sub { value($node, "SELECT count(*) FROM pg_stat_activity WHERE pid = $c->{pid} AND wait_event = 'PgSleep'") eq '1' };
		kill 'KILL', $c->{pid};
		close $c->{socket};
		server_is_back($node, $start);
		return;
	}

	{
		my ($r, $end, @all);

		killed_in('plain', 'SELECT pg_sleep(1000)');
		$r = the_record($node, 'killed in a statement',
			kind => 'statement', application => 'plain', outcome => 'interrupted');
		is_deeply(
			[ @$r{qw(text statement duration_us rows sqlstate)} ],
			[ 'SELECT pg_sleep(1000)', 2, undef, undef, undef ],
			'its fields');
		$end = the_record($node, 'end of the session',
			kind => 'disconnect', application => 'plain');
		is($end->{outcome}, 'interrupted', 'was an interruption');
		@all = sort { $a->{seq} <=> $b->{seq} } records($node, session => $r->{session});
		is_deeply(
			[ map { [ $_->{kind}, $_->{seq} ] } @all ],
			[
				[ 'connect', 1 ],
				[ 'statement', 2 ],
				[ 'statement', 3 ],
				[ 'disconnect', 4 ]
			],
			'the session is complete');
	}

	# The other sessions, which the server ended with it.
	{
		my $idle = Steno::Client->new($node, application_name => 'idle');
		my ($end);

		$idle->query("SELECT 'idle'");
		killed_in('second', 'SELECT pg_sleep(1001)');
		$end = the_record($node, 'a session that was idle', kind => 'disconnect', application => 'idle');
		is($end->{outcome}, 'interrupted', 'ended with the server');
		is(scalar(statements($node, application => 'idle', outcome => 'interrupted')),
			0, 'it was running nothing');
		is(scalar(statements($node, application => 'idle')), 1, 'and its statement is there');
	}

	# Long text: its beginning and its length.
	{
		my $text = "SELECT pg_sleep(1002), '" . 'x' x 100_000 . "'";
		my $r;

		killed_in('long', $text);
		$r = the_record($node, 'killed in a long statement',
			kind => 'statement', application => 'long', outcome => 'interrupted');
		is($r->{text_bytes}, length $text, 'length of the text');
		cmp_ok(length $r->{text}, '>=', 100, 'a part of the text');
		is($r->{text}, substr($text, 0, length $r->{text}), 'its beginning');
	}

	# Inside a function, it is the statement that the client sent.
	{
		my $sql = 'DO $$ BEGIN PERFORM 1; PERFORM pg_sleep(1003); END $$';
		my $r;

		killed_in('nested', $sql);
		$r = the_record($node, 'killed in a function',
			kind => 'statement', application => 'nested', outcome => 'interrupted');
		is($r->{text}, $sql, 'the statement of the client');
		is(scalar(statements($node, application => 'nested', depth => 1, text => 'SELECT 1')),
			1, 'what had ended inside it is there');
	}

	# A query of the extended protocol ends when it has delivered its last row, whenever its portal is closed.
	{
		my $c = Steno::Client->new($node, application_name => 'portal');
		my $start = -s $node->logfile;

		$node->safe_psql('postgres', 'CREATE TABLE t (n int)');
		$c->query('BEGIN');
		is($c->extended('INSERT INTO t VALUES ($1)', 1)->{tags}[0], 'INSERT 0 1', 'a client was told of an insert');
		is($c->extended('SELECT $1::int', 2)->{rows}[0][0], '2', 'it has the rows of a query, in a transaction that is open');
		kill 'KILL', $c->{pid};
		close $c->{socket};
		server_is_back($node, $start);
		is_deeply(
			[ map { "$_->{text}: $_->{outcome}" } statements($node, application => 'portal', text => qr/\$1/) ],
			[ 'INSERT INTO t VALUES ($1): ok', 'SELECT $1::int: ok' ],
			'both have ended: the client has the rows');
	}

	# The whole server, killed with a statement running.
	{
		my $c = Steno::Client->new($node, application_name => 'server');

		$c->put('Q', "SELECT pg_sleep(1004)\0")->send_all;
		wait_until 'it sleeps',
		  sub { value($node, "SELECT count(*) FROM pg_stat_activity WHERE pid = $c->{pid} AND wait_event = 'PgSleep'") eq '1' };
		kill_server($node);
		$node->start;
		wait_until 'the rings of before are drained',
		  sub { scalar(my @files = ring_files($node)) == 1 };
		is( the_record($node, 'the server killed',
				kind => 'statement', application => 'server', outcome => 'interrupted')->{text},
			'SELECT pg_sleep(1004)',
			'what was running');
	}

	# An ordinary end interrupts nothing.
	{
		my $c = Steno::Client->new($node, application_name => 'immediate');

		$c->query("SELECT 'done'");
		$node->stop('immediate');
		$node->start;
		wait_until 'the rings of before are drained',
		  sub { scalar(my @files = ring_files($node)) == 1 };
		is(scalar(statements($node, application => 'immediate', outcome => 'ok')), 1, 'immediate stop: what had ended is there');
		is(scalar(statements($node, application => 'immediate', outcome => 'interrupted')), 0, 'nothing was interrupted');
		$c = Steno::Client->new($node, application_name => 'fast');
		$c->query("SELECT 'done'");
		$node->stop('fast');
		is_deeply(
			[ map { $_->{outcome} // 'ok' } records($node, application => 'fast', kind => 'statement') ],
			['ok'], 'fast stop: the statement is there');
		is(scalar(records($node, application => 'fast', kind => 'disconnect')), 1, 'and the end of the session');
	}

	verify_ok($node, 'the trail is whole');
	gapless($node, 'no session has gaps');
}

# A session that is killed after publishing the record of its statement, but before noting that the
# statement no longer runs: the ring shows a running statement, and its record.  Recovery finds
# that it has ended.
{
	my $node = new_node('killed_after_publishing', conf => "steno.ring_size = 64kB\n");
	my ($file) = ring_files($node);

	# The place of a session's ring header in the file.
	sub ring_of
	{
		my ($bytes, $client) = @_;

		foreach my $i (0 .. ring_number($bytes, 0, 'StenoRingFile.nrings') - 1)
		{
			my $at = ring_at($bytes, $i);

			return $at if ring_number($bytes, $at, 'StenoRing.owner') == $client->{pid};
		}
		die 'the session has no ring';
	}

	# staged: its record stood in the ring already; shown: its text in the slot.
	my %sessions = map { ($_ => Steno::Client->new($node, application_name => $_)) } qw(staged shown undone);

	$sessions{staged}->query("SELECT 'staged'");
	$sessions{shown}->query('LISTEN shown');
	$sessions{undone}->query("SELECT 'undone'");

	kill_server($node);

	# As if they had been killed a moment sooner; one as if it had published nothing, which shows that recovery reads this.
	my $bytes = PostgreSQL::Test::Utils::slurp_file($file);

	foreach my $name (sort keys %sessions)
	{
		my $ring = ring_of(\$bytes, $sessions{$name});
		my $entry = $ring + ring_offset('StenoRing.inflight');

		is(ring_number(\$bytes, $entry, 'StenoInFlight.done'), ring_number(\$bytes, $ring, 'StenoRing.head'), "$name: the last record is that of the statement");
		is(ring_number(\$bytes, $entry, 'StenoInFlight.staged'), $name eq 'shown' ? 0 : 1, "$name: how it was shown");
		is(ring_number(\$bytes, $entry, 'StenoInFlight.active'), 0, "$name: nothing runs");
		ring_number(\$bytes, $entry, 'StenoInFlight.active', 1);
		ring_number(\$bytes, $entry, 'StenoInFlight.done', 0) if $name eq 'undone';
	}
	open my $fh, '>:raw', $file or die "$file: $!";
	print $fh $bytes;
	close $fh or die;

	$node->start;
	wait_until 'the rings of before are drained',
	  sub { scalar(my @files = ring_files($node)) == 1 };
	foreach my $case ([ 'staged', ['ok'] ], [ 'shown', ['ok'] ], [ 'undone', [ 'interrupted', 'ok' ] ])
	{
		my ($name, $outcomes) = @$case;

		is_deeply([ sort map { $_->{outcome} } statements($node, application => $name) ], $outcomes, "$name: its records");
		is( the_record($node, "$name: end of the session", application => $name, kind => 'disconnect')->{outcome},
			'interrupted', "$name: how it ended");
	}
	$node->stop;
	verify_ok($node, 'the trail is whole');
	gapless($node, 'no session has gaps');
}

# A session that has dropped records is killed while it hands their count over: the count is then both
# in its own place and where recovery, or the writer, looks for those of ended sessions.  It is
# reported once.
{
	my $node = new_node(
		'killed_while_leaving', conf => q{
	steno.ring_size = 16kB
	steno.delivery = drop
	steno.mandatory = ''
	restart_after_crash = off
	});

	foreach my $where ('gap', 'untold')
	{
		my $watch = Steno::Client->new($node, application_name => 'steno_test_helper');
		my $writer = writer_pid($watch);
		my ($postmaster, @processes, $file, $bytes, $ring, $number, $dropped, $counted, %known, $c);
		my $ring_of = sub { $watch->query("SELECT ring FROM steno.rings WHERE pid = $_[0]{pid}")->{rows}[0][0] };
		my $leave = sub {
			my ($session) = @_;

			$session->query("SELECT '" . filler(500) . "'") foreach 1 .. 60;
			$session->quit;
			wait_until 'it has gone', sub { !kill 0, $session->{pid} };
		};

		$watch->query(q{SET steno.log = 'none'});
		$c = Steno::Client->new($node, application_name => 'first');
		$ring = $ring_of->($c);
		$watch->query('SELECT steno.flush()');
		$known{"$_->{session} $_->{seq}"} = 1 foreach records($node, kind => 'gap');
		kill 'STOP', $writer or die;
		$leave->($c);
		if ($where eq 'untold')
		{
			# one that finds no room at all, and the place of the first
			$c = Steno::Client->of_ring($node, $watch, $ring, application_name => 'second');
			$leave->($c);
		}
		$postmaster = $node->{_pid};
		@processes = split ' ', `ps -o pid= --ppid $postmaster`;
		kill 'STOP', $postmaster;
		kill 'KILL', @processes, $postmaster;
		wait_until 'all are gone', sub { !grep { kill 0, $_ } $postmaster, @processes };
		$node->{_pid} = undef;
		unlink $node->data_dir . '/postmaster.pid';

		# as if it had been killed a moment sooner
		($file) = ring_files($node);
		$bytes = slurp_file($file);
		$number = sub { my ($field, $new) = @_; ring_number(\$bytes, ring_at(\$bytes, $ring), "StenoRing.$field", $new) };
		is($number->('owner'), 0, "$where: the session has ended");
		is($number->('own_gap'), 0, "$where: and has left what it dropped");
		$dropped = $number->('own_last') - $number->('own_first') + 1;
		if ($where eq 'gap')
		{
			is($number->('gap'), $dropped, "$where: so many");
			is($number->('gap_pid'), $c->{pid}, "$where: of this session");
		}
		else
		{
			is($number->('orphan_drops'), $dropped, "$where: so many");
			is($number->('orphan_drops_next'), $dropped, "$where: as it was about to say");
		}
		$number->('own_gap', $dropped);
		$number->('owner', $c->{pid});
		unlink $file;
		append_to_file($file, $bytes);

		# all that this ring has seen
		$dropped = $number->('drops');
		$node->start;
		wait_until 'the rings of before are drained', sub { !-e $file };
		$counted += $_->{extra}{count} foreach grep { !$known{"$_->{session} $_->{seq}"} } records($node, kind => 'gap');
		is($counted, $dropped, "$where: each record is counted once");
		close $watch->{socket};
	}
	$node->stop;
	verify_ok($node, 'the trail is whole');
}

# A session that is killed after its last record, but before it has released its ring, has one end.
{
	my $node = new_node('killed_after_its_end', conf => "restart_after_crash = off\n");
	my $watch = Steno::Client->new($node, application_name => 'steno_test_helper');
	my $ended = Steno::Client->new($node, application_name => 'ended');
	my (%end, %pid, %released, $refused, $file, $bytes);
	my $ends = sub { map { $_->{kind} . ' ' . ($_->{outcome} // 'ok') } records($node, kind => qr/^(disconnect|auth_failed)$/, application => $_[0]) };

	$ended->query('SELECT 1');
	$pid{ended} = $ended->{pid};
	# in another ring, as that of the first is still taken; and nobody comes after them
	$refused = Steno::Client->new($node, application_name => 'refused', database => 'none');
	ok(!$refused->receive, 'one is refused, and has gone');
	$ended->quit;
	$watch->query('SELECT steno.flush()');
	kill_server($node);
	($pid{refused}) = map { hex((split /\./, $_->{session})[1]) } records($node, kind => 'auth_failed', application => 'refused');
	$end{$_} = [ $ends->($_) ] foreach qw(ended refused);
	is_deeply(\%end, { ended => ['disconnect ok'], refused => ['auth_failed error'] }, 'both have said how they ended');

	# as if they had been killed a moment sooner
	($file) = ring_files($node);
	$bytes = slurp_file($file);
	foreach my $at (map { ring_at(\$bytes, $_) } 0 .. ring_number(\$bytes, 0, 'StenoRingFile.nrings') - 1)
	{
		# of the session at the ring's tail, after its start
		my $pid = unpack 'L<', substr $bytes, $at + ring_offset('StenoRing.session') + 8, 4;
		my ($who) = grep { $pid{$_} == $pid } keys %pid;

		next if !$who || ring_number(\$bytes, $at, 'StenoRing.owner') != 0;
		ring_number(\$bytes, $at, 'StenoRing.owner', $pid);
		$released{$who}++;
	}
	is_deeply(\%released, { ended => 1, refused => 1 }, 'each had released its ring');
	unlink $file;
	append_to_file($file, $bytes);
	$node->start;
	wait_until 'the rings of before are drained', sub { !-e $file };
	is_deeply([ $ends->($_) ], $end{$_}, "$_: that is its end") foreach qw(ended refused);
	$node->stop;
	verify_ok($node, 'a second time: the trail is whole');
}

done_testing();


# A writer is stopped: statements wait for it and nothing is lost, or, with steno.delivery = drop,
# records are dropped, counted, and reported by a gap record.

use strict;
use warnings;

use IO::Select;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Test::More;

my $node = new_node('main', conf => "steno.ring_size = 16kB\nsteno.large_buffers = 0\n");
my $writer = writer_pid($node);

# One column of a session's ring.  The counters include the ring's earlier sessions.
sub ring
{
	my ($client, $column) = @_;

	return value($node, "SELECT $column FROM steno.rings WHERE pid = $client->{pid}");
}

# Drop.
{
	my $c = Steno::Client->new($node, application_name => 'dropping');
	my ($named, $dropped, $waits, @r, @gaps) = (0);

	$c->query('SET steno.delivery = drop');
	$waits = ring($c, 'waits');
	stop_process($writer);
	ok(!$c->query("SELECT 'dropping $_', '" . filler(500) . "'")->{sqlstate},
		"statement $_ is not held up") foreach 1 .. 60;
	$dropped = ring($c, 'drops');
	cmp_ok($dropped, '>', 10, 'records were dropped, and counted');
	cmp_ok($dropped, '<', 60, 'not all of them');
	is(ring($c, 'waits'), $waits, 'nothing waited');
	cmp_ok(ring($c, 'fill'), '>', 0.4, 'the ring is full, but for its reserve');
	continue_process($writer);
	flush($node);
	$c->query("SELECT 'after'");
	$c->quit;

	@r = records($node, application => 'dropping');
	# several: what is small can find room between
	@gaps = sort { $a->{seq} <=> $b->{seq} } grep { $_->{kind} eq 'gap' } @r;
	cmp_ok(scalar @gaps, '>', 0, 'a gap record');
	foreach my $gap (@gaps)
	{
		my ($count, $first, $last) = @{ $gap->{extra} }{qw(count first_seq last_seq)};

		$named += $count;
		is($last - $first + 1, $count, 'it says how many and which');
		is($gap->{seq}, $last + 1, 'it comes after them');
		is($gap->{extra}{reason}, 'ring full', 'and says why');
		is(scalar(grep { $_->{seq} >= $first && $_->{seq} <= $last } @r),
			0, 'no record has one of these numbers');
	}
	is($named, $dropped, 'all that were counted are named');
	is(scalar(grep { ($_->{text} // '') =~ /^SELECT 'dropping/ } @r) + $dropped,
		60, 'records and dropped ones are all');
	is(scalar(grep { ($_->{text} // '') eq q{SELECT 'after'} } @r), 1, 'then it goes on');
	verify_ok($node, 'a gap that is accounted for is no damage');
}

# A session that ends with dropped records, and could not report them any more: its writer does,
# whether another session gets its ring, or the server stops.
foreach my $next ('a session', 'a start')
{
	my $name = "dropping before $next";
	my $c = Steno::Client->new($node, application_name => $name);
	my ($watch, $ring, $pid, $dropped, $gap, $after, @r);
	my $named = 0;

	# the observing session must have begun before: a new one would get the full ring
	$watch = Steno::Client->new($node, application_name => 'watch');
	$watch->query(q{SET steno.log = 'none'});
	my $look = sub { $watch->query($_[0])->{rows}[0][0] };
	$c->query('SET steno.delivery = drop');
	flush($node);
	($ring, $pid, $dropped) = (ring($c, 'ring'), $c->{pid}, ring($c, 'drops'));
	stop_process($writer);

	# so full that no gap record finds room
	$c->query("SELECT 'dropping $_', '" . filler(500) . "'") foreach 1 .. 60;
	$c->query("SELECT $_") foreach 1 .. 60;
	$dropped = $look->("SELECT drops FROM steno.rings WHERE ring = $ring") - $dropped;
	$c->quit;
	wait_until 'it has gone', sub { $look->("SELECT count(*) FROM pg_stat_activity WHERE pid = $pid") eq '0' };

	if ($next eq 'a session')
	{
		continue_process($writer);
		$after = Steno::Client->of_ring($node, $watch, $ring, application_name => 'next');
		$_->quit foreach $after, $watch;
	}
	else
	{
		$node->command_ok([ 'pg_ctl', '-D', $node->data_dir, '-m', 'fast', '-W', 'stop' ], 'a stop');
		$node->wait_for_log(qr/received fast shutdown request/);
		continue_process($writer);
		wait_until 'the server is down', sub { !-e $node->data_dir . '/postmaster.pid' };
		$node->{_pid} = undef;
		is(scalar(() = ring_files($node)), 0, 'the stop has written what the ring had to tell');
		$node->start;
		wait_until 'it is drained', sub { scalar(() = ring_files($node)) == 1 };
		$writer = writer_pid($node);
	}
	@r = sort { $a->{seq} <=> $b->{seq} } records($node, application => $name);
	$gap = $r[-2];
	is("$gap->{kind} $r[-1]{kind}", 'gap disconnect', "dropped before $next: a gap record is before the session's end");
	is($gap->{extra}{last_seq} - $gap->{extra}{first_seq} + 1, $gap->{extra}{count}, 'it says how many and which');
	is($gap->{seq}, $gap->{extra}{last_seq} + 1, 'it comes after them');
	$named += $_->{extra}{count} foreach grep { $_->{kind} eq 'gap' } @r;
	is($named, $dropped, 'all that were dropped are named');
	is($r[-1]{seq}, $gap->{seq} + 1, 'its end is not among them');
	verify_ok($node, 'the trail is whole');
}

# A big record that does not fit is dropped as one.
{
	my $c = Steno::Client->new($node, application_name => 'dropping big');
	my ($before, $gap);

	$c->query('SET steno.delivery = drop');
	$before = ring($c, 'drops');
	stop_process($writer);
	$c->query("SELECT 'big', '" . 'x' x 100_000 . "'");
	is(ring($c, 'drops'), $before + 1, 'a big record is dropped as one');
	continue_process($writer);
	flush($node);
	$c->query("SELECT 'after'");
	$c->quit;
	$gap = the_record($node, 'its gap', application => 'dropping big', kind => 'gap');
	is($gap->{extra}{count}, 1, 'of one record');
	is(scalar(statements($node, application => 'dropping big', text => q{SELECT 'after'})),
		1, 'then it goes on');
	verify_ok($node, 'parts without a record are no damage');
}

# Wait.
{
	my $c = Steno::Client->new($node, application_name => 'waiting');
	my ($n, $waiting, @texts) = (0, 0);
	my ($waits, $drops);

	$c->query('SELECT 1');
	($waits, $drops) = map { ring($c, $_) } qw(waits drops);
	stop_process($writer);
	until ($waiting)
	{
		$n++;
		push @texts, "SELECT 'waiting $n', '" . filler(500) . "'";
		$c->put('Q', "$texts[-1]\0")->send_all;

		# it has an answer, or it waits
		wait_until 'either', sub {
			return 1 if IO::Select->new($c->{socket})->can_read(0.01);
			$waiting = ring($c, 'waits') > $waits;
			return $waiting;
		};
		$c->finish if !$waiting;
		die 'the ring is never full' if $n > 1000;
	}
	pass("statement $n waits");
	is(ring($c, 'waits'), $waits + 1, 'it is counted');
	ok(!IO::Select->new($c->{socket})->can_read(0), 'and not answered');
	is(value($node, "SELECT wait_event FROM pg_stat_activity WHERE pid = $c->{pid}"),
		'StenoRingFull', 'and seen to wait in pg_stat_activity');
	continue_process($writer);
	ok(!$c->finish->{sqlstate}, 'then it goes on');
	is(ring($c, 'waits'), $waits + 1, 'it was one wait');
	cmp_ok(ring($c, 'wait_ms'), '>', 0, 'which took time');
	is(ring($c, 'drops'), $drops, 'and nothing was dropped');
	$c->query("SELECT 'after'");
	$c->quit;
	is_deeply(
		[
			map { $_->{text} } sort { $a->{seq} <=> $b->{seq} } statements($node, application => 'waiting')
		],
		[ 'SELECT 1', @texts, q{SELECT 'after'} ],
		'every statement is there');
}

# The writer continues when the server shuts down: records that waited are not lost.
{
	my @clients = map { Steno::Client->new($node, application_name => "leaving $_") } 1 .. 3;
	my $postmaster = $node->{_pid};

	stop_process($writer);
	$_->query("SELECT 'last words'") foreach @clients;
	$node->command_ok([ 'pg_ctl', '-D', $node->data_dir, '-m', 'fast', '-W', 'stop' ],
		'shutdown with a writer that does not come');
	$node->wait_for_log(qr/received fast shutdown request/);
	continue_process($writer);
	wait_until 'the server is down', sub { !-e $node->data_dir . '/postmaster.pid' };
	$node->{_pid} = undef;
	is(scalar(statements($node, text => "SELECT 'last words'")), 3, 'the last statements are there');
	is(scalar(grep { $_->{application} =~ /^leaving/ } records($node, kind => 'disconnect')),
		3, 'and the ends of the sessions');
	is_deeply([ ring_files($node) ], [], 'no ring file is left');
}

verify_ok($node, 'the trail is whole');
done_testing();

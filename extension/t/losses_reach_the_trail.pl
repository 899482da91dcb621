
# What was dropped while the trail could not be written is in the trail as soon as it can be: the
# sessions that dropped it need not be there any more, nor does another one have to take their rings.
# Clients count what they were told of, the server what it has dropped.

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
steno.ring_size = 16kB
steno.on_failure = continue
steno.writers = 2
});
my $watch;
my ($answered, $rounds) = (0, 0);

$faults->start($node);
value($node, 'CREATE EXTENSION pg_steno; CREATE ROLE app LOGIN');
$watch = Steno::Client->new($node, application_name => 'watch');
$watch->query(q{SET steno.log = 'none'});

# Sessions that lose records, and end: all at once, so that each has a ring of its own, or one after the other.
sub lose
{
	my ($name, %o) = @_;
	my @sessions;

	$faults->set('write_fails');
	foreach (1 .. $o{sessions})
	{
		my $c = Steno::Client->new($node, user => 'app', application_name => $name);

		foreach (1 .. 60)
		{
			my $answer = $c->query("SELECT 'answered " . $answered++ . "', '" . filler(500) . "'");

			die $answer->{message} if $answer->{sqlstate};
		}
		push @sessions, $c;
		$rounds++;
		wait_until_gone(splice @sessions) if $o{one_by_one};
	}
	wait_until_gone(@sessions);
	return;
}

sub wait_until_gone
{
	my (@sessions) = @_;

	foreach my $c (@sessions)
	{
		$c->quit;
		wait_until 'its process is gone', sub { $watch->value("SELECT count(*) FROM pg_stat_activity WHERE pid = $c->{pid}") eq '0' };
	}
	return;
}

sub can_write_again
{
	$faults->unset('write_fails');
	wait_until 'the trail is written again', sub { $watch->value('SELECT state FROM steno.status') eq 'ok' };
	$watch->value('SELECT steno.flush()');
	return;
}

sub named
{
	my $sum = 0;

	$sum += $_->{extra}{count} foreach records($node, kind => 'gap');
	return $sum;
}

sub dropped
{
	return $watch->value('SELECT dropped FROM steno.status');
}

# No other session begins between the outage and the look at the trail.
lose('together', sessions => 6);
my $dropped = dropped();
cmp_ok($dropped, '>', 6 * 10, 'sessions have dropped records, and have ended');
my (undef, $warned) = steno_result('verify', '--rings', rings_of($node), trail($node));
my ($unrecorded) = $warned =~ /^warning: the running server has dropped (\d+) records of which the trail does not know yet/m;
cmp_ok($unrecorded // 0, '>', 0, 'steno verify warns of them');
cmp_ok($unrecorded // 0, '<=', $dropped, 'and of no others');
can_write_again();
is(named(), $dropped, 'gap records name all of what they dropped, without another session in their rings');
my @ends = records($node, kind => 'disconnect', user => 'app');
my @lost = records($node, kind => 'gap', user => 'app');
cmp_ok(scalar @lost, '>=', 6, 'gap records of each session');
is(scalar @ends, 6, 'each has an end');
is(scalar(grep { defined $_->{outcome} } @ends), 0, 'which says that it was an ordinary one');
is(scalar(grep { my $e = $_; grep { $_->{session} eq $e->{session} && $_->{extra}{last_seq} + 2 == $e->{seq} } @lost } @ends),
	6, 'its number is the one after that of the gap record');
is(scalar(statements($node, text => qr/^SELECT 'answered /)) + $dropped, $answered,
	'recorded and dropped are together what the clients were told of');
($warned) = (steno_result('verify', '--rings', rings_of($node), trail($node)))[1];
unlike($warned, qr/of which the trail does not know/, 'then, steno verify has nothing to warn of');
verify_ok($node, 'the trail is whole');

# Others use the same rings during the outage.
lose('one by one', sessions => 5, one_by_one => 1);
$dropped = dropped();
can_write_again();
is(named(), $dropped, 'one after the other: gap records name all');
cmp_ok(scalar(statements($node, text => qr/^SELECT 'answered /)) + named(), '>=', $answered, 'none of the answered statements is unknown');
verify_ok($node, 'the trail is whole');

# A session that is terminated, and one whose end alone found no room.
{
	my $c;

	$faults->set('write_fails');
	$c = Steno::Client->new($node, user => 'app', application_name => 'terminated');
	$c->query("SELECT 'answered " . $answered++ . "', '" . filler(500) . "'") foreach 1 .. 60;
	$watch->value("SELECT pg_terminate_backend($c->{pid})");
	wait_until 'its process is gone', sub { $watch->value("SELECT count(*) FROM pg_stat_activity WHERE pid = $c->{pid}") eq '0' };
	$dropped = dropped();
	can_write_again();
	my $end = the_record($node, 'terminated', kind => 'disconnect', application => 'terminated');
	is($end->{sqlstate}, '57P01', 'the end says what ended it');
	is(named(), $dropped, 'terminated: gap records name all');
}

# A writer that is replaced, and a crash: they are recorded once.
foreach my $how (qw(writer crash stop))
{
	lose($how, sessions => 3);
	$dropped = dropped();
	if ($how eq 'writer')
	{
		my $pid = writer_pid($watch);

		kill 'TERM', $pid;
		wait_until 'it is another one', sub { my $now = $watch->value('SELECT coalesce(pid, 0) FROM steno.writers WHERE writer = 0'); $now != 0 && $now != $pid };
		can_write_again();
	}
	else
	{
		{
			# a flush would wait for the disk
			local $node->{steno_down} = 1;
			is(named_of($how), 0, "$how: nothing is recorded yet");
		}
		$how eq 'crash' ? $node->stop('immediate') : $node->stop;
		$faults->unset('write_fails');
		$faults->start($node);
		$watch = Steno::Client->new($node, application_name => 'watch');
		$watch->query(q{SET steno.log = 'none'});
		wait_until 'the rings of before are drained', sub { scalar(my @files = ring_files($node)) == 1 };
		$watch->value('SELECT steno.flush()');
	}
	cmp_ok(named_of($how), '>', 3 * 10, "$how: the losses are recorded");
	is(scalar(records($node, kind => 'disconnect', application => $how, outcome => undef)), 3, "$how: so are the ends");
	verify_ok($node, "$how: the trail is whole");
}

# What gap records of sessions with this name count; the gap record has the session's facts as long as the ring has them.
sub named_of
{
	my ($name) = @_;
	my $sum = 0;

	$sum += $_->{extra}{count} foreach records($node, kind => 'gap', application => $name);
	return $sum;
}

$watch->quit;
$node->stop;
done_testing();

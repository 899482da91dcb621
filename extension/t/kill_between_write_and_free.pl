
# A writer is killed just before, during, or just after the write of a block, before it has freed the
# rings: recovery finds out which of these it was, and each record is in the trail once, even if
# processes that recover are killed, too.

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
steno.writers = 2
steno.ring_size = 16kB
steno.block_size = 64kB
steno.mandatory = ''
});
my $rounds = 0;
my $total_kills = 0;

# The server has restarted so often since start, a place in its log, is back, and
# what its last run left is in the trail.
sub back
{
	my ($start, $restarts) = @_;

	# a writer that is killed is not noticed at once: nobody may connect before
	wait_until "$restarts restarts", sub {
		scalar(() = slurp_file($node->logfile, $start) =~ /all server processes terminated; reinitializing/g) >= $restarts;
	};
	wait_until 'the rings of before are drained', sub {
		can_connect($node)
		  && scalar(my @files = ring_files($node)) == 1;
	};
	return;
}

# Sessions of both writers; each has its statements in the trail, statements
# in the block whose write is the end of the writer, and statements after these, which
# tell of another application, in its ring alone.
sub round_of
{
	my ($fault, $stream, $kills) = @_;
	my $what = "$fault of stream $stream, $kills times";
	my $start = -s $node->logfile;
	my (@sessions, %texts, %seen, %seqs, @r);
	my $name = 'round ' . ++$rounds;
	my $watch = Steno::Client->new($node, application_name => 'steno_test_helper');

	$watch->query(q{SET steno.log = 'none'});
	@sessions = Steno::Client->of_both_writers($node, $watch, application_name => $name);
	my $run = sub {
		my ($phase) = @_;

		foreach my $i (0 .. $#sessions)
		{
			foreach my $n (1 .. 3)
			{
				my $text = "SELECT '$name $phase $i $n'";

				$sessions[$i]->query($text);
				$texts{$text} = $phase eq 'ring' ? "$name changed" : $name;
			}
		}
	};

	$run->('trail');
	$watch->query('SELECT steno.flush()');
	$faults->set('hold_write');
	$run->('block');
	wait_until 'the writer is at it', sub { $faults->is_set("holding.$stream") };
	$_->query("SET application_name = '$name changed'") foreach @sessions;
	$run->('ring');
	$faults->set_times("$fault.$stream", $kills);
	$faults->unset('hold_write');
	back($start, $kills);
	is(scalar(() = slurp_file($node->logfile, $start) =~ /was terminated by signal 9/g),
		$kills, "$what: killed as often");

	@r = grep { ($_->{application} // '') =~ /^$name( changed)?$/ } records($node);
	foreach my $r (@r)
	{
		push @{ $seqs{ $r->{session} } }, $r->{seq};
		next if $r->{kind} ne 'statement' || $r->{text} !~ /^SELECT '/;
		$seen{ $r->{text} }++;
		is($r->{application}, $texts{ $r->{text} }, "$what: facts of the session")
		  if ($r->{application} // '') ne ($texts{ $r->{text} } // '-');
	}
	is_deeply([ grep { ($seen{$_} // 0) != 1 } sort keys %texts ], [], "$what: each statement is there once");
	is(scalar keys %seqs, scalar @sessions, "$what: all sessions");
	is_deeply(
		[ map { [ sort { $a <=> $b } @$_ ] } values %seqs ],
		[ map { [ 1 .. 12 ] } @sessions ],
		"$what: and their ends, numbered without gaps");
	is_deeply(
		[ map { $_->{outcome} } grep { $_->{kind} eq 'disconnect' } @r ],
		[ ('interrupted') x @sessions ],
		"$what: one end each");
	verify_ok($node, "$what: the trail is whole");
	close $_->{socket} foreach @sessions, $watch;
	$total_kills += $kills;
	is(scalar(grep { /"event":"recover"/ } lines($node, '--kind', 'server')), $total_kills, "$what: each ring file was recovered once");
	return;
}

$faults->start($node);
value($node, 'CREATE EXTENSION pg_steno');

# For stream 0, the second kill hits the recovery from the first one, the third kill the recovery from
# the second.
foreach my $fault (qw(kill_before_write kill_in_write kill_after_write))
{
	round_of($fault, 0, $_) foreach 1 .. 3;
	round_of($fault, 1, 1);
}
# The ends of many sessions take several blocks, and the writer of these is killed
# after each.
{
	my $padding = 'x' x 220;
	my $start = -s $node->logfile;
	my (@sessions, @others, %ends);
	my $watch = Steno::Client->new($node, application_name => 'steno_test_helper');

	@sessions = map { Steno::Client->new($node, application_name => 'many') } 1 .. 80;
	$_->put('Q', "SELECT pg_sleep(1000), '$padding'\0")->send_all foreach @sessions;
	wait_until 'all are running', sub {
		$watch->query(q{SELECT count(*) FROM pg_stat_activity WHERE application_name = 'many' AND wait_event = 'PgSleep'})->{rows}[0][0] eq '80';
	};
	@others = Steno::Client->of_both_writers($node, $watch, application_name => 'others');
	$watch->query('SELECT steno.flush()');
	$faults->set_times('kill_after_write.0', 3);
	$_->query(q{SELECT 'for a write'}) foreach @others;
	back($start, 3);
	foreach my $r (records($node, application => 'many'))
	{
		push @{ $ends{ $r->{session} } }, "$r->{kind} $r->{outcome}" if $r->{outcome} eq 'interrupted';
	}
	is_deeply(
		[ map { join ', ', sort @$_ } values %ends ],
		[ ('disconnect interrupted, statement interrupted') x 80 ],
		'many sessions: each has its end once');
	verify_ok($node, 'many sessions: the trail is whole');
}
$node->stop;
is_deeply([ ring_files($node) ], [], 'a clean stop leaves no ring file');
verify_ok($node, 'the trail is whole');
gapless($node, 'no session has gaps');
done_testing();


# A writer does not look at the rings of idle sessions in each pass.  A session that runs a statement then tells
# it to: the record is written although nobody asks for it.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Steno::Ring;
use Test::More;

use constant STENO_RING_UNWATCHED => 2;

my $node = new_node('main', conf => "steno.ring_size = 16kB\nsteno.flush_interval = 10ms\n");
my ($file) = ring_files($node);
my @sessions;

sub asleep
{
	my ($session) = @_;
	my $bytes = slurp_file($file);

	return ring_number(\$bytes, ring_at(\$bytes, $session->{ring}), 'StenoRing.asleep');
}

sub are_unwatched
{
	my (@which) = @_;

	wait_until 'the rings of idle sessions are not watched',
	  sub { !grep { !(asleep($_) & STENO_RING_UNWATCHED) } @which };
	return;
}

# Waits for a record, without a statement that would call the writer.
sub arrives
{
	my ($text) = @_;

	wait_until "there is a record of $text", sub { grep { /\Q$text\E/ } lines($node) };
	return;
}

foreach my $n (0 .. 4)
{
	my $c = Steno::Client->new($node, application_name => "idle $n");

	$c->query("SELECT 'before $n'");
	$c->{ring} = value($node, "SELECT ring FROM steno.rings WHERE pid = $c->{pid}");
	push @sessions, $c;
}
my $writer = writer_pid($node);

foreach my $round (1 .. 2)
{
	my ($busy, $idle, @others) = @sessions;

	are_unwatched(@sessions);
	stop_process($writer);
	$busy->query("SELECT 'busy $round'");
	$idle->query("SELECT '$_ of $round'") foreach 'first', 'second';
	is(asleep($_), 0, "round $round: a session that runs a statement has told the writer") foreach $busy, $idle;
	is(scalar(grep { !(asleep($_) & STENO_RING_UNWATCHED) } @others), 0, 'the rings of the others are not watched');
	is(scalar(grep { /\b of $round\b/ } lines($node)), 0, 'nobody has written it');
	continue_process($writer);
	arrives($_) foreach "busy $round", "first of $round", "second of $round";
	pass("round $round: the records are written");
}

# the end of an idle session, whose ring the next one gets
are_unwatched(@sessions);
$_->quit foreach @sessions;
foreach my $n (0 .. 4)
{
	wait_until "the end of session $n", sub { lines($node, '--application', "idle $n", '--kind', 'disconnect') };
}
my @next = map { Steno::Client->new($node, application_name => "next $_") } 0 .. 4;
$next[$_]->query("SELECT 'next $_'") foreach 0 .. 4;
arrives("next $_") foreach 0 .. 4;
$_->quit foreach @next;

$node->stop;
is(scalar(grep { /(first|second) of/ } lines($node)), 4, 'once each');
verify_ok($node, 'the trail is whole');
gapless($node, 'no session has gaps');
done_testing();

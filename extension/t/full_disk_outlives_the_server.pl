
# The disk is full, statements wait for space in their rings, and the server dies: its processes end
# soon, whatever they were running, no client is told of a statement that has no record, and the next
# start finds everything in the rings.

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
steno.mandatory = ''
});

$faults->start($node);
value($node, 'CREATE EXTENSION pg_steno');
my $watch = Steno::Client->new($node, application_name => 'steno_test_helper');
my $writer = writer_pid($watch);

$watch->query(q{SET steno.log = 'none'});
$watch->query('CREATE FUNCTION nested(n int) RETURNS int LANGUAGE plpgsql AS $$BEGIN FOR i IN 1..n LOOP PERFORM i; END LOOP; RETURN n; END$$');

my $short = Steno::Client->new($node, application_name => 'short');
my $long = Steno::Client->new($node, application_name => 'long');

# One fills its ring, and waits with a statement of its own; the other waits with the first
# of many in a function.
$short->query("SELECT 'connected'");
$long->query("SELECT 'connected'");
$faults->set('write_fails');
sub waits
{
	my ($name) = @_;

	return $watch->query("SELECT count(*) FROM pg_stat_activity WHERE application_name = '$name' AND wait_event = 'StenoRingFull'")
	  ->{rows}[0][0] eq '1';
}
$short->put('Q', "SELECT 'short $_', '" . filler(700) . "'\0") foreach 1 .. 60;
$short->send_all;
$long->put('Q', "SELECT nested(100000)\0")->send_all;
wait_until 'both wait', sub { waits('short') && waits('long') };
$node->kill9;
wait_until 'all processes end', sub { !grep { kill 0, $_ } $writer, $short->{pid}, $long->{pid} };

# what it received
my $answered = 0;
while (my $answer = $short->finish)
{
	last if $answer->{sqlstate};
	$answered++;
}
cmp_ok($answered, '>', 1, 'statements were answered');
cmp_ok($answered, '<', 60, 'not all of them');
$faults->unset('write_fails');
$node->start;
wait_until 'earlier rings are drained', sub { scalar(my @files = ring_files($node)) == 1 };

my %outcome = map { $_->{text} =~ /(\d+)/ ? ($1 => $_->{outcome}) : () } grep { $_->{text} =~ /short/ } statements($node, application => 'short');
is_deeply([ grep { ($outcome{$_} // '') ne 'ok' } 1 .. $answered ], [], 'each that was answered has its record');
is_deeply([ map { $_->{outcome} } statements($node, application => 'long', text => qr/nested\(100000/) ], ['interrupted'], 'the long one was interrupted');
is_deeply([ grep { $_->{kind} eq 'gap' } records($node) ], [], 'nothing was dropped');
$node->stop;
verify_ok($node, 'the trail is whole');
gapless($node, 'no session has gaps');
done_testing();


# With steno.delivery = drop, what a session has dropped and could not say any more is
# said by those who recover, whether it was killed or ended, and also when nothing at
# all of it had found room, its description included.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Test::More;

my $node = new_node(
	'main', conf => q{
steno.ring_size = 16kB
steno.delivery = drop
restart_after_crash = on
});
my $watch = Steno::Client->new($node, application_name => 'steno_test_helper');
my $writer = $watch->query('SELECT pid FROM steno.writers')->{rows}[0][0];

sub ring_of
{
	my ($client) = @_;

	return $watch->query("SELECT ring FROM steno.rings WHERE pid = $client->{pid}")->{rows}[0][0];
}

sub run_statements
{
	my ($client, $n) = @_;

	$client->query("SELECT '" . 'x' x 500 . "'") foreach 1 .. $n;
	return;
}

# first is described, fills its ring, and ends; second has that ring, and nothing of it
# finds room; third is described, and drops.
my $first = Steno::Client->new($node, application_name => 'first');
my $third = Steno::Client->new($node, application_name => 'third');
my $ring = ring_of($first);
my (@others, $second);

$watch->query('SELECT steno.flush()');
kill 'STOP', $writer or die;
wait_until 'it has stopped', sub { slurp_file("/proc/$writer/stat") =~ /\) T / };
run_statements($first, 60);
run_statements($third, 70);
$first->quit;
wait_until 'it has gone', sub { !kill 0, $first->{pid} };
do
{
	push @others, $second if $second;
	die 'no session has that ring' if @others > 50;
	$second = Steno::Client->new($node, application_name => 'second');
} while (ring_of($second) ne $ring);
run_statements($second, 50);
kill 'KILL', $third->{pid};
wait_until 'the rings of before are drained', sub {
	my $client = slurp_file($node->logfile) =~ /all server processes terminated; reinitializing/
	  && eval { Steno::Client->new($node, application_name => 'steno_test_helper') };

	$client && !$client->{greeting}{sqlstate} && scalar(my @files = glob rings_of($node) . '/*') == 1;
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
$node->stop;
verify_ok($node, 'every number has a record, or is in a gap');
done_testing();

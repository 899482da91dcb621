
# With a full disk and statements that go on, a session drops records and ends before
# there is room to say so.  No session gets its ring again.  A clean stop writes its gap
# record, and removes the ring file; when the writer is killed meanwhile, the next start
# has the gap record once.

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
autovacuum = off
});

foreach my $how ('stop', 'kill_before_write.0', 'kill_after_write.0')
{
	my ($watch, $client, $before, @gaps, %last);

	$faults->start($node);
	$watch = Steno::Client->new($node, application_name => 'steno_test_helper');
	$watch->query(q{SET steno.log = 'none'});
	$client = Steno::Client->new($node, application_name => 'drops');
	$client->query("SELECT 'before'");
	$watch->query('SELECT steno.flush()') if $how ne 'stop' || $watch->query('CREATE EXTENSION pg_steno');
	$faults->set('write_fails');
	wait_until 'the writer cannot write', sub {
		$client->query("SELECT '" . 'x' x 500 . "'");
		return $watch->query("SELECT drops FROM steno.rings WHERE pid = $client->{pid}")->{rows}[0][0] > 0;
	};
	# until there is no room for gap records either
	$client->query("SELECT '" . 'x' x 500 . "'") foreach 1 .. 100;
	$client->quit;
	wait_until 'it has gone', sub { !kill 0, $client->{pid} };
	$faults->unset('write_fails');
	$watch->query('SELECT steno.flush()');
	# without a session that could get the ring
	$before = grep { /"pid":$client->{pid}\b/ } lines($node, '--kind', 'gap');
	if ($how eq 'stop')
	{
		$node->stop;
		is(scalar(my @files = ring_files($node)), 0, 'stop: no ring file is left');
	}
	else
	{
		$faults->set_times($how, 1);
		$node->stop('fast', fail_ok => 1);
		wait_until 'the ring file is free', sub { !-e $node->data_dir . '/postmaster.pid' };
		ok(!-e "$faults->{folder}/$how", "$how: the writer was killed");
		is(scalar(my @files = ring_files($node)), 1, "$how: the ring file is left");
		$node->start;
		$node->stop;
	}
	@gaps = grep { $_->{kind} eq 'gap' && $_->{pid} == $client->{pid} } records($node);
	is(scalar @gaps, $before + 1, "$how: the session has one gap record more");
	$last{ $_->{extra}{last_seq} }++ foreach @gaps;
	is(scalar keys %last, scalar @gaps, "$how: each is of other records");
	verify_ok($node, "$how: the trail is whole");
}
done_testing();

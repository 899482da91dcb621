
# A disk that fails to sync what recovery has written: the writer tries again, and the
# server goes on with it.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Steno::Faults;
use Test::More;

my $faults = Steno::Faults->new;
my $node = new_node('main', start => 0);
my ($c, $start);

$faults->start($node);
value($node, 'CREATE EXTENSION pg_steno');
$c = Steno::Client->new($node, application_name => 'before');
$c->query(q{SELECT 'before'});
$node->stop('immediate');
$start = -s $node->logfile;
$faults->set_times('sync_fails', 2);
$faults->start($node);
$node->wait_for_log(qr/steno writer 0 can sync the trail again/, $start);
wait_until 'the ring of the last run is drained', sub { scalar(my @files = ring_files($node)) == 1 };
is(value($node, 'SELECT count(pid) FROM steno.writers'), 1, 'the writer is there');
is(scalar statements($node, application => 'before', text => q{SELECT 'before'}), 1, 'and has what was left');
$node->stop;
verify_ok($node, 'the trail is whole');
gapless($node, 'no session has gaps');
done_testing();

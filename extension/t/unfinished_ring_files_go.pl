
# A server that is killed while it makes its ring file leaves one that holds nothing:
# the next start removes it.  A file that is not of that kind is left, and said.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Test::More;

my $node = new_node('main');
my $start;

# a ring file's name tells the cluster
$node->stop('immediate');
my ($left) = ring_files($node);
my $name = $left =~ s/[^.]*$//r;

append_to_file("${name}0000000000000001", '');
append_to_file("${name}0000000000000002", "\0" x 100_000);
append_to_file("${name}0000000000000003", 'x' x 100_000);
$start = -s $node->logfile;
$node->start;
wait_until 'the ring of the last run is drained', sub { !-e $left };
ok(!-e "${name}0000000000000001", 'an empty file is removed');
ok(!-e "${name}0000000000000002", 'a file of zeros is removed');
ok(-e "${name}0000000000000003", 'another is left');
is_deeply(
	[ slurp_file($node->logfile, $start) =~ /could not read ring file "[^"]*(\d)" of an earlier run: not a ring file/g ],
	[3], 'and that one is said');
unlink "${name}0000000000000003";
$node->stop;
is_deeply([ ring_files($node) ], [], 'a clean stop leaves no ring file');
verify_ok($node, 'the trail is whole');
done_testing();


# A stream's folder is moved away while it is written, without a seal at the end
# of its last segment, and put back: that is no damage.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Seals;
use Test::More;

my $key = keygen(PostgreSQL::Test::Utils::tempdir() . '/key');
my $node = new_node('main', conf => "steno.signing_key_file = '$key'\n");
my $trail = trail($node);

value($node, 'SELECT steno.rotate()');
value($node, "SELECT 'before'");
flush($node);
rename "$trail/0", "$trail.moved" or die;
value($node, "SELECT 'meanwhile'");
flush($node);
ok(-e "$trail/0/0000000003.steno", 'the stream goes on in another segment');
foreach my $segment (glob "$trail.moved/*.steno")
{
	rename $segment, "$trail/0/" . ($segment =~ s{.*/}{}r) or die;
}
$node->stop;

my ($code, $report) = verified($node, '--key', "$key.pub");
is($code, 0, 'the trail is whole, and so are its seals') or diag explain $report->{problems};
is($report->{seals}[0]{sealed_block} + 1, $report->{seals}[0]{last_block}, 'it is sealed up to its end');
is(scalar(lines($node, '--grep', q{^SELECT '(before|meanwhile)'})), 2, 'each statement is there');
done_testing();

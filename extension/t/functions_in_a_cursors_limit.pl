
# The planner runs a function of a cursor's LIMIT: its query's text is its own, not cut out at the place
# where the DECLARE stands.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Test::More;

my $node = new_node('main', conf => q{steno.log_nested = on});

$node->safe_psql(
	'postgres', q{
CREATE FUNCTION few(int) RETURNS int LANGUAGE sql STABLE AS 'SELECT $1 LIMIT 1';
BEGIN;
DECLARE c CURSOR FOR SELECT 'a long statement, longer than the function' LIMIT few(3);
COMMIT;
});
my @texts = grep { !/^DECLARE/ } map { $_->{text} // '' } grep { ($_->{depth} // 0) > 0 } records($node, kind => 'statement');
ok(scalar @texts > 0, 'the function has run');
is_deeply([ grep { $_ ne 'SELECT $1 LIMIT 1' } @texts ], [], 'its text is its own');
$node->stop;
done_testing();

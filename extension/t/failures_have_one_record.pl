
# A server that dies while a session still sends its client the report of a failure:
# the failed statement has one record, and the end of the session another.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Test::More;

my $node = new_node('main');

$node->safe_psql(
	'postgres', q{
CREATE FUNCTION shout() RETURNS void LANGUAGE plpgsql AS
	$$BEGIN RAISE EXCEPTION '%', repeat('e', 2000000); END$$});

# more than the sockets between take, and nobody reads
my $c = Steno::Client->new($node, application_name => 'deaf');
$c->put('Q', "SELECT shout()\0")->send_all;
wait_until 'the failure is recorded', sub { scalar statements($node, application => 'deaf') };
is($node->safe_psql('postgres', q{SELECT wait_event FROM pg_stat_activity WHERE application_name = 'deaf'}),
	'ClientWrite', 'its report is being sent');
$node->kill9;
wait_until 'the session ends', sub { !kill 0, $c->{pid} };
$node->start;
wait_until 'earlier rings are drained', sub { scalar(my @files = ring_files($node)) == 1 };

is_deeply(
	[ map { [ @$_{qw(text outcome sqlstate)} ] } statements($node, application => 'deaf') ],
	[ [ 'SELECT shout()', 'error', 'P0001' ] ],
	'the statement has failed once');
is(the_record($node, 'the end of the session', kind => 'disconnect', application => 'deaf')->{sqlstate},
	'57P01', 'and tells of the server');
gapless($node, 'no session has gaps');
$node->stop;
verify_ok($node, 'the trail is whole');
done_testing();

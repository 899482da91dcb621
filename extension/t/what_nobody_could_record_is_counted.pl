
# A client that is refused before it has a slot of the server has no ring: nothing
# can be recorded of it, but it is counted.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Test::More;

my $node = new_node('main', conf => "max_connections = 5\nsuperuser_reserved_connections = 0\n");
my @clients;

is(value($node, 'SELECT lost FROM steno.status'), 0, 'nothing is lost so far');
foreach (1 .. 5)
{
	push @clients, Steno::Client->new($node, application_name => 'there');

	# one that has just gone may still have its slot
	wait_until 'it is let in', sub {
		return 1 if !$clients[-1]{greeting}{sqlstate};
		$clients[-1] = Steno::Client->new($node, application_name => 'there');
		return 0;
	};
}
my $before = $clients[0]->query('SELECT lost FROM steno.status')->{rows}[0][0];
is(Steno::Client->new($node)->{greeting}{sqlstate}, '53300', 'one too many is refused') for 1 .. 3;
is($clients[0]->query('SELECT lost FROM steno.status')->{rows}[0][0] - $before, 3, 'and counted');
is($clients[0]->query('SELECT state, failure, refused, dropped FROM steno.status')->{rows}[0][0],
	'ok', 'which is no failure of the trail');
$_->quit foreach @clients;
$node->stop;
done_testing();

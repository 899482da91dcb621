
# A segment goes when the one after it has become as old as steno.retention_age, and
# never the open one.  The writer's clock is put ahead.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Faults;
use Steno::Retention;
use Test::More;

my $day = 24 * 3600;
my $faults = Steno::Faults->new;
my $node = new_node('main', start => 0, conf => "steno.retention_age = '2d'\nsteno.rotation_age = 0\n");

# The writer has looked at the trail since we did something last: the look comes
# with the pass, when a segment was begun.
sub looked
{
	my ($passes) = value($node, 'SELECT passes FROM steno.writers');

	wait_until 'the writer has made passes for some seconds',
	  sub { value($node, 'SELECT passes FROM steno.writers') >= $passes + 15 };
	return;
}

$faults->start($node);
value($node, 'CREATE EXTENSION pg_steno');
fill($node, 2, 1);
is_deeply([ segments($node) ], [ 1 .. 3 ], 'segments of today');

$faults->set('clock', 1 * $day);
fill($node, 1, 1);
looked();
is_deeply([ segments($node) ], [ 1 .. 4 ], 'a day later nothing has gone');

# 1 and 2 were closed today, 3 a day later
$faults->set('clock', 2 * $day + 3600);
wait_until 'those that are older than two days have gone', sub { (segments($node))[0] == 3 };
looked();
is_deeply([ segments($node) ], [ 3, 4 ], 'no other');
my %r = %{ (deletions($node))[-1] };
is("$r{reason} $r{first_segment} $r{last_segment}", 'age 1 2', 'the record says why');

# nothing is written any more: the open segment stays, however old
$faults->set('clock', 100 * $day);
wait_until 'all closed segments have gone', sub { (segments($node))[0] == 4 };
looked();
is_deeply([ segments($node) ], [4], 'the open segment stays');
verify_ok($node, 'the trail is whole');

$node->stop;
done_testing();

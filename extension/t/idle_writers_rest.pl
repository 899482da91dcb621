
# Writers that have nothing to do hardly wake up, and a record wakes them.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Test::More;
use Time::HiRes qw(sleep time);

my $node = new_node('main', conf => "steno.writers = 2\n");
my $c = Steno::Client->new($node);
my (%before, %after, $elapsed, $start);

sub passes
{
	return map { @$_ } @{ $c->query('SELECT writer, passes FROM steno.writers')->{rows} };
}

# A sync or two come after the last records.  The session that looks is of one
# writer; this one has its records to write.
for (1 .. 10)
{
	%before = passes();
	sleep 2;
	%after = passes();
	last if $after{0} - $before{0} <= 4 || $after{1} - $before{1} <= 4;
}
$start = time;
%before = passes();
sleep 6;
%after = passes();
$elapsed = time - $start;

# Looking makes a record, for one of the two: passes for that, once at each end.
my @rates = sort { $a <=> $b } map { ($after{$_} - $before{$_}) / $elapsed } 0, 1;

note "passes a second: @rates";
cmp_ok($rates[0], '<', 2, 'a writer without records: less than two wake-ups a second');
cmp_ok($rates[1], '<', 5, 'a writer with one record in a while rests soon');

# What comes then is written without being asked for.
$c->query("SELECT 'after the rest'");
wait_until 'the record is in the trail',
  sub { scalar(grep { /after the rest/ } lines(trail($node))) };
pass('a record wakes a writer that rests');
$c->quit;
$node->stop;
done_testing();

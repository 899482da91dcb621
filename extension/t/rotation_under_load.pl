
# New segments while sessions write: the chain goes on from one to the next, and
# nothing is lost.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Test::More;

my $node = new_node(
	'main', conf => q{
steno.segment_size = 1MB
steno.compression = none
steno.flush_interval = 10ms
});
my $folder = PostgreSQL::Test::Utils::tempdir();
my @segments;
my (@children, %texts, @missing);

sub segments
{
	return map { -s $_ } sort glob trail($node) . '/0/*.steno';
}

foreach my $i (1 .. 3)
{
	my $pid = fork // die "fork: $!";

	if (!$pid)
	{
		my $c = Steno::Client->new($node, application_name => 'load');

		# each text is long and different, so that the dictionary does not help
		$c->query(sprintf "SELECT 'load %d.%d', '%s'", $i, $_, join ',', map { rand } 1 .. 160)
		  foreach 1 .. 1000;
		$c->quit;
		POSIX::_exit(0);
	}
	push @children, $pid;
}
for (1 .. 5)
{
	my $before = segments();

	# not all at once: there must be something to rotate
	value($node, "SELECT 'something'");
	value($node, 'SELECT steno.rotate()');
	cmp_ok(scalar(segments()), '>', $before, 'steno.rotate() has begun a segment when it returns');
}
waitpid $_, 0 foreach @children;
flush($node);

@segments = segments();
cmp_ok(scalar @segments, '>', 6, 'segments by size and by request');
cmp_ok((sort { $b <=> $a } @segments)[0], '<', 1024 * 1024 + 1200 * 1024,
	'none is larger than steno.segment_size by more than a block');
foreach my $line (lines($node, '--application', 'load', '--kind', 'statement'))
{
	$texts{$1}++ if $line =~ /'load ([\d.]+)'/;
}
foreach my $i (1 .. 3)
{
	push @missing, grep { ($texts{$_} // 0) != 1 } map { "$i.$_" } 1 .. 1000;
}
is_deeply(\@missing, [], 'each statement is there once');

is(value($node, 'SELECT max(segment) FROM steno.writers'), scalar @segments,
	'steno.writers shows the segment');
$node->stop;
verify_ok($node, 'the trail is whole');
gapless($node, 'no session has gaps');

# The server goes on with the last segment, not with a new one.
@segments = segments();
$node->start;
flush($node);
is(scalar(segments()), scalar @segments, 'a restart goes on with the last segment');

verify_ok($node, 'and with its chain');
$node->stop;
done_testing();

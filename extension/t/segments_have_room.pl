
# Where statements wait for the disk, the open segment ends with space for blocks: zeros, which readers
# ignore, which a crash does not turn into an unfinished block, and which are cut off when the segment
# is finished.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Test::More;

my $node = new_node('main', conf => "steno.sync = 'write'\n");
my $rows = 0;

sub segments
{
	return sort glob trail($node) . '/0/*.steno';
}

# How many zeros the file ends with.
sub room
{
	my ($file) = @_;

	return slurp_file($file) =~ /(\0+)\z/ ? length $1 : 0;
}

sub write_rows
{
	for (1 .. 3)
	{
		$rows++;
		$node->safe_psql('postgres', "INSERT INTO t VALUES ($rows)");
	}
	return;
}

# In the trail as its readers see it.
sub rows_are_there
{
	my ($what) = @_;
	my %seen = map { $_->{text} => 1 }
	  statements($node, text => qr/^INSERT/, kind => 'statement');

	is_deeply([ grep { !$seen{"INSERT INTO t VALUES ($_)"} } 1 .. $rows ], [], "$what: all is there");
	verify_ok($node, "$what: the trail is whole");
	return;
}

sub torn
{
	flush($node);
	return scalar grep { $_->{extra}{event} eq 'torn' } records($node, kind => 'server');
}

$node->safe_psql('postgres', 'CREATE TABLE t (n int)');
write_rows();
is((-s (segments())[-1]) % (256 * 1024), 0, 'the open segment has a length that is rarely changed');
cmp_ok(room((segments())[-1]), '>', 100_000, '... and ends with room');
rows_are_there('with room');

$node->safe_psql('postgres', 'SELECT steno.rotate()');
write_rows();
is(scalar(my @files = segments()), 2, 'a segment follows');
cmp_ok(room($files[0]), '<', 16, 'the finished segment has no room');
cmp_ok(room($files[1]), '>', 100_000, 'the next has');
rows_are_there('after a rotation');

$node->stop('immediate');
cmp_ok(room((segments())[-1]), '>', 100_000, 'a crash leaves the room');
$node->start;
is(torn(), 0, '... which is no unfinished block');
write_rows();
rows_are_there('after a crash');

$node->stop;
cmp_ok(room((segments())[-1]), '<', 16, 'a stop leaves none');
$node->start;
write_rows();
rows_are_there('after a stop');
is(torn(), 0, 'nothing was ever unfinished');

done_testing();

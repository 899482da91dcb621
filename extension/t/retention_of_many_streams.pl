
# Of several streams the oldest segments go, whichever stream they are of; also those
# of streams that have no writer any more.  One stream's records stand for all.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Steno::Retention;
use Test::More;

my $node = new_node('main', conf => "steno.compression = none\nsteno.writers = 3\n");

# Segments of all streams: sessions that are there together have rings one after
# the other.
sub fill_all
{
	my ($count) = @_;
	my @clients = map { Steno::Client->new($node, application_name => "c$_") } 1 .. 6;

	foreach (1 .. $count)
	{
		$_->query(q{SELECT steno.note(repeat('0123456789', 10000))}) foreach @clients;
		value($node, 'SELECT steno.rotate()');
	}
	$_->quit foreach @clients;
	return;
}

sub bytes
{
	my $sum = 0;

	$sum += -s $_ // 0 foreach glob trail($node) . '/*/*.steno';
	return $sum;
}

sub firsts
{
	return join ' ', map { (segments($node, $_))[0] } 0 .. 2;
}

fill_all(4);
is(firsts(), '1 1 1', 'three streams');
set_and_reload($node, 'steno.retention_size', '1MB');
wait_until 'no more than the size is left', sub { bytes() <= 1024 * 1024 };
cmp_ok(bytes(), '>', 300_000, 'and no less than a segment of each');
my %streams = map { $_->{stream} => 1 } deletions($node);
is(join(' ', sort keys %streams), '0 1 2', 'all streams have lost segments');
verify_ok($node, 'the trail is whole');
my ($out, $err, $code) = steno('verify', trail($node) . '/2');
is($code, 0, 'one stream alone is whole, too: its record is found in another');

# streams without a writer, and records of them that go with segments of stream 0
set_and_reload($node, 'steno.writers', '1');
$node->restart;
my $before = firsts();
foreach (1 .. 14)
{
	fill($node, 1, 300);
}
wait_until 'the streams without a writer keep their last segments only', sub {
	segments($node, 1) == 1 && segments($node, 2) == 1 && (segments($node, 0))[0] > 14;
};
verify_ok($node, 'the trail is whole, as are streams whose first records have gone');
# their records are repeated before the segment that has them goes
fill($node, 8, 300);
wait_until 'records of other streams are repeated', sub { scalar(grep { $_->{repeated} } deletions($node)) };
fill($node, 8, 300);
wait_until 'more has gone', sub { (segments($node, 0))[0] > 24 };
wait_until 'what is there begins where the records end', sub {
	my %last = map { $_->{stream} => $_ } deletions($node);
	join(' ', map { $last{$_}{last_segment} + 1 } 0 .. 2) eq firsts();
};
verify_ok($node, 'the trail is still whole');
$node->restart;
unlike(slurp_file($node->logfile), qr/no writer uses any more/, 'a start does not take what was deleted for a change');

# and with writers again
set_and_reload($node, 'steno.writers', '3');
$node->restart;
fill_all(4);
wait_until 'they lose segments again', sub { (segments($node, 1))[0] > (split / /, $before)[1] + 2 };
verify_ok($node, 'the trail is whole');

$node->stop;
done_testing();

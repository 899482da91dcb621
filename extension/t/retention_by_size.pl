
# Above steno.retention_size the oldest segments go, and the trail says which: what
# is left is whole, and what somebody else took is missing.

use strict;
use warnings;

use File::Copy;
use IPC::Run ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Retention;
use Test::More;

my $node = new_node('main', conf => "steno.compression = none\n");

fill($node, 6);
is_deeply([ segments($node) ], [ 1 .. 7 ], 'by default, everything is kept');
is(scalar deletions($node), 0, 'and no record speaks of deletions');
ok(!-e trail($node) . '/slots', 'nor is anything made for them');

set_and_reload($node, 'steno.retention_size', '1MB');
wait_until 'the oldest segments have gone', sub { (segments($node))[0] >= 5 };
my @left = segments($node);
is_deeply(\@left, [ 5 .. 7 ], 'what is left is not more than the size');
my @records = deletions($node);
is(scalar @records, 1, 'there is one record of it');
my %r = %{ $records[0] };
is("$r{stream} $r{reason} $r{first_segment} $r{last_segment} $r{since_segment} $r{first_block}",
	'0 size 1 4 1 1', 'it says which segments, and why');
like($r{chain}, qr/^[0-9a-f]{64}$/, 'it has the chain hash');
ok($r{bytes} > 4 * 400_000 && $r{bytes} < 4 * 440_000, 'and how many bytes');
ok(!exists $r{missing}, 'nothing was missing');

like(verify_ok($node, 'the trail is whole'), qr/deleted +segments 1 to 4 of stream 0, \d+ records, by retention \(size\)/,
	'verify says what went by policy');
my ($out, $err, $code) = steno('info', trail($node));
like($out, qr/deleted +segments 1 to 4 of stream 0.*by retention/, 'and info');
is($code, 0, 'info finds nothing wrong');
($out, $err, $code) = steno('cat', trail($node));
is("$err$code", '0', 'cat finds nothing wrong');

# the records of earlier deletions go, too
fill($node, 8);
wait_until 'more has gone', sub { (segments($node))[0] >= 13 };
@records = deletions($node);
is($records[-1]{since_segment}, 1, 'the last record stands for all before it');
cmp_ok($records[0]{first_segment}, '>', 1, 'the first one has gone itself');
verify_ok($node, 'the trail is whole without it');

# and after a restart
$node->restart;
fill($node, 4);
wait_until 'more has gone after a restart', sub { (segments($node))[0] >= 17 };
@records = deletions($node);
is($records[-1]{since_segment}, 1, 'the writer found its last record again');
wait_until 'the trail begins where the last record ends',
  sub { (deletions($node))[-1]{last_segment} + 1 == (segments($node))[0] };

# tampering: in the stopped trail, and in copies of it
$node->stop;
verify_ok($node, 'the trail is whole after a stop');
my $copy = PostgreSQL::Test::Utils::tempdir() . '/copy';
my $segment = sub { sprintf '%s/0/%010d.steno', $copy, $_[0] };
my $again = sub {
	system_or_bail('rm', '-rf', $copy);
	system_or_bail('cp', '-r', trail($node), $copy);
};
my @there = segments($node);
my $first = $there[0];

$again->();
unlink $segment->($first) or die "unlink: $!";
like(verify_fails($copy), qr/segment $first is missing, and was not deleted by retention/, 'another segment less at the beginning');
$again->();
unlink $segment->($first + 1) or die "unlink: $!";
like(verify_fails($copy), qr/segment @{[ $first + 1 ]} is missing, and was not deleted by retention/, 'a hole');
$again->();
unlink "$copy/retention" or die "unlink: $!";
is(verify_fails($copy), '', 'the records count, not the file that says where they are');

# a hole that retention comes to is not made good by it
unlink sprintf('%s/0/%010d.steno', trail($node), $first + 1) or die "unlink: $!";
$node->start;
fill($node, 4);
wait_until 'the hole has been passed', sub { (segments($node))[0] > $first + 1 };
is((deletions($node))[-1]{missing}, 1, 'the record says that a segment was missing');
like(verify_fails(trail($node)), qr/1 of the segments 1 to \d+ had disappeared before the server deleted them/, 'and verify still does');
fill($node, 4);
wait_until 'more has gone', sub { (segments($node))[0] > $first + 5 };
like(verify_fails(trail($node)), qr/1 of the segments 1 to \d+ had disappeared before the server deleted them/, 'for ever');

$node->stop;
done_testing();

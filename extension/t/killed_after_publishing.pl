# A session that is killed between publishing the record of its statement and saying
# that it runs no more: the ring shows a statement that is running, and its record.
# Those who recover it see that it is done.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Test::More;

my $node = new_node('main', conf => "steno.ring_size = 64kB\n");
my ($file) = ring_files($node);

# Offsets of format/RING.md.
use constant {
	NRINGS => 12,
	RING_STRIDE => 24,
	RINGS => 48,
	HEAD => 0,
	OWNER => 192,
	ACTIVE => 260,
	DONE => 264,
	STATEMENT => 272,
	STAGED => 296
};

sub number_at
{
	my ($bytes, $at, $len) = @_;

	return unpack($len == 8 ? 'Q<' : 'L<', substr($$bytes, $at, $len));
}

# The place of a session's ring header in the file.
sub ring_of
{
	my ($bytes, $client) = @_;

	foreach my $i (0 .. number_at($bytes, NRINGS, 4) - 1)
	{
		my $at = number_at($bytes, RINGS, 8) + $i * number_at($bytes, RING_STRIDE, 4);

		return $at if number_at($bytes, $at + OWNER, 4) == $client->{pid};
	}
	die 'the session has no ring';
}

# staged: its record stood in the ring already; shown: its text in the slot.
my %sessions = map { ($_ => Steno::Client->new($node, application_name => $_)) } qw(staged shown undone);

$sessions{staged}->query("SELECT 'staged'");
$sessions{shown}->query('LISTEN shown');
$sessions{undone}->query("SELECT 'undone'");

kill_server($node);

# As if they had been killed a moment sooner; one as if it had not published at all, which shows that this is read.
my $bytes = PostgreSQL::Test::Utils::slurp_file($file);

foreach my $name (sort keys %sessions)
{
	my $ring = ring_of(\$bytes, $sessions{$name});

	is(number_at(\$bytes, $ring + DONE, 8), number_at(\$bytes, $ring + HEAD, 8), "$name: the last record is that of the statement");
	is(number_at(\$bytes, $ring + STAGED, 4), $name eq 'shown' ? 0 : 1, "$name: how it was shown");
	is(number_at(\$bytes, $ring + ACTIVE, 4), 0, "$name: nothing runs");
	substr($bytes, $ring + ACTIVE, 4) = pack 'L<', 1;
	substr($bytes, $ring + DONE, 8) = pack 'Q<', 0 if $name eq 'undone';
}
open my $fh, '>:raw', $file or die "$file: $!";
print $fh $bytes;
close $fh or die;

$node->start;
wait_until 'the rings of before are drained',
  sub { scalar(my @files = ring_files($node)) == 1 };
foreach my $case ([ 'staged', ['ok'] ], [ 'shown', ['ok'] ], [ 'undone', [ 'interrupted', 'ok' ] ])
{
	my ($name, $outcomes) = @$case;

	is_deeply([ sort map { $_->{outcome} } statements($node, application => $name) ], $outcomes, "$name: its records");
	is( the_record($node, "$name: end of the session", application => $name, kind => 'disconnect')->{outcome},
		'interrupted', "$name: how it ended");
}
$node->stop;
verify_ok($node, 'the trail is whole');
gapless($node, 'no session has gaps');
done_testing();

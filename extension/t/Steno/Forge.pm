
# What an attacker who knows the format, but does not have the key, can write into a trail: blocks and
# segments with correct checksums, hashes and numbers.

package Steno::Forge;

use strict;
use warnings;

use Digest::SHA 'sha256';
use Exporter 'import';
use PostgreSQL::Test::Utils;

our @EXPORT = qw(forge_block forge_segment last_segment_of last_block_of cut_last_block);

use constant { SEGMENT_HEADER => 128, BLOCK_HEADER => 112 };

# ---- XXH64, seed 0 ----

my @prime = map { unpack 'q', pack 'Q', $_ } (
	11400714785074694791, 14029467366897019727, 1609587929392839161, 9650029242287828579, 2870177450012600261);

sub rotate
{
	my ($x, $n) = @_;

	return ($x << $n) | (($x >> (64 - $n)) & ((1 << $n) - 1));
}

sub xxh64_round
{
	my ($a, $b) = @_;

	use integer;
	return rotate($a + $b * $prime[1], 31) * $prime[0];
}

sub xxh64
{
	my ($data) = @_;
	my ($at, $h) = (0);

	use integer;
	if (length $data >= 32)
	{
		my @v = ($prime[0] + $prime[1], $prime[1], 0, 0 - $prime[0]);

		for (; $at + 32 <= length $data; $at += 32)
		{
			my @lane = unpack 'q4', substr $data, $at, 32;

			$v[$_] = xxh64_round($v[$_], $lane[$_]) foreach 0 .. 3;
		}
		$h = rotate($v[0], 1) + rotate($v[1], 7) + rotate($v[2], 12) + rotate($v[3], 18);
		$h = ($h ^ xxh64_round(0, $_)) * $prime[0] + $prime[3] foreach @v;
	}
	else
	{
		$h = $prime[4];
	}
	$h += length $data;
	for (; $at + 8 <= length $data; $at += 8)
	{
		$h = rotate($h ^ xxh64_round(0, unpack 'q', substr $data, $at, 8), 27) * $prime[0] + $prime[3];
	}
	if ($at + 4 <= length $data)
	{
		$h = rotate($h ^ (unpack('L', substr $data, $at, 4) * $prime[0]), 23) * $prime[1] + $prime[2];
		$at += 4;
	}
	for (; $at < length $data; $at++)
	{
		$h = rotate($h ^ (ord(substr $data, $at, 1) * $prime[4]), 11) * $prime[0];
	}
	$h = ($h ^ (($h >> 33) & ((1 << 31) - 1))) * $prime[1];
	$h = ($h ^ (($h >> 29) & ((1 << 35) - 1))) * $prime[2];
	return pack 'q', $h ^ (($h >> 32) & ((1 << 32) - 1));
}

# ---- a stream ----

sub last_segment_of
{
	my ($trail, $stream) = @_;

	return (sort glob "$trail/$stream/*.steno")[-1];
}

# Where the last block of a segment begins; undef when it has none.
sub last_block
{
	my ($bytes) = @_;
	my ($at, $last) = (SEGMENT_HEADER);

	while ($at + BLOCK_HEADER <= length $bytes && substr($bytes, $at, 4) eq 'SBLK')
	{
		$last = $at;
		$at += BLOCK_HEADER + unpack 'L', substr $bytes, $at + 8, 4;
	}
	return $last;
}

# The number of a stream's last block.
sub last_block_of
{
	my ($trail, $stream) = @_;

	return (stream_end($trail, $stream))[0];
}

# Number and chain hash of the stream's last block, number of its last record, its last time.
sub stream_end
{
	my ($trail, $stream) = @_;
	my $bytes = slurp_file(last_segment_of($trail, $stream));
	my $at = last_block($bytes);

	return (unpack('Q', substr $bytes, 48, 8) - 1, substr($bytes, 64, 32), unpack('Q', substr $bytes, 56, 8) - 1,
		unpack('q', substr $bytes, 40, 8)) if !defined $at;
	my ($records, $block, $first) = unpack 'x16 L x4 Q Q', substr $bytes, $at, BLOCK_HEADER;
	return ($block, substr($bytes, $at + 72, 32), $first + $records - 1, unpack 'q', substr $bytes, $at + 56, 8);
}

sub write_at_end
{
	my ($file, $bytes) = @_;

	open my $handle, '>>:raw', $file or die "could not open $file: $!";
	print $handle $bytes;
	close $handle;
	return;
}

# A block with a note of a session of its own, at the end of the stream.
my $pid = 70000;

sub forge_block
{
	my ($trail, $stream, $text) = @_;
	my $file = last_segment_of($trail, $stream);
	my $segment = slurp_file($file);
	my ($block, $hash, $record, $time) = stream_end($trail, $stream);
	my $session = "\0\0" . pack('qL', $time, ++$pid) . "\1\16client backend";
	my $payload = join '', map { chr(length $_) . $_ } chr(128) . $session, chr(130) . $text, "\10\0\2\0";
	my $header = 'SBLK' . pack('S C C L L L L Q Q q q q',
		BLOCK_HEADER, 0, 0, length $payload, length $payload, 1, 0, $block + 1, $record + 1, $time, $time, $time) . xxh64($payload);

	# a segment's first block follows from its header
	$hash = sha256(substr $segment, 0, SEGMENT_HEADER) if !defined last_block($segment);
	$header .= sha256($hash . $header . $payload);
	write_at_end($file, $header . xxh64($header) . $payload);
	return $block + 1;
}

# A new segment behind the stream's last one, without a block.
sub forge_segment
{
	my ($trail, $stream) = @_;
	my $last = last_segment_of($trail, $stream);
	my ($block, $hash, $record, $time) = stream_end($trail, $stream);
	my $header = substr slurp_file($last), 0, 120;
	my $number = 1 + unpack 'Q', substr $header, 32, 8;

	# it says nothing of the segment before
	substr($header, 32, 88) = pack('Q q Q Q', $number, $time, $block + 1, $record + 1) . $hash . "\0" x 24;
	write_at_end(sprintf('%s/%d/%010d.steno', $trail, $stream, $number), $header . xxh64($header));
	return;
}

# Cut off the last block of a stream; returns its bytes, so that they can be put back.
sub cut_last_block
{
	my ($trail, $stream) = @_;
	my $file = last_segment_of($trail, $stream);
	my $bytes = slurp_file($file);
	my $at = last_block($bytes);

	truncate $file, $at or die "could not truncate $file: $!";
	return substr $bytes, $at;
}

1;

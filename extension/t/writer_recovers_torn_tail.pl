
# A trail whose last block was not written completely: it is cut after the last complete block, the
# server's log and the trail report that, and the chain continues.  A trail that was tampered with is
# left as it is.

use strict;
use warnings;

use File::Basename;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Test::More;

my $node = new_node('main');
my $rounds = 0;
my $known = 0;    # "torn" records of earlier rounds

sub last_segment
{
	return (sort glob trail($node) . '/0/*.steno')[-1];
}

sub append_bytes
{
	my ($file, $bytes) = @_;

	open my $handle, '>>:raw', $file or die;
	print $handle $bytes;
	close $handle;
	return;
}

# The size after a clean stop is a sum of whole blocks.
sub round_of
{
	$rounds++;
	$node->safe_psql('postgres', "SELECT 'round $rounds'");
	$node->stop;
	return -s last_segment();
}

# Start; what the log says, and the bytes of the new "torn" record.
sub start_again
{
	my $start = -s $node->logfile;
	my @torn;

	$node->start;
	flush($node);
	@torn = map { $_->{extra}{bytes} }
	  grep { $_->{extra}{event} eq 'torn' } records($node, kind => 'server');
	splice @torn, 0, $known;
	$known += @torn;
	return (slurp_file($node->logfile, $start), @torn);
}

sub rounds_are_there
{
	my ($what) = @_;
	my %seen = map { $_->{text} => 1 } statements($node, text => qr/^SELECT 'round/);

	is_deeply([ grep { !$seen{"SELECT 'round $_'"} } 1 .. $rounds ],
		[], "$what: all records of before are there");
	return;
}

# Garbage, as of a block whose header was not written.
{
	round_of();
	append_bytes(last_segment(), 'garbage' x 10);
	my ($log, @torn) = start_again();

	like($log, qr/LOG:  steno writer 0 cut an unfinished block of 70 bytes off stream 0/,
		'garbage: reported in the log');
	is_deeply(\@torn, ['70'], 'garbage: so does the trail');
	rounds_are_there('garbage');
	verify_ok($node, 'garbage: the trail is whole');
}

# Zeros, as of a file that was made longer before a crash.
{
	round_of();
	append_bytes(last_segment(), "\0" x 5000);
	my ($log, @torn) = start_again();

	is_deeply(\@torn, [], 'zeros are room, and no unfinished block');
	rounds_are_there('zeros');
	verify_ok($node, 'zeros: the trail is whole');
}

# The beginning of a block, and the rest of the room that it was to fill.
{
	my ($bytes, $block, $log, @torn);

	round_of();
	$bytes = slurp_file(last_segment());
	$block = substr $bytes, rindex($bytes, 'SBLK');
	$block = substr $block, 0, 130;
	$block =~ s/\0+\z//;
	append_bytes(last_segment(), $block . "\0" x 5000);
	($log, @torn) = start_again();
	is_deeply(\@torn, [ length $block ], 'a part of a block is cut without the room');
	rounds_are_there('room');
	verify_ok($node, 'room: the trail is whole');
}

# The beginning of a block: everything but its end, half of it, and its header.
foreach my $what ('all but a byte', 'half', 'the header', 'half the header')
{
	my $size = round_of();
	my ($bytes, $block, $keep, $log, @torn);

	# a block to take from: the last one of the file
	$bytes = slurp_file(last_segment());
	$block = substr $bytes, rindex($bytes, 'SBLK');
	$keep =
		$what eq 'all but a byte' ? length($block) - 1
	  : $what eq 'half' ? int(length($block) / 2)
	  : $what eq 'the header' ? 112
	  : 56;
	append_bytes(last_segment(), substr $block, 0, $keep);
	($log, @torn) = start_again();
	is_deeply(\@torn, [$keep], "$what of a block is cut");
	rounds_are_there("$what of a block");
	verify_ok($node, "$what of a block: the trail is whole");
}

# The last block itself, which the machine had not written whole when it went down, and its
# ring files with it.
{
	my ($log, @torn);

	$rounds++;
	$node->safe_psql('postgres', "SELECT 'round $rounds'");
	flush($node);
	value($node, "SELECT 'unfinished'");
	wait_until('it is written', sub { lines($node, '--grep', q{^SELECT 'unfinished'}) });
	kill_server($node);
	unlink ring_files($node);
	truncate last_segment(), (-s last_segment()) - 5 or die;
	($log, @torn) = start_again();
	is(scalar @torn, 1, 'a block cut short is cut off');
	cmp_ok($torn[0] // 0, '>', 100, 'all of it');
	verify_ok($node, 'a block cut short: the chain goes on');
}

# An empty last segment, and one with half a header.
foreach my $size (0, 50)
{
	my ($next, $log);

	round_of();
	$next = last_segment() =~ s/(\d{10})(?=\.steno)/sprintf '%010d', $1 + 1/er;
	append_bytes($next, 'STENOSEG' x 7);
	truncate $next, $size or die;
	($log) = start_again();
	rounds_are_there("a segment of $size bytes");
	verify_ok($node, "a segment of $size bytes: the trail is whole");
}

# Damage in the middle is not an unfinished block: nothing is cut off, and it is reported.  (A start
# reads the headers of all blocks of the segment, and the payload of the last.)
{
	my $damaged;
	my ($log, $size, $start, $out, $err);

	round_of();
	$damaged = last_segment();
	$size = -s $damaged;
	open my $handle, '+<:raw', $damaged or die;
	seek $handle, 128 + 40, 0;
	print $handle "\xff\xff\xff\xff";
	close $handle;
	$start = -s $node->logfile;
	$node->start;
	flush($node);
	$log = slurp_file($node->logfile, $start);
	like($log, qr/WARNING:  last segment of stream 0 of the trail is damaged at offset 128/,
		'damage: the log says where');
	like($log, qr/HINT:  Run "steno verify"\./, 'and what to do');
	unlike($log, qr/cut an unfinished block/, 'damage: nothing is cut');
	is(-s $damaged, $size, 'the damaged segment is left as it is');
	isnt(last_segment(), $damaged, 'the stream goes on in a new one');
	$node->safe_psql('postgres', q{SELECT 'after the damage'});
	flush($node);
	$node->stop;
	isnt(IPC::Run::run([ $ENV{STENO}, 'verify', trail($node) ], '>', \$out, '2>', \$err),
		1, 'steno verify calls the trail damaged');
	like("$out$err", qr/\Q@{[ basename($damaged) ]}\E/, 'and names the segment');
}
done_testing();

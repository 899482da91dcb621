
# The fields of ring files, where the tables of format/RING.md say that the last version has them.

package Steno::Ring;

use strict;
use warnings;

use Exporter 'import';
use FindBin;
use PostgreSQL::Test::Utils;

our @EXPORT = qw(ring_number ring_offset ring_at);

my %fields;

{
	my $structure;

	foreach my $line (split /\n/, slurp_file("$FindBin::RealBin/../../format/RING.md"))
	{
		$structure = $1 if $line =~ /^#+ (Steno\w+):/;
		# rows of one field stand in the order of their versions
		$fields{"$structure.$3"} = [ $1, $2 ] if $line =~ /^\| (\d+) \| (\d+) \| (\w+) \| \d+ \|/;
	}
}

# Where a field, such as 'StenoRing.head', is in its structure, and its size.
sub ring_field
{
	my ($field) = @_;

	return @{ $fields{$field} or die "format/RING.md has no field $field" };
}

sub ring_offset
{
	my ($field) = @_;

	return (ring_field($field))[0];
}

# The number in a field of the structure at $at of the file, whose bytes $bytes refers to.  $new takes its place, if it is given.
sub ring_number
{
	my ($bytes, $at, $field, $new) = @_;
	my ($offset, $size) = ring_field($field);
	my $form = { 4 => 'L<', 8 => 'Q<' }->{$size} or die "$field is not a number";
	my $is = unpack $form, substr($$bytes, $at + $offset, $size);

	substr($$bytes, $at + $offset, $size) = pack $form, $new if defined $new;
	return $is;
}

# Where the header of a ring is in the file.
sub ring_at
{
	my ($bytes, $ring) = @_;

	return ring_number($bytes, 0, 'StenoRingFile.rings_offset') + $ring * ring_number($bytes, 0, 'StenoRingFile.ring_stride');
}

1;

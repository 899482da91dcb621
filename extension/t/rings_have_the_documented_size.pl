
# The ring file takes as much memory as docs/operations.md says, for each number of connections and each size of a ring.

use strict;
use warnings;

use FindBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Ring;
use Test::More;

my $manual = slurp_file("$FindBin::RealBin/../../docs/operations.md");
my ($table) = $manual =~ /<!-- ring sizes:.*?-->\n(\|.*?)<!-- end -->/s or die 'no table of ring sizes in docs/operations.md';
my ($heading, undef, @rows) = map { [ grep { /\S/ } split /\s*\|\s*/, $_ ] } split /\n/, $table;
my @sizes = map { /(\d+) (kB|MB)/ ? $1 * ($2 eq 'MB' ? 1024 : 1) : () } @$heading;
my ($per_ring) = $manual =~ /each takes `steno\.ring_size` and (\d+) kB/ or die 'no overhead of a ring in docs/operations.md';
my ($shared) = $manual =~ /`steno\.large_buffers`, (\d+) MB/ or die 'no size of what rings share in docs/operations.md';

# The defaults of a server, which PostgreSQL::Test::Cluster changes.
my $node = new_node('main', conf => q{
wal_level = replica
max_wal_senders = 10
max_worker_processes = 8
autovacuum_max_workers = 3
max_connections = 100
});
my $major = int(value($node, 'SHOW server_version_num') / 10000);
my $saved = slurp_file($node->data_dir . '/postgresql.conf');

# Their number, from the header of the file: the view has only those that were used.
sub rings
{
	my ($file) = ring_files($node);
	my $header;

	open my $handle, '<:raw', $file or die "could not open $file: $!";
	read($handle, $header, 4096) == 4096 or die "could not read $file: $!";
	close $handle;
	return ring_number(\$header, 0, 'StenoRingFile.nrings');
}

sub ring_file_size
{
	my ($file) = ring_files($node);
	my ($size, $blocks) = (stat $file)[ 7, 12 ];

	cmp_ok($blocks * 512, '>=', $size, 'all of the file is allocated');
	return $size;
}

# The number of rings follows from the settings, which have other names and defaults in 18.
my $autovacuum = $major >= 18 ? 'autovacuum_worker_slots' : 'autovacuum_max_workers';
is( rings(),
	value($node, qq{SELECT sum(setting::int) FROM pg_settings
WHERE name IN ('max_connections', 'max_worker_processes', 'max_wal_senders', '$autovacuum')}) + ($major >= 17 ? 2 : 1),
	'there is a ring for each process that can be');
my @defaults = $manual =~ /these are (\d+) in 18 \(\d+ MB\), (\d+) in 17, and (\d+) in 15 and 16/ or die "no numbers of rings in docs/operations.md";
is(rings(), $defaults[ $major >= 18 ? 0 : $major == 17 ? 1 : 2 ], 'the number of rings with the defaults');
my $fewer = 136 - rings();

# In the table are the numbers for 18, which has slots for more processes than earlier versions.  What
# a ring has besides its data does not depend on its size: so small rings tell the size of large ones.
cmp_ok(scalar @rows, '>=', 4, 'the table has rows');
foreach my $row (@rows)
{
	my ($connections, @megabytes) = map { s/\D//gr } @$row;
	my ($rings, $size);

	$node->stop;
	open my $handle, '>', $node->data_dir . '/postgresql.conf' or die;
	print $handle $saved, "max_connections = $connections\nsteno.ring_size = 16\nmax_worker_processes = @{[ 8 + $fewer ]}\n";
	close $handle;
	$node->start;
	$rings = rings();
	$size = ring_file_size();
	is($rings, $connections + 36, "$connections connections: rings of 18");
	is_deeply(
		\@megabytes,
		[ map { my $bytes = $size + $rings * ($_ - 16) * 1024; int(($bytes + 1024 * 1024 - 1) / (1024 * 1024)) } @sizes ],
		"$connections connections: MB of the file");
	# the overhead, to the nearest kB; the file has a page of its own, its data begin with one, and so does what rings share
	cmp_ok(abs($size - $shared * 1024 * 1024 - $rings * (16 + $per_ring) * 1024), '<', $rings * 512 + 4 * 4096, "$connections connections: what a ring takes besides");
}
$node->stop;
done_testing();

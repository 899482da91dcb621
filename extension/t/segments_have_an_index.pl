
# A writer leaves an index in each segment that it finishes, and in the last one at a stop.  steno reads
# only blocks that may contain what its filters ask for, and finds the same with an index as without.

use strict;
use warnings;

use Digest::SHA qw(sha256_hex);
use File::Copy qw(copy);
use File::Path qw(make_path);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Steno::Seals;
use Test::More;

my $keys = PostgreSQL::Test::Utils::tempdir();

# The blocks of a segment: offset, number, records and length.
sub blocks
{
	my ($path) = @_;
	my $bytes = slurp_file($path);
	my $at = unpack 'x10 v', $bytes;
	my @blocks;

	while (substr($bytes, $at, 4) eq 'SBLK')
	{
		my ($stored, undef, $records, undef, $number) = unpack 'V V V V Q<', substr $bytes, $at + 8, 24;

		push @blocks, { offset => $at, number => $number, records => $records, length => 112 + $stored };
		$at += 112 + $stored;
	}
	return @blocks;
}

# A copy of the trail in which a byte of each of these blocks of its first segment is wrong.
sub damaged_copy
{
	my ($trail, @blocks) = @_;
	my $copy = PostgreSQL::Test::Utils::tempdir();

	make_path("$copy/0");
	copy($_, "$copy/0/") or die "could not copy $_: $!" foreach glob "$trail/0/*.steno";
	open my $file, '+<:raw', "$copy/0/0000000001.steno" or die "could not open the copy: $!";
	foreach my $b (@blocks)
	{
		seek $file, $b->{offset} + 112 + 5, 0;
		read $file, my $byte, 1;
		seek $file, $b->{offset} + 112 + 5, 0;
		print $file chr(255 - ord $byte);
	}
	close $file;
	return $copy;
}

# What sessions of several users do, in a block each; text that cannot be compressed makes blocks long.
# Writers are woken by steno.flush(), so nothing depends on time.
sub load
{
	my ($node) = @_;

	foreach my $i (1 .. 12)
	{
		my $user = $i == 7 ? 'rare' : 'often';
		my $c = Steno::Client->new($node, user => $user, application_name => "app$i");
		my $noise = join '', map { sha256_hex("$i $_") } 1 .. 400;

		$c->query("SELECT '$noise'");
		$c->query('SELECT count(salary) FROM hr.staff') if $i == 4;
		$c->query('SELECT 1/0') if $i == 9;
		$c->query("COMMENT ON TABLE hr.staff IS 'x'") if $i == 10;
		$c->query(q{SELECT 'a Rare marker'}) if $i == 11;
		$c->extended('SELECT $1::int4', 41 + $i) if $i == 3;
		$c->extended('SELECT $1::text', "value $i") if $i == 5;
		$c->quit;
		flush($node);
	}
	return;
}

# Filters of all sorts, some of which an index knows nothing about.
my @filters = (
	[ qw(--user rare) ], [ qw(--user nobody) ], [ qw(--user often) ], [ qw(--database postgres) ],
	[ qw(--application app5) ], [ '--application', 'app5,app8', '--user', 'often' ], [ qw(--role rare) ],
	[ qw(--object hr.staff) ], [ qw(--object staff.salary) ], [ qw(--object staff.name) ], [ qw(--object *.staff) ],
	['--failed'], [ qw(--class ddl) ], [ qw(--class write) ], [ qw(--command COMMENT) ], [ qw(--kind connect) ],
	[ '--kind', 'disconnect,statement', '--failed' ], [ '--grep', 'a Rare marker' ], [ '--grep', '(?i)RARE MARKER' ],
	[ '--grep', 'division by (zero|one)' ], [ '--grep', '^44$' ], [ '--grep', 'value 5' ], [ '--grep', 'x' ],
	[ '--grep', 'no such text anywhere' ], [ '--grep', 'Rare.*k.r' ], [ qw(--since 2000-01-01 --user rare) ],
	[ qw(--user rare --format pgaudit) ]);

sub check_filters
{
	my ($node, $what, @args) = @_;
	my $trail = trail($node);
	my $segment = "$trail/0/0000000001.steno";
	my @without = grep { $_->{records} == 0 } blocks($segment);
	my $ignored;

	# an index that cannot be read is as good as none; the damage is reported, as it should be
	is(scalar @without, 1, "$what: a segment has one index");
	$ignored = damaged_copy($trail, @without);
	foreach my $filter (@filters)
	{
		my ($code, $out, $err) = steno_result('cat', '--format', 'json', @args, @$filter, $trail);
		my (undef, $expected) = steno_result('cat', '--format', 'json', @args, @$filter, $ignored);
		my ($tail_code, $tail) = steno_result('tail', '-n', '1000', '--format', 'json', @args, @$filter, $trail);

		# names that occur nowhere are told, and nothing else is
		like($err, qr/^steno: incomplete: no (user|object) of the name .*\n\z/, "$what: @$filter: no such name")
		  if grep { /^(nobody|staff\.name)$/ } @$filter;
		$err = '' if $err =~ /\Asteno: incomplete: no (user|object) of the name "(nobody|staff\.name)" [^\n]*\n\z/;
		is("$code $err", '0 ', "$what: @$filter ends well");
		is($out, $expected, "$what: @$filter finds the same");
		is($tail, $expected, "$what: so does tail @$filter") if !grep { $_ eq 'pgaudit' } @$filter;
	}
	return;
}

# In plain text, with seals.
{
	my ($key) = keygen("$keys/one");
	my $node = new_node('plain', conf => "steno.signing_key_file = '$key'\nsteno.writers = 1\nsteno.flush_interval = 10s\n");
	my ($code, $report, $out, $err, $copy, @blocks, @others);

	$node->safe_psql('postgres', 'CREATE ROLE often SUPERUSER LOGIN; CREATE ROLE rare SUPERUSER LOGIN;
		CREATE SCHEMA hr; CREATE TABLE hr.staff (name text, salary int)');
	load($node);
	value($node, 'SELECT steno.rotate()');
	($code, $report) = verified($node, '--key', "$key.pub");
	is($code, 0, 'a segment with an index is intact: ' . join ' | ', map { $_->{what} } @{ $report->{problems} });
	@blocks = blocks(trail($node) . '/0/0000000001.steno');
	is($blocks[-2]{records}, 0, 'the index is the last block but the seal');
	is($blocks[-1]{records}, 1, 'and the last one is the seal');
	check_filters($node, 'plain');

	# Blocks that cannot match are not read: their damage is not noticed.
	($code, $out) = steno_result('cat', '--format', 'json', '--user', 'rare', trail($node));
	my %wanted = map { /"block":(\d+)/ ? ($1 => 1) : () } split /\n/, $out;
	# the seal comes after the index, which says nothing about it; the first block names the server
	@others = grep { $_->{records} > 0 && !$wanted{ $_->{number} } } @blocks[ 1 .. $#blocks - 1 ];
	is(scalar keys %wanted, 1, 'the user has one block');
	cmp_ok(scalar @others, '>=', 10, 'and others have nothing of the user');
	$copy = damaged_copy(trail($node), @others);
	($code, my $same, $err) = steno_result('cat', '--format', 'json', '--user', 'rare', $copy);
	is("$code $err", '0 ', 'other blocks are not read');
	is($same, $out, 'and what is wanted is found');
	($code, undef, $err) = steno_result('cat', '--format', 'json', '--user', 'often', $copy);
	isnt($code, 0, 'blocks that may match are read');

	# A clean stop leaves an index of what has followed, and the next run one of its own.
	load($node);
	$node->stop;
	is(scalar(grep { $_->{records} == 0 } blocks(trail($node) . '/0/0000000002.steno')), 1, 'a stop leaves an index');
	$node->start;
	load($node);
	value($node, 'SELECT steno.rotate()');
	is(scalar(grep { $_->{records} == 0 } blocks(trail($node) . '/0/0000000002.steno')), 2, 'the next run adds its own');

	# A killed writer leaves none; what it has written is read.
	load($node);
	kill_server($node);
	$node->start;
	load($node);
	value($node, 'SELECT steno.rotate()');
	is(scalar(grep { $_->{records} == 0 } blocks(trail($node) . '/0/0000000003.steno')), 1,
		'there is only one of the blocks after the kill');
	($code, $out) = steno_result('cat', '--format', 'json', '--user', 'rare', '--kind', 'statement', trail($node) . '/0/0000000003.steno');
	is(scalar(my @lines = $out =~ /^\{/mg), 2, 'records of both runs are found');
	($code, $report) = verified($node, '--key', "$key.pub");
	is($code, 0, 'all is intact: ' . join ' | ', map { $_->{what} } @{ $report->{problems} });

	# Little is not worth an index.
	value($node, q{SELECT 'little'});
	value($node, 'SELECT steno.rotate()');
	is(scalar(grep { $_->{records} == 0 } blocks(trail($node) . '/0/0000000004.steno')), 0, 'a short segment has no index');
	$node->stop;
}

# Encrypted: an index is as secret as what it is about.
{
	my $key = sha256_hex('key');
	my ($code, $report);

	open my $file, '>', "$keys/encryption" or die "could not write the key: $!";
	print $file "$key\n";
	close $file;
	chmod 0600, "$keys/encryption";
	my $node = new_node('encrypted',
		conf => "steno.encryption_key_command = 'cat $keys/encryption'\nsteno.writers = 1\nsteno.flush_interval = 10s\n");
	$node->safe_psql('postgres', 'CREATE ROLE often SUPERUSER LOGIN; CREATE ROLE rare SUPERUSER LOGIN;
		CREATE SCHEMA hr; CREATE TABLE hr.staff (name text, salary int)');
	load($node);
	value($node, 'SELECT steno.rotate()');
	check_filters($node, 'encrypted', '--encryption-key-file', "$keys/encryption");
	is(index(slurp_file(trail($node) . '/0/0000000001.steno'), 'hr.staff'), -1, 'names are not readable');
	($code, $report) = verified($node, '--encryption-key-file', "$keys/encryption");
	is($code, 0, 'an encrypted segment with an index is intact');
	($code, $report) = verified($node);
	is($code, 0, 'also without the key');
	$node->stop;
}

done_testing();

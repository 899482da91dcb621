
# A signing key that cannot be used is reported at the start: the server refuses to start, and its log
# says why and what to do.

use strict;
use warnings;

use MIME::Base64;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Seals;
use Test::More;

my $node = new_node('main', start => 0);
my $base = PostgreSQL::Test::Utils::tempdir();
my $good = keygen("$base/good");
my $open = keygen("$base/open");

chmod 0640, $open or die;
append_to_file("$base/garbage", "no key\n");
# a key of another kind, as OpenSSL writes it
append_to_file("$base/p256", <<'PEM');
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgGkqERboTMU2gFjkM
H0x9tGWVZLlgVpTN+SXpkdMg6GuhRANCAAQW1X1uGg+am7nhh9SogSCJNus8dgZr
kxv6UeDLme9wB8JnDcNKiTAXbVrDBb+cmSxmC48gO4fIRhCqRL4J9AqH
-----END PRIVATE KEY-----
PEM
chmod 0600, "$base/garbage", "$base/p256" or die;

sub refused
{
	my ($what, $file, @messages) = @_;

	refuses_to_start($node, $what, "steno.signing_key_file = '$file'", @messages);
	return;
}

refused('no file', "$base/none",
	qr{FATAL:  could not open signing key file "$base/none": No such file or directory},
	qr{HINT:  Make a key with "steno keygen" as the server's user, or set "steno.signing_key_file" to an empty string});
refused('a directory', $base, qr{FATAL:  signing key file "$base" is not a regular file});
refused('a key that others may read', $open,
	qr{FATAL:  signing key file "$open" has group or world access},
	qr{DETAIL:  File must have permissions u=rw \(0600\) or less},
	qr{HINT:  Change its permissions with "chmod 0600"});
refused('no key', "$base/garbage",
	qr{FATAL:  signing key file "$base/garbage" has no private key that can be read},
	qr{DETAIL:  It must be an Ed25519 key in PEM});
refused('a public key', "$good.pub", qr{FATAL:  signing key file "$good\.pub" has group or world access});
refused('a key of another kind', "$base/p256",
	qr{FATAL:  key in signing key file "$base/p256" is of type id-ecPublicKey, not Ed25519});

# A path that is not absolute is that of a file in the data directory.
keygen($node->data_dir . '/server.steno.key');
$node->append_conf('postgresql.conf', "steno.signing_key_file = 'server.steno.key'");
ok($node->start(fail_ok => 1), 'a key in the data directory is found');
value($node, 'SELECT 1');
$node->stop;
my ($code, $report) = verified($node, '--key', $node->data_dir . '/server.steno.key.pub');
is($code, 0, 'and used');

# No session has the private key in its memory, nor the postmaster, only the writers.
SKIP:
{
	my $pem = slurp_file($node->data_dir . '/server.steno.key');
	my ($seed, $psql, %pids, %has);

	$pem =~ s/-----[^\n]*-----//g;
	$seed = substr decode_base64($pem), -32;
	$node->start;
	$psql = $node->background_psql('postgres');
	%pids = (
		postmaster => (split /\n/, slurp_file($node->data_dir . '/postmaster.pid'))[0],
		session => scalar $psql->query('SELECT pg_backend_pid()'),
		writer => value($node, 'CREATE EXTENSION pg_steno; SELECT pid FROM steno.writers'));
	$has{$_} = in_memory($pids{$_}, $seed) foreach keys %pids;
	$psql->quit;
	$node->stop;
	skip "the memory of other processes cannot be read here", 1 if grep { !defined $_ } values %has;
	is_deeply(\%has, { postmaster => 0, session => 0, writer => 1 }, 'only the writer has the private key in its memory');
}

# Whether the writable memory of a process contains bytes; undef if that cannot be read.
sub in_memory
{
	my ($pid, $bytes) = @_;
	my $found = 0;

	open my $maps, '<', "/proc/$pid/maps" or return;
	open my $memory, '<:raw', "/proc/$pid/mem" or return;
	while (my $line = <$maps>)
	{
		my ($from, $to, $mode, $rest) = $line =~ /^(\w+)-(\w+) (\S+) \S+ \S+ \d+\s*(.*)/ or next;
		my ($content, $start, $length) = ('', hex $from, hex($to) - hex $from);

		next if $mode !~ /^rw-p/ || $length > 256 * 1024 * 1024;
		sysseek $memory, $start, 0 or next;
		sysread $memory, $content, $length or next;
		$found = 1 if index($content, $bytes) >= 0;
	}
	return $found;
}
done_testing();

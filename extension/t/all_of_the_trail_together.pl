
# Encryption, seals, retention, two streams, a slot and rotation at the same time, and a kill of the
# whole server: with the keys, the trail is intact.  Without them, the programs say what needs a key,
# and report no damage.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Steno::Retention;
use Steno::Seals;
use Test::More;

my $folder = PostgreSQL::Test::Utils::tempdir();
my ($key) = keygen("$folder/seal");
my @keys = ('--encryption-key-command', 'printf %064d 7');
my $node = new_node('main', conf => qq{
restart_after_crash = on
steno.writers = 2
steno.compression = none
steno.encryption_key_command = 'printf %064d 7'
steno.signing_key_file = '$key'
steno.seal_interval = 1s
});
my $trail = trail($node);

# Both streams get a few segments.
sub load
{
	my ($what, $count) = @_;
	my @clients = map { Steno::Client->new($node, application_name => "$what $_") } 1 .. 4;

	foreach (1 .. $count)
	{
		$_->query(q{SELECT steno.note(repeat('0123456789', 8000))}) foreach @clients;
		value($node, 'SELECT steno.rotate()');
	}
	$_->quit foreach @clients;
	return;
}

sub whats
{
	my ($list) = @_;

	return join "\n", map { $_->{what} } @$list;
}

sub whole
{
	my ($what, $report, $code) = @_;

	($code, $report) = verified($node, '--key', "$key.pub", @keys);
	is($code, 0, "$what: the trail is whole") or diag(whats($report->{problems}));
	is($report->{seals}[$_]{checked}, $report->{seals}[$_]{seals}, "$what: the seals of stream $_ are right") foreach 0, 1;
	return $report;
}

my ($out, $err, $code, $report);

load('first', 3);
($code, $out, $err) = steno_result('slot', 'create', 'reader', $trail);
is("$out$err$code", '0', 'a slot needs no key');
whole('with a slot');

# a kill in the middle of a segment: the run after it begins another one
value($node, q{SELECT steno.note('before the kill')});
flush($node);
kill_server($node);
$node->start;
load('second', 2);
flush($node);
$report = whole('after a kill');
is($report->{unread_blocks} // 0, 0, 'all of it was decrypted');
kill_server($node);
$node->start;
flush($node);
whole('after another one');

# the slot no longer needs them, and segments are deleted
set_and_reload($node, 'steno.retention_size', '1MB');
is((segments($node))[0], 1, 'nothing goes that the slot wants');
my $end = (steno_result('slot', 'end', $trail))[1] =~ s/\n\z//r;
($code, $out, $err) = steno_result('slot', 'advance', 'reader', '--to', $end, $trail);
is("$err$code", '0', 'the slot goes on');
load('third', 2);
wait_until 'segments of both streams go', sub { (segments($node, 0))[0] > 1 && (segments($node, 1))[0] > 1 };
{
	local $ENV{STENO_ENCRYPTION_KEY_COMMAND} = $keys[1];
	wait_until 'all that is recorded as deleted is gone', sub {
		my %last = map { $_->{stream} => $_->{last_segment} } deletions($node);
		return (segments($node, 0))[0] == $last{0} + 1 && (segments($node, 1))[0] == $last{1} + 1;
	};
}
# until it is sealed, the record of a deletion is not accepted with the key
wait_until 'the records of what was deleted are sealed', sub { (verified($node, '--key', "$key.pub", @keys))[0] == 0 };
$report = whole('with segments deleted');
is(scalar @{ $report->{deleted} }, 2, 'by policy, as their records say');
$node->stop;
$report = whole('at rest');
unlike(whats($report->{warnings}), qr/retention|encrypt/, 'without a word about keys');

# without the encryption keys
($code, $report) = verified($node);
is($code, 0, 'without any key, nothing is wrong') or diag(whats($report->{problems}));
like(whats($report->{warnings}), qr/segments encrypted with key \w+, which was not given/, 'records were not checked');
like(whats($report->{warnings}), qr/were deleted by retention, according to the file "retention"; the record of it is encrypted/,
	'and the deletions are believed');
($code, $report) = verified($node, '--key', "$key.pub");
is($code, 3, 'with the public key of the seals alone, they are not proved');
is(whats($report->{problems}), '', 'nor disproved');
like(whats($report->{unreadable}), qr/\Aseals of stream 0 cannot be checked without the encryption keys: .*\nseals of stream 1 cannot be checked .*\z/,
	'which is all that is said');

# segments that are missing, and were not deleted by retention
rename "$trail/retention", "$folder/retention" or die;
($code, $report) = verified($node);
like(whats($report->{problems}), qr/segments 1 to \d+ are missing; if they were deleted by retention, the record of it is in blocks that were not decrypted/,
	'without the file "retention", nothing speaks for the deletions');
whole('with the keys, the file is not needed');
rename "$folder/retention", "$trail/retention" or die;

# anchors, of seals or of blocks alone
($code, $out, $err) = steno_result('seal', 'export', @keys, $trail);
is(scalar(() = $out =~ /^pg_steno-anchor 1 .* signature=/mg), 2, 'anchors of sealed ends');
append_to_file("$folder/anchors", $out);
($code, $out, $err) = steno_result('seal', 'export', $trail);
is("$err$code", '0', 'without the key, there are anchors, too');
unlike($out, qr/signature/, 'which have no seals');
append_to_file("$folder/anchors", $out);
($code, $report) = verified($node, '--key', "$key.pub", @keys, '--anchor', "$folder/anchors");
is($code, 0, 'the trail has them all') or diag(whats($report->{problems}));
is($report->{anchors}, 4, 'all four');

# A copy that steno recover has made has a stream without seals.
($code, $out, $err) = steno_result('recover', $trail, '--out', "$folder/copy");
($code, $report) = verified("$folder/copy", '--key', "$key.pub", @keys);
is($code, 0, 'a copy of a trail from which nothing had to be recovered is sealed as that was') or diag(whats($report->{problems}));
done_testing();

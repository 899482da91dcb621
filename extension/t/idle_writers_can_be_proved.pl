
# A writer that has nothing to write is no reason to refuse a proof: its stream exists, and its seals show that it
# had nothing. Also while the server runs, with every number of idle writers, and of a stream that another number of
# writers or a new key has added.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Seals;
use Test::More;
use Time::HiRes qw(usleep);

my $keys = PostgreSQL::Test::Utils::tempdir();
my ($key) = keygen("$keys/one");
my ($second) = keygen("$keys/two");
my $sessions = 1;

sub now
{
	my ($node) = @_;

	return value($node, "SELECT to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"')");
}

# As many sessions at once, each with three statements; the proof has them.
sub range_with_sessions
{
	my ($node, $count) = @_;
	my $tag = 'load' . $sessions++;
	my $begin = now($node);

	$node->pgbench("-n -c $count -t 3", 0, [qr/processed/], [qr/^$/], "$count sessions", { "$tag-$$" => "SELECT '$tag'" });
	return { begin => $begin, end => now($node), tag => $tag, matches => 3 * $count };
}

# Others go on, so that time passes for the seals: until the proof of a range is complete.
sub is_proved
{
	my ($node, $range, $what, $options) = @_;
	my ($trail, $public) = (trail($node), $options->{key} // "$key.pub");
	my @ask = ('--since', $range->{begin}, '--until', $range->{end}, '--grep', "SELECT '$range->{tag}'");
	my ($code, $out, $err, $verdict);

	for (1 .. 40)
	{
		unlink "$keys/proof";
		($code, $out, $err) = steno_result('prove', @ask, '--key', $public, '--out', "$keys/proof", $trail);
		($code, $out, my $more) = steno_result('prove', '--check', "$keys/proof", '--key', $public, '--format', 'json') if -e "$keys/proof";
		$verdict = -e "$keys/proof" ? JSON::PP->new->decode($out) : {};
		last if $options->{stopped} || ($verdict->{proved} && !grep { /last moments/ } @{ $verdict->{exceptions} });
		usleep(500_000);
		$node->safe_psql('postgres', "SELECT 'something else'");
	}
	ok($verdict->{proved}, "$what: proved") or diag($err, $out);
	is($verdict->{matches}, $range->{matches}, "$what: with all records");
	is(join(' | ', grep { !/nothing was recorded before/ } @{ $verdict->{exceptions} }), '', "$what: and without exceptions");
	return;
}

foreach my $writers (1, 2, 3, 5, 8)
{
	my $node = new_node("w$writers", conf => "steno.signing_key_file = '$key'\nsteno.seal_interval = 1s\nsteno.writers = $writers\nmax_worker_processes = 20\n");
	my (@ranges, $idle, $code, $out);

	foreach my $count (1, 1 + int rand $writers)
	{
		push @ranges, range_with_sessions($node, $count);
		is_proved($node, $ranges[-1], "$writers writers, $count sessions, the server runs");
	}
	$node->stop;
	is_proved($node, $ranges[$_], "$writers writers, range $_, the server is stopped", { stopped => 1 }) for 0 .. $#ranges;
	($code, $out) = verified($node, '--key', "$key.pub");
	is($code, 0, "$writers writers: the trail is whole") or diag explain $out;
	is(scalar @{ $out->{seals} }, $writers, "$writers writers: with as many streams");
	$idle = grep { /'begin'|"begin"/ } lines($node, '--kind', 'server');
	is($idle, $writers - 1, "$writers writers: all streams but the first one have a first block of their own");

	next if $writers != 3;
	# a stream that is removed is missed, also one that never had anything else
	rename trail($node) . '/2', "$keys/removed";
	($code, $out, my $err) = steno_result('prove', '--since', $ranges[0]{begin}, '--until', $ranges[0]{end}, '--key', "$key.pub", '--out', "$keys/proof", trail($node));
	isnt($code, 0, 'a proof without one of the streams is refused');
	like($err . $out, qr/3 writers/, 'because the server had more writers');
	rename "$keys/removed", trail($node) . '/2';

	# more writers, and another key
	$node->append_conf('postgresql.conf', 'steno.writers = 4');
	$node->start;
	push @ranges, range_with_sessions($node, 1);
	is_proved($node, $_, 'a writer more: range of ' . $_->{tag}) for @ranges;
	$node->append_conf('postgresql.conf', "steno.signing_key_file = '$second'");
	$node->reload;
	push @ranges, range_with_sessions($node, 2);
	is_proved($node, $_, 'a new key: range of ' . $_->{tag}) for @ranges;
	$node->stop;
}

# Streams that begin when there is a key at last.
{
	my $node = new_node('late', conf => "steno.seal_interval = 1s\nsteno.writers = 3\n");
	my $range = range_with_sessions($node, 1);

	is(join(' ', sort map { $_->{stream} } grep { ($_->{extra}{event} // '') =~ /^(?:start|begin)$/ } records($node)), '0', 'without a key, a writer that has nothing to write has no stream');
	$node->append_conf('postgresql.conf', "steno.signing_key_file = '$key'");
	$node->reload;
	$range = range_with_sessions($node, 1);
	is_proved($node, $range, 'with a key since a reload');
	$node->stop;
}

done_testing();

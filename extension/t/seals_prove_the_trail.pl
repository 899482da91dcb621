
# Seals: the writers sign the hash of their stream's chain in time, at the ends of segments and of the
# run.  With the public key, changes can be found even if all hashes were made right again.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Seals;
use Test::More;
use Time::HiRes qw(usleep);

my $keys = PostgreSQL::Test::Utils::tempdir();
my ($key, $id) = keygen("$keys/one");
my $node = new_node('main', conf => "steno.signing_key_file = '$key'\nsteno.seal_interval = 1s\nsteno.writers = 2\nrestart_after_crash = on\n");

sub problems
{
	my ($report) = @_;

	return join ' | ', map { $_->{what} } @{ $report->{problems} };
}

# what a server's sessions write into both of its streams
sub load
{
	my ($what) = @_;

	$node->safe_psql('postgres', "SELECT '$what'");
	$node->pgbench('-n -c 4 -t 5', 0, [qr/processed: 20/], [qr/^$/], $what, { "$what-$$" => "SELECT 'load'" });
	return;
}

# What is written is sealed after the interval, and then nothing more is written.
{
	my ($code, $report, $size);

	load('first');
	flush($node);
	wait_until('all is sealed', sub {
		($code, $report) = verified($node, '--key', "$key.pub");
		return !grep { $_->{unsealed_blocks} } @{ $report->{seals} };
	});
	is($code, 0, 'a trail with seals is whole');
	is(scalar @{ $report->{seals} }, 2, 'both streams have seals');
	is($report->{seals}[0]{key}, $id, 'by the key');
	is($report->{seals}[0]{checked}, $report->{seals}[0]{seals}, 'all of which are right');
	$size = -s trail($node) . '/0/0000000001.steno';
	usleep(3_500_000);
	is(-s trail($node) . '/0/0000000001.steno', $size, 'an idle server does not seal its seals');

	($code, $report) = verified($node);
	is($code, 0, 'without a key it is whole, too');
	ok(!$report->{seals_checked}, 'and the seals are said to be unchecked');
}

# The end of a segment is sealed, and the end of the run.
{
	my ($code, $report, @ends, @stops);

	load('second');
	value($node, 'SELECT steno.rotate()');
	@ends = grep { $_->{extra}{reason} eq 'segment' } seals($node);
	is(join(' ', sort map { "$_->{stream}/$_->{segment}" } @ends), '0/1 1/1', 'the ends of both segments are sealed');
	load('third');
	$node->stop;
	@stops = grep { $_->{extra}{reason} eq 'stop' } seals($node);
	is(scalar @stops, 2, 'so are the ends of the run');
	($code, $report) = verified($node, '--key', "$key.pub");
	is($code, 0, 'the stopped server\'s trail is whole');
	is_deeply([ map { $_->{last_block} - $_->{sealed_block} } @{ $report->{seals} } ],
		[ 1, 1 ], 'only the last seals have none');
	is_deeply($report->{warnings}, [], 'without a warning');
}

# An attacker who knows the format, but does not have the key: seals of another key; an older copy.
{
	my ($other) = keygen("$keys/other");
	my $anchors = "$keys/anchors";
	my ($code, $report);

	($code, $report) = verified($node, '--key', "$other.pub");
	is($code, 3, 'seals by a key that was not given are not checked');
	like(join(' | ', map { $_->{what} } @{ $report->{unreadable} }), qr/by key $id, which was not given/, 'and that is said');

	append_to_file($anchors, seal_export($node));
	like(slurp_file($anchors), qr/\A(pg_steno-anchor 1 [^\n]* reason=stop [^\n]* signature=[0-9a-f]{128}\n){2}\z/,
		'an anchor is a line for each stream, sealed');
	($code, $report) = verified($node, '--key', "$key.pub", '--anchor', $anchors);
	is($code, 0, 'the trail has what its anchors say');

	my $segment = trail($node) . '/0/0000000002.steno';
	my $bytes = slurp_file($segment);
	# the last block but the seal's own
	my $cut = rindex($bytes, 'SBLK', rindex($bytes, 'SBLK') - 1);
	truncate $segment, $cut or die;
	($code, $report) = verified($node, '--anchor', $anchors);
	is($code, 1, 'an end that was cut off is missed');
	like(problems($report), qr/named by anchor \Q$anchors\E:1 of .*, does not exist/, 'by the anchor');
	open my $handle, '+<:raw', $segment or die;
	print $handle $bytes;
	close $handle;
}

# The next run begins with a seal of what it found, before all other records, such as that of an
# unfinished block that it has cut off.
{
	my @seals;

	append_to_file(trail($node) . '/0/0000000002.steno', "SBLK" . "\0" x 296);
	$node->start;
	load('fourth');
	flush($node);
	@seals = grep { $_->{extra}{reason} eq 'start' } seals($node, 0);
	is($seals[-1]{extra}{first}, $seals[-1]{extra}{block} + 1, 'a run begins with a seal of what it found');
	is(scalar(grep { $_->{extra}{event} eq 'torn' } records($node, kind => 'server')), 1, 'and tells of the end that it has cut');
}

# A crash leaves blocks that only the next run seals: that is no damage.
{
	my ($code, $report);

	foreach my $writer (0, 1)
	{
		my $pid = writer_pid($node, $writer);

		load("crash $writer");
		flush($node);
		kill 9, $pid;
		$node->poll_query_until('postgres',
			"SELECT count(*) = 1 FROM steno.writers WHERE writer = $writer AND pid <> $pid")
		  or die 'the server does not come back';
	}
	load('after the crashes');
	flush($node);
	($code, $report) = verified($node, '--key', "$key.pub");
	is($code, 0, 'after crashes the trail is whole') or diag(problems($report));
}

# A new key, by reload: the old one names it.
{
	my ($new, $new_id) = keygen("$keys/two");
	my ($code, $report, @change, $start);

	$node->append_conf('postgresql.conf', "steno.signing_key_file = '$new'");
	$start = -s $node->logfile;
	$node->reload;
	$node->wait_for_log(qr/LOG:  steno writer $_ seals with key $new_id, after $id/, $start) foreach (0, 1);
	load('new key');
	flush($node);
	@change = grep { $_->{extra}{reason} eq 'key' } seals($node);
	is_deeply([ map { $_->{extra}{key} } @change ], [ $id, $id ], 'in both streams the old key names the next one');
	($code, $report) = verified($node, '--key', "$key.pub");
	is($code, 0, 'who trusts the old key trusts the new one') or diag(problems($report));
	is($report->{seals}[0]{key}, $new_id, 'which seals now');
	($code, $report) = verified($node, '--key', "$new.pub");
	is($code, 0, 'the seals of the new one cover what the old one has sealed');
	like($report->{warnings}[0]{what}, qr/seals by keys that were not given \($id\) are not checked/, 'whose own seals are not checked');
	($code, $report) = verified($node, '--key', $keys);
	is($code, 0, 'a directory of keys will do');

	# A key that cannot be used leaves the old one in force.
	chmod 0640, $new or die;
	$start = -s $node->logfile;
	$node->reload;
	$node->wait_for_log(qr/WARNING:  signing key file "\Q$new\E" has group or world access/, $start);
	$node->wait_for_log(qr/WARNING:  steno writer $_ goes on with the signing key that it has/, $start) foreach (0, 1);
	chmod 0600, $new or die;
	load('still the new key');
	is((seals($node, 0))[-1]{extra}{key}, $new_id, 'the old key is in force');

	# The last seal says that there will be no more.
	$node->append_conf('postgresql.conf', "steno.signing_key_file = ''");
	$start = -s $node->logfile;
	$node->reload;
	$node->wait_for_log(qr/LOG:  steno writer $_ seals with key none, after $new_id/, $start) foreach (0, 1);
	load('no key');
	$node->stop;
	is((seals($node, 0))[-1]{extra}{reason}, 'end', 'the last seal says so');
	($code, $report) = verified($node, '--key', "$key.pub");
	is($code, 0, 'which is no damage');
	like(join(' ', map { $_->{what} } @{ $report->{warnings} }), qr/sealing was ended by the server's configuration/, 'but a warning');
}
done_testing();

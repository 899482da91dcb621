
# An encrypted trail: its files reveal nothing of what was recorded; with the key it can be read like
# any other trail; the key is rotated by a reload; and a server continues it after a kill.

use strict;
use warnings;

use Digest::SHA qw(sha256_hex);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Test::More;

my $base = PostgreSQL::Test::Utils::tempdir();
my %keys = map { $_ => sha256_hex("key $_") } qw(a b c);
my %ids = map { $_ => substr sha256_hex("pg_steno key id\0" . pack 'H*', $keys{$_}), 0, 16 } keys %keys;
my $marker = 'marker_of_a_secret';
my $present = "$base/key";

sub put_key
{
	my ($path, $key) = @_;

	open my $file, '>', "$path.new" or die "could not write $path: $!";
	print $file "$key\n";
	close $file;
	chmod 0600, "$path.new";
	rename "$path.new", $path or die "could not write $path: $!";
	return;
}

# All keys, for those who read.
put_key("$base/all", join "\n", map { $keys{$_} } sort keys %keys);
put_key("$base/$_", $keys{$_}) foreach keys %keys;
put_key($present, $keys{a});

# Whether any file of the trail contains this.
sub trail_has
{
	my ($node, $text) = @_;

	return scalar grep { index(slurp_file($_), $text) >= 0 } glob trail($node) . '/*/*';
}

# The ids of the keys of all segments.
sub segment_keys
{
	my ($node) = @_;
	my ($code, $out) = steno_result('info', '--format', 'json', trail($node));

	return join ' ', map { $_->{encryption_key} // '-' } @{ JSON::PP->new->decode($out)->{segments} };
}

sub run_marked
{
	my ($node, $name) = @_;

	$node->safe_psql('postgres', "SELECT '$marker $name' AS column_$marker",
		connstr => $node->connstr('postgres') . " application_name=app_$marker");
	return;
}

# The statements that are there, each once.
sub marked_are
{
	my ($node, $what, @names) = @_;
	my @found = map { /'$marker (\w+)'/ ? $1 : () } map { $_->{text} } statements($node, text => qr/'$marker/);

	is("@found", "@names", $what);
	return;
}

# The programs that the helpers of other tests run need the keys, too.
local $ENV{STENO_ENCRYPTION_KEY_COMMAND} = "cat $base/all";

foreach my $compression (qw(lz4 none))
{
	my $node;
	my $start;
	my $plain;

	put_key($present, $keys{a});
	$node = new_node(
		"main_$compression",
		conf => qq{
steno.encryption_key_command = 'cat $present'
steno.compression = $compression
steno.writers = 2
restart_after_crash = on
});
	ok($node->wait_for_log(qr/LOG:  steno writer $_ encrypts the trail with key $ids{a}, from segment 1 on/),
		"$compression: writer $_ says so")
	  foreach 0, 1;
	run_marked($node, 'first');
	flush($node);
	ok(!trail_has($node, $marker), "$compression: no file of the trail has a text, a name or a parameter");
	ok(!trail_has($node, 'postgres'), "$compression: nor users and databases");
	ok(!trail_has($node, pack 'H*', $keys{a}) && !trail_has($node, $keys{a}), "$compression: nor the key");
	marked_are($node, "$compression: with the key, all is there", 'first');
	verify_ok($node, "$compression: and whole");
	gapless($node, "$compression: no gaps");

	# without a key, or with another one
	{
		local $ENV{STENO_ENCRYPTION_KEY_COMMAND};

		foreach my $case (
			[ 'without a key', ],
			[ 'with another key', '--encryption-key-file', "$base/b" ])
		{
			my ($what, @args) = @$case;

			foreach my $command ([ 'cat', '--format', 'csv' ], [ 'tail', '-n', '5' ], [ 'info', '--detail' ])
			{
				my ($code, $out, $err) = steno_result(@$command, @args, trail($node));

				is($code, 3, "$compression: $command->[0] $what fails");
				unlike($out, qr/$marker|postgres|statement/, "$compression: and shows nothing of what is encrypted") if $command->[0] ne 'cat';
				is(scalar(my @lines = split /\n/, $out), 1, "$compression: and shows no record") if $command->[0] eq 'cat';
				like($err, qr/^steno: unreadable: \S+: encrypted with key $ids{a}, which was not given/, "$compression: but which key it needs");
			}
		}
		my ($code, $out, $err) = steno_result('verify', trail($node));
		is($code, 0, "$compression: verify needs no key");
		like($out, qr/warning: segments encrypted with key $ids{a}, which was not given: 2;/, "$compression: and says what it has not seen");
		($code, $out, $err) = steno_result('cat', '--encryption-key-file', "$base/b", '--encryption-key-command', "cat $base/a", trail($node));
		is($code, 0, "$compression: of several keys, the right one is taken");
		like($out, qr/$marker first/, "$compression: and reads it");
	}

	# a new key with a reload
	put_key($present, $keys{b});
	$start = -s $node->logfile;
	$node->reload;
	$node->wait_for_log(qr/steno writer $_ encrypts the trail with key $ids{b}, from segment 2 on/, $start) foreach 0, 1;
	run_marked($node, 'second');
	flush($node);
	is(segment_keys($node), "$ids{a} $ids{b} $ids{a} $ids{b}", "$compression: a new key begins new segments");
	marked_are($node, "$compression: both keys read all", qw(first second));

	# the same key again changes nothing
	$start = -s $node->logfile;
	$node->append_conf('postgresql.conf', 'steno.flush_interval = 190');
	$node->reload;
	wait_until 'it is reloaded', sub { value($node, 'SHOW steno.flush_interval') eq '190ms' };
	flush($node);
	value($node, 'SELECT steno.flush()');
	unlike(slurp_file($node->logfile, $start), qr/encrypts the trail/, "$compression: a reload alone begins no segment");

	# a crash of the whole server, in the middle of a statement
	{
		my $c = Steno::Client->new($node, application_name => "app_$marker");

		run_marked($node, 'third');
		$c->put('Q', "SELECT pg_sleep(1000), '$marker running'\0")->send_all;
		wait_until 'it runs', sub { value($node, q{SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'}) eq '1' };
		kill_server($node);
		close $c->{socket};
	}
	$start = -s $node->logfile;
	$node->start;
	run_marked($node, 'fourth');
	flush($node);
	# a segment that is encrypted is never continued
	is(segment_keys($node), join(' ', (@ids{qw(a b b)}) x 2), "$compression: after a crash the stream goes on in a new segment");
	marked_are($node, "$compression: nothing is lost, nothing is there twice", qw(first second third running fourth));
	is((statements($node, text => qr/$marker running/))[0]{outcome}, 'interrupted', "$compression: what ran was interrupted");

	# the end of encryption
	$start = -s $node->logfile;
	$node->append_conf('postgresql.conf', "steno.encryption_key_command = ''");
	$node->reload;
	$node->wait_for_log(qr/steno writer $_ does not encrypt the trail any more, from segment 4 on/, $start) foreach 0, 1;
	run_marked($node, 'fifth');
	flush($node);
	ok(trail_has($node, $marker), "$compression: without the setting, segments are plain");
	marked_are($node, "$compression: a trail of both kinds reads as one", qw(first second third running fourth fifth));
	is_deeply(
		[ map { "$_->{extra}{old} -> $_->{extra}{new}" } grep { $_->{extra}{name} eq 'steno.encryption_key_command' } records($node, kind => 'setting') ],
		["cat $present -> "], "$compression: that it ended is recorded");

	# and again, after a restart
	$plain = trail_has($node, $marker);
	put_key($present, $keys{c});
	$node->append_conf('postgresql.conf', "steno.encryption_key_command = 'cat $present'");
	$node->restart;
	run_marked($node, 'sixth');
	flush($node);
	is(segment_keys($node), join(' ', (@ids{qw(a b b)}, '-', $ids{c}) x 2), "$compression: a plain segment is not continued with a key");
	is(trail_has($node, $marker), $plain, "$compression: and encrypted it is");
	$node->stop;
	marked_are($node, "$compression: all keys read all", qw(first second third running fourth fifth sixth));
	verify_ok($node, "$compression: the trail is whole");
	gapless($node, "$compression: no gaps in the end");
}
done_testing();

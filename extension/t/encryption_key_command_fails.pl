
# The command for the encryption key fails: the server refuses to start, a running server keeps its
# present key, and nothing that should be encrypted is written in plain text.  Only writers have the
# key.

use strict;
use warnings;

use Digest::SHA qw(sha256_hex);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Test::More;

my $base = PostgreSQL::Test::Utils::tempdir();
my $key = sha256_hex('the key');
my $id = substr sha256_hex("pg_steno key id\0" . pack 'H*', $key), 0, 16;
my $refused = qr/could not get the encryption key of the trail from "steno\.encryption_key_command"/;

sub put
{
	my ($name, $text) = @_;

	open my $file, '>', "$base/$name.new" or die "could not write $base/$name: $!";
	print $file "$text\n";
	close $file;
	rename "$base/$name.new", "$base/$name" or die "could not write $base/$name: $!";
	return;
}

sub command
{
	my ($node, $command) = @_;

	$node->append_conf('postgresql.conf', "steno.encryption_key_command = '$command'");
	return;
}

# Segments by whether they are encrypted.
sub encrypted
{
	my ($node) = @_;

	return join ' ', map { substr(slurp_file($_), 12, 1) eq "\1" ? 'yes' : 'no' } sort glob trail($node) . '/0/*.steno';
}

sub has_text
{
	my ($node, $text) = @_;

	return scalar grep { index(slurp_file($_), $text) >= 0 } glob trail($node) . '/0/*.steno';
}

put('key', $key);
local $ENV{STENO_ENCRYPTION_KEY_COMMAND} = "cat $base/key";
my $node = new_node('main', conf => "steno.compression = none\n");
$node->stop;

# At the start.
foreach my $case (
	[ 'fails', "echo the vault is closed >&2; exit 3", qr/DETAIL:  The command failed: child process exited with exit code 3\./ ],
	[ 'is not there', '/no/such/command', qr/DETAIL:  The command failed: command not found\./ ],
	[ 'is killed', 'kill -9 $$', qr/DETAIL:  The command failed: child process was terminated by signal 9/ ],
	[ 'prints nothing', 'true', qr/DETAIL:  The command printed 0 bytes that are not 64 hexadecimal digits/ ],
	[ 'prints too few digits', 'echo ' . substr($key, 1), qr/DETAIL:  The command printed 64 bytes that are not 64 hexadecimal digits/ ],
	[ 'prints too many digits', "echo ${key}0", qr/DETAIL:  The command printed 66 bytes that are not 64 hexadecimal digits/ ],
	[ 'prints no digits', 'echo g' . substr($key, 1), qr/DETAIL:  The command printed 65 bytes that are not 64 hexadecimal digits/ ],
	[ 'prints without end', 'yes | head -c 1000000', qr/DETAIL:  The command printed at least \d+ bytes that are not 64 hexadecimal digits/ ],
	[ 'prints the key and fails', "cat $base/key; exit 1", qr/DETAIL:  The command failed: child process exited with exit code 1\./ ])
{
	my ($what, $command, $detail) = @$case;
	my $log = refuses_to_start(
		$node, "a command that $what", "steno.encryption_key_command = '$command'", qr/FATAL:  $refused/, $detail,
		qr/HINT:  The command must print 64 hexadecimal digits and exit with 0\. With an empty/);

	unlike($log, qr/$key/, "a command that $what: but no key");
	like($log, qr/^the vault is closed$/m, 'what the command says is in the log') if $what eq 'fails';
}
is_deeply([ ring_files($node) ], [], 'no ring file is left');

# At a reload: what was goes on, be it plain or encrypted.
$node->start;
foreach my $case ([ 'plain', 'Segments go on unencrypted', qr/no$/ ],
	[ 'encrypted', 'Segments go on with the present key', qr/yes$/ ])
{
	my ($what, $hint, $segment) = @$case;
	my $start = -s $node->logfile;
	my $log;

	command($node, 'echo not today >&2; exit 3');
	$node->reload;
	$node->wait_for_log($refused, $start);
	value($node, "SELECT 'after the failure'") for 1 .. 3;
	flush($node);
	$log = slurp_file($node->logfile, $start);
	like($log, qr/WARNING:  $refused\n.*DETAIL:  The command failed: child process exited with exit code 3\.\n.*HINT:  $hint; the command is run again every 10 seconds\./,
		"$what: a command that fails at a reload is logged");
	like($log, qr/^not today$/m, "$what: and so is what it says");
	like(encrypted($node), $segment, "$what: and segments go on as before");

	# a command that hangs blocks nothing, and another reload ends it
	$start = -s $node->logfile;
	command($node, "echo \$\$ >$base/pid.new; mv $base/pid.new $base/pid; exec sleep 1000");
	$node->reload;
	wait_until 'the command runs', sub { -e "$base/pid" };
	my ($pid) = slurp_file("$base/pid") =~ /(\d+)/;
	unlink "$base/pid";
	flush($node);
	ok(kill(0, $pid), "$what: while the command runs, the writer writes");
	command($node, "cat $base/key");
	$node->reload;
	$node->wait_for_log(qr/steno writer 0 encrypts the trail with key $id/, $start) if $what eq 'plain';
	wait_until 'it is gone', sub { !kill 0, $pid };
	pass("$what: another reload ends it");
	flush($node);
	like(encrypted($node), qr/yes$/, "$what: and the new command holds");
}
is(encrypted($node), 'no yes', 'no more segments than keys');
verify_ok($node, 'the trail is whole');

# Only the writer has the key, and no core dump contains it.
SKIP:
{
	my $c = Steno::Client->new($node);
	my $writer = writer_pid($node);
	my %is = (writer => $writer, backend => $c->{pid}, postmaster => $node->{_pid});
	my %has;

	foreach my $who (keys %is)
	{
		my $found = 0;
		my $dumped = 0;
		my ($from, $to);

		open my $memory, '<:raw', "/proc/$is{$who}/mem" or skip 'the memory of processes cannot be read', 4;
		open my $maps, '<', "/proc/$is{$who}/smaps" or skip 'the memory of processes cannot be read', 4;
		while (my $line = <$maps>)
		{
			($from, $to) = map { hex } ($1, $2) if $line =~ /^([0-9a-f]+)-([0-9a-f]+) rw.p /;
			($from, $to) = () if $line =~ /^[0-9a-f]+-[0-9a-f]+ (?!rw.p)/;
			next if $line !~ /^VmFlags:/ || !defined $from;
			my $bytes;

			no warnings 'portable';
			sysseek($memory, $from, 0) && sysread($memory, $bytes, $to - $from) or next;
			next if index($bytes, pack 'H*', $key) < 0 && index($bytes, $key) < 0;
			$found++;
			$dumped++ if $line !~ /\bdd\b/;
		}
		$has{$who} = $found;
		is($dumped, 0, 'no page that is part of a core dump has the key') if $who eq 'writer';
	}
	is($has{writer}, 1, 'the writer has the key, in one place');
	is($has{backend}, 0, 'a backend has not');
	is($has{postmaster}, 0, 'nor has the postmaster');
	$c->quit;
}

# When the processes are started again after a crash, and the key cannot be had:
# records wait.
{
	my $c = Steno::Client->new($node);
	my $start = -s $node->logfile;
	my $segments = encrypted($node);

	$node->append_conf('postgresql.conf', 'restart_after_crash = on');
	$node->reload;
	rename "$base/key", "$base/hidden" or die;
	kill 'KILL', $c->{pid};
	$node->wait_for_log(qr/WARNING:  $refused\n.*DETAIL:  The command failed: [^\n]*\n.*HINT:  Records stay in the rings; the command is run again every 10 seconds\./, $start);
	wait_until 'one can connect', sub { can_connect($node) };
	$node->safe_psql('postgres', "SELECT 'while there is no key'");
	is(encrypted($node), $segments, 'without the key, no segment is begun');
	rename "$base/hidden", "$base/key" or die;
	$node->wait_for_log(qr/steno writer 0 encrypts the trail with key $id/, $start);
	the_record($node, 'what waited', text => "SELECT 'while there is no key'");
	ok(!has_text($node, 'while there is no key'), 'and it is encrypted');
	is(encrypted($node), "$segments yes", 'in a new segment');
	verify_ok($node, 'the trail is whole after that');
	gapless($node, 'and has no gaps');
	close $c->{socket};
}

# A server that waits for its key can be stopped.
{
	my $start;

	$node->stop;
	$start = -s $node->logfile;
	command($node, "test ! -e $base/once || exit 1; touch $base/once; cat $base/key");
	$node->start;
	$node->wait_for_log(qr/HINT:  Records stay in the rings/, $start);
	$node->stop('fast');
	pass('a server that waits for its key can be stopped');
	command($node, "cat $base/key");
	$node->start;
	flush($node);
	verify_ok($node, 'and goes on when there is one');
	$node->stop;
}
gapless($node, 'no gaps in the end');
done_testing();

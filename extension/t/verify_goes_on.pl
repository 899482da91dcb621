
# steno verify --state beside a running server: what is new is verified, run after run, while sessions come and go, segments
# are finished and deleted, and the server is killed.

use strict;
use warnings;

use JSON::PP;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno::Retention;
use Steno::Seals;
use Steno;
use Test::More;

my $folder = PostgreSQL::Test::Utils::tempdir;
chmod 0700, $folder;
my $key = scalar keygen("$folder/seal.key");
my $node = new_node('verify_goes_on', conf => "steno.signing_key_file = '$key'\nsteno.compression = none\n");
my $script = "$folder/short.sql";
append_to_file($script, "SELECT 1;\nSELECT repeat('x', 2000);\nCREATE TEMP TABLE t (a int);\n");

my $begin = '--begin';

# One run: what its report says.
sub run_on
{
	my ($name) = @_;
	my @command = ('verify', '--state', "$folder/state", '--key', "$key.pub", ($begin // ()), '--format', 'json', trail($node));
	my ($code, $out, $err) = steno_result(@command);
	undef $begin;
	is($code, 0, "$name: nothing is wrong") or diag("$out\n$err");
	return decode_json($out);
}

# Many short sessions, and runs among them.
sub work
{
	command_ok([ 'pgbench', '-n', '-C', '-c', '4', '-t', '25', '-f', $script, '-h', $node->host, '-p', $node->port, 'postgres' ], 'short sessions');
	return;
}

for my $round (1 .. 4)
{
	my $pgbench = IPC::Run::start([ 'pgbench', '-n', '-C', '-c', '2', '-t', '40', '-f', $script, '-h', $node->host, '-p', $node->port, 'postgres' ],
		'>', '/dev/null', '2>', '/dev/null');
	run_on("round $round, while sessions come and go") for 1 .. 3;
	$pgbench->finish;
	work();
	fill($node, 1);
	my $report = run_on("round $round, behind a finished segment");
	cmp_ok($report->{state}{run}, '>', 1, 'the state counts runs') if $round == 1;
}

# A crash, and a start that drains the rings.
kill_server($node);
run_on('after a crash');
$node->start;
work();
run_on('after the start');

# Segments that the server deletes by policy.
set_and_reload($node, 'steno.retention_size', '1MB');
fill($node, 3);
wait_until 'the first segments have gone', sub { (segments($node))[0] > 2 };
run_on('after deletions');

# All of it, again, and the plain verdict.
my ($code, $out) = steno_result('verify', '--state', "$folder/state", '--key', "$key.pub", '--for', '10min', trail($node));
is($code, 0, 'a full pass finds nothing') or diag($out);
verify_ok($node, 'nor does a run without a state');

# What is changed in a segment that was read before is found by the full pass, and stands from then on.
$node->stop;
my $file = trail($node) . '/0/' . sprintf('%010d.steno', (segments($node))[0]);
open(my $fh, '+<:raw', $file) or die $!;
seek($fh, 5000, 0);
read($fh, my $byte, 1);
seek($fh, 5000, 0);
print $fh chr(ord($byte) ^ 1);
close($fh);
($code, $out) = steno_result('verify', '--state', "$folder/state", '--key', "$key.pub", '--for', '10min', trail($node));
is($code, 1, 'a changed byte is found');
($code, $out) = steno_result('verify', '--state', "$folder/state", '--key', "$key.pub", trail($node));
is($code, 1, 'and not forgotten');
like($out, qr/checksum of the payload does not match/, 'what it was');

done_testing();

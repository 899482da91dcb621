
# steno check: each thing that can be wrong with the audit of a server, made wrong, is told, with its exit code; what was
# lost stays told after a restart; and a healthy server is said to be healthy.

use strict;
use warnings;

use File::Copy qw(copy);
use JSON::PP ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::RecursiveCopy;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Steno::Retention;
use Steno::Seals;
use Test::More;

my $json = JSON::PP->new->utf8;
my $directory = PostgreSQL::Test::Utils::tempdir();
my ($key) = keygen("$directory/key");
my $node = new_node('main', conf => "steno.signing_key_file = '$key'\nsteno.seal_interval = 1s\nsteno.writers = 2\nsteno.ring_size = 16kB\nsteno.large_buffers = 0\nrestart_after_crash = on\n");
my $trail = trail($node);
my $state = "$directory/state";

# The disk of the machine is not what is tested.
my @usual = ('--state', $state, '--key', "$key.pub", '--rings', rings_of($node), '--disk-warning', 100, '--disk-critical', 101, '--units=false');

sub check
{
	my (@args) = @_;
	my ($code, $out, $err) = steno_result('check', @usual, '--format', 'json', @args, $trail);

	return $code == 3 && $out =~ /^STENO/ ? { code => $code, what => $out } : { %{ $json->decode($out) }, code => $code };
}

# What is not well, by item.
sub wrong
{
	my ($result) = @_;
	my %wrong;

	push @{ $wrong{ $_->{name} } }, "$_->{level}: $_->{what}" foreach grep { $_->{level} ne 'ok' } @{ $result->{items} };
	return { map { $_ => join ' + ', @{ $wrong{$_} } } keys %wrong };
}

sub is_well
{
	my ($what, @args) = @_;
	my $result = check(@args);

	is($result->{code}, 0, $what) or diag explain $result;
	return $result;
}

# One item is wrong, and this is the exit code.
sub is_wrong
{
	my ($code, $item, $like, $what, @args) = @_;
	my $result = check(@args);
	my $wrong = wrong($result);

	is($result->{code}, $code, "$what: exit code $code") or diag explain $result;
	is(join(' ', sort keys %$wrong), $item, "$what: $item") or diag explain $wrong;
	like($wrong->{$item} // '', $like, "$what: and how");
	return $result;
}

# Somebody sees what was found.
sub forget
{
	my (@args) = @_;

	check(@args);
	check('--forget', @args);
	return;
}

sub metric
{
	my ($result, $name) = @_;

	return (map { $_->{value} } grep { $_->{name} eq $name } @{ $result->{metrics} })[0];
}

# A healthy server.
{
	my $first = is_well('the first check');
	my ($code, $out);

	like((grep { $_->{name} eq 'intact' } @{ $first->{items} })[0]{what}, qr/first check/, 'it says that it is the first one');
	$node->safe_psql('postgres', "SELECT $_") foreach 1 .. 5;
	flush($node);
	is_well('the second check');
	is((stat $state)[2] & 0777, 0600, 'the state is for its owner alone');
	($code, $out) = steno_result('check', @usual, $trail);
	is($code, 0, 'as text');
	like($out, qr/\ASTENO OK - [^|\n]+ \|( \w+=-?[\d.]+(?:s|B|%|c)?)+\n\z/, 'one line, with numbers as Nagios reads them');
	($code, $out) = steno_result('check', @usual, '--format', 'prometheus', $trail);
	like($out, qr/^steno_check_level\{trail="\Q$trail\E"\} 0$/m, 'for Prometheus');
	is(scalar(grep { !/^(?:# (?:HELP|TYPE) steno_\w+ .+|steno_\w+\{.+\} -?[\d.]+)$/ } split /\n/, $out), 0, 'in its format');
	is_wrong(1, 'disk', qr/% used/, 'a disk that fills', '--disk-warning', 0);
	is_wrong(2, 'disk', qr/% used/, 'a full disk', '--disk-critical', 0, '--disk-warning', 0);
	is_wrong(2, 'written', qr/old, the limit is/, 'a last record that is too old', '--max-age', '1us');
	is_well('expected values', '--expect', 'steno.writers=2');
	is_wrong(2, 'recorded', qr/steno.writers is '2', expected '3'/, 'another value', '--expect', 'steno.writers=3');
	is_well('a default', '--expect', 'steno.log=all', '--expect', 'steno.seal_interval=1000ms', '--expect', 'steno.ring_size=16kB');
	is_wrong(2, 'recorded', qr/steno.log is 'all', expected 'none'/, 'another default', '--expect', 'steno.log=none');
	is_wrong(2, 'recorded', qr/steno.block_size has its default, and '2MB' is expected/, 'a default that is not known', '--expect', 'steno.block_size=2MB');
	like(check('--keep', '365')->{what}, qr/it needs a unit/, 'a time without a unit');
	like(check('--disk-warning', '200')->{what}, qr/is more than --disk-critical/, 'limits in the wrong order');
}

# Writers that are stopped, and what waits for them.
{
	my $writer = writer_pid($node, 1);
	my $c = Steno::Client->new($node, application_name => 'waiting');
	my $mine = value($node, "SELECT writer FROM steno.rings WHERE pid = $c->{pid}");

	$writer = writer_pid($node, $mine);
	stop_process($writer);
	is_wrong(2, 'writers', qr/writer $mine is stopped/, 'a writer that is stopped');
	$c->query("SELECT 'waits'");
	wait_until 'it waits', sub { (wrong(check('--max-lag', '1ms'))->{written} // '') =~ /records wait for/ };
	like((map { $_->{what} } grep { $_->{name} eq 'losses' } @{ check('--max-lag', '1ms')->{items} })[0], qr/what was in the last \S+ is not in the trail yet/,
		'what waits to be written is told, and that nobody knows yet what was lost');
	continue_process($writer);
	$c->quit;
	flush($node);
	is_well('it goes on');
}

# Drops: as many as the server counts, those that the trail does not know yet, and after a restart.
{
	my $c = Steno::Client->new($node, application_name => 'dropping');
	my ($watch, $before, $result, $dropped) = (Steno::Client->new($node, application_name => 'watch'), metric(check(), 'dropped_records_total'));
	my $writer = writer_pid($node, value($node, "SELECT writer FROM steno.rings WHERE pid = $c->{pid}"));

	is($before, 0, 'nothing was dropped so far');
	$watch->query(q{SET steno.log = 'none'});
	flush($node);
	$result = is_wrong(1, 'recorded', qr/steno.log was 'all' and became 'none'.*for session .*of user/, 'recording switched off for a session');
	is_wrong(1, 'recorded', qr/\(found .* ago\)/, 'which is told again');
	is_well('unless somebody has seen it', '--forget');
	is_well('and then no more');
	$c->query('SET steno.delivery = drop');
	flush($node);
	forget();
	stop_process($writer);
	$c->query("SELECT 'dropping $_', '" . filler(500) . "'") foreach 1 .. 60;
	$dropped = $watch->query('SELECT dropped FROM steno.status')->{rows}[0][0];
	like(wrong(check())->{losses} // '', qr/critical: the server has dropped $dropped records of which the trail does not know/, 'drops that only the rings know');
	is((steno_result('verify', '--fail-on-loss', '--rings', rings_of($node), $trail))[0], 1, 'steno verify --fail-on-loss finds them, too');
	is((steno_result('verify', '--fail-on-loss', $trail))[0], 1, 'also where the trail says that they are');
	is((steno_result('verify', '--rings', rings_of($node), $trail))[0], 0, 'without it, they are a warning');
	my ($code, $out) = steno_result('verify', '--fail-on-loss', '--rings', $directory, $trail);
	is($code, 3, 'if it does not find the rings of the server that runs, it does not know');
	like($out, qr/what the running server has dropped is not known: .*name its rings with --rings/, 'and says what to do');
	continue_process($writer);
	flush($node);    # its ring has space again: the next record is not dropped, too
	$c->query("SELECT 'after'");
	$c->quit;
	$watch->quit;
	flush($node);
	$node->restart;
	$result = is_wrong(2, 'losses', qr/^critical: $dropped records dropped, as the trail tells at .*ring full/, 'drops before a restart');
	is(metric($result, 'dropped_records_total'), $dropped, 'as many as the server has counted');
	$result = is_wrong(2, 'losses', qr/found .* ago/, 'they are told again');
	is(metric($result, 'dropped_records_total'), $dropped, 'and counted once');
	is_well('unless somebody has seen them', '--forget');
	is(metric(is_well('the next one'), 'dropped_records_total'), $dropped, 'the total is kept');
}

# Settings of the server.
{
	$node->safe_psql('postgres', q{ALTER SYSTEM SET steno.log = 'none'});
	$node->reload;
	wait_until 'it is told', sub { (wrong(check())->{recorded} // '') =~ /steno.log is 'none'/ };
	is_wrong(2, 'recorded', qr/steno.log is 'none': statements are not recorded.*postgresql\.auto\.conf/s, 'nothing is recorded');
	$node->safe_psql('postgres', 'ALTER SYSTEM RESET steno.log');
	$node->reload;
	wait_until 'it is told', sub { (wrong(check())->{recorded} // '') !~ /steno.log is 'none'/ };
	is_wrong(1, 'recorded', qr/steno.log was 'all' and became 'none'.*became 'all'/s, 'that it was not stays told');
	is_well('until it was seen', '--forget');
}

# Ends without a stop.
{
	kill_server($node);
	is_wrong(2, 'server', qr/no server that writes this trail runs here/, 'a server that was killed');
	$node->start;
	wait_until 'its rings are drained', sub { scalar(my @files = ring_files($node)) == 1 };
	is_wrong(1, 'losses', qr/had ended without a stop before/, 'and started again');
	is_well('which was seen', '--forget');
	$node->stop;
	is_wrong(2, 'server', qr/no server/, 'a server that was stopped');
	is_well('as a copy', '--offline');
	$node->adjust_conf('postgresql.conf', 'shared_preload_libraries', q{''});
	$node->start;
	is_wrong(2, 'server', qr/runs as process $node->{_pid}, but without pg_steno/, 'a server without pg_steno');
	$node->stop;
	$node->adjust_conf('postgresql.conf', 'shared_preload_libraries', q{'pg_steno'});
	$node->start;
	flush($node);
	is_wrong(2, 'losses', qr/may have run without pg_steno before/, 'with it again');
	is_well('which was seen', '--forget');
	$node->restart;
	flush($node);
	is_well('a restart is nothing');

	# into another directory
	$node->append_conf('postgresql.conf', "steno.directory = '$directory/elsewhere'\n");
	$node->restart;
	is_wrong(2, 'server', qr/runs with pg_steno, but does not write this trail/, 'a server that writes another trail');
	$node->append_conf('postgresql.conf', "steno.directory = 'pg_steno'\n");
	$node->restart;
	flush($node);
	like(wrong(check())->{losses} // '', qr/may have run without pg_steno before/, 'and then this one again');
	is_well('which was seen', '--forget');

	# what was in the rings is lost
	kill_server($node);
	unlink ring_files($node);
	$node->start;
	flush($node);
	is_wrong(2, 'losses', qr/ended without a stop before .*nothing says that its last records were recovered/, 'rings that are lost');
	is_well('which was seen', '--forget');
}

# A writer that has lost its key makes no seals, and what it writes stays unsealed, also if nothing more is written.
{
	my $start = -s $node->logfile;

	rename $key, "$key.away";
	kill 'KILL', writer_pid($node, 0);
	server_is_back($node, $start);
	$node->safe_psql('postgres', "SELECT 'unsealed'") foreach 1 .. 4;
	flush($node);
	like(wrong(check())->{losses} // '', qr/had ended without a stop/, 'processes that were killed');
	forget();
	wait_until 'it is told', sub { (wrong(check())->{sealed} // '') =~ /is not sealed since|has no seal/ };
	rename "$key.away", $key;
	$node->reload;
	wait_until 'it seals again', sub { check('--forget')->{code} == 0 };
	is_well('which stays so');
}

# Slots, and what was deleted too early.
{
	my $log;

	steno_result('slot', 'create', 'reader', $trail);
	is_well('a slot');
	set_and_reload($node, 'steno.slot_max_size', '1MB');
	fill($node, 2);
	set_and_reload($node, 'steno.compression', 'none');
	fill($node, 2);
	flush($node);
	forget();
	like(wrong(check())->{slots} // '', qr/^warning: slot reader keeps .*% of steno.slot_max_size/, 'a slot near its limit');
	is_well('nothing was deleted yet', '--keep', '1h', '--slot-warning', 1e6);
	set_and_reload($node, 'steno.retention_size', '1MB');
	fill($node, 2);
	wait_until 'segments are deleted', sub { (segments($node))[0] > 1 };
	like(wrong(check('--keep', '1h'))->{slots} // '', qr/^critical: slot reader is lost/, 'a lost slot');
	like(wrong(check('--keep', '1h'))->{kept} // '', qr/deleted that must be kept for 1h0m0s.*deleted at .* although a slot needed them/, 'records that had to be kept');
	is((steno_result('slot', 'list', $trail))[0], 1, 'the list of slots has exit code 1');
	steno_result('slot', 'drop', 'reader', $trail);
	set_and_reload($node, 'steno.retention_size', '0');
	wait_until 'there are segments between others', sub
	{
		my @there = segments($node);

		return 1 if @there >= 4;
		fill($node, 1);
		return 0;
	};
	wait_until 'all is sealed', sub { check('--forget')->{code} == 0 };
}

# Damage, also before and behind what was checked, and another trail in the place of this one.
{
	my ($older, $stream, $file, $at, $r) = ("$directory/older", "$trail/0");

	$node->stop;
	forget('--offline');
	PostgreSQL::Test::RecursiveCopy::copypath($trail, $older);
	copy($state, "$state.older");
	$node->start;
	$node->safe_psql('postgres', "SELECT '" . filler(2000) . "'") foreach 1 .. 3;
	flush($node);
	$node->stop;
	is_well('before the damage', '--offline');
	copy($state, "$state.newer");

	# an older copy
	rename $trail, "$directory/newer";
	rename $older, $trail;
	is_wrong(2, 'intact', qr/does not exist: the end of the stream was cut off, or the trail is an older copy/, 'an older copy', '--offline');
	is_wrong(2, 'intact', qr/older copy/, 'it is told each time', '--offline');
	copy("$state.newer", $state);
	PostgreSQL::Test::RecursiveCopy::copypath("$directory/newer", "$directory/again");
	rename $trail, $older;
	rename "$directory/newer", $trail;
	is_well('the trail is back', '--offline');

	# what says that segments were deleted by retention cannot be read, as by an account that may only read segments
	rename "$trail/retention", "$directory/retention";
	mkdir "$trail/retention";
	is_wrong(3, 'intact', qr/whether segments before \d+ of stream 0 were deleted by retention cannot be read/, 'an unreadable file', '--offline');
	rmdir "$trail/retention";
	rename "$directory/retention", "$trail/retention";

	# a segment before what a check reads
	my @all = sort glob "$stream/*.steno";
	rename $all[0], "$directory/first";
	is_wrong(2, 'intact', qr/segments before \d+ of stream 0 are missing/, 'the first segment is missing', '--offline');
	rename "$directory/first", $all[0];
	is_well('it is back', '--offline', '--forget');
	rename $all[1], "$directory/second";
	is_wrong(2, 'intact', qr/segments (\d+) to \1 of stream 0 are missing/, 'another one is missing', '--offline');
	rename "$directory/second", $all[1];
	is_well('it is back', '--offline', '--forget');

	# damage behind what was checked: the state of before has not read it
	copy("$state.older", $state);
	($file) = reverse sort glob "$stream/*.steno";
	$at = (-s $file) - 200;
	open my $f, '+<', $file or die $!;
	seek $f, $at, 0;
	read $f, $r, 1;
	seek $f, $at, 0;
	print $f chr(ord($r) ^ 1);
	close $f;
	is_wrong(2, 'intact', qr/\Q$file\E: offset \d+/, 'damage', '--offline');
	is_wrong(2, 'intact', qr/\Q$file\E: offset \d+.*found .* ago/, 'it is told each time', '--offline');
	is((steno_result('verify', '--key', "$key.pub", $trail))[0], 1, 'steno verify finds it, too');

	# somebody acknowledges it: it counts as long as the file is as it was, and for those who may acknowledge
	my ($auditor) = keygen("$directory/auditor");
	my @auditor = ('--offline', '--acknowledged-by', "$auditor.pub");

	is((steno_result('acknowledge', '--key', "$key.pub", '--sign', $auditor, '--reason', 'for the test', $trail, 'all'))[0], 0, 'it is acknowledged');
	is_wrong(2, 'intact', qr/signed by key/, 'by a key that the check does not know', '--offline');
	my ($intact) = grep { $_->{name} eq 'intact' } @{ is_well('by one that it knows', @auditor)->{items} };
	like($intact->{what}, qr/; \d+ acknowledged$/, 'which is told');
	copy("$state.older", $state);
	is_well('also if it is found again', @auditor);
	copy($file, "$directory/damaged");
	open $f, '+<', $file or die $!;
	seek $f, $at - 1, 0;
	print $f 'x';
	close $f;
	copy("$state.older", $state);
	is_wrong(2, 'intact', qr/\Q$file\E: offset \d+/, 'more damage', @auditor);
	copy("$directory/damaged", $file);
	is_well('the file is as it was', @auditor);
}

# What cannot be checked is not well.
{
	my ($code, $out);

	append_to_file($state, 'x');
	($code, $out) = steno_result('check', @usual, $trail);
	is($code, 3, 'a state that cannot be read');
	like($out, qr/^STENO UNKNOWN - state of checks: .*remove the file/, 'and it says what to do');
	($code, $out) = steno_result('check', '--state', "$directory/nowhere/state", $trail);
	is($code, 3, 'a state that cannot be written');
	($code, $out) = steno_result('check', "$directory/nothing");
	is("$code $out" =~ /^3 STENO UNKNOWN/, 1, 'a trail that does not exist');
	($code, $out) = steno_result('check', '--kepe', '1d');
	is("$code $out" =~ /^3 STENO UNKNOWN - unknown flag/, 1, 'a mistake in the command');
}

done_testing();

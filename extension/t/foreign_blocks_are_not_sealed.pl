
# Somebody without the key changes the end of a trail while its server does not run: blocks or segments
# are added behind the last one, or the last one is replaced or cut off.  The next start leaves all of
# it as it is, does not seal it, and continues in a new stream, which says so.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Forge;
use Steno::Seals;
use Test::More;

my $key = keygen(PostgreSQL::Test::Utils::tempdir() . '/key');
my $marker = 0;

# A server with a new trail; how: a stop or a kill.
sub trail_of_run
{
	my ($name, $how, $sealed) = @_;
	my $node = new_node($name, conf => $sealed ? "steno.signing_key_file = '$key'\n" : '');

	value($node, 'SELECT steno.rotate()');
	$node->safe_psql('postgres', "SELECT 'known " . ++$marker . q{'});
	flush($node);
	$how eq 'stop' ? $node->stop : kill_server($node);
	return $node;
}

# Start the server; the record of the stream that it begins beside stream 0.
sub branch_of
{
	my ($node, $what, $reason, $log) = @_;
	my $left = slurp_file(last_segment_of(trail($node), 0));
	my $from = -s $node->logfile;
	my @branches;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	$node->start;
	value($node, "SELECT 'after'");
	flush($node);
	like(slurp_file($node->logfile, $from), qr/WARNING:  steno writer 0 begins stream 1 of the trail beside stream 0\n.*DETAIL:  $log/, "$what: a warning in the log");
	@branches = grep { $_->{extra}{event} eq 'branch' } records($node, kind => 'server');
	is(scalar @branches, 1, "$what: a record says that a stream begins");
	is($branches[0]{stream}, 1, "$what: in that stream");
	is(value($node, 'SELECT stream FROM steno.writers'), 1, "$what: steno.writers has its number");
	is($branches[0]{extra}{reason}, $reason, "$what: and why");
	$node->stop;
	ok(slurp_file(last_segment_of(trail($node), 0)) eq $left, "$what: stream 0 is left as it was");
	return $branches[0];
}

sub problems
{
	my ($node, @args) = @_;
	my ($code, $report) = verified($node, @args);

	return "$code " . join ' | ', map { $_->{what} } @{ $report->{problems} };
}

my @key = ('--key', "$key.pub");

# Behind the end of a run that was stopped: its last seal says that nothing follows.
foreach my $what ('block', 'blocks in a segment')
{
	my $node = trail_of_run($what =~ s/ /_/gr, 'stop', 1);
	my $trail = trail($node);
	my $last = last_block_of($trail, 0);
	my $branch;

	is(problems($node, @key), '0 ', "$what: the trail is whole before");
	forge_segment($trail, 0) if $what ne 'block';
	forge_block($trail, 0, "forged $_") foreach 1 .. ($what eq 'block' ? 1 : 3);
	is(problems($node), '0 ', "$what: not detected without the key");
	like(problems($node, @key), qr/^1 block @{[ $last + 1 ]} follows the seal that ended a run/, "$what: with the key it is damage");
	$branch = branch_of($node, $what, 'foreign blocks', qr/Blocks @{[ $last + 1 ]} to \d+ of stream 0 follow the last one/);
	is($branch->{extra}{block}, $last, "$what: up to which block stream 0 counts");
	like(problems($node, @key), qr/^1 .*follows the seal.* of stream 0 (was|were) not written by the server/, "$what: verify says whose it is not");
	like(problems($node), qr/^1 blocks? @{[ $last + 1 ]} .* by the server/, "$what: now without the key, too");
	is(scalar(grep { $_->{extra}{block} > $last } seals($node, 0)), 0, "$what: no seal is about it");

	# without the foreign blocks, the trail is intact
	$what eq 'block' ? cut_last_block($trail, 0) : unlink last_segment_of($trail, 0);
	is(problems($node, @key), '0 ', "$what: without it, the trail is whole");

	# the new stream is continued
	$node->start;
	value($node, "SELECT 'again'");
	$node->stop;
	ok(!-e "$trail/2", "$what: the next start begins no stream");
	is(problems($node, @key), '0 ', "$what: and leaves the trail whole");
}

# Behind the end of a killed run, which its ring file shows.
{
	my $node = trail_of_run('killed', 'kill', 1);
	my $last = last_block_of(trail($node), 0);

	forge_block(trail($node), 0, 'forged');
	branch_of($node, 'killed', 'foreign blocks', qr/Blocks @{[ $last + 1 ]} to @{[ $last + 1 ]} of stream 0 follow the last one/);
	like(problems($node, @key), qr/^1 block @{[ $last + 1 ]} of stream 0 was not written by the server/, 'killed: reported by verify');
	is(scalar(grep { $_->{extra}{block} > $last } seals($node, 0)), 0, 'killed: no seal is about it');
	is(join(' ', map { $_->{extra}{event} } records($node, kind => 'server')), 'start branch recover start stop',
		'killed: what its rings had is in the new stream');
}

# Another block in the place of the last one.
{
	my $node = trail_of_run('altered', 'stop', 1);

	cut_last_block(trail($node), 0);
	forge_block(trail($node), 0, 'forged');
	branch_of($node, 'altered', 'altered', qr/Block \d+ of stream 0 is not the one that this server has written/);
	like(problems($node, @key), qr/^1 .*block \d+ of stream 0 is not the one that the server had written/, 'altered: reported by verify');
}

# An end that was cut off: without an anchor, this could not be detected.
{
	my $node = trail_of_run('cut', 'stop', 1);
	my $last = last_block_of(trail($node), 0);
	my $cut = cut_last_block(trail($node), 0);

	is(problems($node, @key), '0 ', 'cut: not detected before the start');
	branch_of($node, 'cut', 'cut off', qr/Stream 0 ends with block @{[ $last - 1 ]}, but this server has written it up to block $last/);
	like(problems($node), qr/^1 stream 0 ends with block @{[ $last - 1 ]}, but had $last blocks/, 'cut: reported by verify after it');
	append_to_file(last_segment_of(trail($node), 0), $cut);
	is(problems($node, @key), '0 ', 'cut: what was cut off is put back');
}

# Files and folders with the highest possible numbers do not exhaust the numbers.
{
	my $node = trail_of_run('numbers', 'stop', 1);
	my $trail = trail($node);
	my $segment = last_segment_of($trail, 0);

	append_to_file("$trail/0/9999999999.steno", slurp_file($segment));
	mkdir "$trail/4294967294" or die;
	$node->start;
	$node->safe_psql('postgres', "SELECT 'beside them'");
	$node->stop;
	unlink "$trail/0/9999999999.steno";
	is(last_segment_of($trail, 0), $segment, 'numbers: the stream goes on where it was');
	is(scalar(grep { ($_->{text} // '') eq "SELECT 'beside them'" } records($node, kind => 'statement')), 1, 'numbers: its records can be read');
	cut_last_block($trail, 0);
	branch_of($node, 'numbers', 'cut off', qr/Stream 0 ends with/);
	rmdir "$trail/4294967294" or die;
	like(problems($node, @key), qr/^1 stream 0 ends with block [^|]*$/, 'numbers: verify finds nothing else');
}

# Without a key there are no seals, but the server knows its blocks all the same.
{
	my $node = trail_of_run('unsealed', 'stop', 0);
	my $last = last_block_of(trail($node), 0);

	forge_block(trail($node), 0, 'forged');
	is(problems($node), '0 ', 'unsealed: not detected before the start');
	branch_of($node, 'unsealed', 'foreign blocks', qr/Blocks @{[ $last + 1 ]} to/);
	like(problems($node), qr/^1 block @{[ $last + 1 ]} of stream 0 was not written by the server/, 'unsealed: reported by verify after it');
}

# With two writers, each checks its own stream.
{
	my $node = new_node('two', conf => "steno.signing_key_file = '$key'\nsteno.writers = 2\n");

	$node->pgbench('-n -c 4 -t 5', 0, [qr/processed: 20/], [qr/^$/], 'load', { "load-$$" => "SELECT 'load'" });
	flush($node);
	$node->stop;
	forge_block(trail($node), 1, 'forged');
	$node->start;
	$node->pgbench('-n -c 4 -t 5', 0, [qr/processed: 20/], [qr/^$/], 'again', { "again-$$" => "SELECT 'load'" });
	$node->stop;
	is(join(' ', map { "$_->{stream} $_->{extra}{stream}" } grep { $_->{extra}{event} eq 'branch' } records($node, kind => 'server')),
		'2 1', 'the writer of the altered stream begins another one');
	like(problems($node, @key), qr/^1 block \d+ follows.* \| block \d+ of stream 1 was not written by the server[^|]*$/, 'verify finds nothing else');
}

# Two writers, and after a stop or a kill only one: the stream of the other is compared all the same.
sub unused
{
	my ($name, $how, $change, $reason, $log, $damage) = @_;
	my $node = new_node("unused_$name", conf => "steno.signing_key_file = '$key'\nsteno.writers = 2\n");
	my $trail = trail($node);
	my $branches = sub { return grep { $_->{extra}{event} eq 'branch' } records($node, kind => 'server') };
	my ($from, $branch);

	# more than one block: after a kill, the last one may not have been written
	foreach my $run (1, 2)
	{
		$node->pgbench('-n -c 4 -t 5', 0, [qr/processed: 20/], [qr/^$/], "$name: load", { "unused-$name-$run-$$" => "SELECT 'load'" });
		flush($node);
	}
	$how eq 'stop' ? $node->stop : kill_server($node);
	$node->append_conf('postgresql.conf', 'steno.writers = 1');
	$change->($trail);
	$from = -s $node->logfile;
	$node->start;
	flush($node);
	like(slurp_file($node->logfile, $from), qr/WARNING:  stream 1 of the trail, which no writer uses any more, is not as this server has left it\n.*DETAIL:  $log/,
		"unused, $name: a warning in the log");
	is(join(' ', map { "$_->{stream} $_->{extra}{reason} $_->{extra}{stream} $_->{extra}{unused}" } $branches->()), "0 $reason 1 true", "unused, $name: and a record");
	$node->restart;
	is(scalar(() = slurp_file($node->logfile, $from) =~ /WARNING:  stream 1 /g), 1, "unused, $name: it is reported once");
	$node->stop;
	like(problems($node, @key), $damage, "unused, $name: reported by verify");
	return ($node, $trail);
}

{
	my ($node, $trail) = unused('gone', 'stop', sub { rename "$_[0]/1", "$_[0].moved" or die },
		'gone', qr/Stream 1, which this server has written up to block \d+, does not exist/, qr/^1 stream 1 is missing: [^|]*$/);

	rename "$trail.moved", "$trail/1" or die;
	is(problems($node, @key), '0 ', 'unused, gone: put back, the trail is whole');
	$node->append_conf('postgresql.conf', 'steno.writers = 2');
	$node->start;
	$node->pgbench('-n -c 4 -t 5', 0, [qr/processed: 20/], [qr/^$/], 'unused, gone: again', { "unused-again-$$" => "SELECT 'load'" });
	$node->stop;
	ok(-e "$trail/2", 'unused, gone: the writer that comes back begins another stream');
	is(problems($node, @key), '0 ', 'unused, gone: the trail is whole then');
}
unused('killed', 'kill', sub { rename "$_[0]/1", "$_[0].moved" or die },
	'gone', qr/Stream 1, which this server has written up to block \d+, does not exist/, qr/^1 stream 1 is missing: /);
unused('cut', 'stop', sub { cut_last_block($_[0], 1) },
	'cut off', qr/Stream 1 ends with block \d+, but/, qr/^1 (.* )?stream 1 ends with block \d+, but had \d+ blocks when it was no longer used by any writer/);
unused('foreign', 'stop', sub { forge_block($_[0], 1, 'forged') },
	'foreign blocks', qr/Blocks \d+ to \d+ of stream 1 follow the last one/, qr/block \d+ of stream 1 was not written by the server: [^|]* did not seal them$/);
unused('file', 'stop', sub { rename "$_[0]/1", "$_[0].moved" or die; append_to_file("$_[0]/1", 'no folder') },
	'gone', qr/Stream 1, which this server has written up to block \d+, does not exist/, qr/^1 /);

# An unused stream of a killed run is known exactly at later starts, too, when the ring file has gone.
{
	my $node = new_node('settled', conf => "steno.writers = 2\nsteno.fsync_interval = -1\n");

	$node->pgbench('-n -c 4 -t 5', 0, [qr/processed: 20/], [qr/^$/], 'settled: load', { "settled-$$" => "SELECT 'load'" });
	flush($node);
	kill_server($node);
	$node->append_conf('postgresql.conf', 'steno.writers = 1');
	$node->start;
	$node->stop;
	unlike(slurp_file($node->logfile), qr/no writer uses any more/, 'settled: nothing is amiss');
	forge_block(trail($node), 1, 'forged');
	$node->start;
	$node->stop;
	like(slurp_file($node->logfile), qr/no writer uses any more.*\n.*follow the last one/, 'settled: blocks after its end are found');
}

# A new trail is no damage.
{
	my $node = new_node('elsewhere', conf => "steno.signing_key_file = '$key'\nsteno.writers = 2\n");

	$node->pgbench('-n -c 4 -t 5', 0, [qr/processed: 20/], [qr/^$/], 'elsewhere: load', { "elsewhere-$$" => "SELECT 'load'" });
	$node->stop;
	$node->append_conf('postgresql.conf', 'steno.writers = 1');
	rename trail($node), trail($node) . '.moved' or die;
	$node->start;
	$node->stop;
	like(slurp_file($node->logfile), qr/stream 0 of the trail begins anew/, 'elsewhere: a new trail begins');
	like(slurp_file($node->logfile), qr/WARNING:  stream 1 .*\n.*does not exist/, 'elsewhere: the log also has a warning about the unused stream');
	is(problems($node, @key), '0 ', 'elsewhere: the new trail is whole');
}

# Restarts of all kinds go on in the same streams.
{
	my $node = new_node('restarts', conf => "steno.signing_key_file = '$key'\nsteno.writers = 2\nrestart_after_crash = on\n");
	my $pid;

	$node->restart;
	$node->stop('immediate');
	$node->start;
	kill_server($node);
	$node->start;
	$pid = writer_pid($node, 1);
	kill 9, $pid;
	$node->poll_query_until('postgres', "SELECT count(*) = 1 FROM steno.writers WHERE writer = 1 AND pid <> $pid") or die;
	$node->safe_psql('postgres', "SELECT 'machine'");
	flush($node);
	kill_server($node);
	unlink ring_files($node);
	$node->start;
	$node->append_conf('postgresql.conf', 'steno.writers = 3');
	$node->restart;
	$node->append_conf('postgresql.conf', 'steno.writers = 1');
	$node->restart;
	$node->append_conf('postgresql.conf', 'steno.writers = 3');
	$node->restart;
	$node->stop;
	is(join(' ', sort map { s{.*/}{}r } glob trail($node) . '/*[0-9]'), '0 1 2', 'restarts begin no stream but those of new writers');
	unlike(slurp_file($node->logfile), qr/begins stream/, 'and the log says nothing of it');
	is(problems($node, @key), '0 ', 'the trail is whole');
}
done_testing();

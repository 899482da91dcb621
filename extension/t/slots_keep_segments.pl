
# Segments that a slot still needs are not deleted, unless they take more than steno.slot_max_size;
# while a slot cannot be read, nothing is deleted.

use strict;
use warnings;

use JSON::PP ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Retention;
use Test::More;

my $json = JSON::PP->new->utf8;
my $node = new_node('main', conf => "steno.compression = none\n");
my $trail = trail($node);

sub status { return value($_[0], q{SELECT concat_ws(' ', state, coalesce(failure, '')) FROM steno.status}) }

# The slots, by name, as the program and the view have them.
sub slots
{
	my (undef, $out) = steno_result('slot', 'list', '--format', 'json', $trail);

	return { map { $_->{name} => $_ } @{ $json->decode($out)->{slots} } };
}

sub view
{
	my ($what, $name) = @_;

	return value($node, "SELECT $what FROM steno.slots WHERE slot_name = '$name'");
}

# The writer has examined the trail: a trail that nothing keeps loses its segments.
sub looked_log
{
	my ($from, $what) = @_;

	wait_until "the log says: $what", sub { slurp_file($node->logfile, $from) =~ /$what/ };
	return;
}

fill($node, 3);
my ($code, $out, $err) = steno_result('slot', 'create', 'reader', $trail);
is("$out$err$code", '0', 'a slot at the beginning');
($code, $out, $err) = steno_result('slot', 'create', 'late', '--from', 'end', $trail);
is("$out$err$code", '0', 'a slot at the end');
is((stat "$trail/slots/reader")[2] & 0777, 0600, 'its file is for its owner alone');
fill($node, 3);
my $all = slots();
is("$all->{reader}{state} $all->{reader}{segments_behind}", 'active 7', 'the first one is 7 segments behind');
is("$all->{late}{state} $all->{late}{segments_behind}", 'active 4', 'the other one 4');
cmp_ok($all->{reader}{bytes_behind}, '>', 6 * 400_000, 'in bytes, too');
is(view('state || stream || segment', 'reader'), 'active01', 'the view has it');
cmp_ok(view('retained_bytes', 'reader'), '>', view('retained_bytes', 'late'), 'and what it keeps');

set_and_reload($node, 'steno.retention_size', '1MB');
fill($node, 2);
is((segments($node))[0], 1, 'nothing goes that a slot wants');

steno_result('slot', 'advance', 'reader', '--to', '0/3', $trail);
fill($node, 1);
wait_until 'what it has read goes', sub { (segments($node))[0] == 3 };
fill($node, 1);
is((segments($node))[0], 3, 'and no more');

# forwards only
($code, $out, $err) = steno_result('slot', 'advance', 'late', '--to', '0/3', $trail);
is($code, 3, 'not backwards');
like($err, qr/slot "late" would move backwards in stream 0.*use --force/, 'and it says how');
($code, $out, $err) = steno_result('slot', 'advance', 'reader', '--to', '0/2', '--force', $trail);
like($err, qr/segment 2 of stream 0 does not exist: there are segments 3 to/, 'not to what has gone');

# limited
my $log = -s $node->logfile;
set_and_reload($node, 'steno.slot_max_size', '1MB');
fill($node, 1);
wait_until 'a slot that wants too much keeps nothing', sub { (segments($node))[0] >= 8 };
my @said = slurp_file($node->logfile, $log) =~ /WARNING: +slot "(\w+)" of the trail is lost/g;
is_deeply([ sort @said ], [ 'late', 'reader' ], 'the log has said so, once for each');
ok(scalar(grep { $_->{reason} eq 'slot_max_size' } deletions($node)), 'a record says why');
$all = slots();
is($all->{reader}{state}, 'lost', 'the program says that the slot is lost');
is(view('state', 'reader'), 'lost', 'the view, too');
wait_until 'the status, too', sub { status($node) eq 'impaired a slot of the trail is lost' };
fill($node, 4);
is(status($node), 'impaired a slot of the trail is lost', 'as long as it is');
@said = slurp_file($node->logfile, $log) =~ /WARNING: +slot "(\w+)" of the trail is lost/g;
is(scalar @said, 2, 'no more is said');

# A slot that is lost is told of after a start, too, even if nothing is deleted any more.
{
	my $lost = new_node('lost_before', conf => "steno.compression = none\n");

	fill($lost, 1);
	steno_result('slot', 'create', 'reader', trail($lost));
	set_and_reload($lost, 'steno.slot_max_size', '1MB');
	set_and_reload($lost, 'steno.retention_size', '1MB');
	fill($lost, 4);
	wait_until 'it is lost', sub { status($lost) eq 'impaired a slot of the trail is lost' };
	$lost->append_conf('postgresql.conf', "steno.retention_size = 0\n");
	$lost->restart;
	is(value($lost, 'SHOW steno.retention_size'), 0, 'without a limit');
	wait_until 'it is lost as before', sub { status($lost) eq 'impaired a slot of the trail is lost' };
	steno_result('slot', 'drop', 'reader', trail($lost));
	fill($lost, 1);
	wait_until 'it is dropped', sub { status($lost) eq 'ok ' };
	$lost->stop;
}

# One reload makes the slot lose what it needs, and with it all that it has held.
{
	my $other = new_node('both_limits', conf => "steno.compression = none\n");
	my ($start, @before, @after);

	fill($other, 1);
	steno_result('slot', 'create', 'reader', trail($other));
	fill($other, 8);
	@before = segments($other);
	$start = -s $other->logfile;
	$other->append_conf('postgresql.conf', "steno.retention_size = '1MB'\nsteno.slot_max_size = '2MB'\n");
	$other->reload;
	wait_until 'the segments have gone', sub { (segments($other))[0] >= 8 };
	@after = segments($other);
	my $gone = @before - @after;
	like(slurp_file($other->logfile, $start), qr/LOG: +$gone segments with \d+ kB of the trail's \d+ kB will be deleted now/,
		'the log has announced all of it');
	my $bytes = 0;
	$bytes += $_->{bytes} foreach deletions($other);
	my $kb = int($bytes / 1024);
	like(slurp_file($other->logfile, $start), qr/ segments with $kb kB of /, 'with its size');
	$other->stop;
}

# A slot that is near its limit is told of, in the log and to whom steno.alert_command tells, and so is its loss.
{
	my $near = new_node('near', conf => "steno.compression = none\nsteno.retention_size = '1MB'\nsteno.slot_max_size = '5MB'\n");
	my $told = $near->data_dir . '/told';
	my $said = sub { my $log = slurp_file($near->logfile); return scalar(() = $log =~ /WARNING: +slot "reader" of the trail $_[0]/g) };
	my $kept = sub { return value($near, q{SELECT retained_bytes FROM steno.slots WHERE slot_name = 'reader'}) / 1024 / 1024 };

	set_and_reload($near, 'steno.alert_command', q{'echo %e %m >>told'});
	steno_result('slot', 'create', 'reader', trail($near));
	fill($near, 1) while $kept->() < 3;
	is($said->('keeps'), 0, 'a slot that is not near its limit');
	fill($near, 1) while $kept->() < 4.1;
	wait_until 'a slot near its limit is warned of', sub { $said->('keeps \d MB, [89]\d percent of "steno.slot_max_size"') };
	wait_until 'and told', sub { -e $told && slurp_file($told) =~ /^slot_warning slot "reader" of the trail keeps /m };
	is($said->('is lost'), 0, 'before it is lost');
	value($near, 'SELECT steno.rotate()');
	flush($near);
	fill($near, 1);
	is((steno_result('slot', 'advance', 'reader', '--to', 'end', '--force', trail($near)))[0], 0, 'it goes on');
	cmp_ok($kept->(), '<', 3, 'and keeps less');
	fill($near, 1) while $kept->() < 3;
	is($said->('keeps'), 1, 'which is not warned of');
	fill($near, 1) while $kept->() < 4.1 && !$said->('is lost');
	wait_until 'one that is near its limit again is warned of again', sub { $said->('keeps') == 2 };
	fill($near, 1) while $kept->() < 5.1 && !$said->('is lost');
	wait_until 'the loss is warned of', sub { $said->('is lost') };
	wait_until 'and told', sub { slurp_file($told) =~ /^slot_lost slot "reader" of the trail is lost: /m };
	fill($near, 3);
	is(join(' ', map { $said->($_) } 'keeps', 'is lost'), '2 1', 'each once');
	is(scalar(() = slurp_file($told) =~ /^slot_/mg), 3, 'nor is more told');
	$near->stop;
}
verify_ok($node, 'the trail is whole');
($code, $out, $err) = steno_result('slot', 'advance', 'reader', '--to', '1h', $trail);
is($code, 3, 'a lost slot does not go on by chance');
like($err, qr/slot "reader" is lost: .* use --force/, 'it says so');
($code, $out, $err) = steno_result('slot', 'advance', 'reader', '--to', 'end', '--force', $trail);
is("$err$code", '0', 'it does when that is meant');
is(slots()->{reader}{state}, 'active', 'and is active again');
is(status($node), 'impaired a slot of the trail is lost', 'another one is still lost');
steno_result('slot', 'drop', $_, $trail) foreach 'reader', 'late';
is_deeply(slots(), {}, 'dropped slots are none');
fill($node, 1);
wait_until 'none is lost', sub { status($node) eq 'ok ' };

# unreadable
append_to_file("$trail/slots/broken", "pg_steno slot 1\ncreated 1\nstream 0 segment 99");
$log = -s $node->logfile;
my ($first) = segments($node);
fill($node, 2);
looked_log($log, 'could not delete old segments of the trail: slot is not understood');
fill($node, 2);
is((segments($node))[0], $first, 'with a slot that cannot be read, nothing goes');
@said = slurp_file($node->logfile, $log) =~ /slot is not understood/g;
is(scalar @said, 1, 'that is said once');
is(view('state', 'broken'), 'unreadable', 'shown in the view');
($code, $out, $err) = steno_result('slot', 'list', $trail);
is($code, 1, 'and the program');
steno_result('slot', 'drop', 'broken', $trail);
fill($node, 1);
wait_until 'they go when it has gone', sub { (segments($node))[0] > $first };
verify_ok($node, 'the trail is whole');

$node->safe_psql('postgres', 'CREATE ROLE watcher IN ROLE pg_monitor; CREATE ROLE nobody');
steno_result('slot', 'create', 'seen', $trail);
is(value($node, 'SET ROLE watcher; SELECT slot_name FROM steno.slots'), 'seen', 'pg_monitor may look at slots');
my ($result, $stdout, $stderr) = $node->psql('postgres', 'SET ROLE nobody; SELECT * FROM steno.slots');
like($stderr, qr/permission denied/, 'others may not');

$node->stop;
done_testing();

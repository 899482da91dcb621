
# The trail is removed or moved while the server writes it: an open segment is restored, or the stream
# continues in the next segment; the log and the trail report it, and "steno verify" names what is
# missing.

use strict;
use warnings;

use File::Path qw(rmtree);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Steno::Faults;
use Test::More;

# Only flush() causes syncs.
my $faults = Steno::Faults->new;
my $node = new_node('main', start => 0, conf => "steno.fsync_interval = -1\nsteno.compression = none\n");
my $trail = trail($node);
my $numbers = 0;
my $c;

sub run_numbers
{
	my ($n) = @_;

	$c->query("SELECT 'number " . ++$numbers . "'") for 1 .. $n;
	return;
}

# In the file, not on disk.
sub written
{
	my ($want) = (@_, "'number $numbers'");

	wait_until 'it is written', sub { grep { index($_, $want) >= 0 } lines($node, '--kind', 'statement') };
	return;
}

sub verify_says
{
	my ($what, $expected) = @_;
	my ($out, $err);

	ok(!IPC::Run::run([ $ENV{STENO}, 'verify', $trail ], '>', \$out, '2>', \$err), "$what: verify calls it damaged");
	like("$out$err", $expected, "$what: and says what is missing");
	return;
}

$faults->start($node);
value($node, 'CREATE EXTENSION pg_steno');
$c = Steno::Client->new($node, application_name => 'numbers');

# The only segment, with what was never synced.
{
	my $start = -s $node->logfile;

	run_numbers(5);
	written();
	rmtree($trail);
	run_numbers(5);
	numbers_are_there($node, 'all of it removed', 1, $numbers);
	verify_ok($node, 'all of it removed: the trail is whole, since it was one segment');
	like(
		slurp_file($node->logfile, $start),
		qr/WARNING:  segment 1 of stream 0 of the trail was removed, and has been restored/,
		'reported in the log');
	is(scalar(() = lines($node, '--kind', 'server') =~ /./g) > 0, 1, 'the trail has records of the server');
	like((records($node, kind => 'server'))[-1]{extra}{reason}, qr/somebody has removed segment/, 'which say what was');
}

# Without a statement to write: it is noticed nevertheless.
{
	unlink "$trail/0/0000000001.steno" or die;
	wait_until 'it is restored', sub { -e "$trail/0/0000000001.steno" };
	numbers_are_there($node, 'removed at rest', 1, $numbers);
	verify_ok($node, 'removed at rest: the trail is whole');
}

# More than the one that was open.
{
	value($node, 'SELECT steno.rotate()');
	my $first = $numbers + 1;
	run_numbers(3);
	written();
	rmtree("$trail/0");
	run_numbers(3);
	numbers_are_there($node, 'two segments removed', $first, $numbers);
	is_deeply([ map { s/.*\///r } glob "$trail/0/*" ], ['0000000002.steno'], 'the one that was open is there');
	verify_says('two segments removed', qr/segment 1 is missing/);
}

# Moved away, and back.
{
	my $start = -s $node->logfile;
	my $first = $numbers + 1;

	rename "$trail/0", "$trail.moved" or die;
	run_numbers(3);
	numbers_are_there($node, 'moved away', $first, $numbers);
	like(
		slurp_file($node->logfile, $start),
		qr/WARNING:  segment 2 of stream 0 of the trail is not in its place any more\n.*DETAIL:  The stream goes on in segment 3\./,
		'reported in the log');
	verify_says('moved away', qr/segments 1 to 2 are missing/);
	rename "$trail.moved/0000000002.steno", "$trail/0/0000000002.steno" or die;
	verify_says('moved back', qr/segment 1 is missing/);
	$numbers = 0;
}

# A flush keeps its promise: a segment that is removed during its sync is there when flush() returns.
{
	my $f = Steno::Client->new($node, application_name => 'flush');

	$faults->set('hold_sync');
	$c->query(q{SELECT 'before the flush'});
	$f->put('Q', "SELECT steno.flush()\0")->send_all;
	wait_until 'it is synced', sub { $faults->is_set('holding.0') };
	unlink "$trail/0/0000000003.steno" or die;
	$faults->unset('hold_sync');
	$f->finish;
	is(scalar(grep { /before the flush/ } lines($node, '--kind', 'statement')), 1, 'flush() waits for the restored segment');
	$f->quit;
}

# One that is removed is not closed, but restored and then closed.
{
	my $first = "$trail/0/0000000003.steno";

	$c->query(q{SELECT 'before the rotation'});
	written(q{before the rotation});
	unlink $first or die;
	$c->query('SELECT steno.rotate()');
	ok(-e $first && -e "$trail/0/0000000004.steno", 'a removed segment is restored before the next begins');
}

# The server starts with a trail that was removed meanwhile: a new one begins.
$c->quit;
$node->stop;
rmtree($trail);
my $before = -s $node->logfile;
$node->start;
flush($node);
verify_ok($node, 'a new trail');
like(slurp_file($node->logfile, $before), qr/WARNING:  stream 0 of the trail begins anew\n.*DETAIL:  This server has written it up to block \d+/, 'which the log warns of');
is(scalar(grep { $_->{extra}{event} eq 'branch' && $_->{extra}{reason} eq 'gone' } records($node, kind => 'server')), 1, 'and the trail tells');
$node->stop;

# The same where the server's stream was not that of its writer's number.
unlink $node->data_dir . '/pg_steno.state' or die;
$node->start;
$node->stop;
ok(-d "$trail/1", 'without its state, the server begins another stream');
rmtree($trail);
$before = -s $node->logfile;
$node->start;
$node->stop;
like(
	slurp_file($node->logfile, $before),
	qr/begins stream 0 of the trail beside stream 1\n.*DETAIL:  Stream 1, .* does not exist\.\n.*HINT:  Unless you have changed "steno.directory", or moved the trail away, find out who has removed it/,
	'a trail that is gone is not taken for one that somebody writes to');
done_testing();

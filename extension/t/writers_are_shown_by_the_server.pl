
# Writers, and who waits for them, are in pg_stat_activity, their waits by names.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Test::More;

my $node = new_node('main', conf => "steno.writers = 2\nsteno.ring_size = 16kB\n");
my $watch = Steno::Client->new($node, application_name => 'watch');

$watch->query(q{SET steno.log = 'none'});

sub look
{
	return $watch->query($_[0])->{rows}[0][0];
}

# The wait of a process, as the server shows it.
sub wait_event
{
	my ($pid) = @_;

	return look("SELECT wait_event FROM pg_stat_activity WHERE pid = $pid") // '';
}

is( look(q{SELECT string_agg(writer::text, ' ' ORDER BY writer) FROM steno.writers
JOIN pg_stat_activity USING (pid) WHERE backend_type = 'steno writer'}),
	'0 1',
	'each writer is a process that the server shows');
wait_until 'an idle writer waits for records',
  sub { wait_event(look('SELECT pid FROM steno.writers WHERE writer = 0')) eq 'StenoWriterMain' };

# Sessions of both writers, and neither writer comes.
my @sessions = Steno::Client->of_both_writers($node, $watch, application_name => 'waiting');
my @writers = map { look("SELECT pid FROM steno.writers WHERE writer = $_") } 0, 1;

$watch->query('SELECT steno.flush()');
stop_process($_) foreach @writers;
$_->put('Q', "SELECT '" . 'x' x 20000 . "'\0")->send_all foreach @sessions;
foreach my $c (@sessions)
{
	wait_until 'it waits for room', sub { wait_event($c->{pid}) eq 'StenoRingFull' };
	pass('who waits for room in the ring is shown so');
}
continue_process($_) foreach @writers;
ok(!$_->finish->{sqlstate}, 'and goes on') foreach @sessions;

$watch->query('CREATE TABLE t ()');
$_->query(q{SET steno.sync = 'write'}) foreach @sessions;
$watch->query('SELECT steno.flush()');
stop_process($_) foreach @writers;
$_->put('Q', "INSERT INTO t DEFAULT VALUES\0")->send_all foreach @sessions;
foreach my $c (@sessions)
{
	wait_until 'it waits for the disk', sub { wait_event($c->{pid}) eq 'StenoSync' };
	pass('who waits for the disk is shown so');
}
continue_process($_) foreach @writers;
ok(!$_->finish->{sqlstate}, 'and goes on') foreach @sessions;

# steno.flush()
stop_process($writers[1]);
$sessions[0]->query('SET steno.sync = none');
$sessions[0]->put('Q', "SELECT steno.flush()\0")->send_all;
wait_until 'it waits for an answer', sub { wait_event($sessions[0]{pid}) eq 'StenoAnswer' };
pass('who waits for an answer is shown so');
continue_process($writers[1]);
ok(!$sessions[0]->finish->{sqlstate}, 'and gets it');

# Nobody waits for a writer that waits: it takes no part in the server's barriers.
stop_process($_) foreach @writers;
$watch->query('SET statement_timeout = 0');
ok(!$watch->query('CREATE DATABASE other')->{sqlstate}, 'databases are made');
ok(!$watch->query('DROP DATABASE other')->{sqlstate}, 'and dropped while writers hang');
continue_process($_) foreach @writers;
$_->quit foreach @sessions, $watch;
$node->stop;
verify_ok($node, 'the trail is whole');
done_testing();


# steno.sync while the trail cannot be written or synced: with steno.on_failure = error, a statement
# that waits to start is refused; with continue, it waits until its record is on disk, although other
# records are dropped.  With steno.sync_start = off, statements run, and the end of their transaction waits.

use strict;
use warnings;

use IO::Select;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Steno::Faults;
use Test::More;

my $faults = Steno::Faults->new;
my $node = new_node('main', start => 0, conf => q{
steno.ring_size = 16kB
steno.compression = none
steno.mandatory = 'none'
steno.flush_interval = 20ms
steno.fsync_interval = -1
});
my $watch;

sub policy
{
	my ($policy) = @_;

	$watch->value("ALTER SYSTEM SET steno.on_failure = '$policy'");
	$watch->value('SELECT pg_reload_conf()');
	wait_until 'the setting is in force', sub { $watch->value(q{SELECT setting FROM pg_settings WHERE name = 'steno.on_failure'}) eq $policy };
	$watch->value('SELECT steno.flush()');
	return;
}

sub ask
{
	my ($c, $sql) = @_;

	$c->put('Q', "$sql\0")->send_all;
	return;
}

sub waits
{
	my ($c, $sql) = @_;

	wait_until 'it waits', sub {
		$watch->value("SELECT count(*) FROM pg_stat_activity WHERE query = '$sql' AND wait_event IN ('StenoSync', 'StenoRingFull')") == 1;
	};
	return !IO::Select->new($c->{socket})->can_read(0);
}

$faults->start($node);
value($node, q{CREATE EXTENSION pg_steno; CREATE ROLE app LOGIN; GRANT CREATE ON SCHEMA public TO app; ALTER ROLE app SET steno.sync = 'ddl'});
$watch = Steno::Client->new($node, application_name => 'watch');
$watch->query(q{SET steno.log = 'none'});

# error: the statement has not begun, so it is refused like a new one
policy('error');
{
	my $c = Steno::Client->new($node, user => 'app', application_name => 'error');
	my $answer;

	$faults->set('hold_sync');
	ask($c, 'CREATE TABLE refused ()');
	wait_until 'its start record is synced', sub { $faults->is_set('holding.0') };
	ok(waits($c, 'CREATE TABLE refused ()'), 'a statement waits for its start record');
	$faults->set('sync_fails');
	$faults->unset('hold_sync');
	$answer = $c->finish;
	is($answer->{sqlstate}, '58S01', 'when the sync fails, it is refused');
	is($watch->value(q{SELECT count(*) FROM pg_class WHERE relname = 'refused'}), 0, 'and has had no effect');
	$faults->unset('sync_fails');
	wait_until 'it goes on by itself', sub { $watch->value('SELECT state FROM steno.status') eq 'ok' };
	is($c->query('CREATE TABLE accepted ()')->{sqlstate}, undef, 'the same session goes on');

	# what waits for its commit has run
	$watch->value('ALTER ROLE app SET steno.sync_start = off');
	$c->quit;
	$c = Steno::Client->new($node, user => 'app', application_name => 'error');
	$c->query('BEGIN');
	is($c->query('CREATE TABLE committed ()')->{sqlstate}, undef, 'without waits at the start, a statement runs at once');
	$faults->set('sync_fails');
	ask($c, 'COMMIT');
	wait_until 'the sync fails', sub { $watch->value('SELECT state FROM steno.status') eq 'failing' };
	ok(waits($c, 'COMMIT'), 'when the sync fails, its commit waits');
	$faults->unset('sync_fails');
	is($c->finish->{tags}[0], 'COMMIT', 'until the trail is synced');
	wait_until 'it goes on by itself', sub { $watch->value('SELECT state FROM steno.status') eq 'ok' };
	$watch->value('ALTER ROLE app RESET steno.sync_start');
	$c->quit;
}

# continue: others go on, and their records are dropped
policy('continue');
{
	my $c = Steno::Client->new($node, user => 'app', application_name => 'continue');
	my $answer;

	$faults->set('write_fails');
	Steno::Client->new($node, application_name => 'x')->quit;
	wait_until 'it is failing', sub { $watch->value('SELECT state FROM steno.status') eq 'failing' };
	foreach (1 .. 60)
	{
		$c->query("SELECT '" . filler(1000) . "'");
	}
	cmp_ok($watch->value('SELECT dropped FROM steno.status'), '>', 0, 'records that find no room are dropped');
	ask($c, 'CREATE TABLE waits ()');
	ok(waits($c, 'CREATE TABLE waits ()'), 'but a statement of steno.sync waits');
	$faults->unset('write_fails');
	$answer = $c->finish;
	is($answer->{sqlstate}, undef, 'until the trail can be written');
	$watch->value('SELECT steno.flush()');
	is(scalar(records($node, kind => 'start', text => 'CREATE TABLE waits ()')), 1, 'and its start record is there');
	is(scalar(records($node, kind => 'statement', text => 'CREATE TABLE waits ()')), 1, 'and its record');
	$c->quit;

	# without waits at the start, and with records that are dropped otherwise, too
	foreach my $delivery ('wait', 'drop')
	{
		my $dropped = $watch->value('SELECT dropped FROM steno.status');
		my $create = "CREATE TABLE $delivery ()";

		$c = Steno::Client->new($node, user => 'app', application_name => 'continue');
		$watch->value("ALTER ROLE app SET steno.$_") foreach 'sync_start = off', "delivery = '$delivery'";
		$c->quit;
		$c = Steno::Client->new($node, user => 'app', application_name => 'continue');
		$c->query('BEGIN');
		$faults->set('write_fails');
		Steno::Client->new($node, application_name => 'x')->quit;
		wait_until 'it is failing', sub { $watch->value('SELECT state FROM steno.status') eq 'failing' };
		is($c->query($create)->{sqlstate}, undef, "$delivery: a statement does not wait to start");
		ask($c, 'COMMIT');
		ok(waits($c, 'COMMIT'), "$delivery: its commit waits");
		$faults->unset('write_fails');
		is($c->finish->{tags}[0], 'COMMIT', "$delivery: until the trail can be written");
		wait_until 'it goes on by itself', sub { $watch->value('SELECT state FROM steno.status') eq 'ok' };

		# all records of the transaction wait for room, others are dropped
		$faults->set('write_fails');
		Steno::Client->new($node, application_name => 'x')->quit;
		wait_until 'it is failing', sub { $watch->value('SELECT state FROM steno.status') eq 'failing' };
		$c->query("SELECT '" . filler(1000) . "'") foreach 1 .. 60;
		cmp_ok($watch->value('SELECT dropped FROM steno.status'), '>', $dropped, "$delivery: records that find no room are dropped");
		$dropped = $watch->value('SELECT dropped FROM steno.status');
		ask($c, "DROP TABLE $delivery");
		ok(waits($c, "DROP TABLE $delivery"), "$delivery: that of a statement of steno.sync waits for room");
		$faults->unset('write_fails');
		is($c->finish->{sqlstate}, undef, "$delivery: and finds it");
		$watch->value('SELECT steno.flush()');
		is(scalar(records($node, kind => 'statement', text => $_)), 1, "$delivery: $_ has its record") foreach $create, "DROP TABLE $delivery";
		$c->quit;
	}
}
$node->stop;
verify_ok($node, 'the trail is whole');
done_testing();

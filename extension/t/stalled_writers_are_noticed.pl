
# A writer that is stopped, or whose disk does not answer, cannot say so itself: sessions that wait for it do, in the
# log, in the views and by steno.alert_command.  After steno.stall_timeout, steno.on_failure applies.  When the
# writer is at work again, the trail has the outage, and names what is missing.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Test::More;

my $base = PostgreSQL::Test::Utils::tempdir();
my $node = new_node(
	'main', conf => qq{
steno.ring_size = 16kB
steno.stall_timeout = 0
steno.alert_command = 'echo %e %s %m >>$base/alerts'
});
my $writer = writer_pid($node);
my $watch = Steno::Client->new($node, application_name => 'watch');

value($node, 'CREATE ROLE app LOGIN');
$watch->query(q{SET steno.log = 'none'});

sub in_force
{
	my (%settings) = @_;

	$watch->value("ALTER SYSTEM SET $_ = '$settings{$_}'") foreach sort keys %settings;
	$watch->value('SELECT pg_reload_conf()');
	wait_until 'the settings are in force', sub {
		!grep { $watch->value("SELECT setting FROM pg_settings WHERE name = '$_'") ne $settings{$_} } keys %settings;
	};
	$watch->value('SELECT steno.flush()');
	return;
}

sub log_since
{
	my ($start) = @_;

	return slurp_file($node->logfile, $start);
}

# A session whose statements have filled its ring, and which waits with the last one.
sub waiting
{
	my ($name) = @_;
	my $c = Steno::Client->new($node, user => 'app', application_name => $name);

	$c->put('Q', join('', map { "SELECT 'number $_', '" . filler(500) . "';" } 1 .. 100) . "\0")->send_all;
	wait_until 'it waits', sub { $watch->value("SELECT wait_event FROM pg_stat_activity WHERE pid = $c->{pid}") eq 'StenoRingFull' };
	return $c;
}

# Nobody is helped yet, but it is known.
{
	my $start = -s $node->logfile;
	my $c;

	in_force('steno.on_failure' => 'wait');
	stop_process($writer);
	$c = waiting('waits');
	wait_until 'the log says that it waits',
	  sub { log_since($start) =~ /LOG:  process $c->{pid} has been waiting for room in its ring for \d+ seconds/ };
	like(log_since($start), qr/LOG:  steno writer 0 has done nothing for \d+ seconds/, 'the log says that the writer does nothing');
	like(log_since($start), qr/DETAIL:  It is process $writer\. /, 'and which process that is');
	is($watch->value('SELECT state FROM steno.status'), 'stalled', 'the state says so');
	is($watch->value('SELECT state FROM steno.writers WHERE state_since IS NOT NULL'), 'stalled', 'and since when');
	like($watch->value('SELECT failure FROM steno.status'), qr/^writer 0 has done nothing since /, 'and what is the matter');
	wait_until 'the alert command has run', sub { -e "$base/alerts" && slurp_file("$base/alerts") =~ /^stalled 0 writer 0 has done nothing for \d+ seconds$/m };
	is(scalar(() = log_since($start) =~ /has been waiting for room/g), 1, 'it is said once a minute');
	continue_process($writer);
	ok(!$c->finish->{sqlstate}, 'the statements go on');
	wait_until 'all is well', sub { $watch->value('SELECT state FROM steno.status') eq 'ok' };
	like(log_since($start), qr/LOG:  steno writer 0 is at work again after \d+ seconds/, 'the log says that it is at work again');
	wait_until 'and the alert command', sub { slurp_file("$base/alerts") =~ /^recovered 0 /m };
	$c->quit;
	is(scalar(() = statements($node, application => 'waits')), 100, 'nothing is missing');
	my ($outage) = grep { $_->{extra}{event} eq 'recovered' } records($node, kind => 'server');
	like($outage->{extra}{reason}, qr/^writer 0 did nothing for \d+ seconds$/, 'the trail has the outage');
}

# With continue, statements go on.
{
	my ($c, $named) = (undef, 0);
	my $before = $watch->value('SELECT dropped FROM steno.status');

	in_force('steno.on_failure' => 'continue', 'steno.stall_timeout' => '6');
	stop_process($writer);
	$c = waiting('continues');
	ok(!$c->finish->{sqlstate}, 'with continue, statements that wait go on');
	ok(!$c->query("SELECT 'after'")->{sqlstate}, 'and so do others');
	is($watch->value('SELECT state FROM steno.status'), 'stalled', 'the writer still does nothing');
	continue_process($writer);
	wait_until 'all is well', sub { $watch->value('SELECT state FROM steno.status') eq 'ok' };
	$c->query("SELECT 'has room'");
	$c->quit;
	$named += $_->{extra}{count} foreach records($node, kind => 'gap');
	cmp_ok($named, '>', 0, 'records were dropped');
	is($named, $watch->value('SELECT dropped FROM steno.status') - $before, 'and all of them are named');
}

# With error, statements are refused.
{
	my $start = -s $node->logfile;
	my ($c, $other);
	my $before = $watch->value('SELECT refused FROM steno.status');

	in_force('steno.on_failure' => 'error');
	$other = Steno::Client->new($node, user => 'app', application_name => 'other');
	stop_process($writer);
	$c = waiting('refused');
	wait_until 'it has lasted for long enough',
	  sub { log_since($start) =~ /LOG:  steno writer 0 has done nothing for longer than "steno.stall_timeout"/ };
	is($other->query("SELECT 'new $_'")->{sqlstate}, '58S01', 'with error, new statements are refused') foreach 1 .. 3;
	continue_process($writer);
	ok(defined $c->finish, 'what has waited ends');
	wait_until 'all is well', sub { $watch->value('SELECT state FROM steno.status') eq 'ok' };
	ok(!$c->query("SELECT 'accepted'")->{sqlstate}, 'and statements are accepted again');
	flush($node);
	my ($outage) = reverse grep { $_->{extra}{event} eq 'recovered' } records($node, kind => 'server');
	is($outage->{extra}{refused}, $watch->value('SELECT refused FROM steno.status') - $before, 'the trail has how many were refused');
	cmp_ok($outage->{extra}{refused}, '>=', 3, 'which are at least those');
	$_->quit foreach $c, $other;
}

# A statement of steno.sync waits for the disk, and says so.
{
	my $start = -s $node->logfile;
	my $c;

	in_force('steno.on_failure' => 'continue', 'steno.stall_timeout' => '0');
	$c = Steno::Client->new($node, application_name => 'syncs');
	$c->query(q{SET steno.sync = 'write'});
	stop_process($writer);
	$c->put('Q', "CREATE TABLE t (); INSERT INTO t DEFAULT VALUES\0")->send_all;
	wait_until 'the log says that it waits',
	  sub { log_since($start) =~ /LOG:  process $c->{pid} has been waiting for the audit trail to be on disk/ };
	$watch->put('Q', "SELECT steno.flush()\0")->send_all;
	continue_process($writer);
	ok(!$_->finish->{sqlstate}, 'both go on') foreach $c, $watch;
	$c->quit;
}

$watch->quit;
$node->stop;
verify_ok($node, 'the trail is whole');
done_testing();

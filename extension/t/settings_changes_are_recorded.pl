
# Changes of pg_steno's settings are recorded, however they are made.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Seals;
use Steno::Client;
use Test::More;

my $node = new_node('main');
my $runs = 0;

sub changes
{
	my (%filter) = @_;

	return [
		map { [ @{ $_->{extra} }{qw(name old new source)} ] }
		  sort { $a->{seq} <=> $b->{seq} }
		  records($node, kind => 'setting', %filter)
	];
}

# What the statements of a new session change.
sub run
{
	my @sql = @_;
	my $name = 'run ' . ++$runs;
	my $c = Steno::Client->new($node, application_name => $name);

	$c->query($_) foreach @sql;
	$c->quit;
	return changes(application => $name);
}

is_deeply(run('SELECT 1'), [], 'no change, no record');
is_deeply(
	run('SET steno.log_nested = off', 'RESET steno.log_nested'),
	[
		[ 'steno.log_nested', 'on', 'off', 'session' ],
		[ 'steno.log_nested', 'off', 'on', 'session' ]
	],
	'SET and RESET');
is_deeply(run('SET steno.log_nested = on'), [], 'SET to the same value');
is_deeply(
	run("SELECT set_config('steno.delivery', 'drop', false)"),
	[ [ 'steno.delivery', 'wait', 'drop', 'session' ] ],
	'set_config()');
is_deeply(
	run('BEGIN', 'SET LOCAL steno.log_parameter = off', 'COMMIT', 'SELECT 1'),
	[
		[ 'steno.log_parameter', 'on', 'off', 'session' ],
		[ 'steno.log_parameter', 'off', 'on', 'session' ]
	],
	'SET LOCAL ends with its transaction');
is_deeply(
	run('BEGIN', 'SET steno.log_parameter = off', 'ROLLBACK', 'SELECT 1'),
	[
		[ 'steno.log_parameter', 'on', 'off', 'session' ],
		[ 'steno.log_parameter', 'off', 'on', 'session' ]
	],
	'a change that is rolled back');
is_deeply(
	run('SET steno.log = none', 'SELECT 1', q{SET steno.log = 'all'}, 'SELECT 2'),
	[
		[ 'steno.log', 'all', 'none', 'session' ],
		[ 'steno.log', 'none', 'all', 'session' ]
	],
	'switching off and on is recorded all the same');
is_deeply(
	run("SET steno.log = 'read, write'"),
	[ [ 'steno.log', 'all', 'read, write', 'session' ] ],
	'a list is recorded as it is, even without class setting');
is_deeply(
	run('CREATE FUNCTION quiet() RETURNS int LANGUAGE plpgsql SET steno.log_nested = off AS $$ BEGIN PERFORM 1; RETURN 1; END $$',
		'SELECT quiet()'),
	[
		[ 'steno.log_nested', 'on', 'off', 'session' ],
		[ 'steno.log_nested', 'off', 'on', 'session' ]
	],
	'a function with a setting of its own');
is_deeply(
	run('BEGIN', 'SAVEPOINT a', 'SET steno.log_nested = off', 'ROLLBACK TO a', 'SET LOCAL steno.log_parameter = off', 'ROLLBACK', 'SELECT 1'),
	[
		[ 'steno.log_nested', 'on', 'off', 'session' ],
		[ 'steno.log_nested', 'off', 'on', 'session' ],
		[ 'steno.log_parameter', 'on', 'off', 'session' ],
		[ 'steno.log_parameter', 'off', 'on', 'session' ]
	],
	'ROLLBACK TO, and ROLLBACK');
is_deeply(
	run('SET steno.log_nested = off', 'SET steno.delivery = drop', 'RESET ALL'),
	[
		[ 'steno.log_nested', 'on', 'off', 'session' ],
		[ 'steno.delivery', 'wait', 'drop', 'session' ],
		[ 'steno.log_nested', 'off', 'on', 'session' ],
		[ 'steno.delivery', 'drop', 'wait', 'session' ]
	],
	'RESET ALL');
is_deeply(run('BEGIN', 'SELECT 1 / 0', 'SET steno.log = none', 'ROLLBACK'), [], 'a SET that is refused');
is_deeply(
	run(q{SET steno.app_user = 'alice'}, q{SET steno.app_context = 'request 1'}),
	[], 'what an application says of itself is no setting of the audit');

# A value that is too long is not mistaken for another one.
{
	my ($long, $longer) = map { 'all, ' . join ', ', ('read') x 50, $_ } '-read', '-write';
	my $changes = run("SET steno.log = '$long'", "SET steno.log = '$longer'");

	is(scalar @$changes, 2, 'long values differ');
	is($changes->[0][2], $changes->[1][1], 'the second change is from the first value');
	isnt($changes->[1][1], $changes->[1][2], 'to another');
}

# The record of a change precedes everything that follows from it; records before it follow from the
# value before.
sub sequence
{
	my @sql = @_;
	my $name = 'run ' . ++$runs;
	my $c = Steno::Client->new($node, application_name => $name);

	$c->query($_) foreach @sql;
	$c->quit;
	return [
		map { $_->{kind} eq 'setting' ? "$_->{extra}{name} $_->{extra}{new}" : ($_->{text} // $_->{kind}) }
		  sort { $a->{seq} <=> $b->{seq} } records($node, application => $name)
	];
}

is_deeply(
	sequence('SELECT 1', 'SET steno.log = none', 'SELECT 2', 'SET steno.log = "all"', 'SELECT 3'),
	[
		'connect', 'SELECT 1', 'SET steno.log = none', 'steno.log none', 'steno.log all', 'SELECT 3', 'disconnect'
	],
	'SET: its own record is by the old value');
is_deeply(
	sequence('BEGIN', 'SET LOCAL steno.log = none', 'SELECT 1', 'SELECT 1 / 0', 'SELECT 2', 'ROLLBACK', 'SELECT 3'),
	[
		'connect', 'BEGIN', 'SET LOCAL steno.log = none', 'steno.log none', 'steno.log all',
		'SELECT 2', 'ROLLBACK', 'SELECT 3', 'disconnect'
	],
	'an abort puts the old value in force before the next statement, which is refused');
is_deeply(
	sequence(q{DO $$ BEGIN PERFORM 1; PERFORM set_config('steno.log_nested', 'off', true); PERFORM 2; END $$}, 'SELECT 3'),
	[
		'connect', 'SELECT 1', q{SELECT set_config('steno.log_nested', 'off', true)}, 'steno.log_nested off',
		q{DO $$ BEGIN PERFORM 1; PERFORM set_config('steno.log_nested', 'off', true); PERFORM 2; END $$},
		'steno.log_nested on', 'SELECT 3', 'disconnect'
	],
	'in a function, it holds for the next statement');

# At the beginning of a session.
$node->safe_psql('postgres', 'CREATE ROLE quiet SUPERUSER LOGIN; ALTER ROLE quiet SET steno.log_nested = off');
{
	my $c = Steno::Client->new($node, user => 'quiet', application_name => 'by role');

	$c->query('SELECT 1');
	$c->quit;
	is_deeply(
		changes(application => 'by role'),
		[ [ 'steno.log_nested', 'on', 'off', 'role' ] ],
		'ALTER ROLE SET, at the next connection');
	is((sort { $a->{seq} <=> $b->{seq} } records($node, application => 'by role'))[1]{kind},
		'setting', 'before the first statement');
	$node->safe_psql('postgres', 'CREATE DATABASE quiet; ALTER DATABASE quiet SET steno.log = none');
	$c = Steno::Client->new($node, database => 'quiet', application_name => 'by database');
	$c->query('SELECT 1');
	$c->quit;
	is_deeply(
		changes(application => 'by database'),
		[ [ 'steno.log', 'all', 'none', 'database' ] ],
		'ALTER DATABASE SET');
	is(scalar(statements($node, application => 'by database')), 0, 'which holds for the first statement');
	$c = Steno::Client->new(
		$node,
		application_name => 'by option',
		options => '-c steno.log_parameter=off');
	$c->query('SELECT 1');
	$c->quit;
	is_deeply(
		changes(application => 'by option'),
		[ [ 'steno.log_parameter', 'on', 'off', 'connection' ] ],
		'connection options');
}

# In the server's configuration: once, whatever number of sessions there is.
{
	my @sessions = map { Steno::Client->new($node, application_name => "open $_") } 1 .. 5;

	$_->query('SELECT 1') foreach @sessions;
	$node->safe_psql('postgres', "ALTER SYSTEM SET steno.log_nested = off; ");
	$node->reload;
	wait_until 'all have it',
	  sub {
		!grep { $_->query('SHOW steno.log_nested')->{rows}[0][0] ne 'off' } @sessions;
	  };
	wait_until 'the reload is recorded', sub { @{ changes(user => undef) } };
	is_deeply(
		changes(user => undef),
		[ [ 'steno.log_nested', 'on', 'off', 'server' ] ],
		'ALTER SYSTEM and reload: one record');
	is_deeply(
		[ map { @{ changes(application => "open $_") } } 1 .. 5 ],
		[], 'none in the sessions');
	$_->quit foreach @sessions;
	is_deeply(run('SELECT 1'), [], 'nor in a new one');
	is(scalar(statements($node, text => qr/^ALTER SYSTEM SET steno/)),
		1, 'the ALTER SYSTEM itself is a statement');
}

# What a reload changes is in force when it is in the trail, for old sessions and new.
{
	my $old = Steno::Client->new($node, application_name => 'old');
	my ($change, $new);

	$old->query('SELECT 1');
	$node->append_conf('postgresql.conf', "steno.log = 'all, -read'\n");
	$node->reload;
	wait_until 'the old session has it', sub {
		$old->query("SELECT 'before' AS " . ('x' . ++$runs));
		flush($node);
		scalar(grep { $_->{extra}{name} eq 'steno.log' } records($node, kind => 'setting', user => undef));
	};
	flush($node);
	($change) = grep { $_->{extra}{name} eq 'steno.log' } records($node, kind => 'setting', user => undef);
	$old->query("SELECT 'after'");
	$old->quit;
	$new = Steno::Client->new($node, application_name => 'new');
	$new->query("SELECT 'new'");
	$new->query('SET work_mem = 1000');
	$new->quit;
	is_deeply([ @{ $change->{extra} }{qw(old new source)} ], [ 'all', 'all, -read', 'server' ], 'a reload that leaves out a class');
	is_deeply([ map { $_->{text} } statements($node, application => 'new') ], ['SET work_mem = 1000'], 'a new session');
	is_deeply([ map { $_->{text} } statements($node, text => qr/'after'/) ], [], 'an old session');
	is_deeply(changes(application => 'old'), [], 'which has no record of it');
	$node->append_conf('postgresql.conf', "steno.log = 'all'\n");
	$node->reload;
	wait_until 'the second reload is recorded', sub { @{ changes(user => undef) } == 3 };
	flush($node);

	# sessions that begin between the reload and its record
	my $writer = writer_pid($node);

	stop_process($writer);
	$node->append_conf('postgresql.conf', "steno.log = 'all, -read'\n");
	$node->reload;
	wait_until 'new sessions have it', sub {
		my $c = Steno::Client->new($node);
		my $value = $c->query('SHOW steno.log')->{rows}[0][0];

		$c->quit;
		$value eq 'all, -read';
	};
	$new = Steno::Client->new($node, application_name => 'between');
	$new->query("SELECT 'between'");
	continue_process($writer);
	wait_until 'the third reload is recorded', sub { @{ changes(user => undef) } == 4 };
	# its record is in the trail before the value is in force
	wait_until 'which holds for the session', sub {
		my $text = "SELECT 'after " . ++$runs . "'";

		$new->query($text);
		flush($node);
		!statements($node, application => 'between', text => $text);
	};
	$new->quit;
	is(scalar(statements($node, application => 'between', text => qr/'between'/)), 1, 'until then, the old value is in force');
	is_deeply(changes(application => 'between'), [], 'the session has no record of the change');
	$node->append_conf('postgresql.conf', "steno.log = 'all'\n");
	$node->reload;
	wait_until 'the fourth reload is recorded', sub { @{ changes(user => undef) } == 5 };
	flush($node);
}

# A role without rights changes nothing.
{
	$node->safe_psql('postgres', 'CREATE ROLE plain LOGIN');
	my $c = Steno::Client->new($node, user => 'plain', application_name => 'plain');
	my @settings = map { $_->[0] } @{
		Steno::Client->new($node)->query("SELECT name FROM pg_settings WHERE name LIKE 'steno.%' ORDER BY 1")->{rows}
	};

	cmp_ok(scalar @settings, '>', 10, 'there are settings');
	foreach my $setting (@settings)
	{
		like(
			$c->query("SET $setting = DEFAULT")->{sqlstate} // 'none',
			$setting =~ /app_/ ? qr/^none$/ : qr/^(42501|55P02)$/,
			"what a role without rights can do to $setting");
	}
	$c->quit;
	is_deeply(changes(application => 'plain'), [], 'and no change is recorded');
}

# Every setting that a reload can change, changes.
$ENV{STENO_ENCRYPTION_KEY_COMMAND} = 'printf %064d 1';
{
	my %other = (
		'steno.log' => 'all, error',
		'steno.role' => 'auditor',
		'steno.log_catalog' => 'off',
		'steno.log_extension_scripts' => 'off',
		'steno.log_parameter_max_size' => '100B',
		'steno.log_referential_checks' => 'off',
		'steno.log_relation' => 'off',
		'steno.log_rows' => 'off',
		'steno.log_start' => 'ddl',
		'steno.log_statement' => 'off',
		'steno.start_after' => '2s',
		'steno.stall_timeout' => '20s',
		'steno.log_nested' => 'on',
		'steno.log_parameter' => 'off',
		'steno.delivery' => 'drop',
		'steno.on_failure' => 'continue',
		'steno.disk_reserve' => '128MB',
		'steno.disk_warning' => '80',
		'steno.alert_command' => 'true',
		'steno.sync' => 'ddl',
		'steno.sync_start' => 'off',
		'steno.flush_interval' => '100ms',
		'steno.fsync_interval' => '500ms',
		'steno.segment_size' => '2MB',
		'steno.rotation_age' => '2h',
		'steno.retention_size' => '100000MB',
		'steno.retention_age' => '100000min',
		'steno.slot_max_size' => '1000MB',
		'steno.seal_interval' => '30s',
		'steno.signing_key_file' => 'other.key',
		'steno.compression' => 'none',
		'steno.encryption_key_command' => 'printf %064d 1');
	my @reloadable = split /\n/, value($node, "SELECT name FROM pg_settings WHERE name LIKE 'steno.%' AND context NOT IN ('postmaster', 'internal', 'user') ORDER BY 1");

	is_deeply(\@reloadable, [ sort keys %other ], 'settings that a reload can change');
	keygen($node->data_dir . '/other.key');
	foreach my $setting (@reloadable)
	{
		my $before = scalar @{ changes(user => undef) };
		my @after;

		$node->append_conf('postgresql.auto.conf', "$setting = '$other{$setting}'");
		$node->reload;
		wait_until "$setting is reloaded",
		  sub { @{ changes(user => undef) } > $before };
		@after = @{ changes(user => undef) };
		is($after[-1][0], $setting, "reload of $setting is recorded");
		is($after[-1][2], $other{$setting}, "with its new value");
		is($after[-1][2], value($node, "SHOW $setting"), 'as SHOW shows it') if $setting !~ /command/;
		is(scalar @after, $before + 1, 'once');
	}
	is(value($node, "SELECT string_agg(name, ',') FROM pg_settings WHERE name LIKE 'steno.%' AND pending_restart"),
		'', 'nothing waits for a restart');
}

verify_ok($node, 'the trail is whole');

# Without class setting, when that is not mandatory.
$node->append_conf('postgresql.auto.conf', "steno.mandatory = 'none'\nsteno.log = 'all'\nsteno.log_statement = on\n");
$node->restart;
flush($node);
{
	# what came by the restart stands in the record of the start
	my @starts = map { $_->{extra} } grep { $_->{extra}{event} eq 'start' } records($node, kind => 'server');

	is_deeply(
		[ map { [ @$_{qw(version steno.mandatory steno.log steno.start_after steno.log_rows)} ] } @starts ],
		[ [ $starts[0]{version}, undef, undef, '-1', undef ], [ $starts[0]{version}, 'none', 'all', '2s', 'off' ] ],
		'a start says what the configuration sets');
	foreach my $setting (grep { /^steno\./ && !/command|file$|rules/ } sort keys %{ $starts[-1] })
	{
		is($starts[-1]{$setting}, value($node, "SHOW $setting"), "a start has $setting as SHOW shows it");
	}
}
is_deeply(
	run(q{SET steno.log = 'all, -setting'}, 'SET steno.log_nested = off', q{SET steno.log = 'all'}, 'SET steno.log_nested = on'),
	[
		[ 'steno.log', 'all', 'all, -setting', 'session' ],
		[ 'steno.log_nested', 'off', 'on', 'session' ]
	],
	'class setting can be left out when it is not mandatory: by the value before the change');
$node->stop;
done_testing();


# Changes of pg_steno's settings are recorded, by whatever way they are made.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
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
	run('CREATE FUNCTION quiet() RETURNS int LANGUAGE sql SET steno.log_nested = off AS $$ SELECT 1 $$',
		'SELECT quiet()'),
	[],
	'a function whose setting ends with it leaves no change');

# At the beginning of a session.
$node->safe_psql('postgres', 'CREATE ROLE quiet SUPERUSER LOGIN; ALTER ROLE quiet SET steno.log_nested = off');
{
	my $c = Steno::Client->new($node, user => 'quiet', application_name => 'by role');

	$c->query('SELECT 1');
	$c->quit;
	is_deeply(
		changes(application => 'by role'),
		[ [ 'steno.log_nested', 'on', 'off', 'session' ] ],
		'ALTER ROLE SET, at the next connection');
	$c = Steno::Client->new(
		$node,
		application_name => 'by option',
		options => '-c steno.log_parameter=off');
	$c->query('SELECT 1');
	$c->quit;
	is_deeply(
		changes(application => 'by option'),
		[ [ 'steno.log_parameter', 'on', 'off', 'session' ] ],
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
			qr/^(42501|55P02)$/,
			"a role without rights cannot set $setting");
	}
	$c->quit;
	is_deeply(changes(application => 'plain'), [], 'and no change is recorded');
}

# Every setting that a reload can change, changes.
{
	my %other = (
		'steno.log' => 'all, error',
		'steno.log_nested' => 'on',
		'steno.log_parameter' => 'off',
		'steno.delivery' => 'drop',
		'steno.flush_interval' => '100',
		'steno.fsync_interval' => '500',
		'steno.segment_size' => '2',
		'steno.rotation_age' => '120',
		'steno.compression' => 'none');
	my @reloadable = split /\n/, value($node, "SELECT name FROM pg_settings WHERE name LIKE 'steno.%' AND context NOT IN ('postmaster', 'internal') ORDER BY 1");

	is_deeply(\@reloadable, [ sort keys %other ], 'settings that a reload can change');
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
		is(scalar @after, $before + 1, 'once');
	}
	is(value($node, "SELECT string_agg(name, ',') FROM pg_settings WHERE name LIKE 'steno.%' AND pending_restart"),
		'', 'nothing waits for a restart');
}

verify_ok($node, 'the trail is whole');
$node->stop;
done_testing();

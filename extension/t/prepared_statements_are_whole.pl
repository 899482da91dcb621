
# The records of a prepared statement that runs repeatedly are made from what is remembered of its
# plan: they must be the same as in a session that looks at each statement anew, whatever happens
# between two executions.

use strict;
use warnings;

use JSON::PP;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Test::More;

my $node = new_node('main', conf => 'plan_cache_mode = force_generic_plan');

$node->safe_psql(
	'postgres', q{
	CREATE TABLE account (id int PRIMARY KEY, branch smallint, balance bigint, rate float8, open bool, name text);
	INSERT INTO account SELECT i, i % 10, i * 1000, i / 3.0, i % 2 = 0, 'name ' || i FROM generate_series(1, 100) i;
	CREATE TABLE history (id int, at timestamptz DEFAULT now());
	CREATE FUNCTION noted() RETURNS trigger LANGUAGE plpgsql AS
		$$BEGIN INSERT INTO history VALUES (new.id); RETURN new; END$$;
	CREATE ROLE poor;
	GRANT SELECT ON account TO poor;
	CREATE ROLE readers;
	GRANT readers TO poor;
	GRANT SELECT ON account TO readers;
	CREATE SCHEMA other;
	CREATE TABLE other.account (LIKE public.account);
});

my %texts = (
	one => 'SELECT balance FROM account WHERE id = $1',
	blanks => "  \n SELECT name FROM account WHERE id = \$1 ; ",
	types => 'SELECT id FROM account WHERE branch = $1::int2 AND balance > $2::int8 AND rate < $3::float8 AND open = $4::bool',
	named => 'SELECT id FROM account WHERE name = $1',
	none => 'SELECT id FROM account',
	catalog => 'SELECT relname FROM pg_class WHERE oid = $1',
	change => 'UPDATE account SET balance = balance + $1 WHERE id = $2',
	add => 'INSERT INTO history VALUES ($1, now())',
	division => 'SELECT 1 / $1::int FROM account LIMIT 1',
	function => 'SELECT upper(name) FROM account WHERE id = $1',
	secret => q{SELECT id FROM account WHERE name = 'PASSWORD ''x''' AND id = $1},
	many => 'SELECT id FROM account WHERE id <= $1 ORDER BY id',
	char => 'SELECT id FROM account WHERE $1::"char" = \'a\' AND id = 1',
	joined => 'SELECT a.id FROM account a, history h, pg_class c WHERE a.id = $1 LIMIT 0',
);

my $client;

# Runs a statement; the message of an error is an answer, too.
sub run
{
	my ($name, @values) = @_;

	$client->bind_values('', $name, @values)->execute('')->sync->finish
	  or die 'the server has gone';
	return;
}

sub repeat
{
	my ($times, @what) = @_;

	run(@what) for 1 .. $times;
	return;
}

# What a session does.  It must be the same each time, and leave all as it was.
sub steps
{
	$client->parse($_, $texts{$_}) foreach sort keys %texts;
	$client->sync->finish;

	run('one', $_) for 1 .. 5;
	run('one', undef);
	run('one', 7);
	repeat(3, 'blanks', 8);
	repeat(3, 'types', 3, 1_000_000_000_000, -1.5, 't');
	run('types', 4, 5, undef, 'f');
	repeat(3, 'named', 'name 5');
	repeat(3, 'none');
	repeat(3, 'char', 'a');
	repeat(3, 'function', 3);
	repeat(3, 'secret', 3);
	repeat(3, 'joined', 3);
	repeat(3, 'catalog', 1259);

	# more of them than are remembered, in turns
	for my $i (1 .. 3)
	{
		run($_, $i) foreach qw(one blanks function many named joined secret division);
		run('none');
	}

	# transactions, and what a trigger runs inside
	repeat(3, 'change', 1, 9);
	$client->query('BEGIN');
	repeat(3, 'change', -1, 9);
	repeat(2, 'add', 5);
	$client->query('ROLLBACK');
	repeat(3, 'change', -1, 9);
	$client->query('CREATE TRIGGER noted AFTER UPDATE ON account FOR EACH ROW EXECUTE FUNCTION noted()');
	repeat(3, 'change', 0, 9);
	$client->query('DROP TRIGGER noted ON account');
	repeat(2, 'change', 0, 9);

	# failures
	repeat(3, 'division', 1);
	run('division', 0);
	repeat(2, 'division', 2);
	$client->query('BEGIN');
	repeat(2, 'division', 0);
	$client->query('ROLLBACK');
	$client->query('SET ROLE poor');
	repeat(3, 'one', 1);
	repeat(2, 'change', 1, 1);
	$client->query('RESET ROLE');
	repeat(2, 'one', 1);

	# names, catalogs and settings change
	$client->query('ALTER TABLE account RENAME TO konto');
	repeat(2, 'one', 2);
	$client->query('ALTER TABLE konto RENAME TO account');
	repeat(2, 'one', 2);
	$client->query('SET search_path = other, public');
	repeat(3, 'one', 2);
	$client->query('RESET search_path');
	repeat(3, 'one', 2);
	$client->query('ANALYZE account');
	repeat(2, 'one', 2);
	foreach my $setting ('log_parameter = off', 'log_statement = off', 'log_relation = off',
		'log_rows = off', q{log = 'all, -read'}, q{log = 'read, connect'}, q{log = 'all, -misc'}, q{app_user = 'somebody'})
	{
		my ($name) = $setting =~ /^(\w+)/;

		$client->query("SET steno.$setting");
		repeat(2, 'one', 4);
		$client->query("RESET steno.$name");
		repeat(2, 'one', 5);
	}
	$client->query(q{SET application_name = 'prepared again'});
	repeat(2, 'one', 4);
	$client->query(q{RESET application_name});
	repeat(2, 'one', 4);

	$client->query(q{SELECT set_config('application_name', 'prepared again', false)});
	repeat(2, 'one', 4);
	$client->query(q{RESET application_name});
	# the role that runs it, while the changes of role are not recorded
	foreach my $log ('read', 'none')
	{
		repeat(2, 'one', 1);
		$client->query("SET steno.log = '$log'");
		$client->query('SET ROLE poor');
		repeat(2, 'one', 3);
		$client->query(q{SELECT set_config('role', 'none', false)});
		repeat(2, 'one', 4);
		$client->query(q{SET steno.log_start = 'role'});
		$client->query('SET SESSION AUTHORIZATION poor');
		repeat(2, 'one', 1);
		run('division', 0);
		$client->query('RESET SESSION AUTHORIZATION');
		repeat(2, 'one', 2);
		$client->query('RESET steno.log_start');
		$client->query('RESET steno.log');
		repeat(2, 'one', 5);
		$client->query("SET steno.log = '$log'");
		$client->query('SET ROLE readers');
		repeat(2, 'one', 6);
		$client->query('SET SESSION AUTHORIZATION poor');
		$client->query('SET ROLE readers');
		repeat(2, 'one', 7);
		$client->query('RESET SESSION AUTHORIZATION');
		$client->query('RESET ROLE');
		$client->query('RESET steno.log');
	}
	$client->query(q{SET steno.log_start = 'read'});
	repeat(2, 'one', 99);
	$client->query(q{RESET steno.log_start});
	repeat(2, 'catalog', 1259);
	$client->query(q{SET steno.log_catalog = off});
	repeat(3, 'catalog', 1);
	$client->query(q{RESET steno.log_catalog});

	# plans go, and others come in their place
	foreach my $i (1 .. 20)
	{
		$client->put('C', "Sone\0")->parse('one', "SELECT $i, balance FROM account WHERE id = \$1")
		  ->sync->finish;
		repeat(2, 'one', $i);
	}
	$client->query('DISCARD ALL');
	$client->parse('one', $texts{branch} // 'SELECT branch FROM account WHERE id = $1')->sync->finish;
	repeat(3, 'one', 1);

	# portals: fetched in parts, two at a time, closed early
	$client->parse('many', $texts{many})->sync->finish;
	repeat(2, 'many', 3);
	$client->query('BEGIN');
	$client->bind_values('a', 'many', 10)->execute('a', 2)->execute('a', 3);
	$client->bind_values('b', 'many', 20)->execute('b', 0)->execute('a', 0)->sync->finish;
	$client->bind_values('c', 'many', 20)->execute('c', 4)->put('C', "Pc\0")->sync->finish;
	$client->query('COMMIT');
	repeat(2, 'many', 3);

	# several statements in one message
	$client->bind_values('', 'one', $_)->execute('') foreach 1 .. 4;
	$client->sync->finish;

	# with the simple protocol, and as a cursor
	$client->query('PREPARE sql (int) AS SELECT id FROM account WHERE id = $1');
	$client->query("EXECUTE sql ($_)") foreach 1 .. 4;
	$client->query('BEGIN');
	$client->query('DECLARE c CURSOR FOR SELECT id FROM account');
	repeat(2, 'one', 2);
	$client->query('FETCH 3 FROM c');
	repeat(2, 'one', 2);
	$client->query('COMMIT');
	repeat(2, 'one', 2);
	$client->quit;
	return;
}

# All that must be the same of a session's records.
sub taken_down
{
	my ($application, $options) = @_;
	my ($found, @result);

	$client = Steno::Client->new(
		$node,
		application_name => $application,
		($options ? (options => $options) : ()));
	my $pid = $client->{pid};
	steps();
	$node->poll_query_until('postgres',
		"SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = $pid");
	# those that end in the same microsecond are ordered by their numbers only
	foreach my $r (by_statement(records($node, pid => $pid)))
	{
		next if $r->{kind} !~ /^(?:statement|start|transaction)$/;
		delete @{$r}{qw(time session pid seq duration_us elapsed_us plan_us analysis_us commit_us xid query_id block stream segment client)};
		delete @{ $r->{extra} }{qw(commit_lsn end_lsn)} if $r->{extra};
		$r->{application} =~ s/^.*(?= again$)//;
		$r->{application} = '' if $r->{application} eq $application;
		push @result, JSON::PP->new->canonical->encode($r);
	}
	return \@result;
}

# if rules or switches have to look at statements, none is recorded in the usual way
my $slow = taken_down('slow', '-c steno.log_extension_scripts=off');
my $fast = taken_down('fast');

cmp_ok(scalar @$slow, '>', 250, 'statements were recorded');
is_deeply($fast, $slow, 'records are the same either way');

my @one = grep { $_->{text} eq $texts{one} }
  statements($node, application => 'fast', command => 'SELECT');
is_deeply(
	[ map { $_->{params}[0] } @one[ 0 .. 6 ] ],
	[ 1 .. 5, undef, 7 ],
	'each run has its own values');
my %present;

$present{"$_->{user} as $_->{role}"}++
  foreach statements($node, application => 'fast', text => $texts{one}, role => 'readers');
is_deeply(\%present, { 'postgres as readers' => 2, 'poor as readers' => 2 }, 'the session user is the present one')
  or diag explain \%present;
# one of a portal that had delivered rows when another statement began has their number
is(scalar(records($node, application => 'fast', kind => 'start', rows => undef)), 2, 'start records are written when they are wanted');
is(scalar(grep { $_->{params}[0] eq '1' } statements($node, application => 'fast', text => $texts{catalog})),
	0, 'what is switched off is not recorded');
gapless($node, 'sessions are whole');
verify_ok($node, 'the trail is whole');
$node->stop;
done_testing();

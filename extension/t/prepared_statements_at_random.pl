
# Random messages of a client, with prepared statements, portals, failures, transactions and settings
# in any order: the records are the same whether those of prepared statements are made from what is
# remembered of their plans, or each of them anew.
#
# STENO_SEED and STENO_STEPS try others than those that are tried always.

use strict;
use warnings;

use JSON::PP;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Test::More;

my @seeds = split /,/, $ENV{STENO_SEED} // '1,2';
my $steps = $ENV{STENO_STEPS} // 400;
my $node = new_node('main', conf => q(
max_prepared_transactions = 2
plan_cache_mode = force_generic_plan
));

$node->safe_psql('postgres', 'CREATE ROLE poor');

my $setup = q{
	SET client_min_messages = error;
	DROP SCHEMA IF EXISTS public CASCADE;
	CREATE SCHEMA public;
	GRANT USAGE ON SCHEMA public TO poor;
	CREATE DOMAIN small AS int2 CHECK (value < 100);
	CREATE TYPE mood AS ENUM ('sad', 'happy');
	CREATE TABLE account (id int PRIMARY KEY, branch smallint, balance bigint, rate float8, open bool, name text);
	INSERT INTO account SELECT i, i % 10, i * 1000, i / 3.0, i % 2 = 0, 'name ' || i FROM generate_series(1, 30) i;
	CREATE TABLE history (id int REFERENCES account DEFERRABLE INITIALLY DEFERRED, note text);
	CREATE VIEW seen AS SELECT id, name FROM account WHERE open;
	GRANT SELECT ON account, seen TO poor;
	CREATE FUNCTION twice(i int) RETURNS int STABLE LANGUAGE plpgsql AS
		$$BEGIN RETURN (SELECT id FROM account WHERE id = i) * 2; END$$;
	CREATE FUNCTION noted() RETURNS trigger LANGUAGE plpgsql AS
		$$BEGIN INSERT INTO history VALUES (new.id, 'noted'); RETURN new; END$$;
	CREATE TRIGGER noted AFTER UPDATE OF branch ON account FOR EACH ROW EXECUTE FUNCTION noted();
	CREATE PROCEDURE ends(i int) LANGUAGE plpgsql AS $$
		BEGIN UPDATE account SET balance = balance + i WHERE id = i; COMMIT;
		PERFORM twice(i); ROLLBACK; END$$;
	CREATE RULE gone AS ON DELETE TO account DO ALSO INSERT INTO history VALUES (old.id, 'gone');
};

my %values = (
	int => sub { int rand 40 },
	small => sub { int rand 120 },
	text => sub { ('x', 'name 3', 'x' x 300)[ rand 3 ] },
	float => sub { (-1.5, 'NaN', 1e300)[ rand 3 ] },
	bool => sub { (qw(t f))[ rand 2 ] },
	mood => sub { (qw(sad happy angry))[ rand 3 ] },
	time => sub { '2024-05-06 07:08:0' . int(rand 10) . '+00' },
);

# Texts, and the types of their parameters.
my @texts = (
	[ 'SELECT balance FROM account WHERE id = $1', 'int' ],
	[ "/* one */ \n SELECT name FROM account WHERE id = \$1 ; ", 'int' ],
	[ 'SELECT id FROM account WHERE branch = $1::int2 AND balance > $2::int8 AND rate < $3::float8 AND open = $4::bool',
		qw(int int float bool) ],
	[ 'SELECT id FROM account WHERE branch = $1::small', 'small' ],
	[ 'SELECT id FROM account WHERE $1::mood = \'sad\' AND id < $2', qw(mood int) ],
	[ 'SELECT id FROM account WHERE $1::timestamptz < now() AND $2::date < now() AND id = $3', qw(time time int) ],
	[ 'SELECT id FROM account WHERE id > $1::numeric', 'int' ],
	[ 'SELECT id FROM account WHERE name = $1', 'text' ],
	[ 'SELECT id FROM account ORDER BY id' ],
	[ 'SELECT id FROM account WHERE id <= $1 ORDER BY id', 'int' ],
	[ 'SELECT 100 / ($1::int - 5) FROM account LIMIT 2', 'int' ],
	[ 'SELECT twice($1)', 'int' ],
	[ 'SELECT twice(id) FROM account WHERE id < $1', 'int' ],
	[ 'SELECT name FROM seen WHERE id = $1', 'int' ],
	[ 'UPDATE account SET balance = balance + $1 WHERE id = $2', qw(int int) ],
	[ 'UPDATE account SET branch = $1 WHERE id = $2 RETURNING id', qw(int int) ],
	[ 'INSERT INTO history VALUES ($1, $2)', qw(int text) ],
	[ 'DELETE FROM account WHERE id = $1', 'int' ],
	[ 'WITH w AS (UPDATE account SET open = $1 RETURNING id) SELECT count(*) FROM w', 'bool' ],
	[ 'SELECT a.id FROM account a, history h, pg_class c WHERE a.id = $1 LIMIT 1', 'int' ],
	[ 'SELECT id FROM account WHERE id = $1 FOR UPDATE', 'int' ],
	[ q{SELECT id FROM account WHERE name = 'PASSWORD ''x''' AND id = $1}, 'int' ],
	[ 'SELECT id FROM account WHERE id IN (' . join(',', map { "\$$_" } 1 .. 9) . ')', ('int') x 9 ],
	[ 'BEGIN' ], [ 'COMMIT' ], [ 'ROLLBACK' ], [ 'CALL ends($1)', 'int' ], [ 'VALUES ($1::int)', 'int' ],
	[ 'SELECT set_config(\'application_name\', $1, true)', 'text' ],
);

my @queries = (
	('BEGIN', 'COMMIT') x 6, ('ROLLBACK', 'SAVEPOINT a', 'ROLLBACK TO a', 'RELEASE a') x 2,
	'COMMIT AND CHAIN', 'SELECT 1; SELECT id FROM account WHERE id = 1; SELECT 1 / 0',
	'BEGIN; SELECT 1; COMMIT; SELECT 2', 'SELECT nothing', 'SELEC', 'VALUES (1)',
	'SET ROLE poor', 'SET LOCAL ROLE poor', ('RESET ROLE') x 2, 'SET SESSION AUTHORIZATION poor',
	('RESET SESSION AUTHORIZATION') x 2, q{SET application_name = 'prepared again'}, 'RESET application_name',
	'DISCARD ALL', 'DISCARD PLANS', 'DEALLOCATE ALL', 'ANALYZE account',
	'ALTER TABLE account ADD COLUMN IF NOT EXISTS more int', 'ALTER TABLE account DROP COLUMN IF EXISTS more',
	'ALTER TABLE history RENAME TO past', 'ALTER TABLE past RENAME TO history',
	'CREATE TABLE IF NOT EXISTS unrelated (a int)', 'DROP TABLE IF EXISTS unrelated',
	'SET plan_cache_mode = force_custom_plan', 'CALL ends(3)', 'DO $$BEGIN PERFORM twice(2); COMMIT; END$$',
	'DECLARE c CURSOR FOR SELECT id FROM account', 'DECLARE h CURSOR WITH HOLD FOR SELECT id FROM account',
	'FETCH 2 FROM c', 'FETCH 2 FROM h', 'CLOSE h', 'CLOSE ALL', 'EXECUTE s1 (1)', 'EXECUTE s2 (2)', 'EXECUTE s3',
	(map { ("SET steno.$_", 'SET LOCAL steno.' . $_) } 'log_parameter = off', 'log_statement = off', 'log_relation = off',
		'log_rows = off', 'log_nested = off', 'log_catalog = off', q{log = 'read, connect'}, q{log = 'all, -read'},
		q{log = 'none'}, q{app_user = 'somebody'}, q{log_start = 'write'}),
	(map { "RESET steno.$_" } qw(log_parameter log_statement log_relation log_rows log_nested log_catalog app_user)),
	('RESET steno.log', 'RESET steno.log_start') x 3, 'RESET ALL',
);

sub one_of
{
	return $_[ rand @_ ];
}

# One step of a client, by random numbers alone.
sub step
{
	my ($client, $prepared) = @_;
	my $dice = rand;
	my $name = one_of(qw(s1 s2 s3 s4));

	# as usual again, before long
	if (rand() < 0.2)
	{
		$client->sync->finish;
		$client->query($_) foreach 'ROLLBACK', 'RESET ALL', 'RESET SESSION AUTHORIZATION', 'RESET ROLE', 'CLOSE ALL';
	}
	if ($dice < 0.12 || !$prepared->{$name})
	{
		my $text = one_of(@texts);

		$client->put('C', "S$name\0") if rand() < 0.9;
		$client->parse($name, $text->[0]);
		$prepared->{$name} = $text;
		$client->sync->finish if rand() < 0.8;
	}
	elsif ($dice < 0.75)
	{
		my $portal = one_of('', '', '', '', 'p', 'q');
		my ($text, @types) = @{ $prepared->{$name} };
		my $times = one_of(1, 1, 2, 4);

		for my $i (1 .. $times)
		{
			$client->put('C', "P$portal\0") if $portal ne '';
			$client->bind_values($portal, $name, map { rand() < 0.07 ? undef : $values{$_}->() } @types);
			$client->execute($portal, one_of(0, 0, 0, 1, 3)) if rand() < 0.95;
			$client->execute(one_of($portal, 'p', 'q'), one_of(0, 2)) if rand() < 0.1;
			$client->put('C', "P$portal\0") if rand() < 0.1;
			$client->sync->finish if rand() < 0.6;
		}
		$client->sync->finish;
	}
	elsif ($dice < 0.78)
	{
		$client->sync->finish;
		$client->query($_)
		  foreach 'BEGIN', 'UPDATE account SET open = true', q{PREPARE TRANSACTION 'x'}, q{ROLLBACK PREPARED 'x'};
	}
	else
	{
		# after an error, nothing is heard until then
		$client->sync->finish;
		$client->query(one_of(@queries));
	}
	return;
}

# All that must be the same of a session's records.
sub taken_down
{
	my ($seed, $application, $options) = @_;
	my @result;

	$node->safe_psql('postgres', $setup);
	my $client = Steno::Client->new(
		$node,
		application_name => $application,
		($options ? (options => $options) : ()));
	my $pid = $client->{pid};
	my %prepared;

	srand($seed);
	step($client, \%prepared) foreach 1 .. $steps;
	$client->sync->finish or die 'the server has gone';
	$client->quit;
	$node->poll_query_until('postgres',
		"SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = $pid");
	foreach my $r (by_statement(records($node, pid => $pid)))
	{
		next if $r->{kind} !~ /^(?:statement|start|transaction)$/;
		delete @{$r}{qw(time session pid seq duration_us analysis_us plan_us commit_us elapsed_us xid query_id block stream segment client)};
		delete @{ $r->{extra} }{qw(commit_lsn end_lsn)} if $r->{extra};
		$r->{application} =~ s/^$application$//;
		push @result, JSON::PP->new->canonical->encode($r);
	}
	return \@result;
}

foreach my $seed (@seeds)
{
	my $slow = taken_down($seed, "slow $seed", '-c steno.log_extension_scripts=off');
	my $fast = taken_down($seed, "fast $seed");
	my $i = 0;

	$i++ while $i < @$slow && $i < @$fast && $slow->[$i] eq $fast->[$i];
	is(scalar @$fast, scalar @$slow, "seed $seed: as many records");
	is($fast->[$i], $slow->[$i], "seed $seed: records are the same either way")
	  or diag join "\n", "after record $i:", @$slow[ ($i > 4 ? $i - 4 : 0) .. $i - 1 ];
	cmp_ok(scalar @$fast, '>', $steps / 4, "seed $seed: statements were recorded");
}
gapless($node, 'sessions are whole');
verify_ok($node, 'the trail is whole');
$node->stop;
done_testing();

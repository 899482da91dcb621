
# What steno.log_catalog, steno.log_referential_checks and steno.log_extension_scripts leave out, and
# what they do not.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Test::More;

my $node = new_node('main', conf => "steno.mandatory = 'role'\n");
my $database = 'postgres';
my $rules_file = $node->data_dir . '/pg_steno_rules.conf';

sub run
{
	my @sql = @_;
	my $c = Steno::Client->new($node, application_name => 'run', database => $database);

	$c->query($_) foreach @sql;
	$c->quit;
	return [
		grep { !/^SET steno/ } map { $_->{text} }
		  sort { $a->{seq} <=> $b->{seq} } statements($node, pid => $c->{pid})
	];
}

$node->safe_psql('postgres', q(
CREATE TABLE t (a int);
CREATE TABLE parent (id int PRIMARY KEY);
CREATE TABLE child (id int REFERENCES parent ON DELETE CASCADE ON UPDATE CASCADE);
CREATE TABLE log (id int);
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN INSERT INTO log VALUES (1); RETURN old; END $$;
CREATE TRIGGER note BEFORE DELETE ON child FOR EACH ROW EXECUTE FUNCTION note();
INSERT INTO parent VALUES (1), (2);
CREATE TABLE parts (id int PRIMARY KEY) PARTITION BY RANGE (id);
CREATE TABLE part PARTITION OF parts DEFAULT;
CREATE TABLE child_of_parts (id int REFERENCES parts);
INSERT INTO parts VALUES (1);
));

# ---- catalogs ----
my @catalog = (
	'SELECT count(*) FROM pg_class',
	'SELECT count(*) FROM pg_catalog.pg_tables',
	'COPY pg_am TO STDOUT');
my @others = (
	'SELECT count(*) FROM t',
	'SELECT count(*) FROM t, pg_class',
	'SELECT count(*) FROM information_schema.tables',
	'SELECT 1',
	'SELECT 1/0 FROM pg_class',
	'SELECT count(*) FROM pg_no_such_table',
	'ALTER ROLE CURRENT_USER LOGIN');

is_deeply(run(@catalog, @others), [ @catalog, @others ], 'on: catalog queries are recorded');
is_deeply(run('SET steno.log_catalog = off', @catalog, @others), \@others,
	'off: queries of nothing but pg_catalog are not; failures are');
is_deeply(run('SET steno.log_catalog = off', 'SET steno.log = \'all, -error\'', 'SELECT count(*) / (count(*) - count(*)) FROM pg_class'), [],
	'nor failures, where these are not recorded');
is_deeply(run('SET steno.log_catalog = off', 'SET steno.log = \'all, -error\'', 'SELECT 1/0 FROM pg_class'), ['SELECT 1/0 FROM pg_class'],
	'unless they come before it is known which table a name means');
is_deeply(run('SET steno.log_catalog = off', 'SET steno.log_catalog = on', @catalog), \@catalog, 'on again');
is_deeply(
	run('SET steno.log_catalog = off', 'CREATE TEMP TABLE mine (a int)', 'SELECT a FROM mine',
		'ALTER TABLE mine RENAME TO pg_class', 'SELECT a FROM pg_temp.pg_class', 'SELECT count(*) FROM pg_am'),
	[
		'CREATE TEMP TABLE mine (a int)', 'SELECT a FROM mine',
		'ALTER TABLE mine RENAME TO pg_class', 'SELECT a FROM pg_temp.pg_class'
	],
	'a name alone makes no catalog');

# ---- foreign keys ----
my @keys = (
	'INSERT INTO child VALUES (1), (2)',
	'UPDATE parent SET id = 3 WHERE id = 2',
	'DELETE FROM parent WHERE id = 1');
my $of_trigger = qr/^INSERT INTO log VALUES/;
my $of_key = qr/ONLY "public"\./;
{
	my @all = @{ run('BEGIN', @keys, 'ROLLBACK') };

	cmp_ok(scalar(grep { $_ =~ $of_key } @all), '>=', 2, 'on: the queries of foreign keys are recorded');
	is(scalar(grep { $_ =~ $of_trigger } @all), 1, 'and those of a trigger that they fire');
	@all = @{ run('SET steno.log_referential_checks = off', 'BEGIN', @keys, 'ROLLBACK') };
	is_deeply([ grep { $_ =~ $of_key } @all ], [], 'off: they are not');
	is_deeply([ grep { $_ !~ $of_trigger } @all ], [ 'BEGIN', @keys, 'ROLLBACK' ], 'the statements are');
	is(scalar(grep { $_ =~ $of_trigger } @all), 1, 'and so is what a trigger runs');
	is(scalar(() = run('SET steno.log_referential_checks = off', 'INSERT INTO child VALUES (99)')), 1,
		'a violation is recorded');
	ok( (grep { $_->{text} eq 'INSERT INTO child VALUES (99)' && $_->{outcome} eq 'error' } statements($node)),
		'as a failure of the statement');

	# from PostgreSQL 19 on, the server looks in the index of a referenced table that is not partitioned, without a query
	my $exists = qr/^SELECT 1 FROM .* FOR KEY SHARE OF x$/;
	is(scalar(grep { $_ =~ $exists } @{ run('BEGIN', 'INSERT INTO child VALUES (1), (2)', 'ROLLBACK') }),
		$node->pg_version->major >= 19 ? 0 : 2, 'the query for the referenced row, where there is one');
	is(scalar(grep { $_ =~ $exists } @{ run('BEGIN', 'INSERT INTO child_of_parts VALUES (1)', 'ROLLBACK') }),
		1, 'and that for the row of a partitioned table');
}

# ---- extension scripts ----
{
	my $steps = [ 'CREATE EXTENSION pg_steno', 'DROP EXTENSION pg_steno' ];
	my @all;

	# where the tests do not need it
	$node->safe_psql('postgres', 'CREATE DATABASE scripts');
	$database = 'scripts';
	@all = @{ run(@$steps) };
	cmp_ok(scalar(grep { /^CREATE FUNCTION steno\.flush/ } @all), '>', 0, 'on: an extension script is recorded');
	@all = @{ run('SET steno.log_extension_scripts = off', @$steps) };
	is_deeply([ grep { !/^(--.*\n)*(GRANT|REVOKE) / } @all ], $steps, 'off: it is not');
	cmp_ok(scalar(grep { /^GRANT / } @all), '>', 0, 'but for what is mandatory');
}

# ---- a rule records all the same ----
append_to_file($rules_file, "record all all run all read pg_class text=off\nrecord all all run all read pg_am\n");
$node->reload;
wait_until 'there are rules', sub {
	grep { $_->{extra}{name} eq 'steno.rules_file' } records($node, kind => 'setting');
};
{
	my $c = Steno::Client->new($node, application_name => 'run');

	$c->query('SET steno.log_catalog = off');
	$c->query($_) foreach 'SELECT count(*) FROM pg_class', 'SELECT count(*) FROM pg_am', 'SELECT count(*) FROM pg_proc';
	$c->quit;
	is_deeply([ map { $_->{text} } statements($node, pid => $c->{pid}, class => 'read') ],
		[ undef, 'SELECT count(*) FROM pg_am' ], 'rules come before switches');
}

# ---- of a role, from its beginning ----
$node->safe_psql('postgres', 'CREATE ROLE quiet SUPERUSER LOGIN; ALTER ROLE quiet SET steno.log_catalog = off');
{
	my $c = Steno::Client->new($node, user => 'quiet', application_name => 'quiet');

	$c->query($_) foreach 'SELECT count(*) FROM pg_class', 'SELECT 1';
	$c->quit;
	is_deeply([ map { $_->{text} } statements($node, application => 'quiet') ], ['SELECT 1'], 'for a role');
}

verify_ok($node, 'the trail is whole');
gapless($node, 'no session has gaps');
$node->stop;
done_testing();

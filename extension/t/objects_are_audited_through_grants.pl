
# steno.role: statements that use a privilege of that role are recorded, whatever their class, and the
# relations concerned are marked.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Test::More;

my $node = new_node(
	'main', conf => q{
steno.log = 'none'
steno.mandatory = 'none'
steno.role = 'auditor'
max_prepared_transactions = 2
});
my $runs = 0;

value(
	$node, q{
CREATE ROLE auditor;
CREATE ROLE auditors_friend;
CREATE ROLE outsider LOGIN;
GRANT auditors_friend TO auditor;

CREATE TABLE whole (a int, b int);
GRANT SELECT, INSERT, UPDATE, DELETE, TRUNCATE ON whole TO auditor;
CREATE TABLE reads (a int, b int);
GRANT SELECT ON reads TO auditor;
CREATE TABLE writes (a int, b int);
GRANT INSERT, UPDATE, DELETE ON writes TO auditor;
CREATE TABLE columns (id int, salary int, boss int, dropped int);
GRANT SELECT (salary), UPDATE (salary), INSERT (boss) ON columns TO auditor;
GRANT SELECT (dropped) ON columns TO auditor;
ALTER TABLE columns DROP COLUMN dropped;
CREATE TABLE plain (a int, b int);
GRANT SELECT ON plain TO PUBLIC, outsider;
CREATE TABLE friends (a int);
GRANT SELECT ON friends TO auditors_friend;
CREATE TABLE parts (a int, b int) PARTITION BY RANGE (a);
CREATE TABLE part1 PARTITION OF parts FOR VALUES FROM (0) TO (10);
CREATE TABLE part2 PARTITION OF parts FOR VALUES FROM (10) TO (20);
GRANT SELECT ON part2 TO auditor;
CREATE TABLE audited_parts (a int) PARTITION BY RANGE (a);
CREATE TABLE audited_part1 PARTITION OF audited_parts FOR VALUES FROM (0) TO (10);
GRANT SELECT, TRUNCATE ON audited_parts TO auditor;
CREATE VIEW plain_view AS SELECT a FROM plain;
GRANT SELECT ON plain_view TO auditor;
CREATE VIEW over_reads AS SELECT a FROM reads;
CREATE MATERIALIZED VIEW stored AS SELECT 1 AS a;
GRANT SELECT ON stored TO auditor;
CREATE SEQUENCE numbers;
GRANT SELECT ON numbers TO auditor;
CREATE FUNCTION reads_inside() RETURNS bigint LANGUAGE plpgsql AS
$$ DECLARE n bigint; BEGIN SELECT count(*) INTO n FROM reads; RETURN n; END $$;
CREATE FUNCTION definer() RETURNS bigint LANGUAGE sql SECURITY DEFINER AS
$$ SELECT count(*) FROM whole $$;
CREATE TABLE refers (a int);
GRANT TRUNCATE ON refers TO auditor;
ALTER TABLE plain ADD PRIMARY KEY (a);
ALTER TABLE refers ADD FOREIGN KEY (a) REFERENCES plain;
GRANT SELECT ON ALL TABLES IN SCHEMA public TO outsider;
INSERT INTO whole VALUES (1, 1);
});

# The audited relations of a record, and what else it touched.
sub touched
{
	my ($r) = @_;

	return join ', ', map {
		$_->{name} =~ s/^public\.//r . ($_->{audited} ? ' +' : ' ')
		  . join('|', sort split /,/, $_->{access})
	} sort { $a->{name} cmp $b->{name} } @{ $r->{relations} // [] };
}

# Why a record was written.
sub why
{
	my ($r) = @_;

	return join ',', @{ $r->{audited} // [] };
}

# What is recorded of a new session that runs statements, as "text: relations".
sub recorded
{
	my ($facts, @statements) = @_;
	my $name = 'run ' . ++$runs;
	my $c = Steno::Client->new($node, %$facts, application_name => $name);
	my @records;

	$c->query($_) foreach @statements;
	$c->quit;
	wait_until 'it has gone',
	  sub { value($node, "SELECT count(*) FROM pg_stat_activity WHERE application_name = '$name'") eq '0' };
	@records = sort { $a->{seq} <=> $b->{seq} } statements($node, application => $name);
	is(scalar(grep { why($_) ne 'object' } @records),
		0, "$name: recorded through objects alone");
	return map { "$_->{text}: " . touched($_) } @records;
}

# Cases: a statement, and what is expected of it: nothing, or its relations.
sub check
{
	my ($what, @cases) = @_;
	my (@statements, @expected);

	while (my ($sql, $relations) = splice @cases, 0, 2)
	{
		push @statements, $sql;
		push @expected, map { /: / ? $_ : "$sql: $_" } ref $relations ? @$relations : $relations
		  if defined $relations;
	}
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is_deeply([ recorded({}, @statements) ], \@expected, $what);
	return;
}

check(
	'privileges on tables',
	'SELECT a FROM whole' => 'whole +select',
	'SELECT 1' => undef,
	'SELECT a FROM plain' => undef,
	'SELECT a FROM reads' => 'reads +select',
	'INSERT INTO reads VALUES (1)' => undef,
	'UPDATE reads SET a = 1' => undef,
	'UPDATE reads SET a = a + 1' => 'reads +select|update',
	'DELETE FROM reads' => undef,
	'INSERT INTO writes VALUES (1)' => 'writes +insert',
	'UPDATE writes SET a = 1' => 'writes +update',
	'DELETE FROM writes' => 'writes +delete',
	'SELECT a FROM writes' => undef,
	'SELECT a FROM writes FOR UPDATE' => 'writes +select|update',
	'MERGE INTO writes w USING plain p ON w.a = p.a WHEN MATCHED THEN DELETE' =>
	  'plain select, writes +delete|select',
	'WITH d AS (DELETE FROM writes RETURNING a) SELECT 1 FROM plain' =>
	  'plain select, writes +delete|select',
	'SELECT FROM whole, plain, reads' => 'plain select, reads +select, whole +select',
	'INSERT INTO plain SELECT 1 FROM reads WHERE false' => 'plain insert, reads +select',
	'TABLE friends' => 'friends +select',
	'TABLE stored' => 'stored +select',
	'SELECT last_value FROM numbers' => 'numbers +select',
	'EXPLAIN SELECT a FROM whole' => 'whole +select',
	'LOCK TABLE whole' => undef,
	'SELECT relname FROM pg_class WHERE false' => undef);

check(
	'privileges on columns',
	'SELECT id FROM columns' => undef,
	'SELECT salary FROM columns' => 'columns +select',
	'SELECT id FROM columns WHERE salary > 1' => 'columns +select',
	'SELECT columns FROM columns' => 'columns +select',
	'SELECT count(*) FROM columns' => 'columns +select',
	'SELECT * FROM columns' => 'columns +select',
	'UPDATE columns SET boss = 1' => undef,
	'UPDATE columns SET salary = 1' => 'columns +update',
	'UPDATE columns SET boss = 1 WHERE id = 1' => undef,
	'UPDATE columns SET boss = salary' => 'columns +select|update',
	'INSERT INTO columns (id) VALUES (1)' => undef,
	'INSERT INTO columns (boss) VALUES (1)' => 'columns +insert',
	'INSERT INTO columns DEFAULT VALUES' => 'columns +insert',
	'INSERT INTO columns (id) VALUES (1) RETURNING salary' => 'columns +insert|select',
	'DELETE FROM columns' => undef,
	'DELETE FROM columns WHERE salary = 1' => 'columns +delete|select',
	'COPY columns (id) TO STDOUT' => undef,
	'COPY columns (id, salary) TO STDOUT' => 'columns +select');

check(
	'views and partitions',
	'SELECT a FROM plain_view' => 'plain select, plain_view +select',
	'SELECT a FROM over_reads' => 'over_reads select, reads +select',
	'SELECT a FROM parts' => undef,
	'SELECT a FROM part1' => undef,
	'SELECT a FROM part2' => 'part2 +select',
	'SELECT a FROM audited_parts' => 'audited_parts +select',
	'SELECT a FROM audited_part1' => undef);

check(
	'utility statements',
	'COPY reads TO STDOUT' => 'reads +select',
	'COPY plain TO STDOUT' => undef,
	'COPY (SELECT a FROM reads) TO STDOUT' => 'reads +select',
	'COPY (SELECT a FROM plain) TO STDOUT' => undef,
	q{COPY writes FROM PROGRAM 'true'} => [q{COPY writes FROM PROGRAM 'true': writes +insert}],
	q{COPY plain FROM PROGRAM 'true'} => undef,
	'TRUNCATE reads' => undef,
	'TRUNCATE whole' => 'whole +truncate',
	'TRUNCATE reads, whole, plain CASCADE' =>
	  'plain truncate, reads truncate, refers +truncate, whole +truncate',
	'TRUNCATE audited_parts' => 'audited_part1 truncate, audited_parts +truncate',
	'CREATE TABLE made AS SELECT a FROM reads' => 'reads +select',
	'SELECT a INTO made2 FROM plain' => undef,
	'EXPLAIN (ANALYZE, COSTS off) SELECT a FROM reads' => 'reads +select',
	'BEGIN' => undef,
	'DECLARE c CURSOR FOR SELECT a FROM reads' => undef,
	'FETCH c' => undef,
	'CLOSE c' => ['DECLARE c CURSOR FOR SELECT a FROM reads: reads +select'],
	'COMMIT' => undef,
	'PREPARE p AS SELECT b FROM reads' => undef,
	'EXECUTE p' => ['PREPARE p AS SELECT b FROM reads: reads +select']);

check(
	'functions',
	'SELECT reads_inside()' => ['SELECT count(*)        FROM reads: reads +select'],
	'SELECT definer()' => ['SELECT count(*) FROM whole: whole +select'],
	q{DO $$ BEGIN INSERT INTO writes VALUES (1); INSERT INTO plain VALUES (1000); TRUNCATE whole; END $$} =>
	  [ 'INSERT INTO writes VALUES (1): writes +insert', 'TRUNCATE whole: whole +truncate' ],
	q{DO $$ BEGIN PERFORM 1/(a - a) FROM whole; EXCEPTION WHEN OTHERS THEN NULL; END $$} =>
	  ['SELECT 1/(a - a) FROM whole: whole +select']);

# Failures and refusals are audited, too.
is_deeply(
	[ recorded({ user => 'outsider' }, 'SELECT a FROM whole', 'DELETE FROM whole', 'DELETE FROM plain', 'TRUNCATE whole') ],
	[ 'SELECT a FROM whole: whole +select', 'DELETE FROM whole: whole +delete', 'TRUNCATE whole: whole +truncate' ],
	'a role that may not');
is(the_record($node, 'one refused', kind => 'statement', user => 'outsider', command => 'DELETE')->{sqlstate},
	'42501', 'its error');

# With the extended protocol, and steno.log_nested off.
{
	my $c = Steno::Client->new($node, application_name => 'extended');

	$c->extended('SELECT a FROM whole WHERE a = $1', 17);
	$c->extended('SELECT a FROM plain WHERE a = $1', 18);
	$c->query('SET steno.log_nested = off');
	$c->query('SELECT reads_inside()');
	$c->quit;
	is_deeply(
		[ map { "$_->{text}: " . touched($_) } statements($node, application => 'extended') ],
		[
			'SELECT a FROM whole WHERE a = $1: whole +select',
			'SELECT count(*)        FROM reads: reads +select'
		],
		'parameters; log_nested has no say');
}

# Changes take effect at once: in the same session, and in others.
{
	my $other = Steno::Client->new($node, application_name => 'other');
	# from PostgreSQL 16 on, a membership says whether it is inherited, and the role only what is the default
	my ($without, $with) =
	  value($node, 'SHOW server_version_num') < 160000
	  ? ('ALTER ROLE auditor NOINHERIT', 'ALTER ROLE auditor INHERIT')
	  : map { "GRANT auditors_friend TO auditor WITH INHERIT $_" } qw(FALSE TRUE);
	my @steps = (
		[ 'REVOKE SELECT ON reads FROM auditor', 'SELECT 1 FROM reads', 0 ],
		[ 'GRANT SELECT ON reads TO auditor', 'SELECT 2 FROM reads', 1 ],
		[ 'REVOKE SELECT (salary) ON columns FROM auditor', 'SELECT salary, 3 FROM columns', 0 ],
		[ 'GRANT SELECT (salary) ON columns TO auditor', 'SELECT salary, 4 FROM columns', 1 ],
		[ 'REVOKE auditors_friend FROM auditor', 'SELECT 5 FROM friends', 0 ],
		[ 'GRANT auditors_friend TO auditor', 'SELECT 6 FROM friends', 1 ],
		[ $without, 'SELECT 7 FROM friends', 0 ],
		[ $with, 'SELECT 8 FROM friends', 1 ],
		[ 'ALTER ROLE auditor RENAME TO inspector', 'SELECT 9 FROM whole', 0 ],
		[ 'ALTER ROLE inspector RENAME TO auditor', 'SELECT 10 FROM whole', 1 ],
		[ 'ALTER TABLE plain RENAME COLUMN b TO c', 'SELECT 11 FROM plain', 0 ],
		[ 'GRANT SELECT ON plain TO auditor', 'SELECT 12 FROM plain', 1 ],
		[ 'REVOKE SELECT ON plain FROM auditor', 'SELECT 13 FROM plain', 0 ],
		[ 'ALTER TABLE columns RENAME salary TO pay', 'SELECT pay, 14 FROM columns', 1 ],
		[ 'DROP TABLE friends; CREATE TABLE friends (a int)', 'SELECT 15 FROM friends', 0 ]);
	my $c = Steno::Client->new($node, application_name => 'changing');
	my @expected = map { $_->[1] } grep { $_->[2] } @steps;

	foreach my $step (@steps)
	{
		$c->query($step->[1] =~ s/\d+/0/r);    # known before
		ok(!defined $c->query($step->[0])->{sqlstate}, $step->[0]);
		$c->query($step->[1]);
		$other->query($step->[1]);
	}

	# in one transaction, and when it is taken back
	$c->query('BEGIN');
	$c->query('REVOKE SELECT ON reads FROM auditor');
	$c->query('SELECT 20 FROM reads');
	$other->query('SELECT 20 FROM whole');
	$c->query('ROLLBACK');
	$c->query('SELECT 21 FROM reads');
	$c->quit;
	$other->quit;
	is_deeply([ grep { !/\b0\b/ } map { $_->{text} } statements($node, application => 'changing') ],
		[ @expected, 'SELECT 21 FROM reads' ], 'at once in the session');
	is_deeply([ map { $_->{text} } statements($node, application => 'other') ],
		[ @expected, 'SELECT 20 FROM whole' ], 'at once in others');
}

# The setting of a database, a role, a session, a transaction.
value($node, 'CREATE ROLE second; GRANT SELECT ON plain TO second; CREATE ROLE watched SUPERUSER LOGIN');
value($node, q{ALTER ROLE watched SET steno.role = 'second'});
value($node, q{CREATE DATABASE elsewhere});
value($node, q{ALTER DATABASE elsewhere SET steno.role = ''});
is_deeply([ recorded({ user => 'watched' }, 'SELECT a FROM whole', 'SELECT a FROM plain') ],
	['SELECT a FROM plain: plain +select'], 'the setting of a role');
$node->safe_psql('elsewhere', 'CREATE TABLE t (a int); GRANT SELECT ON t TO auditor');
is_deeply([ recorded({ database => 'elsewhere' }, 'TABLE t') ], [], 'the setting of a database');
is_deeply(
	[
		recorded(
			{ database => 'elsewhere' },
			'TABLE t',
			q{SET steno.role = 'auditor'},
			'SELECT a FROM t',
			q{SET steno.role = ''},
			'TABLE t',
			'BEGIN',
			q{SET LOCAL steno.role = 'auditor'},
			'SELECT FROM t',
			'ROLLBACK',
			'TABLE t')
	],
	[ 'SELECT a FROM t: t +select', 'SELECT FROM t: t +select' ],
	'the setting of a session and of a transaction');
is_deeply([ recorded({}, 'TABLE whole', q{SET steno.role = 'second'}, 'SELECT FROM plain', 'SELECT FROM whole') ],
	[ 'TABLE whole: whole +select', 'SELECT FROM plain: plain +select' ], 'another role');
is(Steno::Client->new($node, user => 'outsider')->query(q{SET steno.role = ''})->{sqlstate},
	'42501', 'a user may not take it away');

# A role that is not there audits nothing, and the server's log says so, once; SET refuses it.
{
	my $c = Steno::Client->new($node);
	my $r = $c->query(q{SET steno.role = 'nobody'});

	is($r->{sqlstate}, '42704', 'SET to a role that is not there');
	is($r->{message}, 'invalid value for parameter "steno.role": "nobody"', 'its message');
	is($c->query('SHOW steno.role')->{rows}[0][0], 'auditor', 'and nothing has changed');
	$c->quit;
}
{
	my $at = -s $node->logfile;

	is_deeply([ recorded({ options => '-c steno.role=nobody' }, 'TABLE whole', 'TABLE whole') ], [], 'no such role');
	is(scalar(() = slurp_file($node->logfile, $at) =~ /role "nobody" of "steno.role" does not exist/g),
		1, 'once in the log');
	value($node, 'CREATE ROLE nobody; GRANT SELECT ON whole TO nobody');
	is_deeply([ recorded({}, q{SET steno.role = 'nobody'}, 'TABLE whole') ],
		['TABLE whole: whole +select'], 'once it is created');
}

# Class and object: one record, for both reasons.
{
	my $c = Steno::Client->new($node, application_name => 'both');

	$c->query(q{SET steno.log = 'read'});
	$c->query('TABLE whole');
	$c->query('TABLE plain');
	$c->query('DELETE FROM whole');
	$c->quit;
	is_deeply(
		[ map { "$_->{text}: " . why($_) } statements($node, application => 'both') ],
		[ 'TABLE whole: session,object', 'TABLE plain: ', 'DELETE FROM whole: object' ],
		'why they are recorded');
}

# Relations by the thousand, more than the cache keeps.
{
	my $c = Steno::Client->new($node, application_name => 'many');

	$c->query(
		q{DO $$ BEGIN FOR i IN 1 .. 4200 LOOP
			EXECUTE format('CREATE TEMP TABLE many_%s (a int)', i);
			EXECUTE format('SELECT FROM many_%s', i);
			IF i % 100 = 0 THEN COMMIT; PERFORM a FROM whole; END IF;
		  END LOOP; END $$});
	$c->query('SELECT 100 FROM whole');
	$c->query('SELECT 100 FROM plain');
	$c->quit;
	my @found = statements($node, application => 'many');

	is(scalar @found, 43, 'among many relations');
	is_deeply([ grep { touched($_) ne 'whole +select' } @found ], [], 'marked');
}

$node->stop;
verify_ok($node, 'the trail is whole');
gapless($node, 'no session has gaps');
done_testing();

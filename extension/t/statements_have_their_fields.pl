
# Statements of all kinds and by both protocols: one record each, with its own text and all its fields.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Test::More;

my $node = new_node('main', conf => "max_prepared_transactions = 2\n");

$node->safe_psql(
	'postgres', q{
CREATE TABLE accounts (id int PRIMARY KEY, owner text, balance numeric);
CREATE TABLE "Odd Name" (a int);
CREATE VIEW rich AS SELECT * FROM accounts WHERE balance > 100;
INSERT INTO accounts SELECT i, 'owner ' || i, i * 10 FROM generate_series(1, 20) i;
});

# run($sql): the statement records of a new session that ran it.
my $runs = 0;

sub run
{
	my ($sql, %o) = @_;
	my $name = 'run ' . ++$runs;

	$node->psql('postgres', $sql,
		connstr => $node->connstr('postgres') . " application_name='$name'",
		on_error_stop => 0);
	return sort { $a->{statement} <=> $b->{statement}
		  || ($a->{substatement} // 0) <=> ($b->{substatement} // 0) }
	  statements($node, application => $name);
}

sub fields
{
	my ($r, @names) = @_;

	return { map { $_ => $_ eq 'relations' ? relations_of($r) : $r->{$_} } @names };
}

# All the fields of a simple statement.
{
	my ($r, @rest) =
	  run("BEGIN; UPDATE accounts SET balance = balance + 1 WHERE id < 4; COMMIT"
	  );
	my $update;

	($update, @rest) = @rest;
	is(scalar @rest, 1, 'a message of three statements has three records');
	is_deeply(
		fields(
			$update,
			qw(kind statement user database application client class
			  command text rows outcome relations depth substatement)),
		{
			kind => 'statement',
			statement => 2,
			user => scalar getpwuid($>),
			database => 'postgres',
			application => 'run 1',
			client => '[local]',
			class => 'write',
			command => 'UPDATE',
			text => 'UPDATE accounts SET balance = balance + 1 WHERE id < 4',
			rows => 3,
			outcome => 'ok',
			relations => [
				{
					name => 'public.accounts',
					type => 'table',
					access => 'select,update'
				}
			],
			depth => undef,
			substatement => undef
		},
		'fields of an UPDATE');
	like($update->{time}, qr/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/,
		'time in UTC with microseconds');
	like($update->{duration_us}, qr/^\d+$/, 'duration');
	like($update->{xid}, qr/^\d+$/, 'transaction id of a writing transaction');
	is($r->{xid}, undef, 'none before it');
	is($rest[0]{command}, 'COMMIT', 'COMMIT follows');
	like($r->{session}, qr/^[0-9a-f]+\.[0-9a-f]+$/, 'session id');
	is($r->{session}, $rest[0]{session}, 'the same in all');
}

# Each statement of a string: its own text, whatever stands between them.
{
	my @texts = (
		'SELECT 1',
		q{SELECT 'a;b' AS ";"},
		q{SELECT $$;$$},
		'SELECT 4 /* ; */',
		'CREATE TEMP TABLE t4 (a int)',
		'DROP TABLE t4',
		'SELECT 7');
	my @r = run(
		"  $texts[0] ;;\n\t$texts[1];$texts[2] ; $texts[3];\n-- ; comment\n$texts[4];$texts[5] ; $texts[6]"
	);

	is(scalar @r, scalar @texts, 'a record for each statement of a string');
	is($r[$_]{text}, $texts[$_], "text of statement $_") foreach (0 .. 3, 5, 6);
	like($r[4]{text}, qr/\Q$texts[4]\E$/, 'text of statement 4');
}

# Classes and commands.
foreach my $case (
	[ 'TABLE accounts', 'read', 'SELECT' ],
	[ 'VALUES (1)', 'read', 'SELECT' ],
	[ q{INSERT INTO accounts VALUES (101, 'x', 0)}, 'write', 'INSERT' ],
	[ 'UPDATE accounts SET balance = 1 WHERE id = 101', 'write', 'UPDATE' ],
	[ 'DELETE FROM accounts WHERE id = 101', 'write', 'DELETE' ],
	[
		'MERGE INTO accounts a USING (VALUES (1)) v(i) ON a.id = v.i WHEN MATCHED THEN DO NOTHING',
		'write',
		'MERGE'
	],
	[
		'WITH d AS (DELETE FROM accounts WHERE id = 20 RETURNING id) SELECT * FROM d',
		'write', 'SELECT'
	],
	[ 'TRUNCATE "Odd Name"', 'write', 'TRUNCATE TABLE' ],
	[ 'DO $$ BEGIN END $$', 'function', 'DO' ],
	[ 'CREATE ROLE somebody', 'role', 'CREATE ROLE' ],
	[ 'GRANT SELECT ON accounts TO somebody', 'role', 'GRANT' ],
	[ 'REVOKE SELECT ON accounts FROM somebody', 'role', 'REVOKE' ],
	[ 'DROP ROLE somebody', 'role', 'DROP ROLE' ],
	[ 'CREATE TABLE t (a int)', 'ddl', 'CREATE TABLE' ],
	[ 'CREATE INDEX ON t (a)', 'ddl', 'CREATE INDEX' ],
	[ 'CREATE TABLE t2 AS SELECT 1 AS a', 'ddl', 'CREATE TABLE AS' ],
	[ 'DROP TABLE t, t2', 'ddl', 'DROP TABLE' ],
	[ 'VACUUM accounts', 'misc', 'VACUUM' ],
	[ 'CHECKPOINT', 'misc', 'CHECKPOINT' ],
	[ 'EXPLAIN SELECT 1', 'misc', 'EXPLAIN' ],
	[ 'SET work_mem = 64', 'misc_set', 'SET' ],
	[ 'RESET work_mem', 'misc_set', 'RESET' ],
	[ 'BEGIN', 'transaction', 'BEGIN' ])
{
	my ($sql, $class, $command) = @$case;
	my @r = run($sql);

	is_deeply(
		[ map { [ @$_{qw(class command text outcome)} ] } @r ],
		[ [ $class, $command, $sql, 'ok' ] ],
		"class and command: $sql");
}

# Transaction control.
{
	my @sql = (
		'BEGIN', 'SAVEPOINT s',
		'ROLLBACK TO SAVEPOINT s', 'RELEASE SAVEPOINT s',
		'ROLLBACK', 'START TRANSACTION',
		q{PREPARE TRANSACTION 'x'}, q{ROLLBACK PREPARED 'x'},
		'BEGIN', 'COMMIT AND CHAIN', 'END');
	my @r = run(join '; ', @sql);
	my ($r);

	# not one message: PREPARED commands refuse to be in one with others
	@r = run(join "\n;\n", @sql) if @r != @sql;
	is_deeply([ map { $_->{text} } @r ], \@sql, 'transaction control');
	is(scalar(grep { $_->{class} ne 'transaction' } @r),
		0, 'all of class transaction');
}

# Relations.
{
	my ($r) = run('SELECT r.id FROM rich r, "Odd Name" o WHERE o.a = r.id FOR UPDATE OF o');

	is_deeply(
		relations_of($r),
		[
			{
				name => 'public."Odd Name"',
				type => 'table',
				access => 'select,update'
			},
			{ name => 'public.accounts', type => 'table', access => 'select' },
			{ name => 'public.rich', type => 'view', access => 'select' }
		],
		'relations: a view and what it reads, a quoted name, a row lock');
	($r) = run('INSERT INTO "Odd Name" SELECT id FROM accounts');
	is_deeply(
		relations_of($r),
		[
			{ name => 'public."Odd Name"', type => 'table', access => 'insert' },
			{ name => 'public.accounts', type => 'table', access => 'select' }
		],
		'relations: INSERT ... SELECT');
	($r) = run('EXPLAIN ANALYZE SELECT * FROM accounts');
	is_deeply(
		relations_of($r),
		[ { name => 'public.accounts', type => 'table', access => 'select' } ],
		'relations: EXPLAIN ANALYZE');
}

# Rows.
is((run('SELECT * FROM accounts LIMIT 5'))[0]{rows}, 5, 'rows of SELECT');
is((run('SELECT * FROM accounts WHERE false'))[0]{rows}, 0, 'no rows');
is((run('CREATE TABLE five AS SELECT * FROM accounts LIMIT 5'))[0]{rows},
	5, 'rows of CREATE TABLE AS');

# COPY in and out.
{
	my $file = PostgreSQL::Test::Utils::tempdir() . '/copy';
	my ($out) = run("COPY accounts TO '$file'");
	my ($in) = run("COPY five FROM '$file'");
	my ($query) = run("COPY (SELECT id FROM accounts LIMIT 3) TO STDOUT");
	my ($stdin) = run("COPY \"Odd Name\" FROM STDIN;\n1\n2\n\\.\n");

	is_deeply(
		fields($out, qw(class command rows relations)),
		{
			class => 'read',
			command => 'COPY',
			rows => 19,
			relations =>
			  [ { name => 'public.accounts', type => 'table', access => 'select' } ]
		},
		'COPY TO');
	is_deeply(
		fields($in, qw(class command rows relations)),
		{
			class => 'write',
			command => 'COPY',
			rows => 19,
			relations =>
			  [ { name => 'public.five', type => 'table', access => 'insert' } ]
		},
		'COPY FROM');
	is_deeply(
		fields($query, qw(class rows relations)),
		{
			class => 'read',
			rows => 3,
			relations =>
			  [ { name => 'public.accounts', type => 'table', access => 'select' } ]
		},
		'COPY (query) TO STDOUT is one record');
	is($stdin->{rows}, 2, 'COPY FROM STDIN');
}

# Prepared in SQL.
{
	my @r = run('PREPARE p(int, text) AS SELECT $1, $2; EXECUTE p(7, NULL); DEALLOCATE p');

	is_deeply(
		[ map { [ @$_{qw(command depth text)} ] } @r ],
		[
			[ 'PREPARE', undef, 'PREPARE p(int, text) AS SELECT $1, $2' ],
			[ 'EXECUTE', undef, 'EXECUTE p(7, NULL)' ],
			[ 'SELECT', 1, 'PREPARE p(int, text) AS SELECT $1, $2' ],
			[ 'DEALLOCATE', undef, 'DEALLOCATE p' ]
		],
		'PREPARE, EXECUTE and what it runs, DEALLOCATE');
	is_deeply($r[2]{params}, [ '7', undef ], 'with the values of EXECUTE');
	is($r[2]{statement}, $r[1]{statement}, 'part of the EXECUTE');
}

# Cursors.
{
	my @r = run(
		'BEGIN; DECLARE c CURSOR FOR SELECT id FROM accounts ORDER BY id; FETCH 3 FROM c; MOVE 2 IN c; FETCH ALL FROM c; CLOSE c; COMMIT'
	);
	my ($query) = grep { $_->{command} eq 'SELECT' } @r;
	my %rows = map { $_->{text} => $_->{rows} } @r;

	is_deeply(
		[ map { $_->{command} } grep { !$_->{depth} } @r ],
		[
			'BEGIN', 'DECLARE CURSOR', 'FETCH', 'MOVE', 'FETCH', 'CLOSE CURSOR',
			'COMMIT'
		],
		'statements of a cursor');
	is($rows{'FETCH 3 FROM c'}, 3, 'rows of FETCH');
	is($rows{'MOVE 2 IN c'}, 2, 'rows of MOVE');
	is($rows{'FETCH ALL FROM c'}, 14, 'rows of the rest');
	is($query->{rows}, 17, 'rows of its query in all: those that MOVE passes over are nobody\'s');
	like($query->{text}, qr/DECLARE c CURSOR FOR SELECT id FROM accounts ORDER BY id$/,
		'text of its query');
	@r = run('BEGIN; DECLARE c CURSOR FOR SELECT id FROM accounts; FETCH 3 FROM c; COMMIT');
	($query) = grep { $_->{command} eq 'SELECT' } @r;
	is($query->{rows}, 3, 'a cursor that COMMIT closes');
	@r = run('BEGIN; DECLARE c CURSOR FOR SELECT id FROM accounts; FETCH 3 FROM c; ROLLBACK');
	($query) = grep { $_->{command} eq 'SELECT' } @r;
	is($query->{rows}, 3, 'a cursor that ROLLBACK closes');
	@r = run('BEGIN; DECLARE c CURSOR WITH HOLD FOR SELECT id FROM accounts; COMMIT; FETCH 4 FROM c');
	($query) = grep { $_->{command} eq 'SELECT' } @r;
	is($query->{rows}, 4, 'a cursor with hold, of which rows are fetched after COMMIT');
}

# Nested statements.
$node->safe_psql(
	'postgres', q{
CREATE FUNCTION inner_function(i int) RETURNS int LANGUAGE plpgsql AS
$$ BEGIN UPDATE accounts SET balance = 0 WHERE id = i; RETURN i; END $$;
CREATE FUNCTION outer_function() RETURNS int LANGUAGE plpgsql AS
$$ DECLARE n int; BEGIN PERFORM inner_function(5); SELECT count(*) INTO n FROM accounts; RETURN n; END $$;
CREATE FUNCTION sql_function(i int) RETURNS void LANGUAGE sql AS
$$ INSERT INTO "Odd Name" VALUES (i); DELETE FROM "Odd Name" WHERE a = i $$;
CREATE FUNCTION trigger_function() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN INSERT INTO "Odd Name" VALUES (new.a); RETURN new; END $$;
CREATE TABLE triggered (a int);
CREATE TRIGGER t AFTER INSERT ON triggered FOR EACH ROW EXECUTE FUNCTION trigger_function();
CREATE PROCEDURE steps() LANGUAGE plpgsql AS
$$ BEGIN INSERT INTO triggered VALUES (1); COMMIT; INSERT INTO five VALUES (1); ROLLBACK; END $$;
});
{
	my @r = run('SELECT outer_function()');

	is_deeply(
		[ map { [ @$_{qw(statement substatement depth text)} ] } @r ],
		[
			[ 1, undef, undef, 'SELECT outer_function()' ],
			[ 1, 1, 1, 'SELECT inner_function(5)' ],
			[ 1, 2, 2, 'UPDATE accounts SET balance = 0 WHERE id = i' ],
			[ 1, 3, 1, 'SELECT count(*)        FROM accounts' ]
		],
		'functions that call functions');
	is($r[2]{params}[0], '5', 'variables are parameters');

	@r = run('SELECT sql_function(9)');
	is_deeply(
		[ map { [ @$_{qw(depth text)} ] } @r ],
		[
			[ undef, 'SELECT sql_function(9)' ],
			[ 1, 'INSERT INTO "Odd Name" VALUES (i)' ],
			[ 1, 'DELETE FROM "Odd Name" WHERE a = i' ]
		],
		'an SQL function, each of its statements with its own text');

	@r = run('DO $$ BEGIN PERFORM 1; EXECUTE \'SELECT 2\'; END $$');
	is_deeply(
		[ map { [ @$_{qw(depth command text)} ] } @r ],
		[
			[ undef, 'DO', 'DO $$ BEGIN PERFORM 1; EXECUTE \'SELECT 2\'; END $$' ],
			[ 1, 'SELECT', 'SELECT 1' ],
			[ 1, 'SELECT', 'SELECT 2' ]
		],
		'DO and what it runs');

	@r = run('INSERT INTO triggered VALUES (1), (2)');
	is(scalar(grep { ($_->{depth} // 0) == 1 && $_->{command} eq 'INSERT' } @r),
		2, 'a trigger');

	@r = run('CALL steps()');
	is_deeply(
		[ map { [ @$_{qw(depth command)} ] } @r ],
		[
			[ undef, 'CALL' ],
			[ 1, 'INSERT' ],
			[ 2, 'INSERT' ],
			[ 1, 'INSERT' ]
		],
		'a procedure that commits and rolls back');

	@r = run('CREATE SCHEMA s CREATE TABLE in_s (a int) CREATE VIEW v_s AS SELECT 1 AS b');
	is($r[0]{command}, 'CREATE SCHEMA', 'a statement with parts');
	is(scalar @r, 1, 'is one record');
}
{
	my @r = run('SET steno.log_nested = off; SELECT outer_function(); PREPARE p AS SELECT 5; EXECUTE p; '
		  . 'EXPLAIN ANALYZE EXECUTE p; CREATE TEMP TABLE executed AS EXECUTE p');

	is_deeply(
		[
			map { $_->{text} } grep { $_->{text} !~ /^SET/ } @r
		],
		[
			'SELECT outer_function()', 'PREPARE p AS SELECT 5',
			'EXECUTE p', 'PREPARE p AS SELECT 5',
			'EXPLAIN ANALYZE EXECUTE p', 'PREPARE p AS SELECT 5',
			'CREATE TEMP TABLE executed AS EXECUTE p', 'PREPARE p AS SELECT 5'
		],
		'steno.log_nested = off leaves out what functions run, and nothing else');
}

# The extended protocol.
{
	my $c = Steno::Client->new($node, application_name => 'extended');
	my @r;

	$c->extended('SELECT $1::int + $2::int AS sum', 3, 4);
	$c->extended('SELECT $1::text', undef);
	$c->extended('');
	$c->parse('s1', 'SELECT id FROM accounts WHERE id > $1 ORDER BY id')->sync->finish;
	$c->bind_values('', 's1', 10)->execute('')->bind_values('', 's1', 15)
	  ->execute('')->sync->finish;
	$c->query('BEGIN');
	$c->bind_values('p', 's1', 0)->execute('p', 5)->sync->finish;
	$c->execute('p', 4)->sync->finish;
	$c->query('COMMIT');
	$c->extended('LISTEN news');
	$c->quit;
	@r = sort { $a->{seq} <=> $b->{seq} }
	  statements($node, application => 'extended');
	is_deeply(
		[ map { [ @$_{qw(text params rows)} ] } @r ],
		[
			[ 'SELECT $1::int + $2::int AS sum', [ '3', '4' ], 1 ],
			[ 'SELECT $1::text', [undef], 1 ],
			[
				'SELECT id FROM accounts WHERE id > $1 ORDER BY id', ['10'],
				9
			],
			[
				'SELECT id FROM accounts WHERE id > $1 ORDER BY id', ['15'],
				4
			],
			[ 'BEGIN', undef, undef ],
			# the commit closes the portal
			[ 'SELECT id FROM accounts WHERE id > $1 ORDER BY id', ['0'], 9 ],
			[ 'COMMIT', undef, undef ],
			[ 'LISTEN news', undef, undef ]
		],
		'extended protocol: one record for each execution, with its values');
}

# Roles and application name as they were.
{
	my @r;

	$node->safe_psql('postgres', 'CREATE ROLE clerk');
	@r = run('SELECT 1; SET ROLE clerk; SELECT 2; RESET ROLE; SELECT 3');
	is_deeply(
		[ map { [ $_->{text}, $_->{role} ] } @r ],
		[
			[ 'SELECT 1', undef ],
			[ 'SET ROLE clerk', undef ],
			[ 'SELECT 2', 'clerk' ],
			[ 'RESET ROLE', 'clerk' ],
			[ 'SELECT 3', undef ]
		],
		'the current role, when it is not the session user');
	$node->safe_psql('postgres',
		"SELECT 'before'; SET application_name = 'renamed'; SELECT 'after'");
	is( scalar(
			statements(
				$node,
				application => 'renamed',
				text => "SELECT 'after'")),
		1,
		'the application name after a change');
}

# Control and multibyte characters.
{
	my $sql = "SELECT 'tab\there', E'\\x1b[31m', '\xc3\xbc\xe2\x82\xac', '\x1b[31m', 'quote\"'";
	my ($r) = run($sql);

	utf8::decode($sql);
	is($r->{text}, $sql, 'control and multibyte characters');
}

verify_ok($node, 'the trail is whole');
gapless($node, 'no session has gaps');
$node->stop;
done_testing();

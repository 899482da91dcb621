
# Records have the names of their time.  Whoever asks for an object, user or database is told if something that had the
# name, or gets it, had another one in the range: a proof is not complete then.  He is also told of statements that had
# not ended when their records were made, because these name no objects.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Steno::Client;
use Steno::Seals;
use Test::More;

my $keys = PostgreSQL::Test::Utils::tempdir();
my ($key) = keygen("$keys/one");
my $node = new_node('main',
	conf => "steno.signing_key_file = '$key'\nsteno.seal_interval = 1s\nsteno.start_after = 10ms\nrestart_after_crash = on\nmax_prepared_transactions = 5\n");

$node->safe_psql('postgres', <<'SQL');
CREATE SCHEMA hr;
CREATE TABLE hr.salary (id int, amount int);
CREATE VIEW hr.v AS SELECT 1 AS a;
CREATE MATERIALIZED VIEW hr.m AS SELECT 1 AS a;
CREATE TABLE hr.p (a int, b int) PARTITION BY RANGE (a);
CREATE TABLE hr.p1 PARTITION OF hr.p FOR VALUES FROM (0) TO (10);
CREATE TYPE hr.c AS (a int, b int);
CREATE TABLE hr.typed OF hr.c;
CREATE SCHEMA "Odd";
CREATE TABLE "Odd"."Table" ("Column" int);
CREATE ROLE alice LOGIN;
CREATE ROLE "Carol" LOGIN;
CREATE DATABASE d;
CREATE FUNCTION renames(what text, name text) RETURNS void LANGUAGE plpgsql AS
  'BEGIN EXECUTE format(''ALTER TABLE %s RENAME TO %I'', what, name); END';
SQL

# What is run, what is asked, and the renames that are told of.
my @cases = (
	[ 'a table',
		'ALTER TABLE hr.salary RENAME TO x; SELECT * FROM hr.x; ALTER TABLE IF EXISTS hr.x RENAME TO salary',
		[ '--object', 'hr.salary' ],
		'table "hr.salary" to "hr.x"', 'table "hr.x" to "hr.salary"' ],
	[ 'a table, in a question about reads of somebody else',
		'ALTER TABLE hr.salary RENAME TO x; ALTER TABLE hr.x RENAME TO salary',
		[ '--object', 'hr.salary', '--class', 'read', '--user', 'alice' ],
		'table "hr.salary" to "hr.x"', 'table "hr.x" to "hr.salary"' ],
	[ 'a table, in a question about both names',
		'ALTER TABLE hr.salary RENAME TO x; ALTER TABLE hr.x RENAME TO salary',
		[ '--object', 'hr.salary', '--object', 'hr.x' ] ],
	[ 'another table',
		'ALTER TABLE hr.p1 RENAME TO salary_1; ALTER TABLE hr.salary_1 RENAME TO p1',
		[ '--object', 'hr.salary' ] ],
	[ 'a rename that is rolled back',
		'BEGIN; ALTER TABLE hr.salary RENAME TO x; SELECT * FROM hr.x; ROLLBACK',
		[ '--object', 'hr.salary' ],
		'table "hr.salary" to "hr.x"' ],
	[ 'a rename to a savepoint',
		'BEGIN; SAVEPOINT s; ALTER TABLE hr.salary RENAME TO x; SELECT * FROM hr.x; ROLLBACK TO s; COMMIT',
		[ '--object', 'hr.salary' ],
		'table "hr.salary" to "hr.x"' ],
	[ 'renames in functions',
		q{SELECT renames('hr.salary', 'x'); SELECT * FROM hr.x; SELECT renames('hr.x', 'salary')},
		[ '--object', 'hr.salary' ],
		'table "hr.salary" to "hr.x"', 'table "hr.x" to "hr.salary"' ],
	[ 'a rename in a block that fails',
		q{DO $$ BEGIN ALTER TABLE hr.salary RENAME TO x; PERFORM 1 FROM hr.x; RAISE 'no'; EXCEPTION WHEN OTHERS THEN END $$},
		[ '--object', 'hr.salary' ],
		'table "hr.salary" to "hr.x"' ],
	[ 'another schema',
		'ALTER TABLE hr.salary SET SCHEMA public; ALTER TABLE public.salary SET SCHEMA hr',
		[ '--object', 'hr.salary' ],
		'table "hr.salary" to "public.salary"', 'table "public.salary" to "hr.salary"' ],
	[ 'another schema, if the name may be in any',
		'ALTER TABLE hr.salary SET SCHEMA public; ALTER TABLE public.salary SET SCHEMA hr',
		[ '--object', 'salary' ] ],
	[ 'a schema',
		'ALTER SCHEMA hr RENAME TO x; SELECT * FROM x.salary; ALTER SCHEMA x RENAME TO hr',
		[ '--object', 'hr.salary' ],
		'schema "hr" to "x"', 'schema "x" to "hr"' ],
	[ 'a schema, in a question about a column',
		'ALTER SCHEMA hr RENAME TO x; ALTER SCHEMA x RENAME TO hr',
		[ '--object', 'hr.salary.amount' ],
		'schema "hr" to "x"', 'schema "x" to "hr"' ],
	[ 'a table in place of another one',
		'ALTER TABLE hr.salary RENAME TO x; CREATE TABLE hr.salary (i int); DROP TABLE hr.salary; ALTER TABLE hr.x RENAME TO salary',
		[ '--object', 'hr.salary' ],
		'table "hr.salary" to "hr.x"', 'table "hr.x" to "hr.salary"' ],
	[ 'a view',
		'ALTER VIEW hr.v RENAME TO x; ALTER TABLE hr.x RENAME TO v',
		[ '--object', 'hr.v' ],
		'view "hr.v" to "hr.x"', 'view "hr.x" to "hr.v"' ],
	[ 'a materialized view',
		'ALTER MATERIALIZED VIEW hr.m RENAME TO x; ALTER MATERIALIZED VIEW hr.x RENAME TO m',
		[ '--object', 'hr.*' ] ],
	[ 'a column',
		'ALTER TABLE hr.salary RENAME COLUMN amount TO x; ALTER TABLE hr.salary RENAME x TO amount',
		[ '--object', 'hr.salary.amount' ],
		'table column "hr.salary.amount" to "hr.salary.x"', 'table column "hr.salary.x" to "hr.salary.amount"' ],
	[ 'a column, in a question about its table',
		'ALTER TABLE hr.salary RENAME COLUMN amount TO x; ALTER TABLE hr.salary RENAME x TO amount',
		[ '--object', 'hr.salary' ] ],
	[ 'a column of a partition',
		'ALTER TABLE hr.p RENAME b TO x; ALTER TABLE hr.p RENAME x TO b',
		[ '--object', 'hr.p1.b' ],
		'table column "hr.p1.b" to "hr.p1.x"', 'table column "hr.p1.x" to "hr.p1.b"' ],
	[ 'a column of a table of a type',
		'ALTER TYPE hr.c RENAME ATTRIBUTE b TO x CASCADE; ALTER TYPE hr.c RENAME ATTRIBUTE x TO b CASCADE',
		[ '--object', 'hr.typed.b' ],
		'table column "hr.typed.b" to "hr.typed.x"', 'table column "hr.typed.x" to "hr.typed.b"' ],
	[ 'names with quotes',
		'ALTER TABLE "Odd"."Table" RENAME TO x; ALTER TABLE "Odd".x RENAME TO "Table"',
		[ '--object', '"Odd"."Table"' ],
		'table """Odd"".""Table""" to """Odd"".x"', 'table """Odd"".x" to """Odd"".""Table"""' ],
	[ 'a name in capitals',
		'ALTER TABLE hr.salary RENAME TO x; ALTER TABLE hr.x RENAME TO salary',
		[ '--object', 'HR.Salary' ],
		'table "hr.salary" to "hr.x"', 'table "hr.x" to "hr.salary"' ],
	[ 'a name that is left out',
		'ALTER TABLE hr.salary RENAME TO x; ALTER TABLE hr.x RENAME TO salary',
		[ '--not-object', 'hr.x' ],
		'table "hr.salary" to "hr.x"', 'table "hr.x" to "hr.salary"' ],
	[ 'a table of another database',
		'ALTER TABLE hr.salary RENAME TO x; ALTER TABLE hr.x RENAME TO salary',
		[ '--object', 'hr.salary', '--database', 'other' ] ],
	[ 'a role',
		'ALTER ROLE alice RENAME TO x; ALTER USER x RENAME TO alice',
		[ '--user', 'alice' ],
		'role "alice" to "x"', 'role "x" to "alice"' ],
	[ 'a role with quotes, in a question about connections',
		'ALTER ROLE "Carol" RENAME TO x; ALTER GROUP x RENAME TO "Carol"',
		[ '--user', 'Carol', '--kind', 'connect' ],
		'role """Carol""" to "x"', 'role "x" to """Carol"""' ],
	[ 'a role of --role, by DO',
		q{DO $$ BEGIN ALTER ROLE alice RENAME TO x; ALTER ROLE x RENAME TO alice; END $$},
		[ '--role', 'alice', '--object', 'hr.salary' ],
		'role "alice" to "x"', 'role "x" to "alice"' ],
	[ 'another role',
		'ALTER ROLE alice RENAME TO x; ALTER ROLE x RENAME TO alice',
		[ '--user', 'bob' ] ],
	[ 'a database',
		'ALTER DATABASE d RENAME TO x; ALTER DATABASE x RENAME TO d',
		[ '--database', 'd' ],
		'database "d" to "x"', 'database "x" to "d"' ],
	[ 'the catalog',
		q{SET allow_system_table_mods = on; UPDATE pg_class SET relname = 'x' WHERE oid = 'hr.salary'::regclass;
		  SELECT * FROM hr.x; UPDATE pg_class SET relname = 'salary' WHERE oid = 'hr.x'::regclass},
		[ '--object', 'hr.salary' ],
		'pg_catalog.pg_class', 'pg_catalog.pg_class' ],
	[ 'another catalog',
		q{SET allow_system_table_mods = on; UPDATE pg_proc SET proname = 'g' WHERE proname = 'renames'; UPDATE pg_proc SET proname = 'renames' WHERE proname = 'g'},
		[ '--object', 'public.renames' ],
		'pg_catalog.pg_proc', 'pg_catalog.pg_proc' ],
	[ 'no change of a catalog',
		q{UPDATE pg_class SET relname = 'x' WHERE false; EXPLAIN UPDATE pg_class SET relname = 'x'; SELECT relname FROM pg_class LIMIT 1 FOR SHARE;
		  DO $$ BEGIN SET LOCAL ROLE alice; UPDATE pg_class SET relname = 'x'; EXCEPTION WHEN OTHERS THEN END $$},
		[ '--object', 'hr.salary' ] ],
	[ 'a read of the catalog', 'SELECT count(*) FROM pg_class, pg_authid', [ '--object', 'hr.salary', '--user', 'alice' ] ]);

# The server's time.
sub now
{
	return value($node, q{SELECT to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')});
}

my @ranges;
foreach my $case (@cases)
{
	my $since = now();

	$node->safe_psql('postgres', $case->[1]);
	push @ranges, [ '--since', $since, '--until', now() ];
}
# A rename before the range that is seen in it, one that waits until it has begun, and one that has ended.
{
	my ($renames, $locks, $waits) = map { Steno::Client->new($node) } 1 .. 3;
	my $since;

	$node->safe_psql('postgres', 'ALTER TABLE hr.salary RENAME TO x; ALTER TABLE hr.x RENAME TO salary');
	$renames->query($_) foreach 'BEGIN', 'ALTER TABLE hr.salary RENAME TO x';
	$locks->query($_) foreach 'BEGIN', 'LOCK TABLE hr.v';
	$waits->put('Q', "ALTER VIEW hr.v RENAME TO x\0")->send_all;
	wait_until 'a rename waits', sub { value($node, "SELECT wait_event_type FROM pg_stat_activity WHERE pid = $waits->{pid}") eq 'Lock' };
	$since = now();
	$renames->query($_) foreach 'SELECT * FROM hr.x', 'ROLLBACK';
	$locks->query('ROLLBACK');
	$waits->finish;
	push @ranges, ([ '--since', $since, '--until', now() ]) x 2;
	push @cases, [ 'a rename that was open', '', [ '--object', 'hr.salary' ], 'table "hr.salary" to "hr.x" before' ],
	  [ 'a rename that waited', '', [ '--object', 'hr.v' ], 'view "hr.v" to "hr.x" before' ];
	$_->quit foreach $renames, $locks, $waits;
}
# One that was prepared before the server's start.
{
	my $since;

	$node->safe_psql('postgres', q{CREATE TABLE hr.old (i int); BEGIN; ALTER TABLE hr.old RENAME TO older; PREPARE TRANSACTION 'z1'});
	$node->restart;
	$node->safe_psql('postgres', q{BEGIN; CREATE TABLE hr.new (i int); PREPARE TRANSACTION 'z2'});
	$since = now();
	$node->safe_psql('postgres', $_) foreach q{COMMIT PREPARED 'z1'}, q{COMMIT PREPARED 'z2'}, 'SELECT * FROM hr.older';
	push @ranges, [ '--since', $since, '--until', now() ];
	push @cases, [ 'a prepared rename', '', [ '--object', 'hr.old' ], 'prepared z1' ];
}
wait_until 'the end is sealed', sub {
	flush($node);
	my ($code) = steno_result('prove', @{ $ranges[-1] }, '--out', "$keys/proof", '--key', "$key.pub", trail($node));
	return $code == 0;
};

# The renames that lines tell of.
sub told
{
	my ($lines) = @_;
	my @all;

	foreach (split /\n/, $lines)
	{
		push @all, "$1 to $2" . ($3 ? ' before' : '')
		  if /^\S+ +(?:incomplete: )?(.*) was renamed to (".*") at \S+ by user "\w+": records have the names of their time(; the transaction had not ended when the range began)?$/;
		push @all, "prepared $1" if /^\S+ +a transaction that was prepared before the server's start, "(\w+)", was committed at \S+: it may have renamed/;
		push @all, $1 if /^\S+ +(?:incomplete: )?(pg_catalog\.\w+) was changed directly at /;
	}
	return \@all;
}

# The proof, with indexes or not, and what is told by cat.
sub all_are_told
{
	my ($when) = @_;

	foreach my $i (0 .. $#cases)
	{
		my ($name, undef, $ask, @want) = @{ $cases[$i] };

		foreach my $full ([], $when eq 'with an index' ? () : ['--full']) # which relies on none
		{
			my ($code, $out, $err) = steno_result('prove', @{ $ranges[$i] }, @$ask, @$full, '--out', "$keys/proof", '--key', "$key.pub", trail($node));
			my ($verdict) = $out =~ /^verdict +PROVED, (complete|with exceptions)/m;
			# what this test has renamed before
			my $earlier = $out =~ s/^except: .*; (?:that was before the range|whether its transaction was committed before the range).*\n//mg;
			my @last_moments = $out =~ /^except: .*(?:records of the last moments of the range| of the name ".*" occurs in what the proof has)/mg;
			my @other = grep { !/^no \w+ of the name|was renamed to|was prepared before|was changed directly|records of the last moments of the range/ } $out =~ /^except: +(.*)$/mg;

			is_deeply(told($out), \@want, "$when, $name: the proof's exceptions @$full") or diag $out, $err;
			is_deeply([ $code, $verdict, @other ], [ 0, @want + @last_moments || $earlier ? 'with exceptions' : 'complete' ], "$when, $name: its verdict @$full") or diag $out, $err;
		}
		my ($code, $out, $err) = steno_result('cat', @{ $ranges[$i] }, @$ask, trail($node));

		is($code, 0, "$when, $name: cat");
		is_deeply(told($err), [ grep { !/^pg_catalog|^prepared| before$/ } @want ], "$when, $name: what cat tells") or diag $err;
	}
	return;
}

all_are_told('without an index');
value($node, 'SELECT steno.rotate()');
flush($node);
all_are_told('with an index');

# ---- statements that had not ended ----

my $since = now();

# What is told of, if somebody asks for a table that nobody has used.
sub unfinished
{
	my (@args) = @_;
	my ($code, $out, $err) = steno_result('cat', '--object', 'hr.nothing', '--since', $since, @args, trail($node));

	is("$code$out", '0', 'cat finds nothing');
	like($err, qr/^steno: incomplete: no object of the name "hr.nothing" occurs in the trail/m, 'and says that there is no such table');
	return $err =~ s/^steno: incomplete: no object of the name .*\n//mr;
}

my $none = 'does not state its relations, because the statement had not ended';
my $c = Steno::Client->new($node, application_name => 'copies');
my $other = Steno::Client->new($node, application_name => 'copies');
my $log = -s $node->logfile;

$_->put('Q', "COPY hr.salary FROM STDIN\0")->send_all foreach $c, $other;
wait_until 'both have start records', sub { 2 == records($node, application => 'copies', kind => 'start') };
is((records($node, application => 'copies', kind => 'start'))[0]{relations}, undef, 'their relations are not known');
like(unfinished(), qr/^steno: incomplete: 2 more records may be asked for; the first, record 0 of session \S+, $none$/, 'both are told');
like(unfinished('--class', 'write'), qr/^steno: incomplete: 2 more records/, 'also if a class is asked for, which is not known');
is(unfinished('--user', 'alice'), '', 'but not if another user is');
$c->put('c', '')->send_all;
wait_until 'one has ended', sub { 1 == records($node, application => 'copies', kind => 'statement', command => 'COPY') };
like(unfinished(), qr/^steno: incomplete: record 0 of session \S+ may be asked for, too: it $none$/, 'then the other one is');
value($node, 'SELECT steno.rotate()');
flush($node);
like(unfinished(), qr/^steno: incomplete: record 0 of session \S+ may be .* $none$/, 'with an index, too');
kill 'KILL', $other->{pid};
server_is_back($node, $log);
is(scalar(records($node, application => 'copies', outcome => 'interrupted', kind => 'statement')), 1, 'the other is interrupted');
like(unfinished(), qr/^steno: incomplete: .* $none$/, 'which is told');
value($node, 'SELECT steno.rotate()');
flush($node);
like(unfinished(), qr/^steno: incomplete: .* $none$/, 'with an index, too');
verify_ok($node, 'the trail is whole');

done_testing();

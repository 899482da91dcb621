
# Statements have the classes that pgaudit gives them, on a server that has both.  The table lists the
# intended differences.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Test::More;

plan skip_all => 'pgaudit is not installed' if !has_module('pgaudit');

# What contains a query that changes data: pgaudit has COPY as READ, and does not look into WITH.
my %writes = map { $_ => 1 } (
	q{COPY (INSERT INTO t VALUES (4) RETURNING id) TO '/dev/null'},
	'EXPLAIN ANALYZE WITH gone AS (DELETE FROM t RETURNING id) SELECT id FROM gone',
	'CREATE TABLE kept AS WITH gone AS (DELETE FROM t RETURNING id) SELECT id FROM gone');

# Command => our class, where pgaudit says MISC.  Transactions have a class of their own here; SET is in
# pgaudit's misc_set, which is MISC in its lines; CALL runs a function, as DO does; and pgaudit does
# not know MERGE.
my %differs = (
	(
		map { $_ => 'transaction' } 'BEGIN', 'START TRANSACTION', 'COMMIT',
		'ROLLBACK', 'SAVEPOINT', 'RELEASE', 'PREPARE TRANSACTION',
		'COMMIT PREPARED', 'ROLLBACK PREPARED'
	),
	SET => 'misc_set',
	RESET => 'misc_set',
	CALL => 'function',
	MERGE => 'write');

# A statement of every kind, each with another text; order matters.
my @statements = grep { /\S/ } split /\n/, <<'END';
CREATE TABLE t (id int PRIMARY KEY, a int, b text)
CREATE TABLE d (id int REFERENCES t DEFERRABLE)
ALTER TABLE t ADD COLUMN c int
ALTER TABLE t RENAME COLUMN c TO e
CREATE INDEX i ON t (a)
ALTER INDEX i RENAME TO i2
DROP INDEX i2
CREATE SCHEMA s CREATE TABLE st (a int)
ALTER SCHEMA s RENAME TO s2
DROP SCHEMA s2 CASCADE
CREATE VIEW v AS SELECT a FROM t
ALTER VIEW v RENAME TO v2
DROP VIEW v2
CREATE MATERIALIZED VIEW m AS SELECT a FROM t
REFRESH MATERIALIZED VIEW m
ALTER MATERIALIZED VIEW m RENAME TO m2
DROP MATERIALIZED VIEW m2
CREATE SEQUENCE sq
ALTER SEQUENCE sq RESTART
DROP SEQUENCE sq
CREATE TABLE made AS SELECT 1 AS a
SELECT 2 AS a INTO made2
DROP TABLE made, made2
CREATE FUNCTION f(int) RETURNS int LANGUAGE sql AS 'SELECT $1'
ALTER FUNCTION f(int) STABLE
ALTER FUNCTION f(int) RENAME TO g
DROP FUNCTION g(int)
CREATE PROCEDURE p() LANGUAGE plpgsql AS 'BEGIN END'
CALL p()
DO 'BEGIN END'
DROP PROCEDURE p
CREATE AGGREGATE ag (int) (sfunc = int4pl, stype = int)
ALTER AGGREGATE ag (int) RENAME TO ag2
DROP AGGREGATE ag2 (int)
CREATE TYPE ct AS (a int)
ALTER TYPE ct ADD ATTRIBUTE b int
DROP TYPE ct
CREATE TYPE en AS ENUM ('a')
ALTER TYPE en ADD VALUE 'b'
CREATE TYPE ra AS RANGE (subtype = float8)
CREATE TYPE shell
CREATE DOMAIN dom AS int
ALTER DOMAIN dom SET NOT NULL
DROP DOMAIN dom
CREATE OPERATOR @#@ (leftarg = int, rightarg = int, function = int4pl)
ALTER OPERATOR @#@ (int, int) SET (RESTRICT = NONE)
DROP OPERATOR @#@ (int, int)
CREATE OPERATOR FAMILY fam USING btree
ALTER OPERATOR FAMILY fam USING btree ADD OPERATOR 1 < (int, bigint)
CREATE OPERATOR CLASS cla FOR TYPE int USING btree FAMILY fam AS STORAGE int
DROP OPERATOR CLASS cla USING btree
DROP OPERATOR FAMILY fam USING btree
CREATE CAST (en AS int) WITH INOUT
DROP CAST (en AS int)
CREATE COLLATION co FROM "C"
ALTER COLLATION co RENAME TO co2
DROP COLLATION co2
CREATE CONVERSION con FOR 'LATIN1' TO 'UTF8' FROM iso8859_1_to_utf8
DROP CONVERSION con
CREATE TEXT SEARCH CONFIGURATION ts (COPY = simple)
ALTER TEXT SEARCH CONFIGURATION ts DROP MAPPING FOR word
DROP TEXT SEARCH CONFIGURATION ts
CREATE TEXT SEARCH DICTIONARY td (TEMPLATE = simple)
ALTER TEXT SEARCH DICTIONARY td (stopwords = english)
DROP TEXT SEARCH DICTIONARY td
CREATE STATISTICS sta ON a, b FROM t
ALTER STATISTICS sta SET STATISTICS 10
DROP STATISTICS sta
CREATE TRIGGER tr BEFORE UPDATE ON t FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()
ALTER TRIGGER tr ON t RENAME TO tr2
DROP TRIGGER tr2 ON t
CREATE RULE ru AS ON DELETE TO t DO INSTEAD NOTHING
ALTER RULE ru ON t RENAME TO ru2
DROP RULE ru2 ON t
CREATE POLICY po ON t USING (true)
ALTER POLICY po ON t USING (false)
DROP POLICY po ON t
CREATE EVENT TRIGGER ev ON ddl_command_start WHEN TAG IN ('CREATE CAST') EXECUTE FUNCTION quiet()
ALTER EVENT TRIGGER ev DISABLE
DROP EVENT TRIGGER ev
CREATE LANGUAGE lang HANDLER plpgsql_call_handler
ALTER LANGUAGE lang RENAME TO lang2
DROP LANGUAGE lang2
CREATE ACCESS METHOD am TYPE TABLE HANDLER heap_tableam_handler
DROP ACCESS METHOD am
CREATE TRANSFORM FOR int LANGUAGE sql (FROM SQL WITH FUNCTION varchar_support(internal))
DROP TRANSFORM FOR int LANGUAGE sql
CREATE EXTENSION hstore
ALTER EXTENSION hstore SET SCHEMA public
DROP EXTENSION hstore
CREATE FOREIGN DATA WRAPPER fdw
ALTER FOREIGN DATA WRAPPER fdw OPTIONS (ADD x '1')
CREATE SERVER srv FOREIGN DATA WRAPPER fdw
ALTER SERVER srv OPTIONS (ADD x '1')
CREATE FOREIGN TABLE ft (a int) SERVER srv
ALTER FOREIGN TABLE ft ADD COLUMN b int
DROP FOREIGN TABLE ft
CREATE USER MAPPING FOR PUBLIC SERVER srv
ALTER USER MAPPING FOR PUBLIC SERVER srv OPTIONS (ADD x '1')
DROP USER MAPPING FOR PUBLIC SERVER srv
DROP SERVER srv
DROP FOREIGN DATA WRAPPER fdw
CREATE PUBLICATION pu FOR TABLE t
ALTER PUBLICATION pu SET (publish = 'insert')
DROP PUBLICATION pu
CREATE SUBSCRIPTION su CONNECTION 'dbname=x' PUBLICATION y WITH (connect = false)
ALTER SUBSCRIPTION su SET (slot_name = NONE)
DROP SUBSCRIPTION su
CREATE DATABASE other
ALTER DATABASE other CONNECTION LIMIT 3
ALTER DATABASE other SET work_mem = '1MB'
ALTER DATABASE other RENAME TO other2
DROP DATABASE other2
SET allow_in_place_tablespaces = on
CREATE TABLESPACE space LOCATION ''
ALTER TABLESPACE space SET (random_page_cost = 3)
DROP TABLESPACE space
COMMENT ON TABLE t IS 'commented'
ALTER SYSTEM SET work_mem = '5MB'
CREATE ROLE r
CREATE USER us
CREATE GROUP gr
ALTER ROLE r CREATEDB
ALTER ROLE r SET work_mem = '1MB'
ALTER GROUP gr ADD USER us
ALTER ROLE gr RENAME TO gr2
GRANT r TO us
REVOKE r FROM us
GRANT SELECT ON t TO r
REVOKE SELECT ON t FROM r
ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO r
REASSIGN OWNED BY r TO us
DROP OWNED BY r
ALTER TABLE t OWNER TO us
ALTER TABLE t OWNER TO CURRENT_USER
DROP ROLE r, us, gr2
COPY t FROM '/dev/null'
COPY t TO '/dev/null'
COPY (SELECT 1) TO '/dev/null'
COPY (INSERT INTO t VALUES (4) RETURNING id) TO '/dev/null'
SELECT 1 FROM t
SELECT 1 FROM t FOR UPDATE
INSERT INTO t VALUES (1)
UPDATE t SET a = 1
DELETE FROM t WHERE id = 1
MERGE INTO t USING d ON t.id = d.id WHEN MATCHED THEN DELETE
TRUNCATE d
PREPARE reads AS SELECT 1
PREPARE writes(int) AS INSERT INTO t VALUES ($1)
EXECUTE reads
EXECUTE writes(7)
DEALLOCATE reads
EXPLAIN SELECT 1
EXPLAIN ANALYZE SELECT 1
EXPLAIN INSERT INTO t VALUES (8)
EXPLAIN ANALYZE INSERT INTO t VALUES (9)
EXPLAIN ANALYZE WITH gone AS (DELETE FROM t RETURNING id) SELECT id FROM gone
CREATE TABLE kept AS WITH gone AS (DELETE FROM t RETURNING id) SELECT id FROM gone
EXPLAIN ANALYZE CREATE TABLE explained AS SELECT 1
DECLARE cu CURSOR WITH HOLD FOR SELECT 1
FETCH cu
MOVE cu
CLOSE cu
SET work_mem = '2MB'
SET ROLE none
RESET work_mem
RESET ALL
SHOW work_mem
DISCARD PLANS
LISTEN heard
NOTIFY heard
UNLISTEN heard
LOAD 'plpgsql'
CHECKPOINT
VACUUM t
ANALYZE t
CLUSTER t USING t_pkey
REINDEX TABLE t
BEGIN
SET CONSTRAINTS ALL DEFERRED
LOCK TABLE t
SAVEPOINT sa
ROLLBACK TO sa
RELEASE sa
COMMIT
START TRANSACTION
SET TRANSACTION READ ONLY
ROLLBACK
BEGIN READ WRITE
PREPARE TRANSACTION 'one'
COMMIT PREPARED 'one'
BEGIN ISOLATION LEVEL SERIALIZABLE
PREPARE TRANSACTION 'two'
ROLLBACK PREPARED 'two'
DROP TABLE t, d
END

if (`pg_config --version` =~ /(\d+)/ && $1 >= 19)
{
	my ($after) = grep { $statements[$_] =~ /^CLUSTER/ } 0 .. $#statements;

	splice @statements, $after + 1, 0, 'REPACK t', 'REPACK (CONCURRENTLY) t USING INDEX t_pkey', 'REPACK USING INDEX';
}

my $node = new_node('main', conf => q{
wal_level = replica
shared_preload_libraries = 'pg_steno,pgaudit'
pgaudit.log = 'all'
max_prepared_transactions = 2
});

$node->safe_psql('postgres',
	q{CREATE FUNCTION quiet() RETURNS event_trigger LANGUAGE plpgsql AS 'BEGIN END'});

my $log = -s $node->logfile;
my ($status, $out, $err) = $node->psql(
	'postgres',
	join('', map { "$_;\n" } @statements),
	connstr => $node->connstr('postgres') . ' application_name=classes',
	on_error_stop => 0);
is($err =~ s/^.*(?:WARNING|HINT|NOTICE).*\n?//mgr, '', 'all statements succeed');

# pgaudit's lines: the class for each text and command.
my %theirs;
my $lines = slurp_file($node->logfile, $log);

while ($lines =~ /AUDIT: SESSION,\d+,\d+,(\w+),([^,]*),[^,]*,(?:"(?:[^"]|"")*"|[^,]*),("(?:[^"]|"")*"|[^,\n]*),/g)
{
	my ($class, $command, $text) = ($1, $2, $3);

	$text =~ s/^"(.*)"$/$1/s and $text =~ s/""/"/g;
	$text =~ s/;$//;
	$theirs{"$command: $text"} //= lc $class;
}

my %ours =
  map { ($_->{text} => $_) }
  grep { !$_->{depth} } statements($node, application => 'classes');
my %differed;

foreach my $text (@statements)
{
	my $r = $ours{$text} // {};
	my $command = $r->{command} // 'none';
	my $class = $theirs{"$command: $text"} // $theirs{"???: $text"};

	if ($writes{$text})
	{
		isnt($class, 'write', "pgaudit: $text");
		$class = 'write';
	}
	elsif ($differs{$command})
	{
		is($class, 'misc', "pgaudit: $text");
		$class = $differs{$command};
		$differed{$command} = 1;
	}
	is($r->{class}, $class // "no line of pgaudit", $text);
}
is_deeply([ sort keys %differed ],
	[ sort keys %differs ], 'no difference is listed in vain');
done_testing();

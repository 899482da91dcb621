
# Objects that statements create, alter, rename, drop and call, with type and qualified name, in a
# database that does not have the extension.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Steno;
use Test::More;

# Statement, and below it, indented, the objects of its record; with "1> " before
# it, a statement that the one above runs.
my $table = <<'END';
CREATE SCHEMA s
	create schema s
CREATE TABLE t (id serial PRIMARY KEY, a int DEFAULT 3, b text CHECK (b <> ''))
	create sequence public.t_id_seq
	create table public.t
	create index public.t_pkey
CREATE TABLE "Odd ""name" (a int REFERENCES t)
	create table public."Odd ""name"
ALTER TABLE t ADD COLUMN c int
	alter table public.t
ALTER TABLE t ALTER COLUMN a SET DEFAULT 4
	alter table public.t
ALTER TABLE t ALTER COLUMN a DROP DEFAULT
	alter table public.t
ALTER TABLE t ALTER COLUMN c TYPE bigint, ADD CONSTRAINT positive CHECK (a > 0)
	create table constraint positive on public.t
	alter table public.t
ALTER TABLE t RENAME CONSTRAINT positive TO more
	rename table constraint positive on public.t -> more on public.t
	use table public.t
ALTER TABLE t RENAME COLUMN c TO d
	use table public.t
	rename table column public.t.c -> public.t.d
ALTER TABLE t RENAME TO u
	rename table public.t -> public.u
ALTER TABLE u SET SCHEMA s
	rename table public.u -> s.u
	rename index public.t_pkey -> s.t_pkey
	rename sequence public.t_id_seq -> s.t_id_seq
ALTER TABLE IF EXISTS nothing ADD COLUMN x int
CREATE TABLE IF NOT EXISTS s.u (a int)
CREATE INDEX ON s.u (a)
	create index s.u_a_idx
	use table s.u
ALTER INDEX s.u_a_idx RENAME TO i
	rename index s.u_a_idx -> s.i
	use table s.u
CREATE INDEX CONCURRENTLY j ON s.u (a)
	create index s.j
	use table s.u
REINDEX TABLE CONCURRENTLY s.u
	use table s.u
REINDEX INDEX s.i
	use index s.i
	use table s.u
DROP INDEX CONCURRENTLY s.j
	drop index s.j
	use table s.u
CREATE VIEW v AS SELECT a FROM s.u
	create view public.v
	use table s.u
CREATE OR REPLACE VIEW v AS SELECT a, 1 AS one FROM s.u
	alter view public.v
	use table s.u
CREATE MATERIALIZED VIEW m AS SELECT a FROM s.u
	create materialized view public.m
	use table s.u
REFRESH MATERIALIZED VIEW m
	alter materialized view public.m
CREATE TABLE ctas AS SELECT 1 AS a
	create table public.ctas
SELECT 1 AS a INTO sinto
	create table public.sinto
CREATE TEMPORARY TABLE tmp (a text)
	create table pg_temp.tmp
CREATE UNLOGGED TABLE unl (a text)
	create table public.unl
CREATE SCHEMA s2 CREATE TABLE e1 (a int) CREATE VIEW e2 AS SELECT a FROM e1
	create schema s2
	create table s2.e1
	create view s2.e2
CREATE TABLE p (a int) PARTITION BY RANGE (a)
	create table public.p
CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10)
	create table public.p1
	use table public.p
CREATE TABLE p2 (a int)
	create table public.p2
ALTER TABLE p ATTACH PARTITION p2 FOR VALUES FROM (10) TO (20)
	alter table public.p2
	alter table public.p
CREATE INDEX pi ON p (a)
	create index public.pi
	create index public.p1_a_idx
	create index public.p2_a_idx
	use table public.p
	use table public.p1
	use table public.p2
CREATE SEQUENCE sq
	create sequence public.sq
ALTER SEQUENCE sq RESTART
	alter sequence public.sq
CREATE TYPE ct AS (a int, b int)
	create type public.ct
ALTER TYPE ct ADD ATTRIBUTE c int
	alter type public.ct
ALTER TYPE ct RENAME ATTRIBUTE c TO cc
	use type public.ct
	rename composite type column public.ct.c -> public.ct.cc
COMMENT ON COLUMN ct.cc IS 'x'
	alter type public.ct
ALTER TYPE ct DROP ATTRIBUTE cc
	alter type public.ct
	drop composite type column public.ct.cc
CREATE TYPE en AS ENUM ('a')
	create type public.en
ALTER TYPE en ADD VALUE 'b'
	alter type public.en
ALTER TYPE en RENAME TO en2
	rename type public.en -> public.en2
CREATE DOMAIN dom AS int
	create type public.dom
CREATE FUNCTION f(int) RETURNS int LANGUAGE plpgsql AS 'BEGIN RETURN $1 + 1; END'
	create function public.f(integer)
CREATE OR REPLACE FUNCTION f(int) RETURNS int LANGUAGE plpgsql AS 'BEGIN RETURN $1; END'
	alter function public.f(integer)
CREATE FUNCTION s.imm(int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN 1 / $1; END'
	create function s.imm(integer)
CREATE FUNCTION outer_f() RETURNS int LANGUAGE plpgsql AS 'DECLARE x int; BEGIN x := s.imm(1); EXECUTE ''SELECT f(7)'' INTO x; RETURN x; END'
	create function public.outer_f()
SELECT f(1)
	execute function public.f
SELECT f(2), f(3), a FROM s.u WHERE f(a) > 0
	execute function public.f
SELECT s.imm(1)
	execute function s.imm
SELECT s.imm(0)
	execute function s.imm
SELECT lower('X'), count(*) FROM s.u
SELECT outer_f()
	execute function public.outer_f
	execute function s.imm
1> SELECT f(7)
	execute function public.f
PREPARE ps AS SELECT f(4)
EXECUTE ps
1> PREPARE ps AS SELECT f(4)
	execute function public.f
COPY (SELECT f(5)) TO '/dev/null'
	execute function public.f
EXPLAIN SELECT f(6)
	execute function public.f
CREATE AGGREGATE ag (int) (sfunc = int4pl, stype = int)
	create aggregate public.ag(integer)
SELECT ag(1)
	execute aggregate public.ag
CREATE PROCEDURE pr() LANGUAGE plpgsql AS 'BEGIN CREATE TABLE by_procedure (a int); COMMIT; DROP TABLE by_procedure; END'
	create procedure public.pr()
CALL pr()
	execute procedure public.pr
1> CREATE TABLE by_procedure (a int)
	create table public.by_procedure
1> DROP TABLE by_procedure
	drop table public.by_procedure
DO $$ BEGIN EXECUTE 'CREATE TABLE ' || 'dyn (a int)'; EXECUTE 'ALTER TABLE dyn RENAME TO dyn2'; EXECUTE 'DROP TABLE dyn2'; END $$
1> CREATE TABLE dyn (a int)
	create table public.dyn
1> ALTER TABLE dyn RENAME TO dyn2
	rename table public.dyn -> public.dyn2
1> DROP TABLE dyn2
	drop table public.dyn2
DO $$ BEGIN CREATE TABLE rolled_back (a int); PERFORM 1 / 0; EXCEPTION WHEN division_by_zero THEN NULL; END $$
1> CREATE TABLE rolled_back (a int)
	create table public.rolled_back
CREATE ROLE r1
	create role r1
CREATE ROLE r2 IN ROLE r1
	create role r2
ALTER ROLE r1 RENAME TO r3
	rename role r1 -> r3
ALTER ROLE r3 CREATEDB
	alter role r3
ALTER ROLE r3 IN DATABASE d SET work_mem = '1MB'
	alter role r3
	alter database d
GRANT r2 TO CURRENT_USER
	use role r2
	alter role postgres
REVOKE r2 FROM CURRENT_USER
	use role r2
	alter role postgres
GRANT SELECT ON s.u, v TO r3
	alter table s.u
	alter view public.v
GRANT UPDATE (a) ON s.u TO r3
	alter table s.u
REVOKE SELECT ON s.u FROM r3
	alter table s.u
GRANT USAGE ON SEQUENCE sq TO r3
	alter sequence public.sq
GRANT USAGE ON SCHEMA s TO r3
	alter schema s
GRANT EXECUTE ON FUNCTION f(int) TO r3
	alter function public.f(integer)
GRANT EXECUTE ON PROCEDURE pr TO r3
	alter procedure public.pr()
GRANT USAGE ON TYPE en2 TO r3
	alter type public.en2
GRANT USAGE ON LANGUAGE sql TO r3
	alter language sql
GRANT CONNECT ON DATABASE d TO r3
	alter database d
GRANT SELECT ON ALL TABLES IN SCHEMA s2 TO r3
	use schema s2
	alter table s2.e1
	alter view s2.e2
GRANT SET ON PARAMETER steno.log TO r3
	alter parameter ACL steno.log
GRANT ALTER SYSTEM ON PARAMETER steno.log TO r2
	alter parameter ACL steno.log
REVOKE SET ON PARAMETER steno.log FROM r3
	alter parameter ACL steno.log
REVOKE ALTER SYSTEM ON PARAMETER steno.log FROM r2
	alter parameter ACL steno.log
ALTER DEFAULT PRIVILEGES FOR ROLE r3 IN SCHEMA s GRANT SELECT ON TABLES TO r2
	create default acl for role r3 in schema s on tables
SELECT lo_create(4711)
	create large object 4711
GRANT SELECT ON LARGE OBJECT 4711 TO r3
	alter large object 4711
SELECT lo_unlink(4711)
	drop large object 4711
COMMENT ON TABLE s.u IS 'x'
	alter table s.u
COMMENT ON COLUMN s.u.a IS 'x'
	alter table s.u
COMMENT ON FUNCTION f(int) IS 'x'
	alter function public.f(integer)
CREATE TRIGGER tr BEFORE UPDATE ON s.u FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()
	create trigger tr on s.u
	use table s.u
ALTER TRIGGER tr ON s.u RENAME TO tr2
	rename trigger tr on s.u -> tr2 on s.u
	use table s.u
COMMENT ON TRIGGER tr2 ON s.u IS 'x'
	alter trigger tr2 on s.u
	use table s.u
COMMENT ON INDEX s.i IS 'x'
	alter index s.i
	use table s.u
CREATE TRIGGER tr3 BEFORE UPDATE ON s.u FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()
	create trigger tr3 on s.u
	use table s.u
DROP TRIGGER tr3 ON s.u
	drop trigger tr3 on s.u
	use table s.u
CREATE RULE ru AS ON DELETE TO s.u DO INSTEAD NOTHING
	create rule ru on s.u
	use table s.u
ALTER RULE ru ON s.u RENAME TO ru2
	rename rule ru on s.u -> ru2 on s.u
	use table s.u
ALTER RULE ru2 ON s.u RENAME TO ru
	rename rule ru2 on s.u -> ru on s.u
	use table s.u
CREATE RULE ru3 AS ON UPDATE TO v DO INSTEAD NOTHING
	create rule ru3 on public.v
	use view public.v
DROP RULE ru3 ON v
	drop rule ru3 on public.v
	use view public.v
CREATE POLICY po ON s.u USING (true)
	create policy po on s.u
	use table s.u
ALTER POLICY po ON s.u RENAME TO po2
	rename policy po on s.u -> po2 on s.u
	use table s.u
ALTER POLICY po2 ON s.u USING (false)
	alter policy po2 on s.u
	use table s.u
DROP POLICY po2 ON s.u
	drop policy po2 on s.u
	use table s.u
CREATE STATISTICS sta ON a, b FROM s.u
	create statistics object public.sta
	use table s.u
ALTER STATISTICS sta SET STATISTICS 10
	alter statistics object public.sta
	use table s.u
CREATE PUBLICATION pu FOR TABLE s.u
	create publication pu
	use table s.u
ALTER PUBLICATION pu DROP TABLE s.u
	drop publication relation s.u in publication pu
	use table s.u
ALTER PUBLICATION pu ADD TABLE s.u
	create publication relation s.u in publication pu
	use table s.u
ALTER PUBLICATION pu SET TABLE s.u
	use table s.u
CREATE PUBLICATION pu2 FOR TABLES IN SCHEMA s2
	create publication pu2
	use schema s2
ALTER PUBLICATION pu2 DROP TABLES IN SCHEMA s2
	drop publication namespace s2 in publication pu2
	use schema s2
DROP PUBLICATION pu2
	drop publication pu2
CREATE SUBSCRIPTION su CONNECTION 'dbname=x' PUBLICATION y WITH (connect = false)
	create subscription su
ALTER SUBSCRIPTION su SET (slot_name = NONE)
	alter subscription su
DROP SUBSCRIPTION su
	drop subscription su
CREATE FOREIGN DATA WRAPPER fdw
	create foreign-data wrapper fdw
CREATE SERVER srv FOREIGN DATA WRAPPER fdw
	create server srv
GRANT USAGE ON FOREIGN SERVER srv TO r3
	alter server srv
CREATE USER MAPPING FOR r3 SERVER srv
	create user mapping r3 on server srv
CREATE FOREIGN TABLE ft (a int) SERVER srv
	create foreign table public.ft
ALTER SERVER srv RENAME TO srv2
	rename server srv -> srv2
DROP FOREIGN DATA WRAPPER fdw CASCADE
	drop foreign table public.ft
	drop foreign-data wrapper fdw
	drop server srv2
	drop user mapping r3 on server srv2
CREATE OPERATOR @#@ (leftarg = int, rightarg = int, function = int4pl)
	create operator public.@#@(integer,integer)
CREATE OPERATOR FAMILY fam USING btree
	create operator family public.fam USING btree
ALTER OPERATOR FAMILY fam USING btree ADD OPERATOR 1 < (int, bigint)
	alter operator family public.fam USING btree
CREATE CAST (ct AS int) WITH INOUT
	create cast (public.ct AS integer)
CREATE EVENT TRIGGER ev ON ddl_command_end WHEN TAG IN ('CREATE COLLATION', 'ALTER COLLATION') EXECUTE FUNCTION refuse()
	create event trigger ev
CREATE COLLATION refused FROM "C"
ALTER COLLATION co RENAME TO co2
	alter collation public.co
ALTER EVENT TRIGGER ev DISABLE
	alter event trigger ev
DROP EVENT TRIGGER ev
	drop event trigger ev
CREATE DATABASE d2
	create database d2
ALTER DATABASE d2 RENAME TO d3
	rename database d2 -> d3
ALTER DATABASE d3 SET work_mem = '1MB'
	alter database d3
DROP DATABASE d3
	drop database d3
CREATE TABLESPACE space LOCATION ''
	create tablespace space
ALTER TABLESPACE space RENAME TO space2
	rename tablespace space -> space2
DROP TABLESPACE space2
	drop tablespace space2
VACUUM s.u, ctas
	use table s.u
	use table public.ctas
ANALYZE s.u
	use table s.u
CLUSTER s.u USING t_pkey
	use table s.u
ALTER TABLE ctas OWNER TO r3
	alter table public.ctas
REASSIGN OWNED BY r3 TO CURRENT_USER
	alter table public.ctas
	use role r3
	use role postgres
ALTER FUNCTION f(int) RENAME TO ff
	rename function public.f(integer) -> public.ff(integer)
SELECT ff(1)
	execute function public.ff
ALTER SCHEMA s RENAME TO s9
	rename schema s -> s9
SELECT s9.imm(2)
	execute function s9.imm
ALTER TABLE s9.u DROP COLUMN d
	alter table s9.u
	drop table column s9.u.d
DROP TYPE ct CASCADE
	drop cast (public.ct AS integer)
	drop type public.ct
DROP TABLE p
	drop index public.p1_a_idx
	drop index public.p2_a_idx
	drop index public.pi
	drop table public.p
	drop table public.p1
	drop table public.p2
DROP TABLE s9.u
DROP SCHEMA s9 CASCADE
	drop default acl for role r3 in schema s9 on tables
	drop function s9.imm(integer)
	drop index s9.i
	drop index s9.t_pkey
	drop materialized view public.m
	drop publication relation s9.u in publication pu
	drop rule ru on s9.u
	drop schema s9
	drop sequence s9.t_id_seq
	drop statistics object public.sta
	drop table constraint "Odd ""name_a_fkey" on public."Odd ""name"
	drop table constraint more on s9.u
	drop table constraint t_b_check on s9.u
	drop table constraint t_pkey on s9.u
	drop table s9.u
	drop trigger tr2 on s9.u
	drop view public.v
	use table public."Odd ""name"
DROP FUNCTION ff(int), outer_f()
	drop function public.ff(integer)
	drop function public.outer_f()
CREATE TABLE column_granted (a int)
	create table public.column_granted
GRANT SELECT (a) ON column_granted TO r3
	alter table public.column_granted
CREATE TABLE r3s ()
	create table public.r3s
GRANT SELECT ON r3s TO r3
	alter table public.r3s
ALTER TABLE r3s OWNER TO r3
	alter table public.r3s
DO $$ BEGIN SET ROLE r2; DROP OWNED BY r3; EXCEPTION WHEN insufficient_privilege THEN RESET ROLE; END $$
1> SET ROLE r2
1> DROP OWNED BY r3
1> RESET ROLE
DROP OWNED BY r3
	alter database d
	alter language sql
	alter procedure public.pr()
	alter sequence public.sq
	alter table public.column_granted
	alter table s2.e1
	alter type public.en2
	alter view s2.e2
	drop table public.r3s
	use role r3
DROP ROLE r2, r3
	drop role r2
	drop role r3
PREPARE one AS SELECT 1 AS a
CREATE TABLE executed AS EXECUTE one
	create table public.executed
1> PREPARE one AS SELECT 1 AS a
EXPLAIN ANALYZE CREATE TABLE explained AS EXECUTE one
	create table public.explained
1> PREPARE one AS SELECT 1 AS a
SET steno.log = 'ddl'
CREATE TABLE executed2 AS EXECUTE one
	create table public.executed2
SET steno.log = 'all'
SET steno.log_nested = off
DO $$ BEGIN CREATE TABLE kept (a int); DROP TABLE kept; CREATE TABLE kept2 (a int); END $$
	create table public.kept
	create table public.kept2
	drop table public.kept
END

my @cases = cases_of($table);

# What is mandatory has its own record, also with steno.log_nested = off.
my $node = new_node('main', conf => "steno.mandatory = 'setting'\n");

$node->safe_psql('postgres', 'CREATE DATABASE d');
$node->safe_psql('d', q{
CREATE FUNCTION refuse() RETURNS event_trigger LANGUAGE plpgsql AS 'BEGIN RAISE ''no''; END';
CREATE COLLATION co FROM "C";
});
my $user = value($node, 'SELECT current_user');

sub objects
{
	my ($r) = @_;

	return map { "$_->{action} $_->{type} $_->{name}" . (defined $_->{to} ? " -> $_->{to}" : '') }
	  @{ $r->{objects} // [] };
}

my @records = run_cases($node, 'd', 'objects', "SET allow_in_place_tablespaces = on;\n", @cases);

foreach my $case (@cases)
{
	my $r = shift @records;
	my @seen = objects($r);
	my @expected = map { s/\bpostgres$/$user/r } @{ $case->{has} };

	# from PostgreSQL 18 on, NOT NULL is a constraint
	@seen = grep { !/^drop table constraint \S+_not_null on / } @seen;

	# a cascade follows the numbers of its objects
	@seen = sort @seen if "@expected" =~ /drop/;
	@expected = sort @expected if "@expected" =~ /drop/;
	is_deeply(\@seen, \@expected, $case->{text}) or diag explain $r;
}

# Very many are all there: long_lists_are_whole.pl.
$node->safe_psql('d', q{
CREATE SCHEMA big;
DO $$ BEGIN FOR i IN 1 .. 1200 LOOP EXECUTE 'CREATE TABLE big.t' || i || ' ()'; END LOOP; END $$});
$node->safe_psql('d', 'DROP SCHEMA big CASCADE',
	connstr => $node->connstr('d') . ' application_name=big');
{
	my $r = the_record($node, 'DROP SCHEMA', kind => 'statement', application => 'big');
	my $listed = () = objects($r);

	is($listed, 1201, 'all objects are listed');
	is($r->{extra}, undef, 'none is left out');
}

# Functions are recorded as steno.log has the class.
$node->safe_psql('d', q{CREATE FUNCTION f(int) RETURNS int LANGUAGE plpgsql AS 'BEGIN RETURN $1; END'});
foreach my $case (
	[ 'function', [ 'SELECT f(1)', 'execute function public.f' ] ],
	[ 'all, -function', [ 'SELECT f(1)' ], ['SELECT 1'] ],
	[ 'write' ])
{
	my ($list, @expected) = @$case;
	my $name = $list =~ s/\W+/_/gr;

	$node->safe_psql('d', "SET steno.log = '$list'; SELECT f(1); SELECT 1;",
		connstr => $node->connstr('d') . " application_name=$name");
	is_deeply(
		[
			map { [ $_->{text}, objects($_) ] }
			  grep { $_->{text} =~ /^SELECT/ } statements($node, application => $name)
		],
		\@expected, "steno.log = '$list'");
}

# Memory is freed, whether statements succeed or fail.
{
	my $loop = q{DO $$ BEGIN FOR i IN 1 .. %d LOOP
		PERFORM f(i);
		CREATE TEMPORARY TABLE again (a int);
		DROP TABLE again;
		BEGIN
			EXECUTE 'SELECT 1 / f(0)';
		EXCEPTION WHEN division_by_zero THEN NULL;
		END;
	END LOOP; END $$;
	};
	my $size = q{SELECT sum(total_bytes) FROM pg_backend_memory_contexts WHERE name = 'pg_steno objects';};
	my @sizes = split /\n/,
	  $node->safe_psql('d', sprintf($loop, 10) . $size . sprintf($loop, 300) . $size);

	is($sizes[1], $sizes[0], 'memory stays as it was');
}
$node->stop;
verify_ok($node, 'the trail is whole');
done_testing();

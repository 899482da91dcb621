-- What pgaudit_agrees.pl runs on a server that has both pgaudit and pg_steno, in either order of loading.
-- A section begins with its name. Its next line has the settings, of both where both have them. Each section
-- runs in a database of its own.

---- catalog
-- settings: log = 'read'; log_catalog = off
CREATE TABLE t (a int);
SELECT relname FROM pg_class WHERE relname = 't';
SELECT count(*) FROM pg_class, pg_attribute WHERE false;
SELECT t.a FROM t, pg_class WHERE false;
SELECT t.a FROM pg_class, t WHERE false;
SELECT table_name FROM information_schema.tables WHERE false;
SELECT 1;
SELECT a FROM t;
COPY pg_am TO STDOUT;
COPY (SELECT amname FROM pg_am) TO STDOUT;
EXPLAIN SELECT oid FROM pg_class;

---- copy_rows
-- settings: log = 'all'; log_rows = on; log_relation = on; log_parameter = on
CREATE TABLE t (a int);
COPY t FROM STDIN;
1
2
\.
COPY t TO STDOUT;
COPY (SELECT a FROM t) TO STDOUT;
COPY (INSERT INTO t VALUES (3), (4) RETURNING a) TO STDOUT;
COPY (UPDATE t SET a = a + 1 RETURNING a) TO STDOUT;
COPY t (a) FROM STDIN WHERE a > 10;
1
20
\.

---- cursors
-- settings: log = 'read, write, misc'
CREATE TABLE t (a int);
INSERT INTO t VALUES (1), (2), (3);
BEGIN;
DECLARE c CURSOR FOR SELECT a FROM t;
DECLARE held CURSOR WITH HOLD FOR SELECT a + 1 FROM t;
FETCH 1 FROM c;
UPDATE t SET a = 10 WHERE CURRENT OF c;
FETCH ALL FROM c;
CLOSE c;
COMMIT;
FETCH ALL FROM held;
CLOSE held;
BEGIN;
DECLARE left_open CURSOR FOR SELECT a + 2 FROM t;
FETCH 1 FROM left_open;
COMMIT;
SELECT a + 3 FROM t;

---- ddl
-- settings: log = 'ddl'
CREATE TABLE t (a int PRIMARY KEY, b text UNIQUE);
CREATE TABLE "Quoted, name" ("a ""b""" int);
CREATE TABLE serial (a serial);
CREATE SCHEMA s CREATE TABLE in_schema (a int) CREATE VIEW view_in_schema AS SELECT a FROM in_schema;
CREATE INDEX t_b ON t (b);
CREATE UNIQUE INDEX CONCURRENTLY t_b2 ON t (b);
CREATE VIEW v AS SELECT a FROM t;
CREATE OR REPLACE VIEW v AS SELECT a FROM t WHERE a > 1;
CREATE MATERIALIZED VIEW m AS SELECT a FROM t;
REFRESH MATERIALIZED VIEW m;
CREATE SEQUENCE q;
ALTER SEQUENCE q RESTART 5;
CREATE TYPE colour AS ENUM ('red');
ALTER TYPE colour ADD VALUE 'green';
CREATE TYPE pair AS (a int, b int);
CREATE DOMAIN positive AS int CHECK (VALUE > 0);
ALTER DOMAIN positive SET NOT NULL;
CREATE FUNCTION f(i int, t text) RETURNS int LANGUAGE sql AS 'SELECT 1';
ALTER FUNCTION f(int, text) STABLE;
CREATE PROCEDURE p() LANGUAGE sql AS 'SELECT 1';
CREATE AGGREGATE mysum(int) (sfunc = int4pl, stype = int);
CREATE OPERATOR === (leftarg = int, rightarg = int, function = int4eq);
CREATE CAST (pair AS text) WITH INOUT;
CREATE FUNCTION tf() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
CREATE TRIGGER tr BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION tf();
ALTER TABLE t DISABLE TRIGGER tr;
CREATE RULE r AS ON DELETE TO v DO INSTEAD NOTHING;
CREATE POLICY pol ON t USING (true);
CREATE STATISTICS stat ON a, b FROM t;
CREATE TEXT SEARCH CONFIGURATION cfg (COPY = simple);
CREATE COLLATION coll (locale = 'C');
CREATE FOREIGN DATA WRAPPER fdw;
CREATE SERVER srv FOREIGN DATA WRAPPER fdw;
CREATE FOREIGN TABLE ft (a int) SERVER srv;
CREATE USER MAPPING FOR CURRENT_USER SERVER srv;
CREATE PUBLICATION pub FOR TABLE t;
CREATE ACCESS METHOD am TYPE TABLE HANDLER heap_tableam_handler;
CREATE TEMP TABLE temporary (a int);
CREATE UNLOGGED TABLE unlogged (a int);
CREATE TABLE parts (a int) PARTITION BY RANGE (a);
CREATE TABLE part1 PARTITION OF parts FOR VALUES FROM (0) TO (10);
ALTER TABLE parts DETACH PARTITION part1;
ALTER TABLE t ADD COLUMN c int DEFAULT 1, ADD COLUMN d int;
ALTER TABLE t ADD CONSTRAINT chk CHECK (a > 0), ALTER COLUMN c TYPE bigint;
ALTER TABLE t RENAME TO renamed;
ALTER TABLE renamed RENAME COLUMN b TO bb;
ALTER TABLE renamed SET SCHEMA s;
ALTER TABLE s.renamed OWNER TO CURRENT_USER;
ALTER INDEX s.t_b RENAME TO t_bb;
ALTER SCHEMA s RENAME TO s2;
COMMENT ON TABLE s2.renamed IS 'said';
COMMENT ON COLUMN s2.renamed.a IS 'said too';
SECURITY LABEL ON TABLE s2.renamed IS 'secret';
ALTER TABLE IF EXISTS missing ADD COLUMN a int;
CREATE TABLE IF NOT EXISTS "Quoted, name" (a int);
DROP TABLE IF EXISTS missing;
DROP VIEW v;
DROP MATERIALIZED VIEW m;
DROP SEQUENCE q;
ALTER TYPE pair RENAME ATTRIBUTE a TO c;
DROP TYPE pair CASCADE;
CREATE SEQUENCE q2;
CREATE TABLE defaulted (a int PRIMARY KEY, b int DEFAULT nextval('q2'));
ALTER TABLE defaulted CLUSTER ON defaulted_pkey;
DROP SEQUENCE q2 CASCADE;
ALTER FOREIGN TABLE ft OPTIONS (ADD x '1');
CREATE TABLE heir () INHERITS (defaulted);
DROP TABLE heir;
CREATE TABLE alike (LIKE defaulted);
DROP DOMAIN positive;
DROP FUNCTION f(int, text);
DROP PROCEDURE p();
DROP AGGREGATE mysum(int);
DROP OPERATOR === (int, int);
DROP TRIGGER tr ON s2.renamed;
DROP POLICY pol ON s2.renamed;
DROP STATISTICS stat;
DROP FOREIGN DATA WRAPPER fdw CASCADE;
DROP PUBLICATION pub;
DROP ACCESS METHOD am;
DROP INDEX s2.t_bb;
DROP TABLE parts, part1;
DROP SCHEMA s2 CASCADE;
CREATE TABLE made AS SELECT 1 AS a;
SELECT 2 AS a INTO made_too;
CREATE TABLE made_empty AS SELECT 1 AS a WITH NO DATA;
IMPORT FOREIGN SCHEMA x FROM SERVER missing INTO public;
CREATE DATABASE other_database;
ALTER DATABASE other_database SET work_mem = '1MB';
DROP DATABASE other_database;
REINDEX TABLE made;
CLUSTER;
DROP OWNED BY pg_monitor;

---- definer
-- settings: log = 'read, write, function'
CREATE ROLE definer_user;
CREATE TABLE hidden (a int PRIMARY KEY);
INSERT INTO hidden VALUES (1);
CREATE TABLE refers (a int REFERENCES hidden);
GRANT INSERT ON refers TO definer_user;
CREATE FUNCTION definer_reads() RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN RETURN (SELECT count(*) FROM hidden); END $$;
CREATE FUNCTION invoker_reads() RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN RETURN definer_reads(); END $$;
SELECT definer_reads();
SET SESSION AUTHORIZATION definer_user;
SELECT invoker_reads();
INSERT INTO refers VALUES (1);
SELECT a FROM hidden;
RESET SESSION AUTHORIZATION;
SELECT a FROM refers;

---- event_trigger
-- settings: log = 'ddl, write'
CREATE TABLE log (what text);
CREATE FUNCTION note_ddl() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO log VALUES (tg_tag); END $$;
CREATE EVENT TRIGGER noted ON ddl_command_end EXECUTE FUNCTION note_ddl();
CREATE TABLE t (a int);
ALTER TABLE t ADD COLUMN b int;
DROP TABLE t;
ALTER EVENT TRIGGER noted DISABLE;
CREATE TABLE unnoted (a int);
DROP EVENT TRIGGER noted;

---- everything
-- settings: log = 'all'; log_parameter = on; log_relation = on; log_rows = on
CREATE TABLE t (a int, b text);
INSERT INTO t VALUES (1, 'one');
SELECT a FROM t;
CREATE FUNCTION f(i int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN UPDATE t SET a = i; RETURN (SELECT count(*) FROM t); END $$;
SELECT f(3);
PREPARE p(int) AS SELECT b FROM t WHERE a = $1;
EXECUTE p(3);
BEGIN;
SET LOCAL work_mem = '2MB';
COMMIT;
DROP TABLE t;

---- extension
-- settings: log = 'all'
CREATE EXTENSION pg_steno;
ALTER EXTENSION pg_steno SET SCHEMA public;
COMMENT ON EXTENSION pg_steno IS 'mine';
DROP EXTENSION pg_steno;
CREATE EXTENSION missing_extension;

---- failing
-- settings: log = 'all, -misc'
CREATE TABLE t (a int PRIMARY KEY);
CREATE ROLE failing_role;
SELEC 1;
SELECT * FROM missing;
SELECT 1/0;
SELECT 1/(a - 1) FROM t;
INSERT INTO t VALUES (1), (1);
CREATE TABLE t (a int);
DROP TABLE missing;
ALTER TABLE t ADD COLUMN a int;
BEGIN;
INSERT INTO t VALUES (7);
SELECT 1/0 AS second;
SELECT 'refused';
CREATE TABLE refused (a int);
ROLLBACK;
SET ROLE failing_role;
SELECT a FROM t;
DELETE FROM t;
CREATE TABLE not_allowed (a int);
RESET ROLE;
DO $$ BEGIN RAISE EXCEPTION 'no'; END $$;
DO $$ BEGIN PERFORM 1/0; END $$;
BEGIN;
CREATE TABLE rolled_back (a int);
ROLLBACK;

---- function
-- settings: log = 'function'
CREATE SCHEMA s;
CREATE TABLE t (a int);
CREATE FUNCTION s.sqlf(i int) RETURNS bigint LANGUAGE sql AS 'SELECT count(*) + $1 FROM t';
CREATE FUNCTION plf(i int) RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN INSERT INTO t VALUES (i); RETURN s.sqlf(i); END $$;
CREATE FUNCTION "Odd, name"() RETURNS void LANGUAGE plpgsql AS $$ BEGIN PERFORM plf(1); PERFORM plf(2); END $$;
CREATE FUNCTION inlined(i int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT $1 + 1';
CREATE FUNCTION tf() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM s.sqlf(1); RETURN NEW; END $$;
CREATE TABLE triggered (a int);
CREATE TRIGGER tr BEFORE INSERT ON triggered FOR EACH ROW EXECUTE FUNCTION tf();
CREATE PROCEDURE proc(i int) LANGUAGE plpgsql AS $$ BEGIN INSERT INTO t VALUES (i); COMMIT; INSERT INTO t VALUES (i + 1); ROLLBACK; PERFORM plf(3); END $$;
CREATE AGGREGATE agg(int) (sfunc = int4pl, stype = int);
SELECT upper('x');
SELECT s.sqlf(1);
SELECT plf(1), plf(2);
SELECT "Odd, name"();
SELECT inlined(1);
SELECT inlined(a) FROM t;
SELECT agg(a) FROM t;
INSERT INTO triggered VALUES (1);
CALL proc(10);
DO $$ BEGIN PERFORM plf(5); END $$;
DO $$ BEGIN EXECUTE 'SELECT plf(6)'; END $$;
SELECT * FROM plf(7);

---- merge
-- settings: log = 'all, -ddl'
CREATE TABLE t (a int);
CREATE TABLE u (a int);
MERGE INTO t USING u ON t.a = u.a WHEN MATCHED THEN DELETE;
WITH d AS (DELETE FROM t RETURNING a) SELECT a FROM d;

---- misc
-- settings: log = 'misc, misc_set'
CREATE TABLE t (a int);
SET work_mem = '1MB';
SET LOCAL work_mem = '1MB';
SET TIME ZONE 'UTC';
SET SESSION AUTHORIZATION DEFAULT;
RESET work_mem;
SHOW work_mem;
DISCARD PLANS;
CHECKPOINT;
VACUUM t;
ANALYZE t;
BEGIN;
SAVEPOINT a;
ROLLBACK TO a;
RELEASE a;
LOCK TABLE t IN SHARE MODE;
SET TRANSACTION READ ONLY;
COMMIT;
START TRANSACTION ISOLATION LEVEL SERIALIZABLE;
ROLLBACK;
BEGIN;
PREPARE TRANSACTION 'gid';
ROLLBACK PREPARED 'gid';
LISTEN channel;
NOTIFY channel, 'payload';
UNLISTEN *;
LOAD 'plpgsql';
PREPARE p AS SELECT a FROM t WHERE a = $1;
EXECUTE p(1);
DEALLOCATE p;
BEGIN;
DECLARE c CURSOR FOR SELECT a FROM t;
FETCH c;
MOVE c;
CLOSE c;
COMMIT;
EXPLAIN SELECT a FROM t;
EXPLAIN (ANALYZE) INSERT INTO t VALUES (1);
EXPLAIN DELETE FROM t;
EXPLAIN ANALYZE UPDATE t SET a = a WHERE a = 1;
EXPLAIN ANALYZE WITH gone AS (DELETE FROM t WHERE a = 99 RETURNING a) SELECT a FROM gone;
EXPLAIN ANALYZE CREATE TABLE explained AS WITH gone AS (DELETE FROM t WHERE a = 99 RETURNING a) SELECT a FROM gone;
COPY (DELETE FROM t WHERE a = 98 RETURNING a) TO STDOUT;
COPY (INSERT INTO t VALUES (97) RETURNING a) TO STDOUT;
COPY (UPDATE t SET a = 96 WHERE a = 97 RETURNING a) TO STDOUT;
COPY (WITH gone AS (DELETE FROM t WHERE a = 95 RETURNING a) SELECT a FROM gone) TO STDOUT;
COPY (WITH gone AS (DELETE FROM t WHERE a = 95 RETURNING a) INSERT INTO t SELECT a FROM gone RETURNING a) TO STDOUT;
CREATE TABLE kept AS WITH gone AS (DELETE FROM t WHERE a = 95 RETURNING a) SELECT a FROM gone;
WITH gone AS (DELETE FROM t WHERE a = 95 RETURNING a) SELECT a INTO kept2 FROM gone;
DROP TABLE explained, kept, kept2;
SET CONSTRAINTS ALL DEFERRED;
SET ROLE NONE;
ALTER SYSTEM SET work_mem = '4MB';
ALTER SYSTEM RESET work_mem;
CALL missing();
CREATE PROCEDURE nothing() LANGUAGE sql AS '';
CALL nothing();
REINDEX TABLE t;

---- nested
-- settings: log = 'read, write, function'
CREATE TABLE t (a int);
CREATE FUNCTION inner_f(i int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN INSERT INTO t VALUES (i); RETURN i; END $$;
CREATE FUNCTION outer_f(i int) RETURNS int LANGUAGE plpgsql AS $$ DECLARE r int; BEGIN SELECT inner_f(i) INTO r; PERFORM a FROM t; RETURN r; END $$;
CREATE FUNCTION definer() RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN RETURN (SELECT count(*) FROM t); END $$;
CREATE FUNCTION dynamic() RETURNS void LANGUAGE plpgsql AS $$ BEGIN EXECUTE 'UPDATE t SET a = a + 10'; EXECUTE 'TRUNCATE t'; END $$;
CREATE FUNCTION looping() RETURNS void LANGUAGE plpgsql AS $$ DECLARE r record; BEGIN FOR r IN SELECT a FROM t LOOP DELETE FROM t WHERE a = r.a; END LOOP; END $$;
CREATE FUNCTION catching() RETURNS void LANGUAGE plpgsql AS $$ BEGIN BEGIN INSERT INTO t VALUES (1/0); EXCEPTION WHEN OTHERS THEN INSERT INTO t VALUES (0); END; END $$;
SELECT outer_f(1);
SELECT outer_f(2), outer_f(3);
SELECT definer();
SELECT dynamic();
INSERT INTO t VALUES (1), (2);
SELECT looping();
SELECT catching();
DO $$ DECLARE c CURSOR FOR SELECT a FROM t; r int; BEGIN OPEN c; FETCH c INTO r; CLOSE c; END $$;
CREATE TABLE p (a int PRIMARY KEY);
CREATE TABLE r (a int REFERENCES p ON DELETE CASCADE);
INSERT INTO p VALUES (1);
INSERT INTO r VALUES (1);
DELETE FROM p;

---- nested_ddl
-- settings: log = 'ddl, function'
DO $$ BEGIN CREATE TABLE t (a int PRIMARY KEY); EXECUTE 'ALTER TABLE t ADD COLUMN b int'; DROP TABLE t; END $$;
CREATE FUNCTION makes() RETURNS void LANGUAGE plpgsql AS $$ BEGIN CREATE TEMP TABLE made (a int); INSERT INTO made VALUES (1); DROP TABLE made; END $$;
SELECT makes();
CREATE PROCEDURE makes_too() LANGUAGE plpgsql AS $$ BEGIN CREATE TABLE x (a int); COMMIT; DROP TABLE x; END $$;
CALL makes_too();

---- no_statement
-- settings: log = 'write, ddl'; log_statement = off; log_parameter = on
CREATE TABLE t (a int);
INSERT INTO t VALUES (1);
PREPARE p(int) AS INSERT INTO t VALUES ($1);
EXECUTE p(1);
DROP TABLE t;

---- no_statement_read
-- settings: log = 'read'; log_statement = off
CREATE TABLE t (a int);
SELECT a FROM t;
COPY t TO STDOUT;

---- nothing
-- settings: log = 'none'
CREATE TABLE t (a int);
INSERT INTO t VALUES (1);
SELECT a FROM t;
SET work_mem = '1MB';
DROP TABLE t;

---- objects
-- settings: log = 'none'; role = 'auditor'
CREATE ROLE auditor;
CREATE ROLE auditor_too;
GRANT auditor_too TO auditor;
CREATE TABLE whole (a int, b int);
GRANT SELECT, INSERT, UPDATE, DELETE ON whole TO auditor;
CREATE TABLE reads (a int, b int);
GRANT SELECT ON reads TO auditor;
CREATE TABLE inherited (a int);
GRANT SELECT ON inherited TO auditor_too;
CREATE TABLE public_reads (a int);
GRANT SELECT ON public_reads TO PUBLIC;
CREATE TABLE columns (id int, salary int, boss int);
GRANT SELECT (salary), UPDATE (salary), INSERT (boss) ON columns TO auditor;
CREATE VIEW v AS SELECT a FROM reads;
CREATE VIEW vv AS SELECT a FROM public_reads;
GRANT SELECT ON vv TO auditor;
CREATE TABLE parts (a int) PARTITION BY RANGE (a);
CREATE TABLE part1 PARTITION OF parts FOR VALUES FROM (0) TO (10);
GRANT SELECT ON part1 TO auditor;
CREATE FUNCTION f() RETURNS bigint LANGUAGE sql AS 'SELECT count(*) FROM reads';
CREATE FUNCTION fp() RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN DELETE FROM whole; RETURN (SELECT count(*) FROM reads); END $$;
SELECT a FROM whole;
INSERT INTO whole VALUES (1, 1);
UPDATE whole SET a = 2;
DELETE FROM whole;
SELECT a FROM reads;
INSERT INTO reads VALUES (1, 1);
UPDATE reads SET a = 1;
UPDATE reads SET a = b;
SELECT a FROM inherited;
SELECT a FROM public_reads;
SELECT id FROM columns;
SELECT salary FROM columns;
SELECT columns FROM columns;
SELECT count(*) FROM columns;
SELECT id FROM columns WHERE salary = 1;
UPDATE columns SET id = 1;
UPDATE columns SET salary = 1;
UPDATE columns SET salary = 1 WHERE id = 1;
UPDATE columns SET id = salary;
INSERT INTO columns (id) VALUES (1);
INSERT INTO columns (boss) VALUES (1);
INSERT INTO columns DEFAULT VALUES;
DELETE FROM columns;
SELECT whole.a, reads.a FROM whole, reads, public_reads;
INSERT INTO whole SELECT a, b FROM reads;
MERGE INTO whole w USING reads r ON w.a = r.a WHEN MATCHED THEN DELETE;
SELECT a FROM v;
SELECT a FROM vv;
SELECT a FROM parts;
SELECT a FROM part1;
SELECT a FROM whole FOR UPDATE;
COPY reads TO STDOUT;
COPY (SELECT a FROM reads) TO STDOUT;
COPY whole FROM PROGRAM 'true';
COPY columns (id) TO STDOUT;
COPY columns (salary) TO STDOUT;
CREATE TABLE made AS SELECT a FROM reads;
EXPLAIN SELECT a FROM reads;
EXPLAIN ANALYZE SELECT b FROM reads;
SELECT f();
SELECT fp();
DO $$ BEGIN INSERT INTO whole VALUES (3, 3); END $$;
BEGIN;
DECLARE c CURSOR FOR SELECT b FROM whole;
FETCH c;
CLOSE c;
COMMIT;
PREPARE p AS SELECT b, a FROM whole;
EXECUTE p;
TRUNCATE whole;
REVOKE SELECT ON reads FROM auditor;
SELECT a, 1 FROM reads;
GRANT SELECT ON reads TO auditor;
SELECT a, 2 FROM reads;

---- objects_session
-- settings: log = 'read, write'; role = 'auditor2'; log_relation = on
CREATE ROLE auditor2;
CREATE TABLE seen (a int);
CREATE TABLE unseen (a int);
CREATE VIEW v AS SELECT a FROM seen;
GRANT SELECT ON seen TO auditor2;
SELECT a FROM seen;
SELECT a FROM unseen;
SELECT seen.a FROM seen, unseen;
SELECT a FROM v;
INSERT INTO unseen SELECT a FROM seen;
INSERT INTO seen VALUES (1);
SELECT 1;

---- parameters
-- settings: log = 'all, -ddl'; log_parameter = on
CREATE TABLE t (a int, b text);
PREPARE p(int, text) AS SELECT a FROM t WHERE a = $1 AND b = $2;
EXECUTE p(1, 'plain');
EXECUTE p(NULL, 'with, comma');
EXECUTE p(2, 'with "quotes"');
EXECUTE p(3, E'two\nlines');
EXECUTE p(4, NULL);
EXECUTE p(5, '');
PREPARE i(int, text) AS INSERT INTO t VALUES ($1, $2);
EXECUTE i(1, 'one');
CREATE FUNCTION f(x int) RETURNS void LANGUAGE plpgsql AS $$ BEGIN INSERT INTO t VALUES (x, 'f'); EXECUTE 'DELETE FROM t WHERE a = $1' USING x; END $$;
SELECT f(7);
SELECT 1;

---- prepared
-- settings: log = 'all'; log_parameter = on
CREATE TABLE t (a int, b text);
PREPARE q AS SELECT a FROM t;
EXECUTE q;
PREPARE c(int) AS INSERT INTO t VALUES ($1, 'x') RETURNING a;
EXECUTE c(4);
CREATE TABLE made AS EXECUTE q;
EXPLAIN EXECUTE q;
DEALLOCATE q;
DEALLOCATE ALL;

---- references
-- settings: log = 'all'; log_relation = on
CREATE TABLE referenced (a int PRIMARY KEY);
CREATE TABLE refers (a int REFERENCES referenced);
CREATE TABLE refers_later (a int);
ALTER TABLE refers_later ADD FOREIGN KEY (a) REFERENCES referenced;
INSERT INTO referenced VALUES (1);
INSERT INTO refers VALUES (1);
DELETE FROM refers;
DROP TABLE referenced CASCADE;
DROP TABLE refers;

---- references_audited
-- settings: role = 'auditor'
CREATE ROLE auditor;
CREATE TABLE referenced (a int PRIMARY KEY);
GRANT ALL ON referenced TO auditor;
CREATE TABLE refers (a int REFERENCES referenced);
DROP TABLE referenced CASCADE;
DROP TABLE refers;
DROP ROLE auditor;

---- relations
-- settings: log = 'all, -ddl'; log_relation = on
CREATE TABLE t (a int);
CREATE TABLE u (a int);
CREATE TABLE parts (a int) PARTITION BY RANGE (a);
CREATE TABLE part1 PARTITION OF parts FOR VALUES FROM (0) TO (10);
CREATE TABLE part2 PARTITION OF parts FOR VALUES FROM (10) TO (20);
CREATE VIEW v AS SELECT a FROM t;
CREATE MATERIALIZED VIEW m AS SELECT a FROM t;
CREATE SEQUENCE s;
SELECT a FROM t;
SELECT t.a FROM t, u;
SELECT t.a FROM t, t t2;
SELECT a FROM v;
SELECT a FROM m;
SELECT last_value FROM s;
SELECT a FROM parts;
SELECT a FROM part1;
INSERT INTO parts VALUES (5), (15);
UPDATE parts SET a = a;
DELETE FROM parts WHERE a < 100;
SELECT 1;
SELECT relname FROM pg_class WHERE false;
INSERT INTO t SELECT a FROM u;
UPDATE t SET a = u.a FROM u;
DELETE FROM t USING u WHERE t.a = u.a;
MERGE INTO t USING u ON t.a = u.a WHEN MATCHED THEN DELETE;
WITH d AS (DELETE FROM t RETURNING a) INSERT INTO u SELECT a FROM d;
COPY t TO STDOUT;
COPY (SELECT t.a FROM t, u) TO STDOUT;
COPY t FROM PROGRAM 'true';
TRUNCATE t, u;
CREATE TABLE made AS SELECT t.a FROM t, u;
EXPLAIN SELECT a FROM v;
LOCK TABLE t;

---- role
-- settings: log = 'role'
CREATE ROLE role_a;
CREATE USER role_b PASSWORD 'secret' NOLOGIN;
CREATE GROUP role_c;
ALTER ROLE role_a WITH PASSWORD 'very secret';
ALTER ROLE role_a CREATEDB;
ALTER ROLE role_a SET work_mem = '1MB';
ALTER ROLE role_a RESET ALL;
ALTER ROLE role_c RENAME TO role_d;
GRANT role_a TO role_b;
REVOKE role_a FROM role_b;
CREATE TABLE t (a int, b int);
GRANT SELECT ON t TO role_a;
GRANT SELECT (a), UPDATE (b) ON t TO role_a, role_b;
GRANT ALL ON ALL TABLES IN SCHEMA public TO role_a;
REVOKE ALL ON t FROM role_a;
GRANT USAGE ON SCHEMA public TO role_a;
GRANT CONNECT ON DATABASE role TO role_a;
ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT SELECT ON TABLES TO role_a;
ALTER DEFAULT PRIVILEGES IN SCHEMA public REVOKE SELECT ON TABLES FROM role_a;
REASSIGN OWNED BY role_a TO role_d;
DROP OWNED BY role_a, role_b;
ALTER TABLE t OWNER TO role_d;
DROP TABLE t;
DROP ROLE role_a, role_b;
DROP USER role_d;
DROP ROLE IF EXISTS role_missing;
CREATE ROLE role_of_schema;
CREATE SCHEMA with_grant CREATE TABLE granted (a int) GRANT SELECT ON granted TO role_of_schema;
DROP SCHEMA with_grant CASCADE;
DROP ROLE role_of_schema;

---- rows
-- settings: log = 'read, write, misc, role'; log_rows = on
CREATE TABLE t (a int);
INSERT INTO t SELECT generate_series(1, 5);
SELECT a FROM t;
SELECT a FROM t LIMIT 2;
UPDATE t SET a = a + 1 WHERE a > 3;
DELETE FROM t WHERE a = 1;
SELECT 1;
CREATE TABLE made AS SELECT a FROM t;
COPY t TO STDOUT;
COPY (SELECT a FROM t LIMIT 1) TO STDOUT;
BEGIN;
DECLARE c CURSOR FOR SELECT a FROM t;
FETCH 2 FROM c;
MOVE 1 FROM c;
CLOSE c;
COMMIT;
TRUNCATE t;
CREATE ROLE rows_role;
COPY t FROM STDIN;
1
2
\.
COPY (SELECT 1 WHERE false) TO STDOUT;

---- select
-- settings: log = 'read'
CREATE TABLE t (a int, b text);
CREATE VIEW v AS SELECT a FROM t;
CREATE MATERIALIZED VIEW m AS SELECT a FROM t;
CREATE SEQUENCE s;
INSERT INTO t VALUES (1, 'one');
SELECT 1;
SELECT * FROM t;
SELECT 'with "quotes", commas
and lines' AS x FROM t;
SELECT a FROM v;
SELECT a FROM m;
SELECT t.a FROM t, v, m WHERE t.a = v.a;
SELECT last_value FROM s;
SELECT nextval('s');
SELECT relname FROM pg_class WHERE relname = 't';
SELECT relname FROM pg_class c JOIN t ON c.relnatts = t.a WHERE false;
TABLE t;
VALUES (1), (2);
SELECT a FROM t FOR UPDATE;
SELECT a FROM t FOR KEY SHARE;
WITH w AS (SELECT a FROM t) SELECT count(*) FROM w;
WITH w AS (INSERT INTO t VALUES (2, 'two') RETURNING a) SELECT a FROM w;
SELECT a, (SELECT max(a) FROM v) FROM t WHERE EXISTS (SELECT FROM m);
SELECT a INTO made FROM t;
CREATE TABLE made_too AS SELECT a FROM t;
COPY t TO STDOUT;
COPY (SELECT a FROM t) TO STDOUT;
EXPLAIN SELECT a FROM t;
EXPLAIN ANALYZE SELECT a AS analyzed FROM t;
REFRESH MATERIALIZED VIEW m;
SELECT count(*) FROM (VALUES (1)) AS x;
SELECT a FROM t UNION ALL SELECT a FROM v ORDER BY 1;
EXPLAIN SELECT 1;
EXPLAIN (COSTS off) VALUES (1);
EXPLAIN ANALYZE SELECT 2;
CREATE TABLE made_of_nothing AS SELECT 1 AS one;
COPY (SELECT 3) TO STDOUT;
SELECT 4 AS four INTO made_of_four;
PREPARE q AS SELECT 5;
EXPLAIN EXECUTE q;
CREATE TABLE made_of_prepared AS EXECUTE q;
CREATE MATERIALIZED VIEW m_of_nothing AS SELECT 6 AS six;
REFRESH MATERIALIZED VIEW m_of_nothing;

---- statement_once
-- settings: log = 'read, write, ddl'; log_statement_once = on; log_relation = on
CREATE TABLE t (a int PRIMARY KEY, b text UNIQUE);
CREATE TABLE u (a int);
SELECT t.a FROM t, u;
INSERT INTO u SELECT a FROM t;
DROP TABLE t, u;

---- strings
-- settings: log = 'read, write, ddl'
CREATE TABLE t (a int)\; INSERT INTO t VALUES (1)\; SELECT a FROM t;
SELECT 1\; SELECT 2;
  SELECT   3 ;
SELECT 4 -- comment
;
/* before */ SELECT 5;
SELECT 'Grüße' AS x;

---- write
-- settings: log = 'write'
CREATE TABLE t (a int PRIMARY KEY, b text);
CREATE TABLE u (a int, b text);
CREATE VIEW v AS SELECT a, b FROM t;
INSERT INTO t VALUES (1, 'one');
INSERT INTO t SELECT 2, 'two' FROM pg_class LIMIT 1;
INSERT INTO v VALUES (3, 'three');
INSERT INTO t VALUES (1, 'one') ON CONFLICT (a) DO UPDATE SET b = 'uno';
INSERT INTO t VALUES (4, 'four') RETURNING b;
UPDATE t SET b = 'x' WHERE a = 1;
UPDATE t SET b = u.b FROM u WHERE u.a = t.a;
UPDATE v SET b = 'y' WHERE a = 2;
DELETE FROM t WHERE a = 3;
DELETE FROM t USING u WHERE u.a = t.a;
MERGE INTO t USING u ON t.a = u.a WHEN MATCHED THEN UPDATE SET b = u.b WHEN NOT MATCHED THEN INSERT VALUES (u.a, u.b);
WITH d AS (DELETE FROM t WHERE a = 4 RETURNING a) SELECT a FROM d;
WITH d AS (DELETE FROM t WHERE a = 4 RETURNING a) INSERT INTO u SELECT a FROM d;
SELECT a FROM t FOR UPDATE;
TRUNCATE u;
TRUNCATE t, u;
COPY t FROM PROGRAM 'true';
INSERT INTO t SELECT a FROM u;

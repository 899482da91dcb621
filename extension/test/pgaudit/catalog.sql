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

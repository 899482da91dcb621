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

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

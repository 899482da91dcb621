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

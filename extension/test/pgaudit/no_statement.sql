-- settings: log = 'read, write, ddl'; log_statement = off; log_parameter = on
CREATE TABLE t (a int);
INSERT INTO t VALUES (1);
SELECT a FROM t;
PREPARE p(int) AS SELECT a FROM t WHERE a = $1;
EXECUTE p(1);
DROP TABLE t;

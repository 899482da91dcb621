-- settings: log = 'write, ddl'; log_statement = off; log_parameter = on
CREATE TABLE t (a int);
INSERT INTO t VALUES (1);
PREPARE p(int) AS INSERT INTO t VALUES ($1);
EXECUTE p(1);
DROP TABLE t;

-- settings: log = 'none'
CREATE TABLE t (a int);
INSERT INTO t VALUES (1);
SELECT a FROM t;
SET work_mem = '1MB';
DROP TABLE t;

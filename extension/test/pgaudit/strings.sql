-- settings: log = 'read, write, ddl'
CREATE TABLE t (a int)\; INSERT INTO t VALUES (1)\; SELECT a FROM t;
SELECT 1\; SELECT 2;
  SELECT   3 ;
SELECT 4 -- comment
;
/* before */ SELECT 5;
SELECT 'Grüße' AS x;

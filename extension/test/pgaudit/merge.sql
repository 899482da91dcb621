-- settings: log = 'all, -ddl'
CREATE TABLE t (a int);
CREATE TABLE u (a int);
MERGE INTO t USING u ON t.a = u.a WHEN MATCHED THEN DELETE;
WITH d AS (DELETE FROM t RETURNING a) SELECT a FROM d;

-- settings: log = 'read, write, ddl'; log_statement_once = on; log_relation = on
CREATE TABLE t (a int PRIMARY KEY, b text UNIQUE);
CREATE TABLE u (a int);
SELECT t.a FROM t, u;
INSERT INTO u SELECT a FROM t;
DROP TABLE t, u;

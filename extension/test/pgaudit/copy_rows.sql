-- settings: log = 'all'; log_rows = on; log_relation = on; log_parameter = on
CREATE TABLE t (a int);
COPY t FROM STDIN;
1
2
\.
COPY t TO STDOUT;
COPY (SELECT a FROM t) TO STDOUT;
COPY (INSERT INTO t VALUES (3), (4) RETURNING a) TO STDOUT;
COPY (UPDATE t SET a = a + 1 RETURNING a) TO STDOUT;
COPY t (a) FROM STDIN WHERE a > 10;
1
20
\.

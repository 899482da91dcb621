-- settings: log = 'read'; log_statement = off
CREATE TABLE t (a int);
SELECT a FROM t;
COPY t TO STDOUT;

-- What recording might break: each statement has the same results as without it.
CREATE TABLE t (id int PRIMARY KEY, v text);

-- errors inside hooks and functions, caught and not
CREATE FUNCTION fails() RETURNS int LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO t VALUES (1, 'a'), (1, 'b');
  RETURN 1;
END $$;
CREATE FUNCTION catches(depth int) RETURNS text LANGUAGE plpgsql AS $$
DECLARE inner_result text;
BEGIN
  IF depth > 0 THEN inner_result := catches(depth - 1); END IF;
  PERFORM fails();
  RETURN 'not reached';
EXCEPTION WHEN unique_violation THEN
  RETURN coalesce(inner_result || ' ', '') || depth;
END $$;
SELECT fails();
SELECT catches(5);
SELECT count(*) FROM t;

-- cursors that outlive savepoints, or do not
BEGIN;
DECLARE before CURSOR FOR SELECT generate_series(1, 5);
FETCH 1 FROM before;
SAVEPOINT s;
DECLARE inside CURSOR FOR SELECT generate_series(11, 15);
FETCH 2 FROM inside;
FETCH 1 FROM before;
ROLLBACK TO s;
FETCH 1 FROM before;
FETCH 1 FROM inside;
ROLLBACK;
BEGIN;
DECLARE held CURSOR WITH HOLD FOR SELECT generate_series(1, 3);
COMMIT;
FETCH ALL FROM held;
CLOSE held;

-- cursors in functions, and loops that end early
CREATE FUNCTION some_rows() RETURNS SETOF int LANGUAGE plpgsql AS $$
DECLARE c CURSOR FOR SELECT generate_series(1, 100); i int;
BEGIN
  FOR i IN SELECT generate_series(1, 100) LOOP
    RETURN NEXT i;
    EXIT WHEN i = 2;
  END LOOP;
  OPEN c;
  FETCH c INTO i;
  RETURN NEXT -i;
END $$;
SELECT * FROM some_rows();
CREATE FUNCTION gives_cursor() RETURNS refcursor LANGUAGE plpgsql AS $$
DECLARE c refcursor := 'given';
BEGIN OPEN c FOR SELECT generate_series(21, 23); RETURN c; END $$;
BEGIN;
SELECT gives_cursor();
FETCH ALL FROM given;
COMMIT;

-- procedures that end transactions
CREATE PROCEDURE steps() LANGUAGE plpgsql AS $$
BEGIN
  FOR i IN 1 .. 4 LOOP
    INSERT INTO t VALUES (i, 'step');
    IF i % 2 = 0 THEN ROLLBACK; ELSE COMMIT; END IF;
  END LOOP;
END $$;
CALL steps();
SELECT id FROM t ORDER BY id;

-- a utility statement that runs others
CREATE SCHEMA made CREATE TABLE a (i int PRIMARY KEY) CREATE VIEW b AS SELECT i FROM a;
CREATE TABLE made.c AS SELECT catches(1) AS x;
EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off, BUFFERS off) EXECUTE missing;
PREPARE p(int) AS INSERT INTO t VALUES ($1, 'prepared') RETURNING id;
-- PostgreSQL 18 counts fractions of rows
EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off, BUFFERS off) EXECUTE p(100) \g (format=unaligned) | sed 's/rows=1.00 /rows=1 /'
EXECUTE p(100);
EXECUTE p(101);
CREATE TABLE made.d AS EXECUTE p(102);
COPY (SELECT catches(0)) TO STDOUT;
REFRESH MATERIALIZED VIEW missing;
DROP SCHEMA made CASCADE;

-- while a statement switches recording off and on
DO $$
BEGIN
  PERFORM 1;
  SET LOCAL steno.log = 'none';
  PERFORM 2;
  SET LOCAL steno.log = 'all';
  PERFORM 3;
END $$;
BEGIN;
DECLARE c CURSOR FOR SELECT generate_series(1, 3);
SET LOCAL steno.log = 'none';
FETCH 1 FROM c;
SET LOCAL steno.log = 'all';
FETCH 1 FROM c;
COMMIT;

-- an output function that fails does not affect the statement whose parameter it
-- prints
SET client_min_messages = warning;
CREATE TYPE broken;
CREATE FUNCTION broken_in(cstring) RETURNS broken LANGUAGE internal STRICT IMMUTABLE AS 'oidin';
CREATE FUNCTION broken_out(broken) RETURNS cstring LANGUAGE internal STRICT IMMUTABLE AS 'enum_out';
CREATE TYPE broken (INPUT = broken_in, OUTPUT = broken_out, INTERNALLENGTH = 4,
                    PASSEDBYVALUE, ALIGNMENT = int4);
RESET client_min_messages;
SELECT '5'::broken;
PREPARE q(broken) AS INSERT INTO t VALUES (500, CASE WHEN $1 IS NULL THEN 'null' ELSE 'value' END) RETURNING v;
EXECUTE q('5');
BEGIN;
DELETE FROM t WHERE id = 500;
EXECUTE q(NULL);
COMMIT;

-- nothing left behind
SELECT count(*) FROM pg_cursors;
DROP TABLE t;
DROP FUNCTION fails(), catches(int), some_rows(), gives_cursor();
DROP PROCEDURE steps();
DEALLOCATE ALL;
DROP TYPE broken CASCADE;

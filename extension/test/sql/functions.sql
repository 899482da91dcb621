-- Views and functions, and who may use them.
CREATE EXTENSION pg_steno;

\d steno.writers
\d steno.rings
\d steno.rules
\d steno.in_flight
SELECT p.oid::regprocedure, provolatile, proparallel, proisstrict, prosecdef
  FROM pg_proc p WHERE pronamespace = 'steno'::regnamespace ORDER BY 1;
SELECT c.relname, obj_description(c.oid) FROM pg_class c
  WHERE relnamespace = 'steno'::regnamespace ORDER BY 1;

SELECT writer, pid IS NOT NULL AS running, stream, segment, lag_bytes >= 0 AS lag, errors
  FROM steno.writers;
SELECT writer, pid = pg_backend_pid() AS mine, size, fill BETWEEN 0 AND 1 AS fill,
    lag_bytes <= bytes AS lag, records > 0 AS records, drops
  FROM steno.rings WHERE pid = pg_backend_pid();

SELECT pid = pg_backend_pid() AS mine, usename = current_user AS usename, datname = current_database() AS datname,
    application_name, class, command, objects, params, running >= '0' AS running, xact_start = now() AS xact_start
  FROM steno.in_flight WHERE pid = pg_backend_pid();
PREPARE params AS SELECT params, (SELECT array_agg(r.name) FROM unnest(relations) r) AS relations
  FROM steno.in_flight, pg_am WHERE pid = pg_backend_pid() AND amname = $1 LIMIT $2;
EXECUTE params ('btree', 1);

-- flush: what was recorded before is written, and synced
SELECT records AS records_before, syncs AS syncs_before FROM steno.writers \gset
SELECT steno.flush();
SELECT records > :records_before AS written, syncs > :syncs_before AS synced,
    last_write <= now() AS time_of_write, last_sync <= now() AS time_of_sync
  FROM steno.writers;

-- rotate
SELECT segment AS segment_before FROM steno.writers \gset
SELECT steno.rotate();
SELECT segment - :segment_before AS segments FROM steno.writers;

-- notes
SELECT records AS records_before FROM steno.rings WHERE pid = pg_backend_pid() \gset
SELECT steno.note('a note');
SELECT steno.note('');
SELECT steno.note(NULL);
SELECT records - :records_before > 4 AS counted FROM steno.rings WHERE pid = pg_backend_pid();
-- hints and details differ between versions of PostgreSQL
\set VERBOSITY terse
SELECT steno.note();
SELECT steno.note(1);
\set VERBOSITY default

-- in a transaction, and in one that fails
BEGIN;
SELECT steno.flush();
SELECT steno.note('in a transaction');
SELECT 1/0;
SELECT steno.flush();
ROLLBACK;

-- everybody
CREATE ROLE regress_steno_role;
SET ROLE regress_steno_role;
SELECT count(*) FROM steno.writers;
SELECT count(*) FROM steno.rings;
SELECT count(*) FROM steno.rules;
SELECT steno.flush();
SELECT steno.note('x');
RESET ROLE;
GRANT USAGE ON SCHEMA steno TO regress_steno_role;
SET ROLE regress_steno_role;
SELECT count(*) FROM steno.writers;
SELECT count(*) FROM steno.rings;
SELECT count(*) FROM steno.writers();
SELECT count(*) FROM steno.rings();
SELECT count(*) FROM steno.rules();
SELECT count(*) FROM steno.in_flight;
SELECT count(*) FROM steno.in_flight();
SELECT steno.flush();
SELECT steno.rotate();
SELECT steno.note('x');
RESET ROLE;
REVOKE USAGE ON SCHEMA steno FROM regress_steno_role;

-- pg_monitor reads the views, and does no more
GRANT pg_monitor TO regress_steno_role;
SET ROLE regress_steno_role;
SELECT count(*) FROM steno.writers;
SELECT count(*) > 0 AS rings FROM steno.rings;
SELECT count(*) FROM steno.in_flight;
SELECT count(*) FROM steno.in_flight();
SELECT count(*) FROM steno.rules;
SELECT steno.flush();
SELECT steno.rotate();
SELECT steno.note('x');
DELETE FROM steno.rings;
RESET ROLE;

-- pg_read_all_settings reads the rules
REVOKE pg_monitor FROM regress_steno_role;
GRANT pg_read_all_settings TO regress_steno_role;
SET ROLE regress_steno_role;
SELECT count(*) FROM steno.rules;
SELECT count(*) FROM steno.rings;
RESET ROLE;
REVOKE pg_read_all_settings FROM regress_steno_role;
GRANT pg_monitor TO regress_steno_role;

-- what was granted
GRANT USAGE ON SCHEMA steno TO regress_steno_role;
GRANT EXECUTE ON FUNCTION steno.note(text), steno.in_flight() TO regress_steno_role;
GRANT SELECT ON steno.in_flight TO regress_steno_role;
SET ROLE regress_steno_role;
SELECT steno.note('granted');
SELECT count(*) > 0 AS in_flight FROM steno.in_flight;
RESET ROLE;

-- declared by another version
CREATE FUNCTION public.old_writers(OUT a int, OUT b int) RETURNS SETOF record
  LANGUAGE C AS '$libdir/pg_steno', 'steno_sql_writers';
SELECT * FROM public.old_writers();
DROP FUNCTION public.old_writers;

DROP OWNED BY regress_steno_role;
DROP ROLE regress_steno_role;
DROP EXTENSION pg_steno;

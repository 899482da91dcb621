/* pg_steno 0.1: views and functions of the statement recorder; what has changed since is in the update scripts */

-- complain if script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION pg_steno" to load this file. \quit

CREATE FUNCTION steno.writers(
    OUT writer int4,
    OUT pid int4,
    OUT records int8,
    OUT blocks int8,
    OUT raw_bytes int8,
    OUT stored_bytes int8,
    OUT stream int4,
    OUT segment int8,
    OUT lag_bytes int8,
    OUT passes int8,
    OUT syncs int8,
    OUT errors int8,
    OUT sync_waits int8,
    OUT wakes int8,
    OUT woken int8,
    OUT last_write timestamptz,
    OUT last_sync timestamptz,
    OUT state text,
    OUT state_since timestamptz,
    OUT failure text,
    OUT refused int8,
    OUT disk_free_percent float8)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'steno_sql_writers'
LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED;

CREATE FUNCTION steno.rings(
    OUT ring int4,
    OUT writer int4,
    OUT pid int4,
    OUT records int8,
    OUT bytes int8,
    OUT lag_bytes int8,
    OUT size int8,
    OUT fill float8,
    OUT waits int8,
    OUT wait_ms float8,
    OUT drops int8)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'steno_sql_rings'
LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED;

CREATE FUNCTION steno.rules(
    OUT rule_number int4,
    OUT file_name text,
    OUT line_number int4,
    OUT action text,
    OUT users text[],
    OUT databases text[],
    OUT applications text[],
    OUT clients text[],
    OUT classes text[],
    OUT objects text[],
    OUT options text,
    OUT error text)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'steno_sql_rules'
LANGUAGE C STRICT VOLATILE PARALLEL SAFE;

CREATE FUNCTION steno.status(
    OUT state text,
    OUT failure text,
    OUT refused int8,
    OUT dropped int8,
    OUT lost int8,
    OUT disk_free_percent float8,
    OUT directory text,
    OUT ring_file text)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'steno_sql_status'
LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED;

CREATE FUNCTION steno.slots(
    OUT slot_name text,
    OUT state text,
    OUT stream int4,
    OUT segment int8,
    OUT block int8,
    OUT retained_segments int8,
    OUT retained_bytes int8)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'steno_sql_slots'
LANGUAGE C STRICT VOLATILE PARALLEL SAFE;

CREATE FUNCTION steno.flush()
RETURNS void
AS 'MODULE_PATHNAME', 'steno_sql_flush'
LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED;

CREATE FUNCTION steno.rotate()
RETURNS void
AS 'MODULE_PATHNAME', 'steno_sql_rotate'
LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED;

CREATE FUNCTION steno.note(note text)
RETURNS void
AS 'MODULE_PATHNAME', 'steno_sql_note'
LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED;

CREATE VIEW steno.writers AS SELECT * FROM steno.writers();
CREATE VIEW steno.rings AS SELECT * FROM steno.rings();
CREATE VIEW steno.status AS SELECT * FROM steno.status();
CREATE VIEW steno.rules AS SELECT * FROM steno.rules();
CREATE VIEW steno.slots AS SELECT * FROM steno.slots();

COMMENT ON VIEW steno.writers IS 'what each writer has written since the server started';
COMMENT ON VIEW steno.rings IS 'rings of processes: how full they are, and how often a statement had to wait';
COMMENT ON VIEW steno.status IS 'whether the trail can be written, and what is not in it';
COMMENT ON VIEW steno.rules IS 'rules and errors of the rules file as it is now';
COMMENT ON VIEW steno.slots IS 'positions of readers, and what they keep from being deleted';
COMMENT ON FUNCTION steno.flush() IS 'write all records so far to the trail and flush it to disk';
COMMENT ON FUNCTION steno.rotate() IS 'begin new segments';
COMMENT ON FUNCTION steno.note(text) IS 'write a note into the trail';

REVOKE ALL ON FUNCTION steno.writers() FROM PUBLIC;
REVOKE ALL ON FUNCTION steno.rings() FROM PUBLIC;
REVOKE ALL ON FUNCTION steno.status() FROM PUBLIC;
REVOKE ALL ON FUNCTION steno.rules() FROM PUBLIC;
REVOKE ALL ON FUNCTION steno.slots() FROM PUBLIC;
REVOKE ALL ON FUNCTION steno.flush() FROM PUBLIC;
REVOKE ALL ON FUNCTION steno.rotate() FROM PUBLIC;
REVOKE ALL ON FUNCTION steno.note(text) FROM PUBLIC;

GRANT USAGE ON SCHEMA steno TO pg_monitor, pg_read_all_settings;
GRANT SELECT ON steno.writers, steno.rings, steno.status, steno.slots TO pg_monitor;
GRANT EXECUTE ON FUNCTION steno.writers(), steno.rings(), steno.status(), steno.slots() TO pg_monitor;
GRANT SELECT ON steno.rules TO pg_monitor, pg_read_all_settings;
GRANT EXECUTE ON FUNCTION steno.rules() TO pg_monitor, pg_read_all_settings;

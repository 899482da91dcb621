/* pg_steno 0.1 to 0.9: the version of the loaded library, the statements that run now, the trail */

-- complain if script is sourced in psql, rather than via ALTER EXTENSION
\echo Use "ALTER EXTENSION pg_steno UPDATE TO '0.9'" to load this file. \quit

CREATE FUNCTION steno.version()
RETURNS text
AS 'MODULE_PATHNAME', 'steno_sql_version'
LANGUAGE C STRICT STABLE PARALLEL SAFE;

COMMENT ON FUNCTION steno.version() IS 'version of the library that the server has loaded';

REVOKE ALL ON FUNCTION steno.version() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION steno.version() TO pg_monitor;

-- how a statement used relations, their columns, and other objects
CREATE TYPE steno.column_use AS (
    name text,
    access text[]);

CREATE TYPE steno.relation_use AS (
    name text,
    type text,
    access text[],
    via text,
    columns steno.column_use[]);

CREATE TYPE steno.object_use AS (
    action text,
    type text,
    name text,
    new_name text);

CREATE FUNCTION steno.in_flight(
    OUT pid int4,
    OUT session text,
    OUT usename name,
    OUT datname name,
    OUT application_name text,
    OUT client_addr inet,
    OUT client_port int4,
    OUT statement int8,
    OUT statement_start timestamptz,
    OUT running interval,
    OUT xact_start timestamptz,
    OUT xid xid8,
    OUT class text,
    OUT command text,
    OUT substatements int4,
    OUT relations steno.relation_use[],
    OUT objects steno.object_use[],
    OUT text text,
    OUT text_bytes int8,
    OUT params text[],
    OUT announced bool,
    OUT ring int4,
    OUT lag_bytes int8,
    OUT fill float8)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'steno_sql_in_flight'
LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED;

CREATE VIEW steno.in_flight AS SELECT * FROM steno.in_flight();

COMMENT ON TYPE steno.column_use IS 'a column, and how a statement used it';
COMMENT ON TYPE steno.relation_use IS 'a relation, and how a statement used it';
COMMENT ON TYPE steno.object_use IS 'an object, and what a statement did to it';
COMMENT ON VIEW steno.in_flight IS 'recorded statements that are running now';

-- texts of all users: nobody but superusers, until it is granted
REVOKE ALL ON FUNCTION steno.in_flight() FROM PUBLIC;

CREATE TYPE steno.trail_record AS (
    "time" timestamptz,
    session text,
    seq int8,
    kind text,
    pid int4,
    usename text,
    role text,
    datname text,
    application_name text,
    client text,
    app_user text,
    app_context text,
    class text,
    command text,
    statement int8,
    depth int4,
    substatement int8,
    outcome text,
    sqlstate text,
    message text,
    duration interval,
    rows int8,
    relations steno.relation_use[],
    objects steno.object_use[],
    text text,
    text_bytes int8,
    params text[],
    xid xid8,
    audited text[],
    extra jsonb,
    stream int4,
    segment int8,
    block int8);

CREATE FUNCTION steno.trail(
    since timestamptz,
    until timestamptz DEFAULT NULL,
    usename text DEFAULT NULL,
    datname text DEFAULT NULL,
    application_name text DEFAULT NULL,
    class text DEFAULT NULL,
    object text DEFAULT NULL,
    failed bool DEFAULT NULL,
    contains text DEFAULT NULL)
RETURNS SETOF steno.trail_record
AS 'MODULE_PATHNAME', 'steno_sql_trail'
LANGUAGE C CALLED ON NULL INPUT VOLATILE PARALLEL RESTRICTED;

COMMENT ON TYPE steno.trail_record IS 'a record of the trail';
COMMENT ON FUNCTION steno.trail(timestamptz, timestamptz, text, text, text, text, text, bool, text) IS 'records of the trail';

REVOKE ALL ON FUNCTION steno.trail(timestamptz, timestamptz, text, text, text, text, text, bool, text) FROM PUBLIC;

/* pg_steno 0.1 to 0.9: the version of the loaded library */

-- complain if script is sourced in psql, rather than via ALTER EXTENSION
\echo Use "ALTER EXTENSION pg_steno UPDATE TO '0.9'" to load this file. \quit

CREATE FUNCTION steno.version()
RETURNS text
AS 'MODULE_PATHNAME', 'steno_sql_version'
LANGUAGE C STRICT STABLE PARALLEL SAFE;

COMMENT ON FUNCTION steno.version() IS 'version of the library that the server has loaded';

REVOKE ALL ON FUNCTION steno.version() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION steno.version() TO pg_monitor;

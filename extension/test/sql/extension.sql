-- The extension is created and dropped; recording does not depend on it.
CREATE EXTENSION pg_steno;
SELECT extname, extversion, extrelocatable, extnamespace::regnamespace FROM pg_extension WHERE extname = 'pg_steno';
-- newer servers have the views' types as members, too
SELECT pg_describe_object(classid, objid, 0) AS member FROM pg_depend
  WHERE refclassid = 'pg_extension'::regclass AND refobjid = (SELECT oid FROM pg_extension WHERE extname = 'pg_steno')
    AND deptype = 'e' AND classid <> 'pg_type'::regclass ORDER BY pg_describe_object(classid, objid, 0) COLLATE "C";
-- the scripts are those of the library
SELECT steno.version() LIKE extversion || '.%' AS agree FROM pg_extension WHERE extname = 'pg_steno';
CREATE EXTENSION pg_steno;
CREATE EXTENSION IF NOT EXISTS pg_steno;
ALTER EXTENSION pg_steno SET SCHEMA public;
DROP EXTENSION pg_steno;
-- hints and details of a missing function differ between versions of PostgreSQL
\set VERBOSITY terse
SELECT steno.flush();
\set VERBOSITY default
SELECT count(*) FROM pg_namespace WHERE nspname = 'steno';
CREATE EXTENSION pg_steno SCHEMA public;
CREATE EXTENSION pg_steno;
SELECT steno.flush();
DROP EXTENSION pg_steno;

-- in a transaction that is rolled back
BEGIN;
CREATE EXTENSION pg_steno;
SELECT steno.flush();
ROLLBACK;
\set VERBOSITY terse
SELECT steno.flush();
\set VERBOSITY default

-- which roles may not create
CREATE ROLE regress_steno_role;
GRANT CREATE ON DATABASE :"DBNAME" TO regress_steno_role;
SET ROLE regress_steno_role;
CREATE EXTENSION pg_steno;
RESET ROLE;
DROP OWNED BY regress_steno_role;
DROP ROLE regress_steno_role;

-- again in a session that has the library already
LOAD 'pg_steno';
CREATE EXTENSION pg_steno;
SELECT count(*) FROM steno.writers;
DROP EXTENSION pg_steno;

-- an update from the first version has the same result as a new installation
SELECT source, target, path FROM pg_extension_update_paths('pg_steno') WHERE path IS NOT NULL ORDER BY 1, 2;
CREATE EXTENSION pg_steno VERSION '0.1';
\set VERBOSITY terse
SELECT steno.version();
\set VERBOSITY default
ALTER EXTENSION pg_steno UPDATE;
SELECT steno.version() LIKE extversion || '.%' AS agree FROM pg_extension WHERE extname = 'pg_steno';
SELECT count(*) FROM pg_depend WHERE refclassid = 'pg_extension'::regclass
    AND refobjid = (SELECT oid FROM pg_extension WHERE extname = 'pg_steno') AND deptype = 'e' AND classid <> 'pg_type'::regclass;
DROP EXTENSION pg_steno;

-- settings: log = 'all'
CREATE EXTENSION pg_steno;
ALTER EXTENSION pg_steno SET SCHEMA public;
COMMENT ON EXTENSION pg_steno IS 'mine';
DROP EXTENSION pg_steno;
CREATE EXTENSION missing_extension;

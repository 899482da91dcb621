-- settings: log = 'ddl, function'
DO $$ BEGIN CREATE TABLE t (a int PRIMARY KEY); EXECUTE 'ALTER TABLE t ADD COLUMN b int'; DROP TABLE t; END $$;
CREATE FUNCTION makes() RETURNS void LANGUAGE plpgsql AS $$ BEGIN CREATE TEMP TABLE made (a int); INSERT INTO made VALUES (1); DROP TABLE made; END $$;
SELECT makes();
CREATE PROCEDURE makes_too() LANGUAGE plpgsql AS $$ BEGIN CREATE TABLE x (a int); COMMIT; DROP TABLE x; END $$;
CALL makes_too();

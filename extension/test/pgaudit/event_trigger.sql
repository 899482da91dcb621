-- settings: log = 'ddl, write'
CREATE TABLE log (what text);
CREATE FUNCTION note_ddl() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO log VALUES (tg_tag); END $$;
CREATE EVENT TRIGGER noted ON ddl_command_end EXECUTE FUNCTION note_ddl();
CREATE TABLE t (a int);
ALTER TABLE t ADD COLUMN b int;
DROP TABLE t;
ALTER EVENT TRIGGER noted DISABLE;
CREATE TABLE unnoted (a int);
DROP EVENT TRIGGER noted;

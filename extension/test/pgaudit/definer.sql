-- settings: log = 'read, write, function'
CREATE ROLE definer_user;
CREATE TABLE hidden (a int PRIMARY KEY);
INSERT INTO hidden VALUES (1);
CREATE TABLE refers (a int REFERENCES hidden);
GRANT INSERT ON refers TO definer_user;
CREATE FUNCTION definer_reads() RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN RETURN (SELECT count(*) FROM hidden); END $$;
CREATE FUNCTION invoker_reads() RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN RETURN definer_reads(); END $$;
SELECT definer_reads();
SET SESSION AUTHORIZATION definer_user;
SELECT invoker_reads();
INSERT INTO refers VALUES (1);
SELECT a FROM hidden;
RESET SESSION AUTHORIZATION;
SELECT a FROM refers;

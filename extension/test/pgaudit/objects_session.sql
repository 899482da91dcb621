-- settings: log = 'read, write'; role = 'auditor2'; log_relation = on
CREATE ROLE auditor2;
CREATE TABLE seen (a int);
CREATE TABLE unseen (a int);
CREATE VIEW v AS SELECT a FROM seen;
GRANT SELECT ON seen TO auditor2;
SELECT a FROM seen;
SELECT a FROM unseen;
SELECT seen.a FROM seen, unseen;
SELECT a FROM v;
INSERT INTO unseen SELECT a FROM seen;
INSERT INTO seen VALUES (1);
SELECT 1;

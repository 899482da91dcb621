-- settings: role = 'auditor'
CREATE ROLE auditor;
CREATE TABLE referenced (a int PRIMARY KEY);
GRANT ALL ON referenced TO auditor;
CREATE TABLE refers (a int REFERENCES referenced);
DROP TABLE referenced CASCADE;
DROP TABLE refers;
DROP ROLE auditor;

-- settings: log = 'all'; log_relation = on
CREATE TABLE referenced (a int PRIMARY KEY);
CREATE TABLE refers (a int REFERENCES referenced);
CREATE TABLE refers_later (a int);
ALTER TABLE refers_later ADD FOREIGN KEY (a) REFERENCES referenced;
INSERT INTO referenced VALUES (1);
INSERT INTO refers VALUES (1);
DELETE FROM refers;
DROP TABLE referenced CASCADE;
DROP TABLE refers;

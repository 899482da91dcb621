\set n random(1, 500)
SELECT name FROM items WHERE id = :n;
UPDATE items SET ok = NOT ok WHERE id = :n;
INSERT INTO log (item, what) VALUES (:n, 'pgbench');

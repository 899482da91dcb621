// What the clients find in the database.

package drivers

// schema belongs to app, the clients' role. The first statement of a client must not be the first that the statistics
// count, so they are reset at the end.
const schema = `
CREATE EXTENSION pg_stat_statements;
CREATE EXTENSION pg_steno;
CREATE ROLE app LOGIN;
CREATE ROLE helper;
GRANT helper TO app;
GRANT CREATE ON DATABASE postgres TO app;
CREATE SCHEMA app AUTHORIZATION app;
ALTER ROLE app SET search_path = app;
SET ROLE app;
SET search_path = app;
CREATE TABLE items (id int PRIMARY KEY, name text, price numeric(10,2), made timestamptz,
	data bytea, tags text[], ok bool, j jsonb);
INSERT INTO items SELECT n, 'item ' || n, n * 1.5, '2024-02-29 12:00:00+00', '\x00ff',
	ARRAY['a', 'b'], n % 2 = 0, '{"a": 1}'
	FROM generate_series(1, 500) n;
CREATE TABLE log (id bigserial PRIMARY KEY, item int, what text);
CREATE TABLE deferred (a int UNIQUE DEFERRABLE INITIALLY DEFERRED);
INSERT INTO deferred VALUES (1);
CREATE FUNCTION nested(n int) RETURNS int LANGUAGE plpgsql AS $$
DECLARE r record; sum int := 0;
BEGIN
	FOR r IN SELECT id FROM items WHERE id <= n ORDER BY id LOOP
		sum := sum + r.id;
	END LOOP;
	INSERT INTO log (item, what) VALUES (n, 'nested');
	EXECUTE 'UPDATE items SET ok = NOT ok WHERE id = $1' USING n;
	RETURN sum;
END $$;
CREATE FUNCTION fails(n int) RETURNS int LANGUAGE plpgsql AS $$
BEGIN
	PERFORM 1 FROM items WHERE id = n;
	RAISE EXCEPTION 'no % here', n USING ERRCODE = 'UE001';
END $$;
CREATE PROCEDURE add(n int, INOUT what text) LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO log (item, what) VALUES (n, add.what);
	what := 'added ' || what;
END $$;
CREATE FUNCTION several(c1 refcursor, c2 refcursor) RETURNS SETOF refcursor LANGUAGE plpgsql AS $$
BEGIN
	OPEN c1 FOR SELECT id FROM items ORDER BY id;
	RETURN NEXT c1;
	OPEN c2 FOR SELECT name FROM items ORDER BY id LIMIT 7;
	RETURN NEXT c2;
END $$;
RESET ROLE;
RESET search_path;
SELECT pg_stat_statements_reset();
`

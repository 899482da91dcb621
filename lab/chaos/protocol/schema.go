// The tables, functions and triggers that scripts use.

package protocol

import (
	"context"

	"github.com/pg-steno/pg_steno/lab/cluster"
)

// reads is a function without its name.
const reads = `(m text, t text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE n bigint;
BEGIN
	EXECUTE format('SELECT /*%s*/ count(*) FROM %I', m, t) INTO n;
	RAISE NOTICE 'ran %', m;
	RETURN n;
END $$`

// schema creates the objects that scripts use. Tables a0 to a4 are read, b0 to b2 are written. A function that reads a
// table gets a marker for that statement, and reports "ran" and the marker when it has run.
const schema = `
CREATE EXTENSION pg_steno;
DO $$ BEGIN
	FOR i IN 0..4 LOOP
		EXECUTE format('CREATE TABLE a%s (id int PRIMARY KEY, val text)', i);
		EXECUTE format('INSERT INTO a%s SELECT n, ''v'' || n FROM generate_series(1, 40) n', i);
	END LOOP;
	FOR i IN 0..2 LOOP
		EXECUTE format('CREATE TABLE b%s (id serial PRIMARY KEY, val text)', i);
	END LOOP;
END $$;
CREATE TABLE deferred (a int UNIQUE DEFERRABLE INITIALLY DEFERRED);
INSERT INTO deferred VALUES (1);
CREATE TABLE ruled (a int);
CREATE TABLE ruled_too (a int);
CREATE RULE twice AS ON INSERT TO ruled DO ALSO INSERT INTO ruled_too VALUES (new.a);

CREATE FUNCTION reads` + reads + `;
CREATE FUNCTION parallel_reads` + reads + ` PARALLEL SAFE;
CREATE FUNCTION stable_reads` + reads + ` STABLE;
CREATE FUNCTION immutable_reads` + reads + ` IMMUTABLE;
CREATE FUNCTION rowsof(m text, t text) RETURNS SETOF int LANGUAGE plpgsql AS $$
DECLARE r record;
BEGIN
	FOR r IN EXECUTE format('SELECT /*%s*/ id FROM %I', m, t) LOOP
		IF r.id = 1 THEN RAISE NOTICE 'ran %', m; END IF;
		RETURN NEXT r.id;
	END LOOP;
END $$;
CREATE FUNCTION loops(m text, t text, n int) RETURNS int LANGUAGE plpgsql AS $$
DECLARE r record;
BEGIN
	FOR r IN EXECUTE format('SELECT /*%s*/ id FROM %I ORDER BY id', m, t) LOOP
		IF r.id = 1 THEN RAISE NOTICE 'ran %', m; END IF;
		IF r.id = n THEN RAISE EXCEPTION 'at %', n; END IF;
	END LOOP;
	RETURN 0;
EXCEPTION WHEN raise_exception THEN
	RETURN n;
END $$;
CREATE FUNCTION fails(i int, at int) RETURNS int LANGUAGE plpgsql AS $$
BEGIN
	IF i = at THEN RAISE EXCEPTION 'fails at %', at; END IF;
	RETURN i;
END $$;
CREATE FUNCTION raises(code text, m text) RETURNS int LANGUAGE plpgsql AS $$
BEGIN
	RAISE EXCEPTION '%', m USING ERRCODE = code;
END $$;
CREATE FUNCTION counts(at int) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE n int := coalesce(nullif(current_setting('fuzz.calls', true), ''), '0')::int + 1;
BEGIN
	PERFORM set_config('fuzz.calls', n::text, false);
	IF n % at = 0 THEN RAISE EXCEPTION 'call %', n; END IF;
	RETURN 5;
END $$;
CREATE FUNCTION caught(m text, t text, n int) RETURNS int LANGUAGE plpgsql AS $$
DECLARE x int; c refcursor;
BEGIN
	BEGIN
		OPEN c FOR EXECUTE format('SELECT /*%s*/ id FROM %I ORDER BY id', m, t);
		FOR i IN 1..n LOOP
			FETCH c INTO x;
		END LOOP;
		RAISE NOTICE 'ran %', m;
		IF n > 2 THEN RAISE EXCEPTION 'caught'; END IF;
	EXCEPTION WHEN others THEN
		RETURN -1;
	END;
	RETURN x;
END $$;
CREATE FUNCTION back(m text, t text, closes bool) RETURNS int LANGUAGE plpgsql AS $$
DECLARE x int; c refcursor;
BEGIN
	OPEN c NO SCROLL FOR EXECUTE format('SELECT /*%s*/ id FROM %I ORDER BY id', m, t);
	FETCH c INTO x;
	RAISE NOTICE 'ran %', m;
	BEGIN
		FETCH BACKWARD FROM c INTO x;
	EXCEPTION WHEN others THEN
		x := -1;
	END;
	IF closes THEN CLOSE c; END IF;
	RETURN x;
END $$;
CREATE FUNCTION opens(name text, m text, t text, scrolls bool) RETURNS refcursor LANGUAGE plpgsql AS $$
DECLARE c refcursor := name;
BEGIN
	IF scrolls THEN
		OPEN c SCROLL FOR EXECUTE format('SELECT /*%s*/ id, val FROM %I ORDER BY id', m, t);
	ELSE
		OPEN c NO SCROLL FOR EXECUTE format('SELECT /*%s*/ id, val FROM %I ORDER BY id', m, t);
	END IF;
	RETURN c;
END $$;
CREATE FUNCTION stat() RETURNS bigint LANGUAGE sql AS 'SELECT count(*) FROM a4';
CREATE PROCEDURE calls(m text, t text, n int) LANGUAGE plpgsql AS $$
DECLARE x int;
BEGIN
	FOR i IN 1..n LOOP
		EXECUTE format('SELECT /*%s*/ count(*) FROM %I', m, t) INTO x;
		RAISE NOTICE 'ran %', m;
		COMMIT;
	END LOOP;
END $$;

CREATE TABLE triggered (m text, t text);
CREATE TABLE triggered_late (m text, t text);
CREATE FUNCTION on_trigger() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	PERFORM reads(NEW.m, NEW.t);
	RETURN NEW;
END $$;
CREATE TRIGGER at_once AFTER INSERT ON triggered FOR EACH ROW EXECUTE FUNCTION on_trigger();
CREATE CONSTRAINT TRIGGER late AFTER INSERT ON triggered_late DEFERRABLE INITIALLY DEFERRED
	FOR EACH ROW EXECUTE FUNCTION on_trigger();
CREATE ROLE auditor;
GRANT SELECT, INSERT ON a0, a1, b0 TO auditor;
VACUUM ANALYZE;
`

// known are the texts of statements in functions, which no client sends.
var known = map[string]bool{
	"SELECT count(*) FROM a4":                         true,
	"SELECT set_config('fuzz.calls', n::text, false)": true,
	"SELECT reads(NEW.m, NEW.t)":                      true,
	"INSERT INTO ruled_too VALUES (new.a)":            true,
}

func prepare(ctx context.Context, lab *cluster.Lab) error {
	return lab.Prepare(ctx, []cluster.Setting{{Name: "shared_preload_libraries", Value: "pg_steno"}},
		func(s *cluster.Server) error {
			_, err := s.Psql(ctx, schema)
			return err
		})
}

"""psycopg 3: the extended protocol, automatic preparation, pipelines, server-side cursors, COPY, two-phase commit."""
import time

import psycopg
from psycopg import errors

with psycopg.connect("") as connection:
    for n in range(10):  # prepared from the fifth on
        assert len(connection.execute("SELECT id, name FROM items WHERE id <= %s", (n,)).fetchall()) == n
        time.sleep(0.01)
    connection.execute("SELECT %s::text, %s::int, %b::bytea", ("it's", None, b"\0\xff"))
    connection.execute("SELECT nested(%s)", (10,))
    assert connection.execute("CALL add(%s, %s)", (1, "psycopg")).fetchone() == ("added psycopg",)
    with connection.cursor() as c:
        c.executemany("INSERT INTO log (item, what) VALUES (%s, %s) RETURNING id", [(n, "psycopg") for n in range(20)], returning=True)
    with connection.cursor("named") as c:
        c.execute("SELECT id FROM items WHERE id > %s ORDER BY id", (10,))
        c.fetchmany(20)
        time.sleep(0.03)
        c.fetchmany(20)
    with connection.cursor(binary=True) as c:
        c.execute("SELECT id, price, made, data, tags FROM items WHERE id < %s", (30,))
        c.fetchall()
    with connection.cursor() as c:
        for row in c.stream("SELECT id FROM items WHERE id < %s", (40,)):
            if row[0] % 20 == 0:
                time.sleep(0.01)
    with connection.cursor() as c:
        with c.copy("COPY log (item, what) FROM STDIN (FORMAT BINARY)") as copy:
            copy.set_types(["int4", "text"])
            for n in range(10):
                copy.write_row((n, "copied"))
        with c.copy("COPY (SELECT id, name FROM items WHERE id < 50) TO STDOUT") as copy:
            for _ in copy:
                pass
    connection.commit()
    with connection.pipeline() as p:
        connection.execute("SELECT name FROM items WHERE id = %s", (1,))
        connection.execute("INSERT INTO log (item, what) VALUES (%s, 'pipelined')", (2,))
        p.sync()
        time.sleep(0.03)
        connection.execute("SELECT pg_sleep(%s)", (0.01,))
    connection.commit()
    for failing, kind in (("SELEC 1", errors.SyntaxError), ("SELECT 1/%s", errors.DivisionByZero), ("SELECT fails(%s)", psycopg.Error)):
        try:
            with connection.transaction():
                connection.execute("SELECT 1")
                connection.execute(failing, (0,) if "%" in failing else None)
            raise AssertionError(failing)
        except kind:
            pass
    try:
        with connection.transaction():
            connection.execute("INSERT INTO deferred VALUES (%s)", (1,))
        raise AssertionError("no failure at the commit")
    except errors.UniqueViolation:
        pass
with psycopg.connect("", autocommit=True, cursor_factory=psycopg.ClientCursor) as connection:  # the simple protocol
    connection.execute("SELECT id FROM items WHERE id < %s; SELECT 2", (5,))
    connection.execute("INSERT INTO log (item, what) VALUES (%s, %s)", (1, "autocommit"))
with psycopg.connect("", autocommit=True, prepare_threshold=0) as connection:  # prepared at once
    for n in range(5):
        connection.execute("UPDATE items SET ok = %s WHERE id = %s", (n % 2 == 0, n))

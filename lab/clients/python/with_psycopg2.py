"""psycopg2: simple queries with values in the text, server-side cursors, COPY, autocommit, failures."""
import io
import time

import psycopg2
from psycopg2 import errors, extras

connection = psycopg2.connect("")
with connection, connection.cursor() as c:
    for n in range(10):
        c.execute("SELECT id, name FROM items WHERE id <= %s", (n,))
        assert len(c.fetchall()) == n
    c.execute("SELECT %s, %s, %s", ("it's", None, b"\0\xff"))
    time.sleep(0.03)
    c.executemany("INSERT INTO log (item, what) VALUES (%s, %s)", [(n, "psycopg2") for n in range(5)])
    extras.execute_values(c, "INSERT INTO log (item, what) VALUES %s", [(n, "values") for n in range(50)])
    extras.execute_batch(c, "UPDATE items SET ok = true WHERE id = %s", [(n,) for n in range(20)], page_size=7)
    c.callproc("nested", (10,))
    c.execute("CALL add(%s, %s)", (1, "psycopg2"))
    assert c.fetchone() == ("added psycopg2",)
    c.copy_expert("COPY log (item, what) FROM STDIN", io.StringIO("1\tcopied\n2\tcopied\n"))
    c.copy_expert("COPY (SELECT id FROM items WHERE id < 50) TO STDOUT", io.StringIO())
with connection, connection.cursor("named") as c:
    c.itersize = 100
    c.execute("SELECT id FROM items ORDER BY id")
    for row in c:
        if row[0] % 100 == 0:
            time.sleep(0.01)
with connection, connection.cursor("scrolled", scrollable=True) as c:
    c.execute("SELECT id FROM items ORDER BY id")
    c.fetchmany(10)
    c.scroll(-5)
    c.fetchmany(3)
with connection, connection.cursor("held", withhold=True) as c:
    c.execute("SELECT id FROM items WHERE id <= 50")
    c.fetchmany(10)
for failing, kind in (("SELEC 1", errors.SyntaxError), ("SELECT 1/0", errors.DivisionByZero), ("SELECT fails(3)", psycopg2.Error),
                      ("INSERT INTO deferred VALUES (1)", errors.UniqueViolation)):
    try:
        with connection, connection.cursor() as c:
            c.execute("SELECT 1")
            c.execute(failing)
        raise AssertionError(failing)
    except kind:
        pass
connection.autocommit = True
with connection.cursor() as c:
    c.execute("INSERT INTO log (item, what) VALUES (1, 'autocommit')")
    c.execute("SELECT pg_sleep(0.02)")
    c.execute("SELECT 1; SELECT id FROM items WHERE id < 3")
connection.close()

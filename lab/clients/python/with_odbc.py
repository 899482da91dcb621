"""ODBC (psqlODBC): prepared by the server or by the driver, cursors that declare and fetch, failures."""
import glob
import os
import time

import pyodbc

pyodbc.pooling = False
library = next(f for pattern in ("/usr/lib/*/odbc/psqlodbcw.so", "/usr/lib*/psqlodbcw.so") for f in glob.glob(pattern))
for options in ("UseServerSidePrepare=1;UseDeclareFetch=0", "UseServerSidePrepare=0;UseDeclareFetch=0", "UseDeclareFetch=1;Fetch=100"):
    connection = pyodbc.connect(f"Driver={library};Server=127.0.0.1;Port={os.environ['PGPORT']};Database=postgres;Uid=app;{options}")
    c = connection.cursor()
    for n in range(10):
        c.execute("SELECT id, name FROM items WHERE id <= ?", n)
        assert len(c.fetchall()) == n
        time.sleep(0.005)
    c.execute("SELECT id FROM items ORDER BY id")
    while c.fetchmany(100):
        time.sleep(0.005)
    c.execute("SELECT ?, ?", "it's", None)
    c.fetchall()
    c.executemany("INSERT INTO log (item, what) VALUES (?, ?)", [(n, "odbc") for n in range(10)])
    c.execute("SELECT nested(?)", 10)
    c.fetchall()
    connection.commit()
    for failing in ("SELEC 1", "SELECT 1/0", "SELECT fails(3)"):
        try:
            c.execute(failing)
            c.fetchall()
            raise AssertionError(failing)
        except pyodbc.Error:
            connection.rollback()
    connection.autocommit = True
    c.execute("INSERT INTO log (item, what) VALUES (1, 'autocommit')")
    c.execute("SELECT pg_sleep(0.01)")
    c.fetchall()
    connection.close()

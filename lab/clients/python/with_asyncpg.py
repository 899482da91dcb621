"""asyncpg: prepared statements of its cache, portals that are fetched in parts, binary COPY, savepoints."""
import asyncio
import os

import asyncpg


async def main():
    connection = await asyncpg.connect(server_settings={"application_name": os.environ["PGAPPNAME"]})
    for n in range(10):
        assert len(await connection.fetch("SELECT id, name FROM items WHERE id <= $1", n)) == n
    await connection.fetch("SELECT $1::text, $2::int, $3::bytea, $4::text[]", "it's", None, b"\0\xff", ["a", None])
    await connection.execute("SELECT 1; SELECT id FROM items WHERE id < 4")
    await connection.fetchval("SELECT nested($1)", 10)
    async with connection.transaction():
        await connection.execute("INSERT INTO log (item, what) VALUES ($1, $2)", 1, "asyncpg")
        await asyncio.sleep(0.03)
        cursor = await connection.cursor("SELECT id FROM items WHERE id > $1 ORDER BY id", 3)
        await cursor.fetch(10)
        await asyncio.sleep(0.03)
        await cursor.fetch(10)
        await cursor.forward(5)
        async for _ in connection.cursor("SELECT id FROM items WHERE id < $1", 120, prefetch=50):
            pass
        try:
            async with connection.transaction():
                await connection.fetch("SELECT 1 / $1::int", 0)
            raise AssertionError("no failure")
        except asyncpg.DivisionByZeroError:
            pass
    await connection.executemany("INSERT INTO log (item, what) VALUES ($1, $2)", [(n, "many") for n in range(20)])
    await connection.copy_records_to_table("log", records=[(n, "copied") for n in range(10)], columns=["item", "what"])
    await connection.copy_from_query("SELECT id, name FROM items WHERE id < $1", 50, output="/dev/null")
    statement = await connection.prepare("SELECT name FROM items WHERE id = $1")
    for n in range(5):
        await statement.fetchval(n)
        await asyncio.sleep(0.01)
    for failing in ("SELEC 1", "SELECT * FROM nowhere", "SELECT fails(3)", "INSERT INTO deferred VALUES (1)"):
        try:
            await connection.fetch(failing)
            raise AssertionError(failing)
        except asyncpg.PostgresError:
            pass
    try:
        await connection.fetch("SELECT pg_sleep(5)", timeout=0.05)
        raise AssertionError("no timeout")
    except asyncio.TimeoutError:
        pass
    await connection.close()


asyncio.run(main())

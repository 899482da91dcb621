// node-postgres: queries with and without values, with names, cursors, streams, pools, failures.
const { Client, Pool } = require('pg');
const Cursor = require('pg-cursor');
const QueryStream = require('pg-query-stream');

const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

async function fails(client, query, values) {
  try {
    await client.query(query, values);
  } catch (e) {
    return;
  }
  throw new Error(`${query} did not fail`);
}

async function main() {
  const client = new Client();
  await client.connect();
  for (let n = 0; n < 10; n++) {
    const { rows } = await client.query('SELECT id, name FROM items WHERE id <= $1', [n]);
    if (rows.length !== n) throw new Error(`${rows.length} rows`);
    await client.query({ name: 'named', text: 'SELECT name FROM items WHERE id = $1', values: [n] });
    await sleep(5);
  }
  await client.query("SELECT 1; SELECT 'it''s'; SELECT id FROM items WHERE id < 4");
  await client.query('SELECT $1::text, $2::int, $3::bytea, $4::text[]', ["it's", null, Buffer.from([0, 255]), ['a', null]]);
  await client.query('SELECT nested($1)', [10]);
  await client.query('CALL add($1, $2)', [1, 'node']);
  await client.query('BEGIN');
  const cursor = client.query(new Cursor('SELECT id FROM items WHERE id > $1 ORDER BY id', [5]));
  for (let n = 0; n < 4; n++) {
    await cursor.read(20);
    await sleep(20);
  }
  await cursor.close();
  await client.query('INSERT INTO log (item, what) VALUES ($1, $2) RETURNING id', [1, 'node']);
  await sleep(30);
  await client.query('COMMIT');
  const stream = client.query(new QueryStream('SELECT id FROM items', [], { batchSize: 100 }));
  for await (const row of stream) {
    if (row.id % 100 === 0) await sleep(5);
  }
  await client.query('BEGIN');
  await client.query('SAVEPOINT s');
  await fails(client, 'SELECT 1 / $1::int', [0]);
  await client.query('ROLLBACK TO s');
  await client.query('COMMIT');
  await fails(client, 'SELEC 1');
  await fails(client, 'SELECT * FROM nowhere WHERE a = $1', [1]);
  await fails(client, 'SELECT fails($1)', [3]);
  await fails(client, 'INSERT INTO deferred VALUES ($1)', [1]);
  await client.query('SELECT pg_sleep(0.02)');
  await client.end();

  const pool = new Pool({ max: 4 });
  await Promise.all(Array.from({ length: 40 }, (_, n) => pool.query('UPDATE items SET ok = $1 WHERE id = $2', [n % 2 === 0, n])));
  await pool.end();
}

main().catch((e) => {
  console.error(e);
  process.exit(1);
});

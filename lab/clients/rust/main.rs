// tokio-postgres: pipelines, portals, prepared statements, COPY, failures.

use std::time::Duration;

use futures_util::{future::try_join_all, pin_mut, SinkExt, StreamExt, TryStreamExt};
use tokio::time::sleep;
use tokio_postgres::{types::ToSql, Client, Error, NoTls};

async fn fails(client: &Client, text: &str, values: &[&(dyn ToSql + Sync)]) {
    assert!(client.query(text, values).await.is_err(), "{text} did not fail");
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let settings = format!(
        "host=127.0.0.1 port={} user=app dbname=postgres application_name={}",
        std::env::var("PGPORT").unwrap(),
        std::env::var("PGAPPNAME").unwrap()
    );
    let (mut client, connection) = tokio_postgres::connect(&settings, NoTls).await?;
    let running = tokio::spawn(connection);
    let statement = client.prepare("SELECT id, name FROM items WHERE id <= $1").await?;
    for n in 0..10 {
        assert_eq!(client.query(&statement, &[&n]).await?.len() as i32, n);
        sleep(Duration::from_millis(5)).await;
    }
    let numbers: Vec<i32> = (0..20).collect();
    try_join_all(numbers.iter().map(|n| async { client.query(&statement, &[n]).await })).await?; // a pipeline
    client.query("SELECT $1::text, $2::int", &[&"it's", &None::<i32>]).await?;
    client.batch_execute("SELECT 1; SELECT id FROM items WHERE id < 4").await?;
    client.simple_query("SELECT nested(10)").await?;
    client.query("CALL add($1, $2)", &[&1, &"tokio"]).await?;
    let transaction = client.transaction().await?;
    let portal = transaction.bind("SELECT id FROM items WHERE id > $1 ORDER BY id", &[&3]).await?;
    for _ in 0..4 {
        transaction.query_portal(&portal, 20).await?;
        sleep(Duration::from_millis(20)).await;
    }
    transaction.execute("INSERT INTO log (item, what) VALUES ($1, $2)", &[&1, &"tokio"]).await?;
    transaction.commit().await?;
    let sink = client.copy_in("COPY log (item, what) FROM STDIN").await?;
    pin_mut!(sink);
    sink.send("1\tcopied\n2\tcopied\n".as_bytes()).await?;
    sink.finish().await?;
    let stream = client.copy_out("COPY (SELECT id FROM items WHERE id < 50) TO STDOUT").await?;
    pin_mut!(stream);
    while stream.next().await.is_some() {}
    let rows = client.query_raw("SELECT id FROM items", std::iter::empty::<i32>()).await?;
    let all: Vec<_> = rows.try_collect().await?;
    assert_eq!(all.len(), 500);
    fails(&client, "SELEC 1", &[]).await;
    fails(&client, "SELECT * FROM nowhere", &[]).await;
    fails(&client, "SELECT 1 / $1::int", &[&0]).await;
    fails(&client, "SELECT fails($1)", &[&3]).await;
    fails(&client, "INSERT INTO deferred VALUES ($1)", &[&1]).await;
    client.query("SELECT pg_sleep(0.02)", &[]).await?;
    drop(statement);
    drop(client);
    running.await.unwrap()
}

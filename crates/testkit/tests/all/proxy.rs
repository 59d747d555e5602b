//! The proxy: each rule against a real server and a real client.

use std::time::Duration;

use everturn_testkit::{Postgres, Proxy, TestDatabase, within};
use tokio_postgres::{Client, Config, Error, NoTls};

/// A table `numbers` behind a proxy.
struct Bench {
    proxy: Proxy,
    database: TestDatabase,
    direct: Client,
}

impl Bench {
    async fn new() -> Self {
        let server = Postgres::shared();
        let database = server.database();
        let direct = open(&database.config()).await.unwrap();
        direct.batch_execute("CREATE TABLE numbers (n integer PRIMARY KEY)").await.unwrap();
        Self { proxy: Proxy::start(server.address()), database, direct }
    }

    fn config(&self) -> Config {
        self.database.url_at(self.proxy.address()).parse().unwrap()
    }

    /// A client behind the proxy.
    async fn client(&self) -> Client {
        let client = open(&self.config()).await.unwrap();
        self.proxy.reset();
        client
    }

    /// What is in the table when the server has noticed that no one else is connected.
    async fn numbers(&self) -> Vec<i32> {
        eventually("the server to notice the end of a connection", async || {
            let others = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() \
                          AND backend_type = 'client backend' AND pid <> pg_backend_pid()";
            self.direct.query(others, &[]).await.unwrap().is_empty()
        })
        .await;
        let rows = self.direct.query("SELECT n FROM numbers ORDER BY n", &[]).await.unwrap();
        rows.iter().map(|row| row.get(0)).collect()
    }
}

async fn open(config: &Config) -> Result<Client, Error> {
    let (client, connection) = within("a connection", config.connect(NoTls)).await?;
    tokio::spawn(connection);
    Ok(client)
}

async fn eventually(what: &str, so: impl AsyncFn() -> bool) {
    let wait = async {
        while !so().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    within(what, wait).await;
}

/// The future fails because the connection has gone.
async fn assert_cut<T: std::fmt::Debug>(future: impl Future<Output = Result<T, Error>>) {
    let cause = within("the end of the connection", future).await.unwrap_err();
    assert!(cause.is_closed() || cause.code().is_none(), "{cause:?}");
}

#[tokio::test]
async fn everything_passes_and_is_counted() {
    let bench = Bench::new().await;
    let client = open(&bench.config()).await.unwrap();
    assert!(bench.proxy.messages() >= 3, "the startup and two messages for the password");
    bench.proxy.reset();
    assert_eq!(bench.proxy.messages(), 0);
    client.batch_execute("INSERT INTO numbers VALUES (1)").await.unwrap();
    assert_eq!(bench.proxy.messages(), 1);
    let insert = client.prepare("INSERT INTO numbers VALUES ($1)").await.unwrap();
    assert_eq!(bench.proxy.messages(), 4, "parse, describe, sync");
    client.execute(&insert, &[&2]).await.unwrap();
    assert_eq!(bench.proxy.messages(), 7, "bind, execute, sync");
    let long =
        client.query_one("SELECT repeat('x', 3000000) || $1", &[&"y".repeat(3_000_000)]).await.unwrap();
    assert_eq!(long.get::<_, &str>(0).len(), 6_000_000);
    assert!(!bench.proxy.fired());
    drop((client, insert));
    assert_eq!(bench.numbers().await, [1, 2]);
}

#[tokio::test]
async fn cut_before_a_query() {
    let bench = Bench::new().await;
    let client = bench.client().await;
    bench.proxy.cut_before("VALUES (2)");
    client.batch_execute("INSERT INTO numbers VALUES (1)").await.unwrap();
    assert!(!bench.proxy.fired());
    assert_cut(client.batch_execute("INSERT INTO numbers VALUES (2)")).await;
    assert!(bench.proxy.fired());
    assert_eq!(bench.numbers().await, [1]);

    let again = open(&bench.config()).await.unwrap();
    again.batch_execute("INSERT INTO numbers VALUES (2)").await.unwrap();
    drop(again);
    assert_eq!(bench.numbers().await, [1, 2], "a cut happens once");
}

#[tokio::test]
async fn cut_before_a_statement_is_prepared() {
    let bench = Bench::new().await;
    let client = bench.client().await;
    bench.proxy.cut_before("INSERT");
    assert_cut(client.prepare("INSERT INTO numbers VALUES ($1)")).await;
    assert_eq!((bench.proxy.fired(), bench.proxy.messages()), (true, 1));
}

#[tokio::test]
async fn cut_before_a_prepared_statement_is_used() {
    let bench = Bench::new().await;
    let client = bench.client().await;
    let insert = client.prepare("INSERT INTO numbers VALUES ($1)").await.unwrap();
    let select = client.prepare("SELECT n FROM numbers WHERE n = $1").await.unwrap();
    client.execute(&insert, &[&1]).await.unwrap();
    bench.proxy.cut_before("INSERT");
    client.query(&select, &[&1]).await.unwrap();
    assert!(!bench.proxy.fired(), "another statement");
    assert_cut(client.execute(&insert, &[&2])).await;
    assert!(bench.proxy.fired());
    assert_eq!(bench.numbers().await, [1]);
}

#[tokio::test]
async fn cut_before_a_commit_loses_the_transaction() {
    let bench = Bench::new().await;
    let mut client = bench.client().await;
    bench.proxy.cut_before("COMMIT");
    let transaction = client.transaction().await.unwrap();
    transaction.execute("INSERT INTO numbers VALUES (1)", &[]).await.unwrap();
    assert_cut(transaction.commit()).await;
    assert!(bench.proxy.fired());
    assert_eq!(bench.numbers().await, [0; 0]);
}

#[tokio::test]
async fn cut_after_a_commit_keeps_the_transaction() {
    let bench = Bench::new().await;
    let mut client = bench.client().await;
    bench.proxy.cut_after_sent("COMMIT");
    let transaction = client.transaction().await.unwrap();
    transaction.execute("INSERT INTO numbers VALUES (1)", &[]).await.unwrap();
    assert_cut(transaction.commit()).await;
    assert!(bench.proxy.fired());
    assert_eq!(bench.numbers().await, [1]);
}

#[tokio::test]
async fn cut_after_a_prepared_statement() {
    let bench = Bench::new().await;
    let client = bench.client().await;
    bench.proxy.cut_after_sent("INSERT");
    let insert = client.prepare("INSERT INTO numbers VALUES ($1)").await.unwrap();
    assert!(!bench.proxy.fired(), "it is not carried out yet");
    // Several at once: the answer to the first is not mistaken for that to the second.
    let (select, inserted) =
        tokio::join!(within("an answer", client.simple_query("SELECT 1")), client.execute(&insert, &[&1]));
    assert_eq!(select.unwrap().len(), 3);
    inserted.unwrap_err();
    assert!(bench.proxy.fired());
    assert_eq!(bench.numbers().await, [1]);
}

#[tokio::test]
async fn cut_at_each_message_in_turn() {
    let bench = Bench::new().await;
    let mut committed = Vec::new();
    for n in 1_i32.. {
        let mut client = bench.client().await;
        bench.proxy.cut_at(u64::try_from(n).unwrap());
        let done: Result<(), Error> = within("a transaction", async {
            let transaction = client.transaction().await?;
            transaction.execute("INSERT INTO numbers VALUES ($1)", &[&n]).await?;
            transaction.commit().await
        })
        .await;
        assert_eq!(done.is_err(), bench.proxy.fired(), "{done:?}");
        if done.is_ok() {
            assert_eq!(n, 11, "begin, three to prepare, three to execute, two to forget, commit");
            committed.push(n);
            break;
        }
    }
    assert_eq!(bench.numbers().await, committed);
}

#[tokio::test]
async fn cut_while_connecting() {
    let bench = Bench::new().await;
    for n in 1..=3 {
        bench.proxy.reset();
        bench.proxy.cut_at(n);
        assert_cut(open(&bench.config())).await;
        assert!(bench.proxy.fired());
    }
    open(&bench.config()).await.unwrap();
}

#[tokio::test]
async fn a_pause_stops_everything_for_a_while() {
    let bench = Bench::new().await;
    let client = bench.client().await;
    bench.proxy.pause();
    let config = bench.config();
    let mut insert = Box::pin(client.batch_execute("INSERT INTO numbers VALUES (1)"));
    let mut connect = Box::pin(open(&config));
    // Here the time itself is the matter: nothing may happen in it.
    assert!(tokio::time::timeout(Duration::from_millis(200), &mut insert).await.is_err());
    assert!(tokio::time::timeout(Duration::from_millis(200), &mut connect).await.is_err());
    assert!(bench.direct.query("SELECT n FROM numbers", &[]).await.unwrap().is_empty());
    assert_eq!(bench.proxy.messages(), 0);
    bench.proxy.resume();
    within("the paused query", insert).await.unwrap();
    drop(within("the paused connection", connect).await.unwrap());
    drop(client);
    assert_eq!(bench.numbers().await, [1]);
}

#[tokio::test]
async fn new_connections_are_refused_and_accepted() {
    let bench = Bench::new().await;
    let client = bench.client().await;
    bench.proxy.refuse();
    assert_cut(open(&bench.config())).await;
    client.batch_execute("SELECT 1").await.unwrap();
    bench.proxy.accept();
    open(&bench.config()).await.unwrap();
}

#[tokio::test]
async fn a_server_may_decline_encryption() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let bench = Bench::new().await;
    let mut stream = tokio::net::TcpStream::connect(bench.proxy.address()).await.unwrap();
    stream.write_all(&[0, 0, 0, 8, 4, 210, 22, 47]).await.unwrap();
    let answer = within("an answer about TLS", stream.read_u8()).await.unwrap();
    assert_eq!(answer, b'N', "the shared server has none");
    let user = b"\0\0\0\x17\0\x03\0\0user\0everturn\0\0";
    stream.write_all(user).await.unwrap();
    assert_eq!(within("an answer", stream.read_u8()).await.unwrap(), b'R');
    assert_eq!(bench.proxy.messages(), 2);
}

#[tokio::test]
async fn a_server_that_is_gone_and_a_proxy_that_is_dropped() {
    let bench = Bench::new().await;
    let nowhere = Proxy::start("127.0.0.1:1".parse().unwrap());
    let config = bench.database.url_at(nowhere.address()).parse().unwrap();
    assert_cut(open(&config)).await;

    let client = bench.client().await;
    let Bench { proxy, database, direct } = bench;
    drop(proxy);
    assert_cut(client.batch_execute("SELECT 1")).await;
    drop((direct, database));
}

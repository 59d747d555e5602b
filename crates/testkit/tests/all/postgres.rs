//! PostgreSQL servers: what they promise to the tests that use them.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use everturn_testkit::postgres::Shutdown;
use everturn_testkit::{Postgres, Proxy, TestDatabase, within};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use tokio::task::JoinHandle;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Config, Error, NoTls};

async fn connect(config: &Config) -> Result<(Client, JoinHandle<Result<(), Error>>), Error> {
    let (client, connection) = within("a connection", config.connect(NoTls)).await?;
    Ok((client, tokio::spawn(connection)))
}

async fn client(database: &TestDatabase) -> Client {
    connect(&database.config()).await.unwrap().0
}

async fn numbers(client: &Client) -> Vec<i32> {
    let rows = within("numbers", client.query("SELECT n FROM numbers ORDER BY n", &[])).await.unwrap();
    rows.iter().map(|row| row.get(0)).collect()
}

fn wait_until(what: &str, mut so: impl FnMut() -> bool) {
    let deadline = Instant::now() + everturn_testkit::deadline::PATIENCE;
    while !so() {
        assert!(Instant::now() < deadline, "waited for {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The values of a line of `/proc/PID/status`.
fn status(pid: i32, name: &str) -> Vec<u32> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.split_whitespace().map(|value| value.parse().unwrap()).collect()
}

fn has_ended(pid: i32) -> bool {
    // One that nobody has waited for is still in the list, but without a command line.
    std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default().is_empty()
}

#[tokio::test]
async fn a_server_without_rights_that_writes_durably() {
    let server = Postgres::start();
    let ids = status(server.pid(), "Uid:");
    assert!(ids.iter().all(|uid| *uid != 0), "{ids:?}");
    assert!(status(server.pid(), "Gid:").iter().all(|gid| *gid != 0));
    assert!(!status(server.pid(), "Groups:").contains(&0));

    let database = server.database();
    let client = client(&database).await;
    for setting in ["fsync", "synchronous_commit", "full_page_writes"] {
        let row = client.query_one(&format!("SHOW {setting}"), &[]).await.unwrap();
        assert_eq!(row.get::<_, &str>(0), "on", "{setting}");
    }
    let row = client.query_one("SELECT current_database(), current_user::text", &[]).await.unwrap();
    assert_eq!(row.get::<_, &str>(0), database.name());
    assert_eq!(row.get::<_, &str>(1), server.user());
    assert!(server.log().contains("ready to accept connections"), "{}", server.log());
    assert!(server.ca_file().is_none());
}

#[tokio::test]
async fn a_wrong_password_is_refused() {
    let server = Postgres::shared();
    let database = server.database();
    let mut config = database.config();
    assert!(connect(&config).await.is_ok());
    config.password("wrong");
    let cause = connect(&config).await.unwrap_err();
    assert_eq!(cause.code(), Some(&SqlState::INVALID_PASSWORD));
    config.user("nobody").password(server.password());
    let cause = connect(&config).await.unwrap_err();
    assert_eq!(cause.code(), Some(&SqlState::INVALID_PASSWORD));

    let parts = format!(
        "postgres://{}:{}@{}:{}/{}?sslmode=disable",
        server.user(),
        server.password(),
        server.host(),
        server.port(),
        database.name()
    );
    assert_eq!(parts, database.url());
    let address = "127.0.0.1:1".parse().unwrap();
    let url = database.url_with(address, &[("a", "b"), ("c", "d")]);
    assert!(url.ends_with(&format!("@127.0.0.1:1/{}?a=b&c=d", database.name())), "{url}");
}

#[tokio::test]
async fn committed_data_survive_stops_and_kills() {
    let server = Postgres::start();
    let database = server.database();
    let port = server.port();
    let before = client(&database).await;
    before.batch_execute("CREATE TABLE numbers (n integer PRIMARY KEY)").await.unwrap();
    for (number, end) in [
        (0, (&|| server.restart(Shutdown::Fast)) as &dyn Fn()),
        (1, &|| server.restart(Shutdown::Immediate)),
        (2, &|| {
            server.stop();
            server.start_again();
        }),
        (3, &|| {
            server.kill();
            server.start_again();
        }),
    ] {
        let mut client = client(&database).await;
        client.execute("INSERT INTO numbers VALUES ($1)", &[&number]).await.unwrap();
        let open = client.transaction().await.unwrap();
        open.execute("INSERT INTO numbers VALUES (100)", &[]).await.unwrap();
        end();
        let lost = within("the end of a connection", open.commit()).await;
        assert!(lost.is_err(), "the connection ended with the server");
    }
    assert_eq!(server.port(), port);
    assert_eq!(numbers(&client(&database).await).await, [0, 1, 2, 3]);
}

#[tokio::test]
async fn a_killed_server_is_gone() {
    let server = Postgres::start();
    let database = server.database();
    let config = database.config();
    let (busy, _) = connect(&config).await.unwrap();
    let backend: i32 = busy.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0);
    // It computes, and so would not notice by itself that its server has died.
    let endless = "SELECT count(*) FROM generate_series(1, 1000000000000)";
    let busy = tokio::spawn(async move { busy.batch_execute(endless).await });
    let observer = client(&database).await;
    let running =
        "SELECT 1 FROM pg_stat_activity WHERE pid = $1 AND state = 'active' AND query LIKE '%generate%'";
    within("the query to run", async {
        while observer.query(running, &[&backend]).await.unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;

    let pid = server.pid();
    assert!(!has_ended(pid) && !has_ended(backend));
    server.kill();
    assert!(has_ended(pid) && has_ended(backend));
    within("the end of the query", busy).await.unwrap().unwrap_err();
    assert!(connect(&config).await.is_err());
    server.start_again();
    assert_ne!(server.pid(), pid);
    assert!(connect(&config).await.is_ok());
}

#[tokio::test]
async fn connections_can_be_terminated() {
    let server = Postgres::shared();
    let (database, other) = (server.database(), server.database());
    let (client, connection) = connect(&database.config()).await.unwrap();
    let bystander = self::client(&other).await;
    client.batch_execute("SELECT 1").await.unwrap();
    assert_eq!(server.terminate_backends(database.name()), 1);
    let cause = within("the end of the connection", connection).await.unwrap().unwrap_err();
    assert_eq!(cause.code(), Some(&SqlState::ADMIN_SHUTDOWN));
    assert!(client.batch_execute("SELECT 1").await.is_err());
    bystander.batch_execute("SELECT 1").await.unwrap();
    assert_eq!(server.terminate_backends(database.name()), 0);
}

#[tokio::test]
async fn the_shared_server_is_one() {
    let (one, two) = (Postgres::shared(), Postgres::shared());
    assert_eq!(one.pid(), two.pid());
    assert_eq!(one.address(), two.address());
    let database = one.database();
    let seen = two.database();
    let count = format!("SELECT 1 FROM pg_database WHERE datname = '{}'", database.name());
    let client = client(&seen).await;
    assert_eq!(client.query(&count, &[]).await.unwrap().len(), 1);
    drop(database);
    assert!(client.query(&count, &[]).await.unwrap().is_empty(), "a database goes when it is dropped");
}

#[test]
#[should_panic(expected = "a server of one's own")]
fn the_shared_server_cannot_be_stopped() {
    Postgres::shared().stop();
}

#[tokio::test]
async fn a_server_with_tls() {
    let server = Postgres::start_with_tls();
    let database = server.database();
    assert!(database.url().ends_with("?sslmode=require"));

    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(server.ca_file().unwrap()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = Arc::new(config.unwrap().with_root_certificates(roots).with_no_client_auth());
    let proxy = Proxy::start(server.address());
    for (address, name) in
        [(server.address(), "localhost"), (server.address(), "127.0.0.1"), (proxy.address(), "localhost")]
    {
        let mut stream = std::net::TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(everturn_testkit::deadline::PATIENCE)).unwrap();
        stream.write_all(&[0, 0, 0, 8, 4, 210, 22, 47]).unwrap();
        let mut answer = [0];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(answer, *b"S");
        let name = ServerName::try_from(name).unwrap();
        let session = rustls::ClientConnection::new(Arc::clone(&config), name).unwrap();
        let mut stream = rustls::StreamOwned::new(session, stream);
        // The startup is answered only if the certificate was good.
        let user = format!("user\0{}\0\0", server.user());
        let length = u32::try_from(user.len() + 8).unwrap().to_be_bytes();
        stream.write_all(&[&length, &[0, 3, 0, 0], user.as_bytes()].concat()).unwrap();
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(answer, *b"R", "asked for a password");
    }

    assert_eq!(proxy.messages(), 1, "only the question for encryption can be seen");

    let plain = database.url_with(server.address(), &[("sslmode", "disable")]).parse().unwrap();
    let cause = connect(&plain).await.unwrap_err();
    assert_eq!(cause.code(), Some(&SqlState::INVALID_AUTHORIZATION_SPECIFICATION));
}

/// What makes this program start a server and wait to be killed.
const VICTIM: &str = "EVERTURN_TEST_POSTGRES_VICTIM";

#[test]
fn a_killed_test_leaves_no_server() {
    if std::env::var_os(VICTIM).is_some() {
        let server = Postgres::start();
        // Not by the macro, whose output the test harness may keep to itself.
        std::io::stdout().write_all(format!("\npid {}\n", server.pid()).as_bytes()).unwrap();
        std::thread::sleep(everturn_testkit::deadline::PATIENCE);
        return;
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "postgres::a_killed_test_leaves_no_server", "--nocapture"]).env(VICTIM, "1");
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let pid = lines.map_while(Result::ok).find_map(|line| line.strip_prefix("pid ")?.parse::<i32>().ok());
    let folder = std::fs::read(format!("/proc/{}/cmdline", pid.unwrap())).unwrap();
    let folder = String::from_utf8(folder).unwrap();
    let folder = Path::new(folder.split('\0').nth(2).unwrap()).parent().unwrap();
    assert!(folder.is_dir());
    child.kill().unwrap();
    child.wait().unwrap();
    wait_until("the server to end", || has_ended(pid.unwrap()) && !folder.exists());
}

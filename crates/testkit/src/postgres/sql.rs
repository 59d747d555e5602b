//! SQL for the needs of the kit itself, as the superuser through the server's Unix socket.
//!
//! It waits without an executor, because it is also used when values are dropped. Tests are often inside one, which
//! does not let another begin on the same thread; so each use has a thread of its own.

use std::path::Path;
use std::time::Duration;

use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Config, NoTls, SimpleQueryMessage};

use super::{USER, programs};

/// What became of a statement.
#[derive(Debug)]
pub(super) enum StatementFailure {
    /// Nothing listens on the socket.
    NotThere,
    /// The server did not let us in, or refused the statement.
    Sql(tokio_postgres::Error),
    /// There was no answer in time.
    Late,
}

/// Runs one statement and returns the first column of its rows.
pub(super) fn run(
    folder: &Path,
    port: u16,
    sql: &str,
    patience: Duration,
) -> Result<Vec<String>, StatementFailure> {
    let mut result = Err(StatementFailure::Late);
    programs::until(patience, || {
        result = attempt(folder, port, sql, patience);
        !matches!(&result, Err(StatementFailure::Sql(cause)) if is_passing(cause))
    });
    result
}

fn attempt(folder: &Path, port: u16, sql: &str, patience: Duration) -> Result<Vec<String>, StatementFailure> {
    let work = async {
        let client = connect(folder, port).await?;
        let messages = client.simple_query(sql).await.map_err(StatementFailure::Sql)?;
        let first = |message: &SimpleQueryMessage| match message {
            SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
            _ => None,
        };
        Ok(messages.iter().filter_map(first).collect())
    };
    let wait = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("an executor");
        runtime.block_on(async {
            tokio::time::timeout(patience, work).await.unwrap_or(Err(StatementFailure::Late))
        })
    };
    std::thread::scope(|scope| scope.spawn(wait).join()).expect("a thread for SQL")
}

/// Whether a server answers there. One that has no room for us does; one that still recovers is waited for.
pub(super) fn is_alive(folder: &Path, port: u16, patience: Duration) -> bool {
    let mut alive = false;
    programs::until(patience, || match attempt(folder, port, "SELECT 1", patience) {
        Ok(_) => {
            alive = true;
            true
        }
        Err(StatementFailure::Sql(cause)) => {
            alive = cause.code() == Some(&SqlState::TOO_MANY_CONNECTIONS);
            alive
        }
        Err(StatementFailure::NotThere | StatementFailure::Late) => true,
    });
    alive
}

/// Whether a connection that was refused for this reason may be granted soon.
fn is_passing(cause: &tokio_postgres::Error) -> bool {
    [SqlState::TOO_MANY_CONNECTIONS, SqlState::CANNOT_CONNECT_NOW]
        .iter()
        .any(|state| cause.code() == Some(state))
}

async fn connect(folder: &Path, port: u16) -> Result<Client, StatementFailure> {
    let mut config = Config::new();
    config.host_path(folder).port(port).user(USER).dbname("postgres").application_name("everturn-testkit");
    match config.connect(NoTls).await {
        Ok((client, connection)) => {
            tokio::spawn(connection);
            Ok(client)
        }
        Err(cause) if cause.code().is_some() => Err(StatementFailure::Sql(cause)),
        Err(_) => Err(StatementFailure::NotThere),
    }
}

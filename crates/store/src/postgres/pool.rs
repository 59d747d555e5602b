//! Connections for reading and for small writes.
//!
//! What is read in several statements is read in one transaction, so that all rows of an answer are of one moment. Its
//! begin and its end are sent without waiting for their answers: they cannot fail without the statements between them
//! failing too.

use std::ops::{ControlFlow, Deref};
use std::pin::{Pin, pin};
use std::task::{Context, Waker};
use std::time::Duration;

use deadpool_postgres::{ClientWrapper, Manager, ManagerConfig, Object, PoolError, Runtime};

use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::address::Address;
use super::failure::{ServerFailure, refusal};
use crate::Error;

/// How many connections there are at most.
const CONNECTIONS: usize = 8;

/// How long an answer may take before its connection counts as gone.
const ANSWER: Duration = Duration::from_secs(60);

/// How long to wait for a free connection, and for a new one.
const WAIT: Duration = Duration::from_secs(30);

/// The pauses before a lost statement is tried again.
const PAUSES: [Duration; 3] = [Duration::ZERO, Duration::from_millis(50), Duration::from_millis(250)];

/// What a server will have answered. It is boxed because an `async fn` is compiled again by each crate that waits for it,
/// and behind every question there are these.
type ServerAnswer<'a, T> = Pin<Box<dyn Future<Output = Result<T, ServerFailure>> + Send + 'a>>;

/// The connections.
#[derive(Debug)]
pub(super) struct Pool {
    pool: deadpool_postgres::Pool,
    address: Address,
}

impl Pool {
    pub(super) fn new(address: Address) -> Result<Self, Error> {
        let manager =
            Manager::from_connect(tokio_postgres::Config::new(), address.clone(), ManagerConfig::default());
        let pool = deadpool_postgres::Pool::builder(manager)
            .max_size(CONNECTIONS)
            .runtime(Runtime::Tokio1)
            .wait_timeout(Some(WAIT))
            .create_timeout(Some(WAIT))
            .build()
            .map_err(|error| Error::Server(error.to_string()))?;
        Ok(Self { pool, address })
    }

    /// A connection.
    pub(super) fn client(&self) -> ServerAnswer<'_, PooledConnection> {
        Box::pin(async {
            match self.pool.get().await {
                Ok(client) => Ok(PooledConnection { client: Some(client), open: false }),
                Err(PoolError::Backend(error)) => Err(refusal(&error, self.address.name())),
                Err(PoolError::Closed) => Err(Error::Closed.into()),
                Err(error) => Err(ServerFailure::Lost(error.to_string())),
            }
        })
    }

    /// A connection that sees one moment of the database for as long as it is lent.
    pub(super) async fn snapshot(&self) -> Result<PooledConnection, ServerFailure> {
        let mut connection = self.client().await?;
        connection.open = true;
        send(&connection, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY");
        Ok(connection)
    }
}

/// A connection of the pool; it goes back when dropped.
#[derive(Debug)]
pub(super) struct PooledConnection {
    // Always there until the end.
    client: Option<Object>,
    /// In a transaction.
    open: bool,
}

impl PooledConnection {
    /// Takes the outcome of what was asked over it; one that is broken does not go back.
    pub(super) fn end<T>(mut self, outcome: &Result<T, ServerFailure>) {
        if matches!(outcome, Err(ServerFailure::Lost(_)))
            && let Some(client) = self.client.take()
        {
            drop(Object::take(client));
        }
    }
}

impl Drop for PooledConnection {
    fn drop(&mut self) {
        if self.open
            && let Some(client) = &self.client
        {
            // Here too when the caller went away in the middle.
            send(client, "COMMIT");
        }
    }
}

impl Deref for PooledConnection {
    type Target = ClientWrapper;

    #[allow(clippy::expect_used, reason = "it is taken only by `end` and `drop`, which nothing follows")]
    fn deref(&self) -> &ClientWrapper {
        self.client.as_ref().expect("a lent connection is there until it is given back")
    }
}

/// Sends a statement without waiting for its answer: statements are sent when they are first polled.
fn send(client: &ClientWrapper, sql: &str) {
    let mut sent = pin!(client.batch_execute(sql));
    // Whatever its answer is, those of the statements behind it tell as well.
    drop(sent.as_mut().poll(&mut Context::from_waker(Waker::noop())));
}

/// The values of a statement.
pub(super) type StatementValues<'v> = &'v [&'v (dyn ToSql + Sync)];

/// The rows of a statement, which is prepared once for each connection.
pub(super) fn query<'q>(
    client: &'q ClientWrapper,
    sql: &'q str,
    values: StatementValues<'q>,
) -> ServerAnswer<'q, Vec<Row>> {
    Box::pin(async move {
        let statement = client.prepare_cached(sql).await?;
        Ok(client.query(&statement, values).await?)
    })
}

/// Waits for an answer, but not forever.
pub(super) async fn limited<T>(
    work: impl Future<Output = Result<T, ServerFailure>>,
) -> Result<T, ServerFailure> {
    tokio::time::timeout(ANSWER, work)
        .await
        .unwrap_or_else(|_| Err(ServerFailure::Lost("it does not answer".to_owned())))
}

/// How often something was tried over a connection that broke.
#[derive(Debug, Default)]
pub(super) struct ReconnectTries(usize);

impl ReconnectTries {
    /// What comes of an outcome: an answer, or another try.
    pub(super) async fn settle<T>(
        &mut self,
        outcome: Result<T, ServerFailure>,
        address: &Address,
    ) -> ControlFlow<Result<T, Error>> {
        if matches!(outcome, Err(ServerFailure::Lost(_)))
            && let Some(pause) = PAUSES.get(self.0)
        {
            self.0 += 1;
            tokio::time::sleep(*pause).await;
            return ControlFlow::Continue(());
        }
        ControlFlow::Break(outcome.map_err(|failure| failure.into_error(address.name())))
    }
}

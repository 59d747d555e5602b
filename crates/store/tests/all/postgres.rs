//! The engine on PostgreSQL, against a real server.

mod append;
mod history;
mod lease;
mod opening;
mod outage;
mod read;
mod watch;

use everturn_store::{Options, Store};
use everturn_testkit::{Database, Postgres};

/// A database, and a folder where the processes that share it tell each other that they live.
pub(crate) struct Place {
    pub(crate) database: Database,
    pub(crate) folder: tempfile::TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self::on(&Postgres::shared())
    }

    pub(crate) fn on(server: &Postgres) -> Self {
        Self { database: server.database(), folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn options(&self, owner: &str) -> Options {
        Options::server(&self.database.url(), self.folder.path(), owner)
    }

    pub(crate) async fn open(&self, owner: &str) -> Store {
        Store::open(self.options(owner)).await.unwrap()
    }

    /// A connection to look behind the store's back.
    pub(crate) async fn client(&self) -> tokio_postgres::Client {
        let (client, connection) = self.database.config().connect(tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        client
    }
}

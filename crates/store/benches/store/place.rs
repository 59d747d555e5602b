//! Where a measurement runs: a fresh folder or a fresh database, always on the disk.

use everturn_store::{Options, Store};
use everturn_testkit::postgres::{Postgres, TestDatabase};

pub(crate) struct Place {
    pub(crate) name: &'static str,
    pub(crate) folder: tempfile::TempDir,
    pub(crate) database: Option<TestDatabase>,
}

impl Place {
    pub(crate) fn sqlite() -> Self {
        Self { name: "SQLite", folder: tempfile::tempdir().unwrap(), database: None }
    }

    pub(crate) fn postgres() -> Self {
        let database = Some(Postgres::shared().database());
        Self { name: "PostgreSQL", folder: tempfile::tempdir().unwrap(), database }
    }

    pub(crate) fn options(&self, owner: &str) -> Options {
        match &self.database {
            Some(database) => Options::server(&database.url(), self.folder.path(), owner),
            None => Options::folder(self.folder.path(), owner),
        }
    }

    pub(crate) async fn open(&self, owner: &str) -> Store {
        Store::open(self.options(owner)).await.unwrap()
    }
}

//! The engine on PostgreSQL, against a real server.

mod append;
mod durability;
mod encryption;
mod feed;
mod lease;
mod opening;
mod outage;
mod scrub;

use everturn_model::ids::{RANDOM, Stamp};
use everturn_model::{EntryId, Event, EventId, SessionId};
use everturn_store::{NewEvent, Options, Store};
use everturn_testkit::{Postgres, TestDatabase};

pub(crate) const ID: &str = "ses_e22d949d4ffea45SRailGCTWbN";

/// An event with the id of its number.
pub(crate) fn event(number: u64, event: Event) -> NewEvent {
    let time = crate::events::NOW;
    NewEvent { id: EventId::mint(Stamp::at(time, number), [1; RANDOM]), time, event }
}

pub(crate) fn created(id: &str) -> Event {
    Event::SessionCreated { session: Box::new(crate::events::session(&SessionId::new(id))) }
}

pub(crate) fn titled(number: u64, title: &str) -> NewEvent {
    let entry = EntryId::mint(Stamp::at(crate::events::NOW, number), [2; RANDOM]);
    event(number, Event::TitleChanged { entry, parent: None, title: title.into(), replaces: None })
}

/// A database, and a folder where the processes that share it tell each other that they live.
pub(crate) struct Place {
    pub(crate) database: TestDatabase,
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

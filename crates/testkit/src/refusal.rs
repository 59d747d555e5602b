//! A store's database that takes no event of one type, or no owner of a session: a failed commit at the moment that a test
//! is about, and at no other.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::Connection;

/// How long a writer of the same database may take.
const BUSY: Duration = Duration::from_secs(30);

/// Something that is refused until [`Refusal::lift`].
#[derive(Debug)]
pub struct Refusal {
    database: PathBuf,
}

impl Refusal {
    /// Refuses events of a type in any version, such as `tool.called`, in the SQLite database of a data folder.
    ///
    /// # Panics
    ///
    /// When there is no such database.
    pub fn of(folder: &Path, event: &str) -> Self {
        let refusal = Self { database: folder.join("everturn.db") };
        refusal.run(&format!(
            "CREATE TRIGGER refused BEFORE INSERT ON event WHEN NEW.type GLOB '{event}.*'
             BEGIN SELECT RAISE(ABORT, 'the test takes no {event}'); END"
        ));
        refusal
    }

    /// Refuses whoever wants to run a session, in the SQLite database of a data folder.
    ///
    /// # Panics
    ///
    /// When there is no such database.
    pub fn of_owners(folder: &Path) -> Self {
        let refusal = Self { database: folder.join("everturn.db") };
        refusal.run(
            "CREATE TRIGGER refused BEFORE UPDATE OF owner ON session WHEN NEW.owner IS NOT NULL
             BEGIN SELECT RAISE(ABORT, 'the test takes no owner'); END",
        );
        refusal
    }

    /// Takes them again.
    ///
    /// # Panics
    ///
    /// When the database is gone.
    pub fn lift(self) {
        self.run("DROP TRIGGER refused");
    }

    fn run(&self, sql: &str) {
        let connection = Connection::open(&self.database).expect("the store's database");
        connection.busy_timeout(BUSY).expect("a limit to waiting");
        connection.execute_batch(sql).expect("a change of the store's schema");
    }
}

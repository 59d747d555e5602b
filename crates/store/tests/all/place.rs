//! Where a contract test keeps its data: a fresh place of either engine.
//!
//! A test of the contract is one function over a [`Place`]; [`contract!`] makes two tests of it, one for each engine.
//! So what is promised is written once, and an engine that is not there fails instead of being left out.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Duration;

use everturn_model::{EntryId, SessionId};
use everturn_store::{Options, Store, Timing};
use everturn_testkit::postgres::{Postgres, TestDatabase};
use tempfile::TempDir;

/// How often those speak who have to.
const BEAT: Duration = Duration::from_millis(50);

/// Longer than any test.
const NEVER: Duration = Duration::from_secs(3600);

/// Which engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Sqlite,
    Postgres,
}

/// A place without data. Stores opened on it act as processes that share it.
#[derive(Debug)]
pub(crate) struct Place {
    kind: Kind,
    /// The data on SQLite; on a server only what the processes of one host tell each other.
    folder: TempDir,
    database: Option<TestDatabase>,
}

impl Place {
    /// A fresh place.
    pub(crate) fn new(kind: Kind) -> Self {
        Self::within(kind, tempfile::tempdir().unwrap())
    }

    /// A fresh place in memory, where the machine has such a folder: for tests that need speed and no disk.
    pub(crate) fn in_memory(kind: Kind) -> Self {
        let memory = Path::new("/dev/shm");
        let folder = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
        Self::within(kind, folder.unwrap())
    }

    fn within(kind: Kind, folder: TempDir) -> Self {
        let database = (kind == Kind::Postgres).then(|| Postgres::shared().database());
        Self { kind, folder, database }
    }

    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    /// How a process of that name opens it.
    pub(crate) fn options(&self, owner: &str) -> Options {
        match &self.database {
            None => Options::folder(self.folder.path(), owner),
            Some(database) => Options::server(&database.url(), self.folder.path(), owner),
        }
    }

    /// Opens it as a process of that name.
    pub(crate) async fn open(&self, owner: &str) -> Store {
        self.open_with(owner, |_| ()).await
    }

    /// Opens it as a process of that name, with other options than usual.
    pub(crate) async fn open_with(&self, owner: &str, change: impl FnOnce(&mut Options)) -> Store {
        let mut options = self.options(owner);
        change(&mut options);
        Store::open(options).await.unwrap()
    }

    /// Opens it as a process that says only once that it lives, as if it were stopped right after. It loses what it has
    /// when the patience ends, and never gives up on others.
    pub(crate) async fn open_silent(&self, owner: &str, patience: Duration) -> Store {
        // In a folder everybody judges others by their own patience; on a server they say how long they may be silent.
        let patience = if self.kind == Kind::Postgres { patience } else { NEVER };
        self.open_timed(owner, patience, NEVER).await
    }

    /// Opens it as a process that gives up on the silent when the patience ends, and that nobody gives up on: a
    /// machine under load may let it speak late.
    pub(crate) async fn open_impatient(&self, owner: &str, patience: Duration) -> Store {
        let patience = if self.kind == Kind::Postgres { NEVER } else { patience };
        self.open_timed(owner, patience, BEAT).await
    }

    /// Opens it as a process that says often that it lives, and of which that is expected.
    pub(crate) async fn open_speaking(&self, owner: &str, patience: Duration) -> Store {
        self.open_timed(owner, patience, BEAT).await
    }

    async fn open_timed(&self, owner: &str, patience: Duration, beat: Duration) -> Store {
        self.open_with(owner, |options| options.timing = Timing { patience, beat, ..Timing::default() }).await
    }

    /// What nobody may be shown.
    pub(crate) fn password(&self) -> Option<String> {
        let password = |database: &TestDatabase| {
            let config = database.config();
            String::from_utf8(config.get_password().unwrap().to_vec()).unwrap()
        };
        self.database.as_ref().map(password)
    }

    /// Damages the row of a session behind the store's back.
    pub(crate) async fn garble(&self, session: &SessionId) {
        let Some(database) = &self.database else {
            let connection = rusqlite::Connection::open(self.folder.path().join("everturn.db")).unwrap();
            connection.execute("UPDATE session SET data = '{' WHERE id = ?1", [session.as_str()]).unwrap();
            return;
        };
        let (client, connection) = database.config().connect(tokio_postgres::NoTls).await.unwrap();
        let connection = tokio::spawn(connection);
        let sql = "UPDATE everturn.session SET data = '{' WHERE id = $1";
        assert_eq!(client.execute(sql, &[&session.as_str()]).await.unwrap(), 1);
        drop(client);
        connection.await.unwrap().unwrap();
    }

    /// Damages all entries and parts of a session but those of some entries behind the store's back.
    pub(crate) async fn garble_other_nodes(&self, session: &SessionId, kept: &[EntryId]) {
        let kept: Vec<String> = kept.iter().map(|id| format!("'{id}'")).collect();
        let kept = kept.join(", ");
        let sql = |table: &str, column: &str| {
            format!(
                "UPDATE {table} SET data = '{{' WHERE {column} NOT IN ({kept})
                 AND session = (SELECT key FROM session WHERE id = '{session}');"
            )
        };
        let sql = sql("entry", "id") + &sql("part", "entry");
        let Some(database) = &self.database else {
            let connection = rusqlite::Connection::open(self.folder.path().join("everturn.db")).unwrap();
            return connection.execute_batch(&sql).unwrap();
        };
        let (client, connection) = database.config().connect(tokio_postgres::NoTls).await.unwrap();
        let connection = tokio::spawn(connection);
        client.batch_execute(&format!("SET search_path = everturn; {sql}")).await.unwrap();
        drop(client);
        connection.await.unwrap().unwrap();
    }

    /// Under which ownership each event of a session was written, in their order. No answer of the store tells it.
    pub(crate) async fn epochs(&self, session: &SessionId) -> Vec<Option<u64>> {
        let Some(database) = &self.database else {
            let sql = "SELECT e.epoch FROM event e JOIN session s ON s.key = e.session WHERE s.id = ?1
                       ORDER BY e.seq";
            let path = self.folder.path().join("everturn.db");
            let connection = rusqlite::Connection::open(path).unwrap();
            let mut statement = connection.prepare(sql).unwrap();
            let rows = statement.query_map([session.as_str()], |row| row.get(0)).unwrap();
            return rows.collect::<Result<_, _>>().unwrap();
        };
        let sql = "SELECT e.epoch FROM event e JOIN session s ON s.key = e.session WHERE s.id = $1
                   ORDER BY e.seq";
        let (client, connection) = database.config().connect(tokio_postgres::NoTls).await.unwrap();
        let connection = tokio::spawn(connection);
        let rows = client.query(sql, &[&session.as_str()]).await.unwrap();
        drop(client);
        connection.await.unwrap().unwrap();
        let epoch = |row: &tokio_postgres::Row| row.get::<_, Option<i64>>(0);
        rows.iter().map(epoch).map(|epoch| epoch.map(|epoch| u64::try_from(epoch).unwrap())).collect()
    }
}

/// Runs a test on a fresh place.
pub(crate) async fn on(kind: Kind, test: impl AsyncFnOnce(&Place)) {
    let place = Place::new(kind);
    test(&place).await;
}

/// Makes a test for each engine of each of these functions over a [`Place`].
macro_rules! contract {
    ($($name:ident),* $(,)?) => {
        $crate::place::contract!(@ sqlite, Sqlite, $($name),*);
        $crate::place::contract!(@ postgres, Postgres, $($name),*);
    };
    (@ $engine:ident, $kind:ident, $($name:ident),*) => {
        mod $engine {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $name() {
                    $crate::place::on($crate::place::Kind::$kind, super::$name).await;
                }
            )*
        }
    };
}
pub(crate) use contract;

/// This process under a name, in the words of an error that asks a person to stop it.
pub(crate) fn described(folder: &Path, name: &str) -> String {
    let lock = folder.join("owners").join(name);
    let place = format!(":{} ", std::fs::metadata(&lock).unwrap().ino());
    // Not every system lists locks, nor those of every file system by the numbers of their files.
    let listed = std::fs::read_to_string("/proc/locks").is_ok_and(|locks| locks.contains(&place));
    match listed {
        true => format!("process {}, {name}", std::process::id()),
        false => format!("{name}, the process that holds a lock on {}", lock.display()),
    }
}

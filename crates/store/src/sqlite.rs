//! The store on SQLite.
//!
//! One thread in each process writes; what arrives while it commits forms its next transaction (group commit without
//! waiting). Readers have connections of their own. Several processes may share one file: every write transaction is
//! `BEGIN IMMEDIATE`, and the lease of a session decides who may run it.

mod bill;
pub(crate) mod copy;
pub(crate) mod feed;
#[cfg(target_os = "linux")]
mod file_locks;
mod index;
mod instance_rows;
mod lease;
mod list;
mod migrate;
mod path;
mod reader;
mod schema;
mod space;
mod stored_path;
mod stored_session;
mod upkeep;
mod watch;
mod whole_session;
mod write;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use everturn_model::inbox::InboxItem;
use everturn_model::permission::Rule;
use everturn_model::request::Request;
use everturn_model::todo::Todo;
use everturn_model::tree::Node;
use everturn_model::{EntryId, Record, RequestId, Session, SessionId, Tree};
use rusqlite::{Connection, ErrorCode, params};
use tokio::sync::oneshot;

use crate::Error;
use crate::append::{Appended, Lease, StreamPiece};
use crate::feed::sequencer::Sequencer;
use crate::options::Options;
use crate::owner::Owner;
use crate::payload::Hash;
use crate::plan::AppendRequest;
use crate::query::{Filter, PathPiece, Search, StoredPath, StreamText, Totals};
use crate::search::IndexedPlace;
use crate::words::WordQuery;
use schema::ConnectionSettings;
use writer::Job;

/// Has the locks of connections that are opened from now on last as long as these, whatever else this process does with the
/// files.
pub(crate) fn keep_locks() {
    #[cfg(target_os = "linux")]
    file_locks::install();
}

/// The engine on SQLite.
#[derive(Debug)]
pub(crate) struct SqliteEngine {
    path: PathBuf,
    owner: Owner,
    /// None when the file may only be read.
    writer: Option<writer::WriterHandle>,
    /// Why nothing can be written; none when it can.
    read_only: Option<Error>,
    readers: Arc<reader::Pool>,
}

impl SqliteEngine {
    /// Opens the database in a folder, creating or upgrading it.
    pub(crate) fn open(
        folder: &Path,
        options: &Options,
        sequencer: Option<&Arc<Sequencer>>,
    ) -> Result<Self, Error> {
        let path = schema::prepare(folder)?;
        Self::open_file(folder, path.clone(), options, sequencer).map_err(|error| named(&path, error))
    }

    fn open_file(
        folder: &Path,
        path: PathBuf,
        options: &Options,
        sequencer: Option<&Arc<Sequencer>>,
    ) -> Result<Self, Error> {
        let settings = ConnectionSettings {
            path: path.clone(),
            durability: options.durability,
            vfs: options.vfs.clone(),
        };
        let mut connection = schema::open(&settings)?;
        let migrated = migrate::migrate(&mut connection, &path);
        let owner = Owner::claim(folder, &options.owner, options.timing)?;
        // A newer version that did not see this process may have changed the file just now; from here on it sees it.
        let read_only = match migrated.and_then(|()| migrate::refuse_newer(&connection, &path)) {
            Ok(()) => None,
            Err(newer @ Error::Newer { .. }) => Some(newer),
            Err(error) => return Err(error),
        };
        let writer = if read_only.is_none() {
            schema::configure(&connection, &settings)?;
            Some(writer::WriterHandle::start(
                connection,
                path.clone(),
                sequencer.map(Arc::clone),
                options.commit_hook.clone(),
            )?)
        } else {
            None
        };
        let readers = Arc::new(reader::Pool::new(settings));
        Ok(Self { path, owner, writer, read_only, readers })
    }

    pub(crate) fn place(&self) -> String {
        self.path.display().to_string()
    }

    pub(crate) fn owner(&self) -> &str {
        self.owner.name()
    }

    /// Why nothing can be written; none when it can.
    pub(crate) fn read_only(&self) -> Option<Error> {
        self.read_only.clone()
    }

    fn send(&self, job: Job) -> Result<(), Error> {
        match &self.writer {
            Some(writer) => writer.send(job),
            None => Err(self.read_only().unwrap_or(Error::Closed)),
        }
    }

    pub(crate) async fn append(&self, asked: AppendRequest) -> Result<Appended, Error> {
        let (answer, result) = oneshot::channel();
        self.send(Job::Append(Box::new(asked), answer))?;
        result.await.map_err(|_| Error::Closed)?
    }

    pub(crate) fn save_stream(&self, piece: StreamPiece) {
        // A closed store saves nothing, and the append that follows will say so.
        drop(self.send(Job::Stream(Box::new(piece))));
    }

    /// A write that takes part in a group.
    async fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let (job, result) = Job::other(work);
        self.send(job)?;
        result.await.map_err(|_| Error::Closed)?.map_err(|error| named(&self.path, error))
    }

    pub(crate) async fn acquire(&self, session: &SessionId) -> Result<Lease, Error> {
        let (session, owner) = (session.clone(), self.owner.clone());
        self.write(move |connection| lease::acquire(connection, &session, &owner)).await
    }

    pub(crate) async fn renew(&self, lease: &Lease) -> Result<(), Error> {
        let lease = lease.clone();
        self.write(move |connection| lease::check(connection, &lease)).await
    }

    pub(crate) async fn release(&self, lease: Lease) -> Result<(), Error> {
        self.write(move |connection| lease::release(connection, &lease)).await
    }

    pub(crate) async fn approve(
        &self,
        project: &str,
        folder: &str,
        rules: Vec<Rule>,
        time: i64,
    ) -> Result<(), Error> {
        let (project, folder) = (project.to_owned(), folder.to_owned());
        let approve = move |connection: &Connection| {
            let mut statement =
                connection.prepare_cached("INSERT OR IGNORE INTO approval VALUES (?1, ?2, ?3, ?4, ?5)")?;
            for rule in &rules {
                statement.execute(params![project, folder, rule.permission, rule.pattern, time])?;
            }
            Ok(())
        };
        self.write(approve).await
    }

    pub(crate) async fn put_project(&self, id: &str, data: String) -> Result<(), Error> {
        let id = id.to_owned();
        let put = move |connection: &Connection| {
            connection
                .prepare_cached("INSERT INTO project VALUES (?1, ?2) ON CONFLICT DO UPDATE SET data = ?2")?
                .execute(params![id, data])?;
            Ok(())
        };
        self.write(put).await
    }

    async fn read<T, F>(&self, query: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, Error> + Send + 'static,
    {
        let readers = Arc::clone(&self.readers);
        tokio::task::spawn_blocking(move || readers.with(query)).await.map_err(|_| Error::Closed)?
    }

    pub(crate) async fn session(&self, id: &SessionId) -> Result<Option<Session>, Error> {
        let id = id.clone();
        self.read(move |connection| reader::session(connection, &id)).await
    }

    pub(crate) async fn sessions(
        &self,
        filter: Filter,
        after: Option<(i64, i64)>,
    ) -> Result<Vec<(Session, (i64, i64))>, Error> {
        self.read(move |connection| list::sessions(connection, &filter, after)).await
    }

    pub(crate) async fn children(&self, parent: &SessionId) -> Result<Vec<Session>, Error> {
        let parent = parent.clone();
        self.read(move |connection| list::children(connection, &parent)).await
    }

    pub(crate) async fn totals(&self, filter: Filter) -> Result<Totals, Error> {
        self.read(move |connection| list::totals(connection, &filter)).await
    }

    pub(crate) async fn find(
        &self,
        search: &Search,
        query: &WordQuery,
        skip: usize,
    ) -> Result<Vec<IndexedPlace>, Error> {
        let (search, query) = (search.clone(), query.clone());
        self.read(move |connection| list::find(connection, &search, &query, skip)).await
    }

    pub(crate) async fn tree(&self, id: &SessionId) -> Result<Option<Tree>, Error> {
        let id = id.clone();
        self.read(move |connection| reader::tree(connection, &id)).await
    }

    pub(crate) async fn todos(&self, id: &SessionId) -> Result<Vec<Todo>, Error> {
        let id = id.clone();
        self.read(move |connection| reader::todos_of(connection, &id)).await
    }

    pub(crate) async fn stored_path(
        &self,
        id: &SessionId,
        piece: PathPiece,
    ) -> Result<Option<StoredPath>, Error> {
        let id = id.clone();
        self.read(move |connection| stored_path::piece(connection, &id, &piece)).await
    }

    pub(crate) async fn waiting_prompt(
        &self,
        id: &SessionId,
        prompt: &EntryId,
    ) -> Result<Option<InboxItem>, Error> {
        let (id, prompt) = (id.clone(), prompt.clone());
        self.read(move |connection| reader::waiting_prompt(connection, &id, &prompt)).await
    }

    pub(crate) async fn node(&self, id: &SessionId, entry: &EntryId) -> Result<Option<Node>, Error> {
        let (id, entry) = (id.clone(), entry.clone());
        self.read(move |connection| reader::node(connection, &id, &entry)).await
    }

    pub(crate) async fn walk(
        &self,
        id: &SessionId,
        from: &EntryId,
        limit: usize,
    ) -> Result<Vec<Node>, Error> {
        let (id, from) = (id.clone(), from.clone());
        self.read(move |connection| path::walk(connection, &id, &from, limit)).await
    }

    pub(crate) async fn spine(&self, id: &SessionId, from: &EntryId) -> Result<Vec<EntryId>, Error> {
        let (id, from) = (id.clone(), from.clone());
        self.read(move |connection| path::spine(connection, &id, &from)).await
    }

    pub(crate) async fn nodes(&self, id: &SessionId, wanted: Vec<EntryId>) -> Result<Vec<Node>, Error> {
        let id = id.clone();
        self.read(move |connection| path::nodes(connection, &id, &wanted)).await
    }

    pub(crate) async fn events(
        &self,
        id: &SessionId,
        after: Option<u64>,
        limit: usize,
    ) -> Result<Vec<Record>, Error> {
        let id = id.clone();
        self.read(move |connection| reader::events(connection, &id, after, limit)).await
    }

    pub(crate) async fn unfinished(&self) -> Result<Vec<SessionId>, Error> {
        self.read(reader::unfinished).await
    }

    pub(crate) async fn orphans(&self) -> Result<Vec<SessionId>, Error> {
        let owned = self.read(reader::owned).await?;
        let me = &self.owner;
        let lost = |owner: &str| owner != me.name() && me.has_lost(owner);
        Ok(owned.into_iter().filter(|(_, owner)| lost(owner)).map(|(id, _)| id).collect())
    }

    pub(crate) async fn streams(&self, id: &SessionId) -> Result<Vec<StreamText>, Error> {
        let id = id.clone();
        self.read(move |connection| reader::streams(connection, &id)).await
    }

    pub(crate) async fn requests(&self) -> Result<Vec<(SessionId, Request)>, Error> {
        self.read(reader::requests).await
    }

    pub(crate) async fn request(&self, id: &RequestId) -> Result<Option<(SessionId, Request)>, Error> {
        let id = id.clone();
        self.read(move |connection| reader::request(connection, &id)).await
    }

    pub(crate) async fn approvals(&self, project: &str, folder: &str) -> Result<Vec<Rule>, Error> {
        let (project, folder) = (project.to_owned(), folder.to_owned());
        self.read(move |connection| reader::approvals(connection, &project, &folder)).await
    }

    pub(crate) async fn projects(&self) -> Result<Vec<(String, String)>, Error> {
        self.read(reader::projects).await
    }

    pub(crate) async fn blob(&self, hash: Hash) -> Result<Option<Vec<u8>>, Error> {
        self.read(move |connection| reader::blob(connection, &hash)).await
    }

    pub(crate) async fn secret(&self) -> Result<Vec<u8>, Error> {
        Ok(self.read(list::secret).await?.unwrap_or_default())
    }

    /// What the feed reads with.
    pub(crate) fn feed_reader(&self) -> feed::FileReader {
        feed::FileReader::new(&self.readers)
    }

    /// Sessions with an open turn that another living process has the right to run.
    pub(crate) async fn run_elsewhere(&self) -> Result<Vec<SessionId>, Error> {
        let owned = self.read(feed::open_and_owned).await?;
        let me = &self.owner;
        let elsewhere = |owner: &str| owner != me.name() && !me.has_lost(owner);
        Ok(owned.into_iter().filter(|(_, owner)| elsewhere(owner)).map(|(id, _)| id).collect())
    }
}

/// Copies the database into a new file, whole, that only its owner may read.
fn copy_into(connection: &Connection, target: &Path) -> Result<(), Error> {
    let io = |source| Error::io(target, source);
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.mode(0o600);
    }
    // SQLite fills an empty file that is there, and so its mode is right from the start.
    let file = options.open(target).map_err(io)?;
    connection
        .execute("VACUUM INTO ?1", [target.display().to_string()])
        .map_err(|source| failure(target, source))?;
    file.sync_all().map_err(io)
}

/// An error of SQLite by what the caller can do.
fn failure(path: &Path, error: impl Into<Arc<rusqlite::Error>>) -> Error {
    use rusqlite::Error as Cause;
    let (path, error) = (path.to_owned(), error.into());
    match (error.sqlite_error_code(), &*error) {
        (Some(ErrorCode::DiskFull), _) => Error::Full { path },
        (Some(ErrorCode::NotADatabase), _) => Error::NotOurs { path, reason: error.to_string() },
        (Some(ErrorCode::DatabaseCorrupt), _) if index::is_damaged(&error) => Error::Index { path },
        (Some(ErrorCode::DatabaseCorrupt), _) => Error::Damaged { path, reason: error.to_string() },
        (Some(ErrorCode::SystemIoFailure | ErrorCode::CannotOpen), _) => {
            Error::io(path, std::io::Error::other(error.to_string()))
        }
        // We wrote text and numbers where we now find something else: SQLite has no checksums to notice it before.
        (
            _,
            Cause::FromSqlConversionFailure(..)
            | Cause::InvalidColumnType(..)
            | Cause::IntegralValueOutOfRange(..)
            | Cause::Utf8Error(..)
            // Our statements are right; the tables are not as we made them.
            | Cause::SqlInputError { .. },
        ) => Error::Damaged { path, reason: error.to_string() },
        _ => Error::Sqlite(error),
    }
}

/// Names the file in an error that does not do so yet.
fn named(path: &Path, error: Error) -> Error {
    match error {
        Error::Sqlite(error) => failure(path, error),
        other => other,
    }
}

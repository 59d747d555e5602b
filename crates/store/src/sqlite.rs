//! The store on SQLite.
//!
//! One thread in each process writes; what arrives while it commits forms its next transaction (group commit without
//! waiting). Readers have connections of their own. Several processes may share one file: every write transaction is
//! `BEGIN IMMEDIATE`, and the lease of a session decides who may run it.

mod lease;
mod projection;
mod reader;
mod schema;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use everturn_model::permission::Rule;
use everturn_model::request::Request;
use everturn_model::todo::Todo;
use everturn_model::tree::Node;
use everturn_model::{EntryId, EventId, PartId, Record, RequestId, Session, SessionId, Tree};
use rusqlite::Connection;
use tokio::sync::{oneshot, watch};

use crate::Error;
use crate::append::{Appended, Authority, Lease, NewEvent, Observer};
use crate::query::{Filter, StreamText};
use crate::watch::Watch;

pub use reader::Tail;

/// A handle on the store; clones share it. The last one closes it.
#[derive(Debug, Clone)]
pub struct Store(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    path: PathBuf,
    owner: lease::Owner,
    writer: writer::Handle,
    readers: reader::Pool,
    commits: watch::Receiver<u64>,
}

impl Store {
    /// Opens the database in `folder`, creating or upgrading it. `owner` names this process in leases and must be
    /// unique.
    ///
    /// # Errors
    /// When the folder cannot be used or holds something else.
    pub fn open(folder: &Path, owner: &str, observer: Option<Observer>) -> Result<Self, Error> {
        let path = schema::prepare(folder)?;
        let connection = schema::open(&path)?;
        let owner = lease::Owner::claim(folder, owner)?;
        let (count, commits) = watch::channel(0);
        let writer = writer::Handle::start(connection, observer, count)?;
        let readers = reader::Pool::new(path.clone());
        Ok(Self(Arc::new(Inner { path, owner, writer, readers, commits })))
    }

    /// The database file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// The name of this process in leases.
    #[must_use]
    pub fn owner(&self) -> &str {
        self.0.owner.name()
    }

    /// Appends events to one session, all or none, and answers when they are on disk. The first event of a new
    /// session is its creation.
    ///
    /// # Errors
    /// When the session is missing, the lease is lost, the events do not fit, or the disk refuses.
    pub async fn append(
        &self,
        session: &SessionId,
        authority: Authority,
        events: Vec<NewEvent>,
    ) -> Result<Appended, Error> {
        let (answer, result) = oneshot::channel();
        let append = writer::Append { session: session.clone(), authority, events, answer };
        self.0.writer.send(writer::Job::Append(Box::new(append)))?;
        result.await.map_err(|_| Error::Closed)?
    }

    /// The same for a caller that is not asynchronous.
    ///
    /// # Errors
    /// As [`Store::append`].
    pub fn append_blocking(
        &self,
        session: &SessionId,
        authority: Authority,
        events: Vec<NewEvent>,
    ) -> Result<Appended, Error> {
        let (answer, result) = oneshot::channel();
        let append = writer::Append { session: session.clone(), authority, events, answer };
        self.0.writer.send(writer::Job::Append(Box::new(append)))?;
        result.blocking_recv().map_err(|_| Error::Closed)?
    }

    /// Saves a piece of what is streamed of a part; `start` is where in the text it begins. It does not wait for the
    /// disk: what is lost is at most the newest quarter second. A lost lease shows at the next append.
    pub fn save_stream(&self, lease: &Lease, entry: &EntryId, part: &PartId, start: usize, piece: String) {
        let (lease, entry, part) = (lease.clone(), entry.clone(), part.clone());
        let job = writer::Job::Stream(Box::new(writer::Piece { lease, entry, part, start, text: piece }));
        // A closed store saves nothing, and the append that follows will say so.
        drop(self.0.writer.send(job));
    }

    /// Takes the right to run a session: free ones, our own, and those whose process is dead.
    ///
    /// # Errors
    /// `Busy` when a living process has it.
    pub async fn acquire(&self, session: &SessionId) -> Result<Lease, Error> {
        let (answer, result) = oneshot::channel();
        let owner = self.0.owner.clone();
        self.0.writer.send(writer::Job::Acquire { session: session.clone(), owner, answer })?;
        result.await.map_err(|_| Error::Closed)?
    }

    /// Gives the right back.
    ///
    /// # Errors
    /// When the disk refuses.
    pub async fn release(&self, lease: Lease) -> Result<(), Error> {
        let (answer, result) = oneshot::channel();
        self.0.writer.send(writer::Job::Release { lease, answer })?;
        result.await.map_err(|_| Error::Closed)?
    }

    /// Remembers what a person allowed from now on in a project.
    ///
    /// # Errors
    /// When the disk refuses.
    pub async fn approve(&self, project: &str, rules: Vec<Rule>, time: i64) -> Result<(), Error> {
        let (answer, result) = oneshot::channel();
        let project = project.to_owned();
        self.0.writer.send(writer::Job::Approve { project, rules, time, answer })?;
        result.await.map_err(|_| Error::Closed)?
    }

    /// Remembers a project, as an object that the caller understands.
    ///
    /// # Errors
    /// When the disk refuses.
    pub async fn put_project(&self, id: &str, data: String) -> Result<(), Error> {
        let (answer, result) = oneshot::channel();
        self.0.writer.send(writer::Job::Project { id: id.to_owned(), data, answer })?;
        result.await.map_err(|_| Error::Closed)?
    }

    /// A session's row.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn session(&self, id: &SessionId) -> Result<Option<Session>, Error> {
        let id = id.clone();
        self.read(move |connection| reader::session(connection, &id)).await
    }

    /// Sessions by a filter, newest activity first.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn sessions(&self, filter: Filter) -> Result<Vec<Session>, Error> {
        self.read(move |connection| reader::sessions(connection, &filter)).await
    }

    /// The sessions that belong to another one.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn children(&self, parent: &SessionId) -> Result<Vec<Session>, Error> {
        let parent = parent.clone();
        self.read(move |connection| reader::children(connection, &parent)).await
    }

    /// A whole session.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn tree(&self, id: &SessionId) -> Result<Option<Tree>, Error> {
        let id = id.clone();
        self.read(move |connection| reader::tree(connection, &id)).await
    }

    /// A session's task list.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn todos(&self, id: &SessionId) -> Result<Vec<Todo>, Error> {
        let id = id.clone();
        self.read(move |connection| reader::todos_of(connection, &id)).await
    }

    /// The newest entries of a session's path.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn tail(&self, id: &SessionId, messages: usize) -> Result<Option<Tail>, Error> {
        let id = id.clone();
        self.read(move |connection| reader::tail(connection, &id, messages)).await
    }

    /// One entry of a session with its parts.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn node(&self, id: &SessionId, entry: &EntryId) -> Result<Option<Node>, Error> {
        let (id, entry) = (id.clone(), entry.clone());
        self.read(move |connection| reader::node(connection, &id, &entry)).await
    }

    /// Events of a session after a seq (none: from the beginning), in order.
    ///
    /// # Errors
    /// When they cannot be read.
    pub async fn events(
        &self,
        id: &SessionId,
        after: Option<u64>,
        limit: usize,
    ) -> Result<Vec<Record>, Error> {
        let id = id.clone();
        self.read(move |connection| reader::events(connection, &id, after, limit)).await
    }

    /// Follows a session's log from behind a seq (none: from the beginning), whoever writes it.
    #[must_use]
    pub fn watch(&self, id: &SessionId, after: Option<u64>) -> Watch {
        Watch::new(self.clone(), id.clone(), after, self.0.commits.clone())
    }

    /// Where an event stands, by its id.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn find_event(&self, id: &EventId) -> Result<Option<(SessionId, u64)>, Error> {
        let id = id.clone();
        self.read(move |connection| reader::find_event(connection, &id)).await
    }

    /// Sessions that expect to go on: an open turn or a waiting prompt.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn unfinished(&self) -> Result<Vec<SessionId>, Error> {
        self.read(reader::unfinished).await
    }

    /// Unfinished sessions whose process is dead.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn orphans(&self) -> Result<Vec<SessionId>, Error> {
        let owned = self.read(reader::owned).await?;
        let me = &self.0.owner;
        let dead = |owner: &str| owner != me.name() && me.is_dead(owner);
        Ok(owned.into_iter().filter(|(_, owner)| dead(owner)).map(|(id, _)| id).collect())
    }

    /// What was saved of parts that are still open.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn streams(&self, id: &SessionId) -> Result<Vec<StreamText>, Error> {
        let id = id.clone();
        self.read(move |connection| reader::streams(connection, &id)).await
    }

    /// Requests that wait for a person, with their sessions.
    ///
    /// # Errors
    /// When they cannot be read.
    pub async fn requests(&self) -> Result<Vec<(SessionId, Request)>, Error> {
        self.read(reader::requests).await
    }

    /// One waiting request.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn request(&self, id: &RequestId) -> Result<Option<(SessionId, Request)>, Error> {
        let id = id.clone();
        self.read(move |connection| reader::request(connection, &id)).await
    }

    /// What a person allowed from now on in a project.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn approvals(&self, project: &str) -> Result<Vec<Rule>, Error> {
        let project = project.to_owned();
        self.read(move |connection| reader::approvals(connection, &project)).await
    }

    /// The projects that were remembered.
    ///
    /// # Errors
    /// When they cannot be read.
    pub async fn projects(&self) -> Result<Vec<(String, String)>, Error> {
        self.read(reader::projects).await
    }

    async fn read<T, F>(&self, query: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, Error> + Send + 'static,
    {
        let inner = Arc::clone(&self.0);
        tokio::task::spawn_blocking(move || inner.readers.with(query)).await.map_err(|_| Error::Closed)?
    }
}

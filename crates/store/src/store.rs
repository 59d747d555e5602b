//! The contract: what a store promises, whichever engine keeps it.
//!
//! - **Durable**: what an append acknowledged is there after `kill -9` and after power loss.
//! - **Whole**: the events of one append are in the log all or none, with the rows they mean, and `seq` has no gaps.
//! - **Idempotent**: appending the same events under the same ids again changes nothing and gives the same answer.
//! - **Fenced**: an owned append is refused as soon as the lease has passed on, however late it comes.
//! - **Honest**: an answer is yes, no, or [`Error::Unknown`]; never a yes that is not on disk.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use everturn_model::inbox::InboxItem;
use everturn_model::part::PartKind;
use everturn_model::permission::Rule;
use everturn_model::request::Request;
use everturn_model::todo::Todo;
use everturn_model::tree::{Node, NodeJson};
use everturn_model::{EntryId, PartId, Record, RequestId, Session, SessionId, Tree};
use tokio::task::AbortHandle;

use crate::append::{Appended, Authority, Lease, NewEvent, StreamPiece};
use crate::feed::StreamingPart;
use crate::feed::looker::{self, FeedReader};
use crate::feed::sequencer::{FollowedPart, Sequencer, streams};
use crate::fork::{self, Fork};
use crate::options::{Options, StorePlace};
use crate::payload::Hash;
use crate::plan::AppendRequest;
use crate::query::{
    Filter, Hit, Page, PageRequest, PathPiece, PathQuery, Search, StoredPath, StreamText, Tail, Totals,
};
use crate::words::WordQuery;
use crate::{Error, page, postgres, search, sqlite};

/// A handle on the store; clones share it. The last one closes it.
#[derive(Debug, Clone)]
pub struct Store(Arc<StoreInner>);

#[derive(Debug)]
struct StoreInner {
    engine: StoreEngine,
    /// None when nobody wants to be told of anything.
    feed: Option<Feeding>,
    secret: [u8; 32],
}

/// The feed of this process.
#[derive(Debug)]
struct Feeding {
    sequencer: Arc<Sequencer>,
    looker: OnceLock<AbortHandle>,
}

impl Drop for Feeding {
    fn drop(&mut self) {
        if let Some(looker) = self.looker.get() {
            looker.abort();
        }
    }
}

#[derive(Debug)]
pub(crate) enum StoreEngine {
    Sqlite(sqlite::SqliteEngine),
    Postgres(Box<postgres::PostgresEngine>),
}

/// Asks whichever engine it is.
macro_rules! ask {
    ($store:expr, $engine:ident => $call:expr) => {
        match $store.engine() {
            $crate::store::StoreEngine::Sqlite($engine) => $call,
            $crate::store::StoreEngine::Postgres($engine) => $call,
        }
    };
}
pub(crate) use ask;

impl Store {
    /// Opens a store, creating or upgrading it.
    ///
    /// # Errors
    /// When the folder or the server cannot be used, or holds something else.
    pub async fn open(options: Options) -> Result<Self, Error> {
        let look = options.timing.look;
        let sequencer = options.observer.clone().map(|observer| Arc::new(Sequencer::new(observer)));
        let engine = match options.place.clone() {
            StorePlace::Folder(folder) => {
                let sequencer = sequencer.clone();
                let open = move || sqlite::SqliteEngine::open(&folder, &options, sequencer.as_ref());
                StoreEngine::Sqlite(tokio::task::spawn_blocking(open).await.map_err(|_| Error::Closed)??)
            }
            StorePlace::Server(server) => StoreEngine::Postgres(Box::new(
                postgres::PostgresEngine::open(&server, &options, sequencer.as_ref()).await?,
            )),
        };
        let secret = match &engine {
            StoreEngine::Sqlite(engine) => engine.secret().await?,
            StoreEngine::Postgres(engine) => engine.secret().await?,
        };
        // A database that may only be read can lack one; its cursors then hold for this process.
        let secret = secret.try_into().unwrap_or_else(|_| fresh_secret());
        let feed = sequencer.map(|sequencer| Feeding { sequencer, looker: OnceLock::new() });
        let store = Self(Arc::new(StoreInner { engine, feed, secret }));
        store.follow_fold().await?;
        store.start_feed(look).await?;
        Ok(store)
    }

    /// Where the data is: a file, or a server without its password.
    #[must_use]
    pub fn place(&self) -> String {
        ask!(self, engine => engine.place())
    }

    /// The name of this process in leases.
    #[must_use]
    pub fn owner(&self) -> &str {
        ask!(self, engine => engine.owner())
    }

    /// Why nothing can be written; none when it can.
    #[must_use]
    pub fn read_only(&self) -> Option<Error> {
        ask!(self, engine => engine.read_only())
    }

    pub(crate) fn engine(&self) -> &StoreEngine {
        &self.0.engine
    }

    /// Begins to look for what other processes do, if anybody wants to know.
    async fn start_feed(&self, look: Duration) -> Result<(), Error> {
        let Some(feed) = &self.0.feed else { return Ok(()) };
        let reader = match self.engine() {
            StoreEngine::Sqlite(engine) => FeedReader::Sqlite(engine.feed_reader()),
            StoreEngine::Postgres(engine) => FeedReader::Postgres(Box::new(engine.feed_reader())),
        };
        let now = reader.position().await?;
        let open = self.streaming_parts().await?;
        let open = open.into_iter().map(|open| FollowedPart::new(&open.session, open.entry, open.part.id));
        feed.sequencer.begin(now, open.collect());
        let looker = tokio::spawn(looker::run(Arc::clone(&feed.sequencer), reader, look));
        // Only here, once.
        drop(feed.looker.set(looker.abort_handle()));
        Ok(())
    }

    /// Tells something of the moment after everything that was committed to a session before: at once, unless the feed
    /// waits for events of that session that others wrote. It must be quick, and must not call this again.
    pub fn tell_after(&self, session: &SessionId, telling: impl FnOnce() + Send + 'static) {
        match &self.0.feed {
            Some(feed) => feed.sequencer.tell_after(session, Box::new(telling)),
            None => telling(),
        }
    }

    /// Sessions with an open turn that another living process has the right to run, also those in the trash: it closes them.
    ///
    /// # Errors
    /// When they cannot be read.
    pub async fn run_elsewhere(&self) -> Result<Vec<SessionId>, Error> {
        ask!(self, engine => engine.run_elsewhere().await)
    }

    /// The parts that other processes are streaming now, with what was saved of their text.
    ///
    /// # Errors
    /// When they cannot be read.
    pub async fn streaming_parts(&self) -> Result<Vec<StreamingPart>, Error> {
        let mut open = Vec::new();
        for id in self.run_elsewhere().await? {
            match self.streaming_parts_of(&id).await {
                Ok(found) => open.extend(found),
                // One session that cannot be read must not hide the others.
                Err(error @ (Error::Corrupt { .. } | Error::Damaged { .. })) => {
                    tracing::error!(session = %id, error = error.to_string(), "a session cannot be read");
                }
                Err(error) => return Err(error),
            }
        }
        Ok(open)
    }

    async fn streaming_parts_of(&self, id: &SessionId) -> Result<Vec<StreamingPart>, Error> {
        // The turn that is open is the newest message.
        let Some(tail) = self.tail(id, 1).await? else { return Ok(Vec::new()) };
        let saved = self.streams(id).await?;
        let mut open = Vec::new();
        for node in tail.nodes {
            let second = node.entry.body.pair().map(|pair| EntryId::new(pair.second.as_str()));
            for mut part in node.parts.into_iter().filter(streams) {
                if let PartKind::Text { text, time, .. } | PartKind::Reasoning { text, time, .. } =
                    &mut part.kind
                    && time.is_some_and(|time| time.end.is_none())
                {
                    if let Some(saved) = saved.iter().find(|saved| saved.part == part.id) {
                        text.clone_from(&saved.text);
                    }
                    let second = second.clone().filter(|_| part.second);
                    let entry = node.entry.id.clone();
                    let message = second.unwrap_or_else(|| entry.clone());
                    open.push(StreamingPart { session: tail.session.clone(), entry, message, part });
                }
            }
        }
        Ok(open)
    }

    pub(crate) fn secret(&self) -> &[u8; 32] {
        &self.0.secret
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
        let asked = AppendRequest { session: session.clone(), authority, events };
        ask!(self, engine => engine.append(asked).await)
    }

    /// Saves a piece of what is streamed of a part; `start` is where in the text it begins. It does not wait for the
    /// disk: what is lost is at most the newest quarter second. A lost lease shows at the next append.
    pub fn save_stream(&self, lease: &Lease, entry: &EntryId, part: &PartId, start: usize, piece: String) {
        let (lease, entry, part) = (lease.clone(), entry.clone(), part.clone());
        ask!(self, engine => engine.save_stream(StreamPiece { lease, entry, part, start, text: piece }));
    }

    /// Takes the right to run a session: a free one, our own, or that of an owner that is dead or silent for too long.
    ///
    /// # Errors
    /// `Busy` when a living process has it.
    pub async fn acquire(&self, session: &SessionId) -> Result<Lease, Error> {
        ask!(self, engine => engine.acquire(session).await)
    }

    /// Ensures that a lease still holds.
    ///
    /// # Errors
    /// `Fenced` when somebody else has it now.
    pub async fn renew(&self, lease: &Lease) -> Result<(), Error> {
        ask!(self, engine => engine.renew(lease).await)
    }

    /// Gives the right back. Whoever has something to record with it appends as [leaving](Authority::Leaving).
    ///
    /// # Errors
    /// When the disk refuses.
    pub async fn release(&self, lease: Lease) -> Result<(), Error> {
        ask!(self, engine => engine.release(lease).await)
    }

    /// Remembers what a person allowed from now on in a folder of a project. A project is in several folders where it was
    /// cloned, and what lies in no repository is all one project.
    ///
    /// # Errors
    /// When the disk refuses.
    pub async fn approve(
        &self,
        project: &str,
        folder: &str,
        rules: Vec<Rule>,
        time: i64,
    ) -> Result<(), Error> {
        ask!(self, engine => engine.approve(project, folder, rules, time).await)
    }

    /// Remembers a project, as an object that the caller understands.
    ///
    /// # Errors
    /// When the disk refuses.
    pub async fn put_project(&self, id: &str, data: String) -> Result<(), Error> {
        ask!(self, engine => engine.put_project(id, data).await)
    }

    /// A session's row.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn session(&self, id: &SessionId) -> Result<Option<Session>, Error> {
        ask!(self, engine => engine.session(id).await)
    }

    /// The sessions that belong to another one.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn children(&self, parent: &SessionId) -> Result<Vec<Session>, Error> {
        ask!(self, engine => engine.children(parent).await)
    }

    /// What the sessions of a filter have used.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn totals(&self, filter: Filter) -> Result<Totals, Error> {
        ask!(self, engine => engine.totals(filter).await)
    }

    /// A whole session.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn tree(&self, id: &SessionId) -> Result<Option<Tree>, Error> {
        ask!(self, engine => engine.tree(id).await)
    }

    /// A session's task list.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn todos(&self, id: &SessionId) -> Result<Vec<Todo>, Error> {
        ask!(self, engine => engine.todos(id).await)
    }

    /// The newest entries of a session's path.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn tail(&self, id: &SessionId, messages: usize) -> Result<Option<Tail>, Error> {
        let Some(path) = self.stored_path(id, PathPiece::Newest(messages)).await? else { return Ok(None) };
        let nodes = path.nodes.iter().map(NodeJson::read).collect::<Result<_, _>>();
        let nodes = nodes.map_err(|error| path.damaged(&error))?;
        Ok(Some(Tail { session: path.session, nodes, inbox: path.inbox, more: path.more }))
    }

    /// A piece of a session's path as it is stored: what it takes to read it does not depend on what else the session
    /// holds. None when there is no such session or entry.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn stored_path(&self, id: &SessionId, piece: PathPiece) -> Result<Option<StoredPath>, Error> {
        ask!(self, engine => engine.stored_path(id, piece).await)
    }

    /// One prompt that waits in a session's inbox.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn waiting_prompt(&self, id: &SessionId, prompt: &EntryId) -> Result<Option<InboxItem>, Error> {
        ask!(self, engine => engine.waiting_prompt(id, prompt).await)
    }

    /// One entry of a session with its parts.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn node(&self, id: &SessionId, entry: &EntryId) -> Result<Option<Node>, Error> {
        ask!(self, engine => engine.node(id, entry).await)
    }

    /// Events of a session after a seq (none: from the beginning), in order.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn events(
        &self,
        id: &SessionId,
        after: Option<u64>,
        limit: usize,
    ) -> Result<Vec<Record>, Error> {
        ask!(self, engine => engine.events(id, after, limit).await)
    }

    /// Sessions that expect to go on: an open turn or a waiting prompt.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn unfinished(&self) -> Result<Vec<SessionId>, Error> {
        ask!(self, engine => engine.unfinished().await)
    }

    /// Unfinished sessions whose owner is dead or silent for too long.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn orphans(&self) -> Result<Vec<SessionId>, Error> {
        ask!(self, engine => engine.orphans().await)
    }

    /// What was saved of parts that are still open.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn streams(&self, id: &SessionId) -> Result<Vec<StreamText>, Error> {
        ask!(self, engine => engine.streams(id).await)
    }

    /// Requests that wait for a person, with their sessions; those of the trash wait for nobody.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn requests(&self) -> Result<Vec<(SessionId, Request)>, Error> {
        ask!(self, engine => engine.requests().await)
    }

    /// One waiting request, whatever became of its session.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn request(&self, id: &RequestId) -> Result<Option<(SessionId, Request)>, Error> {
        ask!(self, engine => engine.request(id).await)
    }

    /// What a person allowed from now on in a folder of a project.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn approvals(&self, project: &str, folder: &str) -> Result<Vec<Rule>, Error> {
        ask!(self, engine => engine.approvals(project, folder).await)
    }

    /// The projects that were remembered.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn projects(&self) -> Result<Vec<(String, String)>, Error> {
        ask!(self, engine => engine.projects().await)
    }

    /// The bytes of a blob.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn blob(&self, hash: Hash) -> Result<Option<Vec<u8>>, Error> {
        let bytes = ask!(self, engine => engine.blob(hash).await)?;
        if bytes.as_ref().is_some_and(|bytes| Hash::of(bytes) != hash) {
            let reason = "it does not hold what its name says".to_owned();
            return Err(Error::Corrupt { session: String::new(), place: format!("blob {hash}"), reason });
        }
        Ok(bytes)
    }

    /// Sessions by a filter, newest activity first.
    ///
    /// # Errors
    /// When they cannot be read.
    pub async fn sessions(&self, filter: Filter) -> Result<Vec<Session>, Error> {
        let found = self.listed(filter, None).await?;
        Ok(found.into_iter().map(|(session, _)| session).collect())
    }

    /// A page of sessions, newest activity first.
    ///
    /// # Errors
    /// When they cannot be read, or the cursor is not ours.
    pub async fn page(&self, ask: PageRequest<Filter>) -> Result<Page<Session>, Error> {
        page::sessions(self, ask).await
    }

    /// A page of a session's conversation.
    ///
    /// # Errors
    /// When it cannot be read, or the cursor is not ours.
    pub async fn path(&self, ask: PageRequest<PathQuery>) -> Result<Page<Node>, Error> {
        page::path(self, ask).await
    }

    /// Texts and titles in which all words occur, newest first.
    ///
    /// # Errors
    /// When they cannot be read.
    pub async fn search(&self, search: Search) -> Result<Vec<Hit>, Error> {
        search::search(self, &search).await
    }

    /// Makes a session of another one's entries.
    ///
    /// # Errors
    /// When the source is missing or cannot be read, or the disk refuses.
    pub async fn fork(&self, fork: Fork) -> Result<Appended, Error> {
        fork::fork(self, fork).await
    }

    pub(crate) async fn listed(
        &self,
        filter: Filter,
        after: Option<(i64, i64)>,
    ) -> Result<Vec<(Session, (i64, i64))>, Error> {
        ask!(self, engine => engine.sessions(filter, after).await)
    }

    pub(crate) async fn find(
        &self,
        search: &Search,
        query: &WordQuery,
        skip: usize,
    ) -> Result<Vec<search::IndexedPlace>, Error> {
        ask!(self, engine => engine.find(search, query, skip).await)
    }

    pub(crate) async fn walk(
        &self,
        id: &SessionId,
        from: &EntryId,
        limit: usize,
    ) -> Result<Vec<Node>, Error> {
        ask!(self, engine => engine.walk(id, from, limit).await)
    }

    pub(crate) async fn spine(&self, id: &SessionId, from: &EntryId) -> Result<Vec<EntryId>, Error> {
        ask!(self, engine => engine.spine(id, from).await)
    }

    pub(crate) async fn nodes(&self, id: &SessionId, wanted: Vec<EntryId>) -> Result<Vec<Node>, Error> {
        ask!(self, engine => engine.nodes(id, wanted).await)
    }
}

fn fresh_secret() -> [u8; 32] {
    let mut secret = [0; 32];
    if let Err(error) = getrandom::fill(&mut secret) {
        tracing::error!(error = error.to_string(), "no random numbers: cursors can be guessed");
    }
    secret
}

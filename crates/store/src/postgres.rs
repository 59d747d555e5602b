//! The store on PostgreSQL.
//!
//! One task in each process writes; what arrives while it commits forms its next transaction (group commit without
//! waiting), and a transaction takes a handful of round trips however many appends it holds. Readers have a pool of
//! connections. A session's row is locked from the start of an append to its commit: that gives its events their order,
//! and the lease in it decides who may run the session. One more connection carries what processes tell each other.

mod address;
mod blob;
mod encryption;
mod excerpts;
mod failure;
mod group;
mod instance_rows;
mod lease;
mod link;
mod list;
mod load;
mod migrate;
mod notifier;
mod path;
mod pause;
mod pool;
mod reader;
mod rows;
mod stored_path;
mod stored_session;
mod tls;
mod whole_session;
mod writer;

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use everturn_model::inbox::InboxItem;
use everturn_model::permission::Rule;
use everturn_model::request::Request;
use everturn_model::todo::Todo;
use everturn_model::tree::Node;
use everturn_model::{EntryId, Record, RequestId, Session, SessionId, Tree};
use tokio::sync::{oneshot, watch};

use crate::Error;
use crate::append::{Appended, Lease, StreamPiece};
use crate::feed::sequencer::Sequencer;
use crate::options::{Options, PostgresServer};
use crate::owner::Owner;
use crate::payload::Hash;
use crate::plan::AppendRequest;
use crate::query::{Filter, PathPiece, Search, StoredPath, StreamText, Totals};
use crate::search::IndexedPlace;
use crate::words::WordQuery;
use address::Address;
use lease::ThisProcess;
use link::WriterConnection;
use notifier::Notifier;
use pool::Pool;
use writer::Job;

/// The engine on PostgreSQL.
#[derive(Debug)]
pub(crate) struct PostgresEngine {
    address: Address,
    me: ThisProcess,
    /// Why nothing can be written; none when it can.
    read_only: Option<Error>,
    pool: Arc<Pool>,
    /// None when the database may only be read.
    writer: Option<writer::WriterHandle>,
    // Held so that the notifier goes on.
    pokes: watch::Sender<u64>,
}

/// Asks over a connection of the pool; what fails because the connection is gone is asked again over another.
macro_rules! ask {
    ($engine:expr, $lend:ident, $client:ident => $work:expr) => {{
        let mut tries = $crate::postgres::pool::ReconnectTries::default();
        loop {
            let outcome = match $engine.pool.$lend().await {
                Ok($client) => {
                    let outcome = $crate::postgres::pool::limited($work).await;
                    $client.end(&outcome);
                    outcome
                }
                Err(failure) => Err(failure),
            };
            if let std::ops::ControlFlow::Break(answer) = tries.settle(outcome, &$engine.address).await {
                break answer;
            }
        }
    }};
}

/// Reads of one moment.
macro_rules! read {
    ($engine:expr, $client:ident => $work:expr) => {
        ask!($engine, snapshot, $client => $work)
    };
}

/// A write that may be made twice.
macro_rules! write {
    ($engine:expr, $client:ident => $work:expr) => {{
        $engine.refuse_reader()?;
        ask!($engine, client, $client => $work)
    }};
}

// Behind the macros that they use.
mod bill;
pub(crate) mod feed;
mod upkeep;

impl PostgresEngine {
    /// Opens the database on a server, creating or upgrading it. Boxed so that only this crate compiles it.
    pub(crate) fn open<'o>(
        server: &'o PostgresServer,
        options: &'o Options,
        sequencer: Option<&'o Arc<Sequencer>>,
    ) -> Pin<Box<dyn Future<Output = Result<Self, Error>> + Send + 'o>> {
        Box::pin(Self::make(server, options, sequencer))
    }

    async fn make(
        server: &PostgresServer,
        options: &Options,
        sequencer: Option<&Arc<Sequencer>>,
    ) -> Result<Self, Error> {
        let address = Address::new(server, options)?;
        let named = |failure: failure::ServerFailure| failure.into_error(address.name());
        let client = address.client().await.map_err(named)?;
        let mut read_only =
            match migrate::migrate(&client, &address.place(), &server.folder).await.map_err(named) {
                Ok(()) => None,
                Err(newer @ Error::Newer { .. }) => Some(newer),
                Err(error) => return Err(error),
            };
        let me = claim(server, options).await?;
        let claims = read_only.is_none();
        let (pokes, poked) = watch::channel(0);
        let sequencer = sequencer.map(Arc::clone);
        let me_writing = claims.then_some(&me);
        let notifier = Notifier::new(address.clone(), sequencer.clone(), me_writing, options.timing);
        notifier.start(poked).await.map_err(named)?;
        if claims {
            // A newer version that did not see this process may have changed the database just now; from here on it sees it.
            match migrate::refuse_newer(&client, &address.place()).await.map_err(named) {
                Ok(()) => {}
                Err(newer @ Error::Newer { .. }) => read_only = Some(newer),
                Err(error) => return Err(error),
            }
        }
        drop(client);
        let writer = if read_only.is_none() {
            let link = WriterConnection::make(&address).await.map_err(named)?;
            Some(writer::WriterHandle::start(
                address.clone(),
                link,
                sequencer,
                options.commit_hook.clone(),
                pokes.clone(),
            ))
        } else {
            None
        };
        let pool = Arc::new(Pool::new(address.clone())?);
        Ok(Self { address, me, read_only, pool, writer, pokes })
    }

    pub(crate) fn place(&self) -> String {
        self.address.place()
    }

    pub(crate) fn owner(&self) -> &str {
        self.me.owner.name()
    }

    /// Why nothing can be written; none when it can.
    pub(crate) fn read_only(&self) -> Option<Error> {
        self.read_only.clone()
    }

    fn refuse_reader(&self) -> Result<(), Error> {
        self.read_only().map_or(Ok(()), Err)
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

    pub(crate) async fn acquire(&self, session: &SessionId) -> Result<Lease, Error> {
        write!(self, client => lease::acquire(&client, session, &self.me))
    }

    pub(crate) async fn renew(&self, lease: &Lease) -> Result<(), Error> {
        write!(self, client => lease::check(&client, lease))
    }

    pub(crate) async fn release(&self, lease: Lease) -> Result<(), Error> {
        write!(self, client => lease::release(&client, &lease))
    }

    pub(crate) async fn approve(
        &self,
        project: &str,
        folder: &str,
        rules: Vec<Rule>,
        time: i64,
    ) -> Result<(), Error> {
        let permissions: Vec<&str> = rules.iter().map(|rule| rule.permission.as_str()).collect();
        let patterns: Vec<&str> = rules.iter().map(|rule| rule.pattern.as_str()).collect();
        let sql = "INSERT INTO approval (project, folder, permission, pattern, time)
                   SELECT $1, $2, permission, pattern, $3
                   FROM unnest($4::text[], $5::text[]) u (permission, pattern)
                   ON CONFLICT DO NOTHING";
        write!(self, client => pool::query(&client, sql, &[&project, &folder, &time, &permissions, &patterns]))?;
        Ok(())
    }

    pub(crate) async fn put_project(&self, id: &str, data: String) -> Result<(), Error> {
        let sql = "INSERT INTO project (id, data) VALUES ($1, $2)
                   ON CONFLICT (id) DO UPDATE SET data = excluded.data";
        write!(self, client => pool::query(&client, sql, &[&id, &data.as_bytes()]))?;
        Ok(())
    }

    pub(crate) async fn session(&self, id: &SessionId) -> Result<Option<Session>, Error> {
        read!(self, client => reader::session(&client, id))
    }

    pub(crate) async fn sessions(
        &self,
        filter: Filter,
        after: Option<(i64, i64)>,
    ) -> Result<Vec<(Session, (i64, i64))>, Error> {
        read!(self, client => list::sessions(&client, &filter, after))
    }

    pub(crate) async fn children(&self, parent: &SessionId) -> Result<Vec<Session>, Error> {
        read!(self, client => list::children(&client, parent))
    }

    pub(crate) async fn totals(&self, filter: Filter) -> Result<Totals, Error> {
        read!(self, client => list::totals(&client, &filter))
    }

    pub(crate) async fn find(
        &self,
        search: &Search,
        query: &WordQuery,
        skip: usize,
    ) -> Result<Vec<IndexedPlace>, Error> {
        read!(self, client => list::find(&client, search, query, skip))
    }

    pub(crate) async fn tree(&self, id: &SessionId) -> Result<Option<Tree>, Error> {
        read!(self, client => reader::tree(&client, id))
    }

    pub(crate) async fn todos(&self, id: &SessionId) -> Result<Vec<Todo>, Error> {
        read!(self, client => reader::todos(&client, id))
    }

    pub(crate) async fn stored_path(
        &self,
        id: &SessionId,
        piece: PathPiece,
    ) -> Result<Option<StoredPath>, Error> {
        read!(self, client => stored_path::piece(&client, id, &piece))
    }

    pub(crate) async fn waiting_prompt(
        &self,
        id: &SessionId,
        prompt: &EntryId,
    ) -> Result<Option<InboxItem>, Error> {
        read!(self, client => reader::waiting_prompt(&client, id, prompt))
    }

    pub(crate) async fn node(&self, id: &SessionId, entry: &EntryId) -> Result<Option<Node>, Error> {
        read!(self, client => path::node(&client, id, entry))
    }

    pub(crate) async fn walk(
        &self,
        id: &SessionId,
        from: &EntryId,
        limit: usize,
    ) -> Result<Vec<Node>, Error> {
        read!(self, client => path::walk(&client, id, from, limit))
    }

    pub(crate) async fn spine(&self, id: &SessionId, from: &EntryId) -> Result<Vec<EntryId>, Error> {
        read!(self, client => path::spine(&client, id, from))
    }

    pub(crate) async fn nodes(&self, id: &SessionId, wanted: Vec<EntryId>) -> Result<Vec<Node>, Error> {
        read!(self, client => path::nodes(&client, id, &wanted))
    }

    pub(crate) async fn events(
        &self,
        id: &SessionId,
        after: Option<u64>,
        limit: usize,
    ) -> Result<Vec<Record>, Error> {
        read!(self, client => reader::events(&client, id, after, limit))
    }

    pub(crate) async fn unfinished(&self) -> Result<Vec<SessionId>, Error> {
        read!(self, client => reader::unfinished(&client))
    }

    pub(crate) async fn orphans(&self) -> Result<Vec<SessionId>, Error> {
        read!(self, client => lease::orphans(&client, &self.me))
    }

    pub(crate) async fn streams(&self, id: &SessionId) -> Result<Vec<StreamText>, Error> {
        read!(self, client => reader::streams(&client, id))
    }

    pub(crate) async fn requests(&self) -> Result<Vec<(SessionId, Request)>, Error> {
        read!(self, client => reader::requests(&client))
    }

    pub(crate) async fn request(&self, id: &RequestId) -> Result<Option<(SessionId, Request)>, Error> {
        read!(self, client => reader::request(&client, id))
    }

    pub(crate) async fn approvals(&self, project: &str, folder: &str) -> Result<Vec<Rule>, Error> {
        read!(self, client => reader::approvals(&client, project, folder))
    }

    pub(crate) async fn projects(&self) -> Result<Vec<(String, String)>, Error> {
        read!(self, client => reader::projects(&client))
    }

    pub(crate) async fn blob(&self, hash: Hash) -> Result<Option<Vec<u8>>, Error> {
        read!(self, client => blob::bytes(&client, hash))
    }

    pub(crate) async fn secret(&self) -> Result<Vec<u8>, Error> {
        read!(self, client => reader::secret(&client))
    }

    /// What the feed reads with.
    pub(crate) fn feed_reader(&self) -> feed::ServerReader {
        let (pool, address) = (Arc::clone(&self.pool), self.address.clone());
        feed::ServerReader { pool, address, noted: Mutex::default() }
    }

    /// Sessions with an open turn that another living process has the right to run.
    pub(crate) async fn run_elsewhere(&self) -> Result<Vec<SessionId>, Error> {
        read!(self, client => lease::open_elsewhere(&client, &self.me))
    }
}

/// Makes this process known on its machine.
async fn claim(server: &PostgresServer, options: &Options) -> Result<ThisProcess, Error> {
    let (folder, name, timing) = (server.folder.clone(), options.owner.clone(), options.timing);
    let claim = move || {
        let owner = Owner::claim(&folder, &name, timing)?;
        Ok(ThisProcess { owner, boot: boot(&folder)? })
    };
    tokio::task::spawn_blocking(claim).await.map_err(|_| Error::Closed)?
}

/// Which machine since when, and which folder of it. Containers share the machine but not the folder, and only
/// processes with the same folder can tell from each other's locks who is dead.
fn boot(folder: &Path) -> Result<String, Error> {
    let read = |path: &Path| std::fs::read_to_string(path);
    let path = Path::new("/proc/sys/kernel/random/boot_id");
    // A machine without this file has processes that are only known by their silence.
    let Ok(boot) = read(path) else { return Ok(String::new()) };
    let folder_data = std::fs::metadata(folder).map_err(|source| Error::io(folder, source))?;
    Ok(format!("{} {} {}", boot.trim(), folder_data.dev(), folder_data.ino()))
}

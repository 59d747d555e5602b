//! What the campaigns share: how large they are, places that can be opened again, children that are this same test
//! binary, and the ledger that says what must be in a store and what must not.

use std::collections::HashMap;
use std::ffi::OsString;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};

use everturn_model::{EventId, Record, SessionId, fold};
use everturn_store::{Appended, Authority, Error, NewEvent, Options, Store};
use everturn_testkit::SharedProgram;
use rustix::process::{Pid, Signal, kill_process};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::author::Author;

/// Where a child finds what it has to do.
const TASK: &str = "EVERTURN_TEST_CHILD";

/// A number of cases: small as a rule, large in `./test --full`.
pub(crate) fn cases(usual: u64, full: u64) -> u64 {
    if std::env::var_os("EVERTURN_TEST_FULL").is_some_and(|value| value == "1") { full } else { usual }
}

/// An executor for tests that are not asynchronous as a whole.
pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// A store's place, as a child can be told it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Where {
    Folder(PathBuf),
    Server { url: String, folder: PathBuf },
}

impl Where {
    pub(crate) fn options(&self, owner: &str) -> Options {
        match self {
            Self::Folder(folder) => Options::folder(folder, owner),
            Self::Server { url, folder } => Options::server(url, folder, owner),
        }
    }

    pub(crate) async fn open(&self, owner: &str) -> Store {
        Store::open(self.options(owner)).await.unwrap()
    }

    /// SQLite finds nothing wrong with the file. A server looks after itself.
    pub(crate) fn check_file(&self) {
        if let Self::Folder(folder) = self {
            check_integrity(&folder.join("everturn.db"));
        }
    }
}

pub(crate) fn check_integrity(file: &Path) {
    let connection = rusqlite::Connection::open(file).unwrap();
    let found: String = connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(found, "ok", "{}", file.display());
}

/// This test binary again, running one test that does as it is told. It is killed when dropped.
pub(crate) struct Child {
    process: std::process::Child,
    lines: BufReader<ChildStdout>,
    errors: tempfile::NamedTempFile,
    _program: Option<SharedProgram>,
}

impl Child {
    /// Starts the test of that name with a task.
    pub(crate) fn start(test: &str, task: &impl Serialize) -> Self {
        Self::start_as(test, task, None)
    }

    /// Starts it as another user.
    pub(crate) fn start_as(test: &str, task: &impl Serialize, user: Option<u32>) -> Self {
        let errors = tempfile::NamedTempFile::new().unwrap();
        let own = std::env::current_exe().unwrap();
        let shared = user.map(|_| SharedProgram::of(&own));
        let mut command = Command::new(shared.as_ref().map_or(&*own, SharedProgram::path));
        command.args(["--exact", test, "--nocapture", "--test-threads=1"]);
        command.env(TASK, serde_json::to_string(task).unwrap());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(errors.reopen().unwrap());
        if let Some(user) = user {
            use std::os::unix::process::CommandExt as _;
            command.uid(user).gid(user);
        }
        let mut process = command.spawn().unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap());
        Self { process, lines, errors, _program: shared }
    }

    /// The next line that a [`say`] of the child wrote; none when it has ended.
    pub(crate) fn line(&mut self) -> Option<String> {
        loop {
            let mut line = String::new();
            self.lines.read_line(&mut line).unwrap();
            // The last line of a child that was killed may be half of one.
            let line = line.strip_suffix('\n')?;
            if let Some(said) = line.strip_prefix("> ") {
                return Some(said.to_owned());
            }
        }
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.process)
    }

    pub(crate) fn kill(&mut self) {
        self.signal(Signal::KILL);
    }

    pub(crate) fn signal(&self, signal: Signal) {
        // It may have ended by itself, which the caller sees at its status.
        let _ = kill_process(self.pid(), signal);
    }

    /// Waits for its end: the status, and what it wrote to standard error.
    pub(crate) fn end(&mut self) -> (ExitStatus, String) {
        let status = self.process.wait().unwrap();
        (status, std::fs::read_to_string(self.errors.path()).unwrap())
    }

    /// Waits for its end, which must be a good one.
    pub(crate) fn succeed(&mut self) {
        let (status, errors) = self.end();
        assert!(status.success(), "{status}: {errors}");
    }

    /// Waits for the end of one that was killed. One that ended by itself failed.
    pub(crate) fn was_killed(&mut self) {
        use std::os::unix::process::ExitStatusExt as _;
        let (status, errors) = self.end();
        assert_eq!(status.signal(), Some(9), "the child ended by itself: {errors}");
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// What this process has to do as a child; none when it is no child.
pub(crate) fn task<T: DeserializeOwned>() -> Option<T> {
    let text: OsString = std::env::var_os(TASK)?;
    Some(serde_json::from_str(text.to_str()?).unwrap())
}

/// Tells the parent a line. A parent that has gone away ends the child.
pub(crate) fn say(line: &str) {
    // The test harness begins lines of its own without ending them.
    let line = format!("\n> {line}\n");
    std::io::stdout().lock().write_all(line.as_bytes()).unwrap();
}

/// One thing that a writer did.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Deed {
    /// It asks for these events, all or none.
    Tried { session: SessionId, ids: Vec<EventId> },
    /// They are acknowledged, from this seq on.
    Acked { session: SessionId, first: u64, ids: Vec<EventId> },
    /// They were refused, and that for sure.
    Refused { session: SessionId, ids: Vec<EventId> },
}

/// Appends what an owner or anybody else writes next, and tells of it before and after.
pub(crate) async fn write(
    store: &Store,
    author: &mut Author,
    authority: Authority,
    tell: &impl Fn(&Deed),
) -> Result<(), Error> {
    let owned = matches!(authority, Authority::Owned(_));
    let events = if owned { author.owned() } else { author.open() };
    let appended = append(store, &author.session(), authority, events, tell).await?;
    if owned { author.answered(store, &appended).await } else { Ok(()) }
}

/// Appends, and tells of it before and after.
pub(crate) async fn append(
    store: &Store,
    session: &SessionId,
    authority: Authority,
    events: Vec<NewEvent>,
    tell: &impl Fn(&Deed),
) -> Result<Appended, Error> {
    let ids = ids(&events);
    tell(&Deed::Tried { session: session.clone(), ids: ids.clone() });
    let appended = store.append(session, authority, events).await?;
    tell(&Deed::Acked { session: session.clone(), first: appended.first, ids });
    Ok(appended)
}

pub(crate) fn ids(events: &[NewEvent]) -> Vec<EventId> {
    events.iter().map(|event| event.id.clone()).collect()
}

/// Tells the parent of a deed.
pub(crate) fn say_deed(deed: &Deed) {
    say(&serde_json::to_string(deed).unwrap());
}

/// Everything that writers did, to be compared with what is there.
#[derive(Debug, Default)]
pub(crate) struct Ledger(Mutex<HashMap<SessionId, Page>>);

#[derive(Debug, Default)]
struct Page {
    tried: Vec<Vec<EventId>>,
    acked: Vec<(u64, EventId)>,
    refused: Vec<EventId>,
}

impl Ledger {
    pub(crate) fn note(&self, deed: Deed) {
        let mut pages = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match deed {
            Deed::Tried { session, ids } => pages.entry(session).or_default().tried.push(ids),
            Deed::Acked { session, first, ids } => {
                pages.entry(session).or_default().acked.extend((first..).zip(ids));
            }
            Deed::Refused { session, ids } => pages.entry(session).or_default().refused.extend(ids),
        }
    }

    /// How many events were acknowledged.
    pub(crate) fn acked(&self) -> usize {
        let pages = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        pages.values().map(|page| page.acked.len()).sum()
    }

    /// What was acknowledged is there, at its place; what was refused is not; what was tried is there whole or not at
    /// all; nothing else is there; and the rows are the fold of the log.
    pub(crate) async fn check(&self, store: &Store) {
        let pages = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        for (session, page) in &pages {
            let log = check_session(store, session).await;
            check_page(session, page, &log);
        }
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(pages);
    }

    /// Forgets the sessions so far.
    pub(crate) fn clear(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// The log of a session, after comparing it with its rows.
pub(crate) async fn check_session(store: &Store, session: &SessionId) -> Vec<Record> {
    let log = store.events(session, None, usize::MAX).await.unwrap();
    for (seq, record) in (0..).zip(&log) {
        assert_eq!(record.seq, seq, "the log of {session} has a gap");
    }
    let tree = store.tree(session).await.unwrap();
    let folded = fold::replay(&log).unwrap();
    assert!(tree == folded, "the rows of {session} are not the fold of its log ({} events)", log.len());
    log
}

fn check_page(session: &SessionId, page: &Page, log: &[Record]) {
    let places: HashMap<&EventId, u64> = log.iter().map(|record| (&record.id, record.seq)).collect();
    assert_eq!(places.len(), log.len(), "{session}: an event is there twice");
    for (seq, id) in &page.acked {
        assert_eq!(places.get(id), Some(seq), "{session}: {id} was acknowledged as {seq} of {}", log.len());
    }
    for id in &page.refused {
        assert_eq!(places.get(id), None, "{session}: {id} was refused and is there");
    }
    let mut found = 0;
    for batch in &page.tried {
        let there: Vec<u64> = batch.iter().filter_map(|id| places.get(id).copied()).collect();
        if let Some(first) = there.first() {
            let whole: Vec<u64> = (*first..).take(batch.len()).collect();
            assert_eq!(there, whole, "{session}: a batch is not there as a whole");
        }
        found += there.len();
    }
    assert_eq!(found, log.len(), "{session}: there are events that nobody appended");
}

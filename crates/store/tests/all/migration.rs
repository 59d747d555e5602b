//! A file of the first schema becomes one of this version with everything in it, or stays as it is.
//!
//! `fixtures/spine.db.zst` is a real file of schema 1, and `fixtures/spine.json.zst` is what the code of that time read
//! from its logs. Both were made once by the store of commit 3116393, with a throw-away test: one scripted session
//! (prompts, parts, a tool call with an output of more than 64 KiB, a committed revert, amendments, a todo, a waiting
//! request, a waiting prompt, an answer that is being streamed), four sessions by `author.rs` (one a child of another,
//! one in the trash, one with a long attachment), two approvals and two projects.
//!
//! The migration is killed at each of its statements, in a child whose SQLite counts them; it loses power at every
//! sync; and two processes run it at once.

#![allow(unsafe_code, reason = "SQLite is told to count statements before any connection is opened")]

use std::collections::HashMap;
use std::ffi::{c_char, c_int};
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use everturn_model::{Event, EventId, SessionId};
use everturn_store::foreign::Database;
use everturn_store::{ArchivedSessions, Error, Filter, Options, Search, Store};
use everturn_testkit::deadline::within;
use everturn_testkit::disk::{self, Disk, Loss};
use rusqlite::trace::{TraceEvent, TraceEventCodes};
use rusqlite::{Connection, auto_extension, ffi};
use rustix::process::{Signal, getpid, kill_process};
use serde::{Deserialize, Serialize};

use crate::campaign::{Child, cases, check_integrity, check_session, runtime, say, task};

const SCRIPTED: &str = "ses_e22d949d4ffeScriptedBridge";
const BACKUP: &str = "everturn.v1.backup.db";

/// A log as the old code read it.
#[derive(Deserialize)]
struct Expected {
    session: SessionId,
    events: Vec<(EventId, i64, Event)>,
}

fn fixture(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name);
    zstd::decode_all(std::fs::File::open(path).unwrap()).unwrap()
}

fn file() -> &'static [u8] {
    static FILE: OnceLock<Vec<u8>> = OnceLock::new();
    FILE.get_or_init(|| fixture("spine.db.zst"))
}

fn expected() -> &'static [Expected] {
    static EXPECTED: OnceLock<Vec<Expected>> = OnceLock::new();
    EXPECTED.get_or_init(|| serde_json::from_slice(&fixture("spine.json.zst")).unwrap())
}

fn folder() -> tempfile::TempDir {
    let folder = disk::scratch();
    std::fs::write(folder.path().join("everturn.db"), file()).unwrap();
    folder
}

/// The version of a file's schema and all that it says.
fn schema(file: &Path) -> (i64, Vec<(String, Option<String>)>) {
    let connection = Connection::open(file).unwrap();
    let version = connection.query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap();
    let mut statement = connection.prepare("SELECT name, sql FROM sqlite_schema ORDER BY name").unwrap();
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    (version, rows.collect::<Result<_, _>>().unwrap())
}

/// All events of a file of any schema, without their content.
fn ids(file: &Path) -> Vec<(String, i64)> {
    let connection = Connection::open(file).unwrap();
    let mut statement = connection.prepare("SELECT id, seq FROM event ORDER BY session, seq").unwrap();
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    rows.collect::<Result<_, _>>().unwrap()
}

/// What a file looks like before and after, from one that was migrated in peace.
struct Forms {
    old: (i64, Vec<(String, Option<String>)>),
    new: (i64, Vec<(String, Option<String>)>),
    ids: Vec<(String, i64)>,
}

fn forms() -> &'static Forms {
    static FORMS: OnceLock<Forms> = OnceLock::new();
    FORMS.get_or_init(|| {
        let folder = folder();
        let path = folder.path().join("everturn.db");
        let (old, ids) = (schema(&path), ids(&path));
        let options = Options::folder(folder.path(), "own_forms");
        // On a thread of its own, because the caller may be within a runtime already.
        let open = move || drop(runtime().block_on(Store::open(options)).unwrap());
        std::thread::spawn(open).join().unwrap();
        Forms { old, new: schema(&path), ids }
    })
}

/// The file is the old one or the new one, whole; true when it is the new one.
fn check_form(file: &Path, when: &str) -> bool {
    let (forms, found) = (forms(), schema(file));
    assert!(found == forms.old || found == forms.new, "{when}: in between, at schema {}", found.0);
    assert!(ids(file) == forms.ids, "{when}: the log has changed");
    check_integrity(file);
    found == forms.new
}

/// Opens the store and compares every log and every row.
async fn check_all(folder: &Path) -> Store {
    let store = Store::open(Options::folder(folder, "own_test")).await.unwrap();
    for Expected { session, events } in expected() {
        let log = check_session(&store, session).await;
        let read: Vec<_> = log.into_iter().map(|record| (record.id, record.time, record.event)).collect();
        assert!(read == *events, "the log of {session} is not what it was");
    }
    assert_eq!(found(&store, "kitchen").await, 1);
    // Two were given for everything that is in no repository.
    for folder in ["", "/", "global"] {
        assert_eq!(store.approvals("global", folder).await.unwrap(), [], "{folder}");
    }
    store
}

async fn found(store: &Store, text: &str) -> usize {
    let search = Search { text: text.to_owned(), limit: 10, ..Search::default() };
    store.search(search).await.unwrap().len()
}

fn check_backup(folder: &Path) {
    let backup = folder.join(BACKUP);
    check_integrity(&backup);
    assert!(schema(&backup) == forms().old, "the copy has the old schema");
    assert!(ids(&backup) == forms().ids, "the copy has the whole log");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_old_file_opens_with_everything_in_it() {
    let folder = folder();
    let store = check_all(folder.path()).await;
    let id = SessionId::new(SCRIPTED);

    let session = store.session(&id).await.unwrap().unwrap();
    assert_eq!(session.title, "Die Brücke über den Fluss");
    assert_eq!(store.todos(&id).await.unwrap()[0].content, "spread it");
    assert_eq!(store.tail(&id, 10).await.unwrap().unwrap().inbox.len(), 1);
    assert!(store.requests().await.unwrap().iter().any(|(_, request)| request.id.as_str() == "per_waiting"));
    assert_eq!(store.streams(&id).await.unwrap()[0].text, "half a sent");
    assert!(store.unfinished().await.unwrap().contains(&id));
    assert!(store.orphans().await.unwrap().contains(&id), "its owner is long gone");
    assert_eq!(store.children(&id).await.unwrap().len(), 1);
    let mut projects = store.projects().await.unwrap();
    projects.sort();
    let names: Vec<_> = projects.iter().map(|(id, _)| id.as_str()).collect();
    assert_eq!(names, ["demo", "global"]);
    // One text was replaced and another one hidden.
    for (text, places) in [("ripgrep", 1), ("Brücke", 1), ("wrong turn", 1), ("grep", 0), ("marmalade", 0)] {
        assert_eq!(found(&store, text).await, places, "{text}");
    }

    let trashed = store.sessions(Filter { trashed: true, ..Filter::default() }).await.unwrap();
    assert_eq!(trashed.len(), 1);
    let kept = expected().iter().filter(|expected| expected.session != trashed[0].id);
    let mut spent = HashMap::new();
    for (_, _, event) in kept.flat_map(|expected| &expected.events) {
        if let Event::StepEnded { tokens, .. } = event {
            *spent.entry("input").or_insert(0) += tokens.input;
            *spent.entry("output").or_insert(0) += tokens.output;
        }
    }
    let totals =
        store.totals(Filter { archived: ArchivedSessions::Included, ..Filter::default() }).await.unwrap();
    assert_eq!(totals.sessions, 4);
    assert_eq!((totals.tokens.input, totals.tokens.output), (spent["input"], spent["output"]));
    assert!(totals.tokens.input > 300, "there is something to sum up");
    drop(store);
    assert!(check_form(&folder.path().join("everturn.db"), "at the end"));
    check_backup(folder.path());
}

#[derive(Serialize, Deserialize)]
struct Task {
    folder: std::path::PathBuf,
    /// At which statement to die; none means never.
    die_at: Option<u64>,
}

static STATEMENTS: AtomicU64 = AtomicU64::new(0);
static LAST: AtomicU64 = AtomicU64::new(u64::MAX);

unsafe extern "C" fn count_statements(
    db: *mut ffi::sqlite3,
    message: *mut *mut c_char,
    _: *const ffi::sqlite3_api_routines,
) -> c_int {
    let install = |mut connection: Connection| {
        let count = |_: TraceEvent<'_>| {
            if STATEMENTS.fetch_add(1, Ordering::SeqCst) + 1 == LAST.load(Ordering::SeqCst) {
                let _ = kill_process(getpid(), Signal::KILL);
            }
        };
        connection.trace_v2(TraceEventCodes::SQLITE_TRACE_STMT, Some(count))
    };
    // SAFETY: SQLite calls this with a connection that is open; `install` neither opens nor closes one.
    unsafe { auto_extension::init_auto_extension(db, message, install) }
}

/// Does nothing unless it is started by a test here.
#[test]
fn child() {
    let Some(Task { folder, die_at }) = task() else { return };
    LAST.store(die_at.unwrap_or(u64::MAX), Ordering::SeqCst);
    // SAFETY: the routine lives as long as the process, and does nothing but set a trace.
    unsafe { auto_extension::register_auto_extension(count_statements) }.unwrap();
    drop(runtime().block_on(Store::open(Options::folder(folder, "own_child"))).unwrap());
    say(&STATEMENTS.load(Ordering::SeqCst).to_string());
}

/// Migrates a new copy of the file in a child that dies at a statement. Says how many there were if it survives.
fn die_at(folder: &Path, statement: Option<u64>) -> Option<u64> {
    let task = Task { folder: folder.to_owned(), die_at: statement };
    let mut child = Child::start("migration::child", &task);
    match child.line() {
        Some(count) => {
            child.succeed();
            Some(count.parse().unwrap())
        }
        None => {
            child.was_killed();
            None
        }
    }
}

#[test]
fn a_migration_killed_at_any_statement_leaves_the_old_file_or_the_new_one() {
    let runtime = runtime();
    let peaceful = folder();
    let statements = die_at(peaceful.path(), None).unwrap();
    assert!(statements > 100, "the migration has {statements} statements");
    let (step, mut old, mut new) = (cases(19, 1), 0, 0);
    // The statements around the transaction are always tried, those that fill rows now and then.
    let tried = (1..=statements).filter(|n| n % step == 0 || *n < 60 || n + 30 > statements);
    for statement in tried {
        let folder = folder();
        assert_eq!(die_at(folder.path(), Some(statement)), None, "statement {statement} comes");
        let when = format!("killed at statement {statement} of {statements}");
        match check_form(&folder.path().join("everturn.db"), &when) {
            true => new += 1,
            false => old += 1,
        }
        runtime.block_on(async { drop(check_all(folder.path()).await) });
        check_backup(folder.path());
    }
    assert!(old > 50 && new > 1, "both were seen: {old} old and {new} new");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_migrated_beside_a_process_that_came_while_the_copy_was_made() {
    // It knows only the old schema, and would go on writing it.
    let folder = folder();
    let path = folder.path().join("everturn.db");
    // Connections of one process lock in the same way from the first one of the store on.
    drop(Database::open(&path).unwrap());
    let writing = Connection::open(&path).unwrap();
    writing.execute_batch("BEGIN IMMEDIATE").unwrap();
    let opening = tokio::spawn(Store::open(Options::folder(folder.path(), "own_new")));
    within("the copy, behind which the migration waits for whoever writes", async {
        while !folder.path().join(BACKUP).exists() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    let owners = folder.path().join("owners");
    std::fs::create_dir_all(&owners).unwrap();
    let old = std::fs::File::create(owners.join("own_old")).unwrap();
    old.lock().unwrap();
    writing.execute_batch("ROLLBACK").unwrap();
    let refused = opening.await.unwrap();
    let named = format!("process {}, own_old", std::process::id());
    assert!(matches!(&refused, Err(Error::OlderAtWork { by, .. }) if *by == named), "{refused:?}");
    assert!(!check_form(&path, "refused"), "it has the old schema");
    drop(old);
    drop(check_all(folder.path()).await);
}

#[test]
fn two_processes_may_migrate_at_once() {
    let runtime = runtime();
    for _ in 0..cases(3, 20) {
        let folder = folder();
        let task = Task { folder: folder.path().to_owned(), die_at: None };
        let mut children = [(); 2].map(|()| Child::start("migration::child", &task));
        children.iter_mut().for_each(Child::succeed);
        assert!(check_form(&folder.path().join("everturn.db"), "after two at once"));
        runtime.block_on(async { drop(check_all(folder.path()).await) });
        check_backup(folder.path());
    }
}

#[test]
fn a_migration_that_loses_power_leaves_the_old_file_or_the_new_one() {
    let runtime = runtime();
    let live = folder();
    let disk = Disk::register("migration");
    let options = Options { vfs: Some(disk.name().to_owned()), ..Options::folder(live.path(), "own_test") };
    drop(runtime.block_on(Store::open(options)).unwrap());
    let steps = disk.len();
    let every = steps.div_ceil(usize::try_from(cases(30, 200)).unwrap()).max(1);
    let (mut old, mut new) = (0, 0);
    for cut in (0..=steps).filter(|cut| cut % every == 0 || cut + 12 > steps) {
        for loss in [Loss::Everything, Loss::Random(1), Loss::Random(2)] {
            let image = disk::scratch();
            disk.image(cut, loss, image.path());
            let path = image.path().join("everturn.db");
            if !path.exists() {
                // Nothing has touched the file yet.
                continue;
            }
            let when = format!("cut {cut} of {steps} after {}, {loss:?}", disk.describe(cut));
            match check_form(&path, &when) {
                true => new += 1,
                false => old += 1,
            }
            runtime.block_on(async { drop(check_all(image.path()).await) });
        }
    }
    assert!(old > 10 && new > 2, "both were seen: {old} old and {new} new");
}

//! Sessions of other programs: read what they left on disk and append it to the log.
//!
//! The files of the other program are only read. Ids of the import's events follow from the session, so importing
//! twice changes nothing.

mod database;

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use everturn_interop::opencode::{self, ImportProblem, Imported, files};
use everturn_model::derived_ids::DerivedIds;
use everturn_model::event::SessionChange;
use everturn_model::{Event, Record, SessionId};
use everturn_store::foreign::Database;
use everturn_store::{Authority, NewEvent, Store};
use everturn_tools::foreign_file::{self, ReadBounds};
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};
use serde_json::Value;

use crate::Error;
use crate::projects::{Project, Projects};
use database::{read_projects, read_session};

/// How many sessions are on their way to the disk at once.
const FLIGHT: usize = 128;

/// The largest file of another program that is read, in bytes.
const LARGEST: u64 = 256 * 1024 * 1024;

/// What came of an import.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImportReport {
    /// Sessions that came in.
    pub imported: Vec<SessionId>,
    /// Sessions that were there already.
    pub present: usize,
    /// What could not be read.
    pub problems: Vec<String>,
}

/// What an import found to read.
#[derive(Debug)]
struct ImportSources {
    databases: Vec<PathBuf>,
    storage: Option<PathBuf>,
}

/// Brings sessions of other programs in; clones share it.
#[derive(Debug, Clone)]
pub struct Imports {
    store: Store,
    projects: Projects,
}

impl Imports {
    /// Imports into a store.
    pub(crate) fn new(store: Store, projects: Projects) -> Self {
        Self { store, projects }
    }

    /// Imports what OpenCode left in its data folder: its database, and its older JSON tree. `progress` hears how many
    /// sessions are done and how many there are.
    ///
    /// # Errors
    /// When there is nothing to import or the store refuses.
    pub async fn opencode(
        &self,
        folder: &Path,
        mut progress: impl FnMut(usize, usize) + Send,
    ) -> Result<ImportReport, Error> {
        let sources = find(folder)?;
        let mut report = ImportReport::default();
        for path in &sources.databases {
            self.database(path, &mut report, &mut progress).await?;
        }
        if let Some(storage) = &sources.storage {
            let (sessions, problems) = files::read(read_tree(storage)?);
            report.problems.extend(problems.iter().map(ToString::to_string));
            let total = sessions.len();
            let sessions = sessions.into_iter().map(|session| Ok(Incoming::seeded(session, Vec::new())));
            self.take_in(sessions, total, &mut report, &mut progress).await?;
        }
        Ok(report)
    }

    /// Imports one session from what `opencode export` prints.
    ///
    /// # Errors
    /// When the bytes are no export, or the session already exists with another history.
    pub async fn export(&self, bytes: &[u8]) -> Result<ImportReport, Error> {
        let imported = opencode::export::read(bytes).map_err(|problem| Error::Import(problem.to_string()))?;
        let mut report = ImportReport::default();
        let incoming = std::iter::once(Ok(Incoming::seeded(imported, Vec::new())));
        self.take_in(incoming, 1, &mut report, &mut |_, _| {}).await?;
        Ok(report)
    }

    async fn database(
        &self,
        path: &Path,
        report: &mut ImportReport,
        progress: &mut (impl FnMut(usize, usize) + Send),
    ) -> Result<(), Error> {
        let database = Database::open(path)?;
        if !database.has("session", &["id", "project_id", "directory", "title"])?
            || !database.has("message", &["data"])?
        {
            return Err(Error::Import(format!(
                "{} is not a database of OpenCode 1.2 or later",
                path.display()
            )));
        }
        let projects = read_projects(&database)?;
        let ids = database.select("SELECT id FROM session ORDER BY time_created, id", &[])?;
        let ids: Vec<String> = ids.into_iter().filter_map(|row| row.into_iter().next()?.text()).collect();
        let total = ids.len();
        let sessions = ids.iter().map(|id| {
            read_session(&database, id, &projects).map_err(|error| format!("{id}: cannot be read: {error}"))
        });
        self.take_in(sessions, total, report, progress).await
    }

    async fn take_in(
        &self,
        sessions: impl Iterator<Item = Result<Incoming, String>>,
        total: usize,
        report: &mut ImportReport,
        progress: &mut (impl FnMut(usize, usize) + Send),
    ) -> Result<(), Error> {
        let mut appends = FuturesUnordered::new();
        // What is known of a project here is newer than what comes in.
        let mut known: HashMap<String, ()> =
            self.projects.all().await?.into_iter().map(|project| (project.id, ())).collect();
        let mut done = 0;
        let mut parents = Parents { store: &self.store, incoming: HashMap::new() };
        for session in sessions {
            let Incoming { id, project, mut events, problems } = match session {
                Ok(session) => session,
                Err(problem) => {
                    report.problems.push(problem);
                    done += 1;
                    progress(done, total);
                    continue;
                }
            };
            report.problems.extend(problems.iter().map(|problem| format!("{id}: {problem}")));
            if let Some(parent) = parents.unlink(&id, &mut events).await? {
                report.problems.push(format!(
                    "{id}: it belongs to {parent}, which belongs to it; it came in without a parent"
                ));
            }
            if let Some(project) = project.as_ref().and_then(as_project)
                && known.insert(project.id.clone(), ()).is_none()
                && let Ok(data) = serde_json::to_string(&project)
            {
                self.store.put_project(&project.id, data).await?;
            }
            appends.push(async move {
                let appended = self.store.append(&id, Authority::Open, events).await;
                (id, appended)
            });
            loop {
                // It is on its way once it was asked for, while the next session is read.
                let finished = match appends.len() {
                    ..FLIGHT => appends.next().now_or_never().flatten(),
                    _ => appends.next().await,
                };
                let Some(append) = finished else { break };
                note_finished(append, report)?;
                done += 1;
                progress(done, total);
            }
        }
        while let Some(append) = appends.next().await {
            note_finished(append, report)?;
            done += 1;
            progress(done, total);
        }
        Ok(())
    }
}

/// Which session belongs to which, here and in what comes in.
struct Parents<'a> {
    store: &'a Store,
    incoming: HashMap<SessionId, Option<SessionId>>,
}

impl Parents<'_> {
    /// Takes away the parent of a session that would belong to itself by it, and says which that was.
    async fn unlink(&mut self, id: &SessionId, events: &mut [NewEvent]) -> Result<Option<SessionId>, Error> {
        let created = events.iter_mut().find_map(|new| match &mut new.event {
            Event::SessionCreated { session } => Some(session),
            _ => None,
        });
        let Some(session) = created else { return Ok(None) };
        let mut lost = None;
        if let Some(parent) = &session.parent
            && self.leads_to(parent, id).await?
        {
            lost = session.parent.take();
        }
        self.incoming.insert(id.clone(), session.parent.clone());
        Ok(lost)
    }

    /// Whether a session is another one, or belongs to it however far up.
    async fn leads_to(&self, from: &SessionId, id: &SessionId) -> Result<bool, Error> {
        let (mut at, mut seen) = (from.clone(), HashSet::new());
        loop {
            if at == *id {
                return Ok(true);
            }
            if !seen.insert(at.clone()) {
                return Ok(false);
            }
            let parent = match self.incoming.get(&at) {
                Some(parent) => parent.clone(),
                // What cannot be read leads nowhere.
                None => self.store.session(&at).await.ok().flatten().and_then(|session| session.parent),
            };
            match parent {
                Some(parent) => at = parent,
                None => return Ok(false),
            }
        }
    }
}

type FinishedAppend = (SessionId, Result<everturn_store::Appended, everturn_store::Error>);

fn note_finished((id, appended): FinishedAppend, report: &mut ImportReport) -> Result<(), Error> {
    use everturn_store::Error as Store;
    match appended {
        Ok(appended) if appended.fresh => report.imported.push(id),
        Ok(_) | Err(Store::Exists(_)) => report.present += 1,
        Err(Store::Unfit { session, source }) => report.problems.push(format!("{session}: {source}")),
        Err(error @ Store::TooDeep { .. }) => report.problems.push(error.to_string()),
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

/// A session on its way in.
struct Incoming {
    id: SessionId,
    project: Option<Value>,
    events: Vec<NewEvent>,
    problems: Vec<ImportProblem>,
}

impl Incoming {
    /// A session whose messages come in at once.
    fn seeded(imported: Imported, problems: Vec<ImportProblem>) -> Self {
        let Imported { session, seed, project } = imported;
        let id = session.id.clone();
        let time = session.time.created;
        let mut mint = DerivedIds::new(&format!("import/opencode/{id}"));
        let events = [
            Event::SessionCreated { session: Box::new(session) },
            Event::SessionImported { dialect: "opencode".to_owned(), seed: Box::new(seed) },
        ];
        let events = events.into_iter().map(|event| NewEvent { id: mint.event(time), time, event }).collect();
        Self { id, project, events, problems }
    }

    /// A session that has a log of its own: event for event, and parked at its end.
    fn logged(id: SessionId, project: Option<Value>, records: Vec<Record>) -> Self {
        let time = records.last().map(|record| record.time).unwrap_or_default();
        let mut mint = DerivedIds::new(&format!("import/opencode/{id}"));
        let parked = Event::SessionChanged { changes: vec![SessionChange::Parked] };
        let end = NewEvent { id: mint.event(time), time, event: parked };
        let own = records.into_iter().map(|record| NewEvent {
            id: record.id,
            time: record.time,
            event: record.event,
        });
        Self { id, project, events: own.chain(std::iter::once(end)).collect(), problems: Vec::new() }
    }
}

/// What there is to import in a folder that a person named: OpenCode's data folder or its `storage`.
fn find(folder: &Path) -> Result<ImportSources, Error> {
    let io = |source| Error::Io { context: format!("cannot read {}", folder.display()), source };
    let mut databases = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(io)? {
        let path = entry.map_err(io)?.path();
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let is_database = path.extension().is_some_and(|extension| extension == "db") && path.is_file();
        if name.starts_with("opencode") && is_database {
            databases.push(path);
        }
    }
    databases.sort();
    let storage =
        [folder.join("storage"), folder.to_owned()].into_iter().find(|path| path.join("session").is_dir());
    if databases.is_empty() && storage.is_none() {
        return Err(Error::Import(format!(
            "{} holds neither opencode.db nor storage/session; name OpenCode's data folder, usually ~/.local/share/opencode",
            folder.display()
        )));
    }
    Ok(ImportSources { databases, storage })
}

/// The files of a JSON tree, by their path below it.
fn read_tree(storage: &Path) -> Result<files::Files, Error> {
    let mut found = files::Files::default();
    let mut folders = vec![storage.to_owned()];
    while let Some(folder) = folders.pop() {
        let io = |source| Error::Io { context: format!("cannot read {}", folder.display()), source };
        for entry in std::fs::read_dir(&folder).map_err(io)? {
            let path = entry.map_err(io)?.path();
            if path.is_dir() {
                folders.push(path);
            } else if let Ok(name) = path.strip_prefix(storage) {
                let bytes =
                    foreign_file::read(&path, ReadBounds::bytes(LARGEST)).map_err(|error| Error::Io {
                        context: format!("cannot read {}", path.display()),
                        source: std::io::Error::other(error),
                    })?;
                found.insert(name.display().to_string(), bytes);
            }
        }
    }
    Ok(found)
}

fn as_project(value: &Value) -> Option<Project> {
    let text = |key: &str| value.get(key).and_then(Value::as_str);
    let time = |key: &str| value.pointer(&format!("/time/{key}")).and_then(Value::as_i64).unwrap_or_default();
    Some(Project {
        id: text("id")?.to_owned(),
        worktree: PathBuf::from(text("worktree")?),
        vcs: text("vcs").map(str::to_owned),
        created: time("created"),
        updated: time("updated"),
        places: Vec::new(),
    })
}

//! Projects: what a folder belongs to.
//!
//! A git repository is one project wherever it is cloned: its id is its root commit. Everything else is the project
//! `global`. A project has places, the folders in which it was opened, and a session belongs to the folder that it
//! works in: a clone shares the project with its original and nothing else. When a place is moved, its sessions move
//! with it.
//!
//! # Layout
//! - `location`: a folder, what it belongs to, and which sessions are its own
//! - `relocation`: sessions that follow a folder that was moved

mod location;
mod relocation;

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use everturn_model::{Session, SessionId};
use everturn_store::Store;
use everturn_tools::BoxFuture;
use everturn_tools::project::{Repository, RepositoryIdentity, RepositoryMark, identity, repository};
use serde::{Deserialize, Serialize};
use tokio::sync::RwLock;
use tokio::time::Instant;

use crate::Error;
use crate::background::blocking;
use crate::journal::Journal;
use crate::leases::Leases;
use crate::sessions::Filter;
use crate::snapshot_folders::SnapshotFolders;
pub use location::Location;

/// The project of what is in no repository.
pub(crate) const GLOBAL: &str = "global";

/// How many folders are remembered.
const REMEMBERED: usize = 1024;

/// How long: another process may have taken sessions elsewhere, and the folder may be another one by now.
const FRESH: Duration = Duration::from_secs(30);

/// The longest path of a folder, in bytes.
const FOLDER_LIMIT: usize = 4096;

/// The longest name in such a path, in bytes.
const FOLDER_NAME_LIMIT: usize = 255;

/// A project.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Project {
    /// The root commit, or `global`.
    pub id: String,
    /// The root of the repository, or `/`.
    pub worktree: PathBuf,
    /// `git`, where it is a repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vcs: Option<String>,
    /// When it was first seen.
    pub created: i64,
    /// When it was last used.
    pub updated: i64,
    /// Where it was opened.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub places: Vec<ProjectFolder>,
}

/// A folder in which a project was opened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProjectFolder {
    /// The root of the repository.
    pub root: PathBuf,
    /// Where its history is; worktrees of one repository have it in common.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history: Option<PathBuf>,
    /// What it is known by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mark: Option<RepositoryMark>,
    /// Whether its history was cut off, so that its id may yet change.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shallow: bool,
    /// Whether it was seen to be gone while the project was elsewhere too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub left: bool,
}

impl ProjectFolder {
    fn of(repository: &Repository) -> Self {
        Self {
            root: repository.root.clone(),
            history: Some(repository.history.clone()),
            mark: Some(repository.mark),
            shallow: repository.shallow,
            left: false,
        }
    }
}

/// A location, and how long it is taken as true.
#[derive(Debug)]
struct KnownLocation {
    location: Location,
    mark: RepositoryMark,
    shallow: bool,
    until: Instant,
}

/// The repositories that are looked at.
#[derive(Debug, Default)]
struct Repositories(std::sync::Mutex<HashMap<PathBuf, RepositoryState>>);

#[derive(Debug, Default)]
struct RepositoryState {
    /// Held by whoever looks at it now.
    turn_lock: Arc<tokio::sync::Mutex<()>>,
    /// What git gave no answer about, and how long it is not asked again.
    silent: Option<(RepositoryMark, Instant)>,
}

impl Repositories {
    fn with<T>(&self, root: &Path, use_state: impl FnOnce(&mut RepositoryState) -> T) -> T {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= REMEMBERED {
            // Those in use stay.
            known.retain(|_, state| Arc::strong_count(&state.turn_lock) > 1);
        }
        use_state(known.entry(root.to_owned()).or_default())
    }

    fn turn_lock(&self, root: &Path) -> Arc<tokio::sync::Mutex<()>> {
        self.with(root, |state| Arc::clone(&state.turn_lock))
    }

    fn git_is_unresponsive(&self, found: &Repository) -> bool {
        let now = Instant::now();
        self.with(&found.root, |state| {
            state.silent.is_some_and(|(mark, until)| mark == found.mark && until > now)
        })
    }

    fn note_unresponsive_git(&self, found: &Repository) {
        self.with(&found.root, |state| state.silent = Some((found.mark, Instant::now() + FRESH)));
    }
}

/// The projects that folders belong to; clones share what was found out.
#[derive(Debug, Clone)]
pub struct Projects {
    store: Store,
    journal: Journal,
    leases: Leases,
    snapshots: SnapshotFolders,
    /// The folder that requests without one mean.
    directory: Arc<Path>,
    locations: Arc<RwLock<HashMap<PathBuf, KnownLocation>>>,
    resolving: Arc<tokio::sync::Mutex<()>>,
    repositories: Arc<Repositories>,
}

impl Projects {
    /// Projects of a store. `directory` is the folder that requests without one mean.
    pub(crate) fn new(
        store: Store,
        journal: Journal,
        leases: Leases,
        snapshots: SnapshotFolders,
        directory: &Path,
    ) -> Self {
        Self {
            store,
            journal,
            leases,
            snapshots,
            directory: directory.into(),
            locations: Arc::default(),
            resolving: Arc::default(),
            repositories: Arc::default(),
        }
    }

    /// What a folder belongs to; none is the server's own folder. Sessions of a project that was moved here come along.
    ///
    /// # Errors
    /// When the folder is not absolute or the store refuses.
    pub async fn location(&self, directory: Option<&str>) -> Result<Location, Error> {
        let directory = directory
            .filter(|text| !text.is_empty())
            .map_or_else(|| self.directory.to_path_buf(), PathBuf::from);
        if !directory.is_absolute() {
            return Err(Error::Invalid(format!(
                "directory must be an absolute path, not {}",
                directory.display()
            )));
        }
        check_folder(&directory)?;
        let found = {
            let directory = directory.clone();
            blocking(move || repository(&directory)).await?
        };
        let Some(found) = found else { return self.outside(directory).await };
        if let Some(location) = self.recall(&directory, &found).await {
            return Ok(location);
        }
        // One at a time: whoever comes second finds what the first has found.
        let turn_lock = self.repositories.turn_lock(&found.root);
        let _turn = turn_lock.lock().await;
        if let Some(location) = self.recall(&directory, &found).await {
            return Ok(location);
        }
        // git may take its time, and other folders do not wait for it.
        let id = self.identify(&found).await?;
        let project = {
            let _alone = self.resolving.lock().await;
            self.resolve(&found, id).await?
        };
        let path =
            directory.strip_prefix(&found.root).map(|path| path.display().to_string()).unwrap_or_default();
        let location = Location { directory: directory.clone(), worktree: found.root, project, path };
        // A repository without a commit is looked at again next time.
        if location.project.id != GLOBAL {
            let mut known = self.locations.write().await;
            if known.len() >= REMEMBERED {
                known.clear();
            }
            let until = Instant::now() + FRESH;
            known.insert(
                directory,
                KnownLocation { location: location.clone(), mark: found.mark, shallow: found.shallow, until },
            );
        }
        Ok(location)
    }

    /// What was found out about a folder a moment ago, if the repository is still the same.
    async fn recall(&self, directory: &Path, found: &Repository) -> Option<Location> {
        let known = self.locations.read().await;
        let known = known.get(directory)?;
        let same = (known.mark, known.shallow) == (found.mark, found.shallow);
        let same = same && known.location.worktree == found.root && known.until > Instant::now();
        same.then(|| known.location.clone())
    }

    /// Forgets what was found out about the folders of a project.
    async fn forget(&self, project: &str) {
        self.locations.write().await.retain(|_, known| known.location.project.id != project);
    }

    /// A folder that is in no repository.
    async fn outside(&self, directory: PathBuf) -> Result<Location, Error> {
        let known = self.all().await?.into_iter().find(|project| project.id == GLOBAL);
        let project = known.unwrap_or_else(|| self.blank_project(GLOBAL, PathBuf::from("/"), None));
        Ok(Location { worktree: directory.clone(), directory, project, path: String::new() })
    }

    fn blank_project(&self, id: &str, worktree: PathBuf, vcs: Option<&str>) -> Project {
        let now = self.journal.mint().now();
        let vcs = vcs.map(str::to_owned);
        Project { id: id.to_owned(), worktree, vcs, created: now, updated: now, places: Vec::new() }
    }

    /// The id of the project that a repository is, where it has one.
    async fn identify(&self, found: &Repository) -> Result<Option<String>, Error> {
        let known = self.all().await?;
        let here = |wanted: &dyn Fn(&ProjectFolder, RepositoryMark) -> bool| {
            let is = |place: &ProjectFolder| {
                place.root == found.root && place.mark.is_some_and(|mark| wanted(place, mark))
            };
            known.iter().find(|project| project.places.iter().any(is)).map(|project| project.id.clone())
        };
        // The very same as last time: its id stays, also when other roots have joined its history since.
        let same = here(&|place, mark| mark.is_surely(&found.mark) && place.shallow == found.shallow);
        if same.is_some() {
            return Ok(same);
        }
        Ok(match self.ask_git(found).await {
            RepositoryIdentity::Root(id) | RepositoryIdentity::Edge(id) => Some(id),
            RepositoryIdentity::Unborn => None,
            // What it was last time is the best guess.
            RepositoryIdentity::Unknown => here(&|_, mark| mark.is_same(&found.mark)),
        })
    }

    /// Asks git which repository it is, unless it had no answer a moment ago: waiting for it takes long.
    async fn ask_git(&self, found: &Repository) -> RepositoryIdentity {
        let repositories = &self.repositories;
        if repositories.git_is_unresponsive(found) {
            return RepositoryIdentity::Unknown;
        }
        let identity = identity(found).await;
        if identity == RepositoryIdentity::Unknown {
            repositories.note_unresponsive_git(found);
        }
        identity
    }

    /// The project with this id that a repository belongs to, with its places up to date and its sessions where they
    /// belong. Boxed so that only this crate compiles it.
    fn resolve<'a>(
        &'a self,
        found: &'a Repository,
        id: Option<String>,
    ) -> BoxFuture<'a, Result<Project, Error>> {
        Box::pin(async move {
            let known = self.all().await?;
            let Some(id) = id else { return Ok(self.blank_project(GLOBAL, found.root.clone(), Some("git"))) };
            let project = known.iter().find(|project| project.id == id).cloned();
            let project = project.unwrap_or_else(|| self.blank_project(&id, found.root.clone(), Some("git")));
            let project = self.update_places(project, &known, found).await?;
            Ok(Project { worktree: found.root.clone(), vcs: Some("git".to_owned()), ..project })
        })
    }

    /// The projects that were seen.
    ///
    /// # Errors
    /// When the store refuses.
    pub async fn all(&self) -> Result<Vec<Project>, Error> {
        let rows = self.store.projects().await?;
        Ok(rows.into_iter().filter_map(|(_, data)| serde_json::from_str(&data).ok()).collect())
    }

    /// Those of some sessions that are a location's. What is gone meanwhile is nobody's.
    ///
    /// # Errors
    /// When the store refuses.
    pub async fn held_by(
        &self,
        location: &Location,
        ids: HashSet<SessionId>,
    ) -> Result<HashSet<SessionId>, Error> {
        let mut held = HashSet::new();
        for id in ids {
            if self.store.session(&id).await?.is_some_and(|session| location.holds(&session)) {
                held.insert(id);
            }
        }
        Ok(held)
    }

    /// The sessions of a place: of its repository, or of its very folder where it is in none. Everything outside of
    /// repositories is one project, and its folders have nothing else in common.
    ///
    /// # Errors
    /// When the store refuses.
    pub async fn sessions_here(&self, location: &Location, filter: Filter) -> Result<Vec<Session>, Error> {
        let outside = location.project.id == GLOBAL;
        let directory = outside.then(|| location.directory.display().to_string());
        self.sessions(location, Filter { directory: directory.or(filter.directory), ..filter }).await
    }

    /// The sessions of a location's project, without those of other clones of it. The filter's project is set here.
    ///
    /// # Errors
    /// When the store refuses.
    pub async fn sessions(&self, location: &Location, filter: Filter) -> Result<Vec<Session>, Error> {
        let filter = Filter { project: Some(location.project.id.clone()), ..filter };
        let limit = filter.limit;
        let alone = location.project.places.iter().all(|place| place.left || place.root == location.worktree);
        if alone || filter.directory.is_some() {
            return Ok(self.store.sessions(filter).await?);
        }
        let mut sessions = self.store.sessions(Filter { limit: None, ..filter }).await?;
        sessions.retain(|session| !location.is_elsewhere(session));
        sessions.truncate(limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX));
        Ok(sessions)
    }
}

/// Refuses what no system takes for a folder.
fn check_folder(directory: &Path) -> Result<(), Error> {
    let path = directory.as_os_str().as_encoded_bytes();
    let refused = |reason: &str| Err(Error::Invalid(format!("directory {reason}")));
    if path.contains(&0) {
        return refused("holds a NUL");
    }
    if path.len() > FOLDER_LIMIT {
        return refused(&format!("has {} bytes; at most {FOLDER_LIMIT} are allowed", path.len()));
    }
    if path.split(|byte| *byte == b'/').any(|name| name.len() > FOLDER_NAME_LIMIT) {
        return refused(&format!("has a name of more than {FOLDER_NAME_LIMIT} bytes in it"));
    }
    Ok(())
}

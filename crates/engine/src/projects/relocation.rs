//! Relocation: sessions follow the folder that they work in.
//!
//! When a project is opened at a new place, its earlier places are looked at. If one of them had this very `.git`, it
//! was renamed, and its sessions come along, but no others: two clones that were moved at the same time each keep their
//! own. If that cannot be told, because the folder was copied to another disk and removed, the sessions come along if
//! the project is nowhere else. A place that still exists keeps its sessions, and so does one on a disk that is not
//! mounted now. A clone put where another clone of the same project used to be gets that one's sessions: nothing tells
//! them apart.
//!
//! Sessions also change their project when their folder does: when a folder becomes a repository, gets its first
//! commit, or the rest of a history that was cut off.
//!
//! Each session moves by an event of its own, so that doing it again does nothing. The list of places is written last:
//! whatever a crash leaves undone is done when the place is next opened. So is a session that is at work somewhere.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use everturn_model::{Event, Session};
use everturn_tools::project::{Repository, RepositoryIdentity, is_gone, repository};

use super::{GLOBAL, Project, ProjectFolder, Projects};
use crate::Error;
use crate::background::blocking;
use crate::sessions::{ArchivedSessions, Filter};

/// Sessions of a project in a folder, and where they belong.
#[derive(Debug)]
struct SessionMove<'a> {
    project: &'a str,
    from: &'a Path,
    to: &'a Repository,
    id: &'a str,
}

impl Projects {
    /// Brings the places of a project up to date and the sessions of places that were moved to where they are now.
    pub(super) async fn update_places(
        &self,
        mut project: Project,
        known: &[Project],
        found: &Repository,
    ) -> Result<Project, Error> {
        let before = project.clone();
        let id = project.id.clone();
        let here = |place: &ProjectFolder| place.root == found.root;
        let new = !project.places.iter().any(here);
        let mut complete = true;
        if new {
            complete = self.adopt_sessions(known, found, &id).await?;
            project.places.extend(self.unrecorded(&project).await?);
        }
        let is_this = |place: &ProjectFolder| place.mark.is_some_and(|mark| mark.is_same(&found.mark));
        let renamed = project.places.iter().any(|place| !here(place) && is_this(place));
        let mut gone = Vec::new();
        let mut others = 0;
        for (index, place) in project.places.iter().enumerate().filter(|(_, place)| !here(place)) {
            if self.is_abandoned(place, &id).await? {
                gone.push(index);
            } else {
                others += 1;
            }
        }
        let mut taken = BTreeSet::new();
        for index in gone {
            let Some(place) = project.places.get_mut(index) else { continue };
            let comes = if renamed { is_this(place) } else { new && others == 0 && !place.left };
            if comes {
                let from = place.root.clone();
                let way = SessionMove { project: &id, from: &from, to: found, id: &id };
                if self.move_sessions(&way).await? {
                    taken.insert(from);
                } else {
                    complete = false;
                }
            } else {
                place.left = true;
            }
        }
        project.places.retain(|place| !here(place) && !taken.contains(&place.root));
        // While something is left to do, this is a new place.
        if complete {
            project.places.push(ProjectFolder::of(found));
        }
        project.worktree.clone_from(&found.root);
        if project != before {
            project.updated = self.journal.mint().now();
            let data = serde_json::to_string(&project).map_err(|error| Error::Invalid(error.to_string()))?;
            self.store.put_project(&id, data).await?;
            self.forget(&id).await;
        }
        Ok(project)
    }

    /// Places that are known only from sessions: those of other programs, and those from before places were recorded.
    async fn unrecorded(&self, project: &Project) -> Result<Vec<ProjectFolder>, Error> {
        let mut roots = BTreeSet::new();
        for session in self.all_sessions(&project.id).await? {
            roots.extend(root_of(&session));
        }
        roots.retain(|root| !project.places.iter().any(|place| root.starts_with(&place.root)));
        let place = |root| ProjectFolder { root, history: None, mark: None, shallow: false, left: false };
        Ok(roots.into_iter().map(place).collect())
    }

    /// Whether a place is surely no longer one of this project.
    async fn is_abandoned(&self, place: &ProjectFolder, id: &str) -> Result<bool, Error> {
        let (root, mark) = (place.root.clone(), place.mark);
        let (gone, now) = blocking(move || (is_gone(&root, mark.as_ref()), repository(&root))).await?;
        let now = now.filter(|now| now.root == place.root);
        Ok(match now {
            None => gone,
            Some(now) if place.mark == Some(now.mark) => false,
            Some(now) => match self.ask_git(&now).await {
                RepositoryIdentity::Root(other) | RepositoryIdentity::Edge(other) => other != id,
                RepositoryIdentity::Unborn => true,
                RepositoryIdentity::Unknown => false,
            },
        })
    }

    /// Takes sessions in the folders of a repository into its project, from the project that the folders were in before.
    async fn adopt_sessions(&self, known: &[Project], found: &Repository, id: &str) -> Result<bool, Error> {
        let was_cut_off = |project: &&Project| {
            let here = |place: &ProjectFolder| place.root == found.root && place.shallow;
            project.id != id && project.places.iter().any(here)
        };
        let mut settled = true;
        let earlier = known.iter().filter(was_cut_off).map(|project| project.id.as_str());
        for project in earlier.chain([GLOBAL]) {
            let way = SessionMove { project, from: &found.root, to: found, id };
            settled &= self.move_sessions(&way).await?;
        }
        Ok(settled)
    }

    async fn all_sessions(&self, project: &str) -> Result<Vec<Session>, Error> {
        let all = |trashed| Filter {
            project: Some(project.to_owned()),
            archived: ArchivedSessions::Included,
            trashed,
            ..Filter::default()
        };
        let mut sessions = self.store.sessions(all(false)).await?;
        sessions.extend(self.store.sessions(all(true)).await?);
        Ok(sessions)
    }

    /// Moves sessions, and the record of the files of their turns. False when one of them was at work and stays.
    async fn move_sessions(&self, way: &SessionMove<'_>) -> Result<bool, Error> {
        let mut complete = true;
        for session in self.all_sessions(way.project).await? {
            let Ok(below) = Path::new(&session.directory).strip_prefix(way.from) else { continue };
            // Joined to nothing, a path would get a slash at its end.
            let directory =
                if below.as_os_str().is_empty() { way.to.root.clone() } else { way.to.root.join(below) };
            // A repository within this one has sessions of its own.
            let inner = directory.clone();
            let owner = blocking(move || repository(&inner)).await?;
            if owner.is_some_and(|owner| owner.root != way.to.root && owner.root.starts_with(&way.to.root)) {
                continue;
            }
            complete &= self.move_session(&session, way.id, &directory, below).await?;
        }
        if complete {
            self.snapshots.move_along((way.project, way.from), (way.id, &way.to.root));
        }
        Ok(complete)
    }

    async fn move_session(
        &self,
        session: &Session,
        project: &str,
        directory: &Path,
        below: &Path,
    ) -> Result<bool, Error> {
        let event = Event::SessionMoved {
            project: project.to_owned(),
            directory: directory.display().to_string(),
            path: Some(below.display().to_string()),
            extra: everturn_model::Map::new(),
        };
        // Neither this process nor another one may be at work on it.
        let moved = self.leases.try_at_rest(&session.id, |lease| async move {
            self.journal.append_owned(&lease, vec![event]).await
        });
        Ok(moved.await?.is_some())
    }
}

/// The root of the project that a session was made in.
fn root_of(session: &Session) -> Option<PathBuf> {
    let directory = Path::new(&session.directory);
    let below = Path::new(session.path.as_deref().unwrap_or_default());
    if !directory.is_absolute() || !directory.ends_with(below) {
        return None;
    }
    directory.ancestors().nth(below.components().count()).map(Path::to_owned)
}

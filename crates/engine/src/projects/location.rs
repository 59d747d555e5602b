//! A folder, what it belongs to, and which sessions are its own.

use std::path::{Path, PathBuf};

use everturn_model::Session;
use everturn_tools::project::repository;

use super::{GLOBAL, Project, ProjectFolder};

/// A folder and what it belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Location {
    /// The folder.
    pub directory: PathBuf,
    /// The root of the project.
    pub worktree: PathBuf,
    /// The project.
    pub project: Project,
    /// The folder relative to the root.
    pub path: String,
}

impl Location {
    /// The branch that is checked out, where it is a repository on a branch.
    #[must_use]
    pub fn branch(&self) -> Option<String> {
        self.project.vcs.as_ref()?;
        // In worktrees and submodules `.git` is a file that leads elsewhere.
        repository(&self.worktree).filter(|found| found.root == self.worktree)?.branch()
    }

    /// Whether a session is one of this place: of its very folder, whatever became of that, or of its repository.
    #[must_use]
    pub fn holds(&self, session: &Session) -> bool {
        let of_project = session.project == self.project.id && session.project != GLOBAL;
        Path::new(&session.directory) == self.directory || of_project && !self.is_elsewhere(session)
    }

    /// Whether a session is one of another clone of this project that is still there. Worktrees of one repository are
    /// no clones of each other.
    pub(super) fn is_elsewhere(&self, session: &Session) -> bool {
        let directory = Path::new(&session.directory);
        if session.project != self.project.id || directory.starts_with(&self.worktree) {
            return false;
        }
        let own = self.project.places.iter().find(|place| place.root == self.worktree);
        let history = own.and_then(|place| place.history.as_ref());
        let holds = |place: &&ProjectFolder| !place.left && directory.starts_with(&place.root);
        // Of folders within each other, the inner one has it.
        let place =
            self.project.places.iter().filter(holds).max_by_key(|place| place.root.components().count());
        place.is_some_and(|place| place.history.is_none() || place.history.as_ref() != history)
    }
}

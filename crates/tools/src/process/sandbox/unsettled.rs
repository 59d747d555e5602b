//! What of a project programs of agents may have made at protected places and nobody has looked through yet.
//!
//! It is there until they end, and gets another name then. Whoever records a project meanwhile has to know what of it is
//! not the person's: put back later, it would be at its protected name again.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::new_repository::{ARMING, would_arm};
use super::overlap::{ProgramEntry, ProjectLook};
use super::survey::PlaceKind;
use crate::protected::{IN_GIT, plans_in};

/// The time in which a project is recorded.
pub(crate) struct ProjectRecording {
    /// The project, by its real path.
    root: PathBuf,
    look: ProjectLook,
}

impl ProjectRecording {
    /// Begins one; programs that run now, or begin before it ends, count.
    pub(crate) fn begin(project: &Path) -> Self {
        Self {
            root: fs::canonicalize(project).unwrap_or_else(|_| project.to_owned()),
            look: ProjectLook::begin(),
        }
    }

    /// Ends it, with what cannot be told from what those programs have made.
    pub(crate) fn end(self) -> UnsettledPlaces {
        let mut programs = self.look.others();
        let is_near = |folder: &PathBuf| folder.starts_with(&self.root) || self.root.starts_with(folder);
        programs.retain(|program| program.reach.iter().any(is_near));
        UnsettledPlaces { root: self.root, programs }
    }
}

/// Protected places of a project at which programs that ran may have made something.
pub(crate) struct UnsettledPlaces {
    root: PathBuf,
    programs: Vec<Arc<ProgramEntry>>,
}

impl UnsettledPlaces {
    /// Whether there is none, because nothing ran.
    pub(crate) fn is_empty(&self) -> bool {
        self.programs.is_empty()
    }

    /// Whether a file of the project is at one of them.
    pub(crate) fn has(&self, below: &Path) -> bool {
        let in_git = below.ancestors().skip(1).find_map(|folder| {
            let inner = below.strip_prefix(folder).ok()?;
            let name = IN_GIT.into_iter().find(|name| inner.starts_with(name))?;
            // Not by what is recorded: that may be ignored.
            let git = self.root.join(folder);
            fs::symlink_metadata(git.join("HEAD")).is_ok().then(|| git.join(name))
        });
        let path = self.root.join(below);
        self.programs.iter().any(|program| {
            let reached = program.reach.iter().any(|folder| path.starts_with(folder));
            let watched = program.watched.iter().filter(|place| path.starts_with(place)).cloned();
            let named = program.projects.iter().filter_map(|(root, home)| {
                let below = path.strip_prefix(root).ok()?;
                outermost(below, |below, is_folder| PlaceKind::of(&root.join(below), below, is_folder, home))
                    .map(|below| root.join(below))
            });
            let mut places = watched.chain(named).chain(in_git.clone());
            reached && places.any(|place| !program.settled.has(&place))
        })
    }
}

/// Whether a file, or a link, of a project would make git run something if it were put there.
pub(crate) fn would_run(project: &Path, below: &Path, file: Option<&[u8]>) -> bool {
    let Ok(root) = fs::canonicalize(project) else { return true };
    let mut around = below.ancestors().skip(1);
    around.any(|folder| {
        let inner = below.strip_prefix(folder).unwrap_or(below);
        would_arm(&root, &root.join(folder), inner, file)
    })
}

/// Whether a path has a name in it by which git runs something. What is put back there is put back last.
pub(crate) fn may_run(below: &Path) -> bool {
    below.iter().any(|name| ARMING.iter().any(|known| name == *known))
}

/// The first thing on the way to a file that is protected with all that is in it.
fn outermost(below: &Path, kind: impl Fn(&Path, bool) -> PlaceKind) -> Option<PathBuf> {
    let mut place = PathBuf::new();
    for name in below {
        place.push(name);
        match kind(&place, place != below) {
            PlaceKind::Folder => {}
            PlaceKind::Other => return None,
            PlaceKind::Git | PlaceKind::Protected => {
                let plans = plans_in(&place).filter(|plans| below.starts_with(plans) && below != plans);
                if plans.is_none() {
                    return Some(place);
                }
            }
        }
    }
    None
}

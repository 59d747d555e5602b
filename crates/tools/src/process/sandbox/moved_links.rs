//! Protected links that were moved with the folder that they lie in: they stay only if they lead to what they led to.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::aftermath::Identity;
use super::repository::git_folders;
use super::survey::ProjectSurvey;
use crate::protected::IN_GIT;

/// How many files and folders of one thing are looked at for links.
const MOST: usize = 4096;

/// The protected links that were there when a program began, each with what it led to: that cannot be changed.
#[derive(Debug)]
pub(super) struct LinkEnds(HashMap<Identity, Option<Identity>>);

impl LinkEnds {
    pub(super) fn of(survey: &ProjectSurvey) -> Self {
        // What is the project's own is not moved.
        let git = survey.git.iter().filter(|git| !survey.is_own(git));
        let in_git = git.filter_map(|git| links_of_git(git)).flatten();
        let links = survey.protected_links.iter().cloned().chain(in_git);
        Self(links.filter_map(|link| Some((this(&link)?, end(&link)))).collect())
    }

    /// Whether all links in something lead where they did, or itself, if it is one.
    pub(super) fn hold_in(&self, path: &Path) -> bool {
        links_in(path).is_some_and(|links| self.hold(&links))
    }

    /// The same for what makes git run programs, in a folder of git's.
    pub(super) fn hold_in_git(&self, git: &Path) -> bool {
        links_of_git(git).is_some_and(|links| self.hold(&links))
    }

    fn hold(&self, links: &[PathBuf]) -> bool {
        links.iter().all(|link| this(link).and_then(|link| self.0.get(&link)) == Some(&end(link)))
    }
}

fn this(link: &Path) -> Option<Identity> {
    fs::symlink_metadata(link).ok().map(|this| (this.dev(), this.ino()))
}

fn end(link: &Path) -> Option<Identity> {
    fs::metadata(link).ok().map(|end| (end.dev(), end.ino()))
}

fn links_of_git(git: &Path) -> Option<Vec<PathBuf>> {
    let places = git_folders(git)?.into_iter().flat_map(|git| IN_GIT.map(|name| git.join(name)));
    let each: Option<Vec<Vec<PathBuf>>> = places.map(|place| links_in(&place)).collect();
    each.map(|each| each.concat())
}

/// The links in something, or itself. Nothing if that cannot be told.
fn links_in(path: &Path) -> Option<Vec<PathBuf>> {
    let (mut next, mut links, mut room) = (vec![path.to_owned()], Vec::new(), MOST);
    while let Some(path) = next.pop() {
        room = room.checked_sub(1)?;
        let Ok(this) = fs::symlink_metadata(&path) else { continue };
        if this.is_symlink() {
            links.push(path);
        } else if this.is_dir() {
            for entry in fs::read_dir(&path).ok()?.take(MOST) {
                next.push(entry.ok()?.path());
            }
        }
    }
    Some(links)
}

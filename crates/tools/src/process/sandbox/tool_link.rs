//! Places of tools in a project, which the policies of other projects open: an environment that a variable names, or a cache
//! in the home folder where that is the project.
//!
//! A policy follows links, and a link that a command has made would let it decide what others see. So none that was not
//! there before stays on the way to such a place.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use super::access::FolderAccess;
use super::aftermath::put_folder_aside;
use super::report::DisplacedName;

/// What is on the way to such places in the projects: where each leads that is a link.
#[derive(Debug, Default)]
pub(super) struct ToolLinks(BTreeMap<PathBuf, Option<PathBuf>>);

impl ToolLinks {
    /// Of places, as far as they are in projects.
    pub(super) fn of<'a>(places: impl IntoIterator<Item = &'a PathBuf>, projects: &[PathBuf]) -> Self {
        let ways = places.into_iter().flat_map(|place| {
            let inside = projects.iter().filter(move |project| place.starts_with(project));
            inside.flat_map(move |project| way(project, place))
        });
        let ways: BTreeSet<PathBuf> = ways.collect();
        Self(ways.into_iter().map(|path| (path.clone(), fs::read_link(path).ok())).collect())
    }

    /// Gives another name to the links that were not there, or led elsewhere.
    pub(super) fn judge(&self, access: &mut FolderAccess) -> Vec<DisplacedName> {
        let mut displaced = Vec::new();
        for (path, before) in &self.0 {
            // What a folder on the way has closed is opened to see it.
            if let Some(above) = path.parent() {
                access.open(rustix::fs::CWD, above).ok();
            }
            if fs::read_link(path).is_ok_and(|target| before.as_ref() != Some(&target)) {
                displaced.append(&mut put_folder_aside(path, access));
            }
        }
        displaced
    }
}

/// Each path from a project to a place in it, without the project.
fn way(project: &Path, place: &Path) -> Vec<PathBuf> {
    let way = place.ancestors().take_while(|path| *path != project);
    way.map(Path::to_owned).collect()
}

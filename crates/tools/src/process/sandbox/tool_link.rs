//! Places of tools in a project, which the policies of other projects open: an environment that a variable names, or a cache
//! in the home folder where that is the project.
//!
//! A policy follows links, and a link that a command has made would let it decide what others see. So none that was not
//! there before stays on the way to such a place.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use rustix::fs::CWD;

use super::access::FolderAccess;
use super::aftermath::put_folder_aside;
use super::policy::SandboxPolicy;
use super::report::DisplacedName;
use super::settled::SettledPlaces;
use super::watched::{SeenThing, Sight, is_as_seen};

/// What is on the way to such places in the projects, and the links there are.
#[derive(Debug, Default)]
pub(super) struct ToolLinks(BTreeMap<PathBuf, ToolLink>);

/// What may be there in the end, of links.
#[derive(Debug)]
struct ToolLink {
    /// One with this target, if that was there before any program that runs now.
    target: Option<PathBuf>,
    /// Otherwise exactly this one.
    seen: Option<SeenThing>,
}

/// What is on the way to such places in the projects.
pub(super) fn ways_to_tools(policy: &SandboxPolicy) -> BTreeSet<PathBuf> {
    let ways = policy.unlinked.iter().flat_map(|place| {
        let inside = policy.projects.iter().filter(move |project| place.starts_with(project));
        inside.flat_map(move |project| way(project, place))
    });
    ways.collect()
}

impl ToolLinks {
    pub(super) fn of(policy: &SandboxPolicy, settled: &SettledPlaces, sight: &Sight) -> Self {
        let links = ways_to_tools(policy).into_iter().map(|path| {
            let target = fs::read_link(&path).ok().filter(|_| settled.has(&path));
            let seen = target.is_none().then(|| sight.see(&path)).flatten();
            (path, ToolLink { target, seen })
        });
        Self(links.collect())
    }

    /// Gives another name to the links that were not there, or led elsewhere.
    pub(super) fn judge(&self, access: &mut FolderAccess) -> Vec<DisplacedName> {
        let mut displaced = Vec::new();
        for (path, before) in &self.0 {
            // What a folder on the way has closed is opened to see it.
            if let Some(above) = path.parent() {
                access.open(CWD, above).ok();
            }
            let Ok(target) = fs::read_link(path) else { continue };
            if before.target.as_ref() != Some(&target) && !is_as_seen(path, before.seen) {
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

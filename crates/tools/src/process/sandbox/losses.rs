//! What a program wrote to folders that are gone with it.
//!
//! The home folder is empty but for what is listed, and can be written to, because many programs do not work otherwise. So
//! what they put there is lost without an error. The init looks for it when nothing of the program runs any more. It looks
//! only into folders that lead to something listed, which are few: what else there is the program has made.

use std::collections::BTreeSet;
use std::fs;
use std::ops::Bound;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::guard::lossy;
use super::policy::{HOME_CACHES, SandboxPolicy};
use super::report::LostNames;

/// How many names are told.
const MOST_TOLD: usize = 10;

/// How many things are looked at.
const MOST_SEEN: usize = 10_000;

/// What tools leave in a home folder by themselves, besides caches, and make again.
const LEFT_BY_TOOLS: [&str; 11] = [
    ".cache",
    ".config/configstore",
    ".config/go/telemetry",
    ".config/matplotlib",
    ".dotnet",
    ".gradle",
    ".java",
    ".local/share/NuGet",
    ".local/state",
    ".nuget",
    ".pki",
];

/// The same, by how the names of files end.
const RECORDS: [&str; 4] = ["history", "hsts", ".lesshst", ".viminfo"];

/// What a program wrote and is lost. `places` is what the sandbox itself has put there.
pub(super) fn losses(policy: &SandboxPolicy, places: &BTreeSet<PathBuf>) -> LostNames {
    let mut lost = Vec::new();
    for home in &policy.scratch {
        let Ok(meta) = fs::symlink_metadata(home) else { continue };
        let mut search = LossSearch { home, places, device: meta.dev(), lost: Vec::new(), room: MOST_SEEN };
        search.look_into(home);
        lost.append(&mut search.lost);
    }
    lost.sort();
    let more = lost.len().saturating_sub(MOST_TOLD);
    lost.truncate(MOST_TOLD);
    LostNames { names: lost, more }
}

struct LossSearch<'a> {
    home: &'a Path,
    places: &'a BTreeSet<PathBuf>,
    device: u64,
    lost: Vec<String>,
    /// How many more things are looked at.
    room: usize,
}

impl LossSearch<'_> {
    fn look_into(&mut self, folder: &Path) {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let Some(room) = self.room.checked_sub(1) else { return };
            self.room = room;
            let path = entry.path();
            let Ok(meta) = fs::symlink_metadata(&path) else { continue };
            let is_elsewhere = meta.dev() != self.device;
            if is_elsewhere
                || meta.is_symlink() && self.places.contains(&path)
                || self.is_left_by_tools(&path)
            {
                continue;
            }
            if meta.is_dir() && self.leads_somewhere(&path) {
                self.look_into(&path);
            } else {
                self.lost.push(lossy(&path) + if meta.is_dir() { "/" } else { "" });
            }
        }
    }

    /// Whether a folder is there, or may be, because of something that is listed.
    fn leads_somewhere(&self, folder: &Path) -> bool {
        let after = (Bound::Excluded(folder), Bound::Unbounded);
        let place = self.places.range::<Path, _>(after).next();
        let below = folder.strip_prefix(self.home).unwrap_or(folder);
        place.is_some_and(|place| place.starts_with(folder))
            || known_names().any(|name| Path::new(name).starts_with(below))
    }

    fn is_left_by_tools(&self, path: &Path) -> bool {
        let Ok(below) = path.strip_prefix(self.home) else { return false };
        let is_record = |name: &str| RECORDS.iter().any(|end| name.ends_with(end));
        known_names().any(|name| below.starts_with(name))
            || below.file_name().and_then(|name| name.to_str()).is_some_and(is_record)
    }
}

/// What nobody misses.
fn known_names() -> impl Iterator<Item = &'static str> {
    LEFT_BY_TOOLS.into_iter().chain(HOME_CACHES)
}

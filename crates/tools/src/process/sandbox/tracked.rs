//! What is hidden in a project although a repository tracks it.
//!
//! Git takes what it cannot see for deleted, and `git add -A` would delete it with the next commit, without a word. Nothing
//! that is shown in its place helps: whatever can be read is committed instead. So no command starts there.

use std::fs;
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use super::policy::{SandboxPolicy, is_of_system};
use super::survey::ProjectSurvey;
use crate::project::repository;
use crate::regular_file;

/// The most that is read of what lists the files of a repository. One that is longer could have anything in the rest.
const LONGEST: u64 = 256 * 1024 * 1024;

/// The oldest version of that list in which paths are not written out.
const COMPRESSED: u8 = 4;

/// Why commands are not started in a project.
#[derive(Debug, thiserror::Error)]
#[error(
    "{0} is hidden because secrets are kept there, and git tracks it: a commit would delete it. Add it to `readable` of \
     `sandbox` in the configuration to show it"
)]
struct TrackedSecret(PathBuf);

/// Fails if something that is hidden in a project is tracked.
pub(super) fn check(policy: &SandboxPolicy, surveys: &[ProjectSurvey]) -> io::Result<()> {
    for hidden in policy.hidden.iter().filter(|path| !is_of_system(path)) {
        let Ok(real) = fs::canonicalize(hidden) else { continue };
        if surveys.iter().any(|survey| real.starts_with(&survey.root)) && is_tracked(&real) {
            return Err(io::Error::other(TrackedSecret(real)));
        }
    }
    Ok(())
}

/// Whether the repository around something tracks it, or what is in it.
fn is_tracked(path: &Path) -> bool {
    let Some(found) = path.parent().and_then(repository) else { return false };
    let Ok(below) = path.strip_prefix(&found.root) else { return false };
    // A list can be split into one that is shared and what has changed since.
    let entries = fs::read_dir(&found.git).into_iter().flatten().flatten();
    let is_list = |name: &[u8]| name == b"index" || name.starts_with(b"sharedindex.");
    let lists = entries.filter(|entry| is_list(entry.file_name().as_bytes()));
    lists.into_iter().any(|list| read(&list.path()).is_none_or(|list| lists_path(&list, below)))
}

fn read(path: &Path) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let (file, _) = regular_file::open(path).ok()?;
    let length = file.take(LONGEST).read_to_end(&mut bytes).ok()?;
    u64::try_from(length).is_ok_and(|length| length < LONGEST).then_some(bytes)
}

/// Whether a list of files has a path, or something below it. One that cannot be told has.
fn lists_path(list: &[u8], below: &Path) -> bool {
    if list.get(7).is_none_or(|version| *version >= COMPRESSED) {
        return true;
    }
    let below = below.as_os_str().as_bytes();
    let starts = list.windows(below.len()).enumerate().filter(|(_, bytes)| *bytes == below);
    starts.into_iter().any(|(at, _)| {
        let rest = list.get(at + below.len()..).unwrap_or_default();
        let is_end = rest.first().is_some_and(|byte| matches!(byte, 0 | b'/'));
        // Before the name is its length, in twelve bits, and in between sometimes two bytes more.
        let length = rest.iter().position(|byte| *byte == 0).map_or(0, |rest| below.len() + rest).min(0xfff);
        let has_length = |before: usize| {
            let bytes = at.checked_sub(before).and_then(|start| list.get(start..start + 2));
            let bytes = bytes.and_then(|bytes| <[u8; 2]>::try_from(bytes).ok());
            bytes.is_some_and(|bytes| usize::from(u16::from_be_bytes(bytes) & 0xfff) == length)
        };
        is_end && (has_length(2) || has_length(4))
    })
}

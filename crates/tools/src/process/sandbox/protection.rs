//! Files that can be read and not changed, inside of a project that can be changed.
//!
//! A protected file is mounted on itself, read-only. So is, without that, every folder between it and the project:
//! what is mounted on can be neither moved away nor replaced, and with its folder the file would go.

use std::collections::BTreeSet;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, fstat};
use rustix::io::{Errno, Result};

use super::guard::Guard;
use super::kernel::make_read_only;
use super::policy::SandboxPolicy;
use super::stage::{Stage, attach, copy_at, look, look_at_name, target};

/// Protects what the policy says, below what is writable. Names that can only be looked at in the end are the result.
pub(super) fn protect(stage: &Stage, policy: &SandboxPolicy, writable: &[PathBuf]) -> Result<Vec<Guard>> {
    let base = |path: &Path| {
        let around = writable.iter().filter(|outer| path.starts_with(outer) && path != outer.as_path());
        around.max_by_key(|outer| outer.components().count())
    };
    // Before anything is read-only: a copy made afterwards would be too.
    let excepted = policy.excepted.iter().filter_map(|path| {
        let tree = copy_at(stage.find(path).ok()?).ok()?;
        Some((path, tree))
    });
    let excepted: Vec<(&PathBuf, OwnedFd)> = excepted.collect();

    let mut protected: Vec<&PathBuf> = policy.protected.iter().collect();
    protected.sort();
    let mut mounted = BTreeSet::new();
    let mut guards: Vec<Guard> = Vec::new();
    for path in protected {
        let Some(base) = base(path) else { continue };
        guards.extend(protect_one(stage, base, path, &mut mounted)?);
    }
    guards.dedup();
    for (path, tree) in excepted {
        attach(&tree, stage.find(path)?)?;
    }
    Ok(guards)
}

/// Protects one name below something writable.
fn protect_one(
    stage: &Stage,
    base: &Path,
    path: &Path,
    mounted: &mut BTreeSet<PathBuf>,
) -> Result<Option<Guard>> {
    let mut at = base.to_owned();
    let mut folder = stage.find(base)?;
    for name in path.strip_prefix(base).unwrap_or(path) {
        let name = Path::new(name);
        at.push(name);
        let is_last = at == path;
        let found = match look_at_name(&folder, name) {
            // What is in a folder that is not there yet belongs to whoever makes the folder.
            Err(Errno::NOENT) => return Ok(is_last.then(|| Guard::of_absent(at))),
            other => other?,
        };
        let kind = FileType::from_raw_mode(fstat(&found)?.st_mode);
        if kind.is_symlink() {
            return Ok(Some(Guard::of_link(at, target(&found)?)));
        }
        // A file in the way of a protected name says where it leads: `.git` of a worktree.
        let is_end = is_last || !kind.is_dir();
        if mounted.insert(at.clone()) {
            let tree = copy_at(&found)?;
            if is_end {
                make_read_only(tree.as_fd())
                    .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
            }
            attach(&tree, &found)?;
        }
        if is_end {
            return Ok(None);
        }
        folder = look(&folder, name)?;
    }
    Ok(None)
}

//! Repositories within the project that are not the project's own.
//!
//! Git obeys the configuration of the repository that it finds from its folder upwards, and that names programs
//! to run (`core.fsmonitor`, hooks). The project's own was the person's choice. Another one on the way may have come
//! with the project's content: a folder with `HEAD`, `objects` and `refs` is a repository without being called `.git`.

use std::path::Path;

use crate::scope::{Scope, real};

/// Programs that work in the repository they find.
const READERS: &str = "git gh hub tig jj git-lfs pre-commit lazygit glab";

/// Whether a program works in the repository that it finds from its folder upwards.
pub(super) fn read_by(name: &str) -> bool {
    super::programs::listed(READERS, name)
}

/// Whether git would find another repository from this folder than the project's own, or might.
pub(super) fn foreign(folder: &Path, scope: &Scope) -> bool {
    let within = scope.worktree.parent().is_some() && scope.directory.starts_with(&scope.worktree);
    let root = real(if within { &scope.worktree } else { &scope.directory });
    let folder = real(folder);
    // What is not there yet, the line itself may bring: `git checkout x && cd new && git status`.
    if !folder.starts_with(&root) || folder != root && !folder.is_dir() {
        return true;
    }
    folder.ancestors().take_while(|place| place.starts_with(&root)).any(|place| {
        let there = |name: &str| place.join(name).symlink_metadata().is_ok();
        // At the root `.git` is the project's own, and comes before anything else there.
        let own = place == root;
        let bare = there("HEAD") && (there("objects") && there("refs") || there("commondir"));
        if own { bare && !there(".git") } else { bare || there(".git") }
    })
}

//! The ignore rules of a worktree, read folder by folder through handles.
//!
//! They hold whether or not the folder is a git repository: the `.gitignore` of each folder, those of deeper ones first,
//! then what a repository keeps for itself in `info/exclude`.

use std::path::Path;
use std::sync::Arc;

use ignore::gitignore::{Gitignore, GitignoreBuilder};
use rustix::fs::CWD;

use crate::folder::OpenFolder;
use crate::ignore_rules::{self, RULES_MAX};

/// The file of rules in a folder.
pub(super) const GITIGNORE: &str = ".gitignore";

/// The rules that hold in a folder; clones share them.
#[derive(Debug, Clone, Default)]
pub(super) struct FolderRules(Arc<RuleChain>);

/// Rules of a folder and those above it, the deepest last.
#[derive(Debug, Clone, Default)]
struct RuleChain {
    own: Vec<Arc<Gitignore>>,
    excluded: Vec<Arc<Gitignore>>,
    bytes: u64,
}

/// Which files of rules a folder may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RuleFiles {
    /// Whether there is a `.gitignore`.
    pub(super) own: bool,
    /// Whether there is a `.git`.
    pub(super) git: bool,
}

impl FolderRules {
    /// The rules in a folder whose path is `below`, where these hold above it; nothing if they are no ordinary files or
    /// too long.
    pub(super) fn enter(&self, folder: &OpenFolder, below: &Path, files: RuleFiles) -> Option<Self> {
        let own =
            if files.own { ignore_rules::read(folder, Path::new(GITIGNORE), RULES_MAX)? } else { Vec::new() };
        let excluded = if files.git { exclude(folder)? } else { Vec::new() };
        if own.is_empty() && excluded.is_empty() {
            return Some(self.clone());
        }
        let mut chain = (*self.0).clone();
        chain.bytes += (own.len() + excluded.len()) as u64;
        if chain.bytes > RULES_MAX {
            return None;
        }
        chain.own.extend(parse(below, &own));
        chain.excluded.extend(parse(below, &excluded));
        Some(Self(Arc::new(chain)))
    }

    /// Whether they leave out what is at a path of the worktree.
    pub(super) fn leave_out(&self, path: &Path, is_folder: bool) -> bool {
        let decide = |chain: &[Arc<Gitignore>]| {
            chain
                .iter()
                .rev()
                .map(|rules| rules.matched(path, is_folder))
                .find(|found| !found.is_none())
                .map(|found| found.is_ignore())
        };
        decide(&self.0.own).or_else(|| decide(&self.0.excluded)).unwrap_or_default()
    }
}

/// The rules that a repository keeps for itself.
fn exclude(folder: &OpenFolder) -> Option<Vec<u8>> {
    match ignore_rules::led_to(folder, Path::new(".git"))? {
        Some(elsewhere) => ignore_rules::read(CWD, &elsewhere, RULES_MAX),
        None => ignore_rules::read(folder, Path::new(".git/info/exclude"), RULES_MAX),
    }
}

/// Rules line by line, up to the first that is not text; one that cannot be understood says nothing.
fn parse(below: &Path, rules: &[u8]) -> Option<Arc<Gitignore>> {
    let text = match std::str::from_utf8(rules) {
        Ok(text) => text,
        Err(error) => {
            let valid = rules.get(..error.valid_up_to()).and_then(|valid| std::str::from_utf8(valid).ok())?;
            valid.rsplit_once('\n')?.0
        }
    };
    let mut builder = GitignoreBuilder::new(below);
    for line in text.trim_start_matches('\u{feff}').lines() {
        builder.add_line(None, line).ok();
    }
    builder.build().ok().filter(|rules| !rules.is_empty()).map(Arc::new)
}

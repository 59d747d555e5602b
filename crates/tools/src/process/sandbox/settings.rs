//! What a person chose for the sandbox, and the policy that it means for a project.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::policy::{SandboxMode, SandboxNetwork, SandboxPolicy};
use super::report::SandboxPart;
use super::repository::{git_folders, repository_elsewhere};
use crate::scope::Scope;

/// The sandbox as it is set up: the same for every command, whatever project it runs in.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SandboxSettings {
    /// What may be done to the project.
    pub mode: SandboxMode,
    /// What commands reach by network.
    pub network: SandboxNetwork,
    /// What the sandbox is made of: all that [`SandboxReport::parts`](super::SandboxReport::parts) has, or less.
    pub parts: BTreeSet<SandboxPart>,
    /// What can be read besides the project, the system and well-known tools.
    pub readable: Vec<PathBuf>,
    /// What can be changed besides the project and well-known caches.
    pub writable: Vec<PathBuf>,
    /// What is never shown, such as our data folder, even if it lies in the project.
    pub hidden: Vec<PathBuf>,
    /// The folder that commands have as `/tmp`, so that a later one finds what an earlier one left there.
    pub temporary: Option<PathBuf>,
}

impl SandboxSettings {
    /// The policy for a project. The files that keep long outputs are not shown: those of all sessions lie together,
    /// and the tool that reads files shows them.
    #[must_use]
    pub fn policy(&self, scope: &Scope) -> SandboxPolicy {
        let mut policy = SandboxPolicy::of(self.mode, &scope.worktree, &scope.home);
        policy.readable.extend(self.readable.iter().cloned());
        policy.writable.extend(self.writable.iter().cloned());
        let elsewhere = repository_elsewhere(&scope.worktree);
        if self.mode == SandboxMode::Workspace {
            let git = elsewhere.clone().unwrap_or_else(|| scope.worktree.join(".git"));
            for folder in git_folders(&git) {
                policy.protect_git(&folder);
            }
            policy.protected.push(scope.worktree.join(".git/config"));
            policy.writable.extend(elsewhere);
        } else {
            policy.readable.extend(elsewhere);
        }
        policy.hidden.extend(self.hidden.iter().cloned());
        policy.temporary.clone_from(&self.temporary);
        policy.network = self.network;
        policy.parts.clone_from(&self.parts);
        policy
    }
}

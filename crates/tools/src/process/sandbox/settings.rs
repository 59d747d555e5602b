//! What a person chose for the sandbox, and the policy that it means for a project.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::policy::{SandboxMode, SandboxNetwork, SandboxPolicy};
use super::report::SandboxPart;
use super::repository::{git_folders, repository_elsewhere};
use crate::scope::Scope;

/// What people keep secrets in, below the home folder. The home folder is not shown, unless it is the project.
const HOME_SECRETS: [&str; 18] = [
    ".aws",
    ".azure",
    ".cargo/credentials.toml",
    ".config/gcloud",
    ".config/gh",
    ".config/google-chrome",
    ".docker",
    ".git-credentials",
    ".gnupg",
    ".kube",
    ".local/share/keyrings",
    ".local/share/opencode",
    ".mozilla",
    ".netrc",
    ".npmrc",
    ".password-store",
    ".pypirc",
    ".ssh",
];

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
    /// The parts that are missing.
    pub fn missing(&self) -> impl Iterator<Item = SandboxPart> {
        SandboxPart::ALL.into_iter().filter(|part| !self.parts.contains(part))
    }

    /// Whether no part is missing: what is not allowed is then impossible, and need not be asked about.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.missing().next().is_none()
    }

    /// The policy for a project. The files that keep long outputs are not shown: those of all sessions lie together,
    /// and the tool that reads files shows them.
    #[must_use]
    pub fn policy(&self, scope: &Scope) -> SandboxPolicy {
        let project = scope.project();
        let mut policy = SandboxPolicy::of(self.mode, project, &scope.home);
        if scope.home.starts_with(project) {
            // The home folder is in the project, or is it: it is shown but for what holds secrets.
            policy.scratch.retain(|folder| *folder != scope.home);
            policy.hidden.extend(HOME_SECRETS.map(|name| scope.home.join(name)));
        }
        if project.parent().is_none() {
            // The whole machine is nobody's project: it is worked on with nothing but what is listed.
            policy.writable.retain(|folder| folder != project);
            policy.readable.retain(|folder| folder != project);
        }
        policy.readable.extend(self.readable.iter().cloned());
        policy.writable.extend(self.writable.iter().cloned());
        if !scope.directory.starts_with(project) {
            self.open(&mut policy, scope.directory.clone());
        }
        let elsewhere = repository_elsewhere(project);
        if self.mode == SandboxMode::Workspace {
            let git = elsewhere.clone().unwrap_or_else(|| project.join(".git"));
            for folder in git_folders(&git) {
                policy.protect_git(&folder);
            }
            policy.protected.push(project.join(".git/config"));
        }
        if let Some(repository) = elsewhere {
            self.open(&mut policy, repository);
        }
        policy.hidden.extend(self.hidden.iter().cloned());
        policy.temporary.clone_from(&self.temporary);
        policy.network = self.network;
        policy.parts.clone_from(&self.parts);
        policy
    }

    /// Shows a folder of the project's, as the mode says.
    fn open(&self, policy: &mut SandboxPolicy, folder: PathBuf) {
        match self.mode {
            SandboxMode::Workspace => policy.writable.push(folder),
            SandboxMode::ReadOnly => policy.readable.push(folder),
        }
    }
}

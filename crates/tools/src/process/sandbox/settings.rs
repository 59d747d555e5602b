//! What a person chose for the sandbox, and the policy that it means for a project.

use std::collections::BTreeSet;
use std::path::PathBuf;

use everturn_model::permission::Policy;

use super::policy::{SandboxMode, SandboxNetwork, SandboxPolicy, protected_home};
use super::report::SandboxPart;
use super::repository::repository_elsewhere;
use super::secrets::hide_secrets;
use super::toolchain::{environments, linked};
use crate::scope::Scope;

/// The sandbox as it is set up: the same for every command, whatever project it runs in.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SandboxSettings {
    /// What may be done to the project.
    pub mode: SandboxMode,
    /// What programs reach by network.
    pub network: SandboxNetwork,
    /// The rules by which commands reach more than that, or less, and by which it is told what may be asked for.
    pub rules: Option<Policy>,
    /// What the sandbox is made of: all that [`SandboxReport::parts`](super::SandboxReport::parts) has, or less.
    pub parts: BTreeSet<SandboxPart>,
    /// What can be read besides the project, the system and well-known tools.
    pub readable: Vec<PathBuf>,
    /// What can be changed besides the project and well-known caches.
    pub writable: Vec<PathBuf>,
    /// Folders of programs, which a home folder that is a project does not let be changed.
    pub programs: Vec<PathBuf>,
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
        // What a home folder runs by itself is changed by no command that was not permitted to, by the name of the file.
        let is_closed = scope.is_closed(&protected_home(&scope.home, &self.writable, &self.programs));
        let mode = if is_closed { SandboxMode::ReadOnly } else { self.mode };
        let mut policy = SandboxPolicy::of(mode, scope.roots(), &scope.home);
        // What lies in the project is like the rest of it: an environment that was activated, for example. Commands can
        // make links there, and what is listed is followed.
        let besides = |path: &PathBuf| !scope.roots().any(|root| path.starts_with(root));
        if scope.roots().any(|root| scope.home.starts_with(root)) {
            policy.unlinked = SandboxPolicy::home_places(&scope.home);
            policy.show_home(&scope.home);
        } else {
            policy.readable.extend(linked(&scope.home).into_iter().filter(besides));
        }
        let inside = self.readable.iter().chain(&self.writable).filter(|path| !besides(path));
        policy.unlinked.extend(inside.cloned());
        policy.readable.extend(self.readable.iter().filter(|path| besides(path)).cloned());
        let writable = self.writable.iter().filter(|path| besides(path)).cloned();
        match mode {
            SandboxMode::Workspace => policy.writable.extend(writable),
            SandboxMode::ReadOnly => policy.readable.extend(writable),
        }
        let elsewhere = repository_elsewhere(&scope.worktree);
        if mode == SandboxMode::Workspace {
            policy.writable.extend(elsewhere.clone());
            policy.repositories.extend(elsewhere);
        } else {
            policy.readable.extend(elsewhere);
        }
        let environments = environments(&scope.home, scope.roots().chain([&scope.directory]));
        match mode {
            SandboxMode::Workspace => policy.writable.extend(environments),
            SandboxMode::ReadOnly => policy.readable.extend(environments),
        }
        let inside = self.writable.iter().filter(|path| !besides(path));
        let listed = policy.writable.iter().filter(|path| !policy.projects.contains(path));
        let open: Vec<PathBuf> = listed.chain(inside).cloned().collect();
        policy.home = protected_home(&scope.home, &open, &self.programs);
        policy.hidden.extend(self.hidden.iter().cloned());
        hide_secrets(&mut policy, &scope.home);
        policy.temporary.clone_from(&self.temporary);
        policy.network = self.network;
        policy.parts.clone_from(&self.parts);
        policy
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_in_the_project_stays_writable() {
        let scope = Scope {
            directory: "/p/sub".into(),
            worktree: "/p".into(),
            output_dir: "/out".into(),
            home: "/people/nobody".into(),
            sandbox: None,
        };
        let readable = vec!["/p/.venv".into(), "/elsewhere".into()];
        let policy = SandboxSettings { readable, ..SandboxSettings::default() }.policy(&scope);
        let has = |path: &str| policy.readable.iter().any(|known| known == std::path::Path::new(path));
        assert_eq!((has("/p/.venv"), has("/elsewhere")), (false, true));
        assert_eq!(policy.projects, [PathBuf::from("/p")]);
        // A folder that is no repository has the root of the file system.
        let policy = SandboxSettings::default().policy(&Scope { worktree: "/".into(), ..scope });
        assert_eq!(policy.projects, [PathBuf::from("/p/sub")]);
        assert!(!policy.writable.contains(&PathBuf::from("/")));
    }
}

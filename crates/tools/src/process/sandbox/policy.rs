//! What a program in the sandbox may see, change and reach. The caller decides; nothing here looks at the machine.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::report::SandboxPart;
use super::secrets::SYSTEM_SECRETS;
use crate::protected::is_protected_in;
use crate::protected_home::{HomePlace, ProtectedHome};

/// What a program may see, change and reach.
///
/// All paths are absolute. Of two that lie in one another the inner one counts. A path that is not there is passed
/// over. Links are followed where something is made readable or writable, so such a path must never be one that a
/// repository decides about; they are not followed where something is protected.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxPolicy {
    /// What can be read, and programs of it run.
    pub readable: Vec<PathBuf>,
    /// What can be read and changed.
    pub writable: Vec<PathBuf>,
    /// What of that are projects: in them [protected names](crate::protected) can only be read, at every depth. A name
    /// that is not there cannot be made for good: what is found there in the end gets another one.
    pub projects: Vec<PathBuf>,
    /// Folders of git's elsewhere that are writable too, because they belong to a project. What makes programs run in
    /// them can only be read.
    pub repositories: Vec<PathBuf>,
    /// The home folder, in which more is protected where it is a project or lies in one.
    pub home: ProtectedHome,
    /// What else lies in something writable and can only be read, or not be made for good.
    pub protected: Vec<PathBuf>,
    /// Places in projects that policies of other projects open: no link is made on the way to them for good.
    pub unlinked: Vec<PathBuf>,
    /// What of all that somebody has permitted this program to change.
    pub permitted: Vec<PathBuf>,
    /// What lies in something readable or writable and is not shown: a folder is empty, and so is a file.
    pub hidden: Vec<PathBuf>,
    /// Folders that are empty and writable, and gone with the program, such as the home folder.
    pub scratch: Vec<PathBuf>,
    /// The folder that the program has as `/tmp`. Without one, `/tmp` is gone with the program.
    pub temporary: Option<PathBuf>,
    /// What it reaches by network.
    pub network: SandboxNetwork,
    /// What the sandbox is made of. A part that is named and cannot be had keeps the program from starting.
    pub parts: BTreeSet<SandboxPart>,
}

/// What a program reaches by network.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SandboxNetwork {
    /// What the machine reaches, and services of the machine itself.
    #[default]
    Host,
    /// Only what the same program and its descendants offer.
    Own,
}

/// What may be done to the project.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SandboxMode {
    /// The project can be changed, but for its protected files, and so can the caches of well-known tools.
    #[default]
    Workspace,
    /// Nothing can be changed but what is gone with the program.
    ReadOnly,
}

/// Folders and files of the system that programs need. No data of people is in them.
const SYSTEM: [&str; 19] = [
    "/bin",
    "/etc",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/nix/store",
    "/nix/var/nix/profiles",
    "/opt",
    "/run/current-system",
    "/sbin",
    "/snap",
    "/sys/devices/system/cpu",
    "/sys/devices/system/node",
    "/sys/fs/cgroup",
    "/usr",
    "/var/cache/fontconfig",
    "/var/lib/ca-certificates",
    "/var/lib/dpkg",
];

/// Whether a path is one of the system's.
pub(super) fn is_of_system(path: &Path) -> bool {
    SYSTEM.iter().any(|folder| path.starts_with(folder))
}

/// What the sandbox makes itself, and offers in the place of what is there.
const DEVICES: [&str; 2] = ["/dev", "/proc"];

/// Folders that are empty when a command starts, or hold what earlier commands of the session left.
const TEMPORARY: [&str; 3] = ["/run", "/tmp", "/var/tmp"];

/// Whether a path is one that the sandbox has of its own, so that nothing outside is reached by it. What somebody else
/// has put into a temporary folder is not.
pub(crate) fn is_of_its_own(path: &Path) -> bool {
    let temporary = TEMPORARY.iter().any(|folder| {
        let Ok(below) = path.strip_prefix(folder) else { return false };
        let first = below.components().next();
        first.is_none_or(|name| Path::new(folder).join(name).symlink_metadata().is_err())
    });
    temporary || DEVICES.iter().any(|folder| path.starts_with(folder))
}

/// What tools have in the home folder to be read: tool chains and settings without secrets.
const HOME_READABLE: [&str; 35] = [
    ".asdf",
    ".bun/bin",
    ".cache/Cypress",
    ".cache/ms-playwright",
    ".cache/puppeteer",
    ".cargo/bin",
    ".cargo/config",
    ".cargo/config.toml",
    ".cargo/env",
    ".config/git/attributes",
    ".config/git/config",
    ".config/git/ignore",
    ".deno/bin",
    ".fnm",
    ".ghcup",
    ".gitconfig",
    ".gitignore",
    ".gitignore_global",
    ".local/bin",
    ".local/lib",
    ".local/pipx",
    ".local/share/fnm",
    ".local/share/mise",
    ".local/share/pipx",
    ".local/share/pnpm",
    ".local/share/uv/python",
    ".local/share/uv/tools",
    ".nvm",
    ".opam",
    ".pyenv",
    ".rbenv",
    ".rustup",
    ".rye",
    ".sdkman/candidates",
    ".volta",
];

/// Caches in the home folder that tools fill while they work.
pub(super) const HOME_CACHES: [&str; 26] = [
    ".bun/install/cache",
    ".cache/ccache",
    ".cache/coursier",
    ".cache/deno",
    ".cache/go-build",
    ".cache/node",
    ".cache/pip",
    ".cache/pnpm",
    ".cache/pypoetry/artifacts",
    ".cache/pypoetry/cache",
    ".cache/sccache",
    ".cache/uv",
    ".cache/yarn",
    ".cargo/.global-cache",
    ".cargo/.package-cache",
    ".cargo/.package-cache-mutate",
    ".cargo/git",
    ".cargo/registry",
    ".ccache",
    ".gradle/caches",
    ".local/share/pnpm/store",
    ".m2/repository",
    ".npm",
    ".nuget/packages",
    ".yarn/berry/cache",
    "go/pkg/mod",
];

/// The folder that most caches are in. Where the home folder is the project, all of it can be changed.
const ALL_CACHES: &str = ".cache";

/// A home folder in which caches are open, and so is what else can be changed in it.
pub(crate) fn protected_home(home: &Path, writable: &[PathBuf], programs: &[PathBuf]) -> ProtectedHome {
    let caches: Vec<PathBuf> = HOME_CACHES.iter().chain(&[ALL_CACHES]).map(|name| home.join(name)).collect();
    ProtectedHome::new(home, caches.iter().chain(writable), programs)
}

impl SandboxPolicy {
    /// The policy for work in the folders of a project: what the system and tools need can be read, the project and
    /// caches changed, and the rest of the home folder is not there. The caller says what is made of it (`parts`).
    #[must_use]
    pub fn of<'a>(mode: SandboxMode, projects: impl Iterator<Item = &'a PathBuf>, home: &Path) -> Self {
        let mut policy = Self {
            readable: SYSTEM.map(PathBuf::from).to_vec(),
            hidden: SYSTEM_SECRETS.map(PathBuf::from).to_vec(),
            ..Self::default()
        };
        // Of an account without one nothing is known, and some have the root of the system.
        let home = Some(home).filter(|home| home.is_absolute() && home.parent().is_some());
        let in_home = |names: &[&str]| {
            let paths = home.into_iter().flat_map(|home| names.iter().map(move |name| home.join(name)));
            paths.collect::<Vec<PathBuf>>()
        };
        policy.scratch.extend(home.map(Path::to_owned));
        policy.readable.extend(in_home(&HOME_READABLE));
        let caches = in_home(&HOME_CACHES);
        match mode {
            SandboxMode::Workspace => {
                policy.writable.extend(caches);
                policy.projects.extend(projects.cloned());
                policy.writable.extend(policy.projects.iter().cloned());
            }
            SandboxMode::ReadOnly => {
                policy.readable.extend(caches);
                policy.readable.extend(projects.cloned());
            }
        }
        policy
    }

    /// What tools have in a home folder, to be read or filled.
    pub(super) fn home_places(home: &Path) -> Vec<PathBuf> {
        HOME_READABLE.iter().chain(&HOME_CACHES).map(|name| home.join(name)).collect()
    }

    /// Lets a path be changed, protected or not, as somebody has permitted it.
    pub fn permit_change(&mut self, path: &Path) {
        self.permitted.push(path.to_owned());
        let inside = self.writable.iter().any(|folder| path.starts_with(folder));
        if !inside {
            self.writable.push(path.to_owned());
        }
    }

    /// Shows the home folder, or what it lies in, which is listed.
    pub(crate) fn show_home(&mut self, home: &Path) {
        self.scratch.retain(|folder| folder != home);
    }

    /// Lets a path be read, as somebody has permitted it.
    pub fn permit_reading(&mut self, path: &Path) {
        self.readable.push(path.to_owned());
    }

    /// Whether somebody has permitted to change something.
    pub(super) fn permits(&self, path: &Path) -> bool {
        self.permitted.iter().any(|permitted| permitted == path)
    }

    /// What somebody has permitted to change in a folder.
    pub(super) fn permitted_in(&self, folder: &Path) -> Vec<PathBuf> {
        let inside = |path: &&PathBuf| path.starts_with(folder) && path.as_path() != folder;
        self.permitted.iter().filter(inside).cloned().collect()
    }

    /// Whether what is at a path outside can be seen.
    #[must_use]
    pub fn shows(&self, path: &Path) -> bool {
        let devices = DEVICES.map(PathBuf::from);
        let listed = devices.iter().chain(&self.readable).chain(&self.writable);
        let depth = |folder: &&PathBuf| folder.components().count();
        let around = |folder: &&PathBuf| path.starts_with(folder);
        let shown = listed.filter(around).map(|folder| depth(&folder)).max();
        let hidden = self.hidden.iter().filter(around).map(|folder| depth(&folder)).max();
        shown > hidden || path.parent().is_none()
    }

    /// Whether what is at a path can be seen and not changed although it lies in something that can.
    #[must_use]
    pub fn protects(&self, path: &Path) -> bool {
        let mut around = self.projects.iter().filter(|project| path.starts_with(project));
        let in_git = |project: &Path| {
            let below = path.strip_prefix(project).unwrap_or(path);
            below.components().any(|name| name.as_os_str() == ".git")
        };
        let in_home = || {
            let mut around = self.projects.iter().filter(|project| path.starts_with(project));
            around.any(|project| self.home.in_project(project).place(path) == HomePlace::Protected)
        };
        let by_name = around.any(|project| is_protected_in(project, path) || in_git(project)) || in_home();
        let listed = self.protected.iter().chain(&self.repositories);
        (by_name || listed.into_iter().any(|folder| path.starts_with(folder))) && !self.permits(path)
    }

    /// Whether what is at a path can be seen and not changed because that is how it is listed.
    #[must_use]
    pub fn only_shows(&self, path: &Path) -> bool {
        let depth = |list: &[PathBuf]| {
            let around = list.iter().filter(|folder| path.starts_with(folder));
            around.map(|folder| folder.components().count()).max()
        };
        self.shows(path) && depth(&self.readable) > depth(&self.writable)
    }

    /// Whether a part is to be used.
    #[must_use]
    pub fn has(&self, part: SandboxPart) -> bool {
        self.parts.contains(&part)
    }
}

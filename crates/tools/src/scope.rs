//! Where a call's paths resolve, and which of them lie outside the project.
//!
//! "Inside" is judged twice: on the path as written, and on the path with its links followed as far as it
//! exists. A link in the project that points elsewhere is therefore outside, and asks first.
//!
//! What git keeps in `.git` is outside for whoever wants to change it, and protected besides: a hook or a line of
//! configuration there is run by the next git command, so writing one is more than an edit. Reading one is harmless. All
//! files that make programs run ([`crate::protected`]) have a permission of their own, and so has what holds secrets.

use std::path::{Component, Path, PathBuf};
use std::{fs, io};

use serde_json::{Map, Value};

use crate::process::sandbox::{
    SandboxSettings, SecretPlaces, known_leads, protected_home, repository_elsewhere,
};
use crate::protected;
use crate::protected_home::ProtectedHome;
use crate::target::Target;
use crate::tool::{Failure, Need};

/// How many dangling links are followed before a path is taken as it stands.
const LINKS_MAX: usize = 40;

/// The longest path that is looked at, in bytes: the system refuses longer ones.
const PATH_MAX: usize = 4096;

/// The permission to change a protected file.
pub const PROTECTED: &str = "protected_file";

/// The permission to see or change what the sandbox hides: keys and logins, and our own folders. It must be given by name:
/// neither a permission for a folder around it nor working there covers it.
pub const SECRET: &str = "secret_file";

/// Where a call works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scope {
    /// Where relative paths resolve and commands start.
    pub directory: PathBuf,
    /// The project root: what lies under it needs no extra permission.
    pub worktree: PathBuf,
    /// Where Managed Tool Output Files go; they may be read without extra permission.
    pub output_dir: PathBuf,
    /// The home folder of the person, which `~` stands for in commands. It is not known if this is not absolute.
    pub home: PathBuf,
    /// The sandbox that programs of calls run in. Without one they can do what the account can, because the person has
    /// said so.
    pub sandbox: Option<SandboxSettings>,
}

/// What a call wants from a path outside the project.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PathAccess {
    /// Only to look at it.
    Read,
    /// To change it, or to work in it.
    Write,
}

impl PathAccess {
    /// The kind of permission that a file tool needs for it.
    pub(crate) fn permission(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "edit",
        }
    }
}

impl Scope {
    /// The absolute form of a path a model wrote, with `.` and `..` folded.
    #[must_use]
    pub fn resolve(&self, path: &str) -> PathBuf {
        fold(&self.directory.join(path))
    }

    /// Where a path that a model wrote leads now, links followed.
    pub fn target(&self, path: &str, access: PathAccess) -> Result<Target, Failure> {
        let trouble = if path.is_empty() {
            "The path is empty. Give the absolute path of a file."
        } else if path.contains('\0') {
            "The path holds a NUL, which no path can. Give the absolute path of a file."
        } else if path.len() > PATH_MAX {
            "The path is longer than any path can be. Give the absolute path of a file."
        } else if path == "~" || path.starts_with("~/") {
            "`~` does not stand for a home folder here. Give the absolute path, or `./~` for something of that name."
        } else if access == PathAccess::Write && path.ends_with('/') {
            "The path ends with a slash, so it names a folder. Give the path of a file."
        } else {
            let path = self.resolve(path);
            let real = real(&path);
            return Ok(Target::new(path, real));
        };
        Err(Failure::InvalidInput(trouble.to_owned()))
    }

    /// What must be permitted for a target: needs beside the tool's own, and the patterns of the tool's own. It goes
    /// by where the target leads, and not by where its path may lead meanwhile.
    pub(crate) fn demands(&self, target: &Target, access: PathAccess) -> (Vec<Need>, Vec<String>) {
        (self.extra(target, access), self.spellings(target))
    }

    /// Whether a path belongs to the project, links followed.
    #[must_use]
    pub fn contains(&self, path: &Path) -> bool {
        self.holds(path, &real(path))
    }

    fn holds(&self, path: &Path, real: &Path) -> bool {
        self.roots().any(|root| path.starts_with(root) && real.starts_with(self::real(root)))
    }

    /// The folders whose content is the project.
    pub(crate) fn roots(&self) -> impl Iterator<Item = &PathBuf> {
        // A folder within the worktree adds nothing to it, and becomes no door if a link takes its place.
        let within = self.worktree.parent().is_some() && self.directory.starts_with(&self.worktree);
        // A project without a root of its own is reported with the root of the file system, which must not
        // turn the whole machine into "inside".
        [(!within).then_some(&self.directory), Some(&self.worktree)]
            .into_iter()
            .flatten()
            .filter(|root| root.parent().is_some())
    }

    /// Whether a target in the project is git's own.
    fn is_gits(&self, target: &Target) -> bool {
        // Some file systems do not tell capitals from small letters.
        let named = |path: &Path, root: &Path| {
            path.strip_prefix(root)
                .is_ok_and(|rest| rest.components().any(|name| name.as_os_str().eq_ignore_ascii_case(".git")))
        };
        self.roots().any(|root| {
            named(target.path(), root)
                || named(target.real(), &real(root))
                || target.real().starts_with(real(&root.join(".git")))
        })
    }

    /// Whether a target in the project makes programs run, or tells agents what to do.
    fn is_protected(&self, target: &Target) -> bool {
        let home = self.protected_home();
        let real_home = home.real();
        let is_one = |home: &ProtectedHome, root: &Path, path: &Path| {
            path.starts_with(root)
                && (protected::is_protected_in(root, path) || home.in_project(root).closes(path))
        };
        let is_named = self
            .roots()
            .any(|root| is_one(&home, root, target.path()) || is_one(&real_home, &real(root), target.real()));
        // Nothing that leads to a whole project protects it. Commands begin there, and look at all of it once more.
        let is_whole = || self.roots().all(|root| target.real() == real(root));
        let leads = || known_leads(self.roots().cloned().collect(), &home);
        is_named || !is_whole() && leads().iter().any(|place| target.real().starts_with(place))
    }

    /// The same for one that is not in the project.
    pub(crate) fn is_protected_outside(&self, target: &Target) -> bool {
        let named = |path: &Path| {
            let is_gits = |name: Component<'_>| name.as_os_str().eq_ignore_ascii_case(".git");
            protected::is_protected(path) || path.components().any(is_gits)
        };
        let is_ours =
            || repository_elsewhere(&self.worktree).is_some_and(|git| target.real().starts_with(git));
        named(target.path()) || named(target.real()) || is_closed(&self.protected_home(), target) || is_ours()
    }

    /// Whether the project is, or lies in, something that is protected in a home folder: each change in it asks, and
    /// commands can only read it.
    pub(crate) fn is_closed(&self, home: &ProtectedHome) -> bool {
        self.roots().any(|root| home.closes(root) || home.real().closes(&real(root)))
    }

    /// What must be permitted for a command to begin in a folder.
    pub(crate) fn entering(&self, folder: &Target) -> Vec<Need> {
        // To be there changes nothing where commands can only read.
        let can_change = !self.holds(folder.path(), folder.real()) || !self.is_closed(&self.protected_home());
        let mut needs = self.extra(folder, if can_change { PathAccess::Write } else { PathAccess::Read });
        if self.is_gits(folder) {
            // To be there opens nothing of what is protected: what is changed has a name of its own.
            needs.retain(|need| need.permission != PROTECTED);
        }
        needs
    }

    /// Whether the home folder is a folder or lies in it.
    pub(crate) fn is_around_home(&self, folder: &Path) -> bool {
        self.home.starts_with(folder) || real(&self.home).starts_with(folder)
    }

    /// Whether something is ours, and no program of an agent may see it.
    fn is_hidden(&self, real: &Path) -> bool {
        let hidden = self.sandbox.iter().flat_map(|sandbox| &sandbox.hidden);
        hidden.into_iter().any(|hidden| real.starts_with(self::real(hidden)))
    }

    fn protected_home(&self) -> ProtectedHome {
        let (writable, programs) =
            self.sandbox.as_ref().map(|sandbox| (&*sandbox.writable, &*sandbox.programs)).unwrap_or_default();
        protected_home(&self.home, writable, programs)
    }

    /// The path as people read it: relative to the worktree, with `..` when it lies elsewhere.
    #[must_use]
    pub fn relative(&self, path: &Path) -> String {
        let mut from = self.worktree.components().peekable();
        let mut to = path.components().peekable();
        while from.peek().is_some() && from.peek() == to.peek() {
            from.next();
            to.next();
        }
        let mut relative: PathBuf = from.map(|_| Component::ParentDir).collect();
        relative.extend(to);
        if relative.as_os_str().is_empty() { ".".to_owned() } else { relative.display().to_string() }
    }

    /// The path as permission rules name it: relative to the worktree inside it, absolute outside.
    #[must_use]
    pub fn pattern(&self, path: &Path) -> String {
        self.name(path, &real(path))
    }

    /// The same for a path that is known to lead nowhere else, without looking at the disk.
    pub(crate) fn label(&self, path: &Path) -> String {
        match path.strip_prefix(&self.worktree) {
            Ok(below) if self.worktree.parent().is_some() => below.display().to_string(),
            _ => path.display().to_string(),
        }
    }

    fn name(&self, path: &Path, real: &Path) -> String {
        if self.holds(path, real) && path.starts_with(&self.worktree) {
            self.relative(path)
        } else {
            path.display().to_string()
        }
    }

    /// Every name that permission rules may know the path by: as written, and with its links followed if that is
    /// another one. A rule about a file must not be escaped through a link to it.
    #[must_use]
    pub fn patterns(&self, path: &Path) -> Vec<String> {
        self.spellings(&Target::new(path.to_owned(), real(path)))
    }

    fn spellings(&self, target: &Target) -> Vec<String> {
        let real = target.real();
        let spelled = self.spelled(real);
        let (written, target) = (self.name(target.path(), real), self.name(&spelled, real));
        if written == target { vec![written] } else { vec![written, target] }
    }

    /// A path whose links were followed, as the caller spells it: the project may itself be reached through a link.
    pub(crate) fn spelled(&self, real: &Path) -> PathBuf {
        self.roots()
            .find_map(|root| Some(fold(&root.join(real.strip_prefix(self::real(root)).ok()?))))
            .unwrap_or_else(|| real.to_owned())
    }

    /// The extra permissions that a path outside the project needs, or none for one inside. Changing what git keeps
    /// in `.git` needs one too, and changing a protected file, wherever it is, needs one of its own. So does anything that
    /// is wanted from what holds secrets.
    #[must_use]
    pub fn external(&self, path: &Path, access: PathAccess) -> Vec<Need> {
        self.extra(&Target::new(path.to_owned(), real(path)), access)
    }

    fn extra(&self, target: &Target, access: PathAccess) -> Vec<Need> {
        let (path, real) = (target.path(), target.real());
        let inside = self.holds(path, real);
        let is_open = inside && !self.is_hidden(real);
        let free = match access {
            PathAccess::Read => is_open || real.starts_with(self::real(&self.output_dir)),
            PathAccess::Write => is_open && !self.is_gits(target),
        };
        let is_protected = match access {
            PathAccess::Read => false,
            // Of git's own everything is.
            PathAccess::Write if inside => self.is_gits(target) || self.is_protected(target),
            PathAccess::Write => self.is_protected_outside(target),
        };
        let mut needs: Vec<Need> = (!free).then(|| outside_need(path, real)).into_iter().collect();
        let named = [(is_protected, PROTECTED), (self.is_secret(target), SECRET)];
        // What is to be made in the home folder needs all of it, which is asked for by its own name.
        let opens_home = |permission: &str| {
            permission == PROTECTED
                && !real.exists()
                && real.parent().is_some_and(|folder| self.is_around_home(folder))
        };
        for (_, permission) in named.into_iter().filter(|(is_needed, _)| *is_needed) {
            if !opens_home(permission) {
                needs.iter_mut().take(usize::from(!free)).for_each(|need| need.set_asked_with(permission));
            }
            needs.push(self.need_by_name(permission, target));
        }
        needs
    }

    /// Whether a target is hidden by the sandbox, because of what is there.
    fn is_secret(&self, target: &Target) -> bool {
        let places = SecretPlaces::of(self);
        places.hold(target.path()) || places.hold(target.real())
    }

    /// A permission for this very file.
    fn need_by_name(&self, permission: &str, target: &Target) -> Need {
        let patterns = self.spellings(target);
        let mut metadata = Map::new();
        metadata.insert("filepath".to_owned(), Value::String(target.path().display().to_string()));
        Need { permission: permission.to_owned(), always: patterns.clone(), patterns, metadata }
    }
}

/// The permission for a path outside the project.
fn outside_need(path: &Path, real: &Path) -> Need {
    let parent = if real.is_dir() { real } else { real.parent().unwrap_or(real) };
    let pattern = parent.join("*").display().to_string();
    let mut metadata = Map::new();
    metadata.insert("filepath".to_owned(), Value::String(path.display().to_string()));
    metadata.insert("parentDir".to_owned(), Value::String(parent.display().to_string()));
    let permission = "external_directory".to_owned();
    Need { permission, patterns: vec![pattern.clone()], always: vec![pattern], metadata }
}

/// Whether a target is protected because of where in a home folder it is.
fn is_closed(home: &ProtectedHome, target: &Target) -> bool {
    home.closes(target.path()) || home.real().closes(target.real())
}

/// Folds `.` and `..` without looking at the disk.
pub(crate) fn fold(path: &Path) -> PathBuf {
    let mut folded = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                folded.pop();
            }
            other @ (Component::Prefix(_) | Component::RootDir | Component::Normal(_)) => folded.push(other),
        }
    }
    folded
}

/// The path with its links followed as far as it exists, also through a link to something absent.
pub(crate) fn real(path: &Path) -> PathBuf {
    follow(path, LINKS_MAX)
}

fn follow(path: &Path, links: usize) -> PathBuf {
    match fs::canonicalize(path) {
        Ok(real) => return real,
        Err(error) if error.kind() != io::ErrorKind::NotFound => return path.to_owned(),
        Err(_) => {}
    }
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return path.to_owned();
    };
    let parent = follow(parent, links);
    match fs::read_link(path) {
        Ok(target) if links > 0 => follow(&fold(&parent.join(target)), links.saturating_sub(1)),
        _ => parent.join(name),
    }
}

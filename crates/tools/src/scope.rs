//! Where a call's paths resolve, and which of them lie outside the project.
//!
//! "Inside" is judged twice: on the path as written, and on the path with its links followed as far as it
//! exists. A link in the project that points elsewhere is therefore outside, and asks first.

use std::{
    fs, io,
    path::{Component, Path, PathBuf},
};

use serde_json::{Map, Value};

use crate::tool::Need;

/// How many dangling links are followed before a path is taken as it stands.
const LINKS_MAX: usize = 40;

/// Where a call works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    /// Where relative paths resolve and commands start.
    pub directory: PathBuf,
    /// The project root: what lies under it needs no extra permission.
    pub worktree: PathBuf,
    /// Where Managed Tool Output Files go; they may be read without extra permission.
    pub output_dir: PathBuf,
}

/// What a call wants from a path outside the project.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// Only to look at it.
    Read,
    /// To change it, or to work in it.
    Write,
}

impl Scope {
    /// The absolute form of a path a model wrote, with `.` and `..` folded.
    #[must_use]
    pub fn resolve(&self, path: &str) -> PathBuf {
        fold(&self.directory.join(path))
    }

    /// Whether a path belongs to the project, links followed.
    #[must_use]
    pub fn contains(&self, path: &Path) -> bool {
        let real = real(path);
        // A project without a root of its own is reported with the root of the file system, which must not
        // turn the whole machine into "inside".
        [&self.directory, &self.worktree]
            .into_iter()
            .filter(|root| root.parent().is_some())
            .any(|root| path.starts_with(root) && real.starts_with(self::real(root)))
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
        if self.contains(path) && path.starts_with(&self.worktree) {
            self.relative(path)
        } else {
            path.display().to_string()
        }
    }

    /// Every name that permission rules may know the path by: as written, and with its links followed if that is
    /// another one. A rule about a file must not be escaped through a link to it.
    #[must_use]
    pub fn patterns(&self, path: &Path) -> Vec<String> {
        let real = real(path);
        // A project that is itself reached through a link is still spelled as the caller spells it.
        let target = [&self.directory, &self.worktree]
            .into_iter()
            .filter(|root| root.parent().is_some())
            .find_map(|root| Some(fold(&root.join(real.strip_prefix(self::real(root)).ok()?))))
            .unwrap_or(real);
        let (written, target) = (self.pattern(path), self.pattern(&target));
        if written == target { vec![written] } else { vec![written, target] }
    }

    /// The extra permission that a path outside the project needs, or nothing for one inside.
    #[must_use]
    pub fn external(&self, path: &Path, access: Access) -> Option<Need> {
        if self.contains(path) {
            return None;
        }
        let real = real(path);
        if access == Access::Read && real.starts_with(self::real(&self.output_dir)) {
            return None;
        }
        let parent = if real.is_dir() { &*real } else { real.parent().unwrap_or(&real) };
        let pattern = parent.join("*").display().to_string();
        let mut metadata = Map::new();
        metadata.insert("filepath".to_owned(), Value::String(path.display().to_string()));
        metadata.insert("parentDir".to_owned(), Value::String(parent.display().to_string()));
        Some(Need {
            permission: "external_directory".to_owned(),
            patterns: vec![pattern.clone()],
            always: vec![pattern],
            metadata,
        })
    }
}

/// Folds `.` and `..` without looking at the disk.
fn fold(path: &Path) -> PathBuf {
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

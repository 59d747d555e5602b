//! The folders in which instructions and skills are looked for.
//!
//! These files are read without asking, and what they hold goes to a provider. So a file of the project counts only
//! if it lies in the project after links are followed: a repository must not be able to have a private file of the
//! person's read by naming a link after it, or in its configuration. The person's own folders may hold links to
//! wherever they like, and the person's own configuration may name whatever it likes.

use std::fs::{self, File, Metadata};
use std::io::{self, Read as _};
use std::path::{Component, Path, PathBuf};

use crate::folder::OpenFolder;
use crate::regular_file::{self, OpenError};

/// The largest file of instructions, and the largest skill.
pub const TEXT_MAX: u64 = 1024 * 1024;

/// The result of looking at something that may be there, may be gone, or may be unreadable just now.
///
/// The last two differ: what is gone no longer applies, while what cannot be read still does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Observed<T> {
    /// It is there.
    Present(T),
    /// It is not there.
    Absent,
    /// Nobody can tell.
    Unavailable {
        /// What could not be read, and why.
        why: String,
    },
}

impl<T> Observed<T> {
    /// The same with another value.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Observed<U> {
        match self {
            Self::Present(value) => Observed::Present(change(value)),
            Self::Absent => Observed::Absent,
            Self::Unavailable { why } => Observed::Unavailable { why },
        }
    }
}

/// Whether files of a project count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ProjectFiles {
    /// It does.
    #[default]
    Read,
    /// Only what the person has in folders of their own.
    Ignored,
}

/// Whose configuration file names something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfigOrigin {
    /// The person.
    Person,
    /// Whoever wrote the project.
    Project,
}

/// A path or pattern in the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedPath {
    /// As it was written.
    pub text: String,
    /// By whom.
    pub by: ConfigOrigin,
}

impl NamedPath {
    /// What somebody has written.
    #[must_use]
    pub fn new(text: &str, by: ConfigOrigin) -> Self {
        Self { text: text.to_owned(), by }
    }
}

/// The folders of a person and of a project. One that is not absolute is not looked into.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Places {
    /// The person's home.
    pub home: PathBuf,
    /// The person's folders of configuration: instructions are told in this order, and of two skills of one name the
    /// first one's counts.
    pub config: Vec<PathBuf>,
    /// The folder the session works in.
    pub directory: PathBuf,
    /// The root of its project: nothing above it is looked at.
    pub worktree: PathBuf,
    /// Whether the files of the project count.
    pub project: ProjectFiles,
    /// Further files of instructions, as the configuration names them.
    pub instructions: Vec<NamedPath>,
    /// Further folders of skills, as the configuration names them.
    pub skills: Vec<NamedPath>,
}

impl Places {
    /// The folders of the project that apply to the working folder, the outermost first.
    pub(crate) fn project_folders(&self) -> Vec<&Path> {
        if self.project == ProjectFiles::Ignored || !self.worktree.is_absolute() {
            return Vec::new();
        }
        let inside = |folder: &&Path| folder.starts_with(&self.worktree);
        let mut folders: Vec<&Path> = self.directory.ancestors().take_while(inside).collect();
        folders.reverse();
        folders
    }

    /// A path as a configuration names it, where it begins at the root or, with `~/`, at the home.
    pub(crate) fn anchored(&self, text: &str) -> Option<PathBuf> {
        match text.strip_prefix("~/") {
            Some(rest) => Some(self.home.join(rest)),
            None => Path::new(text).is_absolute().then(|| PathBuf::from(text)),
        }
    }
}

/// A path without `..`, as it reads: links are not looked at.
pub(crate) fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(plain.pop()),
            Component::CurDir => {}
            part => plain.push(part),
        }
    }
    plain
}

/// Why the text of a file is not there, in words with the path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TextTrouble {
    /// It is nothing that can be taken, and stays so until somebody changes it.
    #[error("{0}")]
    Unfit(String),
    /// It cannot be read now.
    #[error("{0}")]
    Unread(String),
}

/// The text of a file, nothing where there is none, or why it cannot be read. With `within`, the file must lie under
/// that folder, links followed. It never waits, and what is no ordinary file or is large is not read.
///
/// # Errors
/// In words, with the path.
pub fn text(path: &Path, within: Option<&Path>) -> Result<Option<String>, String> {
    fit_text(path, within).map_err(|trouble| trouble.to_string())
}

/// The same, with a word on whether that can change by itself.
pub(crate) fn fit_text(path: &Path, within: Option<&Path>) -> Result<Option<String>, TextTrouble> {
    let unfit = |why: &dyn std::fmt::Display| TextTrouble::Unfit(format!("{}: {why}", path.display()));
    let failed = |error: &dyn std::fmt::Display| TextTrouble::Unread(format!("{}: {error}", path.display()));
    let refused = |error: &io::Error| if stays(error, within) { unfit(error) } else { failed(error) };
    match fs::symlink_metadata(path) {
        Err(error) if is_absent(&error) => return Ok(None),
        Err(error) => return Err(refused(&error)),
        Ok(_) => {}
    }
    let opened = match within {
        None => regular_file::open(path),
        Some(root) => {
            let root = fs::canonicalize(root).map_err(|error| failed(&error))?;
            match fs::canonicalize(path) {
                Ok(real) if real.starts_with(&root) => open_real(&real),
                Ok(_) => {
                    return Err(unfit(
                        &"it leads out of the project, and is therefore not read: replace the link by a file, or \
                          remove it",
                    ));
                }
                Err(error) => Err(OpenError::Io(error)),
            }
        }
    };
    let (file, _) = match opened {
        Ok(opened) => opened,
        Err(error) if error.is_absent() && fs::symlink_metadata(path).is_ok() => {
            return Err(unfit(&"it is a link that leads nowhere"));
        }
        Err(error) if error.is_absent() => return Ok(None),
        Err(OpenError::Io(error)) => return Err(refused(&error)),
        Err(error) => return Err(unfit(&error)),
    };
    let mut bytes = Vec::new();
    file.take(TEXT_MAX + 1).read_to_end(&mut bytes).map_err(|error| failed(&error))?;
    if bytes.len() as u64 > TEXT_MAX {
        return Err(unfit(&format!("it has more than {TEXT_MAX} bytes")));
    }
    Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
}

/// Opens a file at a path without links. One that was put there since leads nowhere: programs of agents may run.
fn open_real(real: &Path) -> Result<(File, Metadata), OpenError> {
    let folder = OpenFolder::reach(real.parent().unwrap_or(real))?;
    folder.open(real.file_name().unwrap_or_default())
}

/// Whether something that cannot be read stays so until somebody changes it: links that lead to one another, a name that no
/// file can have. Of a project that is also what its files say of who may read them; the person's own may be locked for a
/// while.
pub(crate) fn stays(error: &io::Error, within: Option<&Path>) -> bool {
    use rustix::io::Errno;

    match Errno::from_io_error(error) {
        Some(Errno::LOOP | Errno::NAMETOOLONG) => true,
        Some(Errno::ACCESS) => within.is_some(),
        _ => false,
    }
}

/// Whether there is nothing at a path; so it is when a file stands where a folder should be.
pub(crate) fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_link_put_on_the_way_to_a_judged_file_leads_nowhere() {
        // What was opened by path was compared with a path that could lead elsewhere by then, and back again.
        let base = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(base.path()).unwrap();
        for folder in ["project/sub", "outside"] {
            fs::create_dir_all(root.join(folder)).unwrap();
            fs::write(root.join(folder).join("AGENTS.md"), folder).unwrap();
        }
        let file = root.join("project/sub/AGENTS.md");
        let read = || text(&file, Some(&root.join("project")));
        assert_eq!(read(), Ok(Some("project/sub".to_owned())));
        fs::rename(root.join("project/sub"), root.join("project/moved")).unwrap();
        symlink(root.join("outside"), root.join("project/sub")).unwrap();
        assert!(open_real(&file).is_err());
        assert!(read().unwrap_err().contains("leads out of the project"));
    }
}

//! A program that every user of the machine can start.
//!
//! Tests start themselves again as an ordinary user. A checkout may lie in a folder that only its owner can enter, as
//! root's home folder is; what was built in there is out of that user's reach.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// A program in a folder of its own, which goes with this.
#[derive(Debug)]
pub struct SharedProgram {
    _folder: TempDir,
    path: PathBuf,
}

impl SharedProgram {
    /// Puts a program where everybody finds it.
    #[must_use]
    pub fn of(program: &Path) -> Self {
        let folder = TempDir::new().expect("a temporary folder can be made");
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("it is ours");
        let path = folder.path().join(program.file_name().expect("a program has a name"));
        // It may be on another file system.
        if fs::hard_link(program, &path).is_err() {
            fs::copy(program, &path).expect("the program can be copied");
        }
        Self { _folder: folder, path }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

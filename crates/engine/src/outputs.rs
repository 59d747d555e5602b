//! Managed Tool Output Files: where long output of tools is kept, and for how long. So are the temporary files of
//! commands.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use std::{fs, io};

use crate::Error;
use crate::background::blocking;
use crate::mint::Mint;

/// How long they are kept, in milliseconds: seven days.
const KEPT: i64 = 7 * 24 * 60 * 60 * 1000;

/// Where the output is, below a data folder.
pub(crate) fn folder_in(data: &Path) -> PathBuf {
    data.join("tool-output")
}

/// Where the temporary files are, with a folder for each session.
pub(crate) fn temporary_in(data: &Path) -> PathBuf {
    data.join("temporary")
}

/// The folder of tool output; clones share it.
#[derive(Debug, Clone)]
pub struct ToolOutputs {
    folder: PathBuf,
    temporary: PathBuf,
    mint: Mint,
}

impl ToolOutputs {
    /// Tool output below a data folder.
    pub(crate) fn new(data: &Path, mint: Mint) -> Self {
        Self { folder: folder_in(data), temporary: temporary_in(data), mint }
    }

    /// Removes output and temporary files that nobody has written to for a week, and says how many.
    ///
    /// # Errors
    /// When their folder cannot be read.
    pub async fn sweep(&self) -> Result<usize, Error> {
        let folder = self.folder.clone();
        let cutoff = u64::try_from(self.mint.now().saturating_sub(KEPT)).unwrap_or_default();
        let cutoff = std::time::UNIX_EPOCH + Duration::from_millis(cutoff);
        let temporary = self.temporary.clone();
        let sweeping = move || {
            let removed = sweep_folders(&temporary, cutoff);
            let removed_files = match everturn_tools::bound::sweep(&folder, cutoff) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
                other => other,
            };
            removed_files.map(|files| files + removed)
        };
        match blocking(sweeping).await? {
            Ok(removed) => Ok(removed),
            Err(source) => {
                Err(Error::Io { context: format!("cannot look through {}", self.folder.display()), source })
            }
        }
    }
}

/// Removes folders in which nothing was changed since a moment, and says how many.
fn sweep_folders(folder: &Path, cutoff: SystemTime) -> usize {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let old = entries.filter(|entry| {
        let inside = fs::read_dir(entry.path()).into_iter().flatten().flatten().map(|inner| inner.path());
        let changed = |path: PathBuf| fs::symlink_metadata(path).and_then(|found| found.modified());
        let mut paths = std::iter::once(entry.path()).chain(inside);
        paths.all(|path| changed(path).is_ok_and(|time| time < cutoff))
    });
    old.filter(|entry| fs::remove_dir_all(entry.path()).is_ok()).count()
}

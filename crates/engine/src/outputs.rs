//! Managed Tool Output Files: where long output of tools is kept, and for how long. The temporary files of commands are
//! kept as long.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use everturn_model::SessionId;

use crate::Error;
use crate::background::blocking;
use crate::mint::Mint;
use crate::temporary::{TemporaryFolders, temporary_in};

/// How long they are kept, in milliseconds: seven days.
const KEPT: i64 = 7 * 24 * 60 * 60 * 1000;

/// Where the output is, below a data folder.
pub(crate) fn folder_in(data: &Path) -> PathBuf {
    data.join("tool-output")
}

/// The folders below a data folder that hold what commands have written: their output and their temporary files.
#[must_use]
pub fn command_folders(data: &Path) -> [PathBuf; 2] {
    [folder_in(data), temporary_in(data)]
}

/// The folder of tool output; clones share it.
#[derive(Debug, Clone)]
pub struct ToolOutputs {
    folder: PathBuf,
    temporary: TemporaryFolders,
    mint: Mint,
}

impl ToolOutputs {
    /// Tool output below a data folder.
    pub(crate) fn new(data: &Path, mint: Mint) -> Self {
        Self { folder: folder_in(data), temporary: TemporaryFolders::new(data), mint }
    }

    /// Removes output and temporary files that nobody has written to for a week, and the oldest temporary files while there
    /// are too many, and says how many.
    ///
    /// # Errors
    /// When their folder cannot be read.
    pub async fn sweep(&self) -> Result<usize, Error> {
        let folder = self.folder.clone();
        let cutoff = u64::try_from(self.mint.now().saturating_sub(KEPT)).unwrap_or_default();
        let cutoff = std::time::UNIX_EPOCH + Duration::from_millis(cutoff);
        let temporary = self.temporary.clone();
        let sweeping = move || {
            let removed = temporary.sweep(cutoff);
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

    /// Removes the temporary files of sessions that were deleted for good. What cannot be removed now goes with the next
    /// sweep that finds it old.
    pub(crate) async fn forget(&self, sessions: Vec<SessionId>) {
        let temporary = self.temporary.clone();
        let forgetting = move || {
            for session in sessions {
                if let Err(error) = temporary.forget(&session) {
                    tracing::warn!(%error, %session, "the temporary files of a deleted session are still there");
                }
            }
        };
        // It fails only when the process is ending.
        blocking(forgetting).await.ok();
    }
}

//! Managed Tool Output Files: where long output of tools is kept, and for how long.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::Error;
use crate::background::blocking;
use crate::mint::Mint;

/// How long they are kept, in milliseconds: seven days.
const KEPT: i64 = 7 * 24 * 60 * 60 * 1000;

/// The folder of tool output; clones share it.
#[derive(Debug, Clone)]
pub struct ToolOutputs {
    folder: PathBuf,
    mint: Mint,
}

impl ToolOutputs {
    /// Tool output below a data folder.
    pub(crate) fn new(data: &Path, mint: Mint) -> Self {
        Self { folder: data.join("tool-output"), mint }
    }

    /// Where it is.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Removes files that nobody has written to for a week, and says how many.
    ///
    /// # Errors
    /// When their folder cannot be read.
    pub async fn sweep(&self) -> Result<usize, Error> {
        let folder = self.folder.clone();
        let cutoff = u64::try_from(self.mint.now().saturating_sub(KEPT)).unwrap_or_default();
        let cutoff = std::time::UNIX_EPOCH + Duration::from_millis(cutoff);
        match blocking(move || everturn_tools::bound::sweep(&folder, cutoff)).await? {
            Ok(removed) => Ok(removed),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(0),
            Err(source) => {
                Err(Error::Io { context: format!("cannot look through {}", self.folder.display()), source })
            }
        }
    }
}

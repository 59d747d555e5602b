//! Snapshot folders: where the files of each worktree are recorded, and the recorders that are open.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use everturn_tools::Snapshots;

use crate::Config;
use crate::projects::Location;

/// The recorders of worktrees; clones share them.
#[derive(Debug, Clone)]
pub(crate) struct SnapshotFolders {
    folder: PathBuf,
    /// Our own folder, databases and keys included.
    data: PathBuf,
    open: Arc<Mutex<HashMap<PathBuf, Arc<Snapshots>>>>,
}

impl SnapshotFolders {
    /// Recorders that keep what they record in a data folder.
    pub(crate) fn new(data: &Path) -> Self {
        let real = data.canonicalize().unwrap_or_else(|_| data.to_owned());
        Self { folder: real.join("snapshot"), data: real, open: Arc::default() }
    }

    /// The recorder of a worktree's files; none where recording is off or impossible.
    pub(crate) fn of(&self, config: &Config, location: &Location) -> Option<Arc<Snapshots>> {
        if !config.snapshot || location.worktree.starts_with(&self.data) {
            return None;
        }
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = open.get(&location.worktree) {
            return Some(Arc::clone(found));
        }
        let folder = self.folder_of(&location.project.id, &location.worktree);
        match Snapshots::open(folder, location.worktree.clone()) {
            Ok(snapshots) => {
                let snapshots = Arc::new(snapshots.without(&self.data));
                open.insert(location.worktree.clone(), Arc::clone(&snapshots));
                Some(snapshots)
            }
            Err(error) => {
                tracing::warn!(error = error.to_string(), "files are not recorded");
                None
            }
        }
    }

    fn folder_of(&self, project: &str, worktree: &Path) -> PathBuf {
        // Two clones of one project have files of their own.
        let name = worktree.display().to_string();
        let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        self.folder.join(project).join(format!("{hash:016x}"))
    }

    /// Takes the recorded files of a worktree along when it was moved; where there are some already, they stay.
    pub(crate) fn move_along(&self, from: (&str, &Path), to: (&str, &Path)) {
        let (old, new) = (self.folder_of(from.0, from.1), self.folder_of(to.0, to.1));
        if old == new || !old.exists() || new.exists() {
            return;
        }
        self.open.lock().unwrap_or_else(PoisonError::into_inner).remove(from.1);
        let made = new.parent().map_or(Ok(()), std::fs::create_dir_all);
        if let Err(error) = made.and_then(|()| std::fs::rename(&old, &new)) {
            tracing::warn!(
                error = error.to_string(),
                "the recorded files of a moved project were not taken along"
            );
        }
    }
}

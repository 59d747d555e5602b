//! What a session last saw of each file, so that no edit is based on an outdated view.
//!
//! Reading a file records its fingerprint, and so does writing one. A file that differs from its record was changed
//! by someone else since: whoever wants to edit it must read it again first.
//!
//! An edit is possible without reading, and then tells the session nothing of the rest of the file. So it is also kept
//! whether the session was ever shown a file: only then may a failure quote from it.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

/// The files that one session has read or written, by their real path.
#[derive(Debug, Default)]
pub struct SeenFiles(Mutex<SeenRecords>);

#[derive(Debug, Default)]
struct SeenRecords {
    views: HashMap<PathBuf, FileView>,
    /// What was recorded or forgotten since somebody asked for it.
    news: BTreeSet<PathBuf>,
}

/// What a session last saw of one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileView {
    /// The fingerprint of its content.
    pub fingerprint: String,
    /// Whether the session knows what is in it, besides its own edits.
    pub shown: bool,
}

impl SeenFiles {
    /// Records what a file held when the session read it or wrote the whole of it.
    pub fn record(&self, real: &Path, fingerprint: String) {
        self.put(real, Some(FileView { fingerprint, shown: true }));
    }

    /// Records what a file holds after the session changed a part of it.
    pub fn renew(&self, real: &Path, fingerprint: String) {
        let shown = self.shown(real);
        self.put(real, Some(FileView { fingerprint, shown }));
    }

    /// What the file held when the session last saw it.
    #[must_use]
    pub fn last(&self, real: &Path) -> Option<String> {
        self.files().views.get(real).map(|view| view.fingerprint.clone())
    }

    /// Whether the session knows what is in the file besides its own edits.
    #[must_use]
    pub fn shown(&self, real: &Path) -> bool {
        self.files().views.get(real).is_some_and(|view| view.shown)
    }

    /// Forgets a file that is gone.
    pub fn forget(&self, real: &Path) {
        self.put(real, None);
    }

    /// What changed here since this was last asked; nothing stands for a file that was forgotten.
    pub fn news(&self) -> Vec<(PathBuf, Option<FileView>)> {
        let mut files = self.files();
        let news = std::mem::take(&mut files.news);
        news.into_iter().map(|path| (path.clone(), files.views.get(&path).cloned())).collect()
    }

    /// Takes back what an earlier process kept of [`SeenFiles::news`].
    pub fn recall(&self, real: PathBuf, view: Option<FileView>) {
        let mut files = self.files();
        match view {
            Some(view) => files.views.insert(real, view),
            None => files.views.remove(&real),
        };
    }

    fn put(&self, real: &Path, view: Option<FileView>) {
        self.recall(real.to_owned(), view);
        self.files().news.insert(real.to_owned());
    }

    fn files(&self) -> MutexGuard<'_, SeenRecords> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

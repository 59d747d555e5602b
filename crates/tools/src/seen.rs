//! What a session last saw of each file, so that no edit is made on a picture that is out of date.
//!
//! Reading a file records its fingerprint, and so does writing one. A file that differs from its record was changed
//! by someone else since: whoever wants to edit it must read it again first.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

/// The files that one session has read or written, by their real path.
#[derive(Debug, Default)]
pub struct Seen {
    files: Mutex<HashMap<PathBuf, String>>,
}

impl Seen {
    /// Records what a file held when the session read or wrote it.
    pub fn record(&self, real: &Path, fingerprint: String) {
        self.files.lock().unwrap_or_else(PoisonError::into_inner).insert(real.to_owned(), fingerprint);
    }

    /// What the file held when the session last saw it.
    #[must_use]
    pub fn last(&self, real: &Path) -> Option<String> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner).get(real).cloned()
    }

    /// Forgets a file that is gone.
    pub fn forget(&self, real: &Path) {
        self.files.lock().unwrap_or_else(PoisonError::into_inner).remove(real);
    }
}

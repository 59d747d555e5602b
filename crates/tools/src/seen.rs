//! What a session last saw of each file, so that no edit is made on a picture that is out of date.
//!
//! Reading a file records its fingerprint, and so does writing one. A file that differs from its record was changed
//! by someone else since: whoever wants to edit it must read it again first.
//!
//! An edit is possible without reading, and then tells the session nothing of the rest of the file. So it is also kept
//! whether the session was ever shown a file: only then may a failure quote from it.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};

/// The files that one session has read or written, by their real path.
#[derive(Debug, Default)]
pub struct Seen {
    files: Mutex<HashMap<PathBuf, Sight>>,
}

#[derive(Debug)]
struct Sight {
    fingerprint: String,
    shown: bool,
}

impl Seen {
    /// Records what a file held when the session read it or wrote the whole of it.
    pub fn record(&self, real: &Path, fingerprint: String) {
        self.files().insert(real.to_owned(), Sight { fingerprint, shown: true });
    }

    /// Records what a file holds after the session changed a part of it.
    pub fn renew(&self, real: &Path, fingerprint: String) {
        let mut files = self.files();
        let shown = files.get(real).is_some_and(|sight| sight.shown);
        files.insert(real.to_owned(), Sight { fingerprint, shown });
    }

    /// What the file held when the session last saw it.
    #[must_use]
    pub fn last(&self, real: &Path) -> Option<String> {
        self.files().get(real).map(|sight| sight.fingerprint.clone())
    }

    /// Whether the session knows what is in the file besides its own edits.
    #[must_use]
    pub fn shown(&self, real: &Path) -> bool {
        self.files().get(real).is_some_and(|sight| sight.shown)
    }

    /// Forgets a file that is gone.
    pub fn forget(&self, real: &Path) {
        self.files().remove(real);
    }

    fn files(&self) -> MutexGuard<'_, HashMap<PathBuf, Sight>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

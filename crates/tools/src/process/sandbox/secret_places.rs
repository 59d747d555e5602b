//! Which paths the sandbox hides, for tools that work outside of it and for what is asked: nobody who permits a folder, and
//! nobody who works in one, thinks of the keys in it.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::secrets::SYSTEM_SECRETS;
use super::secrets::home_secrets;
use crate::scope::{Scope, real};

/// For how long it is known where links in stores of secrets lead. Commands cannot change them.
const FRESH: Duration = Duration::from_secs(1);

/// The stores of a home folder, as they were found.
struct FoundStores {
    home: PathBuf,
    at: Instant,
    stores: Arc<HashSet<PathBuf>>,
}

/// What was found out last.
static LAST: Mutex<Option<FoundStores>> = Mutex::new(None);

/// The places with secrets that count where somebody works.
#[derive(Debug)]
pub(crate) struct SecretPlaces {
    /// Stores of keys and logins.
    stores: Arc<HashSet<PathBuf>>,
    /// Our own folders.
    ours: HashSet<PathBuf>,
    /// What is listed by its own name, and so is no secret, although it may lie in one.
    listed: HashSet<PathBuf>,
}

impl SecretPlaces {
    /// Those for a call.
    pub(crate) fn of(scope: &Scope) -> Self {
        let sandbox = scope.sandbox.iter();
        let ours = sandbox.clone().flat_map(|sandbox| &sandbox.hidden);
        let listed = sandbox.flat_map(|sandbox| sandbox.readable.iter().chain(&sandbox.writable));
        let listed = listed.chain(scope.roots()).chain([&scope.output_dir]);
        Self { stores: stores(&scope.home), ours: with_real(ours), listed: with_real(listed) }
    }

    /// Whether something is one of these places, or lies in one.
    pub(crate) fn hold(&self, path: &Path) -> bool {
        let inner = path.ancestors().find(|place| self.listed.contains(*place) || self.is_one(place));
        inner.is_some_and(|place| !self.listed.contains(place))
    }

    /// Whether something is one of these places itself.
    pub(crate) fn name(&self, path: &Path) -> bool {
        self.is_one(path) && !self.listed.contains(path)
    }

    fn is_one(&self, path: &Path) -> bool {
        self.stores.contains(path) || self.ours.contains(path)
    }
}

/// Paths by their own names and by where they lead.
fn with_real<'a>(paths: impl Iterator<Item = &'a PathBuf>) -> HashSet<PathBuf> {
    paths.flat_map(|path| [path.clone(), real(path)]).collect()
}

fn stores(home: &Path) -> Arc<HashSet<PathBuf>> {
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(found) = last.as_ref().filter(|found| found.home == home && found.at.elapsed() < FRESH) {
        return Arc::clone(&found.stores);
    }
    let mut stores: HashSet<PathBuf> = SYSTEM_SECRETS.map(PathBuf::from).into();
    if home.is_absolute() && home.parent().is_some() {
        let real = real(home);
        stores.extend(home_secrets(home));
        stores.extend(home_secrets(&real));
    }
    let stores = Arc::new(stores);
    *last = Some(FoundStores { home: home.to_owned(), at: Instant::now(), stores: Arc::clone(&stores) });
    stores
}

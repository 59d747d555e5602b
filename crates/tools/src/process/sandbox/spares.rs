//! Copies of what is writable, for protected names to be mounted from.
//!
//! To copy a mount the system looks through all that is mounted in the one that it is taken from. In the new root that is
//! every name that was protected before, so that thousands of them took seconds. So each is taken from a second copy of the
//! same mount, in which nothing is ever mounted. That lies in the old root and goes with it.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::Bound;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::io::{Errno, Result};

use super::kernel::make_read_only;
use super::stage::{attach, copy_at, identity, look, mount_number};

/// The second copies, and where in the new root the same can be found.
#[derive(Debug)]
pub(super) struct Spares<'a> {
    copies: BTreeMap<PathBuf, OwnedFd>,
    /// The mounts in the new root that show the same as one of them, by their numbers.
    alike: HashMap<u64, PathBuf>,
    /// The mounts that were closed.
    closed: HashSet<u64>,
    /// Where something was mounted on itself.
    mounted: BTreeSet<PathBuf>,
    /// Everything else that is put into the root.
    places: &'a BTreeSet<PathBuf>,
}

impl<'a> Spares<'a> {
    /// Copies of some writable places, of which each has the number of its mount in the new root, before that covers
    /// anything.
    pub(super) fn of(
        writable: Vec<(&PathBuf, &OwnedFd, u64)>,
        places: &'a BTreeSet<PathBuf>,
    ) -> Result<Self> {
        let (copies, alike, closed, mounted) = Default::default();
        let mut spares = Self { copies, alike, closed, mounted, places };
        let mut originals = Vec::new();
        for (path, original, number) in writable {
            originals.push((original, copy_at(original)?, path.clone()));
            spares.alike.insert(number, path.clone());
        }
        // The system copies only what is mounted somewhere. One of them may lie in another.
        for (original, same, path) in originals {
            attach(&same, original)?;
            spares.copies.insert(path, same);
        }
        Ok(spares)
    }

    /// Mounts what was found at a path on itself, so that it can be neither moved nor replaced.
    pub(super) fn pin(&mut self, found: &OwnedFd, path: &Path) -> Result<()> {
        let number = mount_number(found)?;
        if self.is_done(number, path) {
            return Ok(());
        }
        let same = self.copy(found, number, path)?;
        if let Some(place) = self.alike.get(&number).cloned() {
            self.alike.insert(mount_number(&same)?, place);
        }
        attach(&same, found)
    }

    /// The same, and it can only be read.
    pub(super) fn close(&mut self, found: &OwnedFd, path: &Path) -> Result<()> {
        let number = mount_number(found)?;
        if self.is_done(number, path) {
            return Ok(());
        }
        let same = self.copy(found, number, path)?;
        make_read_only(same.as_fd()).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        self.closed.insert(mount_number(&same)?);
        attach(&same, found)
    }

    /// Whether a path needs nothing more. It counts as mounted from now on.
    fn is_done(&mut self, number: u64, path: &Path) -> bool {
        self.closed.contains(&number) || !self.mounted.insert(path.to_owned())
    }

    fn copy(&self, found: &OwnedFd, number: u64, path: &Path) -> Result<OwnedFd> {
        let same = self.alike.get(&number).filter(|_| !self.has_more_in(path)).and_then(|place| {
            let same = look(self.copies.get(place)?, path.strip_prefix(place).ok()?).ok()?;
            // Somebody outside may have put something else there.
            (identity(&same).ok()? == identity(found).ok()?).then_some(same)
        });
        copy_at(same.as_ref().unwrap_or(found))
    }

    /// Whether something was put at a path, or something mounted below it, which a second copy does not have.
    fn has_more_in(&self, path: &Path) -> bool {
        let below = (Bound::Excluded(path), Bound::Unbounded);
        let is_in = |place: Option<&PathBuf>| place.is_some_and(|place| place.starts_with(path));
        is_in(self.mounted.range::<Path, _>(below).next())
            || is_in(self.places.range::<Path, _>((Bound::Included(path), Bound::Unbounded)).next())
    }
}

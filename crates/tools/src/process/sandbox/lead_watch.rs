//! What takes the place of something that is protected because something else leads to it.
//!
//! Such a place has an ordinary name, and the folders above it can be moved. So it is looked at again in the end: what is
//! there and was not gets another name, and so does a link on the way to it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, lstat};

use super::access::FolderAccess;
use super::aftermath::{Identity, identity, put_folder_aside};
use super::guard::Guard;
use super::policy::SandboxPolicy;
use super::report::DisplacedName;
use super::survey::ProjectSurvey;
use super::tool_link::ToolLinks;

/// The places, as they were when a program began.
#[derive(Debug, Default)]
pub(super) struct LeadWatch {
    places: Vec<WatchedPlace>,
    ways: ToolLinks,
}

#[derive(Debug)]
struct WatchedPlace {
    path: PathBuf,
    /// What it is and what the folder above it is; nothing if there is nothing.
    before: Option<(Identity, Identity)>,
}

impl LeadWatch {
    pub(super) fn of(surveys: &[ProjectSurvey]) -> Self {
        let roots: Vec<PathBuf> = surveys.iter().map(|survey| survey.root.clone()).collect();
        let inside = |path: &&PathBuf| roots.iter().any(|root| path.starts_with(root));
        let leads: BTreeSet<&PathBuf> =
            surveys.iter().flat_map(|survey| &survey.leads).filter(inside).collect();
        let ways = ToolLinks::of(leads.iter().copied(), &roots);
        let places =
            leads.into_iter().map(|path| WatchedPlace { path: path.clone(), before: identities(path) });
        Self { places: places.collect(), ways }
    }

    /// Gives other names to what has taken the place of something else, or of nothing.
    pub(super) fn judge(&self, policy: &SandboxPolicy, access: &mut FolderAccess) -> Vec<DisplacedName> {
        let mut displaced = self.ways.judge(access);
        for WatchedPlace { path, before } in self.places.iter().filter(|place| !policy.permits(&place.path)) {
            if let Some(above) = path.parent() {
                // What cannot be opened cannot be looked at, and then a program has closed it.
                access.open(CWD, above).ok();
            }
            let Some((this, above)) = identities(path) else { continue };
            // In the folder that was there it could not be replaced by the program: somebody else did that.
            if before.is_some_and(|before| before.0 == this || before.1 == above) {
                continue;
            }
            let permitted = policy.permitted_in(path);
            if permitted.is_empty() {
                displaced.append(&mut put_folder_aside(path, access));
            } else {
                displaced.append(&mut Guard::of_opened(path.clone(), BTreeSet::new(), permitted).end(access));
            }
        }
        displaced
    }
}

/// What something is, and what the folder above it is.
fn identities(path: &Path) -> Option<(Identity, Identity)> {
    let (this, above) = (lstat(path).ok()?, lstat(path.parent()?).ok()?);
    Some((identity(&this), identity(&above)))
}

//! What takes the place of something that is protected because something else leads to it.
//!
//! Such a place has an ordinary name, and the folders above it can be moved with it. So it is looked at again in the end:
//! what is there instead gets another name, and so does a link on the way to it. What was not there, and links, are among
//! the [watched](super::watched) places.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, lstat};

use super::access::FolderAccess;
use super::aftermath::{Identity, identity, put_folder_aside};
use super::policy::SandboxPolicy;
use super::report::DisplacedName;
use super::survey::ProjectSurvey;

/// The places that were there when a program began, each with the project that it lies in.
#[derive(Debug, Default)]
pub(super) struct LeadWatch(BTreeMap<PathBuf, LedPlace>);

#[derive(Debug)]
struct LedPlace {
    project: PathBuf,
    /// What it is.
    this: Identity,
    /// What the folder above it is.
    above: Identity,
}

impl LeadWatch {
    pub(super) fn of(surveys: &[ProjectSurvey]) -> Self {
        let places = surveys.iter().flat_map(|survey| {
            let inside = survey.leads.iter().filter(|path| path.starts_with(&survey.root));
            inside.filter_map(|path| {
                let (this, above) = identities(path).filter(|_| !path.is_symlink())?;
                Some((path.clone(), LedPlace { project: survey.root.clone(), this, above }))
            })
        });
        Self(places.collect())
    }

    /// Gives other names to what has taken their place.
    pub(super) fn judge(&self, policy: &SandboxPolicy, access: &mut FolderAccess) -> Vec<DisplacedName> {
        let mut displaced = Vec::new();
        for (path, place) in self.0.iter().filter(|(path, _)| !policy.permits(path)) {
            // What a folder on the way has closed is opened to see it.
            path.parent().map(|above| access.open(CWD, above));
            let way: Vec<&Path> = path.ancestors().take_while(|at| *at != place.project).collect();
            if let Some(link) = way.into_iter().rev().find(|at| at.is_symlink()) {
                displaced.append(&mut put_folder_aside(link, access));
                continue;
            }
            let Some((this, above)) = identities(path) else { continue };
            // In the folder that was there the program could not replace it: somebody else did.
            if this != place.this && above != place.above {
                displaced.append(&mut put_folder_aside(path, access));
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

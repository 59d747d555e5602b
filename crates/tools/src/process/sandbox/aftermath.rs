//! What a program left behind at protected names, at every depth of a project.
//!
//! Nothing can be mounted on a name that is not there. So the supervisor looks again when nothing of the program runs any
//! more, also where it had to be killed: in folders that were changed since it began, and in all that were not there. What
//! it finds there at a protected name and was not there before gets another name, and so does what cannot be looked
//! through. That costs time in proportion to what the program did.
//!
//! A folder counts as changed by the time of the last change of its inode, which programs cannot set.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Dir, Stat, lstat};

use super::access::{FolderAccess, open_folder};
use super::guard::{Guard, lossy, put_aside};
use super::lead_watch::LeadWatch;
use super::likeness::is_copy;
use super::new_repository::{disarm, disarm_one, runs_nothing};
use super::policy::SandboxPolicy;
use super::put_aside_name::is_put_aside;
use super::rebase::RebaseLists;
use super::report::DisplacedName;
use super::repository::{INNER, git_folders};
use super::search::AftermathSearch;
use super::survey::{Changed, ProjectSurvey, coarse_time};
use super::tool_link::ToolLinks;

/// With how many others of the same name something new is compared.
pub(super) const MOST_COMPARED: usize = 16;

/// Finds the repositories in folders of a project in which nothing would run by itself. They are not mounted, so that
/// they can be removed, and their settings changed; in the end they are treated like new ones.
pub(in crate::process) fn sort_out(surveys: &mut [ProjectSurvey]) {
    for survey in surveys {
        let inner = survey.git.iter().filter(|git| !survey.is_own(git) && runs_nothing(git));
        survey.loose = inner.cloned().collect();
        // Worktrees and submodules of the others as well.
        let inner = survey.repositories().filter_map(|git| git_folders(git));
        let inner = inner.flat_map(|all| all.into_iter().skip(1));
        let inner: Vec<PathBuf> = inner.filter(|git| runs_nothing(git)).collect();
        survey.loose.extend(inner);
        survey.copies = copies(survey);
    }
}

/// The names in clones and worktrees that are like an older one.
fn copies(survey: &ProjectSurvey) -> BTreeSet<PathBuf> {
    let tops: HashSet<&Path> =
        survey.loose.iter().chain(survey.git_links()).filter_map(|git| git.parent()).collect();
    if tops.is_empty() {
        return BTreeSet::new();
    }
    let dated = survey.names.iter().filter(|name| !name.ends_with(".git"));
    let dated: Vec<(&PathBuf, Changed)> =
        dated.filter_map(|name| Some((name, changed(&lstat(name).ok()?)))).collect();
    let is_inside = |name: &Path| name.ancestors().any(|folder| tops.contains(folder));
    let inside = dated.iter().filter(|(name, _)| !survey.is_at_root(name) && is_inside(name));
    let copied = inside.filter(|(name, when)| {
        let same_name = dated.iter().filter(|(other, _)| other.file_name() == name.file_name());
        same_name.take(MOST_COMPARED).any(|(other, then)| then < when && is_copy(other, name))
    });
    copied.map(|(name, _)| (*name).clone()).collect()
}

/// What the file system knows something by.
pub(super) type Identity = (u64, u64);

/// What there was when a program began.
#[derive(Debug)]
pub(in crate::process) struct ProtectionWatch<'a> {
    pub(super) policy: &'a SandboxPolicy,
    pub(super) since: Changed,
    projects: Vec<WatchedProject<'a>>,
    /// Folders of git's, the outermost ones, in the projects and elsewhere.
    pub(super) git: Vec<PathBuf>,
    /// Those and the ones of their worktrees and submodules.
    pub(super) known_git: HashSet<PathBuf>,
    rebases: RebaseLists,
    places: ToolLinks,
    leads: LeadWatch,
}

#[derive(Debug)]
pub(super) struct WatchedProject<'a> {
    pub(super) survey: &'a ProjectSurvey,
    /// Protected names and folders of git's that were there, by their path: what the folder above each is.
    pub(super) paths: HashMap<&'a Path, Identity>,
    /// What they are themselves, and when each was changed: with the folder that they lie in they can be moved.
    pub(super) things: HashMap<Identity, Changed>,
}

impl<'a> ProtectionWatch<'a> {
    /// Begins before the program does. What is to be mounted must have been [sorted out](sort_out).
    pub(in crate::process) fn begin(surveys: &'a [ProjectSurvey], policy: &'a SandboxPolicy) -> Self {
        let since = coarse_time();
        let inside = surveys.iter().flat_map(ProjectSurvey::repositories);
        let git: Vec<PathBuf> = inside.chain(&policy.repositories).cloned().collect();
        // Where they cannot be told, the program is not started.
        let inner = git.iter().filter_map(|git| git_folders(git)).flatten();
        let known_git: HashSet<PathBuf> =
            inner.chain(surveys.iter().flat_map(|survey| survey.git.clone())).collect();
        let rebases = RebaseLists::of(&known_git);
        let places = ToolLinks::of(&policy.unlinked, &policy.projects);
        let leads = LeadWatch::of(surveys);
        let projects = surveys.iter().map(WatchedProject::of).collect();
        Self { policy, since, projects, git, known_git, rebases, places, leads }
    }

    /// Gives other names to what must not stay. Nothing of the program may run any more.
    pub(in crate::process) fn end(&self, guards: &[Guard]) -> Vec<DisplacedName> {
        let mut access = FolderAccess::default();
        let mut displaced: Vec<DisplacedName> =
            guards.iter().flat_map(|guard| guard.end(&mut access)).collect();
        displaced.append(&mut self.rebases.judge(&mut access));
        displaced.append(&mut self.places.judge(&mut access));
        displaced.append(&mut self.leads.judge(self.policy, &mut access));
        for git in &self.git {
            displaced.append(&mut self.look_through(git, &mut access));
        }
        for git in self.projects.iter().flat_map(|project| &project.survey.loose) {
            displaced.append(&mut disarm_or_put_aside(git, &mut access));
        }
        for project in &self.projects {
            displaced.append(&mut AftermathSearch::run(self, project, &mut access));
        }
        displaced.sort_by_cached_key(ToString::to_string);
        displaced.dedup();
        displaced
    }

    /// Submodules and worktrees that were not there before, in a repository that was.
    fn look_through(&self, git: &Path, access: &mut FolderAccess) -> Vec<DisplacedName> {
        open_up(git, access);
        let mut displaced = Vec::new();
        let all = git_folders(git).or_else(|| {
            // More than are looked at, which there were not when the program began.
            displaced.extend(self.put_strangers_aside(git));
            git_folders(git)
        });
        let Some(all) = all else {
            let folder = open_folder(CWD, git);
            let inner = INNER.iter().filter(|inner| lstat(git.join(inner)).is_ok());
            displaced.extend(inner.map(|inner| match &folder {
                Ok(folder) => put_aside(folder, git, inner.as_ref()),
                Err(_) => DisplacedName::Unseen(lossy(&git.join(inner))),
            }));
            return displaced;
        };
        for git in all.iter().filter(|git| !self.known_git.contains(*git)) {
            displaced.append(&mut disarm_one(git).unwrap_or_else(|| put_folder_aside(git, access)));
        }
        displaced
    }

    /// Gives other names to everything beside the submodules and worktrees of a repository that were there.
    fn put_strangers_aside(&self, git: &Path) -> Vec<DisplacedName> {
        let mut displaced = Vec::new();
        for above in INNER.map(|inner| git.join(inner)) {
            let Ok(folder) = open_folder(CWD, &above) else { continue };
            let Ok(entries) = Dir::read_from(&folder) else { continue };
            for entry in entries.flatten() {
                let name = std::ffi::OsStr::from_bytes(entry.file_name().to_bytes());
                let path = above.join(name);
                let is_known = || self.known_git.iter().any(|known| known.starts_with(&path));
                if name != "." && name != ".." && !is_put_aside(name) && !is_known() {
                    displaced.push(put_aside(&folder, &above, name));
                }
            }
        }
        displaced
    }
}

/// Opens a folder of git's, and those in it that hold others, which a program may have closed.
fn open_up(git: &Path, access: &mut FolderAccess) {
    for inner in [""].iter().chain(&INNER) {
        // What cannot be opened is found out by whoever looks into it.
        access.open(CWD, &git.join(inner).components().collect::<PathBuf>()).ok();
    }
}

/// Gives other names to what a folder of git's would run; to the folder itself, if that cannot be told.
pub(super) fn disarm_or_put_aside(git: &Path, access: &mut FolderAccess) -> Vec<DisplacedName> {
    open_up(git, access);
    disarm(git).unwrap_or_else(|| put_folder_aside(git, access))
}

/// Gives a folder another name.
pub(super) fn put_folder_aside(path: &Path, access: &mut FolderAccess) -> Vec<DisplacedName> {
    let (Some(above), Some(name)) = (path.parent(), path.file_name()) else { return Vec::new() };
    let folder = access.open(CWD, above);
    vec![folder.map_or_else(|_| DisplacedName::Unseen(lossy(path)), |folder| put_aside(&folder, above, name))]
}

impl<'a> WatchedProject<'a> {
    fn of(survey: &'a ProjectSurvey) -> Self {
        let mut project = Self { survey, paths: HashMap::new(), things: HashMap::new() };
        let loose = |path: &&PathBuf| survey.loose.contains(*path) || survey.copies.contains(*path);
        for path in survey.names.iter().chain(&survey.git).filter(|path| !loose(path)) {
            let Some(above) = path.parent() else { continue };
            if let (Ok(above), Ok(this)) = (lstat(above), lstat(path)) {
                project.paths.insert(path, identity(&above));
                project.things.insert(identity(&this), changed(&this));
            }
        }
        project
    }

    /// Whether this is what was there, wherever it is now.
    pub(super) fn is_known(&self, path: &Path) -> bool {
        lstat(path).is_ok_and(|this| self.things.contains_key(&identity(&this)))
    }

    /// The same, and nothing of it was changed, nor its name.
    pub(super) fn is_unchanged(&self, this: &Stat) -> bool {
        self.things.get(&identity(this)) == Some(&changed(this))
    }
}

pub(super) fn identity(stat: &Stat) -> Identity {
    (stat.st_dev, stat.st_ino)
}

pub(super) fn changed(stat: &Stat) -> Changed {
    (stat.st_ctime, i64::try_from(stat.st_ctime_nsec).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::process::sandbox::survey::survey;

    /// What is told about a project in which something was done, with room for so many new folders.
    fn after(root: &Path, room: usize, work: impl FnOnce()) -> Vec<String> {
        let policy = SandboxPolicy { projects: vec![root.to_owned()], ..SandboxPolicy::default() };
        let mut surveys = survey(&policy).unwrap();
        surveys[0].room = room;
        sort_out(&mut surveys);
        let watch = ProtectionWatch::begin(&surveys, &policy);
        work();
        let base = format!("{}/", root.display());
        watch.end(&[]).iter().map(|told| told.to_string().replace(&base, "")).collect()
    }

    #[test]
    fn more_folders_than_are_looked_at_get_another_name_and_the_rest_is_looked_into() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("gone")).unwrap();
        let make = |name: &str| fs::create_dir_all(root.join(name)).unwrap();
        let told = after(&root, 3, || {
            for number in 0..9 {
                make(&format!("many/{number}"));
            }
            make("few/one/.vscode");
            // What is gone makes room.
            fs::remove_dir(root.join("gone")).unwrap();
            make("new/one/.zed");
        });
        let renamed = |name: &str| format!("{name} was renamed to {name}.untrusted");
        assert_eq!(told, ["few/one/.vscode", "many", "new/one/.zed"].map(renamed));
        // It does not count any more.
        assert_eq!(after(&root, 1, || make("other")), [""; 0]);
        assert_eq!(after(&root, 0, || make("last")), [renamed("last")]);
    }

    #[test]
    fn too_many_folders_in_a_repository_get_another_name_but_for_those_that_were_there() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let make = |name: &str| fs::create_dir_all(root.join(name)).unwrap();
        make(".git/modules/mine");
        fs::write(root.join(".git/modules/mine/HEAD"), "x").unwrap();
        let told = after(&root, 100, || {
            for number in 0..5000 {
                make(&format!(".git/modules/many/{number}"));
            }
            make(".git/worktrees/w/hooks");
            fs::write(root.join(".git/worktrees/w/HEAD"), "x").unwrap();
            fs::write(root.join(".git/worktrees/w/hooks/update"), "x").unwrap();
        });
        let renamed = |name: &str| format!("{name} was renamed to {name}.untrusted");
        assert_eq!(told, [".git/modules/many", ".git/worktrees/w"].map(renamed));
    }
}

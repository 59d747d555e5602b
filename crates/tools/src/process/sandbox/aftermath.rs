//! What a program left behind at protected names, at every depth of a project.
//!
//! Nothing can be mounted on a name that is not there. So the supervisor looks again when nothing of the program runs any
//! more, also where it had to be killed: in folders that were changed since it began, and in all that were not there. What
//! it finds there at a protected name and was not there before gets another name, and so does what cannot be looked
//! through. That costs time in proportion to what the program did.
//!
//! A folder counts as changed by the time of the last change of its inode, which programs cannot set.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, PoisonError};

use rustix::fs::{CWD, Dir, Stat, lstat};

use super::access::{FolderAccess, open_folder};
use super::guard::{Guard, lossy, put_aside};
use super::lead_watch::LeadWatch;
use super::likeness::{ContentMemory, KeptContent, MOST_KEPT, original};
use super::made_file::MadeFiles;
use super::moved_links::LinkEnds;
use super::new_repository::{ARMING, disarm, runs_nothing};
use super::policy::SandboxPolicy;
use super::put_aside_name::is_put_aside;
use super::rebase::StoppedWorks;
use super::report::DisplacedName;
use super::repository::{INNER, git_folders};
use super::search::AftermathSearch;
use super::settled::{SettledPlaces, SurveyedProjects};
use super::survey::{Changed, ProjectSurvey};
use super::tool_link::ToolLinks;
use super::watched::{SeenThing, Sight, WatchedPlace, is_all_as_seen, is_as_seen, mounted_git};
use crate::protected::IN_GIT;

/// The repositories in folders of a project in which nothing would run by itself. They are not mounted, so that they can
/// be removed, and their settings changed; in the end they are treated like new ones.
pub(super) fn loose(survey: &ProjectSurvey) -> BTreeSet<PathBuf> {
    let roots = [survey.root.as_path()];
    let inside = survey.git.iter().filter(|git| !survey.is_own(git));
    let (loose, others): (Vec<&PathBuf>, Vec<&PathBuf>) = inside.partition(|git| runs_nothing(git, &roots));
    // Worktrees and submodules of the others as well.
    let own = survey.git.iter().filter(|git| survey.is_own(git));
    let inner = others.into_iter().chain(own).filter_map(|git| git_folders(git));
    let inner = inner.flat_map(|all| all.into_iter().skip(1)).filter(|git| runs_nothing(git, &roots));
    loose.into_iter().cloned().chain(inner).collect()
}

/// What was read to tell copies, in this process.
static READ: LazyLock<Mutex<ContentMemory>> = LazyLock::new(Mutex::default);

/// The names in worktrees that are copies of those in the project's own work tree, which are settled.
pub(super) fn copies(survey: &ProjectSurvey, settled: &SettledPlaces) -> BTreeSet<PathBuf> {
    let trees: HashSet<&Path> = survey.git_links().filter_map(|git| git.parent()).collect();
    if trees.is_empty() {
        return BTreeSet::new();
    }
    let mut read = READ.lock().unwrap_or_else(PoisonError::into_inner);
    let is_inside = |name: &Path| name.ancestors().any(|folder| trees.contains(folder));
    let inside = survey.names.iter().filter(|name| !name.ends_with(".git") && is_inside(name));
    let copied = inside.filter(|name| {
        let original = original(survey, name).filter(|known| settled.has(known) && !is_inside(known));
        original.is_some_and(|known| read.is_copy(&known, name))
    });
    copied.cloned().collect()
}

/// What the file system knows something by.
pub(super) type Identity = (u64, u64);

/// What there was when a program began.
#[derive(Debug)]
pub(in crate::process) struct ProtectionWatch<'a> {
    pub(super) policy: &'a SandboxPolicy,
    pub(super) since: Changed,
    pub(super) settled: &'a SettledPlaces,
    projects: Vec<WatchedProject<'a>>,
    /// Folders of git's, the outermost ones, in the projects and elsewhere.
    git: BTreeSet<PathBuf>,
    /// Those and the ones of their worktrees and submodules.
    pub(super) known_git: HashSet<PathBuf>,
    /// What was there in those which another program may have made, of what makes git run programs.
    seen: HashMap<PathBuf, SeenThing>,
    watched: Vec<WatchedPlace>,
    stopped: &'a StoppedWorks,
    places: ToolLinks,
    leads: LeadWatch,
}

#[derive(Debug)]
pub(super) struct WatchedProject<'a> {
    pub(super) survey: &'a ProjectSurvey,
    /// Protected names that were there, and when each was changed: with the folder that they lie in they can be moved.
    things: HashMap<Identity, Changed>,
    /// The same for folders of git's that are mounted. Git changes them all the time, so nothing that a program can remove
    /// may be among them: what is made then gets its number.
    git: HashSet<Identity>,
    /// Copies of such names, each with what it was, and what was in it.
    copies: HashMap<&'a Path, Vec<SeenThing>>,
    /// What protected names in its folders held, as far as there is room: with a folder that is made anew they are others.
    kept: Vec<(&'a Path, KeptContent)>,
    /// What protected links led to.
    pub(super) ends: LinkEnds,
}

impl<'a> ProtectionWatch<'a> {
    /// Begins before the program does, with what was looked at.
    pub(in crate::process) fn begin(projects: &'a SurveyedProjects, policy: &'a SandboxPolicy) -> Self {
        let sight = Sight::new();
        let SurveyedProjects { surveys, since, settled, watched, stopped } = projects;
        let inside = surveys.iter().flat_map(ProjectSurvey::repositories);
        let git: BTreeSet<PathBuf> = inside.chain(&policy.repositories).cloned().collect();
        // Where they cannot be told, the program is not started.
        let inner = git.iter().filter_map(|git| git_folders(git)).flatten();
        let known_git: HashSet<PathBuf> =
            inner.chain(surveys.iter().flat_map(|survey| survey.git.clone())).collect();
        let places = ToolLinks::of(policy, settled, &sight);
        let mounted = mounted_git(policy, surveys);
        let (old, fresh): (Vec<&PathBuf>, Vec<&PathBuf>) = mounted.iter().partition(|git| settled.has(git));
        let in_fresh = fresh.into_iter().flat_map(|git| ARMING.map(|name| git.join(name)));
        let seen = in_fresh.filter_map(|path| sight.see(&path).map(|seen| (path, seen))).collect();
        let in_old = old.into_iter().flat_map(|git| IN_GIT.map(|name| git.join(name)));
        let is_permitted = |path: &PathBuf| policy.permits(path) || !policy.permitted_in(path).is_empty();
        let all = in_old.chain(watched.iter().cloned()).filter(|path| !is_permitted(path));
        let watched = all.filter_map(|path| WatchedPlace::of(&path, settled, &sight)).collect();
        let projects = surveys.iter().map(|survey| WatchedProject::of(survey, settled, &sight)).collect();
        let leads = LeadWatch::of(surveys);
        Self {
            policy,
            since: *since,
            settled,
            projects,
            git,
            known_git,
            seen,
            watched,
            stopped,
            places,
            leads,
        }
    }

    /// Gives other names to what must not stay. Nothing of the program may run any more.
    pub(in crate::process) fn end(&self, guards: &[Guard], made: &MadeFiles) -> Vec<DisplacedName> {
        let mut access = FolderAccess::default();
        // A link that another program may have made is not put back, and one that another has put back stays.
        let is_due = |guard: &&Guard| match guard.link() {
            Some((path, target)) => self.settled.has_link(path, target),
            None => !guard.absent().is_some_and(|path| self.settled.has(path) || made.are_all_at(path)),
        };
        let guards = guards.iter().filter(is_due);
        let mut displaced: Vec<DisplacedName> = guards.flat_map(|guard| guard.end(&mut access)).collect();
        let watched = self.watched.iter().filter(|place| !place.may_stay(self.settled, made));
        displaced.extend(watched.flat_map(|place| place.judge(&mut access)));
        displaced.append(&mut self.stopped.judge(&self.known_git, &mut access));
        displaced.append(&mut self.places.judge(&mut access));
        displaced.append(&mut self.leads.judge(self.policy, &mut access));
        for git in &self.git {
            displaced.append(&mut self.look_through(git, &mut access));
        }
        for git in self.projects.iter().flat_map(|project| &project.survey.loose) {
            displaced.append(&mut self.disarm_or_put_aside(git, &mut access));
        }
        for project in &self.projects {
            displaced.append(&mut AftermathSearch::run(self, project, made, &mut access));
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
        for git in all.iter().filter(|git| !self.is_old_git(git)) {
            displaced.append(&mut self.disarm_one(git).unwrap_or_else(|| put_folder_aside(git, access)));
        }
        displaced
    }

    /// Whether something lies in a folder of git's that is looked through, or is one.
    pub(super) fn is_in_git(&self, path: &Path) -> bool {
        path.ancestors().any(|folder| self.git.contains(folder))
    }

    /// Whether a folder of git's was there before, and no other program can have made it.
    pub(super) fn is_old_git(&self, git: &Path) -> bool {
        self.known_git.contains(git) && self.settled.has(git)
    }

    /// Gives other names to what a folder of git's would run; to the folder itself, if that cannot be told.
    pub(super) fn disarm_or_put_aside(&self, git: &Path, access: &mut FolderAccess) -> Vec<DisplacedName> {
        open_up(git, access);
        let each = git_folders(git)
            .and_then(|all| all.iter().map(|git| self.disarm_one(git)).collect::<Option<Vec<_>>>());
        each.map_or_else(|| put_folder_aside(git, access), |each| each.concat())
    }

    /// The same for one alone. What is exactly as it was may stay.
    pub(super) fn disarm_one(&self, git: &Path) -> Option<Vec<DisplacedName>> {
        let roots: Vec<&Path> = self.projects.iter().map(|project| project.survey.root.as_path()).collect();
        disarm(git, &roots, |path| is_as_seen(path, self.seen.get(path).copied()))
    }

    /// Gives other names to everything beside the submodules and worktrees of a repository that were there.
    fn put_strangers_aside(&self, git: &Path) -> Vec<DisplacedName> {
        let mut displaced = Vec::new();
        let known: HashSet<&Path> = self.known_git.iter().flat_map(|git| git.ancestors()).collect();
        for above in INNER.map(|inner| git.join(inner)) {
            let Ok(folder) = open_folder(CWD, &above) else { continue };
            let Ok(entries) = Dir::read_from(&folder) else { continue };
            for entry in entries.flatten() {
                let name = OsStr::from_bytes(entry.file_name().to_bytes());
                let path = above.join(name);
                if name != "." && name != ".." && !is_put_aside(name) && !known.contains(path.as_path()) {
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

/// Gives a folder another name.
pub(super) fn put_folder_aside(path: &Path, access: &mut FolderAccess) -> Vec<DisplacedName> {
    let (Some(above), Some(name)) = (path.parent(), path.file_name()) else { return Vec::new() };
    let folder = access.open(CWD, above);
    vec![folder.map_or_else(|_| DisplacedName::Unseen(lossy(path)), |folder| put_aside(&folder, above, name))]
}

impl<'a> WatchedProject<'a> {
    fn of(survey: &'a ProjectSurvey, settled: &SettledPlaces, sight: &Sight) -> Self {
        let copies = survey.copies.iter().filter_map(|copy| Some((copy.as_path(), sight.see_all(copy)?)));
        let mut room = MOST_KEPT;
        let inside = survey.mounted().filter(|name| !survey.is_at_root(name) && settled.has(name));
        let kept = inside.map_while(|name| Some((name.as_path(), KeptContent::of(name, &mut room)?)));
        let kept = kept.collect();
        let names = survey.names.iter().filter(|name| !survey.copies.contains(*name));
        let thing = |name: &PathBuf| match settled.has(name) {
            true => lstat(name).ok().map(|this| (identity(&this), changed(&this))),
            false => sight.see(name),
        };
        let things = names.filter_map(thing).collect();
        let settled_git = survey.repositories().filter(|git| settled.has(git));
        let git = settled_git.filter_map(|git| lstat(git).ok()).map(|this| identity(&this)).collect();
        Self { survey, things, git, copies: copies.collect(), kept, ends: LinkEnds::of(survey) }
    }

    /// Whether a copy is as it was, whatever has become of what it is a copy of.
    pub(super) fn is_same_copy(&self, copy: &Path) -> bool {
        self.copies.get(copy).is_some_and(|seen| is_all_as_seen(copy, seen))
    }

    /// Whether something holds what was there.
    pub(super) fn was_held(&self, path: &Path) -> bool {
        self.kept.iter().any(|(known, kept)| *known == path && kept.is_at(path))
    }

    /// Whether this is a folder of git's that was there, wherever it is now.
    pub(super) fn is_known(&self, git: &Path) -> bool {
        lstat(git).is_ok_and(|this| self.is_known_git(&this))
    }

    /// The same, for what is there.
    pub(super) fn is_known_git(&self, this: &Stat) -> bool {
        self.git.contains(&identity(this))
    }

    /// Whether this is something protected that was there, and nothing of it was changed, nor its name.
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
mod tests;

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
use super::likeness::{KeptContent, MOST_KEPT, is_copy};
use super::new_repository::{ARMING, disarm, runs_nothing};
use super::policy::SandboxPolicy;
use super::put_aside_name::is_put_aside;
use super::rebase::StoppedWorks;
use super::report::DisplacedName;
use super::repository::{INNER, git_folders};
use super::search::AftermathSearch;
use super::settled::{SettledPlaces, SurveyedProjects};
use super::survey::{Changed, ProjectSurvey, coarse_time};
use super::tool_link::ToolLinks;
use super::watched::{SeenThing, Sight, WatchedPlace, is_all_as_seen, is_as_seen, mounted_git};
use crate::protected::IN_GIT;

/// With how many others of the same name something new is compared.
pub(super) const MOST_COMPARED: usize = 16;

/// The repositories in folders of a project in which nothing would run by itself. They are not mounted, so that they can
/// be removed, and their settings changed; in the end they are treated like new ones.
pub(super) fn loose(survey: &ProjectSurvey) -> BTreeSet<PathBuf> {
    let inside = survey.git.iter().filter(|git| !survey.is_own(git));
    let (loose, others): (Vec<&PathBuf>, Vec<&PathBuf>) = inside.partition(|git| runs_nothing(git));
    // Worktrees and submodules of the others as well.
    let own = survey.git.iter().filter(|git| survey.is_own(git));
    let inner = others.into_iter().chain(own).filter_map(|git| git_folders(git));
    let inner = inner.flat_map(|all| all.into_iter().skip(1)).filter(|git| runs_nothing(git));
    loose.into_iter().cloned().chain(inner).collect()
}

/// The names in clones and worktrees that are like an older one, which is settled.
pub(super) fn copies(survey: &ProjectSurvey, settled: &SettledPlaces) -> BTreeSet<PathBuf> {
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
        let same_name = same_name.filter(|(other, then)| then < when && settled.has(other));
        same_name.take(MOST_COMPARED).any(|(other, _)| is_copy(other, name))
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
    pub(super) settled: &'a SettledPlaces,
    projects: Vec<WatchedProject<'a>>,
    /// Folders of git's, the outermost ones, in the projects and elsewhere.
    pub(super) git: Vec<PathBuf>,
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
    /// Protected names and folders of git's that were there, and when each was changed: with the folder that they lie in
    /// they can be moved.
    pub(super) things: HashMap<Identity, Changed>,
    /// Copies of such names, each with what it was, and what was in it.
    copies: HashMap<&'a Path, Vec<SeenThing>>,
    /// What protected names in its folders held, as far as there is room: with a folder that is made anew they are others.
    kept: Vec<(&'a Path, KeptContent)>,
}

impl<'a> ProtectionWatch<'a> {
    /// Begins before the program does.
    pub(in crate::process) fn begin(projects: &'a SurveyedProjects, policy: &'a SandboxPolicy) -> Self {
        let (since, sight) = (coarse_time(), Sight::new());
        let SurveyedProjects { surveys, settled, watched, stopped } = projects;
        let inside = surveys.iter().flat_map(ProjectSurvey::repositories);
        let git: Vec<PathBuf> = inside.chain(&policy.repositories).cloned().collect();
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
        Self { policy, since, settled, projects, git, known_git, seen, watched, stopped, places, leads }
    }

    /// Gives other names to what must not stay. Nothing of the program may run any more.
    pub(in crate::process) fn end(&self, guards: &[Guard]) -> Vec<DisplacedName> {
        let mut access = FolderAccess::default();
        // A link that another program may have made is not put back, and one that another has put back stays.
        let is_due = |guard: &&Guard| match guard.link() {
            Some((path, target)) => self.settled.has_link(path, target),
            None => !guard.absent().is_some_and(|path| self.settled.has(path)),
        };
        let guards = guards.iter().filter(is_due);
        let mut displaced: Vec<DisplacedName> = guards.flat_map(|guard| guard.end(&mut access)).collect();
        let watched = self.watched.iter().filter(|place| !place.is_put_back(self.settled));
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
        for git in all.iter().filter(|git| !self.is_old_git(git)) {
            displaced.append(&mut self.disarm_one(git).unwrap_or_else(|| put_folder_aside(git, access)));
        }
        displaced
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
        disarm(git, |path| is_as_seen(path, self.seen.get(path).copied()))
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
        let mut project = Self { survey, things: HashMap::new(), copies: copies.collect(), kept };
        let loose = |path: &&PathBuf| survey.loose.contains(*path) || survey.copies.contains(*path);
        for path in survey.names.iter().chain(&survey.git).filter(|path| !loose(path)) {
            if settled.has(path) {
                project.things.extend(lstat(path).map(|this| (identity(&this), changed(&this))));
            } else if !survey.git.contains(path) {
                project.things.extend(sight.see(path));
            }
        }
        project
    }

    /// Whether a copy is as it was, whatever has become of what it is a copy of.
    pub(super) fn is_same_copy(&self, copy: &Path) -> bool {
        self.copies.get(copy).is_some_and(|seen| is_all_as_seen(copy, seen))
    }

    /// Whether something holds what was at the same name, there or elsewhere.
    pub(super) fn was_held(&self, path: &Path) -> bool {
        let same_name = self.kept.iter().filter(|(known, _)| known.file_name() == path.file_name());
        same_name.take(MOST_COMPARED).any(|(_, kept)| kept.is_at(path))
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
    use crate::process::sandbox::overlap::look_at;

    /// What is told about a project in which something was done, with room for so many new folders.
    fn after(root: &Path, room: usize, work: impl FnOnce()) -> Vec<String> {
        let policy = SandboxPolicy { projects: vec![root.to_owned()], ..SandboxPolicy::default() };
        let mut projects = look_at(&policy, Vec::new).unwrap();
        projects.surveys[0].room = room;
        let watch = ProtectionWatch::begin(&projects, &policy);
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

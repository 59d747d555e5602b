//! What a program left behind at protected names, at every depth of a project.
//!
//! Nothing can be mounted on a name that is not there. So the supervisor looks again when nothing of the program runs any
//! more, also where it had to be killed: in folders that were changed since it began, and in all that were not there. What
//! it finds there at a protected name and was not there before gets another name.
//!
//! A folder counts as changed by the time of the last change of its inode, which programs cannot set.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ffi::OsString;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Stat, StatxFlags, lstat, statat, statx};

use super::guard::{Guard, lossy, open_folder, put_aside};
use super::likeness::is_copy;
use super::new_repository::{disarm, disarm_one, runs_nothing, target};
use super::policy::SandboxPolicy;
use super::report::DisplacedName;
use super::repository::git_folders;
use super::survey::{Changed, DEEPEST, GitSigns, PlaceKind, ProjectSurvey, coarse_time};

/// How many folders that were not there before are looked into in one project. A command that makes as many takes much
/// longer than that.
const MOST_NEW: usize = 20_000;

/// With how many others of the same name something new is compared.
const MOST_COMPARED: usize = 16;

/// Finds the repositories in folders of a project in which nothing would run by itself. They are not mounted, so that
/// they can be removed, and their settings changed; in the end they are treated like new ones.
pub(in crate::process) fn sort_out(surveys: &mut [ProjectSurvey]) {
    for survey in surveys {
        let inner = survey.git.iter().filter(|git| !survey.is_own(git) && runs_nothing(git));
        survey.loose = inner.cloned().collect();
        // Worktrees and submodules of the others as well.
        let inner = survey.repositories().flat_map(|git| git_folders(git).into_iter().skip(1));
        let inner: Vec<PathBuf> = inner.filter(|git| runs_nothing(git)).collect();
        survey.loose.extend(inner);
        survey.copies = copies(survey);
    }
}

/// The names in clones and worktrees that are like an older one.
fn copies(survey: &ProjectSurvey) -> BTreeSet<PathBuf> {
    let tops: HashSet<&Path> =
        survey.loose.iter().chain(survey.links()).filter_map(|git| git.parent()).collect();
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
type Identity = (u64, u64);

/// What there was when a program began.
#[derive(Debug)]
pub(in crate::process) struct ProtectionWatch<'a> {
    policy: &'a SandboxPolicy,
    since: Changed,
    projects: Vec<WatchedProject<'a>>,
    /// Folders of git's, the outermost ones, in the projects and elsewhere.
    git: Vec<PathBuf>,
    /// Those and the ones of their worktrees and submodules.
    known_git: HashSet<PathBuf>,
}

#[derive(Debug)]
struct WatchedProject<'a> {
    survey: &'a ProjectSurvey,
    /// Protected names and folders of git's that were there, by their path: what the folder above each is.
    paths: HashMap<&'a Path, Identity>,
    /// What they are themselves, and when each was changed: with the folder that they lie in they can be moved.
    things: HashMap<Identity, Changed>,
}

impl<'a> ProtectionWatch<'a> {
    /// Begins before the program does. What is to be mounted must have been [sorted out](sort_out).
    pub(in crate::process) fn begin(surveys: &'a [ProjectSurvey], policy: &'a SandboxPolicy) -> Self {
        let since = coarse_time();
        let inside = surveys.iter().flat_map(ProjectSurvey::repositories);
        let git: Vec<PathBuf> = inside.chain(&policy.repositories).cloned().collect();
        let inner = git.iter().flat_map(|git| git_folders(git));
        let known_git = inner.chain(surveys.iter().flat_map(|survey| survey.git.clone())).collect();
        Self { policy, since, projects: surveys.iter().map(WatchedProject::of).collect(), git, known_git }
    }

    /// Gives other names to what must not stay. Nothing of the program may run any more.
    pub(in crate::process) fn end(&self, guards: &[Guard]) -> Vec<DisplacedName> {
        let mut displaced: Vec<DisplacedName> = guards.iter().flat_map(Guard::end).collect();
        // Submodules and worktrees that were not there before, in repositories that were.
        for git in self.git.iter().flat_map(|git| git_folders(git)) {
            if !self.known_git.contains(&git) {
                displaced.extend(disarm_one(&git));
            }
        }
        for git in self.projects.iter().flat_map(|project| &project.survey.loose) {
            displaced.extend(disarm(git));
        }
        for project in &self.projects {
            let Ok(root) = open_folder(CWD, &project.survey.root) else { continue };
            let mut search =
                AftermathSearch { watch: self, project, root, displaced: Vec::new(), room: MOST_NEW };
            search.run();
            displaced.append(&mut search.displaced);
        }
        displaced.sort_by_cached_key(ToString::to_string);
        displaced
    }
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
    fn is_known(&self, path: &Path) -> bool {
        lstat(path).is_ok_and(|this| self.things.contains_key(&identity(&this)))
    }

    /// The same, and nothing of it was changed, nor its name.
    fn is_unchanged(&self, this: &Stat) -> bool {
        self.things.get(&identity(this)) == Some(&changed(this))
    }
}

/// What is known of a folder's earlier content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Listing {
    /// All that had a protected name in it, which is nothing if it was not there.
    Whole,
    /// Nothing: it may have been there, beyond what was looked at. Only what was made since counts as new.
    Unsure,
}

/// Looking through one project in the end.
struct AftermathSearch<'a> {
    watch: &'a ProtectionWatch<'a>,
    project: &'a WatchedProject<'a>,
    root: OwnedFd,
    displaced: Vec<DisplacedName>,
    /// How many more folders that were not there are looked into.
    room: usize,
}

impl AftermathSearch<'_> {
    fn run(&mut self) {
        let survey = self.project.survey;
        let known: HashSet<&Path> = survey.folders.iter().map(|(path, _)| path.as_path()).collect();
        for copy in &survey.copies {
            let (Some(above), Some(name)) = (copy.parent(), copy.file_name()) else { continue };
            if lstat(copy).is_ok()
                && !self.is_copy(copy)
                && let Ok(folder) = open_folder(CWD, above)
            {
                self.displaced.push(put_aside(&folder, above, name));
            }
        }
        for link in survey.links() {
            let is_changed = lstat(link).is_ok_and(|this| {
                !FileType::from_raw_mode(this.st_mode).is_dir() && !self.project.is_unchanged(&this)
            });
            let above = link.parent().filter(|_| is_changed);
            if let Some((above, Ok(folder))) = above.map(|above| (above, open_folder(CWD, above))) {
                self.judge_link(&folder, above);
            }
        }
        let mut new: Vec<PathBuf> = Vec::new();
        for (below, inode) in &survey.folders {
            let path = if below.as_os_str().is_empty() { Path::new(".") } else { below.as_path() };
            let Ok(stat) = statat(&self.root, path, AtFlags::SYMLINK_NOFOLLOW) else { continue };
            if stat.st_ino != *inode && !below.as_os_str().is_empty() {
                // Another folder has its place. What is in it may have been made long ago, elsewhere.
                new.push(below.clone());
            } else if changed(&stat) >= self.watch.since {
                let inner = self.look_into(below, Listing::Whole);
                new.extend(inner.into_iter().filter(|inner| !known.contains(inner.as_path())));
            }
        }
        while let Some(below) = new.pop() {
            let stat = statat(&self.root, &below, AtFlags::SYMLINK_NOFOLLOW);
            if survey.partial && !stat.is_ok_and(|stat| changed(&stat) >= self.watch.since) {
                // It was there all the time, beyond what was looked at.
                continue;
            }
            if self.room == 0 || below.components().count() > 2 * DEEPEST {
                self.displaced.push(DisplacedName::Beyond(lossy(&survey.root.join(below))));
                return;
            }
            self.room -= 1;
            let listing = if survey.partial { Listing::Unsure } else { Listing::Whole };
            new.extend(self.look_into(&below, listing));
        }
    }

    /// Gives other names to what must not stay in a folder. The folders in it are the result.
    fn look_into(&mut self, below: &Path, listing: Listing) -> Vec<PathBuf> {
        let above = self.project.survey.root.join(below);
        let Ok(folder) = open_folder(&self.root, below) else { return Vec::new() };
        let mut signs = GitSigns::default();
        let mut found: Vec<(OsString, PlaceKind)> = Vec::new();
        let Ok(entries) = Dir::read_from(&folder) else { return Vec::new() };
        for entry in entries.flatten() {
            let name = std::ffi::OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            signs.see(name);
            let is_folder = match entry.file_type() {
                FileType::Unknown => statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW)
                    .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode).is_dir()),
                kind => kind.is_dir(),
            };
            let kind = PlaceKind::of(name, is_folder);
            if kind != PlaceKind::Other {
                found.push((name.to_owned(), kind));
            }
        }
        let of_git = signs.are_those_of_git();
        if of_git && !self.was_there_as_git(&above, listing) {
            self.displaced.extend(disarm_one(&above));
        }
        let mut inner = Vec::new();
        for (name, kind) in found {
            match kind {
                PlaceKind::Folder if of_git && name == "objects" => {}
                PlaceKind::Folder => inner.push(below.join(&name)),
                _ if self.was_there(&folder, &above.join(&name), listing) => {}
                _ if self.watch.policy.permits(&above.join(&name)) => {}
                _ if !self.watch.policy.permitted_in(&above.join(&name)).is_empty() => {
                    let path = above.join(&name);
                    let permitted = self.watch.policy.permitted_in(&path);
                    // Of a repository the whole folder of git's was asked about.
                    if kind == PlaceKind::Protected {
                        self.displaced.extend(Guard::of_opened(path, BTreeSet::new(), permitted).end());
                    }
                }
                PlaceKind::Git => self.displaced.extend(disarm(&above.join(&name))),
                PlaceKind::Protected if name == ".git" => self.judge_link(&folder, &above),
                _ if self.is_copy(&above.join(&name)) => {}
                PlaceKind::Protected | PlaceKind::Other => {
                    self.displaced.push(put_aside(&folder, &above, &name));
                }
            }
        }
        inner
    }

    /// Whether a folder that is one of git's by what is in it was there before.
    fn was_there_as_git(&self, path: &Path, listing: Listing) -> bool {
        self.watch.known_git.contains(path)
            || self.project.is_known(path)
            || listing == Listing::Unsure && !self.was_made(CWD, path)
    }

    /// Whether something was there before: at the same place, or elsewhere and was moved with the folder that it is in.
    fn was_there(&self, folder: &OwnedFd, path: &Path, listing: Listing) -> bool {
        let (Some(name), Ok(above)) = (path.file_name(), rustix::fs::fstat(folder)) else { return false };
        let is_link = path.ends_with(".git") && !self.project.survey.is_at_root(path);
        if self.project.paths.get(path) == Some(&identity(&above)) && !is_link {
            return true;
        }
        let is_known = |this: Stat| {
            // Git changes its own folder all the time, and that one is mounted: nobody can have taken it away.
            let is_gits = name == ".git" && FileType::from_raw_mode(this.st_mode).is_dir();
            self.project.is_unchanged(&this) || is_gits && self.project.things.contains_key(&identity(&this))
        };
        statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).is_ok_and(is_known)
            || listing == Listing::Unsure && !self.was_made(folder, Path::new(name))
    }

    /// Whether something was made since the program began, as far as the file system tells.
    fn was_made(&self, folder: impl AsFd, path: &Path) -> bool {
        let flags = StatxFlags::BTIME;
        statx(folder, path, AtFlags::SYMLINK_NOFOLLOW, flags).is_ok_and(|this| {
            let born = (this.stx_btime.tv_sec, i64::from(this.stx_btime.tv_nsec));
            StatxFlags::from_bits_retain(this.stx_mask).contains(flags) && born >= self.watch.since
        })
    }

    /// Whether something is like what was there at the same name elsewhere in the project: it says nothing new.
    fn is_copy(&self, path: &Path) -> bool {
        let WatchedProject { survey, paths, .. } = self.project;
        let same_name = survey.mounted().filter(|known| known.file_name() == path.file_name());
        same_name.take(MOST_COMPARED).any(|known| {
            // Not with what has taken its place meanwhile.
            let above = known.parent().and_then(|above| lstat(above).ok()).map(|above| identity(&above));
            above.is_some() && paths.get(known.as_path()).copied() == above && is_copy(known, path)
        })
    }

    /// A new file `.git` may lead to a folder of git's that is protected, or to one in the project that runs nothing.
    fn judge_link(&mut self, folder: &OwnedFd, above: &Path) {
        match target(folder, above) {
            // What was made in there has been looked at.
            Some(git) if self.watch.git.iter().any(|known| git.starts_with(known)) => {}
            Some(git) if self.project.is_known(&git) => {}
            Some(git) if git.starts_with(&self.project.survey.root) => self.displaced.extend(disarm(&git)),
            _ => self.displaced.push(put_aside(folder, above, ".git".as_ref())),
        }
    }
}

fn identity(stat: &Stat) -> Identity {
    (stat.st_dev, stat.st_ino)
}

fn changed(stat: &Stat) -> Changed {
    (stat.st_ctime, i64::try_from(stat.st_ctime_nsec).unwrap_or_default())
}

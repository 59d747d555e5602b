//! The files that a program in the sandbox sees: a new root that is empty but for what the policy lists.
//!
//! What is listed is taken hold of first, as copies of its mounts, before anything is covered. Then the root is filled,
//! outer places before inner ones, and takes the place of the old one, which nothing leads to any more.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, openat};
use rustix::io::Errno;
use rustix::mount::{MountPropagationFlags, UnmountFlags, mount_change, unmount};
use rustix::process::{chdir, fchdir, pivot_root};

use super::fault::{MOVED, SandboxFault, during};
use super::guard::Guard;
use super::kernel::{make_read_only, make_this_read_only};
use super::policy::{SandboxPolicy, is_of_system};
use super::protection::{WritablePlaces, protect, protected};
use super::report::SandboxPart;
use super::settled::SurveyedProjects;
use super::spares::Spares;
use super::stage::{Stage, attach, copy, copy_at, hold, identity, mount_number, new_mount};

/// Where the new root is put together: folders of which every system has one. What they hold is taken hold of before.
const WORKSHOPS: [&str; 3] = ["/tmp", "/usr", "/etc"];

/// Devices that programs need, none of which leads to data.
pub(super) const DEVICES: [&str; 6] = ["full", "null", "random", "tty", "urandom", "zero"];

/// Links that programs expect among the devices.
const DEVICE_LINKS: [(&str, &str); 5] = [
    ("fd", "/proc/self/fd"),
    ("ptmx", "pts/ptmx"),
    ("stderr", "/proc/self/fd/2"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
];

/// What of `/proc` says how the whole machine works. Root may change it without any right of root's.
const MACHINE: [&str; 4] = ["bus", "irq", "sys", "sysrq-trigger"];

/// What is to be at a place of the new root. Of two at one place the later one covers the earlier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Filling {
    /// An empty folder that can be written to.
    Scratch,
    Readable,
    Writable,
    /// Nothing, in the place of something.
    Hidden,
}

/// What there is in a new root.
pub(super) struct EnteredRoot {
    /// What must be looked at in the end.
    pub(super) guards: Vec<Guard>,
    /// What was put there.
    pub(super) places: BTreeSet<PathBuf>,
}

/// Makes the root of this process what the policy lists, and goes to a folder in it.
pub(super) fn enter(
    policy: &SandboxPolicy,
    projects: &SurveyedProjects,
    folder: &Path,
) -> Result<EnteredRoot, SandboxFault> {
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        .map_err(during("keeping mounts to itself"))?;
    let plan = Plan::of(policy)?;
    let protected = protected(policy, &projects.surveys)?;
    let (writable, places) = (plan.writable(), plan.all_places());
    let spares = plan.spares(&protected, &places).map_err(during("protecting files"))?;
    let workshop = WORKSHOPS.iter().find(|folder| Path::new(folder).is_dir()).copied().unwrap_or("/");
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let workshop = openat(CWD, workshop, flags, Mode::empty()).map_err(during("finding room for a root"))?;
    let mut stage = Stage::on(&workshop).map_err(during("making a root"))?;
    make_proc(&stage, policy).map_err(during("/proc"))?;
    let covers = plan.fill(&mut stage)?;
    let guards = protect(&stage, spares, policy, projects, &protected, &writable)?;
    for path in covers {
        let close = || make_this_read_only(stage.find(&path)?.as_fd());
        close().map_err(during(path.display()))?;
    }
    make_this_read_only(stage.root.as_fd()).map_err(during("closing the root"))?;
    fchdir(&stage.root).map_err(during("going to the root"))?;
    pivot_root(".", ".").map_err(during("changing the root"))?;
    unmount(".", UnmountFlags::DETACH).map_err(during("leaving the old root"))?;
    chdir(folder).map_err(during(folder.display()))?;
    Ok(EnteredRoot { guards, places })
}

/// What goes where, with copies of the mounts.
struct Plan {
    places: Vec<(PathBuf, Filling, Option<OwnedFd>)>,
    /// What of it was taken hold of, before anything was copied.
    held: HashMap<PathBuf, OwnedFd>,
    links: BTreeMap<PathBuf, PathBuf>,
    devices: Vec<(String, OwnedFd)>,
    null: OwnedFd,
}

/// Whether a link on the way to a path is one that an earlier command can have made, or leads to what is hidden. Whoever
/// made it must not decide what the next one sees.
fn may_be_planted(path: &Path, real: &Path, policy: &SandboxPolicy) -> bool {
    let around = policy.writable.iter().filter(|folder| path.starts_with(folder) && path != folder.as_path());
    let is_planted = around.into_iter().any(|folder| {
        let below = path.strip_prefix(folder).unwrap_or(path);
        !fs::canonicalize(folder).is_ok_and(|folder| folder.join(below) == real)
    });
    let is_secret = || {
        let hidden = policy.hidden.iter().filter_map(|hidden| fs::canonicalize(hidden).ok());
        hidden.into_iter().any(|hidden| real.starts_with(hidden))
    };
    // Of the system's there are many, and no command makes them.
    is_planted || !is_of_system(path) && (is_secret() || lies_in_repository(path, policy))
}

/// Whether a link on the way to a path lies in a repository: commands can work there, now or at other times. The home folder
/// may be one, and its links are the person's.
fn lies_in_repository(path: &Path, policy: &SandboxPolicy) -> bool {
    let links = path.ancestors().filter(|at| at.is_symlink());
    let around = links.flat_map(|link| link.ancestors().skip(1));
    let is_home = |folder: &Path| policy.scratch.iter().any(|home| home == folder);
    around.into_iter().any(|folder| !is_home(folder) && fs::symlink_metadata(folder.join(".git")).is_ok())
}

/// The folders between something writable and what in it can only be read or is hidden. They are mounted on themselves:
/// with one that was moved, what lies in it would be somewhere else for the next program.
fn pinned(wanted: &[(PathBuf, Filling)]) -> Vec<PathBuf> {
    let places = |filling| wanted.iter().filter(move |(_, of)| *of == filling).map(|(path, _)| path);
    let readable: BTreeSet<&Path> = places(Filling::Readable).map(PathBuf::as_path).collect();
    let inner = wanted.iter().filter(|(_, of)| matches!(of, Filling::Readable | Filling::Hidden));
    let mut pinned = BTreeSet::new();
    for (path, _) in inner {
        let around = places(Filling::Writable).filter(|outer| path.starts_with(outer) && path != *outer);
        let Some(outermost) = around.min_by_key(|outer| outer.components().count()) else { continue };
        let way = path.ancestors().skip(1).take_while(|at| *at != outermost.as_path());
        // What can only be read is a mount already, and nothing in it can be moved.
        let way: Vec<&Path> = way.collect();
        pinned.extend(way.into_iter().rev().take_while(|at| !readable.contains(at)).map(Path::to_owned));
    }
    pinned.into_iter().collect()
}

impl Plan {
    fn of(policy: &SandboxPolicy) -> Result<Self, SandboxFault> {
        let mut wanted: Vec<(PathBuf, Filling)> = Vec::new();
        let mut links = BTreeMap::new();
        let mut held: HashMap<PathBuf, OwnedFd> = HashMap::new();
        let mut want = |path: &PathBuf, filling| {
            // What is not there is passed over, and so is what this account may not see.
            // Most of it is not there, and one look is cheaper than finding out where a path leads.
            if fs::symlink_metadata(path).is_err() {
                return;
            }
            let Ok(real) = fs::canonicalize(path) else { return };
            if filling != Filling::Hidden && real != *path && may_be_planted(path, &real, policy) {
                return;
            }
            // A link may be there by now. Without it, what was looked at is what is held.
            if let Ok(open) = hold(&real) {
                held.entry(real.clone()).or_insert(open);
            }
            if real != *path && filling != Filling::Hidden {
                links.insert(path.clone(), real.clone());
            }
            wanted.push((real, filling));
        };
        policy.readable.iter().for_each(|path| want(path, Filling::Readable));
        policy.writable.iter().for_each(|path| want(path, Filling::Writable));
        policy.hidden.iter().for_each(|path| want(path, Filling::Hidden));
        // Names are looked up there, and the file is often a link to a place that is not listed.
        want(&PathBuf::from("/etc/resolv.conf"), Filling::Readable);
        links.remove(Path::new("/etc/resolv.conf"));
        let pinned = pinned(&wanted);
        for path in pinned {
            if let Ok(open) = hold(&path) {
                held.entry(path.clone()).or_insert(open);
            }
            wanted.push((path, Filling::Writable));
        }
        let empty = ["/run", "/tmp", "/var/tmp"].map(PathBuf::from);
        wanted.extend(empty.iter().chain(&policy.scratch).map(|path| (path.clone(), Filling::Scratch)));
        wanted.sort();
        wanted.dedup();

        let mut places = Vec::new();
        let mut around: Vec<(PathBuf, Filling)> = Vec::new();
        for (path, filling) in wanted {
            while around.last().is_some_and(|(outer, _)| !path.starts_with(outer)) {
                around.pop();
            }
            let covered = around.last().is_some_and(|(_, outer)| *outer == Filling::Readable);
            if filling == Filling::Readable && covered {
                continue;
            }
            let tree = match filling {
                Filling::Readable | Filling::Writable => Some(held.get(&path).ok_or(MOVED).and_then(copy_at)),
                Filling::Scratch => {
                    policy.temporary.as_ref().filter(|_| path == Path::new("/tmp")).map(|own| copy(own))
                }
                Filling::Hidden => None,
            };
            let tree = tree.transpose().map_err(during(path.display()))?;
            if let (Filling::Readable, Some(tree)) = (filling, &tree) {
                make_read_only(tree.as_fd()).map_err(during(path.display()))?;
            }
            around.push((path.clone(), filling));
            places.push((path, filling, tree));
        }
        let device = |name: &str| copy(&Path::new("/dev").join(name));
        let null = device("null").map_err(during("/dev/null"))?;
        let devices = DEVICES.iter().filter_map(|name| Some(((*name).to_owned(), device(name).ok()?)));
        let mut devices: Vec<_> = devices.collect();
        // The terminal's own name is not in the sandbox; programs that ask for one find this.
        let terminal = fs::read_link("/proc/self/fd/0").ok().filter(|path| path.starts_with("/dev/pts"));
        devices.extend(terminal.and_then(|path| Some(("console".to_owned(), copy(&path).ok()?))));
        Ok(Self { places, held, links, devices, null })
    }

    /// What can be changed, by its real paths. They cannot be looked up once the new root covers the old one.
    fn writable(&self) -> WritablePlaces {
        let is_writable = |filling: &Filling| *filling == Filling::Writable;
        let all = self.places.iter().map(|(path, filling, _)| (path.clone(), is_writable(filling)));
        let writable = self.places.iter().filter(|(_, filling, _)| is_writable(filling));
        WritablePlaces { places: all.collect(), writable: writable.map(|(path, ..)| path.clone()).collect() }
    }

    /// Second copies of what is writable and has something protected in it.
    fn spares<'a>(
        &self,
        protected: &[(PathBuf, PathBuf)],
        places: &'a BTreeSet<PathBuf>,
    ) -> rustix::io::Result<Spares<'a>> {
        let mut needed = Vec::new();
        for (path, filling, tree) in &self.places {
            let from = protected.partition_point(|(_, inner)| inner <= path);
            let is_needed = protected.get(from).is_some_and(|(_, inner)| inner.starts_with(path));
            // The root of all stays what it is.
            if let Some(tree) = tree.as_ref().filter(|_| is_needed && path.parent().is_some()) {
                let original = self.held.get(path).filter(|_| *filling == Filling::Writable);
                if let Some(original) = original {
                    needed.push((path, original, mount_number(tree)?));
                }
            }
        }
        Spares::of(needed, places)
    }

    /// Everything that is put into the root.
    fn all_places(&self) -> BTreeSet<PathBuf> {
        self.places.iter().map(|(path, ..)| path).chain(self.links.keys()).cloned().collect()
    }

    /// Fills the new root. The folders that nothing may be put into any more are the result.
    fn fill(self, stage: &mut Stage) -> Result<Vec<PathBuf>, SandboxFault> {
        let mut covers = Vec::new();
        make_devices(stage, self.devices).map_err(during("/dev"))?;
        for (path, filling, tree) in self.places {
            let put = |stage: &mut Stage| match (filling, tree) {
                (_, Some(tree)) => {
                    let is_folder = FileType::from_raw_mode(fstat(&tree)?.st_mode).is_dir();
                    let place = if is_folder { stage.folder(&path) } else { stage.file(&path) };
                    // In something else that was put there it is what was taken hold of, or was moved since.
                    let place = match place {
                        Err(Errno::LOOP | Errno::NOENT | Errno::NOTDIR) => Err(MOVED),
                        Ok(place) if stage.is_foreign(&place)? && identity(&place)? != identity(&tree)? => {
                            Err(MOVED)
                        }
                        other => other,
                    }?;
                    if filling == Filling::Scratch {
                        stage.adopt(&tree)?;
                    }
                    attach(&tree, &place)
                }
                (Filling::Hidden, None) => match stage.find(&path) {
                    Ok(place) if FileType::from_raw_mode(fstat(&place)?.st_mode).is_dir() => {
                        covers.push(path.clone());
                        stage.cover(&place)
                    }
                    Ok(place) => attach(&copy_at(&self.null)?, &place),
                    Err(Errno::NOENT | Errno::NOTDIR) => Ok(()),
                    Err(Errno::LOOP) => Err(MOVED),
                    Err(error) => Err(error),
                },
                (_, None) => {
                    let place = stage.folder(&path)?;
                    stage.open_up(&place)
                }
            };
            put(stage).map_err(during(path.display()))?;
        }
        for (path, target) in self.links {
            stage.link(&path, &target).map_err(during(path.display()))?;
        }
        Ok(covers)
    }
}

/// Makes `/proc`: of the processes in the sandbox where that can be had.
fn make_proc(stage: &Stage, policy: &SandboxPolicy) -> rustix::io::Result<()> {
    let own = policy.has(SandboxPart::Processes) && policy.has(SandboxPart::Proc);
    let tree = if own { new_mount("proc", &[])? } else { copy(Path::new("/proc"))? };
    attach(&tree, &stage.folder(Path::new("/proc"))?)?;
    for name in MACHINE {
        let Ok(place) = stage.find(&Path::new("/proc").join(name)) else { continue };
        let tree = copy_at(&place)?;
        make_read_only(tree.as_fd()).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        attach(&tree, &place)?;
    }
    Ok(())
}

/// Makes `/dev`, with terminals and shared memory of its own.
fn make_devices(stage: &mut Stage, devices: Vec<(String, OwnedFd)>) -> rustix::io::Result<()> {
    let dev = Path::new("/dev");
    for (name, device) in devices {
        attach(&device, &stage.file(&dev.join(name))?)?;
    }
    for (name, target) in DEVICE_LINKS {
        stage.link(&dev.join(name), Path::new(target))?;
    }
    let memory = stage.folder(&dev.join("shm"))?;
    stage.open_up(&memory)?;
    let terminals = new_mount("devpts", &[("ptmxmode", "0666"), ("mode", "0620")])?;
    attach(&terminals, &stage.folder(&dev.join("pts"))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_between_what_can_be_changed_and_what_cannot_are_pinned() {
        use Filling::{Hidden, Readable, Writable};
        let wanted = [
            ("/p", Writable),
            ("/p/a/tools", Readable),
            // From the outermost that can be changed.
            ("/p/b", Writable),
            ("/p/b/c/key", Hidden),
            // In what can only be read nothing can be moved.
            ("/p/r", Readable),
            ("/p/r/x/key", Hidden),
            ("/p/key", Hidden),
            ("/usr/x/key", Hidden),
            ("/usr", Readable),
        ];
        let pinned = pinned(&wanted.map(|(path, filling)| (PathBuf::from(path), filling)));
        assert_eq!(pinned, ["/p/a", "/p/b", "/p/b/c"].map(PathBuf::from));
    }
}

//! Walking a folder for the tools that look for files: by gitignore rules, on all cores, and never out of the folder.
//!
//! Names come from a walk over paths, but a file is opened, and a name shown, only through the folder that was
//! permitted and without following links. A folder that is swapped for a link while the walk goes on therefore leads
//! nowhere. What is not an ordinary file is passed over, also where ignore rules are expected: opening a pipe would
//! wait for somebody to write.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{fs, io, thread};

use ignore::WalkBuilder;
use rustix::fs::{AtFlags, OFlags};
use tokio_util::sync::CancellationToken;

use crate::folder::{OpenFolder, open_beneath};
use crate::ignore_rules;
use crate::process::sandbox::SecretPlaces;
use crate::replacement::STAGED;
use crate::scope::{self, PathAccess, Scope};
use crate::target::Target;
use crate::tool::{Context, Failure, Need};
use crate::write::blocking;

/// The folder of a repository's own data: never searched, never shown.
const GIT: &[u8] = b".git";

/// How long a walk may take before it ends with what it has.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// How much longer to wait for a walk that does not even look at the clock.
const STUCK: Duration = Duration::from_secs(5);

/// How many places with secrets a result names.
const SECRETS_NAMED: usize = 10;

/// When the file was last changed: seconds and nanoseconds.
pub(crate) type Modified = (i64, i64);

/// A place to look in: as it was written, and as it really is.
#[derive(Debug, Clone)]
pub(crate) struct SearchRoot {
    target: Target,
    managed: bool,
    secrets: Arc<SecretPlaces>,
}

impl SearchRoot {
    /// The path that a call names, or the project folder.
    pub(crate) fn named(path: Option<&str>, scope: &Scope) -> PathBuf {
        path.map_or_else(|| scope.directory.clone(), |path| scope.resolve(path))
    }

    /// Where a permitted path leads.
    pub(crate) fn granted(shown: PathBuf, context: &Context) -> Result<Self, Failure> {
        let target = context.searched(shown)?;
        let managed = target.real().starts_with(scope::real(&context.scope.output_dir));
        Ok(Self { target, managed, secrets: Arc::new(SecretPlaces::of(&context.scope)) })
    }

    /// What paths are shown under.
    pub(crate) fn shown(&self) -> &Path {
        self.target.path()
    }

    /// Whether it is a folder; a failure if there is nothing.
    pub(crate) fn is_folder(&self) -> Result<bool, Failure> {
        match fs::symlink_metadata(self.target.real()) {
            Ok(meta) => Ok(meta.is_dir()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(Failure::Failed(format!("{} does not exist.", self.shown().display())))
            }
            Err(error) => Err(Failure::io("look into", self.shown(), &error)),
        }
    }

    /// Where it leads.
    pub(crate) fn target(&self) -> &Target {
        &self.target
    }

    /// Opens the place itself, which is not a folder.
    pub(crate) fn open(&self) -> Result<File, Failure> {
        let opened = self.target.open().map_err(|error| error.failure("search", self.shown()));
        opened.map(|(file, _)| file)
    }

    /// Opens the folder.
    pub(crate) fn tree(self) -> Result<SearchTree, Failure> {
        if !self.is_folder()? {
            return Err(Failure::Failed(format!("{} is not a folder.", self.shown().display())));
        }
        match OpenFolder::reach(self.target.real()).and_then(|folder| folder.listed()) {
            Ok(dir) => Ok(SearchTree {
                place: self,
                dir: Arc::new(dir),
                unread: Arc::default(),
                secret: Arc::default(),
            }),
            Err(error) => Err(Failure::io("look into", self.shown(), &error)),
        }
    }
}

/// The permissions of a search: the tool's own, and that of a place outside the project.
pub(crate) fn needs(own: Need, path: &Path, scope: &Scope) -> Vec<Need> {
    scope.external(path, PathAccess::Read).into_iter().chain([own]).collect()
}

/// A folder that is being searched.
#[derive(Debug)]
pub(crate) struct SearchTree {
    place: SearchRoot,
    dir: Arc<OwnedFd>,
    unread: Arc<AtomicUsize>,
    /// What holds secrets and was passed over.
    secret: Arc<Mutex<BTreeSet<PathBuf>>>,
}

impl SearchTree {
    /// The walk through it: hidden files too, ignored ones not, no links, nothing of git's own, and no file that a
    /// change of files left beside its place.
    pub(crate) fn walk(&self) -> WalkBuilder {
        self.walk_where(|_| true)
    }

    /// The same, without what is not wanted; a folder is left out with all that is in it.
    pub(crate) fn walk_where(&self, wanted: impl Fn(&Path) -> bool + Send + Sync + 'static) -> WalkBuilder {
        let root = self.place.target.real();
        let mut walk = WalkBuilder::new(root);
        walk.current_dir(root).hidden(false).threads(thread::available_parallelism().map_or(1, usize::from));
        let none = Path::new("");
        let above = root.ancestors().any(|folder| !ignore_rules::are_readable(rustix::fs::CWD, none, folder));
        // What is in the folder of managed files was put there by us, whatever a rule above it says.
        if self.place.managed || above {
            walk.standard_filters(false);
        }
        if above {
            self.passed_over();
        }
        let (unread, dir, root) = (Arc::clone(&self.unread), Arc::clone(&self.dir), root.to_owned());
        let (secrets, secret) = (Arc::clone(&self.place.secrets), Arc::clone(&self.secret));
        walk.filter_entry(move |entry| {
            let below = below(&root, entry.path());
            let name = below.as_os_str().as_bytes().rsplit(|byte| *byte == b'/').next().unwrap_or_default();
            if name == GIT || name.starts_with(STAGED.as_bytes()) || !wanted(below) {
                return false;
            }
            // Such a place has to be named, and permitted by its name.
            if !below.as_os_str().is_empty() && secrets.name(entry.path()) {
                secret.lock().unwrap_or_else(PoisonError::into_inner).insert(below.to_owned());
                return false;
            }
            let folder = entry.file_type().is_some_and(|kind| kind.is_dir());
            if !folder || ignore_rules::are_readable(&*dir, Path::new(""), below) {
                return true;
            }
            unread.fetch_add(1, Ordering::Relaxed);
            false
        });
        walk
    }

    /// The path below the folder, of one that a walk has found.
    pub(crate) fn below<'p>(&self, path: &'p Path) -> &'p Path {
        below(self.place.target.real(), path)
    }

    /// Where the folder really is.
    pub(crate) fn real(&self) -> &Path {
        self.place.target.real()
    }

    /// The path as it is shown, of one below the folder.
    pub(crate) fn shown(&self, below: &Path) -> PathBuf {
        self.place.shown().join(below)
    }

    /// When a file below the folder was last changed.
    pub(crate) fn modified(&self, below: &Path) -> io::Result<Modified> {
        let found = rustix::fs::statat(&*self.dir, below, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok((found.st_mtime, i64::try_from(found.st_mtime_nsec).unwrap_or_default()))
    }

    /// Opens a file below the folder; no link on the way is followed, and opening never waits.
    pub(crate) fn open(&self, below: &Path) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        open_beneath(&*self.dir, below, flags).map(File::from)
    }

    /// Whether a path that was found is below the folder without any link on the way.
    pub(crate) fn holds(&self, below: &Path) -> bool {
        #[cfg(target_os = "linux")]
        let flags = OFlags::PATH;
        #[cfg(not(target_os = "linux"))]
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        open_beneath(&*self.dir, below, flags).is_ok()
    }

    /// Counts something that could not be read.
    pub(crate) fn passed_over(&self) {
        self.unread.fetch_add(1, Ordering::Relaxed);
    }

    /// What holds secrets and was passed over, as it is shown.
    fn secret(&self) -> Vec<String> {
        let secret = self.secret.lock().unwrap_or_else(PoisonError::into_inner);
        secret.iter().map(|below| self.shown(below).display().to_string()).collect()
    }

    /// How much could not be read.
    pub(crate) fn unread(&self) -> usize {
        self.unread.load(Ordering::Relaxed)
    }
}

/// The path below a folder, of one that a walk of it has found: the walk writes the folder in front of each as it is.
fn below<'p>(root: &Path, path: &'p Path) -> &'p Path {
    let behind = path.as_os_str().as_bytes().get(root.as_os_str().len()..).unwrap_or_default();
    Path::new(OsStr::from_bytes(behind.strip_prefix(b"/").unwrap_or(behind)))
}

/// When a file was last changed.
pub(crate) fn modified(meta: &fs::Metadata) -> Modified {
    (meta.mtime(), meta.mtime_nsec())
}

/// When to stop: told to, or out of time.
#[derive(Debug)]
pub(crate) struct StopCondition {
    cancel: CancellationToken,
    deadline: Instant,
    late: AtomicBool,
}

impl StopCondition {
    /// Whether to stop now.
    pub(crate) fn now(&self) -> bool {
        if Instant::now() >= self.deadline {
            self.late.store(true, Ordering::Relaxed);
        }
        self.cancel.is_cancelled() || self.late.load(Ordering::Relaxed)
    }

    /// The failure of a call that was cancelled, once its walk is over.
    pub(crate) fn cancelled(&self) -> Result<(), Failure> {
        if self.cancel.is_cancelled() { Err(Failure::Cancelled) } else { Ok(()) }
    }

    /// Whether the walk ended because its time was over.
    pub(crate) fn late(&self) -> bool {
        self.late.load(Ordering::Relaxed)
    }
}

/// Looks up now and then whether to stop: the clock and the call are not asked at every file.
#[derive(Debug, Default)]
pub(crate) struct StopCheck(usize);

impl StopCheck {
    /// Whether to stop now.
    pub(crate) fn stops(&mut self, stop: &StopCondition) -> bool {
        self.0 = self.0.wrapping_add(1);
        self.0 % 64 == 1 && stop.now()
    }
}

/// Runs a walk away from the async threads, for so long at most.
pub(crate) async fn within<T: Send + 'static>(
    patience: Duration,
    cancel: CancellationToken,
    work: impl FnOnce(&StopCondition) -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let stop = StopCondition { cancel, deadline: Instant::now() + patience, late: AtomicBool::new(false) };
    tokio::time::timeout(patience + STUCK, blocking(move || work(&stop))).await.unwrap_or_else(|_| {
        Err(Failure::Failed(
            "The file system did not answer in time. Look in a smaller folder, or use `bash`.".to_owned(),
        ))
    })
}

/// What a result says about what it lacks, each remark on a line of its own.
pub(crate) fn remarks(tree: &SearchTree, stop: &StopCondition) -> String {
    let mut text = String::new();
    if stop.late() {
        text.push_str("\n\n(Time was over before everything was looked at. Use a narrower path.)");
    }
    match tree.unread() {
        0 => {}
        1 => text.push_str("\n\n(1 file or folder could not be read.)"),
        many => text.push_str(&format!("\n\n({many} files or folders could not be read.)")),
    }
    let secret = tree.secret();
    if let Some((first, rest)) = secret.split_first() {
        let named: String =
            rest.iter().take(SECRETS_NAMED - 1).flat_map(|path| [", ", path.as_str()]).collect();
        let more = match rest.len().saturating_sub(SECRETS_NAMED - 1) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        text.push_str(&format!(
            "\n\n(Passed over, because secrets may be in there: {first}{named}{more}. To look into one, name it.)"
        ));
    }
    text
}

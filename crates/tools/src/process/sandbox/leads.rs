//! What is protected because something protected leads to it: the places where links end, and what settings of git's name.
//!
//! Whoever changes such a place changes what the protected name means. Links on the way are protected as well. What leads
//! to the project itself, or to a folder around it, protects nothing: all of it would be closed.

use std::collections::{BTreeSet, HashSet, VecDeque};
use std::ffi::{OsStr, OsString};
use std::fs::{self, FileType};
use std::io;
use std::ops::Bound;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::git_settings::{NamedPlace, NamedPlaces};
use super::policy::SandboxPolicy;
use super::repository::git_folders;
use super::survey::{FILLED_BY_TOOLS, ProjectSurvey, survey, survey_root};
use crate::project::first_line;
use crate::protected::IN_GIT;
use crate::protected_home::ProtectedHome;

/// How many links are followed before a path is taken to lead nowhere.
const LINKS_MAX: usize = 40;

/// How many steps are taken in all to find out where everything leads. Each takes about a microsecond.
const MOST_STEPS: usize = 262_144;

/// How many places are protected because something leads there.
const MOST_LEADS: usize = 4096;

/// Why commands are not started in a project: what must be protected could not be told.
#[derive(Debug, thiserror::Error)]
#[error("too much in {0} is a protected link, or is named by settings of git's, to find out where it leads")]
struct TooManyLeads(PathBuf);

/// How old what is known for the tools for files may be. A call asks several times in a row.
const LATELY: Duration = Duration::from_millis(250);

/// How many projects are kept in mind for them.
const MOST_PROJECTS: usize = 16;

/// Folders of a home folder whose links are looked at although it is no project: shells, desktops and programs by name are
/// run from them, and a repository of dotfiles is what such links lead to.
const LINKED: [&str; 4] = ["", ".config", ".local/bin", "bin"];

/// Files with settings that hold for every repository of a person, below the home folder.
const PERSONAL: [&str; 2] = [".gitconfig", ".config/git/config"];

/// The same for every person.
const MACHINE: &str = "/etc/gitconfig";

/// The places that protected links of a project lead to, and that settings of its repositories, or of others that it is a
/// worktree of, name in it. All are real paths; some may not be there.
pub(super) fn leads(
    survey: &ProjectSurvey,
    elsewhere: &[PathBuf],
    home: Option<&Path>,
) -> io::Result<Vec<PathBuf>> {
    let mut found = FoundLeads::new(&survey.root);
    survey.protected_links.iter().for_each(|link| found.add_link(link));
    let mut trees = BTreeSet::from([survey.root.clone()]);
    for (git, is_inside) in
        survey.git.iter().map(|git| (git, true)).chain(elsewhere.iter().map(|git| (git, false)))
    {
        // Where they cannot be told, no program is started.
        let all = git_folders(git).unwrap_or_default();
        let is_of_module = |folder: &Path| {
            folder.strip_prefix(git).is_ok_and(|below| below.iter().any(|name| name == "modules"))
        };
        let main = if git.ends_with(".git") { git.parent() } else { Some(git.as_path()) };
        let main = main.filter(|_| is_inside).unwrap_or(&survey.root).to_owned();
        let linked =
            all.iter().filter(|folder| !is_of_module(folder)).filter_map(|folder| linked_tree(folder));
        let own: BTreeSet<PathBuf> = linked.chain([main]).collect();
        for folder in &all {
            found.add_links_of_git(folder);
            for name in ["config", "config.worktree"] {
                let named = NamedPlaces::of(&folder.join(name), home)?;
                let tree = named.work_tree.as_ref().map(|tree| folder.join(tree));
                if is_of_module(folder) {
                    let module = tree.into_iter().collect();
                    found.add_named(&named, &module, home);
                    trees.extend(module);
                } else {
                    found.add_named(&named, &own, home);
                }
            }
        }
        trees.extend(own);
    }
    let personal = home.into_iter().flat_map(|home| PERSONAL.map(|name| home.join(name)));
    for file in personal.chain([PathBuf::from(MACHINE)]) {
        found.add_named(&NamedPlaces::of(&file, home)?, &trees, home);
    }
    home.into_iter().for_each(|home| found.add_links_of_home(home));
    found.add_inner(&survey.links);
    if found.way.steps_left == 0 || found.places.len() > MOST_LEADS {
        return Err(io::Error::other(TooManyLeads(survey.root.clone())));
    }
    Ok(found.places.into_iter().collect())
}

/// The same for links of which something else, or nothing, is at their place now, and which other programs put back.
pub(super) fn leads_of_missing<'a>(
    survey: &ProjectSurvey,
    links: impl Iterator<Item = (&'a Path, &'a Path)>,
) -> Vec<PathBuf> {
    let mut found = FoundLeads::new(&survey.root);
    let inside = links.filter(|(link, _)| link.starts_with(&survey.root));
    for (link, target) in inside.filter(|(link, target)| fs::read_link(link).ok().as_deref() != Some(*target))
    {
        link.parent().into_iter().for_each(|above| found.add(&above.join(target)));
    }
    found.add_inner(&survey.links);
    found.places.into_iter().filter(|place| !survey.leads.contains(place)).collect()
}

/// The work tree that belongs to the folder of git's of a worktree.
fn linked_tree(git: &Path) -> Option<PathBuf> {
    let entry = git.join(first_line(&git.join("gitdir"))?.trim());
    entry.parent().map(Path::to_owned)
}

/// Places while they are being found.
struct FoundLeads<'a> {
    root: &'a Path,
    places: BTreeSet<PathBuf>,
    /// Those in which links have not been looked at.
    next: VecDeque<PathBuf>,
    way: Way,
}

impl<'a> FoundLeads<'a> {
    fn new(root: &'a Path) -> Self {
        Self { root, places: BTreeSet::new(), next: VecDeque::new(), way: Way::new(MOST_STEPS) }
    }

    /// Adds what a protected link leads to.
    fn add_link(&mut self, link: &Path) {
        if let (Ok(target), Some(above)) = (fs::read_link(link), link.parent()) {
            self.add(&above.join(target));
        }
    }

    /// Adds what links in a folder of git's lead to.
    fn add_links_of_git(&mut self, git: &Path) {
        IN_GIT.iter().for_each(|name| self.add_link(&git.join(name)));
        let hooks = fs::read_dir(git.join("hooks")).into_iter().flatten().flatten();
        let links = hooks.filter(|hook| hook.file_type().is_ok_and(|kind| kind.is_symlink()));
        links.for_each(|hook| self.add_link(&hook.path()));
    }

    /// Adds what links in a home folder lead to in the project, of those that something is run from.
    fn add_links_of_home(&mut self, home: &Path) {
        for folder in LINKED {
            let entries = fs::read_dir(home.join(folder)).into_iter().flatten().flatten();
            let links = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_symlink()));
            let is_meant = |name: &OsStr| !folder.is_empty() || name.as_encoded_bytes().starts_with(b".");
            let links = links.filter(|entry| is_meant(&entry.file_name()));
            links.for_each(|entry| self.add_inside(&entry.path()));
        }
    }

    /// Adds what settings name in work trees.
    fn add_named(&mut self, named: &NamedPlaces, trees: &BTreeSet<PathBuf>, home: Option<&Path>) {
        named.files.iter().for_each(|file| self.add_inside(file));
        for place in &named.places {
            let (NamedPlace::Path(name) | NamedPlace::File(name) | NamedPlace::Word(name)) = place;
            let below_home = name.strip_prefix("~/").zip(home).map(|(below, home)| home.join(below));
            for tree in trees {
                let path = below_home.clone().unwrap_or_else(|| tree.join(name));
                let there = self.kind(&path);
                let is_one = match place {
                    NamedPlace::Path(_) => true,
                    // What ends like a folder is the beginning of names of branches.
                    NamedPlace::File(_) => there.map_or(!name.ends_with('/'), |kind| kind.is_file()),
                    NamedPlace::Word(_) => there.is_some_and(|kind| kind.is_file()),
                };
                if is_one {
                    self.add_inside(&path);
                }
                if matches!(place, NamedPlace::File(_)) && there.is_none() {
                    self.add_ends(name, tree);
                }
            }
        }
    }

    /// Adds the files that a name with something before it means that only a shell can tell, such as `$PWD`.
    fn add_ends(&mut self, name: &str, tree: &Path) {
        for (at, _) in name.match_indices('/') {
            let Some(end) = name.get(at + 1..).filter(|end| !end.is_empty() && !end.starts_with('/')) else {
                continue;
            };
            let path = tree.join(end);
            if self.kind(&path).is_some_and(|kind| kind.is_file()) {
                self.add_inside(&path);
            }
        }
    }

    /// What is at a path, with links followed.
    fn kind(&mut self, path: &Path) -> Option<FileType> {
        self.way.step()?;
        fs::metadata(path).ok().map(|meta| meta.file_type())
    }

    /// Adds where a path ends, if that is in the project.
    fn add_inside(&mut self, path: &Path) {
        let Some((links, end)) = self.way.follow(path) else { return };
        if end.starts_with(self.root) {
            self.insert(links, end);
        }
    }

    /// Adds where a path ends, and the links on the way.
    fn add(&mut self, path: &Path) {
        if let Some((links, end)) = self.way.follow(path) {
            self.insert(links, end);
        }
    }

    /// Whether something lies in a folder of the project that tools fill, or is one. They must be able to make it anew.
    fn is_filled_by_tools(&self, path: &Path) -> bool {
        let below = path.strip_prefix(self.root).unwrap_or(Path::new(""));
        below.iter().any(|name| FILLED_BY_TOOLS.iter().any(|known| name == *known))
    }

    /// Links elsewhere are not the project's business.
    fn insert(&mut self, links: Vec<PathBuf>, end: PathBuf) {
        if !self.root.starts_with(&end) && !self.is_filled_by_tools(&end) && self.places.insert(end.clone()) {
            self.next.push_back(end);
        }
        self.places.extend(links.into_iter().filter(|link| link.starts_with(self.root)));
    }

    /// Adds what links in the places lead to, of which all in the project are given.
    fn add_inner(&mut self, links: &[PathBuf]) {
        // Sorted, those in a place follow one another. Each is taken once, however many places it lies in.
        let mut links: BTreeSet<&Path> = links.iter().map(PathBuf::as_path).collect();
        while let Some(place) = self.next.pop_front().filter(|_| self.places.len() <= MOST_LEADS) {
            let from = (Bound::Included(place.as_path()), Bound::Unbounded);
            let inner = links.range::<Path, _>(from).copied().take_while(|link| link.starts_with(&place));
            let inner: Vec<&Path> = inner.collect();
            for link in inner {
                links.remove(link);
                self.add_link(link);
            }
        }
    }
}

/// Following paths, one after the other.
struct Way {
    /// Once there are none, nothing more is followed.
    steps_left: usize,
    /// What lay on the way of an earlier path and is no link. Thousands of links share most of their way.
    passed: HashSet<PathBuf>,
    /// How often it was asked where something leads.
    asked: usize,
}

impl Way {
    fn new(steps_left: usize) -> Self {
        Self { steps_left, passed: HashSet::new(), asked: 0 }
    }

    fn step(&mut self) -> Option<()> {
        self.steps_left = self.steps_left.checked_sub(1)?;
        Some(())
    }

    /// Follows a path to where it ends, whether or not something is there. The links on the way come first. Nothing if they
    /// go round in circles, or if there are no steps left.
    fn follow(&mut self, path: &Path) -> Option<(Vec<PathBuf>, PathBuf)> {
        let steps = |path: &Path| -> Vec<OsString> {
            let steps =
                path.components().filter(|step| !matches!(step, Component::RootDir | Component::CurDir));
            steps.map(|step| step.as_os_str().to_owned()).rev().collect()
        };
        let (mut at, mut rest, mut links) = (PathBuf::from("/"), steps(path), Vec::new());
        while let Some(step) = rest.pop() {
            self.step()?;
            if step == ".." {
                at.pop();
                continue;
            }
            at.push(step);
            if self.passed.contains(&at) {
                continue;
            }
            self.asked += 1;
            let Ok(target) = fs::read_link(&at) else {
                if !rest.is_empty() {
                    self.passed.insert(at.clone());
                }
                continue;
            };
            if links.len() >= LINKS_MAX {
                return None;
            }
            links.push(at.clone());
            if target.is_absolute() {
                at = PathBuf::from("/");
            } else {
                at.pop();
            }
            rest.extend(steps(&target));
        }
        Some((links, at))
    }
}

/// What is known for the tools for files: the projects with the home folder, and when it was found out.
struct KnownLeads {
    projects: Vec<PathBuf>,
    home: ProtectedHome,
    since: Instant,
    places: Arc<Vec<PathBuf>>,
}

static KNOWN: Mutex<Vec<KnownLeads>> = Mutex::new(Vec::new());

/// The same places for tools that change files themselves. Of a project that is too large to be looked through, those that
/// names at its root lead to, and settings of the repository there.
pub(crate) fn known_leads(projects: Vec<PathBuf>, home: &ProtectedHome) -> Arc<Vec<PathBuf>> {
    known_leads_at(Instant::now(), projects, home)
}

/// The same at a time.
fn known_leads_at(now: Instant, projects: Vec<PathBuf>, home: &ProtectedHome) -> Arc<Vec<PathBuf>> {
    let all = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let lately = |known: &KnownLeads| now.duration_since(known.since) < LATELY;
    let is_it = |known: &KnownLeads| known.projects == projects && known.home == *home;
    if let Some(known) = all().iter().find(|known| lately(known) && is_it(known)) {
        return Arc::clone(&known.places);
    }
    // Others must not wait for a project that takes long.
    let places = Arc::new(look(&projects, home));
    let mut all = all();
    all.retain(|known| lately(known) && !is_it(known));
    all.truncate(MOST_PROJECTS - 1);
    let found =
        KnownLeads { projects, home: home.clone(), since: Instant::now(), places: Arc::clone(&places) };
    all.insert(0, found);
    places
}

fn look(projects: &[PathBuf], home: &ProtectedHome) -> Vec<PathBuf> {
    let policy =
        SandboxPolicy { projects: projects.to_vec(), home: home.clone(), ..SandboxPolicy::default() };
    if let Ok(surveys) = survey(&policy) {
        return surveys.into_iter().flat_map(|survey| survey.leads).collect();
    }
    let roots = projects.iter().filter_map(|project| fs::canonicalize(project).ok());
    let leads = roots.filter_map(|root| leads(&survey_root(&root, &home.real()), &[], home.folder()).ok());
    leads.flatten().collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn paths_are_followed_to_where_they_end() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("real/inner")).unwrap();
        symlink("real", root.join("door")).unwrap();
        symlink("../door/inner", root.join("real/back")).unwrap();
        symlink("round", root.join("round")).unwrap();
        let check = |path: &str, links: &[&str], end: &str| {
            let links = links.iter().map(|name| root.join(name)).collect();
            assert_eq!(Way::new(100).follow(&root.join(path)), Some((links, root.join(end))), "{path}");
        };
        check("real/inner", &[], "real/inner");
        check("door/back/../x/new", &["door", "real/back", "door"], "real/x/new");
        check("./none/../real", &[], "real");
        assert_eq!(Way::new(1000).follow(&root.join("round/x")), None);
        // Nor where there are no steps left.
        assert_eq!(Way::new(1).follow(&root.join("real/inner")), None);
    }

    fn links(root: &Path, folder: &str, count: usize, target: impl Fn(usize) -> String) -> Vec<PathBuf> {
        fs::create_dir_all(root.join(folder)).unwrap();
        let paths: Vec<PathBuf> = (0..count).map(|at| root.join(folder).join(at.to_string())).collect();
        paths.iter().enumerate().for_each(|(at, path)| symlink(target(at), path).unwrap());
        paths
    }

    #[test]
    fn what_links_have_in_common_is_looked_at_once() {
        // Four thousand links into one folder took four thousand times the depth of it.
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let links = links(&root, "a/b/c", 100, |at| format!("../../../t/u/v/{at}"));
        let mut found = FoundLeads::new(&root);
        links.iter().for_each(|link| found.add_link(link));
        let in_common = root.join("a/b/c").components().count() - 1 + "tuv".len();
        assert_eq!((found.places.len(), found.way.asked), (100, 100 + in_common));
    }

    #[test]
    fn what_leads_to_more_places_than_are_protected_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let protected_links = links(&root, ".github/l", MOST_LEADS + 1, |at| format!("../../t/{at}"));
        let mut survey = ProjectSurvey { root, protected_links, ..ProjectSurvey::default() };
        assert!(leads(&survey, &[], None).is_err());
        survey.protected_links.pop();
        assert_eq!(leads(&survey, &[], None).unwrap().len(), MOST_LEADS);
    }

    #[test]
    fn links_in_places_are_taken_once_and_only_so_many() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let first = links(&root, ".github/l", 3, |at| format!("../../t/{at}"));
        let second = links(&root, "t/0", 3, |at| format!("../../end/{at}"));
        let beside = links(&root, "t/00", 1, |_| "../../no".to_owned());
        let both = [second, beside].concat();
        let mut found = FoundLeads::new(&root);
        first.iter().for_each(|link| found.add_link(link));
        found.add_inner(&both);
        let expected = ["end/0", "end/1", "end/2", "t/0", "t/1", "t/2"].map(|name| root.join(name));
        assert_eq!(found.places, BTreeSet::from(expected));
        let places = Vec::from_iter(found.places);
        let survey = ProjectSurvey { root, protected_links: first, links: both, ..ProjectSurvey::default() };
        assert_eq!(leads(&survey, &[], None).unwrap(), places);
        let many = std::iter::repeat_n(survey.protected_links.clone(), 40_000).flatten();
        let survey = ProjectSurvey { protected_links: many.collect(), ..survey };
        let refused = leads(&survey, &[], None).unwrap_err().to_string();
        let root = survey.root.display();
        assert_eq!(
            refused,
            format!(
                "too much in {root} is a protected link, or is named by settings of git's, to find out where it leads"
            )
        );
    }

    #[test]
    fn settings_of_the_person_name_places_too() {
        for name in [".gitconfig", ".config/git/config"] {
            let folder = tempfile::tempdir().unwrap();
            let root = folder.path().canonicalize().unwrap();
            let home = root.join("home");
            fs::create_dir_all(home.join(name).parent().unwrap()).unwrap();
            fs::write(home.join(name), "[core]\n\tfsmonitor = tools/monitor\n").unwrap();
            let survey = ProjectSurvey { root: root.join("project"), ..ProjectSurvey::default() };
            let found = leads(&survey, &[], Some(&home)).unwrap();
            assert_eq!(found, [root.join("project/tools/monitor")], "{name}");
        }
    }

    #[test]
    fn what_was_found_is_believed_for_a_while() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let home = ProtectedHome::default();
        let now = Instant::now();
        let check = |now: Instant, expected: &[&str]| {
            let expected: Vec<PathBuf> = expected.iter().map(|name| root.join(name)).collect();
            assert_eq!(*known_leads_at(now, vec![root.clone()], &home), expected);
        };
        check(now, &[]);
        symlink("guide.md", root.join("AGENTS.md")).unwrap();
        check(now, &[]);
        // Of that project, and with that home folder.
        let found = vec![root.join("guide.md")];
        assert_eq!(*known_leads_at(now, vec![root.clone(), root.join("none")], &home), found);
        let other = ProtectedHome::new(&root.join("home"), [], []);
        assert_eq!(*known_leads_at(now, vec![root.clone()], &other), found);
        check(Instant::now() + LATELY, &["guide.md"]);
    }

    #[test]
    fn what_leads_around_a_project_and_what_lies_elsewhere_is_not_protected() {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        let root = base.join("project");
        fs::create_dir_all(root.join("docs")).unwrap();
        let link = |target: &str, name: &str| {
            symlink(target, base.join(name)).unwrap();
            base.join(name)
        };
        link("project/docs", "way");
        let protected_links = vec![
            link(".", "project/.claude"),
            link("..", "project/.cursor"),
            link("../way/guide.md", "project/AGENTS.md"),
        ];
        let links = vec![link("docs/other.md", "project/link")];
        let survey = ProjectSurvey { root, protected_links, links, ..ProjectSurvey::default() };
        assert_eq!(leads(&survey, &[], None).unwrap(), [base.join("project/docs/guide.md")]);
    }

    #[test]
    fn links_in_what_a_missing_link_led_to_are_followed() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let links = links(&root, "shared", 1, |_| "../end".to_owned());
        let survey = ProjectSurvey { root: root.clone(), links, ..ProjectSurvey::default() };
        let missing = root.join(".vscode");
        let found = leads_of_missing(&survey, [(missing.as_path(), Path::new("shared"))].into_iter());
        assert_eq!(found, ["end", "shared"].map(|name| root.join(name)));
    }

    #[test]
    fn settings_name_places_in_every_work_tree_of_their_repository() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        for (name, text) in [
            (".git/HEAD", "x"),
            (".git/config", "[core]\n\tfsmonitor = tools/monitor\n"),
            (".git/worktrees/w/HEAD", "x"),
            (".git/worktrees/w/gitdir", "../../../tree/.git\n"),
        ] {
            fs::create_dir_all(root.join(name).parent().unwrap()).unwrap();
            fs::write(root.join(name), text).unwrap();
        }
        fs::create_dir(root.join("tree")).unwrap();
        let git = [root.join(".git")].into();
        let survey = ProjectSurvey { root: root.clone(), git, ..ProjectSurvey::default() };
        let found = leads(&survey, &[], None).unwrap();
        assert_eq!(found, ["tools/monitor", "tree/tools/monitor"].map(|name| root.join(name)));
    }
}

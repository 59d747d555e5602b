//! Instructions: what a person wants agents to know and to follow, in `AGENTS.md` files.
//!
//! Those of the person come first, then those of the project from its root down to the working folder, and they are
//! one value: when a file of them is there and cannot be read now, the whole is unavailable, because working by half of a
//! person's rules is worse than waiting. What is nothing that can be taken, such as a pipe or a link out of the project, is
//! left out and named: a repository could stop all work with it. `CLAUDE.md` stands in where a folder has no `AGENTS.md`.
//!
//! Further down in the project there may be more, which apply to the files around them. They are found when such a
//! file is read ([`beside`]) and observed one by one ([`nested`]).
//!
//! Addresses among the configured instructions are not fetched.

use std::fs;
use std::path::{Component, Path, PathBuf};

use globset::{GlobBuilder, GlobMatcher};
use ignore::WalkBuilder;

use crate::places::{ConfigOrigin, NamedPath, Observed, Places, ProjectFiles, TextTrouble, fit_text, plain};
use crate::scope::real;

/// The names that instructions have, the one that counts first.
const NAMES: [&str; 2] = ["AGENTS.md", "CLAUDE.md"];

/// Folders whose instructions were not written for this project.
const FOREIGN: [&str; 2] = [".git", "node_modules"];

/// How many files the configured patterns may name in all.
const CONFIGURED_MAX: usize = 100;

/// How many files are looked at for one pattern.
const LOOKED_AT: usize = 20_000;

/// A file of instructions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instruction {
    /// The file.
    pub path: PathBuf,
    /// What it says.
    pub text: String,
}

/// The instructions that apply to everything done in a working folder.
#[must_use]
pub fn observe(places: &Places) -> Observed<Vec<Instruction>> {
    match gather(places) {
        Ok(found) => {
            found.left_out.iter().for_each(|why| tracing::warn!(%why, "instructions are left out"));
            if found.taken.is_empty() { Observed::Absent } else { Observed::Present(found.taken) }
        }
        Err(why) => Observed::Unavailable { why },
    }
}

/// What of the instructions is left out, or cannot be read, and why.
#[must_use]
pub fn problems(places: &Places) -> Vec<String> {
    gather(places).map_or_else(|why| vec![why], |found| found.left_out)
}

/// The instructions that were found.
#[derive(Debug, Default)]
struct Gathered {
    taken: Vec<Instruction>,
    /// What cannot be taken, and why.
    left_out: Vec<String>,
}

impl Gathered {
    /// A pattern may be looked for in several folders.
    fn leave_out(&mut self, why: String) {
        if !self.left_out.contains(&why) {
            self.left_out.push(why);
        }
    }
}

fn gather(places: &Places) -> Result<Gathered, String> {
    let mut found = Gathered::default();
    for folder in places.config.iter().filter(|folder| folder.is_absolute()) {
        add(&mut found, folder.join("AGENTS.md"), None)?;
    }
    if found.taken.is_empty() && places.home.is_absolute() {
        add(&mut found, places.home.join(".claude").join("CLAUDE.md"), None)?;
    }
    for folder in places.project_folders() {
        let [first, second] = NAMES.map(|name| folder.join(name));
        if !add(&mut found, first, Some(&places.worktree))? {
            add(&mut found, second, Some(&places.worktree))?;
        }
    }
    for named in &places.instructions {
        configured(places, named, &mut found)?;
    }
    Ok(found)
}

/// Adds a file, unless it is there already under another name. Says whether there is one.
fn add(found: &mut Gathered, path: PathBuf, within: Option<&Path>) -> Result<bool, String> {
    let text = match fit_text(&path, within) {
        Ok(Some(text)) => text,
        Ok(None) => return Ok(false),
        Err(TextTrouble::Unfit(why)) => {
            found.leave_out(why);
            return Ok(true);
        }
        Err(TextTrouble::Unread(why)) => return Err(why),
    };
    if !found.taken.iter().any(|known| known.path == path || real(&known.path) == real(&path)) {
        found.taken.push(Instruction { path, text });
    }
    Ok(true)
}

/// Adds the files that a configured pattern names, by their paths.
fn configured(places: &Places, named: &NamedPath, found: &mut Gathered) -> Result<(), String> {
    let pattern = named.text.as_str();
    if pattern.starts_with("https://") || pattern.starts_with("http://") {
        tracing::warn!(address = pattern, "instructions at an address are not fetched");
        return Ok(());
    }
    let paths = match places.anchored(pattern) {
        Some(path) => vec![path],
        // A name without a folder may be meant from any folder of the project.
        None => places.project_folders().into_iter().map(|folder| folder.join(pattern)).collect(),
    };
    for path in paths {
        matching(places, named, &plain(&path), found)?;
    }
    Ok(())
}

fn matching(places: &Places, named: &NamedPath, path: &Path, found: &mut Gathered) -> Result<(), String> {
    let pattern = named.text.as_str();
    let inside = places.worktree.is_absolute() && path.starts_with(&places.worktree);
    // Whoever names it, a file of the project may be a link that the project has laid.
    let within = inside.then_some(places.worktree.as_path());
    if !inside && named.by == ConfigOrigin::Project {
        found.leave_out(format!(
            "`{pattern}` among the `instructions` of the project's configuration lies outside of the project, and is \
             therefore not read: remove it there, or name it in your own configuration"
        ));
        return Ok(());
    }
    if inside && places.project == ProjectFiles::Ignored {
        return Ok(());
    }
    let (folder, glob) = match split(path, pattern) {
        Ok(split) => split,
        Err(why) => {
            found.leave_out(why);
            return Ok(());
        }
    };
    let Some(glob) = glob else {
        add(found, path.to_owned(), within)?;
        return Ok(());
    };
    // Hidden and ignored files count: somebody has named them.
    let walk = WalkBuilder::new(folder).standard_filters(false).sort_by_file_name(Ord::cmp).build();
    let files = walk.take(LOOKED_AT).filter_map(Result::ok).map(ignore::DirEntry::into_path);
    for path in files.filter(|path| glob.is_match(path) && !path.is_dir()) {
        if found.taken.len() + found.left_out.len() >= CONFIGURED_MAX {
            found.leave_out(format!(
                "`{pattern}` among the `instructions` of the configuration: with it there are more than \
                 {CONFIGURED_MAX} files, and the rest is not read"
            ));
            break;
        }
        add(found, path, within)?;
    }
    Ok(())
}

/// The folder that a pattern begins in, and the pattern; none for a plain path.
fn split(named: &Path, pattern: &str) -> Result<(PathBuf, Option<GlobMatcher>), String> {
    let special = |part: &Component<'_>| part.as_os_str().to_string_lossy().contains(['*', '?', '[', '{']);
    let folder: PathBuf = named.components().take_while(|part| !special(part)).collect();
    if folder == named {
        return Ok((folder, None));
    }
    let glob = GlobBuilder::new(&named.to_string_lossy()).literal_separator(true).build();
    let glob = glob.map_err(|error| {
        format!("`{pattern}` among the `instructions` of the configuration is no pattern: {error}")
    })?;
    Ok((folder, Some(glob.compile_matcher())))
}

/// The files of instructions that apply to a file or folder because of where it lies, the outermost first, without
/// those of [`observe`]. What cannot be read is left out.
#[must_use]
pub fn beside(places: &Places, file: &Path) -> Vec<PathBuf> {
    let (root, file) = (real(&places.worktree), real(file));
    if places.project == ProjectFiles::Ignored || !places.worktree.is_absolute() {
        return Vec::new();
    }
    let known: Vec<PathBuf> = places.project_folders().into_iter().map(real).collect();
    let folder = if file.is_dir() { file.as_path() } else { file.parent().unwrap_or(&file) };
    let inside = |folder: &&Path| folder.starts_with(&root);
    let mut found: Vec<PathBuf> = folder
        .ancestors()
        .take_while(inside)
        .filter(|folder| !known.iter().any(|known| known == folder) && !is_foreign(folder, &root))
        .filter_map(|folder| {
            // Spelled as the project is, which may itself be reached through a link.
            let folder = places.worktree.join(folder.strip_prefix(&root).ok()?);
            let paths = NAMES.map(|name| folder.join(name));
            paths.into_iter().find(|path| fs::symlink_metadata(path).is_ok())
        })
        .filter(|path| matches!(nested(places, path), Observed::Present(_)))
        .collect();
    found.reverse();
    found
}

fn is_foreign(folder: &Path, root: &Path) -> bool {
    let below = folder.strip_prefix(root).unwrap_or(folder);
    below.components().any(|part| FOREIGN.iter().any(|name| part.as_os_str() == *name))
}

/// One file of instructions that [`beside`] has found.
#[must_use]
pub fn nested(places: &Places, path: &Path) -> Observed<Instruction> {
    let named = path.file_name().is_some_and(|name| NAMES.iter().any(|known| name == *known));
    if !named || places.project == ProjectFiles::Ignored || !path.starts_with(&places.worktree) {
        return Observed::Absent;
    }
    match fit_text(path, Some(&places.worktree)) {
        Ok(Some(text)) => Observed::Present(Instruction { path: path.to_owned(), text }),
        Ok(None) => Observed::Absent,
        Err(TextTrouble::Unfit(_)) => Observed::Absent,
        Err(TextTrouble::Unread(why)) => Observed::Unavailable { why },
    }
}

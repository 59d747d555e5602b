//! Skills: guides for particular work, each in a folder with a `SKILL.md`, of which the model is told the names and
//! what they are for, and whose text it asks for when it needs one.
//!
//! They come from the person's folders, from configured ones and from the project, and the nearest one of a name
//! counts. A skill that cannot be used is a [`SkillProblem`] and never in the way of the others. A folder of skills
//! that is there but cannot be listed now makes the whole unavailable; one that will not be listed until somebody changes it
//! is a problem.
//!
//! A skill of the project counts only if its file lies in the project, links followed. Links in the person's own
//! folders are followed; however they are tied, a walk ends.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::front_matter;
use crate::host::LoadedSkill;
use crate::places::{ConfigOrigin, Observed, Places, is_absent, plain, stays, text};
use crate::tool::Failure;

/// The file that makes a folder a skill.
const FILE: &str = "SKILL.md";

/// The longest name.
const NAME_MAX: usize = 64;

/// The longest description, in characters.
const DESCRIPTION_MAX: usize = 1024;

/// How many skills there may be.
const COUNT_MAX: usize = 500;

/// How many files and folders are looked at in one folder of skills.
const LOOKED_AT: usize = 10_000;

/// How deep skills may lie in such a folder.
const DEPTH_MAX: usize = 8;

/// How many files beside a skill are named.
const SIBLINGS: usize = 10;

/// How many files beside a skill are looked at.
const SIBLINGS_LOOKED_AT: usize = 1_000;

/// The skills there are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Skills {
    /// By name. Files beside a skill are named only by [`find`].
    pub skills: Vec<LoadedSkill>,
    /// What is left out.
    pub problems: Vec<SkillProblem>,
}

/// Why a file is not a skill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkillProblem {
    /// The file or folder.
    pub path: PathBuf,
    /// What is wrong with it.
    pub why: String,
}

/// A folder of skills.
#[derive(Debug)]
struct SkillFolder {
    folder: PathBuf,
    depth: usize,
    // What its files must lie in.
    within: Option<PathBuf>,
}

/// The skills for a working folder.
#[must_use]
pub fn observe(places: &Places) -> Observed<Skills> {
    let mut found = BTreeMap::new();
    let mut problems = Vec::new();
    for source in sources(places, &mut problems) {
        let files = match files(&source) {
            Ok(files) => files,
            Err(error) if stays(&error, source.within.as_deref()) => {
                problems.push(SkillProblem { path: source.folder, why: error.to_string() });
                continue;
            }
            Err(error) => {
                return Observed::Unavailable { why: format!("{}: {error}", source.folder.display()) };
            }
        };
        for path in files {
            match load(&path, source.within.as_deref()) {
                Ok(skill) if found.len() < COUNT_MAX || found.contains_key(&skill.name) => {
                    // The later one is nearer.
                    found.insert(skill.name.clone(), skill);
                }
                Ok(_) => {
                    problems
                        .push(SkillProblem { path, why: format!("there are more than {COUNT_MAX} skills") });
                }
                Err(why) => problems.push(SkillProblem { path, why }),
            }
        }
    }
    if found.is_empty() && problems.is_empty() {
        return Observed::Absent;
    }
    Observed::Present(Skills { skills: found.into_values().collect(), problems })
}

/// The skill of a name, with files beside it, or a failure that names those there are.
pub fn find(places: &Places, name: &str) -> Result<LoadedSkill, Failure> {
    let known = match observe(places) {
        Observed::Present(known) => known,
        Observed::Absent => Skills::default(),
        Observed::Unavailable { why } => {
            return Err(Failure::Failed(format!("The skills cannot be read just now: {why}")));
        }
    };
    if let Some(skill) = known.skills.iter().find(|skill| skill.name == name) {
        let folder = skill.location.parent().unwrap_or(&skill.location);
        return Ok(LoadedSkill { files: siblings(folder), ..skill.clone() });
    }
    let names: Vec<&str> = known.skills.iter().map(|skill| skill.name.as_str()).collect();
    let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    Err(Failure::Failed(format!("There is no skill named '{name}'. Available skills: {names}.")))
}

/// The folders of skills, the one that counts least first.
fn sources(places: &Places, problems: &mut Vec<SkillProblem>) -> Vec<SkillFolder> {
    let mut sources = Vec::new();
    let mut add = |folder: PathBuf, depth, within: Option<&Path>| {
        if folder.is_absolute() {
            sources.push(SkillFolder { folder, depth, within: within.map(Path::to_owned) });
        }
    };
    for name in [".agents", ".claude"] {
        add(places.home.join(name).join("skills"), 2, None);
    }
    for folder in places.config.iter().rev() {
        for name in ["skill", "skills"] {
            add(folder.join(name), DEPTH_MAX, None);
        }
    }
    for named in &places.skills {
        let folder = places.anchored(&named.text).unwrap_or_else(|| places.directory.join(&named.text));
        let folder = plain(&folder);
        let within = folder.starts_with(&places.worktree).then_some(places.worktree.as_path());
        if within.is_none() && named.by == ConfigOrigin::Project {
            let why = "the project's configuration names it as a folder of skills, and it lies outside of the \
                       project: remove it there, or name it in your own configuration";
            problems.push(SkillProblem { path: folder, why: why.to_owned() });
            continue;
        }
        add(folder, DEPTH_MAX, within);
    }
    for folder in places.project_folders() {
        for name in [".agents", ".claude"] {
            add(folder.join(name).join("skills"), 2, Some(&places.worktree));
        }
        for name in ["skill", "skills"] {
            add(folder.join(".opencode").join(name), DEPTH_MAX, Some(&places.worktree));
        }
    }
    sources
}

/// The `SKILL.md` files of a folder, sorted. A folder further down that cannot be listed is passed over.
fn files(source: &SkillFolder) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![(source.folder.clone(), 1)];
    let mut entered = HashSet::new();
    let mut looked_at = 0;
    while let Some((folder, depth)) = folders.pop() {
        // A folder that is reached a second time, through whichever links, is left alone.
        let first = depth == 1;
        let meta = match fs::metadata(&folder) {
            Ok(meta) => meta,
            Err(error) if first && !is_absent(&error) => return Err(error),
            Err(_) => continue,
        };
        if !meta.is_dir() || !entered.insert((meta.dev(), meta.ino())) {
            continue;
        }
        let entries = match fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if first => return Err(error),
            Err(_) => continue,
        };
        for entry in entries.filter_map(Result::ok) {
            looked_at += 1;
            if looked_at > LOOKED_AT {
                tracing::warn!(folder = %source.folder.display(), "there is more in a folder of skills than is looked at");
                found.sort();
                return Ok(found);
            }
            let (name, path) = (entry.file_name(), entry.path());
            if name == FILE {
                found.push(path);
            } else if depth < source.depth && name != "node_modules" && name != ".git" && path.is_dir() {
                folders.push((path, depth + 1));
            }
        }
    }
    found.sort();
    Ok(found)
}

fn load(path: &Path, within: Option<&Path>) -> Result<LoadedSkill, String> {
    let text = text(path, within)?.ok_or("it is gone")?;
    let read = front_matter::read(&text)?;
    let folder = || path.parent().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
    let name = read.fields.name.or_else(folder).unwrap_or_default();
    if !is_name(&name) {
        return Err(format!(
            "the name {name:?} is not made of small letters and digits with single hyphens between them, at most \
             {NAME_MAX} in all"
        ));
    }
    let description = read.fields.description.unwrap_or_default().trim().to_owned();
    if description.chars().count() > DESCRIPTION_MAX {
        return Err(format!("its description has more than {DESCRIPTION_MAX} characters"));
    }
    Ok(LoadedSkill {
        name,
        description,
        location: path.to_owned(),
        content: read.rest.to_owned(),
        files: Vec::new(),
    })
}

fn is_name(name: &str) -> bool {
    let word = |word: &str| {
        !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
    };
    name.len() <= NAME_MAX && name.split('-').all(word)
}

/// A few files of a skill's folder, by path; links are not followed.
fn siblings(folder: &Path) -> Vec<PathBuf> {
    let walk = ignore::WalkBuilder::new(folder).standard_filters(false).max_depth(Some(DEPTH_MAX)).build();
    let files = walk.take(SIBLINGS_LOOKED_AT).filter_map(Result::ok);
    let mut files: Vec<PathBuf> = files
        .filter(|entry| entry.file_type().is_some_and(|kind| kind.is_file()) && entry.file_name() != FILE)
        .map(ignore::DirEntry::into_path)
        .collect();
    files.sort();
    files.truncate(SIBLINGS);
    files
}

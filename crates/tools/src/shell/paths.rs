//! The paths that commands name, and which folder they are relative to.
//!
//! Only programs whose arguments are paths are looked at, and only what is certain. A line may change folders on the
//! way; since loops and conditions decide whether it does, every path is then resolved from each of them.

use std::{
    env,
    path::{Path, PathBuf},
};

use crate::scope::{Access, Scope};

use super::{repositories, word::Word};

/// More folders than this are not followed.
const FOLDERS_MAX: usize = 8;

/// Programs whose arguments are paths, how many arguments before the paths are not, and what they do to them.
const PROGRAMS: &[(&str, usize, Access)] = &[
    ("cat", 0, Access::Read),
    ("head", 0, Access::Read),
    ("tail", 0, Access::Read),
    ("cd", 0, Access::Write),
    ("pushd", 0, Access::Write),
    ("rm", 0, Access::Write),
    ("rmdir", 0, Access::Write),
    ("unlink", 0, Access::Write),
    ("shred", 0, Access::Write),
    ("truncate", 0, Access::Write),
    ("cp", 0, Access::Write),
    ("mv", 0, Access::Write),
    ("ln", 0, Access::Write),
    ("link", 0, Access::Write),
    ("install", 0, Access::Write),
    ("mkdir", 0, Access::Write),
    ("mkfifo", 0, Access::Write),
    ("touch", 0, Access::Write),
    ("tee", 0, Access::Write),
    ("dd", 0, Access::Write),
    ("split", 0, Access::Write),
    ("csplit", 0, Access::Write),
    ("patch", 0, Access::Write),
    ("chmod", 1, Access::Write),
    ("chown", 1, Access::Write),
    ("chgrp", 1, Access::Write),
];

/// The folders that a line may be in.
#[derive(Debug)]
pub(super) struct Folders<'a> {
    scope: &'a Scope,
    known: Vec<PathBuf>,
    /// A folder cannot be told.
    pub(super) lost: bool,
    /// The line goes up from a folder, which a loop may repeat.
    pub(super) climbs: bool,
}

impl<'a> Folders<'a> {
    pub(super) fn new(workdir: &Path, scope: &'a Scope) -> Self {
        Self { scope, known: vec![workdir.to_owned()], lost: false, climbs: false }
    }

    /// Whether a relative path means the same as in the folder where the session works.
    pub(super) fn home(&self) -> bool {
        !self.lost && self.known == [self.scope.directory.clone()]
    }

    /// Whether git would find another repository than the project's own in one of the folders.
    pub(super) fn foreign(&self) -> bool {
        self.lost || self.known.iter().any(|folder| repositories::foreign(folder, self.scope))
    }

    /// Whether one of the folders is not the project's root, where `.git` is the project's own.
    pub(super) fn deeper(&self) -> bool {
        self.lost || self.known.iter().any(|folder| *folder != self.scope.worktree)
    }

    /// Whether a program that writes may be led to any file by a word that is only known later. Names of files that
    /// a pattern finds do not begin with a dot.
    pub(super) fn uncertain(&self, name: &str, arguments: &[Word]) -> bool {
        let writes = PROGRAMS.iter().any(|(known, _, access)| *known == name && *access == Access::Write);
        writes && !matches!(name, "cd" | "pushd") && arguments.iter().any(adrift)
    }

    /// Follows a command that changes folders.
    pub(super) fn enter(&mut self, arguments: &[Word]) {
        let target: Vec<&Word> =
            arguments.iter().filter(|word| !matches!(word.known(), Some("-L" | "--"))).collect();
        let text = match target.as_slice() {
            [] => Some("~"),
            [one] => one.known().filter(|text| !text.starts_with(['-', '+'])),
            _ => None,
        };
        let tilde = target.is_empty() || target.iter().all(|word| word.tilde);
        let Some(places) = text.and_then(|text| self.resolve(text, tilde)) else {
            self.lost = true;
            return;
        };
        self.climbs |= text.is_some_and(|text| text.split('/').any(|part| part == ".."));
        for place in places {
            if !self.known.contains(&place) {
                self.known.push(place);
            }
        }
        self.lost |= self.known.len() > FOLDERS_MAX;
    }

    /// Where a path may be; nothing if that cannot be told.
    pub(super) fn resolve(&self, path: &str, tilde: bool) -> Option<Vec<PathBuf>> {
        let from = |folder: &PathBuf, path: &str| {
            Scope { directory: folder.clone(), ..self.scope.clone() }.resolve(path)
        };
        if tilde {
            let rest = path.strip_prefix('~')?;
            if !rest.is_empty() && !rest.starts_with('/') {
                return None;
            }
            return Some(vec![from(&env::home_dir()?, rest.trim_start_matches('/'))]);
        }
        Some(self.known.iter().map(|folder| from(folder, path)).collect())
    }

    /// The paths outside the project among a command's arguments.
    pub(super) fn outside(&self, name: &str, arguments: &[Word]) -> Vec<(PathBuf, Access)> {
        let Some((_, skip, access)) = PROGRAMS.iter().find(|(known, ..)| *known == name) else {
            return Vec::new();
        };
        let mut found: Vec<(PathBuf, Access)> = Vec::new();
        if name == "cd" && arguments.is_empty() {
            found.extend(self.beyond("~", true, *access));
        }
        let mut skip = *skip;
        let mut options = true;
        for word in arguments {
            let Some(text) = word.known() else {
                found.extend(self.beyond_prefix(word, *access));
                continue;
            };
            if options && text == "--" {
                options = false;
            } else if options && text.starts_with('-') && text.len() > 1 {
                // `--target-directory=/x`, `-t/x`
                let value = text.split_once('=').map(|(_, value)| value).or_else(|| text.get(2..));
                found.extend(value.into_iter().flat_map(|value| self.beyond(value, false, *access)));
            } else if skip > 0 {
                skip -= 1;
            } else {
                let operand =
                    if name == "dd" { text.split_once('=').map_or(text, |(_, path)| path) } else { text };
                found.extend(self.beyond(operand, word.tilde, *access));
            }
        }
        found
    }

    /// The folder that a path begins with whose end is only known later.
    pub(super) fn beyond_prefix(&self, word: &Word, access: Access) -> Vec<(PathBuf, Access)> {
        let bare = word.text.trim_start_matches('"');
        let home = ["$HOME", "${HOME}"].iter().any(|name| bare.starts_with(name));
        // `.gi?/hooks` may turn out as git's own.
        let (folder, name) = word.prefix.rsplit_once('/').unwrap_or((".", &word.prefix));
        if name.starts_with('.') && ".git".starts_with(&name.to_ascii_lowercase()) {
            return self.beyond(&format!("{folder}/.git"), word.tilde, access);
        }
        match word.prefix.rsplit_once('/') {
            Some((folder, _)) => self.beyond(&format!("{folder}/"), word.tilde, access),
            None if home => self.beyond("~", true, access),
            None => Vec::new(),
        }
    }

    /// Where a path may be, as far as that is outside the project, or git's own and to be changed.
    pub(super) fn beyond(&self, path: &str, tilde: bool, access: Access) -> Vec<(PathBuf, Access)> {
        let places = self.resolve(path, tilde).unwrap_or_else(|| vec![PathBuf::from("/")]);
        places
            .into_iter()
            .filter(|place| !device(place, access) && self.scope.external(place, access).is_some())
            .map(|place| (place, access))
            .collect()
    }
}

/// Whether nothing is certain about the folder that a path is in.
pub(super) fn adrift(word: &Word) -> bool {
    let anywhere = word.prefix.split('/').all(|part| matches!(part, "" | "." | ".."));
    let alternatives = word.text.contains('{') && (word.text.contains(',') || word.text.contains(".."));
    let parent = word.prefix.split('/').any(|part| part == "..");
    word.value.is_none() && (anywhere || parent) && (alternatives || word.text.contains(['$', '`', '<']))
}

/// Devices that keep nothing, and descriptors that are open already. Those for reading may be files, and opening them
/// by name to write writes the file.
pub(super) fn device(path: &Path, access: Access) -> bool {
    let text = path.to_string_lossy();
    if access == Access::Write {
        return matches!(
            &*text,
            "/dev/null" | "/dev/stdout" | "/dev/stderr" | "/dev/tty" | "/dev/zero" | "/dev/full"
        );
    }
    matches!(&*text, "/dev/null" | "/dev/stdin" | "/dev/stdout" | "/dev/stderr" | "/dev/zero" | "/dev/full")
        || text
            .strip_prefix("/dev/fd/")
            .is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
}

//! A rebase, cherry-pick or revert that stopped in the middle: what git would run when it goes on.
//!
//! The list of what a rebase has left to do can hold commands (`exec`), and what both are told to merge by can name any
//! program: git takes `x/y` for the file `git-merge-x/y` in the work tree. A command must be able to go on with it, so
//! none of that is mounted. What runs something and did not before gets another name in the end, and git goes on without
//! it: with nothing, if that is the list.
//!
//! Tried with git 2.47: a list of `sequencer` takes no commands, and of what is in `rebase-apply` nothing runs. But a
//! person who goes on with any of them does not expect another's list, so it must hold nothing new then either.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, lstat};
use serde::{Deserialize, Serialize};

use super::access::{FolderAccess, is_gone, open_folder};
use super::aftermath::put_folder_aside;
use super::exact_path;
use super::guard::lossy;
use super::new_repository::content;
use super::report::DisplacedName;

/// Where git keeps what it has left to do, in its folder.
const REBASE: &str = "rebase-merge";
const PICKS: &str = "sequencer";
const PATCHES: &str = "rebase-apply";

/// The list, and what is merged by, in the first; the latter in the second.
const LIST: &str = "git-rebase-todo";
const STRATEGY: &str = "strategy";
const OPTIONS: &str = "opts";

/// What git can merge by itself.
const OWN_STRATEGIES: [&str; 6] = ["octopus", "ort", "ours", "recursive", "resolve", "subtree"];

/// What stopped in the middle, by the folder of git's.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::process) struct StoppedWorks(#[serde(with = "exact_path::map")] BTreeMap<PathBuf, WhatRuns>);

/// What it would run when it goes on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct WhatRuns {
    /// The commands in the list.
    commands: BTreeSet<String>,
    /// What says how to merge, of a rebase and of picks.
    strategy: Option<String>,
    options: Option<String>,
}

impl WhatRuns {
    /// What there is in a folder of git's; nothing if nothing has stopped there.
    fn of(git: &Path) -> Option<Self> {
        [REBASE, PICKS, PATCHES].iter().find(|name| lstat(git.join(name)).is_ok())?;
        let text = |folder: &str, name| content(&open_folder(CWD, &git.join(folder)).ok()?, name);
        Some(Self {
            commands: text(REBASE, LIST).map(|list| commands(&list)).unwrap_or_default(),
            strategy: text(REBASE, STRATEGY),
            options: text(PICKS, OPTIONS),
        })
    }

    /// Takes away what another does not have.
    fn keep_common(&mut self, other: &Self) {
        self.commands.retain(|command| other.commands.contains(command));
        self.strategy = self.strategy.take().filter(|text| other.strategy.as_ref() == Some(text));
        self.options = self.options.take().filter(|text| other.options.as_ref() == Some(text));
    }
}

impl StoppedWorks {
    /// What there is in folders of git's.
    pub(super) fn of<'a>(git: impl IntoIterator<Item = &'a PathBuf>) -> Self {
        let works = git.into_iter().filter_map(|git| Some((git.clone(), WhatRuns::of(git)?)));
        Self(works.collect())
    }

    /// Takes away what was not there for another program that still runs, and adds what that one may have taken away.
    pub(super) fn keep_common(&mut self, other: &Self) {
        for (git, runs) in &other.0 {
            self.0.entry(git.clone()).and_modify(|own| own.keep_common(runs)).or_insert_with(|| runs.clone());
        }
    }

    /// Gives another name to what would run and did not before. A list that the program has begun itself stays: with it,
    /// commits would be lost.
    pub(super) fn judge<'a>(
        &self,
        git: impl IntoIterator<Item = &'a PathBuf>,
        access: &mut FolderAccess,
    ) -> Vec<DisplacedName> {
        let none = WhatRuns::default();
        let mut displaced = Vec::new();
        for git in git {
            let before = self.0.get(git);
            let runs = before.unwrap_or(&none);
            let list = |text: &str| commands(text).is_subset(&runs.commands);
            match stray(git, REBASE, LIST, list, access) {
                Some(path) if before.is_none() && path.ends_with(LIST) => {
                    displaced.push(DisplacedName::Waiting(lossy(&path)));
                }
                path => displaced.extend(path.into_iter().flat_map(|path| put_folder_aside(&path, access))),
            }
            let strategy = |text: &str| is_own(text) || runs.strategy.as_deref() == Some(text);
            let options = |text: &str| merges_by_itself(text) || runs.options.as_deref() == Some(text);
            let strategy = stray(git, REBASE, STRATEGY, strategy, access);
            let options = stray(git, PICKS, OPTIONS, options, access);
            displaced
                .extend(strategy.into_iter().chain(options).flat_map(|path| put_folder_aside(&path, access)));
        }
        displaced
    }
}

/// A file in a folder of what has stopped, or that folder, if it is not one that may stay as it is.
fn stray(
    git: &Path,
    folder: &str,
    name: &str,
    may_stay: impl Fn(&str) -> bool,
    access: &mut FolderAccess,
) -> Option<PathBuf> {
    let above = git.join(folder);
    // Git would follow a link.
    if !FileType::from_raw_mode(lstat(&above).ok()?.st_mode).is_dir() {
        return Some(above);
    }
    let folder = match access.open(CWD, &above) {
        Err(error) if is_gone(error) => return None,
        Err(_) => return Some(above),
        Ok(folder) => folder,
    };
    let path = above.join(name);
    let stays = match content(&folder, name) {
        Some(text) => may_stay(&text),
        None => lstat(&path).is_err(),
    };
    (!stays).then_some(path)
}

/// The lines of a list that are commands.
fn commands(list: &str) -> BTreeSet<String> {
    let lines = list.lines().map(str::trim);
    let is_command = |line: &&str| matches!(line.split([' ', '\t']).next(), Some("exec" | "x"));
    lines.filter(is_command).map(str::to_owned).collect()
}

/// Whether git merges that way without another program.
fn is_own(strategy: &str) -> bool {
    OWN_STRATEGIES.contains(&strategy.trim())
}

/// The same for options of picks, which are settings of git's. What is written in an unusual way is not looked at closely.
fn merges_by_itself(options: &str) -> bool {
    options.lines().map(str::trim).all(|line| {
        let (key, value) = line.split_once('=').unwrap_or((line, ""));
        let is_plain = !line.starts_with('[') && !line.ends_with('\\');
        line == "[options]" || is_plain && (!key.trim().eq_ignore_ascii_case(STRATEGY) || is_own(value))
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn what_cannot_be_read_does_not_stay_where_git_would_read_it() {
        // Git follows a link, whatever is there by then, and reads a list however long it is.
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        let check = |name: &str, make: &dyn Fn(&Path), expected: &str| {
            let git = base.join(name);
            let list = git.join(REBASE).join(LIST);
            fs::create_dir_all(git.join(REBASE)).unwrap();
            fs::write(&list, "pick 1a\n").unwrap();
            let before = StoppedWorks::of([&git]);
            assert_eq!(before.judge([&git], &mut FolderAccess::default()), []);
            make(&list);
            let told = before.judge([&git], &mut FolderAccess::default());
            let path = lossy(&git.join(expected));
            assert_eq!(told, [DisplacedName::Renamed { to: format!("{path}.untrusted"), path }], "{name}");
        };
        fs::write(base.join("later"), "pick 1a\n").unwrap();
        let list = format!("{REBASE}/{LIST}");
        let replace = |list: &Path| {
            fs::remove_file(list).unwrap();
            symlink(base.join("later"), list).unwrap();
        };
        check("link", &replace, &list);
        let long = |list: &Path| fs::write(list, "pick 1a\n".repeat(100_000) + "exec evil\n").unwrap();
        check("long", &long, &list);
        check("no text", &|list| fs::write(list, b"\xff\nexec evil\n").unwrap(), &list);
        let move_away = |list: &Path| {
            let above = list.parent().unwrap();
            fs::rename(above, base.join("away")).unwrap();
            symlink(base.join("away"), above).unwrap();
        };
        check("link of a folder", &move_away, REBASE);
    }

    #[test]
    fn what_another_program_may_have_chosen_to_merge_by_does_not_stay() {
        let folder = tempfile::tempdir().unwrap();
        let git = folder.path().canonicalize().unwrap().join(".git");
        let write = |name: &str, text: &str| {
            fs::create_dir_all(git.join(name).parent().unwrap()).unwrap();
            fs::write(git.join(name), text).unwrap();
        };
        let judge = |works: &StoppedWorks| works.judge([&git], &mut FolderAccess::default());
        let displaced = |name: &str| {
            let path = lossy(&git.join(name));
            DisplacedName::Renamed { to: format!("{path}.untrusted"), path }
        };
        let chosen = "[options]\n\tstrategy = x/y\n";
        // Only picks have stopped.
        write("sequencer/opts", chosen);
        let picks = StoppedWorks::of([&git]);
        assert_eq!(judge(&picks), []);
        write("rebase-merge/strategy", "x/y\n");
        let works = StoppedWorks::of([&git]);
        assert_eq!(judge(&works), []);
        let common = |other: &StoppedWorks| {
            let mut common = works.clone();
            common.keep_common(other);
            common
        };
        // It was the same when the other began.
        assert_eq!(judge(&common(&works)), []);
        assert_eq!(judge(&common(&picks)), [displaced("rebase-merge/strategy")]);
        write("rebase-merge/strategy", "x/y\n");
        write("sequencer/opts", "[options]\n");
        let other = StoppedWorks::of([&git]);
        write("sequencer/opts", chosen);
        assert_eq!(judge(&common(&other)), [displaced("sequencer/opts")]);
    }

    #[test]
    fn commands_are_told_from_commits() {
        let found =
            commands("pick 1a exec x\n  exec make\nx\ttouch y\n# exec no\nxylophone\nbreak\nexecute\n");
        assert_eq!(found, ["exec make", "x\ttouch y"].map(str::to_owned).into());
    }

    #[test]
    fn options_that_name_a_program_are_told_apart() {
        for options in
            ["", "[options]\n\tstrategy = ours\n\tstrategy-option = theirs\n", "[options]\n\tedit = true\n"]
        {
            assert!(merges_by_itself(options), "{options}");
        }
        for options in [
            "[options]\n\tstrategy = x/e\n",
            "[options] strategy = x/e\n",
            "[options]\n\tStrategy=x\n",
            "[options]\n\tstrategy = ours\\\n/e\n",
            "[options]\n\tstrategy = \"x/e\"\n",
            "[options]\n\tedit\n[Options]\n",
        ] {
            assert!(!merges_by_itself(options), "{options}");
        }
    }
}

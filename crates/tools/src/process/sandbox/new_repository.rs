//! A repository that a program made: what of it would run by itself.
//!
//! Making one is everyday work (`git init`, `git clone`, a submodule), so it may stay. What makes git run programs may
//! not: hooks other than git's own samples, which it never runs, and settings other than those that are known to run
//! nothing. They get another name, and git goes on without them.

use std::fs;
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, fstat, openat, statat};

use super::access::{is_gone, open_folder};
use super::git_settings::is_harmless;
use super::guard::put_aside;
use super::put_aside_name::is_put_aside;
use super::report::DisplacedName;
use super::repository::git_folders;
use super::survey::FILLED_BY_TOOLS;

/// What in a folder of git's can make it run programs, or look elsewhere for what does. In two of them repositories are
/// named in the old way, to which something is pushed then: in a folder that runs the hooks there.
pub(super) const ARMING: [&str; 7] =
    ["hooks", "config", "config.worktree", "commondir", "branches", "remotes", "lazygit.yml"];

/// The most that is read of a file of git's.
const LONGEST: u64 = 256 * 1024;

/// Whether nothing of a folder of git's, or of those of its worktrees and submodules, would run by itself. It lies in a
/// project at one of the roots.
pub(super) fn runs_nothing(git: &Path, roots: &[&Path]) -> bool {
    let is_harmless =
        |git: &PathBuf| open_folder(CWD, git).is_ok_and(|folder| armed(git, &folder, roots).is_empty());
    git_folders(git).is_some_and(|all| all.iter().all(is_harmless))
}

/// Gives another name to what makes git run programs in a folder of git's that was not there before, but for what may
/// stay. Nothing if that cannot be told.
pub(super) fn disarm(
    git: &Path,
    roots: &[&Path],
    may_stay: impl Fn(&Path) -> bool,
) -> Option<Vec<DisplacedName>> {
    let folder = match open_folder(CWD, git) {
        Err(error) if is_gone(error) => return Some(Vec::new()),
        other => other.ok()?,
    };
    let armed = armed(git, &folder, roots).into_iter().filter(|name| !may_stay(&git.join(name)));
    Some(armed.map(|name| put_aside(&folder, git, name.as_ref())).collect())
}

/// What in a folder of git's makes it run programs, or look elsewhere for what does.
fn armed(git: &Path, folder: &OwnedFd, roots: &[&Path]) -> Vec<&'static str> {
    let text = |name| content(folder, name);
    let there = ARMING.into_iter().filter(|name| statat(folder, *name, AtFlags::SYMLINK_NOFOLLOW).is_ok());
    there
        .filter(|name| match *name {
            "hooks" => !has_only(folder, "hooks", |name| name.ends_with(b".sample")),
            "branches" | "remotes" => !has_only(folder, name, |_| false),
            "commondir" => text("commondir").is_none_or(|text| !leads_up(git, &text)),
            name => text(name).is_none_or(|text| !are_harmless(&text, git, roots)),
        })
        .collect()
}

/// Where a file `.git` leads that says where the folder of git's is; nothing if it does not say so.
pub(super) fn target(folder: &OwnedFd, above: &Path) -> Option<PathBuf> {
    let text = content(folder, ".git")?;
    fs::canonicalize(above.join(text.lines().next()?.strip_prefix("gitdir:")?.trim())).ok()
}

/// Whether a folder in one of git's has nothing in it but what git takes no notice of, by its name.
fn has_only(git: &OwnedFd, folder: &str, is_idle: impl Fn(&[u8]) -> bool) -> bool {
    let Ok(folder) = open_folder(git, Path::new(folder)) else { return false };
    let Ok(mut entries) = Dir::new(folder) else { return false };
    entries.all(|entry| {
        entry.is_ok_and(|entry| {
            let name = entry.file_name().to_bytes();
            matches!(name, b"." | b"..") || is_idle(name)
        })
    })
}

/// Whether what a worktree's folder of git's says leads to the repository that it lies in.
fn leads_up(git: &Path, text: &str) -> bool {
    text.trim() == "../.." && git.parent().is_some_and(|above| above.ends_with("worktrees"))
}

/// The text of an ordinary file in a folder.
pub(super) fn content(folder: &OwnedFd, name: &str) -> Option<String> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = openat(folder, name, flags, Mode::empty()).ok()?;
    if !FileType::from_raw_mode(fstat(&file).ok()?.st_mode).is_file() {
        return None;
    }
    let mut text = Vec::new();
    fs::File::from(file).take(LONGEST).read_to_end(&mut text).ok()?;
    String::from_utf8(text).ok().filter(|text| u64::try_from(text.len()).is_ok_and(|length| length < LONGEST))
}

/// Whether settings of git's run nothing. What is written in an unusual way is not looked at closely: it does.
fn are_harmless(settings: &str, git: &Path, roots: &[&Path]) -> bool {
    let mut section = String::new();
    settings.lines().map(str::trim).all(|line| {
        if line.is_empty() || line.starts_with(['#', ';']) {
            return true;
        }
        if let Some(head) = line.strip_prefix('[') {
            let Some(head) = head.strip_suffix(']') else { return false };
            let (name, rest) = head.split_once(' ').unwrap_or((head, "\"\""));
            section = name.to_ascii_lowercase();
            let quoted = rest.trim().strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
            return quoted.is_some_and(|quoted| !quoted.contains(['"', '\\', ']']))
                && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        }
        let (key, value) = line.split_once('=').unwrap_or((line, ""));
        let key = key.trim().to_ascii_lowercase();
        let is_place = section == "core" && key == "worktree";
        let is_remote = REMOTES.contains(&(section.as_str(), key.as_str()));
        !line.ends_with('\\')
            && is_harmless(&section, &key)
            && (!is_place || is_near(git, value.trim()))
            && (!is_remote || is_watched_remote(git, key == "url" || key == "pushurl", value.trim(), roots))
    })
}

/// Settings that say where something is pushed to.
const REMOTES: [(&str, &str); 5] = [
    ("branch", "pushremote"),
    ("branch", "remote"),
    ("remote", "pushdefault"),
    ("remote", "pushurl"),
    ("remote", "url"),
];

/// Whether something can be pushed to a place without running hooks that a command made: to another machine, or to what is
/// looked through after every command. Git goes by the same signs. A repository that is mounted is not looked at again, so
/// that of a project itself must have no folder.
fn is_watched_remote(git: &Path, is_url: bool, value: &str, roots: &[&Path]) -> bool {
    if value.contains(['"', '\\', '#', ';']) || value.contains("::") {
        return false;
    }
    let path = match value.split_once("://") {
        Some(("file", path)) => path,
        Some(_) => return true,
        None => value,
    };
    if path.find(':').is_some_and(|colon| path.find('/').is_none_or(|slash| colon < slash)) {
        return true;
    }
    let tree = git.parent().unwrap_or(git);
    let is_own = roots.iter().any(|root| *root == git || root.join(".git") == git);
    let is_looked_at = |path: &Path, root: &&Path| {
        let is_one = |name| !is_put_aside(name) && !FILLED_BY_TOOLS.iter().any(|known| name == *known);
        path.strip_prefix(root).is_ok_and(|below| below.iter().all(is_one))
    };
    let found: Vec<PathBuf> =
        [tree, git].iter().filter_map(|base| fs::canonicalize(base.join(path)).ok()).collect();
    let are_looked_at = found.iter().all(|path| roots.iter().any(|root| is_looked_at(path, root)));
    match is_url || path.contains('/') {
        true => path == "." || !is_own && !found.is_empty() && are_looked_at,
        // The name of a remote, unless there is a folder with that name.
        false => path == "." || found.is_empty() && !FILLED_BY_TOOLS.contains(&path),
    }
}

/// Whether a work tree lies in the folder that the repository is in, as that of a submodule does. Elsewhere git would
/// write files that somebody else chose.
fn is_near(git: &Path, tree: &str) -> bool {
    let outermost = git.ancestors().filter(|folder| folder.ends_with(".git")).last().unwrap_or(git);
    let found = fs::canonicalize(git.join(tree));
    found.is_ok_and(|tree| outermost.parent().is_some_and(|above| tree.starts_with(above)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_run_something_are_told_apart() {
        for settings in [
            "",
            "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n",
            "# x\n[remote \"origin\"]\n\turl = https://x/y\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n",
            "[branch \"main\"]\n\tremote = origin\n\tmerge = refs/heads/main\n[user]\n\tname = A\n",
            "[Core]\n\tIgnoreCase = true\n",
            "[remote \"o\"]\n\turl = git@host:x/y.git\n\tpushurl = ssh://host/x\n",
            "[branch \"b\"]\n\tremote = .\n",
        ] {
            assert!(are_harmless(settings, Path::new("/none/.git"), &[]), "{settings}");
        }
        for settings in [
            "[core]\n\tfsmonitor = evil\n",
            "[core]\n\thooksPath = x\n",
            "[core] fsmonitor = evil\n",
            "[core\n]\nfsmonitor = evil\n",
            "[include]\n\tpath = x\n",
            "[includeIf \"gitdir:/\"]\n\tpath = x\n",
            "[filter \"x\"]\n\tclean = evil\n",
            "[remote \"o\"]\n\tuploadpack = evil\n",
            "[remote \"o\"]\n\turl = /tmp\n",
            "[remote \"o\"]\n\tpushurl = file:///tmp\n",
            "[remote \"o\"]\n\turl = \"https://x\"\n",
            "[remote \"o\"]\n\turl = ext::evil\n",
            "[remote]\n\tpushDefault = ../evil\n",
            "[branch \"b\"]\n\tremote = ../evil\n",
            "[branch \"b\"]\n\tpushRemote = target\n",
            "[remote \"o\"]\n\turl = x\\\n[core]\\\n\n",
            "[core.x]\n\tbare = 1\n",
            "[alias]\n\tst = !evil\n",
            "[gc]\n\trecentObjectsHook = evil\n",
            "[core]\n\tworktree = /usr\n",
            "[branch \"a]\"]\n\tx = 1\n",
            "[user]\n\tname = \"a\\\n\"\n[core]\n\tpager = evil\n",
        ] {
            assert!(!are_harmless(settings, Path::new("/none/.git"), &[]), "{settings}");
        }
    }

    #[test]
    fn only_what_runs_gets_another_name() {
        let folder = tempfile::tempdir().unwrap();
        let git = folder.path().canonicalize().unwrap().join(".git");
        let write = |name: &str, text: &str| {
            fs::create_dir_all(git.join(name).parent().unwrap()).unwrap();
            fs::write(git.join(name), text).unwrap();
        };
        write("HEAD", "ref: refs/heads/main\n");
        write("config", "[core]\n\tbare = false\n");
        write("hooks/pre-commit.sample", "x");
        write("worktrees/w/HEAD", "x");
        write("worktrees/w/commondir", "../..\n");
        write("modules/n/HEAD", "x");
        write("modules/n/config", "[core]\n\tworktree = ../../../n\n");
        fs::create_dir(git.with_file_name("n")).unwrap();
        let disarm_all = || -> Option<Vec<DisplacedName>> {
            let each: Option<Vec<_>> =
                git_folders(&git)?.iter().map(|git| disarm(git, &[], |_| false)).collect();
            Some(each?.concat())
        };
        assert_eq!(disarm_all(), Some(Vec::new()));
        assert!(runs_nothing(&git, &[]));

        write("hooks/pre-commit", "x");
        write("worktrees/w/commondir", "../../../elsewhere\n");
        write("modules/m/HEAD", "x");
        write("modules/m/config", "[core]\n\tsshCommand = x\n");
        let renamed = |name: &str| {
            let path = git.join(name).display().to_string();
            DisplacedName::Renamed { to: format!("{path}.untrusted"), path }
        };
        let mut found = disarm_all().unwrap();
        found.sort_by_key(ToString::to_string);
        assert_eq!(found, ["hooks", "modules/m/config", "worktrees/w/commondir"].map(renamed));
        assert_eq!(disarm_all(), Some(Vec::new()));
    }
}

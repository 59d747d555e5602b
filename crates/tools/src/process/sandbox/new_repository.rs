//! A repository that a program made: what of it would run by itself.
//!
//! Making one is everyday work (`git init`, `git clone`, a submodule), so it may stay. What makes git run programs may
//! not: hooks other than git's own samples, which it never runs, and settings other than those that are known to run
//! nothing. They get another name, and git goes on without them.

use std::collections::HashSet;
use std::fs;
use std::io::{ErrorKind, Read as _};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, fstat, openat, statat};

use super::access::{is_gone, open_folder};
use super::git_settings::is_harmless;
use super::guard::put_aside;
use super::put_aside_name::is_put_aside;
use super::report::DisplacedName;
use super::repository::git_folders;
use super::survey::{FILLED_BY_TOOLS, GitSigns};

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
    let (mut section, mut subsection) = (String::new(), "");
    let (mut named, mut remotes) = (Vec::new(), HashSet::new());
    let (mut has_place, mut is_seen_from_it) = (false, false);
    let are_idle = settings.lines().map(str::trim).all(|line| {
        if line.is_empty() || line.starts_with(['#', ';']) {
            return true;
        }
        if let Some(head) = line.strip_prefix('[') {
            let Some(head) = head.strip_suffix(']') else { return false };
            let (name, rest) = head.split_once(' ').unwrap_or((head, "\"\""));
            section = name.to_ascii_lowercase();
            let quoted = rest.trim().strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
            subsection = quoted.unwrap_or_default();
            return quoted.is_some_and(|quoted| !quoted.contains(['"', '\\', ']']))
                && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        }
        let (key, value) = line.split_once('=').unwrap_or((line, ""));
        let (key, value) = (key.trim().to_ascii_lowercase(), value.trim());
        let is_place = section == "core" && key == "worktree";
        let is_url = section == "remote" && ["url", "pushurl"].contains(&key.as_str());
        if is_url && key == "url" {
            remotes.insert(subsection);
        }
        let is_remote = NAMED_REMOTES.contains(&(section.as_str(), key.as_str())) && value != ".";
        named.extend(is_remote.then_some(value));
        has_place |= is_place;
        is_seen_from_it |= is_url && !value.starts_with('/') && !value.contains(':');
        !line.ends_with('\\')
            && is_harmless(&section, &key)
            && (!is_place || is_near(git, value))
            && (!is_url || is_watched_remote(git, value, roots))
    });
    // What is the name of no remote is a place.
    are_idle
        && !(has_place && is_seen_from_it)
        && named.iter().all(|name| remotes.contains(name) && !name.contains('/'))
}

/// Settings that name a remote, to which something is pushed.
const NAMED_REMOTES: [(&str, &str); 3] =
    [("branch", "pushremote"), ("branch", "remote"), ("remote", "pushdefault")];

/// How git speaks to other machines.
const FAR: [&str; 6] = ["git", "git+ssh", "http", "https", "ssh", "ssh+git"];

/// What git tries after the path of a repository, in its order.
const TRIED: [&str; 4] = ["/.git", "", "/.git/.git", ".git"];

/// Whether something can be pushed to a place without running hooks that a command made: to another machine, or to what is
/// looked through after every command. Git goes by the same signs. What it may take a path for counts, all of it; where that
/// cannot be told, it is not. A repository that is mounted is not looked at again, so that of a project itself must have no
/// folder.
fn is_watched_remote(git: &Path, value: &str, roots: &[&Path]) -> bool {
    if value.contains(['"', '\\', '#', ';']) || value.contains("::") {
        return false;
    }
    let path = match value.split_once("://") {
        Some((far, _)) if FAR.contains(&far) => return true,
        // It is decoded, and never seen from a folder.
        Some(("file", path)) if path.starts_with('/') && !path.contains('%') => path,
        Some(_) => return false,
        None => value,
    };
    if path.find(':').is_some_and(|colon| path.find('/').is_none_or(|slash| colon < slash)) {
        return true;
    }
    // The home folder, or where there is more than one work tree that it may be seen from.
    let is_elsewhere = path.is_empty() || path.starts_with('~');
    let is_alone = git.ends_with(".git") && fs::symlink_metadata(git.join("worktrees")).is_err();
    if is_elsewhere || !path.starts_with('/') && !is_alone {
        return false;
    }
    let tree = git.parent().unwrap_or(git);
    let is_own = roots.iter().any(|root| *root == git || root.join(".git") == git);
    let is_looked_at = |path: &PathBuf| {
        let is_one = |name| !is_put_aside(name) && !FILLED_BY_TOOLS.iter().any(|known| name == *known);
        let mut below = roots.iter().filter_map(|root| path.strip_prefix(root).ok());
        below.any(|below| below.iter().all(is_one))
    };
    let mut found = Vec::new();
    for place in TRIED.map(|end| tree.join(format!("{}{end}", path.trim_end_matches('/')))) {
        // What cannot be told may lead anywhere.
        let real = match fs::canonicalize(&place) {
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => continue,
            Err(_) => return false,
            Ok(real) => real,
        };
        if real.is_dir() {
            found.push(real);
            continue;
        }
        // A file says where the folder of git's is.
        let above = real.parent().filter(|_| real.ends_with(".git"));
        let open = above.and_then(|above| Some((open_folder(CWD, above).ok()?, above)));
        match open.and_then(|(folder, above)| target(&folder, above)) {
            Some(git) => found.extend([real, git]),
            None => return false,
        }
    }
    !is_own && !found.is_empty() && found.iter().all(is_looked_at)
}

/// Whether a file, or a link, that is put into a folder makes git run programs there: the folder is one of git's then, and
/// was none before, or the file itself would. It is told by what is on the disk, whatever any tree says.
pub(super) fn would_arm(root: &Path, git: &Path, below: &Path, file: Option<&[u8]>) -> bool {
    let mut signs = GitSigns::of(git);
    let was_one = signs.are_those_of_git();
    let Some(name) = below.iter().next() else { return false };
    signs.see(name);
    if !signs.are_those_of_git() {
        return false;
    }
    let roots = [root];
    let runs = || {
        let Some(name) = ARMING.into_iter().find(|known| name == *known) else { return false };
        let Some(text) = file.map(str::from_utf8) else { return true };
        let is_inner = below.components().count() > 1;
        match name {
            "hooks" => !is_inner || below.extension().is_none_or(|end| end != "sample"),
            "branches" | "remotes" => true,
            "commondir" => !text.is_ok_and(|text| leads_up(git, text)),
            _ => !text.is_ok_and(|text| !is_inner && are_harmless(text, git, &roots)),
        }
    };
    let is_armed = || open_folder(CWD, git).map_or(true, |folder| !armed(git, &folder, &roots).is_empty());
    runs() || !was_one && is_armed()
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
            "[branch \"main\"]\n\tremote = origin\n\tmerge = refs/heads/main\n[user]\n\tname = A\n\
             [remote \"origin\"]\n\turl = https://x/y\n",
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
    fn a_remote_is_judged_as_git_resolves_it() {
        // Git goes from `x` to `x.git` and from `~` to the home folder, and hooks ran where only another place was judged.
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let folders = [
            "clone/.git",
            "clone/~/y",
            "clone/host",
            "clone/x",
            "bare",
            "x",
            "y/.git",
            "node_modules/e.git",
            "a:/b",
        ];
        folders.iter().for_each(|name| fs::create_dir_all(root.join(name)).unwrap());
        std::os::unix::fs::symlink("node_modules/e.git", root.join("x.git")).unwrap();
        std::os::unix::fs::symlink("../../node_modules/e.git", root.join("y/.git/.git")).unwrap();
        fs::create_dir(root.join("w")).unwrap();
        fs::write(root.join("w/.git"), "gitdir: ../node_modules/e.git\n").unwrap();
        let judge = |settings: &str| are_harmless(settings, &root.join("clone/.git"), &[&root]);
        let at = |name: &str| root.join(name).display().to_string();
        let url = |url: &str| judge(&format!("[remote \"o\"]\n\turl = {url}\n"));
        for harmless in ["https://x/y", "ssh://x/y", "git@x:y", "x:y", "git://x/y"] {
            assert!(url(harmless), "{harmless}");
        }
        for harmless in [at("bare"), at("bare/"), format!("file://{}", at("bare")), at("clone")] {
            assert!(url(&harmless), "{harmless}");
        }
        let link = root.join("clone/.git/worktrees");
        assert!(url("../bare") && !url("../x"));
        assert!(!judge("[remote \"o\"]\n\turl = ../bare\n[core]\n\tworktree = ../x\n"));
        fs::create_dir(link).unwrap();
        for armed in
            ["../bare", "../x", "~/y", "~", "../a:/b", "../a://b", "file://host", "odd://x/y", "", "../none"]
        {
            assert!(!url(armed), "{armed}");
        }
        for armed in [at("x"), at("x//"), at("y"), at("y/.git"), at("w"), format!("file://{}/%78", at(""))] {
            assert!(!url(&armed), "{armed}");
        }
        // A word is a place if it is the name of no remote.
        assert!(!judge("[branch \"b\"]\n\tremote = odd\n"));
        assert!(!judge("[branch \"b\"]\n\tpushRemote = x\n[remote \"x\"]\n\tfetch = y\n"));
        assert!(judge("[branch \"b\"]\n\tpushRemote = x\n[remote \"x\"]\n\turl = https://x\n"));
        assert!(!judge("[remote]\n\tpushDefault = ~\n"));
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

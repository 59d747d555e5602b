//! A place where lines are run for real: a throw-away folder, and a `PATH` on which every program is a recorder.
//!
//! A recorder writes its name and arguments to descriptor 9, which the driver opens anew for each line. Recorders of
//! launchers and of harmless programs then become the real program, so that what those start is recorded as well; all
//! others only record. Nothing but the shell's own commands and absolute paths gets past them.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::{env, fs};

use tempfile::TempDir;

/// Programs that do their work after they were recorded. The tests cannot do without the first few.
const REAL: &[&str] = &[
    "sh", "bash", "env", "xargs", "find", "nohup", "timeout", "nice", "git", "cat", "ls", "grep", "sed",
    "awk", "sort", "head", "tail", "wc", "tar", "setsid", "stdbuf", "perl", "python3", "printf", "echo",
    "true", "false", "test", "[", "pwd", "dash", "tr", "cut", "uniq",
];
const NEEDED: usize = 16;

/// Programs that only record.
const RECORDED: &[&str] = &[
    "rm", "evil", "curl", "wget", "mv", "cp", "touch", "tee", "chmod", "kill", "sudo", "ssh", "scp", "make",
    "rsync", "zip", "rg", "node", "npm", "npx", "cargo", "go", "man", "less", "vim", "watch", "parallel",
    "busybox", "sqlite3", "script", "flock", "strace", "sleep", "dd", "ln", "mkdir", "rmdir", "id", "whoami",
    "x", "y", "m", "r", "a", "b", "c", "hi", "run", "gitx", "time", "status", "log", "then", "fi", "done",
    "do", "}", "esac", "lsx", "catx", "ruby", "yes", "in", "else", "-", "--", "f", "sub", "gits", "evilx",
    "E", "EOF", "1", "2", "[[", "coproc", "select", "function", "shuf", "tree", "bat", "diff3", "gcc",
];

/// Programs that git finds by their names; they only record.
const GITS: &[&str] = &["git-remote-evil", "git-merge-evil"];

/// What the repository of a folder begins with.
const HISTORY: &str = "\
commit refs/heads/main
mark :1
committer a <a@b> 1 +0000
data 0
commit refs/heads/work
committer a <a@b> 2 +0000
data 0
from :1

commit refs/heads/main
committer a <a@b> 3 +0000
data 0
from :1

";

/// How many drivers run side by side, and how many lines one of them takes at most.
const DRIVERS: usize = 2;
const LINES_MAX: usize = 250;

/// What each line is run by. Its output goes nowhere; descriptor 8 tells when the last process it left is gone. A line
/// that runs on is stopped by the limit on processor time, which the driver itself stays far below.
const DRIVER: &str = r#"
n=0
ulimit -t 3
# The shell tells when a line was stopped, which is not an error.
exec 2>/dev/null
while IFS= read -r -d '' line; do
    "$BASH" -c "$line" 8>&1 9>>"../logs/$n" </dev/null >/dev/null 2>&1
    if [[ $FRESH ]] && ! {
        "$DIFF" -rq -x .git ../template . && "$DIFF" -rq ../template/.git/hooks .git/hooks &&
            "$DIFF" -q ../template/.git/config .git/config
    } >/dev/null 2>&1; then
        : >"../logs/$n.changed"
        "$RM" -rf -- * .git && "$CP" -a ../template/* ../template/.git .
    fi
    n=$((n + 1))
done <../lines
"#;

/// What the shell calls for a program that is not there, so that this is recorded as well.
const MISSING: &str = r#"() { builtin printf '%s\0' $(($# - 1)) "$@" >&9; }"#;

/// A program that ran, with its arguments.
pub(super) type Ran = Vec<String>;

/// What a line did.
#[derive(Debug, Default)]
pub(super) struct Deed {
    pub(super) ran: Vec<Ran>,
    /// Whether the folder was another one afterwards; only told when each line has a folder of its own.
    pub(super) changed: bool,
}

/// Where lines are run.
#[derive(Debug)]
pub(super) struct Arena {
    root: TempDir,
}

/// Whether every line gets a folder of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Folder {
    Own,
    Shared,
}

fn real(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap();
    env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}

fn needed(name: &str) -> PathBuf {
    real(name).unwrap_or_else(|| panic!("the tests need {name} on PATH"))
}

impl Arena {
    pub(super) fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let shims = root.path().join("shims");
        fs::create_dir(&shims).unwrap();
        for (at, name) in REAL.iter().enumerate() {
            let real = if at < NEEDED { Some(needed(name)) } else { real(name) };
            shim(&shims, name, real.as_deref());
        }
        RECORDED.iter().chain(GITS).for_each(|name| shim(&shims, name, None));
        Self { root }
    }

    /// A folder as lines find it.
    pub(super) fn furnish(folder: &Path) {
        fs::create_dir_all(folder.join("sub")).unwrap();
        for (name, text) in [
            ("f", "a\nb c\n"),
            ("x", "rm y\n"),
            ("sub/g", "x\n"),
            ("x.py", "pass\n"),
            ("a.rs", ""),
            ("p", "a\n"),
        ] {
            fs::write(folder.join(name), text).unwrap();
        }
        // A repository that came with the project's content, and names a program to run.
        for name in ["bare/objects", "bare/refs", "bare/sub", "3"] {
            fs::create_dir_all(folder.join(name)).unwrap();
        }
        fs::write(folder.join("bare/HEAD"), "ref: refs/heads/main\n").unwrap();
        let settings = "[core]\nrepositoryformatversion = 0\nworktree = ../sub\nfsmonitor = evil\n";
        fs::write(folder.join("bare/config"), settings).unwrap();
        // What `ls` is when the variable `PATH` is `3`.
        let programs =
            [("sub/run", "#!/bin/sh\nrm from-run\n"), ("3/ls", "#!/bin/sh\nprintf '%s\\0' 0 evil >&9\n")];
        for (name, text) in programs {
            let file = folder.join(name);
            fs::write(&file, text).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let git = |arguments: &[&str]| {
            let mut git = Command::new(needed("git"));
            git.args(arguments)
                .current_dir(folder)
                .env("GIT_CONFIG_NOSYSTEM", "1")
                .env("GIT_CONFIG_GLOBAL", "/dev/null");
            git
        };
        assert!(git(&["-c", "init.defaultBranch=work", "init", "-q"]).status().unwrap().success());
        // Two branches that went apart, so that there is something to merge.
        let mut import =
            git(&["fast-import", "--quiet"]).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        import.stdin.take().unwrap().write_all(HISTORY.as_bytes()).unwrap();
        assert!(import.wait().unwrap().success());
    }

    /// Runs the lines and tells what each did.
    pub(super) fn run(&self, lines: &[&str], folder: Folder) -> Vec<Deed> {
        let share = lines.len().div_ceil(DRIVERS).clamp(1, LINES_MAX);
        let chunks: Vec<&[&str]> = lines.chunks(share).collect();
        chunks.chunks(DRIVERS).flat_map(|chunks| self.run_side_by_side(chunks, folder)).collect()
    }

    fn run_side_by_side(&self, chunks: &[&[&str]], folder: Folder) -> Vec<Deed> {
        let start = |(at, lines): (usize, &&[&str])| {
            let place = self.root.path().join(format!("driver{at}"));
            let child = self.start(&place, lines, folder);
            (place, lines.len(), child)
        };
        let drivers: Vec<(PathBuf, usize, Child)> = chunks.iter().enumerate().map(start).collect();
        let mut deeds = Vec::new();
        for (place, count, child) in drivers {
            // The pipe ends when the last process of the last line is gone.
            let output = child.wait_with_output().unwrap();
            assert!(output.status.success(), "{}", output.status);
            for at in 0..count {
                let record = fs::read(place.join(format!("logs/{at}"))).unwrap();
                let changed = place.join(format!("logs/{at}.changed")).exists();
                deeds.push(Deed { ran: records(&record), changed });
            }
            if folder == Folder::Shared {
                let now = content(&place.join("work"));
                assert!(content(&place.join("template")) == now, "a line wrote to its folder: {now:#?}");
            }
            fs::remove_dir_all(&place).unwrap();
        }
        deeds
    }

    fn start(&self, place: &Path, lines: &[&str], folder: Folder) -> Child {
        for name in ["logs", "home"] {
            fs::create_dir_all(place.join(name)).unwrap();
        }
        Self::furnish(&place.join("template"));
        Self::furnish(&place.join("work"));
        let text: String = lines.iter().map(|line| format!("{line}\0")).collect();
        fs::write(place.join("lines"), text).unwrap();
        Command::new(needed("bash"))
            .args(["-c", DRIVER])
            .current_dir(place.join("work"))
            .env_clear()
            .env("PATH", self.root.path().join("shims"))
            .env("HOME", place.join("home"))
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_AUTHOR_NAME", "a")
            .env("GIT_AUTHOR_EMAIL", "a@b")
            .env("GIT_COMMITTER_NAME", "a")
            .env("GIT_COMMITTER_EMAIL", "a@b")
            .env("LC_ALL", "C.UTF-8")
            .env("BASH_FUNC_command_not_found_handle%%", MISSING)
            .env("FRESH", if folder == Folder::Own { "1" } else { "" })
            .env("RM", needed("rm"))
            .env("CP", needed("cp"))
            .env("DIFF", needed("diff"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap()
    }
}

fn shim(shims: &Path, name: &str, real: Option<&Path>) {
    let then = real.map_or_else(|| "exit 0".to_owned(), |real| format!("exec '{}' \"$@\"", real.display()));
    let path = shims.join(name);
    fs::write(&path, format!("#!/bin/sh\nprintf '%s\\0' $# '{name}' \"$@\" >&9 || exit 99\n{then}\n"))
        .unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Reads a log: the number of arguments, the name, the arguments.
fn records(log: &[u8]) -> Vec<Ran> {
    let mut parts = log.split(|byte| *byte == 0).map(|part| String::from_utf8_lossy(part).into_owned());
    let mut records = Vec::new();
    while let Some(count) = parts.next().filter(|count| !count.is_empty()) {
        let count: usize = count.parse().unwrap();
        records.push((&mut parts).take(count + 1).collect());
    }
    records
}

/// Every file below a folder with its text; of git's own only what says which programs it runs.
fn content(folder: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut open = vec![folder.to_owned()];
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(next).unwrap().map(Result::unwrap) {
            let path = entry.path();
            let name = path.strip_prefix(folder).unwrap().display().to_string();
            if entry.file_type().unwrap().is_dir() {
                if !name.starts_with(".git/") || name == ".git/hooks" {
                    found.insert(name, String::new());
                    open.push(path);
                }
            } else if !name.starts_with(".git/") || name == ".git/config" || name.starts_with(".git/hooks/") {
                found.insert(name, String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned());
            }
        }
    }
    found
}

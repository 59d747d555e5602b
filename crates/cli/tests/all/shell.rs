//! The binary on the command line, in a home of its own.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::tmux::Terminal;

/// A home without anything in it, and a folder to work in.
#[derive(Debug)]
pub(crate) struct Home {
    folder: TempDir,
    work: TempDir,
    environment: Vec<(String, PathBuf)>,
}

/// What a command did.
#[derive(Debug)]
pub(crate) struct Outcome {
    command: String,
    pub(crate) status: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Home {
    pub(crate) fn new() -> Self {
        let folder = || TempDir::with_prefix("everturn-shell-").expect("a temporary folder");
        Self { folder: folder(), work: folder(), environment: Vec::new() }
    }

    /// Sets a variable for all commands.
    pub(crate) fn set(&mut self, name: &str, value: impl Into<PathBuf>) {
        self.environment.push((name.to_owned(), value.into()));
    }

    /// Gives the person a configuration.
    pub(crate) fn configure(&self, config: &serde_json::Value) {
        let folder = self.folder.path().join(".config/opencode");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("opencode.json"), config.to_string()).unwrap();
    }

    /// The person's home.
    pub(crate) fn home(&self) -> &Path {
        self.folder.path()
    }

    /// Where commands run.
    pub(crate) fn work(&self) -> &Path {
        self.work.path()
    }

    /// The files in the home and in the folder where commands run.
    pub(crate) fn files(&self) -> Vec<String> {
        let mut open = vec![self.folder.path().to_owned(), self.work.path().to_owned()];
        let mut files = Vec::new();
        while let Some(folder) = open.pop() {
            for entry in std::fs::read_dir(&folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() { open.push(path) } else { files.push(path.display().to_string()) }
            }
        }
        files.sort();
        files
    }

    /// A command that was not started yet.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_everturn"));
        command.args(arguments).current_dir(self.work.path());
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("HOME", self.folder.path()).env("LANG", "C.UTF-8").env("TZ", "UTC");
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Runs a command in a terminal.
    pub(crate) fn open(&self, arguments: &[&str]) -> Terminal {
        let text = |path: &Path| path.to_str().expect("a Unicode path").to_owned();
        let mut environment: Vec<(String, String)> =
            self.environment.iter().map(|(name, value)| (name.clone(), text(value))).collect();
        environment.push(("HOME".to_owned(), text(self.folder.path())));
        environment.push(("LANG".to_owned(), "C.UTF-8".to_owned()));
        // What a program prints just before its end does not always reach the screen, so something else goes on.
        let words = ["-c", "\"$0\" \"$@\"; exec cat", env!("CARGO_BIN_EXE_everturn")];
        Terminal::open(Path::new("/bin/sh"), &[&words, arguments].concat(), &environment, self.work.path())
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Outcome {
        self.run_with(arguments, "")
    }

    /// Runs a command with this on its standard input.
    pub(crate) fn run_with(&self, arguments: &[&str], input: &str) -> Outcome {
        let mut command = self.command(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        Outcome {
            command: arguments.join(" "),
            status: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

impl Outcome {
    /// What it printed, if it succeeded and had nothing to complain about.
    pub(crate) fn success(self) -> String {
        assert_eq!((self.status, self.stderr.as_str()), (Some(0), ""), "{}: {}", self.command, self.stdout);
        self.stdout
    }

    /// What it complained about, if it failed with `status` and printed nothing else.
    pub(crate) fn failure(self, status: i32) -> String {
        assert_eq!(
            (self.status, self.stdout.as_str()),
            (Some(status), ""),
            "{}: {}",
            self.command,
            self.stderr
        );
        self.stderr
    }
}

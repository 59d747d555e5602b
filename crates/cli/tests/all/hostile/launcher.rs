//! Commands that are measured: how they end, what they print and how much memory they take at most.
//!
//! The system tells the peak of a process to whoever waits for it, and to nobody afterwards. No crate of ours asks for
//! it, so a small program in Python starts the commands.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::site::HostileSite;

/// What starts commands, one at a time.
#[derive(Debug)]
pub(super) struct MeasuredLauncher {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

/// A command that runs.
#[derive(Debug)]
pub(super) struct LaunchedCommand {
    pub(super) pid: Pid,
    begun: Instant,
}

/// How a command ended.
#[derive(Debug)]
pub(super) struct MeasuredEnd {
    /// None if it was killed.
    pub(super) status: Option<i64>,
    /// The most memory that it had, in bytes.
    pub(super) peak: u64,
    pub(super) elapsed: Duration,
    pub(super) stdout: String,
    pub(super) stderr: String,
}

impl MeasuredLauncher {
    pub(super) fn start() -> Self {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/all/hostile/launcher.py");
        let mut child = Command::new("python3")
            .arg(script)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3 runs");
        let (orders, answers) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        Self { child, orders, answers }
    }

    /// Starts a program in the repository, for so long at most.
    pub(super) fn launch(
        &mut self,
        site: &HostileSite,
        command: &[&str],
        limit: Duration,
    ) -> LaunchedCommand {
        let order = json!({
            "command": command, "folder": site.root(), "environment": site.environment(),
            "stdout": site.stdout(), "stderr": site.stderr(), "seconds": limit.as_secs_f64(),
        });
        let begun = Instant::now();
        writeln!(self.orders, "{order}").unwrap();
        let pid =
            self.answer()["pid"].as_i64().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
        LaunchedCommand { pid: pid.expect("the id of a process"), begun }
    }

    /// Waits for the end of what was started.
    pub(super) fn wait(&mut self, site: &HostileSite, command: &LaunchedCommand) -> MeasuredEnd {
        let ended = self.answer();
        let text = |path| String::from_utf8_lossy(&std::fs::read(path).unwrap()).into_owned();
        MeasuredEnd {
            status: ended["status"].as_i64().filter(|status| *status >= 0),
            peak: ended["kilobytes"].as_u64().unwrap() * 1024,
            elapsed: command.begun.elapsed(),
            stdout: text(site.stdout()),
            stderr: text(site.stderr()),
        }
    }

    /// Asks what was started to end, and waits for it.
    pub(super) fn stop(&mut self, site: &HostileSite, command: &LaunchedCommand) -> MeasuredEnd {
        // It may have ended already.
        let _ = kill_process(command.pid, Signal::TERM);
        self.wait(site, command)
    }

    /// Runs a program to its end.
    pub(super) fn run_program(
        &mut self,
        site: &HostileSite,
        command: &[&str],
        limit: Duration,
    ) -> MeasuredEnd {
        let launched = self.launch(site, command, limit);
        self.wait(site, &launched)
    }

    /// Runs the binary to its end.
    pub(super) fn run(&mut self, site: &HostileSite, arguments: &[&str], limit: Duration) -> MeasuredEnd {
        self.run_program(site, &[&[env!("CARGO_BIN_EXE_everturn")], arguments].concat(), limit)
    }

    fn answer(&mut self) -> Value {
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("the launcher says {line:?}: {error}"))
    }
}

impl Drop for MeasuredLauncher {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

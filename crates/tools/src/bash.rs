//! The `bash` tool: runs a command and reports what it prints while it prints.
//!
//! The command gets a process group of its own, so that stopping it stops everything it started. Standard
//! output and error share one pipe, which keeps their order. Once the shell has ended the call ends too: a
//! background process that still holds the pipe delays it by [`Bash::drain`] at most.

use std::{
    env,
    ffi::OsStr,
    io,
    os::unix::process::ExitStatusExt as _,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    time::Duration,
};

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::{
    io::AsyncReadExt as _,
    net::unix::pipe,
    process::{Child, Command},
    time::{Instant, sleep_until, timeout_at},
};

use self::{capture::Capture, group::Group};
use crate::{
    bound::Limits,
    input::{decode, schema},
    scope::{Access, Scope},
    shell::Analysis,
    tool::{BoxFuture, Context, Effect, Failure, Need, Output, Tool},
};

mod capture;
mod group;

/// The time limit of a call that names none, in milliseconds.
const TIMEOUT_DEFAULT: u64 = 120_000;
/// The longest time limit a call may ask for, in milliseconds.
const TIMEOUT_MAX: u64 = 600_000;
/// The shortest pause between two live reports.
const REPORT_EVERY: Duration = Duration::from_millis(50);
/// How often a group that was asked to stop is looked at.
const POLL_EVERY: Duration = Duration::from_millis(10);
/// How much is read from the pipe at once.
const BLOCK: usize = 64 * 1024;
/// What stands for an empty output.
const NO_OUTPUT: &str = "(no output)";

/// What becomes of background processes when the shell ends by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leftovers {
    /// They go on, as people who start a server with `&` expect; what they still print is dropped.
    Leave,
    /// Their group is stopped if it still holds the pipe.
    Stop,
}

/// The tool that runs commands.
#[derive(Clone, Debug)]
pub struct Bash {
    /// How long a group may take to stop by itself before it is killed.
    pub grace: Duration,
    /// How long to wait for the rest of the output after the shell has ended.
    pub drain: Duration,
    /// What becomes of background processes.
    pub leftovers: Leftovers,
    /// The largest output that goes to the model whole.
    pub limits: Limits,
}

impl Default for Bash {
    fn default() -> Self {
        Self {
            grace: Duration::from_secs(3),
            drain: Duration::from_millis(100),
            leftovers: Leftovers::Leave,
            limits: Limits::default(),
        }
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
struct Input {
    /// The command to run
    command: String,
    /// What the command is for, in a few words
    #[serde(default)]
    description: Option<String>,
    /// The time limit in milliseconds
    #[schemars(range(min = 1, max = TIMEOUT_MAX))]
    #[serde(default)]
    timeout: Option<u64>,
    /// The folder to run it in
    #[serde(default)]
    workdir: Option<String>,
}

impl Input {
    fn parse(input: Value) -> Result<Self, Failure> {
        let input: Self = decode("bash", input)?;
        match input.timeout {
            Some(0) => Err(Failure::InvalidInput("timeout must be at least 1 millisecond.".into())),
            Some(timeout) if timeout > TIMEOUT_MAX => {
                Err(Failure::InvalidInput(format!("timeout may be {TIMEOUT_MAX} milliseconds at most.")))
            }
            _ => Ok(input),
        }
    }

    fn workdir(&self, scope: &Scope) -> PathBuf {
        self.workdir.as_deref().map_or_else(|| scope.directory.clone(), |path| scope.resolve(path))
    }
}

impl Tool for Bash {
    fn name(&self) -> &'static str {
        "bash"
    }

    fn description(&self) -> &'static str {
        "Runs a command with bash. Each call starts a new shell in the project folder, or in `workdir`; nothing \
         carries over from earlier calls. The command has no input to read. It is stopped after `timeout` \
         milliseconds (120000 unless given, 600000 at most). Long output is shortened in the middle and kept \
         whole in a file that is named then. Use `read`, `write` and `edit` for files."
    }

    fn schema(&self) -> Value {
        schema::<Input>()
    }

    fn effect(&self) -> Effect {
        Effect::Opaque
    }

    fn needs(&self, input: &Value, scope: &Scope) -> Result<Vec<Need>, Failure> {
        let input = Input::parse(input.clone())?;
        let workdir = input.workdir(scope);
        let analysis = Analysis::of(&input.command, &workdir, scope);
        let mut needs: Vec<Need> = scope.external(&workdir, Access::Write).into_iter().collect();
        for need in analysis.external_needs(scope) {
            if !needs.iter().any(|known| known.patterns == need.patterns) {
                needs.push(need);
            }
        }
        let mut metadata = Map::new();
        metadata.insert("command".to_owned(), json!(input.command));
        if let Some(description) = &input.description {
            metadata.insert("description".to_owned(), json!(description));
        }
        let Analysis { commands: patterns, always, .. } = analysis;
        needs.push(Need { permission: "bash".to_owned(), patterns, always, metadata });
        Ok(needs)
    }

    fn run(&self, input: Value, context: Context) -> BoxFuture<'_, Result<Output, Failure>> {
        Box::pin(async move { self.execute(Input::parse(input)?, context).await })
    }
}

/// How a command came to its end.
#[derive(Clone, Copy, Debug)]
enum Ending {
    Exited(ExitStatus),
    TimedOut,
    Cancelled,
}

impl Bash {
    async fn execute(&self, input: Input, context: Context) -> Result<Output, Failure> {
        if context.cancel.is_cancelled() {
            return Err(Failure::Cancelled);
        }
        let workdir = input.workdir(&context.scope);
        if !workdir.is_dir() {
            return Err(Failure::Failed(format!("{} is not a folder.", workdir.display())));
        }
        let (child, reader) = spawn(&input.command, &workdir)
            .map_err(|error| Failure::Failed(format!("Could not start the shell: {error}")))?;
        let timeout = Duration::from_millis(input.timeout.unwrap_or(TIMEOUT_DEFAULT));
        let mut running = Running {
            group: Group::of(&child),
            child,
            reader: Some(reader),
            capture: Capture::new(context.scope.output_dir.clone()),
            block: Vec::with_capacity(BLOCK),
            reported: Instant::now(),
            dirty: false,
            context,
        };
        let ending = running.follow(timeout).await?;
        if !matches!(ending, Ending::Exited(_)) {
            running.stop(self.grace).await;
        }
        running.drain(self.drain).await;
        if running.reader.is_some() && self.leftovers == Leftovers::Stop {
            running.stop(self.grace).await;
            running.drain(self.drain).await;
        }
        running.release();
        running.report();
        let Running { capture, .. } = running;
        Ok(output(input.command, ending, timeout, capture.finish(self.limits).await))
    }
}

/// Starts the shell in a group of its own, with both outputs on one pipe.
fn spawn(command: &str, workdir: &Path) -> io::Result<(Child, pipe::Receiver)> {
    let start = |shell: &str| -> io::Result<(Child, pipe::Receiver)> {
        let (reader, writer) = io::pipe()?;
        let mut process = Command::new(shell);
        process
            .arg("-c")
            .arg(command)
            .current_dir(workdir)
            .stdin(Stdio::null())
            .stdout(writer.try_clone()?)
            .stderr(writer)
            .process_group(0)
            .kill_on_drop(true);
        for (name, _) in env::vars_os().filter(|(name, _)| secret(name)) {
            process.env_remove(name);
        }
        // The command value holds write ends of the pipe; it must be gone before the first read, or the end
        // of the output would never show.
        let child = process.spawn()?;
        drop(process);
        Ok((child, pipe::Receiver::from_owned_fd(reader.into())?))
    };
    match start("bash") {
        Err(error) if error.kind() == io::ErrorKind::NotFound => start("sh"),
        other => other,
    }
}

/// Whether an environment variable is ours to keep from commands: it holds our secrets, or may.
fn secret(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b"EVERTURN_")
        || name == "OPENCODE_SERVER_PASSWORD"
        // A whole configuration, keys of providers included.
        || name == "OPENCODE_CONFIG_CONTENT"
}

/// A command between its start and its result.
#[derive(Debug)]
struct Running {
    group: Group,
    child: Child,
    /// Nothing once every writer has closed its end.
    reader: Option<pipe::Receiver>,
    capture: Capture,
    block: Vec<u8>,
    reported: Instant,
    dirty: bool,
    context: Context,
}

impl Running {
    /// Collects output until the shell ends, the time is up, or the call is cancelled.
    async fn follow(&mut self, timeout: Duration) -> Result<Ending, Failure> {
        let deadline = Instant::now() + timeout;
        let cancel = self.context.cancel.clone();
        self.report();
        loop {
            let due = self.reported + REPORT_EVERY;
            tokio::select! {
                biased;
                () = cancel.cancelled() => return Ok(Ending::Cancelled),
                () = sleep_until(deadline) => return Ok(Ending::TimedOut),
                () = sleep_until(due), if self.dirty => self.report(),
                // Before the pipe, which a busy background process never leaves empty.
                status = self.child.wait() => {
                    return status.map(Ending::Exited).map_err(|error| {
                        Failure::Failed(format!("Lost track of the command: {error}"))
                    });
                }
                () = receive(&mut self.reader, &mut self.block), if self.reader.is_some() => self.take().await,
            }
        }
    }

    /// Asks the whole group to stop, and kills what is left after the grace.
    async fn stop(&mut self, grace: Duration) {
        let deadline = Instant::now() + grace;
        self.group.terminate();
        let mut reaped = false;
        while Instant::now() < deadline && (!reaped || self.group.exists()) {
            let pause = (Instant::now() + POLL_EVERY).min(deadline);
            tokio::select! {
                biased;
                _ = self.child.wait(), if !reaped => reaped = true,
                () = receive(&mut self.reader, &mut self.block), if self.reader.is_some() => self.take().await,
                () = sleep_until(pause) => {}
            }
        }
        self.group.kill();
        self.child.wait().await.ok();
    }

    /// Collects what is still in the pipe, for a while.
    async fn drain(&mut self, patience: Duration) {
        let deadline = Instant::now() + patience;
        // The clock decides by itself as well: the wait never ends early while output keeps coming.
        while self.reader.is_some() && Instant::now() < deadline {
            if timeout_at(deadline, receive(&mut self.reader, &mut self.block)).await.is_err() {
                return;
            }
            self.take().await;
        }
    }

    /// Lets go of processes that may live on, reading their output to nowhere so that they can write.
    fn release(&mut self) {
        self.group.disarm();
        if let Some(mut reader) = self.reader.take() {
            tokio::spawn(async move { tokio::io::copy(&mut reader, &mut tokio::io::sink()).await });
        }
    }

    /// Takes what was received into the capture.
    async fn take(&mut self) {
        if self.block.is_empty() {
            return;
        }
        self.capture.push(&self.block).await;
        self.block.clear();
        self.dirty = true;
    }

    fn report(&mut self) {
        let mut metadata = Map::new();
        metadata.insert("output".to_owned(), json!(self.capture.live()));
        self.context.report(metadata);
        self.reported = Instant::now();
        self.dirty = false;
    }
}

/// Waits for the next block; the reader goes away when there is none to come.
async fn receive(reader: &mut Option<pipe::Receiver>, block: &mut Vec<u8>) {
    let Some(open) = reader else { return };
    block.reserve(BLOCK);
    match open.read_buf(block).await {
        Ok(0) | Err(_) => *reader = None,
        Ok(_) => {}
    }
}

/// The result in its recorded form.
fn output(command: String, ending: Ending, timeout: Duration, captured: capture::Captured) -> Output {
    let (exit, note) = match ending {
        Ending::Exited(status) => {
            (status.code().or_else(|| status.signal().map(|signal| 128 + signal)), String::new())
        }
        Ending::TimedOut => {
            (None, format!("(The command was stopped: it ran longer than {} ms.)", timeout.as_millis()))
        }
        Ending::Cancelled => (None, "(The command was stopped: the call was cancelled.)".to_owned()),
    };
    let with_note = |text: &str| match (text.is_empty(), note.is_empty()) {
        (true, true) => NO_OUTPUT.to_owned(),
        (true, false) => note.clone(),
        (false, true) => text.to_owned(),
        (false, false) => format!("{}\n\n{note}", text.trim_end_matches('\n')),
    };
    let mut metadata = Map::new();
    metadata.insert("output".to_owned(), json!(with_note(&captured.live)));
    metadata.insert("exit".to_owned(), json!(exit));
    metadata.insert("truncated".to_owned(), json!(captured.bounded.truncated));
    if let Some(path) = &captured.bounded.path {
        metadata.insert("outputPath".to_owned(), json!(path.display().to_string()));
    }
    Output {
        title: command,
        output: with_note(&captured.bounded.text),
        metadata,
        output_path: captured.bounded.path,
        ..Output::default()
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::secret;

    #[test]
    fn our_secrets_stay_with_us() {
        for name in ["EVERTURN_TOKEN", "EVERTURN_", "OPENCODE_SERVER_PASSWORD", "OPENCODE_CONFIG_CONTENT"] {
            assert!(secret(OsStr::new(name)), "{name}");
        }
        for name in ["PATH", "MY_EVERTURN_X", "OPENCODE_SERVER_PASSWORD_FILE", "OPENCODE_CONFIG", "HOME"] {
            assert!(!secret(OsStr::new(name)), "{name}");
        }
    }
}

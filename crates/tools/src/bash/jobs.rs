//! Commands that go on after their call.
//!
//! A job's output goes to a Managed Tool Output File, through us, so that it can be cut off: what a program prints must
//! not fill the disk. The jobs end with the value that holds them, and with this process.

use std::collections::HashMap;
use std::io::SeekFrom;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Map, json};
use tokio::fs::File;
use tokio::io::{AsyncSeekExt as _, AsyncWriteExt as _};
use tokio::net::unix::pipe;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::BashTool;
use super::capture::{LARGEST, MORE, text};
use super::running::receive;
use crate::bound;
use crate::process::sandbox::SandboxPolicy;
use crate::process::{Cleanup, Exit, RunningProgram};
use crate::tool::{Context, Failure, Output};

/// The most jobs at a time.
const MOST: usize = 16;
/// How long a call looks whether its job fails at once.
const LOOK: Duration = Duration::from_millis(300);
/// How much of the output makes room for the note that the rest is lost, when the disk is full.
const ROOM: u64 = 8 * 1024;

/// The commands that run in the background; clones share them. They are stopped when the last clone is dropped.
#[derive(Debug, Clone)]
pub struct Jobs {
    slots: Arc<Semaphore>,
    tasks: Arc<Mutex<JoinSet<()>>>,
    /// How each can be stopped, by the process that its call names.
    stops: Arc<Mutex<HashMap<i32, JobStop>>>,
    /// The most bytes of one job's output that are kept.
    largest: u64,
}

impl Default for Jobs {
    fn default() -> Self {
        Self::with_limits(MOST, LARGEST)
    }
}

impl Jobs {
    /// Jobs of which at most so many run at a time, each with at most so many bytes of output.
    #[must_use]
    pub fn with_limits(most: usize, largest: u64) -> Self {
        Self { slots: Arc::new(Semaphore::new(most)), tasks: Arc::default(), stops: Arc::default(), largest }
    }

    /// How many are running.
    #[must_use]
    pub fn running(&self) -> usize {
        self.tasks().len()
    }

    /// Those that have not ended.
    fn tasks(&self) -> MutexGuard<'_, JoinSet<()>> {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        while tasks.try_join_next().is_some() {}
        tasks
    }

    /// Stops the job that a line means to kill, if it does nothing else: the line that the job's call named. In a
    /// sandbox the shell sees no process of another command. The result is what there is to say.
    /// Jobs of other sessions are none of this one's business.
    pub(super) async fn stop_by(&self, line: &str, session: &str) -> Option<String> {
        let pid = killed_by(line)?;
        let stop = self.stops().get(&pid).filter(|stop| stop.session == session).cloned();
        let JobStop { ask, ended, .. } = stop?;
        ask.cancel();
        ended.cancelled().await;
        Some(format!("The command that ran in the background as {pid} was stopped, with all it started."))
    }

    fn stops(&self) -> MutexGuard<'_, HashMap<i32, JobStop>> {
        let mut stops = self.stops.lock().unwrap_or_else(PoisonError::into_inner);
        stops.retain(|_, stop| !stop.ended.is_cancelled());
        stops
    }

    /// Starts a command that goes on after the call.
    pub(super) async fn start(
        &self,
        bash: &BashTool,
        command: String,
        workdir: &Path,
        sandbox: Option<SandboxPolicy>,
        context: &Context,
    ) -> Result<Output, Failure> {
        let Ok(slot) = Arc::clone(&self.slots).try_acquire_owned() else {
            return Err(Failure::Failed(format!(
                "{} commands are running in the background, and more are not allowed. Stop one of them first: \
                 kill its process.",
                self.running()
            )));
        };
        let file = bound::create(&context.scope.output_dir)
            .inspect_err(|error| tracing::warn!(%error, "the output of a background command is not kept"))
            .ok();
        let path = file.as_ref().map(|(_, path)| path.clone());
        let started = bash.start(&command, workdir, sandbox).await.and_then(|(program, reader)| {
            let stop = match (program.pid(), program.is_watched()) {
                (Some(pid), true) => format!("kill {pid}"),
                (Some(pid), false) => format!("kill -- -{pid}"),
                (None, _) => {
                    return Err(Failure::Failed("The command ended before it could be watched.".into()));
                }
            };
            Ok((program, reader, stop))
        });
        let (program, reader, stop) = match (started, &path) {
            (Ok(started), _) => started,
            (Err(failure), Some(path)) => {
                // Nobody will learn about the file.
                tokio::fs::remove_file(path).await.ok();
                return Err(failure);
            }
            (Err(failure), None) => return Err(failure),
        };
        let pid = program.pid().map(rustix::process::Pid::as_raw_pid);
        let (ended, mut end) = oneshot::channel();
        let cancel = CancellationToken::new();
        let over = CancellationToken::new();
        if let Some(pid) = pid {
            let (session, ask, ended) = (context.host.session(), cancel.clone(), over.clone());
            self.stops().insert(pid, JobStop { session, ask, ended });
        }
        let job = BackgroundJob {
            program,
            reader: Some(reader),
            log: JobLog::new(file, self.largest),
            cancel: cancel.clone(),
            drain: bash.drain,
        };
        let over = over.drop_guard();
        self.tasks().spawn(async move {
            job.run(slot, ended).await;
            drop(over);
        });

        let early = tokio::select! {
            early = timeout(LOOK, &mut end) => early.ok(),
            () = context.cancel.cancelled() => {
                cancel.cancel();
                Some(end.await)
            }
        };
        let mut metadata = Map::new();
        let text = match early {
            None => {
                metadata.insert("pid".to_owned(), json!(pid));
                let output = match &path {
                    Some(path) => format!("Its output goes to {}; use `read` to see it.", path.display()),
                    None => "Its output could not be kept and is lost.".to_owned(),
                };
                format!("The command runs in the background. {output} To stop it and all it started: {stop}")
            }
            Some(end) => {
                let exit = end.ok().and_then(Exit::code);
                metadata.insert("exit".to_owned(), json!(exit));
                let how = exit.map_or_else(String::new, |code| format!(" with exit code {code}"));
                let printed = printed(path.as_deref(), bash.limits.bytes as u64).await;
                format!("The command has already ended{how}.{printed}")
            }
        };
        metadata.insert("output".to_owned(), json!(text));
        metadata.entry("exit").or_insert(json!(null));
        metadata.insert("truncated".to_owned(), json!(false));
        metadata.insert("background".to_owned(), json!(true));
        if let Some(path) = &path {
            metadata.insert("outputPath".to_owned(), json!(path.display().to_string()));
        }
        Ok(Output { title: command, output: text, metadata, output_path: path, ..Output::default() })
    }
}

/// How a job is stopped.
#[derive(Debug, Clone)]
struct JobStop {
    /// The session that started it.
    session: String,
    ask: CancellationToken,
    /// Fires when nothing of it runs any more.
    ended: CancellationToken,
}

/// The process that a line kills, if that is all it does.
fn killed_by(line: &str) -> Option<i32> {
    let mut words = line.split_ascii_whitespace();
    if words.next() != Some("kill") {
        return None;
    }
    let mut word = words.next()?;
    if matches!(word, "-2" | "-9" | "-15" | "-INT" | "-KILL" | "-TERM" | "-SIGINT" | "-SIGKILL" | "-SIGTERM")
    {
        word = words.next()?;
    }
    let pid = word.parse().ok().filter(|pid| *pid > 0)?;
    words.next().is_none().then_some(pid)
}

/// What a job that ended at once has printed, or where that is.
async fn printed(path: Option<&Path>, most: u64) -> String {
    let Some(path) = path else { return " Its output could not be kept and is lost.".to_owned() };
    match tokio::fs::read(path).await {
        Ok(bytes) if (bytes.len() as u64) < most => format!("\n\n{}", text(&bytes)),
        _ => format!(" Its output is in {}.", path.display()),
    }
}

/// One command in the background.
#[derive(Debug)]
struct BackgroundJob {
    program: RunningProgram,
    reader: Option<pipe::Receiver>,
    log: JobLog,
    /// Fires when the call that started it is cancelled, or another one stops it.
    cancel: CancellationToken,
    drain: Duration,
}

impl BackgroundJob {
    async fn run(self, slot: OwnedSemaphorePermit, ended: oneshot::Sender<Exit>) {
        let Self { mut program, mut reader, mut log, cancel, drain } = self;
        let mut block = Vec::new();
        let exit = loop {
            tokio::select! {
                biased;
                exit = program.ended() => break exit,
                () = cancel.cancelled(), if !program.is_stopping() => program.stop().await,
                () = receive(&mut reader, &mut block), if reader.is_some() => log.write(&mut block).await,
            }
        };
        let gone = {
            let mut gone = std::pin::pin!(program.gone());
            loop {
                tokio::select! {
                    biased;
                    gone = &mut gone => break gone,
                    () = receive(&mut reader, &mut block), if reader.is_some() => log.write(&mut block).await,
                }
            }
        };
        let rest = async {
            while reader.is_some() {
                receive(&mut reader, &mut block).await;
                log.write(&mut block).await;
            }
        };
        timeout(drain, rest).await.ok();
        log.close(exit, gone).await;
        drop(slot);
        // Only a call that still looks wants to know.
        ended.send(exit).ok();
    }
}

/// The file that gets the output, up to a limit.
#[derive(Debug)]
struct JobLog {
    file: Option<(File, PathBuf)>,
    room: u64,
    full: bool,
}

impl JobLog {
    fn new(file: Option<(std::fs::File, PathBuf)>, room: u64) -> Self {
        Self { file: file.map(|(file, path)| (File::from_std(file), path)), room, full: false }
    }

    /// Takes what is in the block. What goes beyond the limit is dropped.
    async fn write(&mut self, block: &mut Vec<u8>) {
        while !block.is_empty() && !self.full {
            let Some((file, _)) = &mut self.file else { break };
            let length = usize::try_from(self.room).unwrap_or(usize::MAX).min(block.len());
            let part = block.get(..length).unwrap_or_default();
            let written = async {
                let count = file.write(part).await?;
                // The file tells of a full disk only when it is asked.
                file.flush().await?;
                Ok::<usize, std::io::Error>(count)
            };
            match written.await {
                Ok(count) if count > 0 => {
                    self.room -= count as u64;
                    block.drain(..count);
                    if self.room == 0 && !block.is_empty() {
                        self.cut(MORE, 0).await;
                    }
                }
                Ok(_) => self.cut(MORE, 0).await,
                Err(error) => self.cut(&format!("\n[the rest could not be kept: {error}]\n"), ROOM).await,
            }
        }
        block.clear();
    }

    /// Ends the file with a note, after taking away `shorten` bytes to have room for it.
    async fn cut(&mut self, note: &str, shorten: u64) {
        self.full = true;
        let Some((file, path)) = &mut self.file else { return };
        let noted = async {
            if shorten > 0 {
                let length = file.metadata().await?.len().saturating_sub(shorten);
                file.set_len(length).await?;
                file.seek(SeekFrom::Start(length)).await?;
            }
            file.write_all(note.as_bytes()).await?;
            file.flush().await
        };
        if let Err(error) = noted.await {
            tracing::warn!(%error, "the output of a background command is not kept");
            tokio::fs::remove_file(&*path).await.ok();
            self.file = None;
        }
    }

    /// Says at the end of the file how the command ended.
    async fn close(&mut self, exit: Exit, gone: Cleanup) {
        let Some((file, _)) = &mut self.file else { return };
        let how = match exit {
            Exit::Code(code) => format!("the command ended with exit code {code}"),
            Exit::Signal(signal) => format!("the command was ended by signal {signal}"),
            Exit::Lost => "the command was stopped".to_owned(),
        };
        let left = if gone.stopped { "; programs that it left running were stopped" } else { "" };
        let displaced: String = gone.displacements().iter().map(|name| format!("; {name}")).collect();
        let lost = gone.lost.told().map(|lost| format!("; what it {lost}")).unwrap_or_default();
        file.write_all(format!("\n[{how}{left}{displaced}{lost}]\n").as_bytes()).await.ok();
        file.flush().await.ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_line_that_does_nothing_but_kill_is_taken() {
        for line in ["kill 12", "  kill  12 ", "kill -9 12", "kill -TERM 12"] {
            assert_eq!(killed_by(line), Some(12), "{line}");
        }
        for line in
            ["kill", "kill -9", "kill -0 12", "kill -12", "kill 12 13", "kill 12; ls", "kill $x", "ls 12"]
        {
            assert_eq!(killed_by(line), None, "{line}");
        }
    }
}

//! A server as a child process: JSON, one message a line, on its standard input and output.
//!
//! It is started like the programs of [`crate::process`], so that a launcher such as `npx`, what it started, and what
//! that detached end together, also when we are killed. It is asked to end by closing its input, then by TERM, then it
//! is killed. Writing goes through a queue of bounded size: a server that does not read makes its callers wait, each up
//! to its own time limit, and nobody else.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use tokio::net::unix::pipe;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::inbox::Inbox;
use super::output::ServerLog;
use super::{MESSAGE_MAX, McpError, output};
use crate::process::{self, Exit, Launcher, ProgramStart, ProgramStreams};

/// How many bytes may wait for a server that does not read.
const QUEUE_BYTES: usize = 2 * MESSAGE_MAX;

/// How many messages may.
const QUEUE_LENGTH: usize = 1024;

/// How long what a process wrote before its end is waited for.
const DRAIN: Duration = Duration::from_millis(250);

/// What is started, and where.
#[derive(Debug)]
pub(super) struct ServerProgram<'a> {
    pub(super) command: &'a [String],
    pub(super) environment: &'a BTreeMap<String, String>,
    pub(super) directory: &'a Path,
}

/// Our ends of a server's streams.
struct ServerStreams {
    input: pipe::Sender,
    output: pipe::Receiver,
    log: pipe::Receiver,
}

type QueuedLine = (String, OwnedSemaphorePermit);

/// A running server.
#[derive(Debug)]
pub(super) struct Stdio {
    queue: mpsc::Sender<QueuedLine>,
    room: Arc<Semaphore>,
    stop: CancellationToken,
    gone: watch::Receiver<bool>,
    log: ServerLog,
    grace: Duration,
}

impl Stdio {
    /// Starts the server; what it writes goes to the inbox, which is closed when the server is gone. The launcher's
    /// grace is how long it may take to end by itself, and again after it was told to.
    pub(super) async fn start(
        program: &ServerProgram<'_>,
        launcher: &Launcher,
        inbox: Arc<Inbox>,
    ) -> Result<Self, McpError> {
        let (program, streams) = spawn(program, launcher).await?;
        let grace = launcher.grace;
        let (queue, lines) = mpsc::channel(QUEUE_LENGTH);
        let room = Arc::new(Semaphore::new(QUEUE_BYTES));
        let (stop, shut) = (CancellationToken::new(), CancellationToken::new());
        let (gone, wait) = watch::channel(false);
        let log = ServerLog::default();
        tokio::spawn(write(streams.input, lines, shut.clone(), Arc::clone(&inbox)));
        let keeper = ServerKeeper {
            program,
            output: streams.output,
            errors: streams.log,
            log: log.clone(),
            inbox,
            shut,
            stop: stop.clone(),
            grace,
            answers: (queue.downgrade(), Arc::clone(&room)),
        };
        tokio::spawn(async move {
            keeper.run().await;
            gone.send_replace(true);
        });
        Ok(Self { queue, room, stop, gone: wait, log, grace })
    }

    /// The end of what the server wrote to its log.
    pub(super) fn log(&self) -> &ServerLog {
        &self.log
    }

    /// Queues a message, once there is room for it. If the server does not take any more the inbox says so.
    pub(super) async fn send(&self, text: String) -> Result<(), McpError> {
        let size = u32::try_from(text.len()).ok().filter(|_| text.len() <= MESSAGE_MAX);
        let size =
            size.ok_or_else(|| McpError::Malformed("the message is too large to be sent".to_owned()))?;
        if let Ok(permit) = Arc::clone(&self.room).acquire_many_owned(size).await {
            self.queue.send((text, permit)).await.ok();
        }
        Ok(())
    }

    /// Queues a message if there is room for it now.
    pub(super) fn tell(&self, text: String) {
        offer(&self.queue, &self.room, text);
    }

    /// Ends the server, and waits until nothing of it is left.
    pub(super) async fn close(&self) {
        self.stop.cancel();
        // Longer than it can take, unless the system itself does not let go of the process.
        let patience = 2 * self.grace + Duration::from_secs(5);
        if timeout(patience, self.gone.clone().wait_for(|gone| *gone)).await.is_err() {
            tracing::warn!("the process of an MCP server does not end, although it was killed");
        }
    }
}

impl Drop for Stdio {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

fn offer(queue: &mpsc::Sender<QueuedLine>, room: &Arc<Semaphore>, text: String) {
    let size = u32::try_from(text.len()).unwrap_or(u32::MAX);
    if let Ok(permit) = Arc::clone(room).try_acquire_many_owned(size) {
        queue.try_send((text, permit)).ok();
    }
}

async fn spawn(
    program: &ServerProgram<'_>,
    launcher: &Launcher,
) -> Result<(process::RunningProgram, ServerStreams), McpError> {
    let Some((name, arguments)) = program.command.split_first() else {
        return Err(McpError::Configuration("no program is named".to_owned()));
    };
    let env: Vec<(String, String)> =
        program.environment.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
    let start = ProgramStart { program: name, args: arguments, folder: program.directory, env: &env };
    let started = async {
        let ((their_input, input), (output, their_output), (log, their_log)) =
            (io::pipe()?, io::pipe()?, io::pipe()?);
        let outlet = ProgramStreams::Streams {
            input: their_input.into(),
            output: their_output.into(),
            log: their_log.into(),
        };
        let streams = ServerStreams {
            input: pipe::Sender::from_owned_fd(input.into())?,
            output: pipe::Receiver::from_owned_fd(output.into())?,
            log: pipe::Receiver::from_owned_fd(log.into())?,
        };
        Ok((launcher.start(&start, outlet).await?, streams))
    };
    let directory = program.directory.display();
    started.await.map_err(|error: io::Error| {
        McpError::Configuration(format!("could not start {name:?} in {directory}: {error}"))
    })
}

/// Writes what is queued until it is told to close the server's input, or the server closes it.
async fn write(
    mut input: pipe::Sender,
    mut lines: mpsc::Receiver<QueuedLine>,
    shut: CancellationToken,
    inbox: Arc<Inbox>,
) {
    let writing = async {
        while let Some((mut text, permit)) = lines.recv().await {
            text.push('\n');
            if let Err(error) = input.write_all(text.as_bytes()).await {
                // Most often the server has just ended, which is the better reason.
                timeout(2 * DRAIN, inbox.closed()).await.ok();
                inbox.close(McpError::Closed(format!("the server does not take its input: {error}")));
                return;
            }
            drop(permit);
        }
    };
    tokio::select! {
        () = shut.cancelled() => {}
        () = writing => {}
    }
}

/// Looks after the process from its start to its end.
#[derive(Debug)]
struct ServerKeeper {
    program: process::RunningProgram,
    output: pipe::Receiver,
    errors: pipe::Receiver,
    log: ServerLog,
    inbox: Arc<Inbox>,
    /// Closes the server's input.
    shut: CancellationToken,
    stop: CancellationToken,
    grace: Duration,
    /// Where answers to the server go. Weak, or the queue would never close.
    answers: (mpsc::WeakSender<QueuedLine>, Arc<Semaphore>),
}

impl ServerKeeper {
    async fn run(self) {
        let Self { mut program, mut output, errors, log, inbox, shut, stop, grace, answers } = self;
        let mut logging = tokio::spawn(log.clone().follow(errors));
        let (queue, room) = answers;
        let answer = move |text| {
            if let Some(queue) = queue.upgrade() {
                offer(&queue, &room, text);
            }
        };
        let what = {
            let reading = output::read(&mut output, &inbox, answer);
            tokio::pin!(reading);
            tokio::select! {
                biased;
                () = stop.cancelled() => None,
                exit = program.ended() => {
                    // The last answers may still be in the pipe, which a process that was left behind may hold open.
                    timeout(DRAIN, &mut reading).await.ok();
                    Some(ended(exit))
                }
                what = &mut reading => match timeout(DRAIN, program.ended()).await {
                    Ok(exit) if what == "closed its output" => Some(ended(exit)),
                    _ => Some(what),
                },
            }
        };
        if let Some(what) = what {
            if what.starts_with("ended") {
                timeout(DRAIN, &mut logging).await.ok();
            }
            inbox.close(McpError::Closed(format!("the server {what}{log}")));
        } else {
            inbox.close(McpError::Closed("the server was disconnected".to_owned()));
        }
        shut.cancel();
        let leaving = async {
            if timeout(grace, program.ended()).await.is_err() {
                program.stop().await;
            }
            program.gone().await.left
        };
        // What it has to say while it ends is not waited for, and must not hold it up.
        let silence = async {
            tokio::io::copy(&mut output, &mut tokio::io::sink()).await.ok();
            std::future::pending().await
        };
        let left = tokio::select! {
            left = leaving => left,
            left = silence => left,
        };
        if left > 0 {
            tracing::warn!(left, "processes of an MCP server could not be stopped");
        }
        logging.abort();
    }
}

fn ended(exit: Exit) -> String {
    // The name of a signal is the library's to know.
    let status = match exit {
        Exit::Code(code) => ExitStatus::from_raw(code << 8),
        Exit::Signal(signal) => ExitStatus::from_raw(signal),
        Exit::Lost => return "ended".to_owned(),
    };
    format!("ended ({status})")
}

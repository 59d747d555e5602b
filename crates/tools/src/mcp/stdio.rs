//! A server as a child process: JSON, one message a line, on its standard input and output.
//!
//! The child leads a process group of its own, so that a launcher such as `npx` and what it started end together. It is
//! asked to end by closing its input, then by TERM, then it is killed. Writing goes through a queue of bounded size: a
//! server that does not read makes its callers wait, each up to its own time limit, and nobody else.

use std::{
    path::Path,
    process::{ExitStatus, Stdio as Pipe},
    sync::Arc,
    time::Duration,
};

use tokio::{
    io::AsyncWriteExt as _,
    process::{Child, ChildStdin, Command},
    sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use super::{
    Fault, MESSAGE_MAX,
    inbox::Inbox,
    output::{self, Log},
};
use crate::process::{Group, environment};

/// How many bytes may wait for a server that does not read.
const QUEUE_BYTES: usize = 2 * MESSAGE_MAX;

/// How many messages may.
const QUEUE_LENGTH: usize = 1024;

/// How long what a process wrote before its end is waited for.
const DRAIN: Duration = Duration::from_millis(250);

/// What is started, and where.
#[derive(Debug)]
pub(super) struct Program<'a> {
    pub(super) command: &'a [String],
    pub(super) environment: &'a std::collections::BTreeMap<String, String>,
    pub(super) directory: &'a Path,
    /// Variables that hold keys, besides our own.
    pub(super) secrets: &'a [String],
    /// How long the process may take to end by itself, and again after it was told to.
    pub(super) grace: Duration,
}

type Line = (String, OwnedSemaphorePermit);

/// A running server.
#[derive(Debug)]
pub(super) struct Stdio {
    queue: mpsc::Sender<Line>,
    room: Arc<Semaphore>,
    stop: CancellationToken,
    gone: watch::Receiver<bool>,
    log: Log,
    grace: Duration,
}

impl Stdio {
    /// Starts the server; what it writes goes to the inbox, which is closed when the server is gone.
    pub(super) fn start(program: &Program<'_>, inbox: Arc<Inbox>) -> Result<Self, Fault> {
        let mut child = spawn(program)?;
        let (queue, lines) = mpsc::channel(QUEUE_LENGTH);
        let room = Arc::new(Semaphore::new(QUEUE_BYTES));
        let (stop, shut) = (CancellationToken::new(), CancellationToken::new());
        let (gone, wait) = watch::channel(false);
        let log = Log::default();
        if let Some(input) = child.stdin.take() {
            tokio::spawn(write(input, lines, shut.clone(), Arc::clone(&inbox)));
        }
        let keeper = Keeper {
            group: Group::of(&child),
            child,
            log: log.clone(),
            inbox,
            shut,
            stop: stop.clone(),
            grace: program.grace,
            answers: (queue.downgrade(), Arc::clone(&room)),
        };
        tokio::spawn(async move {
            keeper.run().await;
            gone.send_replace(true);
        });
        Ok(Self { queue, room, stop, gone: wait, log, grace: program.grace })
    }

    /// The end of what the server wrote to its log.
    pub(super) fn log(&self) -> &Log {
        &self.log
    }

    /// Queues a message, once there is room for it. If the server does not take any more the inbox says so.
    pub(super) async fn send(&self, text: String) -> Result<(), Fault> {
        let size = u32::try_from(text.len()).ok().filter(|_| text.len() <= MESSAGE_MAX);
        let size = size.ok_or_else(|| Fault::Malformed("the message is too large to be sent".to_owned()))?;
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

fn offer(queue: &mpsc::Sender<Line>, room: &Arc<Semaphore>, text: String) {
    let size = u32::try_from(text.len()).unwrap_or(u32::MAX);
    if let Ok(permit) = Arc::clone(room).try_acquire_many_owned(size) {
        queue.try_send((text, permit)).ok();
    }
}

fn spawn(program: &Program<'_>) -> Result<Child, Fault> {
    let Some((name, arguments)) = program.command.split_first() else {
        return Err(Fault::Configuration("no program is named".to_owned()));
    };
    let mut command = Command::new(name);
    command
        .args(arguments)
        .current_dir(program.directory)
        .stdin(Pipe::piped())
        .stdout(Pipe::piped())
        .stderr(Pipe::piped())
        .process_group(0)
        .kill_on_drop(true);
    for variable in environment::hidden(program.secrets) {
        command.env_remove(variable);
    }
    command.envs(program.environment);
    let directory = program.directory.display();
    command
        .spawn()
        .map_err(|error| Fault::Configuration(format!("could not start {name:?} in {directory}: {error}")))
}

/// Writes what is queued until it is told to close the server's input, or the server closes it.
async fn write(
    mut input: ChildStdin,
    mut lines: mpsc::Receiver<Line>,
    shut: CancellationToken,
    inbox: Arc<Inbox>,
) {
    let writing = async {
        while let Some((mut text, permit)) = lines.recv().await {
            text.push('\n');
            if let Err(error) = input.write_all(text.as_bytes()).await {
                // Most often the server has just ended, which is the better reason.
                timeout(2 * DRAIN, inbox.closed()).await.ok();
                inbox.close(Fault::Closed(format!("the server does not take its input: {error}")));
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
struct Keeper {
    child: Child,
    group: Group,
    log: Log,
    inbox: Arc<Inbox>,
    /// Closes the server's input.
    shut: CancellationToken,
    stop: CancellationToken,
    grace: Duration,
    /// Where answers to the server go. Weak, or the queue would never close.
    answers: (mpsc::WeakSender<Line>, Arc<Semaphore>),
}

impl Keeper {
    async fn run(mut self) {
        let (Some(output), Some(log)) = (self.child.stdout.take(), self.child.stderr.take()) else { return };
        let mut logging = tokio::spawn(self.log.clone().follow(log));
        let (queue, room) = self.answers.clone();
        let answer = move |text| {
            if let Some(queue) = queue.upgrade() {
                offer(&queue, &room, text);
            }
        };
        let inbox = Arc::clone(&self.inbox);
        let reading = output::read(output, &inbox, answer);
        tokio::pin!(reading);
        let what = tokio::select! {
            biased;
            () = self.stop.cancelled() => None,
            status = self.child.wait() => {
                // The last answers may still be in the pipe, which a process that was left behind may hold open.
                timeout(DRAIN, &mut reading).await.ok();
                Some(ended(status.ok()))
            }
            what = &mut reading => match timeout(DRAIN, self.child.wait()).await {
                Ok(status) if what == "closed its output" => Some(ended(status.ok())),
                _ => Some(what),
            },
        };
        if let Some(what) = what {
            if what.starts_with("ended") {
                timeout(DRAIN, &mut logging).await.ok();
            }
            self.inbox.close(Fault::Closed(format!("the server {what}{}", self.log)));
        } else {
            self.inbox.close(Fault::Closed("the server was disconnected".to_owned()));
        }
        self.shut.cancel();
        if timeout(self.grace, self.child.wait()).await.is_err() {
            self.group.terminate();
            timeout(self.grace, self.child.wait()).await.ok();
        }
        self.group.kill();
        // By itself too, as it may have left its group; one that is stuck in the system is not waited for.
        self.child.start_kill().ok();
        if timeout(self.grace, self.child.wait()).await.is_ok() {
            self.group.forget();
        }
        logging.abort();
    }
}

fn ended(status: Option<ExitStatus>) -> String {
    status.map_or_else(|| "ended".to_owned(), |status| format!("ended ({status})"))
}

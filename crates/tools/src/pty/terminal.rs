//! One terminal: the task that carries bytes between the program and those who look at it.

use std::io;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pty_process::{OwnedReadPty, OwnedWritePty};
use rustix::process::Pid;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::{broadcast, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::replay::Replay;
use super::{NewPty, PtyAttachment, PtyError, PtyEvent, PtyInfo, PtySize, PtyStatus, ReplayFrom};
use crate::process::{Launcher, ProgramStart, ProgramStreams, RunningProgram};

/// How much is read at once.
const BLOCK: usize = 64 * 1024;
/// The most pieces of input that wait for the program to read.
const INPUTS: usize = 64;
/// The most bytes of one piece.
const INPUT_MAX: usize = 64 * 1024;
/// The pause after a look at a terminal that no program has open.
const PAUSE: Duration = Duration::from_millis(20);
/// How long to wait for the rest of the output when nothing runs any more.
const DRAIN: Duration = Duration::from_millis(100);

/// What every program in a terminal gets, whatever else was asked for.
const FORCED: [(&str, &str); 2] = [("TERM", "xterm-256color"), ("OPENCODE_TERMINAL", "1")];

/// A terminal and its program.
#[derive(Debug)]
pub(super) struct Terminal {
    info: Arc<Mutex<PtyInfo>>,
    replay: Arc<Replay>,
    inputs: mpsc::Sender<Vec<u8>>,
    size: watch::Sender<PtySize>,
    closing: CancellationToken,
    done: watch::Receiver<bool>,
    /// Ends the task, and with it the program, when the terminal is dropped.
    _task: JoinSet<()>,
}

impl Terminal {
    /// Opens a terminal and starts its program.
    pub(super) async fn start(
        launcher: &Launcher,
        id: String,
        create: NewPty,
        events: broadcast::Sender<PtyEvent>,
    ) -> Result<Self, PtyError> {
        let NewPty { command, args, cwd, title, mut env, size } = create;
        let failed = |source| PtyError::Start { command: command.clone(), cwd: cwd.clone(), source };
        let (pty, pts) = pty_process::open().map_err(|error| failed(plain(error)))?;
        pty.resize(pty_process::Size::new(size.rows, size.cols)).map_err(|error| failed(plain(error)))?;
        env.extend(FORCED.map(|(name, value)| (name.to_owned(), value.to_owned())));
        let start = ProgramStart { program: &command, args: &args, folder: &cwd, env: &env };
        let program = launcher.start(&start, ProgramStreams::Terminal(pts)).await.map_err(failed)?;

        let info = PtyInfo {
            id,
            title: title.unwrap_or_else(|| command.clone()),
            command,
            args,
            cwd,
            status: PtyStatus::Running,
            pid: program.pid().map_or(0, Pid::as_raw_pid),
            exit_code: None,
        };
        let info = Arc::new(Mutex::new(info));
        let replay = Arc::new(Replay::new());
        let (reader, writer) = pty.into_split();
        let (inputs, received) = mpsc::channel(INPUTS);
        let (size, sizes) = watch::channel(size);
        let (finished, done) = watch::channel(false);
        let closing = CancellationToken::new();
        let wires = TerminalStreams {
            reader,
            writer,
            received,
            sizes,
            pending: Vec::new(),
            block: Vec::new(),
            pause: None,
            replay: Arc::clone(&replay),
        };
        let told = Arc::clone(&info);
        let stop = closing.clone();
        let mut task = JoinSet::new();
        task.spawn(async move {
            let code = wires.carry(program, stop).await;
            let info = {
                let mut info = told.lock().unwrap_or_else(PoisonError::into_inner);
                info.status = PtyStatus::Exited;
                info.exit_code = code;
                info.clone()
            };
            events.send(PtyEvent::Exited(info)).ok();
            finished.send_replace(true);
        });
        Ok(Self { info, replay, inputs, size, closing, done, _task: task })
    }

    pub(super) fn info(&self) -> PtyInfo {
        self.info.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn update(&self, title: Option<String>, size: Option<PtySize>) -> PtyInfo {
        if let Some(size) = size {
            self.size.send_replace(size);
        }
        let mut info = self.info.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(title) = title {
            info.title = title;
        }
        info.clone()
    }

    pub(super) fn write(&self, input: &[u8]) -> Result<(), PtyError> {
        let id = || self.info().id;
        // All of it or nothing: half of what was typed is worse than none.
        let most = INPUTS * INPUT_MAX;
        if input.len() > most {
            return Err(PtyError::TooLarge { id: id(), most });
        }
        let pieces: Vec<&[u8]> = input.chunks(INPUT_MAX).collect();
        if pieces.is_empty() {
            return Ok(());
        }
        match self.inputs.try_reserve_many(pieces.len()) {
            Ok(places) => {
                for (place, piece) in places.zip(pieces) {
                    place.send(piece.to_vec());
                }
                Ok(())
            }
            Err(mpsc::error::TrySendError::Full(())) => Err(PtyError::NotReading(id())),
            Err(mpsc::error::TrySendError::Closed(())) => Err(PtyError::Ended(id())),
        }
    }

    pub(super) fn attach(&self, from: ReplayFrom) -> PtyAttachment {
        self.replay.attach(from)
    }

    /// Stops the program with all it started, and waits until that is done.
    pub(super) async fn close(&self) {
        self.closing.cancel();
        self.done.clone().wait_for(|done| *done).await.ok();
    }
}

/// Everything that bytes go through.
#[derive(Debug)]
struct TerminalStreams {
    reader: OwnedReadPty,
    writer: OwnedWritePty,
    received: mpsc::Receiver<Vec<u8>>,
    sizes: watch::Receiver<PtySize>,
    /// What was typed and not yet taken.
    pending: Vec<u8>,
    block: Vec<u8>,
    /// No program has the terminal open; one that still runs may open it again.
    pause: Option<Instant>,
    replay: Arc<Replay>,
}

impl TerminalStreams {
    /// Carries bytes until nothing runs any more, and says how the program ended.
    async fn carry(mut self, mut program: RunningProgram, closing: CancellationToken) -> Option<i32> {
        let exit = loop {
            tokio::select! {
                biased;
                exit = program.ended() => break exit,
                () = closing.cancelled(), if !program.is_stopping() => program.stop().await,
                () = self.turn() => {}
            }
        };
        {
            let mut gone = pin!(program.gone());
            loop {
                tokio::select! {
                    biased;
                    _ = &mut gone => break,
                    () = self.turn() => {}
                }
            }
        }
        let rest = async {
            while self.pause.is_none() {
                self.turn().await;
            }
        };
        timeout(DRAIN, rest).await.ok();
        self.replay.end(exit.code());
        exit.code()
    }

    /// Does one thing that can be done; dropped while it waits, it has done nothing.
    async fn turn(&mut self) {
        self.block.reserve(BLOCK);
        let pause = self.pause.unwrap_or_else(Instant::now);
        tokio::select! {
            read = self.reader.read_buf(&mut self.block), if self.pause.is_none() => {
                match read {
                    Ok(count) if count > 0 => self.replay.push(&self.block),
                    _ => self.pause = Some(Instant::now() + PAUSE),
                }
                self.block.clear();
            }
            () = sleep_until(pause), if self.pause.is_some() => self.pause = None,
            Ok(()) = self.sizes.changed() => {
                let size = *self.sizes.borrow_and_update();
                self.writer.resize(pty_process::Size::new(size.rows, size.cols)).ok();
            }
            Some(input) = self.received.recv(), if self.pending.is_empty() => self.pending = input,
            written = self.writer.write(&self.pending), if !self.pending.is_empty() => {
                match written {
                    Ok(count) => drop(self.pending.drain(..count)),
                    Err(_) => self.pending.clear(),
                }
            }
        }
    }
}

fn plain(error: pty_process::Error) -> io::Error {
    match error {
        pty_process::Error::Io(error) => error,
        other => io::Error::other(other.to_string()),
    }
}

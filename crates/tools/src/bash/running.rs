//! A command between its start and its result.

use std::pin::pin;
use std::time::Duration;

use serde_json::{Map, json};
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::CommandEnding;
use super::capture::{Capture, Captured};
use crate::bound::OutputLimits;
use crate::process::{Cleanup, RunningProgram};
use crate::tool::Context;

/// The shortest pause between two live reports.
const REPORT_EVERY: Duration = Duration::from_millis(50);
/// How much is read from the pipe at once.
const BLOCK: usize = 64 * 1024;

/// A command that runs, and what it has printed.
#[derive(Debug)]
pub(super) struct RunningCommand {
    program: RunningProgram,
    intake: PipeReader,
}

impl RunningCommand {
    pub(super) fn new(program: RunningProgram, reader: pipe::Receiver, context: Context) -> Self {
        let intake = PipeReader {
            reader: Some(reader),
            capture: Capture::new(context.scope.output_dir.clone()),
            block: Vec::with_capacity(BLOCK),
            reported: Instant::now(),
            dirty: false,
            context,
        };
        Self { program, intake }
    }

    /// Collects output until the shell ends, the time is up where there is a limit, or the call is cancelled.
    pub(super) async fn follow(&mut self, timeout: Option<Duration>) -> CommandEnding {
        let Self { program, intake } = self;
        let deadline = timeout.map(|timeout| Instant::now() + timeout);
        let time_is_up = async {
            match deadline {
                Some(deadline) => sleep_until(deadline).await,
                None => std::future::pending().await,
            }
        };
        let mut time_is_up = pin!(time_is_up);
        let cancel = intake.context.cancel.clone();
        intake.report();
        loop {
            let due = intake.reported + REPORT_EVERY;
            let stopped = tokio::select! {
                biased;
                () = cancel.cancelled() => CommandEnding::Cancelled,
                () = &mut time_is_up => CommandEnding::TimedOut,
                () = sleep_until(due), if intake.dirty => {
                    intake.report();
                    continue;
                }
                // Before the pipe, which a busy background process never leaves empty.
                exit = program.ended() => return CommandEnding::Exited(exit),
                () = intake.receive(), if intake.is_open() => {
                    intake.take().await;
                    continue;
                }
            };
            program.stop().await;
            return stopped;
        }
    }

    /// Collects output until nothing is running any more.
    pub(super) async fn settle(&mut self, drain: Duration) -> Cleanup {
        let Self { program, intake } = self;
        let gone = {
            let mut gone = pin!(program.gone());
            loop {
                tokio::select! {
                    biased;
                    gone = &mut gone => break gone,
                    () = intake.receive(), if intake.is_open() => intake.take().await,
                }
            }
        };
        intake.drain(drain).await;
        intake.report();
        gone
    }

    /// The output within the limits.
    pub(super) async fn finish(self, limits: OutputLimits) -> Captured {
        self.intake.capture.finish(limits).await
    }
}

/// Reads the pipe into the capture.
#[derive(Debug)]
struct PipeReader {
    /// Nothing once every writer has closed its end.
    reader: Option<pipe::Receiver>,
    capture: Capture,
    block: Vec<u8>,
    reported: Instant,
    dirty: bool,
    context: Context,
}

impl PipeReader {
    fn is_open(&self) -> bool {
        self.reader.is_some()
    }

    async fn receive(&mut self) {
        receive(&mut self.reader, &mut self.block).await;
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

    /// Collects what is still in the pipe, for a while.
    async fn drain(&mut self, patience: Duration) {
        let deadline = Instant::now() + patience;
        // The clock decides by itself as well: the wait never ends early while output keeps coming.
        while self.is_open() && Instant::now() < deadline {
            if timeout_at(deadline, self.receive()).await.is_err() {
                return;
            }
            self.take().await;
        }
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
pub(super) async fn receive(reader: &mut Option<pipe::Receiver>, block: &mut Vec<u8>) {
    let Some(open) = reader else { return };
    block.reserve(BLOCK);
    match open.read_buf(block).await {
        Ok(0) | Err(_) => *reader = None,
        Ok(_) => {}
    }
}

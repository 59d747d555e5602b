//! What a terminal has printed, for clients that come, go and come back.
//!
//! Bytes are counted from the terminal's beginning. A client's place in them is its cursor; the newest bytes stay in
//! the buffer and older ones are forgotten. There is no queue for each client, so a client that does not read costs
//! nothing.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

/// The bytes that stay in the buffer.
const KEPT: usize = 2 * 1024 * 1024;
/// The most bytes that a client gets at once.
const CHUNK: usize = 64 * 1024;

/// Where a client begins to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplayFrom {
    /// With the oldest byte that is still there.
    Start,
    /// Where it was before: the cursor of the last chunk that it got.
    Cursor(u64),
    /// With what comes next.
    Now,
}

/// What a client gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PtyChunk {
    /// What the program printed, and the cursor behind it.
    Output {
        /// The bytes; they need not begin or end with whole characters.
        bytes: Vec<u8>,
        /// Where to go on.
        cursor: u64,
    },
    /// So many bytes are forgotten: the client came back too late. Output follows from the oldest byte on.
    Missed(u64),
    /// The client was too slow: bytes that it has not got are forgotten, and it gets no more. It may attach again.
    TooSlow,
    /// Everything was read, and the program has ended; how, as a shell says it.
    Ended(Option<i32>),
}

/// The buffer that a terminal fills.
#[derive(Debug)]
pub(super) struct Replay {
    shared: Arc<Mutex<ReplayBuffer>>,
    /// Counts changes, to wake those who wait.
    changed: watch::Sender<u64>,
}

#[derive(Debug)]
struct ReplayBuffer {
    bytes: VecDeque<u8>,
    /// The place of the first byte.
    start: u64,
    kept: usize,
    ended: Option<Option<i32>>,
}

impl ReplayBuffer {
    fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }
}

impl Replay {
    pub(super) fn new() -> Self {
        Self::with_room(KEPT)
    }

    fn with_room(kept: usize) -> Self {
        let shared = ReplayBuffer { bytes: VecDeque::new(), start: 0, kept, ended: None };
        Self { shared: Arc::new(Mutex::new(shared)), changed: watch::channel(0).0 }
    }

    /// Adds what was printed.
    pub(super) fn push(&self, bytes: &[u8]) {
        let mut shared = lock(&self.shared);
        shared.bytes.extend(bytes);
        let excess = shared.bytes.len().saturating_sub(shared.kept);
        shared.bytes.drain(..excess);
        shared.start += excess as u64;
        drop(shared);
        self.changed.send_modify(|count| *count += 1);
    }

    /// Says that nothing more will come.
    pub(super) fn end(&self, code: Option<i32>) {
        lock(&self.shared).ended = Some(code);
        self.changed.send_modify(|count| *count += 1);
    }

    /// A client's view.
    pub(super) fn attach(&self, from: ReplayFrom) -> PtyAttachment {
        let shared = lock(&self.shared);
        let cursor = match from {
            ReplayFrom::Start => shared.start,
            ReplayFrom::Now => shared.end(),
            ReplayFrom::Cursor(cursor) => cursor.min(shared.end()),
        };
        PtyAttachment {
            shared: Arc::clone(&self.shared),
            changed: self.changed.subscribe(),
            cursor,
            fresh: true,
            closed: false,
        }
    }
}

/// One client's view of a terminal.
#[derive(Debug)]
pub struct PtyAttachment {
    shared: Arc<Mutex<ReplayBuffer>>,
    changed: watch::Receiver<u64>,
    cursor: u64,
    /// Whether the client has not read yet: then it did not fall behind, it came late.
    fresh: bool,
    closed: bool,
}

impl PtyAttachment {
    /// Where the client is.
    #[must_use]
    pub fn cursor(&self) -> u64 {
        self.cursor
    }

    /// What comes next; nothing after [`PtyChunk::TooSlow`] and [`PtyChunk::Ended`]. It may be dropped and asked again.
    pub async fn next(&mut self) -> Option<PtyChunk> {
        loop {
            if self.closed {
                return None;
            }
            self.changed.mark_unchanged();
            if let Some(chunk) = self.take() {
                self.closed = matches!(chunk, PtyChunk::TooSlow | PtyChunk::Ended(_));
                return Some(chunk);
            }
            if self.changed.changed().await.is_err() {
                // The terminal is gone. What it left is still to be read.
                let last = self.take();
                self.closed = last.is_none();
                if last.is_some() {
                    return last;
                }
            }
        }
    }

    /// What is there now.
    fn take(&mut self) -> Option<PtyChunk> {
        let shared = lock(&self.shared);
        let fresh = std::mem::take(&mut self.fresh);
        if let Some(missed) = shared.start.checked_sub(self.cursor).filter(|missed| *missed > 0) {
            self.cursor = shared.start;
            return Some(if fresh { PtyChunk::Missed(missed) } else { PtyChunk::TooSlow });
        }
        if self.cursor == shared.end() {
            return shared.ended.map(PtyChunk::Ended);
        }
        let from = usize::try_from(self.cursor - shared.start).unwrap_or(usize::MAX);
        let bytes: Vec<u8> = shared.bytes.iter().skip(from).take(CHUNK).copied().collect();
        self.cursor += bytes.len() as u64;
        Some(PtyChunk::Output { bytes, cursor: self.cursor })
    }
}

fn lock(shared: &Mutex<ReplayBuffer>) -> MutexGuard<'_, ReplayBuffer> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(bytes: &str, cursor: u64) -> Option<PtyChunk> {
        Some(PtyChunk::Output { bytes: bytes.as_bytes().to_vec(), cursor })
    }

    #[tokio::test]
    async fn a_client_goes_on_where_it_was() {
        let replay = Replay::with_room(10);
        replay.push(b"hello ");
        let mut first = replay.attach(ReplayFrom::Start);
        assert_eq!(first.next().await, output("hello ", 6));
        let cursor = first.cursor();
        drop(first);
        replay.push(b"you");
        let mut again = replay.attach(ReplayFrom::Cursor(cursor));
        assert_eq!(again.next().await, output("you", 9));
        let mut late = replay.attach(ReplayFrom::Now);
        replay.push(b"!");
        assert_eq!((again.next().await, late.next().await), (output("!", 10), output("!", 10)));
        replay.end(Some(3));
        assert_eq!(late.next().await, Some(PtyChunk::Ended(Some(3))));
        assert_eq!(late.next().await, None);
    }

    #[tokio::test]
    async fn what_is_forgotten_is_told() {
        let replay = Replay::with_room(4);
        replay.push(b"abc");
        let mut slow = replay.attach(ReplayFrom::Start);
        assert_eq!(slow.next().await, output("abc", 3));
        replay.push(b"defghij");
        assert_eq!(slow.next().await, Some(PtyChunk::TooSlow));
        assert_eq!(slow.next().await, None);
        let mut back = replay.attach(ReplayFrom::Cursor(3));
        assert_eq!(back.next().await, Some(PtyChunk::Missed(3)));
        assert_eq!(back.next().await, output("ghij", 10));
        let mut odd = replay.attach(ReplayFrom::Cursor(99));
        drop(replay);
        assert_eq!((back.next().await, odd.next().await), (None, None));
    }

    #[tokio::test]
    async fn one_who_waits_is_woken() {
        let replay = Arc::new(Replay::with_room(4));
        let mut client = replay.attach(ReplayFrom::Now);
        let waiting = tokio::spawn(async move { client.next().await });
        tokio::task::yield_now().await;
        replay.push(b"x");
        assert_eq!(waiting.await.unwrap(), output("x", 1));
    }
}

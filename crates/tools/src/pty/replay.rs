//! What a terminal has printed, for clients that come, go and come back.
//!
//! Bytes are counted from the terminal's beginning. A client's place in them is its cursor; the newest bytes stay in the
//! buffer and older ones are forgotten. There is no queue for each client, so a client that does not read costs nothing.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::watch;

/// The bytes that stay in the buffer.
const KEPT: usize = 2 * 1024 * 1024;
/// The most bytes that a client gets at once.
const CHUNK: usize = 64 * 1024;

/// Where a client begins to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum From {
    /// With the oldest byte that is still there.
    Start,
    /// Where it was before: the cursor of the last chunk that it got.
    Cursor(u64),
    /// With what comes next.
    Now,
}

/// What a client gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Chunk {
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
    shared: Arc<Mutex<Shared>>,
    /// Counts changes, to wake those who wait.
    changed: watch::Sender<u64>,
}

#[derive(Debug)]
struct Shared {
    bytes: VecDeque<u8>,
    /// The place of the first byte.
    start: u64,
    kept: usize,
    ended: Option<Option<i32>>,
}

impl Shared {
    fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }
}

impl Replay {
    pub(super) fn new() -> Self {
        Self::with_room(KEPT)
    }

    fn with_room(kept: usize) -> Self {
        let shared = Shared { bytes: VecDeque::new(), start: 0, kept, ended: None };
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
    pub(super) fn attach(&self, from: From) -> Attachment {
        let shared = lock(&self.shared);
        let cursor = match from {
            From::Start => shared.start,
            From::Now => shared.end(),
            From::Cursor(cursor) => cursor.min(shared.end()),
        };
        Attachment {
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
pub struct Attachment {
    shared: Arc<Mutex<Shared>>,
    changed: watch::Receiver<u64>,
    cursor: u64,
    /// Whether the client has not read yet: then it did not fall behind, it came late.
    fresh: bool,
    closed: bool,
}

impl Attachment {
    /// Where the client is.
    #[must_use]
    pub fn cursor(&self) -> u64 {
        self.cursor
    }

    /// What comes next; nothing after [`Chunk::TooSlow`] and [`Chunk::Ended`]. It may be dropped and asked again.
    pub async fn next(&mut self) -> Option<Chunk> {
        loop {
            if self.closed {
                return None;
            }
            self.changed.mark_unchanged();
            if let Some(chunk) = self.take() {
                self.closed = matches!(chunk, Chunk::TooSlow | Chunk::Ended(_));
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
    fn take(&mut self) -> Option<Chunk> {
        let shared = lock(&self.shared);
        let fresh = std::mem::take(&mut self.fresh);
        if let Some(missed) = shared.start.checked_sub(self.cursor).filter(|missed| *missed > 0) {
            self.cursor = shared.start;
            return Some(if fresh { Chunk::Missed(missed) } else { Chunk::TooSlow });
        }
        if self.cursor == shared.end() {
            return shared.ended.map(Chunk::Ended);
        }
        let from = usize::try_from(self.cursor - shared.start).unwrap_or(usize::MAX);
        let bytes: Vec<u8> = shared.bytes.iter().skip(from).take(CHUNK).copied().collect();
        self.cursor += bytes.len() as u64;
        Some(Chunk::Output { bytes, cursor: self.cursor })
    }
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(bytes: &str, cursor: u64) -> Option<Chunk> {
        Some(Chunk::Output { bytes: bytes.as_bytes().to_vec(), cursor })
    }

    #[tokio::test]
    async fn a_client_goes_on_where_it_was() {
        let replay = Replay::with_room(10);
        replay.push(b"hello ");
        let mut first = replay.attach(From::Start);
        assert_eq!(first.next().await, output("hello ", 6));
        let cursor = first.cursor();
        drop(first);
        replay.push(b"you");
        let mut again = replay.attach(From::Cursor(cursor));
        assert_eq!(again.next().await, output("you", 9));
        let mut late = replay.attach(From::Now);
        replay.push(b"!");
        assert_eq!((again.next().await, late.next().await), (output("!", 10), output("!", 10)));
        replay.end(Some(3));
        assert_eq!(late.next().await, Some(Chunk::Ended(Some(3))));
        assert_eq!(late.next().await, None);
    }

    #[tokio::test]
    async fn what_is_forgotten_is_told() {
        let replay = Replay::with_room(4);
        replay.push(b"abc");
        let mut slow = replay.attach(From::Start);
        assert_eq!(slow.next().await, output("abc", 3));
        replay.push(b"defghij");
        assert_eq!(slow.next().await, Some(Chunk::TooSlow));
        assert_eq!(slow.next().await, None);
        let mut back = replay.attach(From::Cursor(3));
        assert_eq!(back.next().await, Some(Chunk::Missed(3)));
        assert_eq!(back.next().await, output("ghij", 10));
        let mut odd = replay.attach(From::Cursor(99));
        drop(replay);
        assert_eq!((back.next().await, odd.next().await), (None, None));
    }

    #[tokio::test]
    async fn one_who_waits_is_woken() {
        let replay = Arc::new(Replay::with_room(4));
        let mut client = replay.attach(From::Now);
        let waiting = tokio::spawn(async move { client.next().await });
        tokio::task::yield_now().await;
        replay.push(b"x");
        assert_eq!(waiting.await.unwrap(), output("x", 1));
    }
}

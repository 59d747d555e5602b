//! What a child process writes: messages on its output, a log on its standard error.
//!
//! Both are read as fast as they come, in bounded memory. A line that does not end, and output that does not follow
//! the protocol, end the reading with a reason; a few stray lines in between do not, because many servers print a
//! greeting.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncRead, AsyncReadExt as _};

use super::inbox::Inbox;
use super::{MESSAGE_MAX, MESSAGE_MAX_MIB, readable};

/// How much is read at once.
const BLOCK: usize = 64 * 1024;

/// How many lines in a row, and how many bytes of them, may be something else than messages.
const STRAY_LINES: usize = 1000;
const STRAY_BYTES: usize = 4 * 1024 * 1024;

/// How much of the log is kept.
const LOG_KEPT: usize = 16 * 1024;

/// How much of the log goes into a reason.
const LOG_SHOWN: usize = 2 * 1024;

/// Gives messages to the inbox until there are no more, and says why it ended. `answer` takes what is to be sent back.
pub(super) async fn read(
    mut output: impl AsyncRead + Unpin,
    inbox: &Inbox,
    mut answer: impl FnMut(String),
) -> String {
    let mut kept: Vec<u8> = Vec::new();
    let mut block = vec![0; BLOCK];
    let (mut stray_lines, mut stray_bytes) = (0, 0);
    loop {
        let fresh = match output.read(&mut block).await {
            Ok(0) => return "closed its output".to_owned(),
            Ok(length) => block.get(..length).unwrap_or_default(),
            Err(error) => return format!("could not be read: {error}"),
        };
        let mut pieces = fresh.split(|byte| *byte == b'\n').peekable();
        while let Some(piece) = pieces.next() {
            if kept.len() + piece.len() > MESSAGE_MAX {
                return format!("sent a message of more than {MESSAGE_MAX_MIB} MiB");
            }
            kept.extend_from_slice(piece);
            if pieces.peek().is_none() {
                break;
            }
            let text = String::from_utf8_lossy(&kept);
            if !text.trim().is_empty() {
                let receipt = inbox.receive(&text);
                receipt.answers.into_iter().for_each(&mut answer);
                (stray_lines, stray_bytes) =
                    if receipt.valid { (0, 0) } else { (stray_lines + 1, stray_bytes + kept.len()) };
                if stray_lines > STRAY_LINES || stray_bytes > STRAY_BYTES {
                    return format!("does not speak the protocol, but writes {:?}", readable(&text, 200));
                }
            }
            kept.clear();
            // What one large message needed is not held for the small ones that follow.
            kept.shrink_to(BLOCK);
        }
        // A pipe that is never empty would otherwise keep the thread from everybody else.
        tokio::task::yield_now().await;
    }
}

/// The end of what a server wrote to its log; clones share it.
#[derive(Debug, Clone, Default)]
pub(super) struct ServerLog(Arc<Mutex<VecDeque<u8>>>);

impl ServerLog {
    /// Keeps the end of a stream until it closes.
    pub(super) async fn follow(self, mut stream: impl AsyncRead + Unpin) {
        let mut block = vec![0; BLOCK];
        while let Ok(length @ 1..) = stream.read(&mut block).await {
            self.keep(block.get(..length).unwrap_or_default());
            tokio::task::yield_now().await;
        }
    }

    fn keep(&self, bytes: &[u8]) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend(bytes);
        let excess = kept.len().saturating_sub(LOG_KEPT);
        kept.drain(..excess);
    }
}

impl fmt::Display for ServerLog {
    /// The last words for a person, behind a comma; nothing if there were none.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes: Vec<u8> = self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().copied().collect();
        let text = String::from_utf8_lossy(&bytes);
        let from = text.ceil_char_boundary(text.len().saturating_sub(LOG_SHOWN));
        let tail = readable(text.get(from..).unwrap_or_default().trim(), LOG_SHOWN);
        if tail.is_empty() { Ok(()) } else { write!(f, "; its last words were: {tail}") }
    }
}

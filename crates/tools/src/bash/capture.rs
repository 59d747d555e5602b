//! The output of one command, held in bounded memory.
//!
//! The first and the last block stay in memory, which is enough for the preview and the live view. When more
//! comes, all of it goes to a Managed Tool Output File as well. Losing that file costs the middle of the
//! output and nothing else.

use std::{collections::VecDeque, path::PathBuf};

use tokio::{fs, io::AsyncWriteExt as _};

use crate::bound::{self, Bounded, Limits, Omission};

/// Bytes kept from the beginning, and as many from the end.
const KEPT: usize = 64 * 1024;

/// Characters in the live view.
const LIVE_CHARS: usize = 30_000;

/// What stands for the beginning that the live view leaves out.
const CUT: &str = "...\n";

/// The output so far.
#[derive(Debug)]
pub(super) struct Capture {
    dir: PathBuf,
    head: Vec<u8>,
    tail: VecDeque<u8>,
    bytes: u64,
    breaks: u64,
    spool: Spool,
}

/// Where output goes that memory does not keep.
#[derive(Debug)]
enum Spool {
    /// Nowhere yet: memory keeps all of it.
    Unneeded,
    Open(fs::File, PathBuf),
    Lost,
}

/// The output of a command that has ended.
#[derive(Debug)]
pub(super) struct Captured {
    /// What the model reads.
    pub(super) bounded: Bounded,
    /// What clients show.
    pub(super) live: String,
}

impl Capture {
    pub(super) fn new(dir: PathBuf) -> Self {
        Self { dir, head: Vec::new(), tail: VecDeque::new(), bytes: 0, breaks: 0, spool: Spool::Unneeded }
    }

    /// Adds a block.
    pub(super) async fn push(&mut self, block: &[u8]) {
        let room = KEPT.saturating_sub(self.head.len()).min(block.len());
        let (to_head, to_tail) = block.split_at_checked(room).unwrap_or((block, &[]));
        if !to_tail.is_empty() {
            self.spool(block).await;
        } else if let Spool::Open(..) = self.spool {
            self.spool(block).await;
        }
        self.head.extend_from_slice(to_head);
        self.tail.extend(to_tail);
        let excess = self.tail.len().saturating_sub(KEPT);
        self.tail.drain(..excess);
        self.bytes += block.len() as u64;
        self.breaks += block.iter().filter(|byte| **byte == b'\n').count() as u64;
    }

    /// The newest part, as clients show it while the command runs.
    pub(super) fn live(&self) -> String {
        let (old, new) = self.tail.as_slices();
        let gap = self.bytes > (self.head.len() + self.tail.len()) as u64;
        let mut bytes = if gap { Vec::new() } else { self.head.clone() };
        bytes.extend_from_slice(old);
        bytes.extend_from_slice(new);
        let text = String::from_utf8_lossy(whole_characters(&bytes));
        match text.char_indices().rev().nth(LIVE_CHARS - 1) {
            Some((0, _)) | None if !gap => text.into_owned(),
            None => format!("{CUT}{text}"),
            Some(_) => {
                let room = LIVE_CHARS - CUT.len();
                let from = text.char_indices().rev().nth(room - 1).map_or(0, |(at, _)| at);
                format!("{CUT}{}", text.get(from..).unwrap_or_default())
            }
        }
    }

    /// The output within the limits.
    pub(super) async fn finish(mut self, limits: Limits) -> Captured {
        let live = self.live();
        let mut head = std::mem::take(&mut self.head);
        let mut tail: Vec<u8> = std::mem::take(&mut self.tail).into();
        if tail.is_empty() {
            let text = String::from_utf8_lossy(&head).into_owned();
            return Captured { bounded: bound::bound(text, limits, &self.dir), live };
        }
        let path = self.close().await;
        let lines = self.breaks + u64::from(tail.last().is_some_and(|last| *last != b'\n'));
        let omission = Omission { bytes: self.bytes, lines, path: path.as_deref() };
        // The end may need more than the second block when that one has just begun.
        if self.bytes == (head.len() + tail.len()) as u64 {
            head.append(&mut tail);
            tail.clone_from(&head);
        }
        let head = String::from_utf8_lossy(&head);
        let tail = String::from_utf8_lossy(whole_characters(&tail));
        let text = bound::preview(&head, &tail, limits, omission);
        Captured { bounded: Bounded { text, truncated: true, path }, live }
    }

    /// Writes a block to the file, which begins with what memory kept so far.
    async fn spool(&mut self, block: &[u8]) {
        if let Spool::Unneeded = self.spool {
            self.spool = match bound::create(&self.dir) {
                Ok((file, path)) => Spool::Open(fs::File::from_std(file), path),
                Err(error) => self.lost(&error),
            };
            let head = std::mem::take(&mut self.head);
            self.append(&head).await;
            self.head = head;
        }
        self.append(block).await;
    }

    async fn append(&mut self, block: &[u8]) {
        let Spool::Open(file, path) = &mut self.spool else { return };
        if let Err(error) = file.write_all(block).await {
            fs::remove_file(path).await.ok();
            self.spool = self.lost(&error);
        }
    }

    async fn close(&mut self) -> Option<PathBuf> {
        let Spool::Open(mut file, path) = std::mem::replace(&mut self.spool, Spool::Lost) else {
            return None;
        };
        match file.flush().await {
            Ok(()) => Some(path),
            Err(error) => {
                fs::remove_file(path).await.ok();
                self.lost(&error);
                None
            }
        }
    }

    fn lost(&self, error: &std::io::Error) -> Spool {
        tracing::warn!(dir = %self.dir.display(), %error, "complete command output was not kept");
        Spool::Lost
    }
}

/// The bytes without the rest of a character that was cut off at the beginning.
fn whole_characters(bytes: &[u8]) -> &[u8] {
    let cut = bytes.iter().take(3).take_while(|byte| (0x80..0xc0).contains(*byte)).count();
    bytes.get(cut..).unwrap_or_default()
}

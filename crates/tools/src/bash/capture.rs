//! The output of one command, held in bounded memory.
//!
//! The first and the last block stay in memory, which is enough for the preview and the live view. When more
//! comes, all of it goes to a Managed Tool Output File as well. Losing that file costs the middle of the
//! output and nothing else. The file has the bytes as they came; what the model reads is text.

use std::collections::VecDeque;
use std::path::PathBuf;

use tokio::fs;
use tokio::io::AsyncWriteExt as _;

use crate::bound::{self, Bounded, Omission, OutputLimits};

/// Bytes kept from the beginning, and as many from the end.
const KEPT: usize = 64 * 1024;

/// The most bytes of one command's output that go to a file: what a program prints must not fill the disk.
pub(super) const LARGEST: u64 = 64 * 1024 * 1024;

/// What the file of a command that printed more ends with.
pub(super) const MORE: &str = "\n[more output came and is not kept]\n";

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
    /// How many bytes of the output are in the file.
    kept: u64,
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
        Self {
            dir,
            head: Vec::new(),
            tail: VecDeque::new(),
            bytes: 0,
            breaks: 0,
            spool: Spool::Unneeded,
            kept: 0,
        }
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
        self.breaks += bound::breaks(block);
    }

    /// The newest part, as clients show it while the command runs.
    pub(super) fn live(&self) -> String {
        let (old, new) = self.tail.as_slices();
        let gap = self.bytes > (self.head.len() + self.tail.len()) as u64;
        let mut bytes = if gap { Vec::new() } else { self.head.clone() };
        bytes.extend_from_slice(old);
        bytes.extend_from_slice(new);
        let text = text(if gap { whole_characters(&bytes) } else { &bytes });
        match text.char_indices().rev().nth(LIVE_CHARS - 1) {
            Some((0, _)) | None if !gap => text,
            None => format!("{CUT}{text}"),
            Some(_) => {
                let room = LIVE_CHARS - CUT.len();
                let from = text.char_indices().rev().nth(room - 1).map_or(0, |(at, _)| at);
                format!("{CUT}{}", text.get(from..).unwrap_or_default())
            }
        }
    }

    /// The output within the limits.
    pub(super) async fn finish(mut self, limits: OutputLimits) -> Captured {
        let live = self.live();
        let mut head = std::mem::take(&mut self.head);
        let mut tail: Vec<u8> = std::mem::take(&mut self.tail).into();
        if tail.is_empty() {
            let text = text(&head);
            if bound::fits(&text, limits) {
                return Captured { bounded: Bounded { text, truncated: false, path: None }, live };
            }
            let path = bound::keep(&head, &self.dir);
            let (bytes, lines) = (self.bytes, bound::lines(&head));
            let omission = Omission { bytes, lines, path: path.as_deref(), kept: bytes };
            let text = bound::preview(&text, &text, limits, omission);
            return Captured { bounded: Bounded { text, truncated: true, path }, live };
        }
        let path = self.close().await;
        let lines = self.breaks + u64::from(tail.last().is_some_and(|last| *last != b'\n'));
        let omission = Omission { bytes: self.bytes, lines, path: path.as_deref(), kept: self.kept };
        // The end may need more than the second block when that one has just begun.
        if self.bytes == (head.len() + tail.len()) as u64 {
            head.append(&mut tail);
            tail.clone_from(&head);
        }
        let head = text(&head);
        let tail = text(whole_characters(&tail));
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
        let room = usize::try_from(LARGEST - self.kept).unwrap_or(usize::MAX);
        let part = block.get(..room).unwrap_or(block);
        let mut written = file.write_all(part).await;
        if written.is_ok() && room > 0 && part.len() < block.len() {
            written = file.write_all(MORE.as_bytes()).await;
        }
        match written {
            Ok(()) => self.kept += part.len() as u64,
            Err(error) => {
                fs::remove_file(path).await.ok();
                self.spool = self.lost(&error);
            }
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

impl Drop for Capture {
    /// A file that nobody will hear of is not left behind.
    fn drop(&mut self) {
        if let Spool::Open(_, path) = &self.spool {
            std::fs::remove_file(path).ok();
        }
    }
}

/// Bytes as a text that every model and every store takes: what is not UTF-8 and what is not a visible character
/// shows as a sign that stands for it.
pub(super) fn text(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    if text.contains('\0') { text.replace('\0', "\u{2400}") } else { text.into_owned() }
}

/// The bytes without the rest of a character that was cut off at the beginning.
fn whole_characters(bytes: &[u8]) -> &[u8] {
    let cut = bytes.iter().take(3).take_while(|byte| (0x80..0xc0).contains(*byte)).count();
    bytes.get(cut..).unwrap_or_default()
}

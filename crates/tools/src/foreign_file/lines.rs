//! Some lines of a file, without the rest of it in memory.

use std::io::{self, BufRead as _, BufReader};
use std::path::{Path, PathBuf};

use super::{ForeignFileError, PIECE, ReadBounds, apart, open};

/// Lines of a file, counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineRange {
    /// The first line.
    pub first: u64,
    /// The last line; none is that of the file.
    pub last: Option<u64>,
}

/// The lines that a file has of those that were asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FetchedLines {
    /// Their content, with the breaks between them and after them.
    pub content: Vec<u8>,
    /// The number of the last one; that of the last line of the file if it ends before the first.
    pub last: u64,
    /// Whether they were cut, because they have more bytes than fit.
    pub is_cut: bool,
}

/// Lines of a file, for tasks of a runtime: as many of their bytes as `bounds` allow. The file may have any size; it is
/// read no further than needed.
///
/// # Errors
///
/// When it is no ordinary file, takes too long or cannot be read.
pub async fn fetch_lines(
    path: PathBuf,
    lines: LineRange,
    bounds: ReadBounds,
) -> Result<FetchedLines, ForeignFileError> {
    apart(bounds.time, move |is_left| take_lines(&path, lines, bounds.bytes, is_left)).await
}

fn take_lines(
    path: &Path,
    lines: LineRange,
    most: u64,
    is_left: &dyn Fn() -> bool,
) -> Result<FetchedLines, ForeignFileError> {
    let (file, _) = open(path, most)?;
    let piece = usize::try_from(PIECE).unwrap_or(usize::MAX);
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let mut reader = BufReader::with_capacity(piece, file);
    let mut fetched = FetchedLines::default();
    // The number of the line that the next byte is in.
    let mut line = 1;
    while !is_left() {
        let block = match reader.fill_buf() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            other => other?,
        };
        if block.is_empty() {
            break;
        }
        for text in block.split_inclusive(|byte| *byte == b'\n') {
            fetched.last = line;
            if line >= lines.first {
                let room = most.saturating_sub(fetched.content.len());
                fetched.content.extend_from_slice(text.get(..room).unwrap_or(text));
                fetched.is_cut = text.len() > room;
            }
            line += u64::from(text.ends_with(b"\n"));
            if fetched.is_cut || lines.last.is_some_and(|last| line > last) {
                return Ok(fetched);
            }
        }
        let used = block.len();
        reader.consume(used);
    }
    Ok(fetched)
}

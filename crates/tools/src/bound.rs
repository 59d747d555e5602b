//! The size limit of text for the model, and the files that keep the complete text.
//!
//! A preview keeps the beginning and the end, because errors gather at the end and context at the beginning.
//! The complete text goes to a Managed Tool Output File that ordinary tools can read. Keeping that file is
//! best effort: a full disk makes the preview say that the rest is lost, and never fails the tool.

use std::fs::{DirBuilder, File};
use std::io::Write as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use std::{fs, io};

/// How a Managed Tool Output File's name begins.
const PREFIX: &str = "tool_";

/// How many random characters make its name unique.
const RANDOM: usize = 20;

/// The largest text that goes to the model whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutputLimits {
    /// Lines; a final line break does not begin another one.
    pub lines: usize,
    /// Bytes of UTF-8.
    pub bytes: usize,
}

impl Default for OutputLimits {
    fn default() -> Self {
        Self { lines: 2000, bytes: 50 * 1024 }
    }
}

/// A text that fits the limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bounded {
    /// The whole text, or a preview of it.
    pub text: String,
    /// Whether it is only a preview.
    pub truncated: bool,
    /// The file with the complete text, when it could be kept.
    pub path: Option<PathBuf>,
}

/// What the preview leaves out.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Omission<'a> {
    /// Bytes of the complete text.
    pub(crate) bytes: u64,
    /// Lines of the complete text.
    pub(crate) lines: u64,
    /// Where the text is, if anywhere.
    pub(crate) path: Option<&'a Path>,
    /// How much of the text is there, from its beginning.
    pub(crate) kept: u64,
}

/// Makes a text fit, keeping the complete one in a new file under `dir` when it does not.
#[must_use]
pub fn bound(text: String, limits: OutputLimits, dir: &Path) -> Bounded {
    if fits(&text, limits) {
        return Bounded { text, truncated: false, path: None };
    }
    let path = keep(text.as_bytes(), dir);
    let bytes = text.len() as u64;
    let omission = Omission { bytes, lines: lines(text.as_bytes()), path: path.as_deref(), kept: bytes };
    Bounded { text: preview(&text, &text, limits, omission), truncated: true, path }
}

/// Removes the Managed Tool Output Files that were last written before `cutoff`, and says how many.
pub fn sweep(dir: &Path, cutoff: SystemTime) -> io::Result<usize> {
    let entries = match fs::read_dir(dir) {
        // No output was ever kept.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        other => other?,
    };
    let mut removed = 0;
    for entry in entries {
        let entry = entry?;
        if !entry.file_name().to_string_lossy().starts_with(PREFIX) {
            continue;
        }
        let old = entry
            .metadata()
            .is_ok_and(|meta| meta.is_file() && meta.modified().is_ok_and(|modified| modified < cutoff));
        if old && fs::remove_file(entry.path()).is_ok() {
            removed += 1;
        }
    }
    Ok(removed)
}

/// Whether a text is within the limits.
pub(crate) fn fits(text: &str, limits: OutputLimits) -> bool {
    text.len() <= limits.bytes && lines(text.as_bytes()) <= limits.lines as u64
}

/// The number of lines; a final line break does not begin another one.
pub(crate) fn lines(text: &[u8]) -> u64 {
    breaks(text) + u64::from(text.last().is_some_and(|last| *last != b'\n'))
}

/// The number of line breaks, sixteen bytes at a time: much text comes this way.
pub(crate) fn breaks(text: &[u8]) -> u64 {
    const BREAKS: u128 = u128::from_ne_bytes([b'\n'; 16]);
    const LOW: u128 = u128::from_ne_bytes([0x7f; 16]);
    let (chunks, rest) = text.as_chunks::<16>();
    let mut count = rest.iter().filter(|byte| **byte == b'\n').count() as u64;
    for chunk in chunks {
        // A byte that is a line break is zero now; in the end those, and only those, have their highest bit clear.
        let other = u128::from_ne_bytes(*chunk) ^ BREAKS;
        let high = ((other & LOW) + LOW) | other | LOW;
        count += u64::from((!high).count_ones());
    }
    count
}

/// The beginning of `head` and the end of `tail`, each half of the limits, with a marker in between.
pub(crate) fn preview(head: &str, tail: &str, limits: OutputLimits, omission: Omission<'_>) -> String {
    let head = first(head, limits.lines / 2, limits.bytes / 2);
    let tail = last(tail, limits.lines / 2, limits.bytes / 2);
    let whereabouts = match omission.path {
        Some(path) if omission.kept < omission.bytes => {
            format!("the first {} bytes are in {}, the rest is lost", omission.kept, path.display())
        }
        Some(path) => format!("the complete output is in {}", path.display()),
        None => "the rest could not be kept and is lost".to_owned(),
    };
    format!(
        "{}\n\n[... output shortened: {} lines, {} bytes in all; {whereabouts} ...]\n\n{tail}",
        head.trim_end_matches('\n'),
        omission.lines,
        omission.bytes,
    )
}

/// Creates a new Managed Tool Output File that only its owner can read.
pub(crate) fn create(dir: &Path) -> io::Result<(File, PathBuf)> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    // The builder opens exclusively and with mode 0600.
    let file = tempfile::Builder::new().prefix(PREFIX).rand_bytes(RANDOM).tempfile_in(dir)?;
    file.keep().map_err(|error| error.error)
}

/// Keeps a text in a new file; a failure is logged for operators and costs only the file.
pub(crate) fn keep(text: &[u8], dir: &Path) -> Option<PathBuf> {
    let written = create(dir).and_then(|(mut file, path)| match file.write_all(text) {
        Ok(()) => Ok(path),
        Err(error) => {
            fs::remove_file(&path).ok();
            Err(error)
        }
    });
    written
        .inspect_err(|error| {
            tracing::warn!(dir = %dir.display(), %error, "complete tool output was not kept");
        })
        .ok()
}

/// At most so many lines and bytes from the beginning, cut between characters.
fn first(text: &str, lines: usize, bytes: usize) -> &str {
    let by_lines = text.split_inclusive('\n').take(lines).map(str::len).sum::<usize>();
    text.get(..text.floor_char_boundary(by_lines.min(bytes))).unwrap_or_default()
}

/// At most so many lines and bytes from the end, cut between characters.
fn last(text: &str, lines: usize, bytes: usize) -> &str {
    let by_lines = text.split_inclusive('\n').rev().take(lines).map(str::len).sum::<usize>();
    let from = text.len().saturating_sub(by_lines.min(bytes));
    text.get(text.ceil_char_boundary(from)..).unwrap_or_default()
}

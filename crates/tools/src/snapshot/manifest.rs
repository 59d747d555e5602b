//! The manifest of one tree, as it is stored.
//!
//! A header line, then one record for each file in the order of their paths: mode in octal, size and BLAKE3
//! hash, each with a space behind it, and the path as raw bytes up to a NUL. Paths need no escaping that way,
//! and equal trees have equal bytes.

use std::io::Write as _;

use super::FileTree;

/// The first line, which names the format.
const HEADER: &[u8] = b"everturn-tree 1\n";

/// The mode bits that say which kind of file it is.
const KIND: u32 = 0o170_000;
/// A symbolic link.
const LINK: u32 = 0o120_000;
/// An ordinary file.
const FILE: u32 = 0o100_000;
/// The mode bits that a tree records of an ordinary file.
const PERMISSIONS: u32 = 0o777;

/// In the mode of a file that may be a program's, at a place where nothing of a program's stays.
const UNSETTLED: u32 = 0o1_000_000;

/// What a tree knows of one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ManifestEntry {
    /// Kind and permissions.
    pub(super) mode: u32,
    /// Bytes of content.
    pub(super) size: u64,
    /// The content, or the target of a link.
    pub(super) hash: blake3::Hash,
}

impl ManifestEntry {
    /// Whether it is a symbolic link.
    pub(super) fn is_link(&self) -> bool {
        is_link(self.mode)
    }

    /// The same, marked as what a program of an agent may have made at a protected place.
    pub(super) fn unsettled(self) -> Self {
        Self { mode: self.mode | UNSETTLED, ..self }
    }

    /// Whether it is marked so: it is shown like any other, and never put back.
    pub(super) fn is_unsettled(&self) -> bool {
        self.mode & UNSETTLED != 0
    }

    /// The file itself, whoever has made it.
    pub(super) fn unmarked(self) -> Self {
        Self { mode: self.mode & !UNSETTLED, ..self }
    }

    /// The permissions of an ordinary file.
    pub(super) fn permissions(&self) -> u32 {
        self.mode & PERMISSIONS
    }
}

/// Whether a mode is that of a symbolic link.
pub(super) fn is_link(mode: u32) -> bool {
    mode & KIND == LINK
}

/// The mode that a tree records, or nothing for a file that trees do not hold.
pub(super) fn mode(raw: u32) -> Option<u32> {
    match raw & KIND {
        LINK => Some(LINK),
        FILE => Some(FILE | raw & PERMISSIONS),
        _ => None,
    }
}

/// The bytes of a tree.
pub(super) fn encode(tree: &FileTree) -> Vec<u8> {
    let mut bytes = HEADER.to_vec();
    for (path, ManifestEntry { mode, size, hash }) in tree {
        // Writing to memory does not fail.
        write!(bytes, "{mode:o} {size} {} ", hash.to_hex()).ok();
        bytes.extend_from_slice(path);
        bytes.push(0);
    }
    bytes
}

/// The tree of some bytes, or nothing if they are not in the format.
pub(super) fn decode(bytes: &[u8]) -> Option<FileTree> {
    let records = bytes.strip_prefix(HEADER)?;
    let Some(records) = records.strip_suffix(&[0]) else {
        return records.is_empty().then(FileTree::new);
    };
    records
        .split(|byte| *byte == 0)
        .map(|record| {
            let mut fields = record.splitn(4, |byte| *byte == b' ');
            let mut text = || std::str::from_utf8(fields.next()?).ok();
            let mode = u32::from_str_radix(text()?, 8).ok()?;
            let size = text()?.parse().ok()?;
            let hash = blake3::Hash::from_hex(text()?).ok()?;
            let path = fields.next()?.to_vec();
            Some((path, ManifestEntry { mode, size, hash }))
        })
        .collect()
}

//! What an earlier capture knew of each file, so that an unchanged one is not read again.
//!
//! The index is a cache: a missing, old or damaged one costs time and nothing else. It is stored beside the
//! blobs as one compressed file, replaced as a whole.

use std::collections::HashMap;
use std::io::Write as _;

use rustix::fs::Stat;

use super::manifest::ManifestEntry;
use super::store::{SnapshotStore, nanoseconds};

/// The first line, which names the format.
const HEADER: &[u8] = b"everturn-index 1 ";

/// What `stat` says of a file; a change of content changes at least one of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileStat {
    pub(super) mode: u32,
    pub(super) size: u64,
    inode: u64,
    modified: i64,
    changed: i64,
}

impl FileStat {
    /// Takes what is needed from what the system says.
    pub(super) fn of(stat: &Stat) -> Self {
        #[allow(clippy::useless_conversion, reason = "the types are others on other systems")]
        let (mode, inode) = (u32::from(stat.st_mode), u64::from(stat.st_ino));
        let fraction = |nanoseconds| i64::try_from(nanoseconds).unwrap_or_default();
        Self {
            mode,
            size: u64::try_from(stat.st_size).unwrap_or_default(),
            inode,
            modified: nanoseconds(stat.st_mtime, fraction(stat.st_mtime_nsec)),
            changed: nanoseconds(stat.st_ctime, fraction(stat.st_ctime_nsec)),
        }
    }

    /// Whether the file was certainly left alone between its last change and `time`.
    fn settled_before(&self, time: i64) -> bool {
        // A file system that keeps whole seconds can hide a change within the same second.
        let second = 1_000_000_000;
        if self.changed % second == 0 { self.changed / second < time / second } else { self.changed < time }
    }
}

/// The files that the last capture saw.
#[derive(Debug, Default)]
pub(super) struct FileIndex {
    /// When that capture began, by the clock of the file system.
    taken: i64,
    files: HashMap<Vec<u8>, (FileStat, ManifestEntry)>,
}

impl FileIndex {
    /// An index for a capture that begins at `taken`.
    pub(super) fn new(taken: i64, capacity: usize) -> Self {
        Self { taken, files: HashMap::with_capacity(capacity) }
    }

    /// The number of files.
    pub(super) fn len(&self) -> usize {
        self.files.len()
    }

    /// Whether an earlier capture has the file, in whatever state.
    pub(super) fn knows(&self, path: &[u8]) -> bool {
        self.files.contains_key(path)
    }

    /// The entry of a file that has not changed since.
    pub(super) fn unchanged(&self, path: &[u8], stat: &FileStat) -> Option<ManifestEntry> {
        let (known, entry) = self.files.get(path)?;
        (known == stat && stat.settled_before(self.taken)).then_some(*entry)
    }

    /// Remembers a file.
    pub(super) fn insert(&mut self, path: Vec<u8>, stat: FileStat, entry: ManifestEntry) {
        self.files.insert(path, (stat, entry));
    }

    /// Reads the stored index; an unusable one is empty.
    pub(super) fn load(store: &SnapshotStore) -> Self {
        store.get(&store.index()).ok().flatten().and_then(|bytes| decode(&bytes)).unwrap_or_default()
    }

    /// Stores the index; failing to only makes the next process slower.
    pub(super) fn save(&self, store: &SnapshotStore) {
        if let Err(error) = store.put(&store.index(), &encode(self)) {
            tracing::warn!(%error, "snapshot index was not stored");
        }
    }
}

fn encode(index: &FileIndex) -> Vec<u8> {
    let mut bytes = HEADER.to_vec();
    write!(bytes, "{}\0", index.taken).ok();
    for (path, (stat, entry)) in &index.files {
        let FileStat { mode, size, inode, modified, changed } = stat;
        write!(bytes, "{mode} {size} {inode} {modified} {changed} ").ok();
        write!(bytes, "{} {} {} ", entry.mode, entry.size, entry.hash.to_hex()).ok();
        bytes.extend_from_slice(path);
        bytes.push(0);
    }
    bytes
}

fn decode(bytes: &[u8]) -> Option<FileIndex> {
    let mut records = bytes.strip_prefix(HEADER)?.strip_suffix(&[0])?.split(|byte| *byte == 0);
    let taken = std::str::from_utf8(records.next()?).ok()?.parse().ok()?;
    let files = records
        .map(|record| {
            let mut fields = record.splitn(9, |byte| *byte == b' ');
            let mut text = || std::str::from_utf8(fields.next()?).ok();
            let stat = FileStat {
                mode: text()?.parse().ok()?,
                size: text()?.parse().ok()?,
                inode: text()?.parse().ok()?,
                modified: text()?.parse().ok()?,
                changed: text()?.parse().ok()?,
            };
            let mode = text()?.parse().ok()?;
            let size = text()?.parse().ok()?;
            let hash = blake3::Hash::from_hex(text()?).ok()?;
            Some((fields.next()?.to_vec(), (stat, ManifestEntry { mode, size, hash })))
        })
        .collect::<Option<_>>()?;
    Some(FileIndex { taken, files })
}

//! The files of a snapshot store: blobs by content, trees by content, and the index.
//!
//! `blobs/<2 hex>/<62 hex>` and `trees/<40 hex>` hold zstd frames. A file appears under its name complete or
//! not at all, and is never written again.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::{fs, io};

use super::{FileTree, SnapshotError, TreeId, manifest};

/// The compression level: fast, because most blobs are never read again.
const LEVEL: i32 = 1;

/// The folder of one store.
#[derive(Debug)]
pub(super) struct SnapshotStore {
    dir: PathBuf,
}

impl SnapshotStore {
    /// Opens a folder as a store, making it if need be.
    pub(super) fn open(dir: PathBuf) -> Result<Self, SnapshotError> {
        for part in ["blobs", "trees"] {
            let path = dir.join(part);
            fs::create_dir_all(&path).map_err(SnapshotError::io(&path))?;
        }
        Ok(Self { dir })
    }

    /// The folder.
    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Where the index of known files is.
    pub(super) fn index(&self) -> PathBuf {
        self.dir.join("index")
    }

    /// The present time as the file system tells it, in nanoseconds: what a file changed now would carry.
    pub(super) fn now(&self) -> Result<i64, SnapshotError> {
        let fail = SnapshotError::io(&self.dir);
        let probe = tempfile::tempfile_in(&self.dir).and_then(|file| file.metadata()).map_err(fail)?;
        Ok(nanoseconds(probe.ctime(), probe.ctime_nsec()))
    }

    /// Stores a content and returns its name.
    pub(super) fn put_blob(&self, content: &[u8]) -> Result<blake3::Hash, SnapshotError> {
        let hash = blake3::hash(content);
        let path = self.blob_path(hash);
        // An empty file is what a power cut leaves of a blob; a frame never is.
        if !fs::metadata(&path).is_ok_and(|meta| meta.len() > 0) {
            self.put(&path, content)?;
        }
        Ok(hash)
    }

    /// The content of this name, checked.
    pub(super) fn blob(&self, hash: blake3::Hash) -> Result<Vec<u8>, SnapshotError> {
        let path = self.blob_path(hash);
        let content = self.get(&path)?.ok_or_else(|| SnapshotError::Corrupt(path.clone()))?;
        if blake3::hash(&content) == hash { Ok(content) } else { Err(SnapshotError::Corrupt(path)) }
    }

    /// Stores a tree whose blobs are all stored, and returns its name.
    pub(super) fn put_tree(&self, tree: &FileTree) -> Result<TreeId, SnapshotError> {
        let bytes = manifest::encode(tree);
        let id = tree_id(&bytes);
        let path = self.tree_path(&id);
        if !fs::metadata(&path).is_ok_and(|meta| meta.len() > 0) {
            self.put(&path, &bytes)?;
        }
        Ok(id)
    }

    /// The tree of this name, checked.
    pub(super) fn tree(&self, id: &TreeId) -> Result<FileTree, SnapshotError> {
        let path = self.tree_path(id);
        let bytes = self.get(&path)?.ok_or_else(|| SnapshotError::Unknown(id.clone()))?;
        if tree_id(&bytes) != *id {
            return Err(SnapshotError::Corrupt(path));
        }
        manifest::decode(&bytes).ok_or(SnapshotError::Corrupt(path))
    }

    /// Compresses a content into a new file.
    pub(super) fn put(&self, path: &Path, content: &[u8]) -> Result<(), SnapshotError> {
        let parent = path.parent().unwrap_or(&self.dir);
        let write = || -> io::Result<()> {
            let frame = zstd::bulk::compress(content, LEVEL)?;
            let mut file = match tempfile::NamedTempFile::new_in(parent) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    fs::create_dir_all(parent)?;
                    tempfile::NamedTempFile::new_in(parent)?
                }
                other => other?,
            };
            io::Write::write_all(&mut file, &frame)?;
            file.persist(path).map_err(|error| error.error)?;
            Ok(())
        };
        write().map_err(SnapshotError::io(path))
    }

    /// The content of a compressed file; nothing if there is no such file.
    pub(super) fn get(&self, path: &Path) -> Result<Option<Vec<u8>>, SnapshotError> {
        match fs::read(path) {
            Ok(frame) => zstd::stream::decode_all(&*frame)
                .map(Some)
                .map_err(|_| SnapshotError::Corrupt(path.to_owned())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(SnapshotError::Io { path: path.to_owned(), source }),
        }
    }

    fn blob_path(&self, hash: blake3::Hash) -> PathBuf {
        let hex = hash.to_hex();
        let (folder, name) = hex.split_at(2);
        let mut path = self.dir.join("blobs");
        path.push(folder);
        path.push(name);
        path
    }

    fn tree_path(&self, id: &TreeId) -> PathBuf {
        self.dir.join("trees").join(id.as_str())
    }
}

fn tree_id(bytes: &[u8]) -> TreeId {
    TreeId(blake3::hash(bytes).to_hex().chars().take(40).collect())
}

/// A time of the file system as one number; times outside four centuries are cut to them.
pub(super) fn nanoseconds(seconds: i64, nanoseconds: i64) -> i64 {
    seconds.saturating_mul(1_000_000_000).saturating_add(nanoseconds)
}

//! All that is in a folder, to be compared later.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// What tells whether something in a folder was changed: kind and mode, and the content or where a link leads.
pub type FileState = (u32, Vec<u8>);

/// Everything below a folder, by relative path. What goes away meanwhile is passed over.
///
/// # Panics
///
/// When the folder is not there, or something in it cannot be read.
pub fn tree(folder: &Path) -> BTreeMap<PathBuf, FileState> {
    assert!(folder.is_dir(), "{} is no folder", folder.display());
    let mut found = BTreeMap::new();
    walk(folder, folder, &mut found);
    found
}

fn walk(folder: &Path, root: &Path, found: &mut BTreeMap<PathBuf, FileState>) {
    for entry in there(folder, fs::read_dir(folder)).into_iter().flatten() {
        let path = entry.expect("a name in the folder").path();
        let Some((mode, content)) = there(&path, state(&path)) else { continue };
        found.insert(path.strip_prefix(root).unwrap_or(&path).to_owned(), (mode, content));
        if fs::symlink_metadata(&path).is_ok_and(|meta| meta.is_dir()) {
            walk(&path, root, found);
        }
    }
}

fn state(path: &Path) -> io::Result<FileState> {
    let meta = fs::symlink_metadata(path)?;
    let content = if meta.is_symlink() {
        fs::read_link(path)?.into_os_string().into_encoded_bytes()
    } else if meta.is_file() {
        fs::read(path)?
    } else {
        Vec::new()
    };
    Ok((meta.mode(), content))
}

/// What was found, unless it has gone away.
fn there<T>(path: &Path, found: io::Result<T>) -> Option<T> {
    match found {
        Ok(found) => Some(found),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => panic!("{}: {error}", path.display()),
    }
}

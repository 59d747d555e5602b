//! The workspace folder `fixtures/`: recorded material of other programs, and of earlier versions of this one.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// The folder itself.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures")
}

/// A file or folder in it.
pub fn path(relative: impl AsRef<Path>) -> PathBuf {
    root().join(relative)
}

/// The text of a file in it.
///
/// # Panics
///
/// When the file cannot be read.
pub fn text(relative: impl AsRef<Path>) -> String {
    let path = path(relative);
    std::fs::read_to_string(&path).unwrap_or_else(|cause| panic!("fixture {}: {cause}", path.display()))
}

/// Unpacks an archive into a folder.
///
/// # Panics
///
/// When `tar` or what it needs for this kind of archive is missing, or the archive is damaged.
pub fn unpack(relative: impl AsRef<Path>, folder: &Path) {
    let archive = path(relative);
    let status = Command::new("tar").arg("xf").arg(&archive).arg("-C").arg(folder).status();
    assert!(status.expect("tar is installed").success(), "tar cannot unpack {}", archive.display());
}

/// Unpacks a single file that `xz` has compressed.
///
/// # Panics
///
/// When `xz` is missing, or the file is damaged.
pub fn unpack_file(relative: impl AsRef<Path>, file: &Path) {
    let archive = path(relative);
    let made = File::create(file).unwrap_or_else(|cause| panic!("{}: {cause}", file.display()));
    let status = Command::new("xz").arg("-dc").arg(&archive).stdout(made).status();
    assert!(status.expect("xz is installed").success(), "xz cannot unpack {}", archive.display());
}

/// The JSON value in a file.
///
/// # Panics
///
/// When the file cannot be read or is not JSON.
pub fn json(relative: impl AsRef<Path>) -> Value {
    let relative = relative.as_ref();
    serde_json::from_str(&text(relative))
        .unwrap_or_else(|cause| panic!("fixture {}: {cause}", relative.display()))
}

/// The JSON values in a file with one on each line.
///
/// # Panics
///
/// When the file cannot be read or a line is not JSON.
pub fn json_lines(relative: impl AsRef<Path>) -> Vec<Value> {
    let relative = relative.as_ref();
    let read = |(number, line): (usize, &str)| {
        serde_json::from_str(line)
            .unwrap_or_else(|cause| panic!("fixture {}, line {}: {cause}", relative.display(), number + 1))
    };
    text(relative).lines().enumerate().filter(|(_, line)| !line.trim().is_empty()).map(read).collect()
}

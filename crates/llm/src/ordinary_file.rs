//! Files that are read whole, if they are ordinary files of a reasonable size.
//!
//! A pipe in their place would be waited for, and a device read without end.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

/// Opens an ordinary file.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    let refused = || io::Error::other("it is not an ordinary file");
    // Looked at before it is opened, because opening a pipe waits for its other end.
    if !std::fs::metadata(path)?.is_file() {
        return Err(refused());
    }
    let file = File::open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(refused()) }
}

/// The text of an open file of at most so many bytes. Its size is not believed: it may grow, or say nothing.
pub(crate) fn text(file: File, most: u64) -> io::Result<String> {
    let mut text = String::new();
    file.take(most + 1).read_to_string(&mut text)?;
    if text.len() as u64 > most {
        return Err(io::Error::other(format!("it has more than {most} bytes")));
    }
    Ok(text)
}

/// The text of a file of at most so many bytes.
pub(crate) fn read_text(path: &Path, most: u64) -> io::Result<String> {
    text(open(path)?, most)
}

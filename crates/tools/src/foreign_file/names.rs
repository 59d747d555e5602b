//! The names in a folder, however many there are.

use std::collections::BinaryHeap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{ForeignFileError, apart};

/// The first names in a folder.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FetchedNames {
    /// In their order, those of folders with a slash behind them. A link is no folder.
    pub names: Vec<String>,
    /// How many there are in all.
    pub total: usize,
}

/// The first names in a folder, for tasks of a runtime: at most so many. Links on the way to it are followed, and none in
/// it.
///
/// # Errors
///
/// When it is no folder, takes too long or cannot be read.
pub async fn fetch_names(
    path: PathBuf,
    most: usize,
    time: Duration,
) -> Result<FetchedNames, ForeignFileError> {
    apart(time, move |is_left| take_names(&path, most, is_left)).await
}

fn take_names(
    path: &Path,
    most: usize,
    is_left: &dyn Fn() -> bool,
) -> Result<FetchedNames, ForeignFileError> {
    // The last of those that are kept is on top, so that a folder of millions takes no more memory than its beginning.
    let mut first = BinaryHeap::new();
    let mut total = 0;
    for entry in std::fs::read_dir(path)? {
        if is_left() {
            break;
        }
        let entry = entry?;
        let mut name = entry.file_name().to_string_lossy().into_owned();
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            name.push('/');
        }
        total += 1;
        first.push(name);
        if first.len() > most {
            first.pop();
        }
    }
    Ok(FetchedNames { names: first.into_sorted_vec(), total })
}

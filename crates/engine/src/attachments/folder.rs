//! Folders that are attached: their names.

use std::io;
use std::path::Path;
use std::time::Duration;

use everturn_tools::foreign_file::{self, ForeignFileError};

use super::AttachmentRoom;
use super::file::{AttachedContent, full};

/// How many names of an attached folder are listed.
const LISTED_NAMES: usize = 1_000;

/// How long listing a folder may take.
const LONGEST: Duration = Duration::from_secs(10);

/// The names in a folder; none when it is no folder.
pub(super) async fn list(path: &Path, left: &AttachmentRoom) -> Option<Result<AttachedContent, String>> {
    let which = path.display();
    let listed = match foreign_file::fetch_names(path.to_owned(), LISTED_NAMES, LONGEST).await {
        Err(ForeignFileError::Io(error)) if error.kind() == io::ErrorKind::NotADirectory => return None,
        Err(error) => return Some(Err(format!("Attached folder {which} could not be read: {error}."))),
        Ok(listed) => listed,
    };
    let mut said = match (listed.names.len(), listed.total) {
        (_, 0) => format!("Attached folder {which} is empty."),
        (shown, total) if shown < total => {
            format!("The first {shown} of {total} names in the attached folder {which}:")
        }
        _ => format!("Attached folder {which}:"),
    };
    for name in listed.names {
        // A name with a line break would be two.
        said.push('\n');
        said.extend(name.chars().map(|sign| if sign.is_control() { '\u{fffd}' } else { sign }));
    }
    Some(if left.take(said.len()) { Ok(AttachedContent::Text(said)) } else { Err(full(path)) })
}

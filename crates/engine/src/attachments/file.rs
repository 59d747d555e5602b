//! Files that are attached: their text, some of their lines, or the whole of a picture or document.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use encoding_rs::UTF_8;
use everturn_tools::foreign_file::{self, ForeignFileError, LineRange, ReadBounds};

use super::address::FileAddress;
use super::{ATTACHED_LIMIT, AttachmentRoom, LARGEST, LARGEST_SHOWN, folder, is_shown};

/// The media type by which clients attach folders.
const FOLDER: &str = "application/x-directory";

/// What an attachment brings.
#[derive(Debug)]
pub(super) enum AttachedContent {
    /// Words for the model.
    Text(String),
    /// A picture or document, as an address that holds it.
    Shown(String),
}

/// Reads a file or folder that a client says is of this media type; where it is wrong, what is there counts. Says why
/// where there is nothing for the model.
pub(super) async fn read(
    address: &FileAddress,
    mime: &str,
    left: &AttachmentRoom,
) -> Result<AttachedContent, String> {
    let path = &address.path;
    if mime == FOLDER
        && let Some(listed) = folder::list(path, left).await
    {
        return listed;
    }
    let read = match address.lines {
        _ if is_shown(mime) => whole(path, mime, left).await,
        Some(lines) => some_lines(path, mime, lines, left).await,
        None => text(path, mime, left).await,
    };
    match read {
        Ok(content) => content,
        Err(error @ ForeignFileError::Special(_)) => match folder::list(path, left).await {
            Some(listed) => listed,
            None => Err(unreadable(path, &error)),
        },
        Err(error) => Err(unreadable(path, &error)),
    }
}

/// What is said where a prompt brings no more content.
pub(super) fn full(path: &Path) -> String {
    let most = ATTACHED_LIMIT / (1024 * 1024);
    format!("Attached file {} is not shown: a prompt brings {most} MiB.", path.display())
}

fn unreadable(path: &Path, error: &ForeignFileError) -> String {
    format!("Attached file {} could not be read: {error}.", path.display())
}

/// A file that was read, or why it could not be. What was read may still have nothing for the model.
type FileReading = Result<Result<AttachedContent, String>, ForeignFileError>;

async fn whole(path: &Path, mime: &str, left: &AttachmentRoom) -> FileReading {
    match foreign_file::fetch(path.to_owned(), ReadBounds::bytes(LARGEST_SHOWN)).await {
        Err(ForeignFileError::TooLarge(most)) => Ok(Err(format!(
            "Attached file {} has more than {most} bytes, too many to be shown.",
            path.display()
        ))),
        Err(error) => Err(error),
        Ok(bytes) if !left.take(bytes.len()) => Ok(Err(full(path))),
        Ok(bytes) => Ok(Ok(AttachedContent::Shown(format!("data:{mime};base64,{}", STANDARD.encode(bytes))))),
    }
}

async fn text(path: &Path, mime: &str, left: &AttachmentRoom) -> FileReading {
    match foreign_file::fetch(path.to_owned(), ReadBounds::bytes(LARGEST)).await {
        Err(ForeignFileError::TooLarge(most)) => {
            Ok(Err(format!("Attached file {} has more than {most} bytes; read it in parts.", path.display())))
        }
        Err(error) => Err(error),
        Ok(bytes) => Ok(words(path, mime, &bytes, left)
            .map(|text| AttachedContent::Text(format!("Attached file {}:\n{text}", path.display())))),
    }
}

async fn some_lines(path: &Path, mime: &str, lines: LineRange, left: &AttachmentRoom) -> FileReading {
    let fetched = foreign_file::fetch_lines(path.to_owned(), lines, ReadBounds::bytes(LARGEST)).await?;
    let (which, first, last) = (path.display(), lines.first, fetched.last);
    if last < first {
        return Ok(Err(format!("Attached file {which} has no line {first}: it has {last}.")));
    }
    Ok(words(path, mime, &fetched.content, left).map(|mut text| {
        if fetched.is_cut {
            text.truncate(text.trim_end_matches('\u{fffd}').len());
            if !text.ends_with('\n') {
                text.push('\n');
            }
            text.push_str(&format!("[Cut here, in line {last}: no more than {LARGEST} bytes are shown.]"));
        }
        AttachedContent::Text(format!("Lines {first} to {last} of the attached file {which}:\n{text}"))
    }))
}

/// The text that a file has, whatever its name and its client say.
fn words(path: &Path, mime: &str, bytes: &[u8], left: &AttachmentRoom) -> Result<String, String> {
    let (text, _, broken) = UTF_8.decode(bytes);
    if text.contains('\0') || (broken && !mime.starts_with("text/")) {
        return Err(format!(
            "Attached file {} ({mime}) is not shown; look at it with tools.",
            path.display()
        ));
    }
    if left.take(bytes.len()) { Ok(text.into_owned()) } else { Err(full(path)) }
}

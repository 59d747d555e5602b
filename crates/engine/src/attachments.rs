//! Attachments: files of the project and resources of MCP servers. Their content is stored with the prompt, so that it
//! means the same later.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use everturn_model::Session;
use everturn_model::part::PartKind;
use everturn_tools::foreign_file::{self, ForeignFileError, ReadBounds};
use everturn_tools::mcp::ResourceContent;
use futures_util::stream::{self, StreamExt as _};
use tokio::time::timeout;

use crate::inbox::{PartInput, ResourceAddress};
use crate::mcp::McpServers;
use crate::projects::Projects;

/// The largest text that comes with a prompt, in bytes.
const LARGEST: u64 = 256 * 1024;

/// The largest picture or document that is taken in, in bytes; providers refuse larger ones.
const LARGEST_SHOWN: u64 = 5 * 1024 * 1024;

/// How much content of files a prompt brings in all, in bytes.
const ATTACHED_LIMIT: u64 = 32 * 1024 * 1024;

/// How many attachments of a prompt are read at once.
const AT_ONCE: usize = 8;

/// How long a prompt waits for the resources that are attached to it. The person is waiting, too.
const PATIENCE: Duration = Duration::from_secs(20);

/// Reads what is attached to prompts; clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Attachments {
    projects: Projects,
    mcp: McpServers,
}

impl Attachments {
    /// Attachments from projects and from their servers.
    pub(crate) fn new(projects: Projects, mcp: McpServers) -> Self {
        Self { projects, mcp }
    }

    /// The parts of a prompt, each with the content of what it attaches. What cannot be read is no reason to refuse the
    /// prompt.
    pub(crate) async fn read(&self, inputs: Vec<PartInput>, session: &Session) -> Vec<PartInput> {
        let left = AttachmentRoom::default();
        let parts = inputs.into_iter().map(async |part| {
            if let Some(address) = part.resource.clone() {
                let reading = self.resource_for(session, &address);
                let late = |_| Err(format!("it took longer than {} seconds", PATIENCE.as_secs()));
                let reading = timeout(PATIENCE, reading).await.unwrap_or_else(late);
                return show(part, &address, reading);
            }
            // Most parts attach nothing.
            if !is_attached(&part) {
                return vec![part];
            }
            attach_file(part, &session.directory, &left).await
        });
        let parts: Vec<Vec<PartInput>> = stream::iter(parts).buffered(AT_ONCE).collect().await;
        parts.into_iter().flatten().collect()
    }

    async fn resource_for(
        &self,
        session: &Session,
        address: &ResourceAddress,
    ) -> Result<ResourceContent, String> {
        let location =
            self.projects.location(Some(&session.directory)).await.map_err(|error| error.to_string())?;
        self.mcp.read_resource(&location, &address.server, &address.uri).await
    }
}

/// A resource's texts before the part that attaches it, and its pictures and documents after it.
fn show(
    part: PartInput,
    address: &ResourceAddress,
    reading: Result<ResourceContent, String>,
) -> Vec<PartInput> {
    let ResourceAddress { server, uri } = address;
    let (said, files) = match reading {
        Err(reason) => {
            (format!("The resource {uri} of the MCP server {server} could not be read: {reason}"), Vec::new())
        }
        // Without a text, too: the model would not know what the files are.
        Ok(ResourceContent { text, files }) => {
            (format!("Attached resource {uri} of the MCP server {server}:\n{}", cut(text)), files)
        }
    };
    let file = |file: everturn_tools::Attachment| {
        let large = file.url.len() as u64 / 4 * 3 > LARGEST_SHOWN;
        if large || !is_shown(&file.mime) {
            let name = file.filename.as_deref().unwrap_or("a file");
            return words(format!("[{name} ({}) of that resource is not shown.]", file.mime));
        }
        let kind = PartKind::File { mime: file.mime, filename: file.filename, url: file.url, source: None };
        PartInput::new(kind)
    };
    let files: Vec<PartInput> = files.into_iter().map(file).collect();
    [words(said), part].into_iter().chain(files).collect()
}

fn cut(mut text: String) -> String {
    let whole = text.len();
    let most = usize::try_from(LARGEST).unwrap_or(usize::MAX);
    if whole > most {
        text.truncate(text.floor_char_boundary(most));
        text.push_str(&format!("\n[The resource goes on: it has {whole} bytes.]"));
    }
    text
}

fn is_shown(mime: &str) -> bool {
    mime.starts_with("image/") || mime == "application/pdf"
}

/// Words to the model about what is attached; people do not see them.
fn words(text: String) -> PartInput {
    let kind = PartKind::Text { text, synthetic: Some(true), ignored: None, time: None, metadata: None };
    PartInput::new(kind)
}

/// How much more content a prompt may bring; clones share it.
#[derive(Debug, Clone)]
struct AttachmentRoom(Arc<AtomicU64>);

impl Default for AttachmentRoom {
    fn default() -> Self {
        Self(Arc::new(AtomicU64::new(ATTACHED_LIMIT)))
    }
}

impl AttachmentRoom {
    /// Takes so many bytes of it; false when there are not so many.
    fn take(&self, size: usize) -> bool {
        let size = u64::try_from(size).unwrap_or(u64::MAX);
        let less = |left: u64| left.checked_sub(size);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
    }
}

/// Whether a part is a file that is attached by its address.
fn is_attached(part: &PartInput) -> bool {
    matches!(&part.kind, PartKind::File { url, .. } if url.starts_with("file://"))
}

/// A file that is attached by its address: text beside it, pictures and documents in place of the address. What cannot be
/// shown stays an address, and the model is told why.
async fn attach_file(mut part: PartInput, directory: &str, left: &AttachmentRoom) -> Vec<PartInput> {
    let PartKind::File { mime, url, .. } = &mut part.kind else { return vec![part] };
    let Some(path) = url.strip_prefix("file://") else { return vec![part] };
    let path = path.split_once('?').map_or(path, |(path, _)| path);
    let path = Path::new(directory).join(decode(path));
    let (most, is_text) = match mime.as_str() {
        mime if mime.starts_with("text/") => (LARGEST, true),
        mime if is_shown(mime) => (LARGEST_SHOWN, false),
        mime => {
            let said =
                format!("Attached file {} ({mime}) is not shown; look at it with tools.", path.display());
            return vec![words(said), part];
        }
    };
    let said = match foreign_file::fetch(path.clone(), ReadBounds::bytes(most)).await {
        Ok(bytes) if !left.take(bytes.len()) => {
            let most = ATTACHED_LIMIT / (1024 * 1024);
            Some(format!("Attached file {} is not shown: a prompt brings {most} MiB.", path.display()))
        }
        Ok(bytes) if is_text => {
            Some(format!("Attached file {}:\n{}", path.display(), String::from_utf8_lossy(&bytes)))
        }
        Ok(bytes) => {
            *url = format!("data:{mime};base64,{}", STANDARD.encode(bytes));
            None
        }
        Err(ForeignFileError::TooLarge(most)) if is_text => {
            Some(format!("Attached file {} has more than {most} bytes; read it in parts.", path.display()))
        }
        Err(ForeignFileError::TooLarge(most)) => Some(format!(
            "Attached file {} has more than {most} bytes, too many to be shown.",
            path.display()
        )),
        Err(error) => Some(format!("Attached file {} could not be read: {error}.", path.display())),
    };
    said.map(words).into_iter().chain([part]).collect()
}

/// An address's path with its `%xx` read.
fn decode(path: &str) -> String {
    percent_encoding::percent_decode_str(path).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_decoded() {
        assert_eq!(decode("/srv/a%20b/%C3%A9.txt"), "/srv/a b/é.txt");
        assert_eq!(decode("/srv/100%/x%zz"), "/srv/100%/x%zz");
        // A sign before a digit was once taken for a part of a number.
        assert_eq!(decode("/srv/%+1"), "/srv/%+1");
    }
}

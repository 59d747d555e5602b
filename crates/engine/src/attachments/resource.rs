//! Resources of MCP servers.

use everturn_model::Session;
use everturn_model::part::PartKind;
use everturn_tools::Attachment;
use everturn_tools::mcp::ResourceContent;

use super::{Attachments, LARGEST_SHOWN, ReadAttachments, cut, is_shown, words};
use crate::inbox::{PartInput, ResourceAddress};

impl Attachments {
    /// What a resource has.
    pub(super) async fn resource(
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
pub(super) fn show(
    part: PartInput,
    address: &ResourceAddress,
    reading: Result<ResourceContent, String>,
) -> ReadAttachments {
    let ResourceAddress { server, uri } = address;
    match reading {
        Err(reason) => {
            let said = format!("The resource {uri} of the MCP server {server} could not be read: {reason}");
            ReadAttachments::unread(part, said)
        }
        // Without a text, too: the model would not know what the files are.
        Ok(ResourceContent { text, files }) => {
            let text = cut(text, "resource");
            let said = format!("Attached resource {uri} of the MCP server {server}:\n{text}");
            let mut shown = ReadAttachments::told(part, Some(said));
            for file in files {
                match show_file(file) {
                    Ok(file) => shown.parts.push(file),
                    Err(reason) => {
                        shown.parts.push(words(format!("[{reason}]")));
                        shown.unread.push(format!("{uri} of the MCP server {server}: {reason}"));
                    }
                }
            }
            shown
        }
    }
}

fn show_file(file: Attachment) -> Result<PartInput, String> {
    let large = file.url.len() as u64 / 4 * 3 > LARGEST_SHOWN;
    if large || !is_shown(&file.mime) {
        let name = file.filename.as_deref().unwrap_or("a file");
        return Err(format!("{name} ({}) of that resource is not shown.", file.mime));
    }
    Ok(PartInput::new(PartKind::File {
        mime: file.mime,
        filename: file.filename,
        url: file.url,
        source: None,
    }))
}

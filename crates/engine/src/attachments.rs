//! Attachments: files, folders and parts of files, and resources of MCP servers. Their content is stored with the prompt, so
//! that it means the same later. What does not reach the model is named to it, and to the person.

mod address;
mod file;
mod folder;
mod resource;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use everturn_model::Session;
use everturn_model::part::PartKind;
use futures_util::stream::{self, StreamExt as _};
use tokio::time::{Instant, timeout_at};

use crate::data_url;
use crate::inbox::PartInput;
use crate::mcp::McpServers;
use crate::projects::Projects;
use address::{AttachmentPlace, FileAddress};

/// The largest text that comes with a prompt, in bytes.
const LARGEST: u64 = 256 * 1024;

/// The largest picture or document that is taken in, in bytes; providers refuse larger ones.
const LARGEST_SHOWN: u64 = 5 * 1024 * 1024;

/// How much content of files a prompt brings in all, in bytes.
const ATTACHED_LIMIT: u64 = 32 * 1024 * 1024;

/// How many attachments of a prompt are read at once.
const AT_ONCE: usize = 8;

/// How long a prompt waits for what is attached to it. The person is waiting, too.
const PATIENCE: Duration = Duration::from_secs(20);

/// Reads what is attached to prompts; clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Attachments {
    projects: Projects,
    mcp: McpServers,
}

/// The parts of a prompt with what they attach.
#[derive(Debug, Default)]
pub(crate) struct ReadAttachments {
    /// The parts, with the words about them that the model gets.
    pub(crate) parts: Vec<PartInput>,
    /// What the model does not get, in words for a person.
    pub(crate) unread: Vec<String>,
}

impl ReadAttachments {
    /// An attachment that the model gets words about, or none.
    fn told(part: PartInput, said: Option<String>) -> Self {
        Self { parts: said.map(words).into_iter().chain([part]).collect(), unread: Vec::new() }
    }

    /// An attachment whose content the model does not get.
    fn unread(part: PartInput, reason: String) -> Self {
        Self { unread: vec![reason.clone()], ..Self::told(part, Some(reason)) }
    }
}

impl Attachments {
    /// Attachments from projects and from their servers.
    pub(crate) fn new(projects: Projects, mcp: McpServers) -> Self {
        Self { projects, mcp }
    }

    /// The parts of a prompt, each with the content of what it attaches. What cannot be read is no reason to refuse the
    /// prompt.
    pub(crate) async fn read(&self, inputs: Vec<PartInput>, session: &Session) -> ReadAttachments {
        let left = AttachmentRoom::default();
        let until = Instant::now() + PATIENCE;
        let parts = inputs.into_iter().map(async |part| match AttachmentPlace::of(&part) {
            AttachmentPlace::Nowhere => ReadAttachments::told(part, None),
            AttachmentPlace::Server(address) => {
                let reading = timeout_at(until, self.resource(session, &address)).await;
                resource::show(part, &address, reading.unwrap_or_else(|_| Err(late())))
            }
            AttachmentPlace::Disk => attach_file(part, &session.directory, &left, until).await,
            AttachmentPlace::Inside => match data_url::check(&part.kind) {
                Ok(()) => ReadAttachments::told(part, None),
                // The model is told whenever it gets the conversation.
                Err(reason) => ReadAttachments { parts: vec![part], unread: vec![reason] },
            },
            AttachmentPlace::Elsewhere(url) => {
                let said = format!("Attached file {url} is not shown: only files of this machine are read.");
                ReadAttachments::unread(part, said)
            }
        });
        let mut parts = stream::iter(parts).buffered(AT_ONCE);
        let mut read = ReadAttachments::default();
        while let Some(next) = parts.next().await {
            read.parts.extend(next.parts);
            read.unread.extend(next.unread);
        }
        read
    }
}

/// A file or folder that is attached by its address: text beside it, pictures and documents in place of the address. What
/// cannot be shown stays an address, and the model is told why.
async fn attach_file(
    mut part: PartInput,
    directory: &str,
    left: &AttachmentRoom,
    until: Instant,
) -> ReadAttachments {
    let PartKind::File { mime, url, .. } = &mut part.kind else { return ReadAttachments::told(part, None) };
    let address = match FileAddress::of(url, directory) {
        Ok(address) => address,
        Err(reason) => return ReadAttachments::unread(part, reason),
    };
    let reading = timeout_at(until, file::read(&address, mime, left)).await;
    let content = reading
        .unwrap_or_else(|_| Err(format!("Attached file {} could not be read: {}.", address.path(), late())));
    match content {
        Ok(file::AttachedContent::Text(said)) => ReadAttachments::told(part, Some(said)),
        Ok(file::AttachedContent::Shown(data)) => {
            *url = data;
            ReadAttachments::told(part, None)
        }
        Err(reason) => ReadAttachments::unread(part, reason),
    }
}

fn late() -> String {
    format!("it took longer than {} seconds", PATIENCE.as_secs())
}

/// A text as far as one comes with a prompt; `what` names what it is of.
pub(crate) fn cut(mut text: String, what: &str) -> String {
    let whole = text.len();
    let most = usize::try_from(LARGEST).unwrap_or(usize::MAX);
    if whole > most {
        text.truncate(text.floor_char_boundary(most));
        text.push_str(&format!("\n[The {what} goes on: it has {whole} bytes.]"));
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

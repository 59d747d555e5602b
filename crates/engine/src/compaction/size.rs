//! How large entries and requests are, roughly: four letters are a token.

use everturn_llm::{Content, Message, ModelRequest};
use everturn_model::Part;
use everturn_model::entry::Body;
use everturn_model::part::PartKind;
use everturn_model::tool::ToolResult;
use everturn_model::tree::Node;

/// How many letters make a token.
const LETTERS: usize = 4;

/// What a picture is taken for, in letters.
const PICTURE: usize = 4_800;

/// A text in tokens.
pub(crate) fn of_text(text: &str) -> u64 {
    tokens(letters(text))
}

/// An entry in tokens, as far as the model is given it.
pub(crate) fn of_node(node: &Node) -> u64 {
    if node.entry.hidden {
        return 0;
    }
    let own = match &node.entry.body {
        Body::ToolResult { result } => of_result(result),
        Body::System { text, .. } => letters(text),
        Body::Synthetic { text, .. } => text.as_deref().map_or(0, letters),
        Body::Shell(shell) => letters(&shell.command) + shell.output.as_deref().map_or(0, letters),
        Body::BranchSummary { summary, .. } => letters(summary),
        Body::User(_) | Body::Assistant(_) => 0,
        // The model sees none of these as a message, and the parts of a compaction are its summary.
        _ => return 0,
    };
    let parts = node.parts.iter().filter(|part| !part.hidden && !part.second);
    tokens(own + parts.map(of_part).sum::<usize>())
}

/// A result in letters.
fn of_result(result: &ToolResult) -> usize {
    if result.compacted.is_some() {
        return 0;
    }
    letters(&result.output) + result.attachments.iter().flatten().map(of_part).sum::<usize>()
}

fn of_part(part: &Part) -> usize {
    match &part.kind {
        PartKind::Text { text, ignored, .. } if *ignored != Some(true) => letters(text),
        PartKind::Reasoning { text, .. } => letters(text),
        PartKind::Tool { tool, state, .. } => letters(tool) + letters(&state.input().to_string()),
        PartKind::File { mime, url, .. } if mime.starts_with("text/") => letters(url) * 3 / 4,
        PartKind::File { .. } => PICTURE,
        _ => 0,
    }
}

/// A request in tokens, with its instructions and its tools.
pub(crate) fn of_request(request: &ModelRequest) -> u64 {
    let media = |content: &Content| matches!(content, Content::Media { .. });
    let pictures = request.messages.iter().map(|message| match message {
        Message::User(all) | Message::Tool { output: all, .. } => all.iter().filter(|it| media(it)).count(),
        Message::System(_) | Message::Assistant { .. } => 0,
    });
    tokens(crate::turn::request_size(request) + pictures.sum::<usize>() * PICTURE)
}

/// Letters as the programs count them whose files are read here.
fn letters(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.encode_utf16().count() }
}

fn tokens(letters: usize) -> u64 {
    u64::try_from(letters.div_ceil(LETTERS)).unwrap_or(u64::MAX)
}

//! Content blocks of pi's messages as parts, and back.

use everturn_model::derived_ids::DerivedIds;
use everturn_model::tool::ToolState;
use everturn_model::tree::Node;
use everturn_model::{Extra, Map, Millis, Part, PartKind};
use serde_json::{Value, json};

use super::DIALECT;
use super::patch;

/// The parts of a message's content, one for each block, and whether the content was a plain text.
pub(super) fn parts(content: Option<&Value>, time: Millis, mint: &mut DerivedIds) -> (Vec<Part>, bool) {
    match content {
        Some(Value::String(text)) => (vec![Part::new(mint.part(time), PartKind::text(text))], true),
        Some(Value::Array(blocks)) => {
            let parts = blocks.iter().map(|block| part(block, time, mint)).collect();
            (parts, false)
        }
        _ => (Vec::new(), false),
    }
}

/// The part that a block is, with what the part has no word for.
fn part(block: &Value, time: Millis, mint: &mut DerivedIds) -> Part {
    let mut part = Part::new(mint.part(time), kind(block, time));
    let made = encode(&part.kind).unwrap_or_default();
    part.extra = Extra::of(DIALECT, patch::diff(&made, block));
    part
}

fn kind(block: &Value, time: Millis) -> PartKind {
    let text = |name: &str| block.get(name).and_then(Value::as_str);
    match text("type") {
        Some("text") => PartKind::text(text("text").unwrap_or_default()),
        Some("thinking") => PartKind::Reasoning {
            text: text("thinking").unwrap_or_default().to_owned(),
            time: None,
            metadata: None,
        },
        Some("toolCall") => PartKind::Tool {
            call: text("id").unwrap_or_default().to_owned(),
            tool: text("name").unwrap_or_default().to_owned(),
            state: ToolState::Running {
                input: block.get("arguments").cloned().unwrap_or_default(),
                title: None,
                metadata: None,
                start: time,
            },
            hosted: false,
            metadata: None,
        },
        Some("image") => {
            let (data, mime) = (text("data").unwrap_or_default(), text("mimeType").unwrap_or_default());
            // omp keeps large images beside the file and names them by their digest.
            let url = if data.starts_with("blob:") {
                data.to_owned()
            } else {
                format!("data:{mime};base64,{data}")
            };
            PartKind::File { mime: mime.to_owned(), filename: None, url, source: None }
        }
        _ => PartKind::Foreign { body: block.as_object().cloned().unwrap_or_default() },
    }
}

/// The block of a part, without what rides along; none for parts that pi does not show.
fn encode(kind: &PartKind) -> Option<Value> {
    let block = match kind {
        PartKind::Text { ignored: Some(true), .. } => return None,
        PartKind::Text { text, .. } => json!({"type": "text", "text": text}),
        PartKind::Reasoning { text, .. } => json!({"type": "thinking", "thinking": text}),
        PartKind::Tool { call, tool, state, .. } => {
            json!({"type": "toolCall", "id": call, "name": tool, "arguments": state.input()})
        }
        PartKind::File { mime, url, filename, .. } => file(mime, url, filename.as_deref()),
        PartKind::Subtask { prompt, .. } => json!({"type": "text", "text": prompt}),
        PartKind::Foreign { body } => Value::Object(body.clone()),
        PartKind::Agent { .. }
        | PartKind::Snapshot { .. }
        | PartKind::Patch { .. }
        | PartKind::Compaction { .. }
        | PartKind::Retry { .. }
        | PartKind::StepStart { .. }
        | PartKind::StepFinish { .. } => return None,
    };
    Some(block)
}

fn file(mime: &str, url: &str, name: Option<&str>) -> Value {
    if url.starts_with("blob:") {
        return json!({"type": "image", "data": url, "mimeType": mime});
    }
    let data = url.strip_prefix("data:").and_then(|rest| rest.strip_prefix(mime));
    match data.and_then(|rest| rest.strip_prefix(";base64,")) {
        Some(data) if mime.starts_with("image/") => json!({"type": "image", "data": data, "mimeType": mime}),
        // pi has no block for other files; it writes them into the text as such a mark.
        _ => json!({"type": "text", "text": format!("<file name=\"{}\"></file>", name.unwrap_or(url))}),
    }
}

/// The block of a part with what rides along; none for parts that pi does not show.
pub(super) fn of_part(part: &Part) -> Option<Value> {
    if part.hidden {
        return None;
    }
    let carried = part.extra.get(DIALECT);
    let mut block = match (encode(&part.kind), carried) {
        (Some(block), _) => block,
        (None, Some(_)) => Value::Object(Map::new()),
        (None, None) => return None,
    };
    if let Some(carried) = carried {
        patch::apply(&mut block, carried);
    }
    Some(block)
}

/// The content of a node's message: a plain text where it came as one, else blocks.
pub(super) fn content(node: &Node, plain: bool) -> Value {
    let mut blocks: Vec<Value> = node.parts.iter().filter_map(of_part).collect();
    if plain
        && let [block] = blocks.as_mut_slice()
        && let Some(Value::String(text)) = block.get_mut("text").map(Value::take)
    {
        return text.into();
    }
    blocks.into()
}

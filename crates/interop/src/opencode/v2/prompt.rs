//! A prompt: text, files and agents in V2, parts in the tree.

use everturn_model::derived_ids::DerivedIds;
use everturn_model::part::PartKind;
use everturn_model::{Extra, Map, Millis, Part};
use serde_json::Value;

use super::V2;
use crate::opencode::shape::{object, put, put_some, text};

/// A prompt from parts. A part that came with a V2 shape of its own keeps it.
#[must_use]
pub fn prompt(parts: &[Part], extra: &Extra) -> Map {
    if let Some(Value::Object(kept)) = extra.field(V2, "prompt") {
        return kept.clone();
    }
    derived(parts)
}

fn derived(parts: &[Part]) -> Map {
    let shown = || parts.iter().filter(|part| !part.hidden);
    let texts = shown().filter_map(|part| match &part.kind {
        PartKind::Text { text, .. } => Some(text.as_str()),
        _ => None,
    });
    let mut map = object([("text", texts.collect::<Vec<_>>().join("\n").into())]);
    let files: Vec<Value> = shown().filter_map(file).collect();
    if !files.is_empty() {
        put(&mut map, "files", files);
    }
    let agents: Vec<Value> = shown().filter_map(agent).collect();
    if !agents.is_empty() {
        put(&mut map, "agents", agents);
    }
    map
}

fn file(part: &Part) -> Option<Value> {
    let PartKind::File { mime, filename, url, source } = &part.kind else { return None };
    let mut map = object([("uri", url.as_str().into()), ("mime", mime.as_str().into())]);
    put_some(&mut map, "name", filename.as_deref());
    put_some(&mut map, "source", source.as_ref().and_then(|source| mention(source.get("text")?)));
    Some(map.into())
}

fn agent(part: &Part) -> Option<Value> {
    let PartKind::Agent { name, source } = &part.kind else { return None };
    let mut map = object([("name", name.as_str().into())]);
    put_some(&mut map, "source", source.as_ref().and_then(mention));
    Some(map.into())
}

// V1 calls the mentioned words `value`, V2 `text`.
fn mention(source: &Value) -> Option<Value> {
    let part = |key: &str| source.get(key).cloned();
    Some(object([("start", part("start")?), ("end", part("end")?), ("text", part("value")?)]).into())
}

fn read_mention(source: &Value) -> Option<Value> {
    let part = |key: &str| source.get(key).cloned();
    Some(object([("value", part("text")?), ("start", part("start")?), ("end", part("end")?)]).into())
}

/// The parts of a prompt, and what it says beyond them.
#[must_use]
pub fn read_prompt(prompt: &Map, time: Millis, mint: &mut DerivedIds) -> (Vec<Part>, Extra) {
    let mut parts = Vec::new();
    if let Some(text) = text(prompt, "text") {
        parts.push(Part::new(mint.part(time), PartKind::text(text)));
    }
    let list = |key: &str| prompt.get(key).and_then(Value::as_array).into_iter().flatten();
    for kind in list("files").filter_map(read_file).chain(list("agents").filter_map(read_agent)) {
        parts.push(Part::new(mint.part(time), kind));
    }
    let mut extra = Extra::default();
    if &derived(&parts) != prompt {
        extra.put(V2, "prompt", prompt.clone().into());
    }
    (parts, extra)
}

fn read_file(value: &Value) -> Option<PartKind> {
    let map = value.as_object()?;
    let url = text(map, "uri")?.to_owned();
    let source = map.get("source").and_then(read_mention).map(|words| {
        let path = url.strip_prefix("file://").unwrap_or(&url);
        object([("text", words), ("type", "file".into()), ("path", path.into())]).into()
    });
    Some(PartKind::File {
        mime: text(map, "mime").unwrap_or("text/plain").to_owned(),
        filename: text(map, "name").map(str::to_owned),
        url,
        source,
    })
}

fn read_agent(value: &Value) -> Option<PartKind> {
    let map = value.as_object()?;
    let name = text(map, "name")?.to_owned();
    Some(PartKind::Agent { name, source: map.get("source").and_then(read_mention) })
}

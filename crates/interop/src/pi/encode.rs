//! A node as an entry of pi.
//!
//! [`EntryEncoder::typed`] writes what the model has words for, in the shape and key order of pi's own writer;
//! [`EntryEncoder::entry`] adds what rode along, which gives an imported entry exactly as its line had it;
//! [`EntryEncoder::current`] lifts entries of versions 1 and 2 to version 3, as pi does when it opens a file.

use everturn_model::entry::{Assistant, Compaction, Entry, Shell};
use everturn_model::tool::{Outcome, ToolResult};
use everturn_model::tree::Node;
use everturn_model::{Body, Fault, FaultKind, Finish, Map, Millis, Part};
use serde_json::{Value, json};

use super::decode::{AGENT, AS_MESSAGE, AS_MODEL, AS_TITLE, EPOCH, FOREIGN, SYNTHETIC, SYSTEM, UNREADABLE};
use super::file::Dialect;
use super::names::EntryNames;
use super::{DIALECT, block, javascript, patch};

/// What encoding an entry needs to know of its session.
#[derive(Debug)]
pub(super) struct EntryEncoder {
    pub(super) names: EntryNames,
    pub(super) dialect: Dialect,
    pub(super) version: u64,
}

impl EntryEncoder {
    /// The entry as its line had it; none for a line that is no JSON.
    pub(super) fn entry(&self, node: &Node) -> Option<Value> {
        if is_unreadable(node) {
            return None;
        }
        let mut value = self.typed(node);
        if let Some(extra) = node.entry.extra.get(DIALECT) {
            patch::apply(&mut value, extra);
        }
        Some(value)
    }

    /// The entry in version 3.
    pub(super) fn current(&self, node: &Node) -> Option<Value> {
        let mut value = self.entry(node)?;
        let Some(map) = value.as_object_mut().filter(|_| node.entry.origin.is_some()) else {
            return Some(value);
        };
        if self.version < 2 {
            map.insert("id".to_owned(), self.names.id(&node.entry.id).into());
            map.insert("parentId".to_owned(), self.parent(node).into());
            if let Body::Compaction(compaction) = &node.entry.body
                && map.get("firstKeptEntryIndex").is_some_and(Value::is_number)
            {
                map.shift_remove("firstKeptEntryIndex");
                if let Some(first) = compaction.first_kept.as_ref().and_then(|first| self.names.id(first)) {
                    map.insert("firstKeptEntryId".to_owned(), first.into());
                }
            }
        }
        if self.version < 3
            && let Some(role) = map.get_mut("message").and_then(|message| message.get_mut("role"))
            && role == "hookMessage"
        {
            *role = "custom".into();
        }
        Some(value)
    }

    /// The entry by its typed fields alone.
    pub(super) fn typed(&self, node: &Node) -> Value {
        let entry = &node.entry;
        let shape = self.shape(entry);
        let message = |message: Value| self.with_base(node, "message", [("message", message)]);
        match &entry.body {
            Body::User(_) => message(json!({
                "role": "user",
                "content": block::content(node, is_plain(entry)),
                "timestamp": entry.time,
            })),
            Body::Assistant(assistant) => {
                message(self::assistant(entry, assistant, block::content(node, is_plain(entry))))
            }
            Body::ToolResult { result } => message(tool_result(entry.time, result)),
            Body::Shell(shell) => message(self::shell(entry.time, shell)),
            Body::Synthetic { text, origin_type, display } => {
                let content =
                    text.as_ref().map_or_else(|| block::content(node, false), |text| text.as_str().into());
                let kind = origin_type.as_deref().unwrap_or(SYNTHETIC);
                if shape == Some(AS_MESSAGE) {
                    return message(json!({"role": "custom", "customType": kind, "content": content,
                        "display": display.unwrap_or(true), "timestamp": entry.time}));
                }
                self.custom_message(node, kind, content, display.unwrap_or(true))
            }
            Body::System { text, .. } if shape == Some(AS_MESSAGE) => {
                message(json!({"role": "developer", "content": text, "timestamp": entry.time}))
            }
            Body::System { text, snapshot } => {
                let mut value = self.custom_message(node, SYSTEM, text.as_str().into(), false);
                if let (Some(map), Some(snapshot)) = (value.as_object_mut(), snapshot) {
                    map.insert("details".to_owned(), json!({"snapshot": snapshot}));
                }
                value
            }
            Body::Compaction(compaction) => self.compaction(node, compaction),
            Body::BranchSummary { summary, from } if shape == Some(AS_MESSAGE) => message(json!({
                "role": "branchSummary", "summary": summary, "fromId": from, "timestamp": entry.time})),
            Body::BranchSummary { summary, from } => {
                let from = from.as_deref().or_else(|| self.parent(node)).unwrap_or("root");
                self.with_base(
                    node,
                    "branch_summary",
                    [("fromId", from.into()), ("summary", summary.as_str().into())],
                )
            }
            Body::ModelSwitch { model } if shape == Some(AS_MODEL) => {
                let joined = format!("{}/{}", model.provider, model.model);
                self.with_base(node, "model_change", [("model", joined.into())])
            }
            Body::ModelSwitch { model } => self.with_base(
                node,
                "model_change",
                [("provider", model.provider.as_str().into()), ("modelId", model.model.as_str().into())],
            ),
            Body::ThinkingSwitch { level } => {
                let level = level.as_deref().unwrap_or("off");
                self.with_base(node, "thinking_level_change", [("thinkingLevel", level.into())])
            }
            Body::Title { title } => {
                let (kind, field) =
                    if shape == Some(AS_TITLE) { (AS_TITLE, "title") } else { ("session_info", "name") };
                self.with_base(node, kind, [(field, title.as_deref().unwrap_or_default().into())])
            }
            Body::Label { target, label } => {
                let target = target.as_ref().and_then(|target| self.names.id(target));
                let fields = [("targetId", target), ("label", label.as_deref())];
                let fields = fields.into_iter().filter_map(|(name, value)| Some((name, value?.into())));
                self.with_base(node, "label", fields)
            }
            Body::AgentSwitch { agent } => self.custom(node, AGENT, Some(json!({"agent": agent}))),
            Body::Epoch { baseline, snapshot, .. } => {
                self.custom(node, EPOCH, Some(json!({"baseline": baseline, "snapshot": snapshot})))
            }
            Body::Custom { custom_type, data } => self.custom(node, custom_type, data.clone()),
            Body::Foreign { foreign_type } if entry.origin.is_some() => {
                self.with_base(node, foreign_type, [])
            }
            Body::Foreign { foreign_type } => {
                let data = json!({"type": foreign_type, "extra": entry.extra});
                self.custom(node, FOREIGN, Some(data))
            }
        }
    }

    fn compaction(&self, node: &Node, compaction: &Compaction) -> Value {
        let old = self.version < 2 && node.entry.origin.is_some();
        let first = compaction.first_kept.as_ref().filter(|_| !old).and_then(|first| self.names.id(first));
        let mut value = self.with_base(
            node,
            "compaction",
            [("summary", compaction.summary.as_deref().unwrap_or_default().into())],
        );
        if let Some(map) = value.as_object_mut() {
            if let Some(first) = first {
                map.insert("firstKeptEntryId".to_owned(), first.into());
            }
            map.insert("tokensBefore".to_owned(), compaction.tokens_before.unwrap_or_default().into());
        }
        value
    }

    fn custom(&self, node: &Node, custom_type: &str, data: Option<Value>) -> Value {
        let mut map = Map::new();
        map.insert("type".to_owned(), "custom".into());
        map.insert("customType".to_owned(), custom_type.into());
        if let Some(data) = data {
            map.insert("data".to_owned(), data);
        }
        self.base(&mut map, node);
        map.into()
    }

    fn custom_message(&self, node: &Node, custom_type: &str, content: Value, display: bool) -> Value {
        let mut map = Map::new();
        map.insert("type".to_owned(), "custom_message".into());
        map.insert("customType".to_owned(), custom_type.into());
        map.insert("content".to_owned(), content);
        map.insert("display".to_owned(), display.into());
        self.base(&mut map, node);
        map.into()
    }

    fn with_base<'f>(
        &self,
        node: &Node,
        kind: &str,
        fields: impl IntoIterator<Item = (&'f str, Value)>,
    ) -> Value {
        let mut map = Map::new();
        map.insert("type".to_owned(), kind.into());
        self.base(&mut map, node);
        map.extend(fields.into_iter().map(|(name, value)| (name.to_owned(), value)));
        map.into()
    }

    fn base(&self, map: &mut Map, node: &Node) {
        let entry = &node.entry;
        // Version 1 had a sequence, not a tree.
        if self.version > 1 || entry.origin.is_none() {
            if let Some(id) = self.names.id(&entry.id) {
                map.insert("id".to_owned(), id.into());
            }
            map.insert("parentId".to_owned(), self.parent(node).into());
        }
        map.insert("timestamp".to_owned(), javascript::date(written_at(entry)).unwrap_or_default().into());
    }

    fn parent(&self, node: &Node) -> Option<&str> {
        self.names.parent(node.entry.parent.as_ref())
    }

    /// The shape of an entry whose body has several: the one it came in, or the one that the file's program reads.
    fn shape<'n>(&self, entry: &'n Entry) -> Option<&'n str> {
        let came = entry.extra.field(DIALECT, "as").and_then(Value::as_str);
        let native = entry.origin.is_none();
        match &entry.body {
            Body::ModelSwitch { .. } if native && self.dialect != Dialect::Pi => Some(AS_MODEL),
            Body::Title { .. } if native && self.dialect == Dialect::Omp18 => Some(AS_TITLE),
            _ => came,
        }
    }
}

/// When the line was written: an assistant's at the end of its turn.
fn written_at(entry: &Entry) -> Millis {
    match &entry.body {
        Body::Assistant(assistant) => assistant.completed.unwrap_or(entry.time),
        _ => entry.time,
    }
}

/// True for a line that is no JSON.
pub(super) fn is_unreadable(node: &Node) -> bool {
    matches!(&node.entry.body, Body::Foreign { foreign_type } if foreign_type == UNREADABLE)
        && node.entry.extra.field(DIALECT, "raw").is_some()
}

fn is_plain(entry: &Entry) -> bool {
    entry.extra.field(DIALECT, "plain").is_some()
}

fn assistant(entry: &Entry, assistant: &Assistant, content: Value) -> Value {
    let mut message = Map::new();
    message.insert("role".to_owned(), "assistant".into());
    message.insert("content".to_owned(), content);
    if entry.origin.is_none() && entry.extra.get(DIALECT).is_none() {
        message.insert("api".to_owned(), "everturn".into());
    }
    if let Some(model) = &assistant.model {
        message.insert("provider".to_owned(), model.provider.as_str().into());
        message.insert("model".to_owned(), model.model.as_str().into());
    }
    let tokens = &assistant.tokens;
    message.insert(
        "usage".to_owned(),
        json!({
            "input": tokens.input,
            "output": tokens.output.saturating_add(tokens.reasoning),
            "cacheRead": tokens.cache.read,
            "cacheWrite": tokens.cache.write,
            "totalTokens": tokens.total.unwrap_or_else(|| tokens.sum()),
            "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": assistant.cost},
        }),
    );
    message.insert("stopReason".to_owned(), stop_reason(assistant).into());
    message.insert("timestamp".to_owned(), entry.time.into());
    if let Some(reason) = assistant.error.as_ref().and_then(|error| error.message.as_deref()) {
        message.insert("errorMessage".to_owned(), reason.into());
    }
    message.into()
}

fn stop_reason(assistant: &Assistant) -> &str {
    match (&assistant.finish, &assistant.error) {
        (Some(Finish::ToolCalls), _) => "toolUse",
        (Some(Finish::Imported(word)), _) if word == "max_tokens" => "length",
        (Some(Finish::Unknown | Finish::Paused), None) => "stop",
        (Some(Finish::Imported(word)), None) if matches!(word.as_str(), "end_turn" | "other") => "stop",
        (Some(Finish::Stop), _) => "stop",
        (Some(Finish::Length), _) => "length",
        (Some(Finish::Error), _) => "error",
        (Some(Finish::Aborted), _) => "aborted",
        // pi has no word for these. They are written as they are, for whoever reads the file.
        (
            Some(finish @ (Finish::ContentFilter | Finish::Unknown | Finish::Paused | Finish::Imported(_))),
            _,
        ) => finish.word(),
        (None, None) => "stop",
        (None, Some(Fault { kind: FaultKind::Aborted | FaultKind::CutOff, .. })) => "aborted",
        (None, Some(_)) => "error",
    }
}

/// The message that a result is.
pub(super) fn tool_result(time: Millis, result: &ToolResult) -> Value {
    let mut content = vec![json!({"type": "text", "text": result.output})];
    let files: Vec<&Part> = result.attachments.iter().flatten().collect();
    if result.output.is_empty() && !files.is_empty() {
        content.clear();
    }
    content.extend(files.into_iter().filter_map(block::of_part));
    let mut message = Map::new();
    message.insert("role".to_owned(), "toolResult".into());
    message.insert("toolCallId".to_owned(), result.call.as_str().into());
    message.insert("toolName".to_owned(), result.tool.as_str().into());
    message.insert("content".to_owned(), content.into());
    if let Some(details) = &result.metadata {
        message.insert("details".to_owned(), details.clone().into());
    }
    message.insert("isError".to_owned(), (result.outcome != Outcome::Completed).into());
    message.insert("timestamp".to_owned(), result.end.unwrap_or(time).into());
    message.into()
}

fn shell(time: Millis, shell: &Shell) -> Value {
    let mut message = Map::new();
    message.insert("role".to_owned(), "bashExecution".into());
    message.insert("command".to_owned(), shell.command.as_str().into());
    message.insert("output".to_owned(), shell.output.as_deref().unwrap_or_default().into());
    if let Some(exit) = shell.exit {
        message.insert("exitCode".to_owned(), exit.into());
    }
    message.insert("cancelled".to_owned(), false.into());
    message.insert("truncated".to_owned(), false.into());
    message.insert("timestamp".to_owned(), time.into());
    message.into()
}

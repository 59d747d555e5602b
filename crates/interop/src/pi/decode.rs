//! An entry of pi as a body and parts.
//!
//! Only what has a word in the model is taken here, and only where it has the expected type: whatever else the line
//! holds is found afterwards, by writing the entry again and comparing.

use everturn_model::derived_ids::DerivedIds;
use everturn_model::entry::{Assistant, Compaction, Shell, User};
use everturn_model::session::ModelRef;
use everturn_model::tool::{Outcome, ToolResult};
use everturn_model::usage::Cache;
use everturn_model::{Body, Fault, FaultKind, Finish, Millis, Money, Part, PartKind, Tokens};
use serde_json::Value;

use super::{block, javascript};

/// Extension state that keeps an entry which pi has no type for.
pub(super) const AGENT: &str = "everturn.agent";
/// The same for a Context Epoch.
pub(super) const EPOCH: &str = "everturn.epoch";
/// The same for a Mid-Conversation System Message.
pub(super) const SYSTEM: &str = "everturn.system";
/// The same for a text that a program put in without a name.
pub(super) const SYNTHETIC: &str = "everturn.synthetic";
/// The same for a foreign entry of another program.
pub(super) const FOREIGN: &str = "everturn.foreign";
/// A mark at the leaf, where that is not the last line.
pub(super) const LEAF: &str = "everturn.leaf";

/// The type of a line that is no JSON.
pub(super) const UNREADABLE: &str = "unreadable";
/// The type of a line that is JSON, but no object.
pub(super) const VALUE: &str = "value";
/// The type of a second header.
pub(super) const HEADER: &str = "session";

/// A message entry, where the body's usual shape is another.
pub(super) const AS_MESSAGE: &str = "message";
/// A model change with provider and model in one field, as omp writes it.
pub(super) const AS_MODEL: &str = "model";
/// A name as omp writes it.
pub(super) const AS_TITLE: &str = "title_change";

/// An entry as the model knows it.
#[derive(Debug)]
pub(super) struct Decoded {
    pub(super) body: Body,
    pub(super) parts: Vec<Part>,
    pub(super) time: Millis,
    /// The shape that it had, where its body has several.
    pub(super) shape: Option<&'static str>,
    /// Whether its content was one text and not blocks.
    pub(super) plain: bool,
}

impl Decoded {
    fn new(body: Body, time: Millis) -> Self {
        Self { body, parts: Vec::new(), time, shape: None, plain: false }
    }

    fn shaped(mut self, shape: &'static str) -> Self {
        self.shape = Some(shape);
        self
    }

    fn with(mut self, (parts, plain): (Vec<Part>, bool)) -> Self {
        self.parts = parts;
        self.plain = plain;
        self
    }
}

/// The time of an entry, by its own field.
pub(super) fn time(entry: &Value) -> Option<Millis> {
    text(entry, "timestamp").and_then(javascript::moment)
}

/// Whether pi or omp have entries of this type.
pub(super) fn is_known(name: &str) -> bool {
    matches!(
        name,
        "message"
            | "thinking_level_change"
            | "model_change"
            | "compaction"
            | "branch_summary"
            | "custom"
            | "custom_message"
            | "label"
            | "session_info"
            | "ttsr_injection"
            | "model_usage"
            | "service_tier_change"
            | "title_change"
            | "credential_pin"
            | "session_init"
            | "mode_change"
            | "reset_boundary"
            | "session"
    )
}

/// Reads an entry that was made at `time`.
pub(super) fn entry(entry: &Value, time: Millis, mint: &mut DerivedIds) -> Decoded {
    let plain = |body| Decoded::new(body, time);
    match text(entry, "type") {
        Some("message") => message(entry.get("message").unwrap_or(&Value::Null), time, mint),
        Some("thinking_level_change") => plain(Body::ThinkingSwitch { level: owned(entry, "thinkingLevel") }),
        Some("model_change") => model_change(entry, time),
        Some("compaction") => plain(Body::Compaction(Compaction {
            summary: Some(owned(entry, "summary").unwrap_or_default()),
            tokens_before: entry.get("tokensBefore").and_then(Value::as_u64),
            ..Compaction::default()
        })),
        Some("branch_summary") => plain(Body::BranchSummary {
            summary: owned(entry, "summary").unwrap_or_default(),
            from: owned(entry, "fromId"),
        }),
        Some("custom") => plain(custom(entry)),
        Some("custom_message") => custom_message(entry, time, mint),
        Some("label") => {
            let label = owned(entry, "label").filter(|label| !label.is_empty());
            plain(Body::Label { target: None, label })
        }
        Some("session_info") => plain(Body::Title { title: name(entry, "name") }),
        Some("title_change") => plain(Body::Title { title: name(entry, "title") }).shaped(AS_TITLE),
        other => plain(Body::Foreign { foreign_type: other.unwrap_or_default().to_owned() }),
    }
}

fn message(message: &Value, time: Millis, mint: &mut DerivedIds) -> Decoded {
    let content = message.get("content");
    match text(message, "role") {
        Some("user") => {
            Decoded::new(Body::User(User::default()), time).with(block::parts(content, time, mint))
        }
        Some("assistant") => {
            let began = millis(message).unwrap_or(time);
            let assistant = assistant(message, time);
            Decoded::new(Body::Assistant(assistant), began).with(block::parts(content, began, mint))
        }
        Some("toolResult") => {
            let result = Box::new(tool_result(message, time, mint));
            Decoded::new(Body::ToolResult { result }, time)
        }
        Some("bashExecution") => {
            let shell = Shell {
                command: owned(message, "command").unwrap_or_default(),
                output: owned(message, "output"),
                exit: message.get("exitCode").and_then(Value::as_i64),
                completed: Some(time),
                ..Shell::default()
            };
            Decoded::new(Body::Shell(shell), time)
        }
        Some("custom" | "hookMessage") => synthetic(message, time, mint).shaped(AS_MESSAGE),
        Some("branchSummary") => {
            let summary = owned(message, "summary").unwrap_or_default();
            let body = Body::BranchSummary { summary, from: owned(message, "fromId") };
            Decoded::new(body, time).shaped(AS_MESSAGE)
        }
        Some("developer") if content.is_some_and(Value::is_string) => {
            let text = owned(message, "content").unwrap_or_default();
            Decoded::new(Body::System { text, snapshot: None }, time).shaped(AS_MESSAGE)
        }
        _ => Decoded::new(Body::Foreign { foreign_type: "message".to_owned() }, time),
    }
}

/// Why the model stopped, from pi's word for it.
fn finish(stop: &str) -> Finish {
    match stop {
        "stop" => Finish::Stop,
        "toolUse" => Finish::ToolCalls,
        "length" => Finish::Length,
        "error" => Finish::Error,
        "aborted" => Finish::Aborted,
        other => Finish::from(other.to_owned()),
    }
}

fn assistant(message: &Value, completed: Millis) -> Assistant {
    let stop = text(message, "stopReason");
    let fault = match stop {
        Some("aborted") => Some(FaultKind::Aborted),
        Some("error") => Some(FaultKind::Internal),
        _ => message.get("errorMessage").is_some_and(Value::is_string).then_some(FaultKind::Internal),
    };
    let reason = || owned(message, "errorMessage");
    let error = fault.map(|kind| Fault { kind, message: reason(), came: None });
    let usage = message.get("usage").unwrap_or(&Value::Null);
    let count = |name: &str| usage.get(name).and_then(Value::as_u64);
    let total = usage.get("cost").and_then(|cost| cost.get("total")).and_then(Value::as_f64);
    Assistant {
        model: model(text(message, "provider"), text(message, "model")),
        completed: Some(completed),
        finish: stop.map(finish),
        error,
        tokens: Tokens {
            total: count("totalTokens"),
            input: count("input").unwrap_or_default(),
            output: count("output").unwrap_or_default(),
            reasoning: 0,
            cache: Cache {
                read: count("cacheRead").unwrap_or_default(),
                write: count("cacheWrite").unwrap_or_default(),
            },
        },
        cost: total.map_or(Money::ZERO, Money::from_f64),
        ..Assistant::default()
    }
}

fn tool_result(message: &Value, time: Millis, mint: &mut DerivedIds) -> ToolResult {
    let failed = message.get("isError").and_then(Value::as_bool).unwrap_or_default();
    let outcome = if failed { Outcome::Error } else { Outcome::Completed };
    let (parts, _) = block::parts(message.get("content"), time, mint);
    let texts = parts.iter().filter_map(|part| match &part.kind {
        PartKind::Text { text, .. } => Some(text.as_str()),
        _ => None,
    });
    let output = texts.collect::<Vec<_>>().join("\n");
    let call = text(message, "toolCallId").unwrap_or_default();
    let tool = text(message, "toolName").unwrap_or_default();
    let mut result = ToolResult::new(call, tool, outcome, &output);
    result.metadata = message.get("details").and_then(Value::as_object).cloned();
    result.end = millis(message);
    let files: Vec<Part> =
        parts.into_iter().filter(|part| matches!(part.kind, PartKind::File { .. })).collect();
    result.attachments = (!files.is_empty()).then_some(files);
    result
}

fn synthetic(message: &Value, time: Millis, mint: &mut DerivedIds) -> Decoded {
    let content = message.get("content");
    let origin_type = owned(message, "customType").filter(|name| name != SYNTHETIC);
    let display = message.get("display").and_then(Value::as_bool);
    let text = content.and_then(Value::as_str).map(str::to_owned);
    let parts = if text.is_some() { Vec::new() } else { block::parts(content, time, mint).0 };
    Decoded::new(Body::Synthetic { text, origin_type, display }, time).with((parts, false))
}

fn custom_message(entry: &Value, time: Millis, mint: &mut DerivedIds) -> Decoded {
    let content = text(entry, "content");
    match (text(entry, "customType"), content) {
        (Some(SYSTEM), Some(text)) => {
            let snapshot = entry.get("details").and_then(|details| details.get("snapshot"));
            let snapshot = snapshot.filter(|snapshot| !snapshot.is_null()).cloned();
            Decoded::new(Body::System { text: text.to_owned(), snapshot }, time)
        }
        _ => synthetic(entry, time, mint),
    }
}

fn custom(entry: &Value) -> Body {
    let custom_type = owned(entry, "customType").unwrap_or_default();
    let data = entry.get("data");
    let field = |name: &str| data.and_then(|data| text(data, name)).map(str::to_owned);
    match custom_type.as_str() {
        AGENT => {
            if let Some(agent) = field("agent") {
                return Body::AgentSwitch { agent };
            }
        }
        EPOCH => {
            if let Some(baseline) = field("baseline") {
                let snapshot = data.and_then(|data| data.get("snapshot")).cloned().unwrap_or_default();
                return Body::Epoch { baseline, snapshot, directory: None };
            }
        }
        _ => {}
    }
    // A stored null reads as nothing, so it is not taken as a value; it rides along.
    Body::Custom { custom_type, data: data.filter(|data| !data.is_null()).cloned() }
}

fn model_change(entry: &Value, time: Millis) -> Decoded {
    let joined = text(entry, "model").and_then(|model| model.split_once('/'));
    let foreign = || Body::Foreign { foreign_type: "model_change".to_owned() };
    let switch = |model| Body::ModelSwitch { model };
    match joined {
        // The other roles of omp are models for side work, not the one that answers.
        Some((provider, id)) if text(entry, "role").is_none_or(|role| role == "default") => {
            let body = model(Some(provider), Some(id)).map_or_else(foreign, switch);
            Decoded::new(body, time).shaped(AS_MODEL)
        }
        Some(_) => Decoded::new(foreign(), time),
        None => {
            let model = model(text(entry, "provider"), text(entry, "modelId"));
            Decoded::new(model.map_or_else(foreign, switch), time)
        }
    }
}

fn model(provider: Option<&str>, model: Option<&str>) -> Option<ModelRef> {
    let (provider, model) = (provider?.to_owned(), model?.to_owned());
    Some(ModelRef { provider, model, variant: None })
}

fn name(entry: &Value, field: &str) -> Option<String> {
    text(entry, field).map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned)
}

fn millis(message: &Value) -> Option<Millis> {
    message.get("timestamp").and_then(Value::as_i64)
}

fn text<'a>(value: &'a Value, name: &str) -> Option<&'a str> {
    value.get(name).and_then(Value::as_str)
}

fn owned(value: &Value, name: &str) -> Option<String> {
    text(value, name).map(str::to_owned)
}

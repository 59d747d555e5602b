//! The context that omp 18 builds from a path.
//!
//! omp goes further than pi: a `/clear` hides what came before it, failed turns leave with their results, and a call
//! whose result is not on the path leaves its turn, because a provider would refuse it.
//!
//! Not rebuilt here: the image frames that its snapcompact strategy puts back into a summary, and the per-family form
//! of old service tiers.

use std::collections::HashSet;

use everturn_model::path;
use everturn_model::tree::Node;
use everturn_model::{Body, Map};
use serde_json::{Value, json};

use super::context;
use super::view::PiView;

/// A note that keeps an interrupted turn's thinking.
const INTERRUPTED: &str = "interrupted-thinking";
/// A nudge that is taken out again before the model sees it.
const PREWALK: &str = "prewalk-plan";

/// Everything that omp says about the end of a path.
pub(super) fn build(view: &PiView<'_>, path: &[&Node]) -> Value {
    let mut settings = PathSettings::default();
    let mut reset = None;
    for (at, node) in path.iter().enumerate() {
        match &node.entry.body {
            Body::ThinkingSwitch { .. } | Body::ModelSwitch { .. } | Body::Assistant(_) => {}
            Body::Foreign { foreign_type } => {
                if foreign_type == "reset_boundary" {
                    reset = Some(at);
                }
            }
            _ => continue,
        }
        if let Some(entry) = view.encode(node) {
            settings.step(&entry);
        }
    }
    let mut messages = emit(view, path, reset);
    strip_open_calls(&mut messages);
    drop_failed_turns(&mut messages);
    settings.finish(messages)
}

struct PathSettings {
    thinking: Value,
    configured: Option<Value>,
    tier: Option<Value>,
    models: Map,
    chosen: bool,
    rules: Vec<Value>,
    mode: Value,
    mode_data: Option<Value>,
}

impl Default for PathSettings {
    fn default() -> Self {
        Self {
            thinking: "off".into(),
            configured: None,
            tier: None,
            models: Map::new(),
            chosen: false,
            rules: Vec::new(),
            mode: "none".into(),
            mode_data: None,
        }
    }
}

impl PathSettings {
    fn step(&mut self, entry: &Value) {
        let field = |name: &str| entry.get(name).filter(|value| !value.is_null()).cloned();
        let text = |value: &Value, name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
        match entry.get("type").and_then(Value::as_str) {
            Some("thinking_level_change") => {
                let level = field("thinkingLevel");
                self.configured = field("configured").or_else(|| level.clone());
                self.thinking = level.unwrap_or_else(|| "off".into());
            }
            Some("model_change") => {
                if let Some(model) = text(entry, "model").filter(|model| !model.is_empty()) {
                    let role = text(entry, "role").unwrap_or_else(|| "default".to_owned());
                    self.chosen |= role == "default";
                    self.models.insert(role, model.into());
                }
            }
            Some("service_tier_change") => self.tier = field("serviceTier"),
            Some("message") if !self.chosen => {
                let message = entry.get("message").unwrap_or(&Value::Null);
                if text(message, "role").as_deref() == Some("assistant") {
                    let part = |name| text(message, name).unwrap_or_else(|| "undefined".to_owned());
                    let model = format!("{}/{}", part("provider"), part("model"));
                    self.models.insert("default".to_owned(), model.into());
                }
            }
            Some("ttsr_injection") => {
                for rule in entry.get("injectedRules").and_then(Value::as_array).into_iter().flatten() {
                    if !self.rules.contains(rule) {
                        self.rules.push(rule.clone());
                    }
                }
            }
            Some("mode_change") => {
                self.mode = entry.get("mode").cloned().unwrap_or_default();
                self.mode_data = entry.get("data").cloned();
            }
            _ => {}
        }
    }

    fn finish(self, messages: Vec<Value>) -> Value {
        let mut context = Map::new();
        let fields = [
            ("messages", Some(messages.into())),
            ("thinkingLevel", Some(self.thinking)),
            ("configuredThinkingLevel", self.configured),
            ("serviceTier", self.tier),
            ("models", Some(self.models.into())),
            ("injectedTtsrRules", Some(self.rules.into())),
            ("mode", Some(self.mode)),
            ("modeData", self.mode_data),
        ];
        for (name, value) in fields {
            if let Some(value) = value {
                context.insert(name.to_owned(), value);
            }
        }
        context.into()
    }
}

/// The messages of a path before turns are cleaned.
fn emit(view: &PiView<'_>, path: &[&Node], reset: Option<usize>) -> Vec<Value> {
    let (cut, rest) = path::visible(path);
    let one = |at: usize| path.get(at).and_then(|node| message(view.encode(node)?));
    if let Some(reset) = reset
        && cut.is_none_or(|cut| reset > cut)
    {
        return (reset + 1..path.len()).filter_map(one).collect();
    }
    let Some((cut, entry)) = cut.and_then(|cut| Some((cut, view.encode(path.get(cut)?)?))) else {
        return rest.into_iter().filter_map(one).collect();
    };
    let mut summary = context::compaction(&entry);
    let payload = remote_history(&entry);
    summary.extend(context::pick(
        &entry,
        &[
            ("shortSummary", "shortSummary"),
            ("warning", "warning"),
            ("method", "method"),
            ("tokensAfter", "tokensAfter"),
        ],
    ));
    // The provider's own history already holds what was kept, up to a named entry.
    let kept: Vec<usize> = match &payload {
        None => rest,
        Some(_) => {
            let through = entry.get("providerReplayThroughEntryId").and_then(Value::as_str);
            let through = through.and_then(|id| view.find(id));
            let at = path.iter().take(cut).position(|node| Some(&node.entry.id) == through);
            let from = at.map_or(cut, |at| at + 1);
            (from..cut).chain(cut + 1..path.len()).collect()
        }
    };
    if let Some(payload) = payload {
        summary.insert("providerPayload".to_owned(), payload);
    }
    std::iter::once(summary.into()).chain(kept.into_iter().filter_map(one)).collect()
}

/// What OpenAI's own compaction left, in omp's form.
fn remote_history(entry: &Value) -> Option<Value> {
    let remote = entry.get("preserveData")?.get("openaiRemoteCompaction")?;
    let provider = remote.get("provider")?.as_str().filter(|provider| !provider.is_empty())?;
    let items = remote.get("replacementHistory").filter(|items| items.is_array())?;
    Some(json!({"type": "openaiResponsesHistory", "provider": provider, "items": items}))
}

fn message(entry: Value) -> Option<Value> {
    let text = |name: &str| entry.get(name).and_then(Value::as_str);
    match text("type") {
        Some("message") => {
            let message = entry.get("message")?;
            let retried = message.get("retryRecovery").is_some_and(|recovery| !recovery.is_null());
            if role(message) == "assistant" && (retried || is_empty_failure(message)) {
                return None;
            }
        }
        Some("custom_message") => {
            let shown = entry.get("content").is_some_and(|content| content.is_string() || content.is_array());
            if text("customType") == Some(PREWALK) || !shown {
                return None;
            }
            let attribution = entry.get("attribution").cloned();
            let mut message = context::message(entry)?;
            if let (Some(map), Some(attribution)) = (message.as_object_mut(), attribution) {
                map.insert("attribution".to_owned(), attribution);
            }
            return Some(message);
        }
        _ => {}
    }
    context::message(entry)
}

/// A failed turn without anything in it.
fn is_empty_failure(message: &Value) -> bool {
    let filled = |block: &Value, name: &str| {
        block.get(name).and_then(Value::as_str).is_some_and(|text| !text.trim().is_empty())
    };
    message.get("stopReason").and_then(Value::as_str) == Some("error")
        && !blocks(message).any(|block| match kind(block) {
            "text" => filled(block, "text"),
            "thinking" => filled(block, "thinking") || filled(block, "thinkingSignature"),
            "redactedThinking" => filled(block, "data"),
            "fallback" => false,
            _ => true,
        })
}

/// Takes calls without a result out of their turns. A turn that was changed loses what proves it unchanged.
fn strip_open_calls(messages: &mut Vec<Value>) {
    let settled: HashSet<String> = messages
        .iter()
        .filter(|message| role(message) == "toolResult")
        .filter_map(|message| message.get("toolCallId")?.as_str().map(str::to_owned))
        .collect();
    let open = |block: &Value| {
        kind(block) == "toolCall"
            && !block.get("id").and_then(Value::as_str).is_some_and(|id| settled.contains(id))
    };
    messages.retain_mut(|message| {
        if role(message) != "assistant" || !blocks(message).any(&open) {
            return true;
        }
        let Some(content) = message.get_mut("content").and_then(Value::as_array_mut) else { return true };
        content.retain(|block| !open(block) && kind(block) != "redactedThinking");
        for block in content.iter_mut().filter(|block| kind(block) == "thinking") {
            if let Some(block) = block.as_object_mut() {
                block.shift_remove("thinkingSignature");
            }
        }
        !content.is_empty()
    });
}

/// Drops turns that failed or were stopped, with the results of their calls.
fn drop_failed_turns(messages: &mut Vec<Value>) {
    let mut dropped: HashSet<String> = HashSet::new();
    let mut keep = Vec::with_capacity(messages.len());
    let mut all = std::mem::take(messages).into_iter().peekable();
    while let Some(message) = all.next() {
        let failed = role(&message) == "assistant"
            && matches!(message.get("stopReason").and_then(Value::as_str), Some("aborted" | "error"));
        let continued = all.peek().is_some_and(|next| {
            role(next) == "custom" && next.get("customType").and_then(Value::as_str) == Some(INTERRUPTED)
        });
        if failed && !continued {
            let calls = blocks(&message).filter(|block| kind(block) == "toolCall");
            dropped.extend(calls.filter_map(|block| block.get("id")?.as_str().map(str::to_owned)));
            continue;
        }
        let orphan = role(&message) == "toolResult"
            && message.get("toolCallId").and_then(Value::as_str).is_some_and(|id| dropped.contains(id));
        if !orphan {
            keep.push(message);
        }
    }
    *messages = keep;
}

fn role(message: &Value) -> &str {
    message.get("role").and_then(Value::as_str).unwrap_or_default()
}

fn kind(block: &Value) -> &str {
    block.get("type").and_then(Value::as_str).unwrap_or_default()
}

fn blocks(message: &Value) -> impl Iterator<Item = &Value> {
    message.get("content").and_then(Value::as_array).into_iter().flatten()
}

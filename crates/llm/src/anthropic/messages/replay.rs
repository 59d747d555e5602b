//! What a model answered, said back to it.
//!
//! Thoughts return with the signature or the cipher that the provider gave them, and without one not at all. What the
//! provider's own tools did returns as it came, and only as a whole: a call with its result.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::kind;
use crate::anthropic::METADATA;
use crate::call_id::CallIds;
use crate::{Block, Message, protocol};

/// The blocks of an answer.
pub(super) fn blocks(blocks: &[Block], ids: &mut CallIds) -> Vec<Value> {
    let mut hosted = ReplayableTools::of(blocks);
    let mut lowered: Vec<Value> = blocks.iter().filter_map(|block| lower(block, &mut hosted, ids)).collect();
    // An answer may not end in a thought.
    while lowered.pop_if(|block| matches!(kind(block), "thinking" | "redacted_thinking")).is_some() {}
    lowered
}

/// Whether anything of a message is said at all.
pub(super) fn leaves_something(message: &Message) -> bool {
    let Message::Assistant { blocks, .. } = message else { return true };
    let speaks = |block: &Block| match block {
        Block::Text { text, .. } => !text.trim().is_empty(),
        Block::ToolCall { .. } => true,
        Block::Reasoning { .. } | Block::HostedCall { .. } | Block::HostedResult { .. } => false,
    };
    blocks.iter().any(speaks) || !ReplayableTools::of(blocks).usable.is_empty()
}

fn lower(block: &Block, hosted: &mut ReplayableTools<'_>, ids: &mut CallIds) -> Option<Value> {
    match block {
        Block::Text { text, metadata } => {
            let mut lowered = super::content::text(text);
            if let (Some(citations), Some(fields)) =
                (own(metadata.as_ref(), "citations"), lowered.as_object_mut())
            {
                fields.insert("citations".into(), citations.clone());
            }
            (!text.trim().is_empty()).then_some(lowered)
        }
        Block::Reasoning { text, metadata } => thought(text, metadata.as_ref()),
        Block::ToolCall { id, name, input, metadata } => {
            let input = if input.is_object() { input.clone() } else { json!({}) };
            let mut call = json!({"type": "tool_use", "id": ids.call(id), "name": name,
                "input": input});
            let fields = own(metadata.as_ref(), "fields").and_then(Value::as_object);
            if let (Some(fields), Some(all)) = (fields, call.as_object_mut()) {
                all.extend(fields.clone());
            }
            Some(call)
        }
        Block::HostedCall { id, metadata, .. } => hosted.call(id).then(|| raw(metadata.as_ref()))?,
        Block::HostedResult { id, metadata, .. } => hosted.result(id).then(|| raw(metadata.as_ref()))?,
    }
}

fn thought(text: &str, metadata: Option<&Value>) -> Option<Value> {
    if let Some(cipher) = own(metadata, "redacted") {
        return Some(json!({"type": "redacted_thinking", "data": cipher}));
    }
    let signature = own(metadata, "signature")?;
    Some(json!({"type": "thinking", "thinking": text, "signature": signature}))
}

/// A field of this protocol's own metadata.
fn own<'a>(metadata: Option<&'a Value>, name: &str) -> Option<&'a Value> {
    protocol::own_field(metadata, METADATA, name)
}

fn raw(metadata: Option<&Value>) -> Option<Value> {
    own(metadata, "block").filter(|block| block.is_object()).cloned()
}

/// Which of the provider's own tools can be replayed in one answer: those whose call and result are there as they came,
/// in this order. A call without any result is one that the provider goes on with.
#[derive(Debug)]
struct ReplayableTools<'a> {
    usable: HashSet<&'a str>,
    called: HashSet<&'a str>,
    answered: HashSet<&'a str>,
}

impl<'a> ReplayableTools<'a> {
    fn of(blocks: &'a [Block]) -> Self {
        let mut usable = HashSet::new();
        let mut spoilt = HashSet::new();
        for block in blocks {
            let (id, metadata, fits) = match block {
                Block::HostedCall { id, metadata, .. } => (id.as_str(), metadata, true),
                Block::HostedResult { id, metadata, .. } => {
                    (id.as_str(), metadata, usable.contains(id.as_str()))
                }
                _ => continue,
            };
            if fits && raw(metadata.as_ref()).is_some() {
                usable.insert(id);
            } else {
                spoilt.insert(id);
            }
        }
        usable.retain(|id| !spoilt.contains(id));
        Self { usable, called: HashSet::new(), answered: HashSet::new() }
    }

    fn call(&mut self, id: &str) -> bool {
        let known = self.usable.get(id);
        known.is_some_and(|id| self.called.insert(id))
    }

    fn result(&mut self, id: &str) -> bool {
        let known = self.called.get(id);
        known.is_some_and(|id| self.answered.insert(id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call_id::CallIdRule;

    fn check(answer: &[Block], expected: &[Value]) {
        assert_eq!(blocks(answer, &mut CallIds::new(CallIdRule::Words(64))), expected);
        let message = Message::Assistant { blocks: answer.to_vec(), origin: None };
        assert_eq!(leaves_something(&message), !expected.is_empty());
    }

    #[expect(clippy::needless_pass_by_value, reason = "a test reads best with its values in place")]
    fn thinks(text: &str, own: Value) -> Block {
        Block::Reasoning { text: text.into(), metadata: Some(json!({METADATA: own})) }
    }

    fn says(text: &str) -> Block {
        Block::Text { text: text.into(), metadata: None }
    }

    fn said(text: &str) -> Value {
        json!({"type": "text", "text": text})
    }

    #[test]
    fn thoughts() {
        check(
            &[
                thinks("hm", json!({"signature": "s"})),
                thinks("", json!({"redacted": "r"})),
                Block::Reasoning { text: "unsigned".into(), metadata: None },
                says("ok"),
                thinks("cut off", json!({"signature": "t"})),
            ],
            &[
                json!({"type": "thinking", "thinking": "hm", "signature": "s"}),
                json!({"type": "redacted_thinking", "data": "r"}),
                said("ok"),
            ],
        );
        check(&[thinks("hm", json!({"signature": "s"}))], &[]);
    }

    #[test]
    fn text_keeps_its_citations() {
        let citations = json!([{"type": "web_search_result_location", "url": "https://x"}]);
        let text =
            Block::Text { text: "so".into(), metadata: Some(json!({METADATA: {"citations": citations}})) };
        check(&[text], &[json!({"type": "text", "text": "so", "citations": citations})]);
    }

    #[test]
    fn calls() {
        let metadata = json!({METADATA: {"fields": {"caller": {"type": "code", "tool_id": "s"}}}});
        let call = |name: &str, input: Value, metadata: Option<Value>| Block::ToolCall {
            id: String::new(),
            name: name.into(),
            input,
            metadata,
        };
        check(
            &[call("read", json!({"a": 1}), Some(metadata)), call("list", Value::Null, None)],
            &[
                json!({"type": "tool_use", "id": "call", "name": "read", "input": {"a": 1},
                    "caller": {"type": "code", "tool_id": "s"}}),
                json!({"type": "tool_use", "id": "call_2", "name": "list", "input": {}}),
            ],
        );
    }

    #[test]
    fn hosted_tools_return_as_they_came_or_not_at_all() {
        let call = |id: &str, own: Option<Value>| Block::HostedCall {
            id: id.into(),
            name: "web".into(),
            input: json!({}),
            metadata: own.map(|block| json!({METADATA: {"block": block}})),
        };
        let result = |id: &str, own: Option<Value>| Block::HostedResult {
            id: id.into(),
            name: "web".into(),
            output: json!([]),
            metadata: own.map(|block| json!({METADATA: {"block": block}})),
        };
        let kept = |name: &str| Some(json!({"type": name}));
        check(
            &[
                call("a", kept("a call")),
                result("b", kept("too early")),
                call("b", kept("too late")),
                result("a", kept("a result")),
                result("a", kept("again")),
                call("c", None),
                result("c", kept("orphan")),
                call("d", kept("orphan")),
                result("d", None),
                call("e", kept("goes on")),
            ],
            &[json!({"type": "a call"}), json!({"type": "a result"}), json!({"type": "goes on"})],
        );
        check(&[call("c", None), result("c", kept("orphan"))], &[]);
    }
}

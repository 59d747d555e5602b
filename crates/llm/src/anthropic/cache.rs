//! Marks that tell the provider up to where to keep a prompt.
//!
//! A prompt is cached as a prefix, in the order tools, instructions, messages, and is found again at a mark of an
//! earlier request. So the ends of the parts that seldom change are marked, then the end of the conversation for the
//! next request to find, and the end of the person's or the tools' message before it: there stands the mark that the
//! last request left.

use serde_json::{Value, json};

use super::messages::{Speaker, SpeakerTurn};

/// How many messages are marked. With the tools and the instructions that makes four, which is the most allowed.
const MESSAGES: usize = 2;

/// Puts the marks.
pub(super) fn mark(tools: &mut [Value], system: &mut [Value], turns: &mut [SpeakerTurn]) {
    put(tools);
    put(system);
    let said = turns.iter_mut().rev().filter(|turn| turn.role == Speaker::User);
    said.take(MESSAGES).for_each(|turn| put(&mut turn.content));
}

/// Marks the last block that may have a mark.
fn put(blocks: &mut [Value]) {
    let last = blocks.iter_mut().rev().find(|block| may_have_a_mark(block));
    if let Some(fields) = last.and_then(Value::as_object_mut) {
        fields.insert("cache_control".into(), json!({"type": "ephemeral"}));
    }
}

/// Thoughts and empty blocks are refused with a mark.
fn may_have_a_mark(block: &Value) -> bool {
    let filled = |name: &str| match block.get(name) {
        Some(Value::String(text)) => !text.trim().is_empty(),
        Some(Value::Array(list)) => !list.is_empty(),
        _ => false,
    };
    match block.get("type").and_then(Value::as_str) {
        Some("text") => filled("text"),
        Some("tool_result") => filled("content"),
        Some("thinking" | "redacted_thinking") => false,
        // A picture, a document, or a tool, which has no type of its own.
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Value {
        json!({"type": "text", "text": text})
    }

    fn marked(mut block: Value) -> Value {
        block["cache_control"] = json!({"type": "ephemeral"});
        block
    }

    fn turn(role: Speaker, content: Vec<Value>) -> SpeakerTurn {
        SpeakerTurn { role, content }
    }

    #[test]
    fn the_ends_of_all_parts() {
        let mut tools = [json!({"name": "a"}), json!({"name": "b"})];
        let mut system = [text("one"), text("two")];
        let empty = json!({"type": "tool_result", "tool_use_id": "c"});
        let mut turns = [
            turn(Speaker::User, vec![text("old")]),
            turn(Speaker::Assistant, vec![text("yes")]),
            turn(Speaker::User, vec![text("before"), text(" ")]),
            turn(Speaker::Assistant, vec![text("well")]),
            turn(Speaker::User, vec![text("now"), empty.clone()]),
            turn(Speaker::System, vec![text("note")]),
        ];
        mark(&mut tools, &mut system, &mut turns);
        assert_eq!(tools, [json!({"name": "a"}), marked(json!({"name": "b"}))]);
        assert_eq!(system, [text("one"), marked(text("two"))]);
        let expected = [
            turn(Speaker::User, vec![text("old")]),
            turn(Speaker::Assistant, vec![text("yes")]),
            turn(Speaker::User, vec![marked(text("before")), text(" ")]),
            turn(Speaker::Assistant, vec![text("well")]),
            turn(Speaker::User, vec![marked(text("now")), empty]),
            turn(Speaker::System, vec![text("note")]),
        ];
        assert_eq!(turns, expected);
    }

    #[test]
    fn nothing_to_mark() {
        let thought = json!({"type": "thinking", "thinking": "hm", "signature": "s"});
        let mut turns = [turn(Speaker::User, vec![thought.clone()])];
        mark(&mut [], &mut [], &mut turns);
        assert_eq!(turns, [turn(Speaker::User, vec![thought])]);
    }
}

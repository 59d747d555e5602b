//! The conversation as Anthropic takes it.
//!
//! It knows two sides that take turns, beginning with the person's. What tools gave back is said on the person's side,
//! at the front of the turn that follows the calls. An instruction in the middle is a turn of its own where the model
//! takes that, and else is wrapped and said on the person's side as well.

mod replay;

use serde_json::{Map, Value, json};

use super::content;
use super::model::ClaudeModel;
use crate::call_id::{CallIdRule, CallIds};
use crate::{Content, Message, history};

/// The longest call id that is sent: the provider names no limit, but servers that speak its protocol have one.
const CALL_ID_LIMIT: usize = 64;

/// What the person says where a conversation does not begin with the person.
const BEGIN: &str = "(The conversation begins with your answer.)";

/// What the person says where the model shall go on with its own answer and does not take that.
const GO_ON: &str = "Go on.";

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Speaker {
    User,
    Assistant,
    System,
}

/// All that one side says before the other speaks.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SpeakerTurn {
    pub(super) role: Speaker,
    pub(super) content: Vec<Value>,
}

impl SpeakerTurn {
    /// The turn as it is written.
    pub(super) fn into_value(self) -> Value {
        let role = match self.role {
            Speaker::User => "user",
            Speaker::Assistant => "assistant",
            Speaker::System => "system",
        };
        json!({"role": role, "content": self.content})
    }

    fn has(&self, kinds: &[&str]) -> bool {
        self.content.iter().any(|block| kinds.contains(&kind(block)))
    }
}

/// The turns of a repaired conversation.
pub(super) fn lower(messages: &[Message], model: ClaudeModel) -> Vec<SpeakerTurn> {
    let messages: Vec<&Message> =
        messages.iter().filter(|message| replay::leaves_something(message)).collect();
    let ids = CallIds::new(CallIdRule::Words(CALL_ID_LIMIT));
    let mut writer = MessageWriter { turns: Vec::new(), ids, shown: Vec::new() };
    for message in &place_instructions(&messages, model.takes_system()) {
        writer.write(message);
    }
    writer.show_attachments();
    let mut turns = writer.turns;
    if turns.first().is_none_or(|first| first.role != Speaker::User) {
        turns.insert(0, SpeakerTurn { role: Speaker::User, content: vec![content::text(BEGIN)] });
    }
    trim_end(&mut turns);
    turns
}

/// Gives the word back to the model after its own last words, unless it is in the middle of using its own tools.
pub(super) fn return_the_turn(turns: &mut Vec<SpeakerTurn>) {
    let last = turns.last().filter(|last| last.role == Speaker::Assistant);
    if last.and_then(|last| last.content.last()).is_some_and(|block| kind(block) == "text") {
        turns.push(SpeakerTurn { role: Speaker::User, content: vec![content::text(GO_ON)] });
    }
}

/// Whether calls of tools are mentioned.
pub(super) fn mention_tools(turns: &[SpeakerTurn]) -> bool {
    turns.iter().any(|turn| turn.has(&["tool_use", "tool_result"]))
}

/// Whether the model is in the middle of using tools, and got there without a thought.
///
/// It cannot begin to think on a budget there. A turn of the person's that has any result in it goes on with the tools,
/// whatever the person says beside it.
pub(super) fn acts_without_a_thought(turns: &[SpeakerTurn]) -> bool {
    let running =
        turns.iter().rev().take_while(|turn| turn.role != Speaker::User || turn.has(&["tool_result"]));
    let mut acts = false;
    for turn in running.filter(|turn| turn.role == Speaker::Assistant) {
        if turn.has(&["thinking", "redacted_thinking"]) {
            return false;
        }
        acts = true;
    }
    acts
}

fn kind(block: &Value) -> &str {
    block.get("type").and_then(Value::as_str).unwrap_or_default()
}

/// Leaves instructions where they stand if they may stand there, and wraps all others.
fn place_instructions(messages: &[&Message], native: bool) -> Vec<Message> {
    let mut placed = Vec::with_capacity(messages.len());
    let mut waiting: Vec<Message> = Vec::new();
    for (index, message) in messages.iter().enumerate() {
        let before = index.checked_sub(1).and_then(|before| messages.get(before));
        let after = messages.get(index.saturating_add(1));
        let fits = matches!(before, Some(Message::User(_) | Message::Tool { .. }))
            && matches!(after, None | Some(Message::Assistant { .. }));
        let stays = native && fits && matches!(message, Message::System(_));
        if stays {
            placed.append(&mut history::wrap_system(&waiting));
            waiting.clear();
            placed.push((*message).clone());
        } else {
            waiting.push((*message).clone());
        }
    }
    placed.append(&mut history::wrap_system(&waiting));
    placed
}

/// The last words of an answer that goes on may not end in white space.
fn trim_end(turns: &mut [SpeakerTurn]) {
    let last = turns.last_mut().filter(|last| last.role == Speaker::Assistant);
    if let Some(Value::String(text)) = last.and_then(|last| last.content.last_mut()?.get_mut("text")) {
        text.truncate(text.trim_end().len());
    }
}

#[derive(Debug)]
struct MessageWriter {
    turns: Vec<SpeakerTurn>,
    ids: CallIds,
    /// What failed tools showed. Their results take only text, so it follows after the last result.
    shown: Vec<Value>,
}

impl MessageWriter {
    fn write(&mut self, message: &Message) {
        if let Message::Tool { call_id, output, is_error, .. } = message {
            let result = self.result(call_id, output, *is_error);
            self.say(Speaker::User, result.into_iter().collect());
            return;
        }
        self.show_attachments();
        match message {
            Message::User(contents) => self.say(Speaker::User, content::blocks(contents)),
            Message::System(text) => self.say(Speaker::System, vec![content::text(text)]),
            Message::Assistant { blocks, .. } => {
                let blocks = replay::blocks(blocks, &mut self.ids);
                self.say(Speaker::Assistant, blocks);
            }
            Message::Tool { .. } => {}
        }
    }

    fn result(&mut self, call_id: &str, output: &[Content], is_error: bool) -> Option<Value> {
        let id = self.ids.answer(call_id)?;
        let mut content = content::blocks(output);
        if is_error {
            let (words, others) = content.into_iter().partition(|block| kind(block) == "text");
            content = words;
            self.shown.extend::<Vec<Value>>(others);
        }
        let mut result = Map::new();
        result.insert("type".into(), json!("tool_result"));
        result.insert("tool_use_id".into(), json!(id));
        if !content.is_empty() {
            result.insert("content".into(), Value::Array(content));
        }
        if is_error {
            result.insert("is_error".into(), json!(true));
        }
        Some(Value::Object(result))
    }

    fn show_attachments(&mut self) {
        let shown = std::mem::take(&mut self.shown);
        self.say(Speaker::User, shown);
    }

    /// Adds to the turn of whoever speaks already, or begins one.
    fn say(&mut self, role: Speaker, content: Vec<Value>) {
        if content.is_empty() {
            return;
        }
        match self.turns.last_mut() {
            Some(last) if last.role == role => last.content.extend(content),
            _ => self.turns.push(SpeakerTurn { role, content }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Block;
    use crate::anthropic::METADATA;

    const OLD: &str = "claude-sonnet-4-5";
    const NEW: &str = "claude-opus-4-8";

    fn user(text: &str) -> Message {
        Message::User(vec![Content::Text(text.into())])
    }

    fn answer(blocks: Vec<Block>) -> Message {
        Message::Assistant { blocks, origin: None }
    }

    fn says(text: &str) -> Block {
        Block::Text { text: text.into(), metadata: None }
    }

    fn calls(id: &str) -> Block {
        Block::ToolCall { id: id.into(), name: "read".into(), input: json!({}), metadata: None }
    }

    fn result(id: &str, output: Vec<Content>, is_error: bool) -> Message {
        Message::Tool { call_id: id.into(), name: "read".into(), output, is_error }
    }

    fn instruction(text: &str) -> Message {
        Message::System(text.into())
    }

    #[track_caller]
    #[expect(clippy::needless_pass_by_value, reason = "a test reads best with its values in place")]
    fn check(model: &str, messages: &[Message], expected: Value) {
        let turns = lower(messages, ClaudeModel::of(model));
        let lowered: Vec<Value> = turns.into_iter().map(SpeakerTurn::into_value).collect();
        assert_eq!(Value::Array(lowered), expected);
    }

    fn said(role: &str, texts: &[&str]) -> Value {
        let content: Vec<Value> = texts.iter().map(|text| content::text(text)).collect();
        json!({"role": role, "content": content})
    }

    #[test]
    fn the_person_begins() {
        check(OLD, &[], json!([said("user", &[BEGIN])]));
        let begun = [said("user", &[BEGIN]), said("assistant", &["hello"])];
        check(OLD, &[answer(vec![says("hello \n")])], json!(begun));
    }

    #[test]
    fn neighbours_of_one_side_are_one_turn() {
        let messages = [user("a"), user("b"), answer(vec![says("c ")]), answer(vec![says("d ")]), user("e")];
        let expected = [said("user", &["a", "b"]), said("assistant", &["c ", "d "]), said("user", &["e"])];
        check(OLD, &messages, json!(expected));
    }

    #[test]
    fn results_come_first_and_ids_are_made_to_fit() {
        let image = Content::Media { mime: "image/png".into(), url: "https://x/y".into(), filename: None };
        let messages = [
            user("go"),
            answer(vec![calls("f.read:0"), calls("f_read_0")]),
            result("f.read:0", vec![Content::Text("no".into()), image.clone()], true),
            result("f_read_0", vec![image], false),
            user("stop"),
            answer(vec![calls("f.read:0")]),
            result("f.read:0", vec![Content::Text(" ".into())], false),
        ];
        let call = |id: &str| json!({"type": "tool_use", "id": id, "name": "read", "input": {}});
        let image = json!({"type": "image", "source": {"type": "url", "url": "https://x/y"}});
        let expected = json!([
            said("user", &["go"]),
            {"role": "assistant", "content": [call("f_read_0"), call("f_read_0_2")]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "f_read_0", "content": [content::text("no")], "is_error": true},
                {"type": "tool_result", "tool_use_id": "f_read_0_2", "content": [image]},
                image,
                content::text("stop"),
            ]},
            {"role": "assistant", "content": [call("f_read_0_3")]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "f_read_0_3"}]},
        ]);
        check(OLD, &messages, expected);
    }

    #[test]
    fn instructions_stand_where_they_may() {
        let messages = [
            instruction("first"),
            user("a"),
            instruction("one"),
            answer(vec![says("b")]),
            instruction("two"),
            user("c"),
            instruction("three"),
            instruction("four"),
            answer(vec![calls("x")]),
            result("x", vec![Content::Text("y".into())], false),
            instruction("last"),
        ];
        let update = |text: &str| format!("<system-update>\n{text}\n</system-update>");
        let call = json!({"role": "assistant",
            "content": [{"type": "tool_use", "id": "x", "name": "read", "input": {}}]});
        let given = json!({"type": "tool_result", "tool_use_id": "x", "content": [content::text("y")]});
        let wrapped = [
            said("user", &[&update("first"), "a", &update("one")]),
            said("assistant", &["b"]),
            said("user", &[&update("two"), "c", &update("three"), &update("four")]),
            call.clone(),
            json!({"role": "user", "content": [given, content::text(&update("last"))]}),
        ];
        check(OLD, &messages, json!(wrapped));
        let native = [
            said("user", &[&update("first"), "a"]),
            said("system", &["one"]),
            said("assistant", &["b"]),
            said("user", &[&update("two"), "c", &update("three"), &update("four")]),
            call,
            json!({"role": "user", "content": [given]}),
            said("system", &["last"]),
        ];
        check(NEW, &messages, json!(native));
    }

    #[test]
    fn an_instruction_does_not_count_on_an_answer_that_is_not_replayed() {
        let thought = Block::Reasoning { text: "hm".into(), metadata: None };
        let messages = [user("a"), instruction("one"), answer(vec![thought]), user("b")];
        let update = "<system-update>\none\n</system-update>";
        check(NEW, &messages, json!([said("user", &["a", update, "b"])]));
    }

    #[test]
    fn the_word_is_given_back_after_text_only() {
        let mut turns = lower(&[user("a"), answer(vec![says("b")])], ClaudeModel::of(NEW));
        return_the_turn(&mut turns);
        assert_eq!(turns.last().map(|turn| turn.content.clone()), Some(vec![content::text(GO_ON)]));

        let raw = json!({"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}});
        let search = Block::HostedCall {
            id: "s".into(),
            name: "web_search".into(),
            input: json!({}),
            metadata: Some(json!({METADATA: {"block": raw}})),
        };
        let turns = lower(&[user("a"), answer(vec![search])], ClaudeModel::of(NEW));
        let mut same = turns.clone();
        return_the_turn(&mut same);
        assert_eq!(same, turns);
    }

    #[test]
    fn thoughts_of_the_running_turn() {
        let thought =
            Block::Reasoning { text: "hm".into(), metadata: Some(json!({METADATA: {"signature": "s"}})) };
        let given = |id: &str| result(id, vec![Content::Text("1".into())], false);
        let check = |messages: &[Message], expected: bool| {
            assert_eq!(
                acts_without_a_thought(&lower(messages, ClaudeModel::of(OLD))),
                expected,
                "{messages:?}"
            );
        };
        check(&[user("a")], false);
        check(&[user("a"), answer(vec![calls("x")]), given("x")], true);
        // The person spoke after an interrupted tool: "Expected `thinking`, but found `tool_use`".
        check(&[user("a"), answer(vec![calls("x")]), given("x"), user("b")], true);
        let settled = [user("a"), answer(vec![calls("x")]), given("x"), answer(vec![says("c")]), user("b")];
        check(&settled, false);
        let thoughtful = answer(vec![thought, calls("x")]);
        check(&[user("a"), thoughtful, given("x"), answer(vec![calls("y")]), given("y")], false);
    }
}

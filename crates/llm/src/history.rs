//! Repair of a conversation before it leaves.
//!
//! A session that crashed, was interrupted or was edited may hold a call nobody answered or an answer to a call
//! that is gone. Providers refuse such histories outright, which would lock the user out of the session. The
//! repair is made on the way out only: what is stored stays as it happened.

use std::collections::HashMap;

use crate::{Block, Content, Message};

/// What the model reads where a tool's answer is missing.
pub const INTERRUPTED: &str = "Tool execution was interrupted";

/// A conversation every provider accepts.
///
/// Each assistant message is followed at once by one result for each of its calls, in the order of the calls: a
/// missing one becomes an error result saying [`INTERRUPTED`], one that stands elsewhere is moved, and one
/// without a call or given twice is dropped. Empty text, empty reasoning that carries no metadata and messages
/// with nothing in them are dropped.
pub fn repair(messages: Vec<Message>) -> Vec<Message> {
    let mut slots: Vec<Slot> = Vec::with_capacity(messages.len());
    // Where each call id was last made: providers reuse ids such as `call_0` from one turn to the next.
    let mut owners: HashMap<String, usize> = HashMap::new();
    for message in messages {
        match message {
            Message::Assistant(blocks) => {
                let blocks: Vec<Block> = blocks.into_iter().filter(says_something).collect();
                if blocks.is_empty() {
                    continue;
                }
                let answers: Vec<Answer> = blocks.iter().filter_map(Answer::open).collect();
                owners.extend(answers.iter().map(|answer| (answer.call_id.clone(), slots.len())));
                slots.push(Slot { message: Message::Assistant(blocks), answers });
            }
            Message::Tool { call_id, output, is_error, .. } => {
                let owner = owners.get(&call_id).and_then(|index| slots.get_mut(*index));
                let open = |answer: &&mut Answer| answer.call_id == call_id && answer.result.is_none();
                if let Some(answer) = owner.and_then(|slot| slot.answers.iter_mut().find(open)) {
                    answer.result = Some((output, is_error));
                }
            }
            Message::User(contents) => {
                let contents: Vec<Content> = contents.into_iter().filter(has_content).collect();
                if !contents.is_empty() {
                    slots.push(Slot::plain(Message::User(contents)));
                }
            }
            Message::System(text) => {
                if !text.trim().is_empty() {
                    slots.push(Slot::plain(Message::System(text)));
                }
            }
        }
    }
    slots.into_iter().flat_map(Slot::lower).collect()
}

struct Slot {
    message: Message,
    answers: Vec<Answer>,
}

impl Slot {
    fn plain(message: Message) -> Self {
        Self { message, answers: Vec::new() }
    }

    fn lower(self) -> impl Iterator<Item = Message> {
        std::iter::once(self.message).chain(self.answers.into_iter().map(Answer::lower))
    }
}

struct Answer {
    call_id: String,
    name: String,
    result: Option<(String, bool)>,
}

impl Answer {
    fn open(block: &Block) -> Option<Self> {
        match block {
            Block::ToolCall { id, name, .. } => {
                Some(Self { call_id: id.clone(), name: name.clone(), result: None })
            }
            Block::Text { .. } | Block::Reasoning { .. } => None,
        }
    }

    fn lower(self) -> Message {
        let (output, is_error) = self.result.unwrap_or_else(|| (INTERRUPTED.to_owned(), true));
        Message::Tool { call_id: self.call_id, name: self.name, output, is_error }
    }
}

fn says_something(block: &Block) -> bool {
    match block {
        Block::Text { text, .. } => !text.trim().is_empty(),
        // A signed or encrypted block may have no readable text and still has to be replayed.
        Block::Reasoning { text, metadata } => metadata.is_some() || !text.trim().is_empty(),
        Block::ToolCall { .. } => true,
    }
}

fn has_content(content: &Content) -> bool {
    match content {
        Content::Text(text) => !text.trim().is_empty(),
        Content::Media { url, .. } => !url.is_empty(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn user(text: &str) -> Message {
        Message::User(vec![Content::Text(text.into())])
    }

    fn text(text: &str) -> Block {
        Block::Text { text: text.into(), metadata: None }
    }

    fn call(id: &str) -> Block {
        Block::ToolCall { id: id.into(), name: "read".into(), input: json!({}), metadata: None }
    }

    fn result(id: &str, output: &str) -> Message {
        Message::Tool { call_id: id.into(), name: "read".into(), output: output.into(), is_error: false }
    }

    fn interrupted(id: &str) -> Message {
        Message::Tool { call_id: id.into(), name: "read".into(), output: INTERRUPTED.into(), is_error: true }
    }

    #[expect(clippy::needless_pass_by_value, reason = "a test reads best with its values in place")]
    fn check(input: Vec<Message>, expected: Vec<Message>) {
        let repaired = repair(input);
        assert_eq!(repaired, expected);
        assert_eq!(repair(repaired), expected, "repair is idempotent");
    }

    #[test]
    fn sound_history_is_unchanged() {
        let history = vec![
            user("hi"),
            Message::System("be kind".into()),
            Message::Assistant(vec![text("looking"), call("a"), call("b")]),
            result("a", "1"),
            result("b", "2"),
            user("one"),
            user("two"),
        ];
        check(history.clone(), history);
    }

    #[test]
    fn orphan_call_is_answered() {
        check(
            vec![user("hi"), Message::Assistant(vec![call("a"), call("b")]), result("b", "2"), user("go on")],
            vec![
                user("hi"),
                Message::Assistant(vec![call("a"), call("b")]),
                interrupted("a"),
                result("b", "2"),
                user("go on"),
            ],
        );
    }

    #[test]
    fn orphan_and_doubled_results_are_dropped() {
        check(
            vec![
                result("x", "nobody asked"),
                Message::Assistant(vec![call("a")]),
                result("a", "1"),
                result("a", "again"),
                result("y", "nobody asked"),
            ],
            vec![Message::Assistant(vec![call("a")]), result("a", "1")],
        );
    }

    #[test]
    fn results_move_next_to_their_call() {
        check(
            vec![
                Message::Assistant(vec![call("a"), call("b")]),
                Message::System("note".into()),
                result("b", "2"),
                user("stop"),
                result("a", "1"),
            ],
            vec![
                Message::Assistant(vec![call("a"), call("b")]),
                result("a", "1"),
                result("b", "2"),
                Message::System("note".into()),
                user("stop"),
            ],
        );
    }

    #[test]
    fn ids_may_repeat_from_turn_to_turn() {
        check(
            vec![
                Message::Assistant(vec![call("a")]),
                result("a", "1"),
                Message::Assistant(vec![call("a")]),
                result("a", "2"),
            ],
            vec![
                Message::Assistant(vec![call("a")]),
                result("a", "1"),
                Message::Assistant(vec![call("a")]),
                result("a", "2"),
            ],
        );
    }

    #[test]
    fn empty_content_is_dropped() {
        let signed = Block::Reasoning { text: String::new(), metadata: Some(json!({"signature": "s"})) };
        let silent = Block::Reasoning { text: "  ".into(), metadata: None };
        check(
            vec![
                user(" \n"),
                Message::User(vec![]),
                Message::System(String::new()),
                Message::Assistant(vec![text(""), silent.clone()]),
                Message::Assistant(vec![signed.clone(), silent, text("ok")]),
            ],
            vec![Message::Assistant(vec![signed, text("ok")])],
        );
    }
}

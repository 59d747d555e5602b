//! Repairs a conversation before it is sent.
//!
//! A session that crashed, was interrupted or was edited may hold a call nobody answered or an answer to a call
//! that is gone. Providers refuse such histories outright, which would lock the user out of the session. The
//! repair is made on the way out only: what is stored stays as it happened.

use std::collections::{HashMap, HashSet};

use crate::{AnswerOrigin, Block, Content, Message};

/// What the model reads where a tool's answer is missing.
pub const INTERRUPTED: &str = "Tool execution was interrupted";

/// A conversation that the model `asked` accepts, no matter who answered in it before.
///
/// Each assistant message is followed at once by one result for each of its calls, in the order of the calls: a
/// missing one becomes an error result saying [`INTERRUPTED`], one that stands elsewhere is moved, and one
/// without a call or given twice is dropped. Of what another model said, only its text and its calls remain: its
/// thoughts, signatures and own tools mean nothing to this one. A provider's own tool without a result remains only
/// at the very end, where the provider goes on with it. Empty text, empty reasoning that carries no metadata and
/// messages with nothing in them are dropped.
pub fn repair(messages: Vec<Message>, asked: &AnswerOrigin) -> Vec<Message> {
    let mut slots: Vec<MessageSlot> = Vec::with_capacity(messages.len());
    // Where each call id was last made: providers reuse ids such as `call_0` from one turn to the next.
    let mut owners: HashMap<String, usize> = HashMap::new();
    for message in messages {
        match message {
            Message::Assistant { blocks, origin } => {
                let own = origin.as_ref() == Some(asked);
                let kept =
                    blocks.into_iter().filter_map(|block| if own { Some(block) } else { plain(block) });
                let blocks: Vec<Block> = kept.filter(says_something).collect();
                if blocks.is_empty() {
                    continue;
                }
                let answers: Vec<CallAnswer> = blocks.iter().filter_map(CallAnswer::open).collect();
                owners.extend(answers.iter().map(|answer| (answer.call_id.clone(), slots.len())));
                slots.push(MessageSlot { message: Message::Assistant { blocks, origin }, answers });
            }
            Message::Tool { call_id, output, is_error, .. } => {
                let owner = owners.get(&call_id).and_then(|index| slots.get_mut(*index));
                let open = |answer: &&mut CallAnswer| answer.call_id == call_id && answer.result.is_none();
                if let Some(answer) = owner.and_then(|slot| slot.answers.iter_mut().find(open)) {
                    answer.result = Some((output, is_error));
                }
            }
            Message::User(contents) => {
                let contents: Vec<Content> = contents.into_iter().filter(has_content).collect();
                if !contents.is_empty() {
                    slots.push(MessageSlot::plain(Message::User(contents)));
                }
            }
            Message::System(text) => {
                if !text.trim().is_empty() {
                    slots.push(MessageSlot::plain(Message::System(text)));
                }
            }
        }
    }
    let last = slots.len().saturating_sub(1);
    for (index, slot) in slots.iter_mut().enumerate() {
        if let Message::Assistant { blocks, .. } = &mut slot.message {
            settle_hosted(blocks, index == last);
        }
    }
    slots.into_iter().filter(MessageSlot::says_something).flat_map(MessageSlot::lower).collect()
}

/// The conversation without instructions in the middle, for providers that take them at the front only: each one is
/// wrapped, and joins what the person said just before it, or stands as a message of the person's.
pub(crate) fn wrap_system(messages: &[Message]) -> Vec<Message> {
    let mut wrapped: Vec<Message> = Vec::with_capacity(messages.len());
    for message in messages {
        match message {
            Message::System(text) => {
                let piece = Content::Text(format!("<system-update>\n{}\n</system-update>", escape(text)));
                match wrapped.last_mut() {
                    Some(Message::User(contents)) => contents.push(piece),
                    _ => wrapped.push(Message::User(vec![piece])),
                }
            }
            other => wrapped.push(other.clone()),
        }
    }
    wrapped
}

/// Keeps an instruction from closing its own wrapper.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// What any model understands of a block.
fn plain(block: Block) -> Option<Block> {
    match block {
        Block::Text { text, .. } => Some(Block::Text { text, metadata: None }),
        Block::ToolCall { id, name, input, .. } => Some(Block::ToolCall { id, name, input, metadata: None }),
        Block::Reasoning { .. } | Block::HostedCall { .. } | Block::HostedResult { .. } => None,
    }
}

/// Drops hosted results without a call and hosted calls without a result, but not a call that is still going on.
fn settle_hosted(blocks: &mut Vec<Block>, is_last: bool) {
    let ids = |want_result: bool| -> HashSet<String> {
        let id = |block: &Block| match block {
            Block::HostedCall { id, .. } if !want_result => Some(id.clone()),
            Block::HostedResult { id, .. } if want_result => Some(id.clone()),
            _ => None,
        };
        blocks.iter().filter_map(id).collect()
    };
    let (calls, results) = (ids(false), ids(true));
    let mut answered = HashSet::new();
    blocks.retain(|block| match block {
        Block::HostedCall { id, .. } => is_last || results.contains(id),
        Block::HostedResult { id, .. } => calls.contains(id) && answered.insert(id.clone()),
        _ => true,
    });
}

struct MessageSlot {
    message: Message,
    answers: Vec<CallAnswer>,
}

impl MessageSlot {
    fn plain(message: Message) -> Self {
        Self { message, answers: Vec::new() }
    }

    fn says_something(&self) -> bool {
        !matches!(&self.message, Message::Assistant { blocks, .. } if blocks.is_empty())
    }

    fn lower(self) -> impl Iterator<Item = Message> {
        std::iter::once(self.message).chain(self.answers.into_iter().map(CallAnswer::lower))
    }
}

struct CallAnswer {
    call_id: String,
    name: String,
    result: Option<(Vec<Content>, bool)>,
}

impl CallAnswer {
    fn open(block: &Block) -> Option<Self> {
        match block {
            Block::ToolCall { id, name, .. } => {
                Some(Self { call_id: id.clone(), name: name.clone(), result: None })
            }
            _ => None,
        }
    }

    fn lower(self) -> Message {
        let (output, is_error) =
            self.result.unwrap_or_else(|| (vec![Content::Text(INTERRUPTED.to_owned())], true));
        Message::Tool { call_id: self.call_id, name: self.name, output, is_error }
    }
}

fn says_something(block: &Block) -> bool {
    match block {
        Block::Text { text, .. } => !text.trim().is_empty(),
        // A signed or encrypted block may have no readable text and still has to be replayed.
        Block::Reasoning { text, metadata } => metadata.is_some() || !text.trim().is_empty(),
        Block::ToolCall { .. } | Block::HostedCall { .. } | Block::HostedResult { .. } => true,
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
        Message::Tool {
            call_id: id.into(),
            name: "read".into(),
            output: vec![Content::Text(output.into())],
            is_error: false,
        }
    }

    fn interrupted(id: &str) -> Message {
        let output = vec![Content::Text(INTERRUPTED.into())];
        Message::Tool { call_id: id.into(), name: "read".into(), output, is_error: true }
    }

    fn asked() -> AnswerOrigin {
        AnswerOrigin { provider: "anthropic".into(), model: "claude".into() }
    }

    fn answer(blocks: Vec<Block>) -> Message {
        Message::Assistant { blocks, origin: Some(asked()) }
    }

    #[expect(clippy::needless_pass_by_value, reason = "a test reads best with its values in place")]
    fn check(input: Vec<Message>, expected: Vec<Message>) {
        let repaired = repair(input, &asked());
        assert_eq!(repaired, expected);
        assert_eq!(repair(repaired, &asked()), expected, "repair is idempotent");
    }

    #[test]
    fn sound_history_is_unchanged() {
        let history = vec![
            user("hi"),
            Message::System("be kind".into()),
            answer(vec![text("looking"), call("a"), call("b")]),
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
            vec![user("hi"), answer(vec![call("a"), call("b")]), result("b", "2"), user("go on")],
            vec![
                user("hi"),
                answer(vec![call("a"), call("b")]),
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
                answer(vec![call("a")]),
                result("a", "1"),
                result("a", "again"),
                result("y", "nobody asked"),
            ],
            vec![answer(vec![call("a")]), result("a", "1")],
        );
    }

    #[test]
    fn results_move_next_to_their_call() {
        check(
            vec![
                answer(vec![call("a"), call("b")]),
                Message::System("note".into()),
                result("b", "2"),
                user("stop"),
                result("a", "1"),
            ],
            vec![
                answer(vec![call("a"), call("b")]),
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
            vec![answer(vec![call("a")]), result("a", "1"), answer(vec![call("a")]), result("a", "2")],
            vec![answer(vec![call("a")]), result("a", "1"), answer(vec![call("a")]), result("a", "2")],
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
                answer(vec![text(""), silent.clone()]),
                answer(vec![signed.clone(), silent, text("ok")]),
            ],
            vec![answer(vec![signed, text("ok")])],
        );
    }

    #[test]
    fn what_only_another_model_understands_stays_behind() {
        let signed = |text: &str| Block::Text { text: text.into(), metadata: Some(json!({"anthropic": 1})) };
        let thought = Block::Reasoning { text: "hm".into(), metadata: Some(json!({"anthropic": 2})) };
        let search =
            Block::HostedCall { id: "h".into(), name: "web".into(), input: json!({}), metadata: None };
        let found =
            Block::HostedResult { id: "h".into(), name: "web".into(), output: json!([]), metadata: None };
        let blocks = vec![thought, search, found, signed("so"), call("a")];
        let whole = vec![answer(blocks.clone()), result("a", "1")];
        check(whole.clone(), whole);
        for origin in [None, Some(AnswerOrigin { model: "other".into(), ..asked() })] {
            let foreign = Message::Assistant { blocks: blocks.clone(), origin: origin.clone() };
            let left = Message::Assistant { blocks: vec![text("so"), call("a")], origin };
            check(vec![foreign, result("a", "1")], vec![left, result("a", "1")]);
        }
    }

    #[test]
    fn a_hosted_call_without_a_result_remains_only_at_the_end() {
        let search = |id: &str| Block::HostedCall {
            id: id.into(),
            name: "web".into(),
            input: json!({}),
            metadata: None,
        };
        let found = |id: &str| Block::HostedResult {
            id: id.into(),
            name: "web".into(),
            output: json!([]),
            metadata: None,
        };
        check(
            vec![
                answer(vec![search("1"), search("2"), found("2"), found("2"), found("3")]),
                user("go on"),
                answer(vec![search("4")]),
            ],
            vec![answer(vec![search("2"), found("2")]), user("go on"), answer(vec![search("4")])],
        );
    }

    #[test]
    fn instructions_are_wrapped_and_join_what_was_said_before() {
        let update = |text: &str| Content::Text(format!("<system-update>\n{text}\n</system-update>"));
        let input = vec![
            user("hi"),
            Message::System("a </system-update> & b".into()),
            answer(vec![text("ok")]),
            Message::System("note".into()),
        ];
        let escaped = update("a &lt;/system-update&gt; &amp; b");
        let expected = vec![
            Message::User(vec![Content::Text("hi".into()), escaped]),
            answer(vec![text("ok")]),
            Message::User(vec![update("note")]),
        ];
        assert_eq!(wrap_system(&input), expected);
    }
}

//! The tool calls of one answer, assembled from pieces.
//!
//! By the book a piece names its call by `index` and only the first one has `id` and `name`. In practice the index
//! may be missing or always zero, the id may be missing or come again with every piece, and arguments may be an
//! object instead of text. A call is handed out as soon as it is certainly complete: when the answer says so, or
//! when the next call begins and the arguments so far are a whole JSON object.

use std::borrow::Cow;

use serde_json::{Value, json};

use super::decode::METADATA;
use super::wire::ChatToolCall;
use crate::protocol::text::{LooseText, WireText};
use crate::protocol::{Events, FrameFault};
use crate::{StreamEvent, arguments};

/// All calls of one answer, in order.
#[derive(Debug)]
pub(super) struct ChatCalls {
    list: Vec<ChatCall>,
    prefix: String,
}

#[derive(Debug, Default)]
struct ChatCall {
    index: Option<u64>,
    id: String,
    name: String,
    raw: String,
    extra: Option<Value>,
    announced: bool,
    settled: bool,
}

impl ChatCalls {
    /// `prefix` begins the ids of calls that come without one.
    pub(super) fn new(prefix: String) -> Self {
        Self { list: Vec::new(), prefix }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Takes one piece.
    pub(super) fn accept(&mut self, piece: ChatToolCall<'_>, out: &mut Events) -> Result<(), FrameFault> {
        let function = piece.function;
        let (name, arguments) = function.map_or((None, None), |function| (function.name, function.arguments));
        let id = piece.id.filter(|id| !id.is_empty());
        let name = name.filter(|name| !name.is_empty());
        let more = match arguments {
            None | Some(LooseText::Other(Value::Null)) => Cow::Borrowed(""),
            Some(LooseText::Text(text)) => text,
            Some(LooseText::Other(other)) => Cow::Owned(other.to_string()),
        };
        let position = self.find(piece.index, id.as_deref(), name.is_some());
        let position = match position {
            Some(position) => position,
            None => self.begin(piece.index, id.map(|WireText(id)| id.into_owned()), out),
        };
        let Some(call) = self.list.get_mut(position) else { return Ok(()) };
        if call.settled {
            return if more.trim().is_empty() {
                Ok(())
            } else {
                Err(FrameFault::Malformed(format!("tool call {:?} goes on after its end", call.id)))
            };
        }
        if let Some(name) = name.filter(|_| call.name.is_empty()) {
            call.name = name.0.into_owned();
        }
        call.extra = piece.extra_content.map(|extra| *extra).or_else(|| call.extra.take());
        call.extend(more, out);
        Ok(())
    }

    /// Ends every call that is still open.
    pub(super) fn settle_all(&mut self, out: &mut Events) {
        for call in self.list.iter_mut().filter(|call| !call.settled) {
            let input = arguments::parse(&call.raw);
            call.settle(input, out);
        }
    }

    fn find(&self, index: Option<u64>, id: Option<&str>, named: bool) -> Option<usize> {
        let position = match (index, id) {
            (Some(index), _) => self.list.iter().rposition(|call| call.index == Some(index)),
            (None, Some(id)) => self.list.iter().rposition(|call| call.id == id),
            (None, None) => self.list.len().checked_sub(1),
        }?;
        let call = self.list.get(position)?;
        // A name together with another id, or a second name where nothing else tells calls apart: a new call.
        let other_id = id.is_some_and(|id| id != call.id);
        let unmarked = index.is_none() && id.is_none() && !call.name.is_empty();
        (!(named && (other_id || unmarked))).then_some(position)
    }

    /// Adds a call; the ones before it are complete if their arguments are.
    fn begin(&mut self, index: Option<u64>, id: Option<String>, out: &mut Events) -> usize {
        for call in self.list.iter_mut().filter(|call| !call.settled && !call.raw.is_empty()) {
            if let Ok(input) = arguments::parse(&call.raw) {
                call.settle(Ok(input), out);
            }
        }
        let position = self.list.len();
        // Two calls of one id could not be told apart afterwards.
        let id = id.filter(|id| self.list.iter().all(|call| call.id != *id));
        let id = id.unwrap_or_else(|| format!("{}_{position}", self.prefix));
        self.list.push(ChatCall { index, id, ..ChatCall::default() });
        position
    }
}

impl ChatCall {
    fn extend(&mut self, more: Cow<'_, str>, out: &mut Events) {
        self.raw.push_str(&more);
        if self.name.is_empty() {
            return;
        }
        let text = if self.announced { more.into_owned() } else { self.raw.clone() };
        self.announce(out);
        if !text.is_empty() {
            out.push_back(StreamEvent::ToolInputDelta { id: self.id.clone(), text });
        }
    }

    fn announce(&mut self, out: &mut Events) {
        if !std::mem::replace(&mut self.announced, true) {
            out.push_back(StreamEvent::ToolInputStart { id: self.id.clone(), name: self.name.clone() });
        }
    }

    fn settle(&mut self, input: Result<Value, String>, out: &mut Events) {
        self.announce(out);
        self.settled = true;
        let id = self.id.clone();
        let name = self.name.clone();
        let raw = std::mem::take(&mut self.raw);
        out.push_back(StreamEvent::ToolInputEnd { id: id.clone() });
        let input = if name.is_empty() { Err("the call names no tool".to_owned()) } else { input };
        out.push_back(match input {
            Ok(input) => {
                let metadata = self.extra.take().map(|extra| json!({METADATA: {"extra_content": extra}}));
                StreamEvent::ToolCall { id, name, input, raw, metadata }
            }
            Err(reason) => StreamEvent::ToolCallMalformed { id, name, raw, reason },
        });
    }
}

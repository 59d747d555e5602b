//! The items of one answer, each in its own state.
//!
//! Items may interleave. A frame names its item by an id and an index, and servers get either of the two wrong, so a
//! frame's kind is asked first: text belongs to a message, arguments to a call. Among the items of that sort the id
//! decides, then the index.

mod call;
mod digest;
mod hosted;
mod message;
mod reasoning;

use std::borrow::Cow;
use std::collections::HashMap;

use serde_json::{Map, Value, json};

use super::METADATA;
use super::wire::{ItemPlace, text};
use crate::protocol::Events;
use call::CallItem;
use message::MessageItem;
use reasoning::ReasoningItem;

pub(super) use reasoning::Section;

/// All items of one answer, in order.
#[derive(Debug)]
pub(super) struct OutputItems {
    list: Vec<OutputItem>,
    blocks: BlockNames,
    prefix: String,
}

#[derive(Debug)]
struct OutputItem {
    index: Option<u64>,
    id: Option<String>,
    done: bool,
    state: ItemState,
}

#[derive(Debug)]
enum ItemState {
    Message(MessageItem),
    Reasoning(ReasoningItem),
    Call(CallItem),
    /// Anything else. It is of interest only once it is complete.
    Hosted,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum ItemKind {
    Message,
    Reasoning,
    Call,
    Hosted,
}

impl ItemKind {
    fn of(item: &Value) -> Option<Self> {
        Some(match text(item, "type")? {
            "message" => Self::Message,
            "reasoning" => Self::Reasoning,
            "function_call" => Self::Call,
            _ => Self::Hosted,
        })
    }
}

impl OutputItem {
    fn sort(&self) -> ItemKind {
        match &self.state {
            ItemState::Message(_) => ItemKind::Message,
            ItemState::Reasoning(_) => ItemKind::Reasoning,
            ItemState::Call(_) => ItemKind::Call,
            ItemState::Hosted => ItemKind::Hosted,
        }
    }
}

/// Names for the blocks of one answer. Item ids will not do: not every server keeps them the same.
#[derive(Debug, Default)]
struct BlockNames(usize);

impl BlockNames {
    fn next(&mut self, kind: &str) -> String {
        let id = format!("{kind}-{}", self.0);
        self.0 = self.0.saturating_add(1);
        id
    }
}

/// What ties an item to others when it is replayed: its own id, and that of the reasoning right before it. OpenAI
/// refuses either of the two without the other.
#[derive(Debug, Default)]
struct ReplayIds {
    id: Option<String>,
    after: Option<String>,
}

impl ReplayIds {
    /// The metadata of a block, with what the item has to say besides.
    fn metadata(&self, more: Map<String, Value>) -> Option<Value> {
        let mut own = Map::new();
        own.extend(self.id.iter().map(|id| ("id".to_owned(), json!(id))));
        own.extend(self.after.iter().map(|id| ("after".to_owned(), json!(id))));
        own.extend(more);
        (!own.is_empty()).then(|| json!({METADATA: own}))
    }
}

impl OutputItems {
    /// `prefix` begins the ids of calls that come without one.
    pub(super) fn new(prefix: String) -> Self {
        Self { list: Vec::new(), blocks: BlockNames::default(), prefix }
    }

    /// Whether the model called a function.
    pub(super) fn has_calls(&self) -> bool {
        self.list.iter().any(|item| item.sort() == ItemKind::Call)
    }

    /// An item begins.
    pub(super) fn added(&mut self, at: ItemPlace<'_>, item: &Value, out: &mut Events) {
        let Some(sort) = ItemKind::of(item) else { return };
        // By its id only: a server that gives all items one index still says when a new one begins.
        let known = self.locate(sort, ItemPlace { index: None, ..at });
        let known = known
            .filter(|position| at.id.is_some() && self.list.get(*position).is_some_and(|item| !item.done));
        let position = match known {
            Some(position) => position,
            None => self.begin(sort, at, out),
        };
        let call_id = self.free_call_id(position, item);
        match self.list.get_mut(position).map(|item| &mut item.state) {
            Some(ItemState::Message(message)) => message.learn(item),
            Some(ItemState::Call(call)) => {
                call.learn(call_id, text(item, "name"), out);
            }
            Some(ItemState::Reasoning(_) | ItemState::Hosted) | None => {}
        }
    }

    /// An item is complete.
    pub(super) fn done(&mut self, at: ItemPlace<'_>, item: &Value, out: &mut Events) {
        let Some(sort) = ItemKind::of(item) else { return };
        let position = self.find(sort, at, out);
        self.finish(position, Some(item), false, out);
    }

    /// More text of a message.
    pub(super) fn text(
        &mut self,
        at: ItemPlace<'_>,
        part: u64,
        refusal: bool,
        more: Cow<'_, str>,
        out: &mut Events,
    ) {
        let position = self.find(ItemKind::Message, at, out);
        if let Some((message, blocks)) = self.message(position) {
            message.add(part, refusal, more, blocks, out);
        }
    }

    /// All text of a part of a message.
    pub(super) fn whole_text(
        &mut self,
        at: ItemPlace<'_>,
        part: u64,
        refusal: bool,
        whole: &str,
        out: &mut Events,
    ) {
        let position = self.find(ItemKind::Message, at, out);
        if let Some((message, blocks)) = self.message(position) {
            message.complete(part, refusal, whole, blocks, out);
        }
    }

    /// A part of a message is complete.
    pub(super) fn whole_part(&mut self, at: ItemPlace<'_>, part: u64, content: &Value, out: &mut Events) {
        // Some servers give reasoning parts, too, and call them text.
        if self.locate(ItemKind::Reasoning, at).is_some() || !message::is_part(content) {
            return;
        }
        let position = self.find(ItemKind::Message, at, out);
        if let Some((message, blocks)) = self.message(position) {
            message.take(part, content, blocks, out);
        }
    }

    /// A part of a message has a note.
    pub(super) fn annotate(&mut self, at: ItemPlace<'_>, part: u64, annotation: Option<&Value>) {
        let position = self.locate(ItemKind::Message, at);
        if let Some((message, _)) = position.and_then(|position| self.message(position)) {
            message.annotate(part, annotation);
        }
    }

    /// More of what the model thought.
    pub(super) fn thought(
        &mut self,
        at: ItemPlace<'_>,
        section: Section,
        more: Cow<'_, str>,
        out: &mut Events,
    ) {
        let position = self.find(ItemKind::Reasoning, at, out);
        if let Some(reasoning) = self.reasoning(position) {
            reasoning.add(section, more, out);
        }
    }

    /// All of one section of what the model thought.
    pub(super) fn whole_thought(
        &mut self,
        at: ItemPlace<'_>,
        section: Section,
        whole: &str,
        out: &mut Events,
    ) {
        let position = self.find(ItemKind::Reasoning, at, out);
        if let Some(reasoning) = self.reasoning(position) {
            reasoning.complete(section, whole, out);
        }
    }

    /// More of a call's arguments.
    pub(super) fn arguments(&mut self, at: ItemPlace<'_>, more: Cow<'_, str>, out: &mut Events) {
        let position = self.find(ItemKind::Call, at, out);
        if let Some(call) = self.call(position) {
            call.add(more, out);
        }
    }

    /// All of a call's arguments.
    pub(super) fn whole_arguments(
        &mut self,
        at: ItemPlace<'_>,
        name: Option<&str>,
        whole: Option<&Value>,
        out: &mut Events,
    ) {
        let position = self.find(ItemKind::Call, at, out);
        if let Some(call) = self.call(position) {
            call.learn(None, name, out);
            call.complete(whole, out);
        }
    }

    /// Ends all items. `output` is the answer as the terminal frame gives it: it may be empty, lack items or have
    /// other ids than the stream, so the first message there is the first message here, and so on for each sort.
    /// `cut` says that the answer was cut short.
    pub(super) fn settle(&mut self, output: &[Value], cut: bool, out: &mut Events) {
        let mut counts: HashMap<ItemKind, usize> = HashMap::new();
        for item in output {
            let Some(sort) = ItemKind::of(item) else { continue };
            let count = counts.entry(sort).or_default();
            let known = self.list.iter().enumerate().filter(|(_, item)| item.sort() == sort).nth(*count);
            *count = count.saturating_add(1);
            let position = match known.map(|(position, _)| position) {
                Some(position) => position,
                None => self.begin(sort, ItemPlace { index: None, id: text(item, "id") }, out),
            };
            self.finish(position, Some(item), cut, out);
        }
        for position in 0..self.list.len() {
            self.finish(position, None, cut, out);
        }
    }

    fn finish(&mut self, position: usize, whole: Option<&Value>, cut: bool, out: &mut Events) {
        let call_id = whole.and_then(|whole| self.free_call_id(position, whole));
        let fallback = format!("{}_{position}", self.prefix);
        let before = position.checked_sub(1).and_then(|before| self.list.get(before));
        let after = before.filter(|item| item.sort() == ItemKind::Reasoning).and_then(|item| item.id.clone());
        let Some(item) = self.list.get_mut(position).filter(|item| !item.done) else { return };
        item.done = true;
        if let Some(id) = whole.and_then(|whole| text(whole, "id")) {
            item.id = Some(id.to_owned());
        }
        let tie = ReplayIds { id: item.id.clone(), after };
        match &mut item.state {
            ItemState::Message(message) => message.finish(whole, &tie, &mut self.blocks, out),
            ItemState::Reasoning(reasoning) => reasoning.finish(whole, &tie, out),
            ItemState::Call(call) => {
                if let Some(whole) = whole {
                    call.learn(call_id, text(whole, "name"), out);
                }
                call.finish(whole, cut, &tie, fallback, out);
            }
            ItemState::Hosted => {
                if let Some(whole) = whole {
                    hosted::hand_out(whole, tie, fallback, out);
                }
            }
        }
    }

    /// The position of the item that a frame is about; it begins if nothing was said of it before.
    fn find(&mut self, sort: ItemKind, at: ItemPlace<'_>, out: &mut Events) -> usize {
        match self.locate(sort, at) {
            Some(position) => position,
            None => self.begin(sort, at, out),
        }
    }

    fn locate(&self, sort: ItemKind, at: ItemPlace<'_>) -> Option<usize> {
        let last = |fits: &dyn Fn(&OutputItem) -> bool| {
            self.list.iter().rposition(|item| item.sort() == sort && fits(item))
        };
        match (at.id, at.index) {
            (None, None) => last(&|item| !item.done),
            (id, index) => last(&|item| id.is_some() && item.id.as_deref() == id)
                .or_else(|| last(&|item| index.is_some() && item.index == index && !item.done)),
        }
    }

    fn begin(&mut self, sort: ItemKind, at: ItemPlace<'_>, out: &mut Events) -> usize {
        let position = self.list.len();
        let state = match sort {
            ItemKind::Message => ItemState::Message(MessageItem::default()),
            ItemKind::Reasoning => {
                ItemState::Reasoning(ReasoningItem::begin(self.blocks.next("reasoning"), out))
            }
            ItemKind::Call => ItemState::Call(CallItem::default()),
            ItemKind::Hosted => ItemState::Hosted,
        };
        self.list.push(OutputItem { index: at.index, id: at.id.map(str::to_owned), done: false, state });
        position
    }

    /// The call id of an item, unless another call of this answer has it: nobody could tell the two apart afterwards.
    fn free_call_id(&self, position: usize, item: &Value) -> Option<String> {
        let id = text(item, "call_id")?;
        let taken = self.list.iter().enumerate().any(|(other, item)| {
            other != position && matches!(&item.state, ItemState::Call(call) if call.is_called(id))
        });
        (!taken).then(|| id.to_owned())
    }

    fn open(&mut self, position: usize) -> Option<&mut ItemState> {
        self.list.get_mut(position).filter(|item| !item.done).map(|item| &mut item.state)
    }

    fn message(&mut self, position: usize) -> Option<(&mut MessageItem, &mut BlockNames)> {
        let item = self.list.get_mut(position).filter(|item| !item.done)?;
        match &mut item.state {
            ItemState::Message(message) => Some((message, &mut self.blocks)),
            _ => None,
        }
    }

    fn reasoning(&mut self, position: usize) -> Option<&mut ReasoningItem> {
        match self.open(position)? {
            ItemState::Reasoning(reasoning) => Some(reasoning),
            _ => None,
        }
    }

    fn call(&mut self, position: usize) -> Option<&mut CallItem> {
        match self.open(position)? {
            ItemState::Call(call) => Some(call),
            _ => None,
        }
    }
}

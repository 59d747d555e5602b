//! The conversation as a list of items.
//!
//! OpenAI is strict about what belongs together. A call and its output share an id that nothing else in the list may
//! have; no item id may stand twice; and reasoning goes with the item that it led to, neither without the other. What
//! an item followed is kept in its metadata (`after`), so that a gap in the history is noticed.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use super::wire::text;
use super::{METADATA, media};
use crate::call_id::{CallIdRule, CallIds};
use crate::{Block, Content, Message, ModelRequest, arguments, protocol};

/// The longest call id that OpenAI takes. Those of other providers may be longer.
const CALL_ID_LIMIT: usize = 64;

/// All items of a request whose history has been repaired.
pub(super) fn items(request: &ModelRequest) -> Vec<Value> {
    let calls = CallIds::new(CallIdRule::AtMost(CALL_ID_LIMIT));
    let mut input = InputItems { list: Vec::new(), calls, ids: HashSet::new() };
    let system = request.system.iter().filter(|part| !part.trim().is_empty());
    let system: Vec<&str> = system.map(String::as_str).collect();
    if !system.is_empty() {
        input.list.push(instruction(&system.join("\n\n")));
    }
    for message in &request.messages {
        match message {
            Message::User(contents) => input.user(contents),
            Message::Assistant { blocks, .. } => input.answer(blocks),
            Message::Tool { call_id, output, .. } => input.output(call_id, output),
            Message::System(text) => input.list.push(instruction(text)),
        }
    }
    input.list
}

/// OpenAI's own name for this role is `developer` now, but it takes `system` for all its models, and many other
/// servers know nothing else.
fn instruction(text: &str) -> Value {
    json!({"type": "message", "role": "system", "content": text})
}

struct InputItems {
    list: Vec<Value>,
    calls: CallIds,
    ids: HashSet<String>,
}

/// What one answer has said so far.
#[derive(Default)]
struct AnswerSoFar {
    /// Reasoning that waits for the item it led to.
    thoughts: Vec<Value>,
    /// Whether reasoning was left out. What it led to must then not be known as such: it goes without its id.
    bare: bool,
    /// The id of the message that the last item is.
    message: Option<String>,
    /// Calls of the provider's own tools that were put and wait for their answer.
    hosted: HashSet<(String, String)>,
}

impl AnswerSoFar {
    /// Leaves out the reasoning that waits.
    fn forget(&mut self) {
        self.bare |= !self.thoughts.is_empty();
        self.thoughts.clear();
    }

    /// Leaves out what was said just now.
    fn skip(&mut self) {
        self.forget();
        self.message = None;
    }

    /// Leaves out the reasoning that waits unless it led to this item, and remembers if the item lacks its own.
    fn join(&mut self, own: Option<&Value>) {
        let after = own.and_then(|own| text(own, "after"));
        if let (Some(last), Some(_)) = (self.thoughts.last(), own)
            && text(last, "id") != after
        {
            self.forget();
        }
        match self.thoughts.is_empty() {
            true => self.bare |= after.is_some(),
            false => self.bare = false,
        }
    }
}

impl InputItems {
    fn user(&mut self, contents: &[Content]) {
        let parts: Vec<Value> = contents.iter().filter_map(media::part).collect();
        if !parts.is_empty() {
            self.list.push(json!({"type": "message", "role": "user", "content": parts}));
        }
    }

    /// Whether the tool failed is for its words to say: the protocol has no mark for it.
    fn output(&mut self, call_id: &str, output: &[Content]) {
        let Some(call_id) = self.calls.answer(call_id) else { return };
        let shows = output.iter().any(|content| matches!(content, Content::Media { .. }));
        let output = if shows {
            output.iter().filter_map(media::part).collect()
        } else {
            json!(Content::text_of(output))
        };
        self.list.push(json!({"type": "function_call_output", "call_id": call_id, "output": output}));
    }

    fn answer(&mut self, blocks: &[Block]) {
        let mut answer = AnswerSoFar::default();
        let mut rest = blocks.iter();
        while let Some(block) = rest.next() {
            match block {
                Block::Reasoning { text, metadata } => self.think(&mut answer, text, own(metadata.as_ref())),
                Block::Text { text, metadata } => self.say(&mut answer, text, own(metadata.as_ref())),
                Block::ToolCall { id, name, input, metadata } => {
                    let own = own(metadata.as_ref());
                    let arguments = written(input, own);
                    let call_id = self.calls.call(id);
                    let mut item = json!({"type": "function_call", "call_id": call_id, "name": name,
                        "arguments": arguments});
                    answer.join(own);
                    self.identify(&answer, &mut item, own);
                    self.put(&mut answer, item);
                }
                Block::HostedCall { metadata, .. } => {
                    self.replay(&mut answer, own(metadata.as_ref()), rest.as_slice());
                }
                // It is part of the item that the call was made of.
                Block::HostedResult { .. } => {}
            }
        }
    }

    fn think(&self, answer: &mut AnswerSoFar, shown: &str, own: Option<&Value>) {
        let is_new = |item: &Value| {
            text(item, "id").is_none_or(|id| {
                !self.ids.contains(id) && answer.thoughts.iter().all(|other| text(other, "id") != Some(id))
            })
        };
        let Some(item) = own.and_then(|own| reasoning(shown, own)).filter(is_new) else {
            answer.skip();
            answer.bare = true;
            return;
        };
        answer.join(own);
        answer.message = None;
        answer.thoughts.push(item);
    }

    fn say(&mut self, answer: &mut AnswerSoFar, said: &str, own: Option<&Value>) {
        let mark = |name: &str| own.and_then(|own| own.get(name));
        let part = if mark("refusal").is_some() {
            json!({"type": "refusal", "refusal": said})
        } else {
            let annotations = mark("annotations").cloned().unwrap_or_else(|| json!([]));
            json!({"type": "output_text", "text": said, "annotations": annotations})
        };
        let id = own.and_then(|own| text(own, "id")).map(str::to_owned);
        // Parts of one message come as blocks of their own.
        if id.is_some()
            && answer.message == id
            && let Some(Value::Array(content)) = self.list.last_mut().and_then(|last| last.get_mut("content"))
        {
            content.push(part);
            return;
        }
        let mut item = json!({"type": "message", "role": "assistant", "content": [part]});
        if let (Some(phase), Some(fields)) = (mark("phase"), item.as_object_mut()) {
            fields.insert("phase".into(), phase.clone());
        }
        answer.join(own);
        self.identify(answer, &mut item, own);
        self.put(answer, item);
        answer.message = id;
    }

    /// Puts an item of one of the provider's own tools back as it came. `rest` is what the answer still says.
    fn replay(&mut self, answer: &mut AnswerSoFar, own: Option<&Value>, rest: &[Block]) {
        let item = own.and_then(|own| own.get("item")).filter(|item| text(item, "type").is_some());
        let Some(mut item) = item.cloned() else {
            answer.skip();
            return;
        };
        answer.join(own);
        let link = link(&item);
        if link.as_ref().is_some_and(|link| link.is_output) {
            // Reasoning leads to what the model does, not to what it is told.
            answer.forget();
        }
        let doubled = text(&item, "id").is_some_and(|id| self.ids.contains(id));
        // A call does not go without its id, so it cannot go where ids are left out. An answer can.
        let goes = match link {
            None => !doubled && !answer.bare,
            Some(link) if link.is_output => answer.hosted.remove(&link.call()),
            Some(link) => {
                !doubled && !answer.bare && link.is_answered(rest) && answer.hosted.insert(link.call())
            }
        };
        if !goes {
            answer.skip();
            return;
        }
        if let (true, Some(fields)) = (doubled, item.as_object_mut()) {
            fields.shift_remove("id");
        }
        self.put(answer, item);
    }

    /// Gives an item its id back, if it may have it.
    fn identify(&self, answer: &AnswerSoFar, item: &mut Value, own: Option<&Value>) {
        let id = own.and_then(|own| text(own, "id")).filter(|id| !answer.bare && !self.ids.contains(*id));
        if let (Some(id), Some(fields)) = (id, item.as_object_mut()) {
            fields.insert("id".into(), json!(id));
            fields.insert("status".into(), json!("completed"));
        }
    }

    fn put(&mut self, answer: &mut AnswerSoFar, item: Value) {
        answer.message = None;
        for item in answer.thoughts.drain(..).chain([item]) {
            self.ids.extend(text(&item, "id").map(str::to_owned));
            self.list.push(item);
        }
    }
}

fn own(metadata: Option<&Value>) -> Option<&Value> {
    protocol::own(metadata, METADATA)
}

/// A reasoning item as it came. Nothing is stored with the provider, so it means something only if it is encrypted.
fn reasoning(shown: &str, own: &Value) -> Option<Value> {
    let encrypted = text(own, "encrypted_content")?;
    let mut item = Map::new();
    item.insert("type".into(), json!("reasoning"));
    item.extend(text(own, "id").map(|id| ("id".to_owned(), json!(id))));
    let summary = match own.get("summary") {
        Some(summary @ Value::Array(_)) => summary.clone(),
        _ if shown.is_empty() => json!([]),
        _ => json!([{"type": "summary_text", "text": shown}]),
    };
    item.insert("summary".into(), summary);
    item.insert("encrypted_content".into(), json!(encrypted));
    Some(Value::Object(item))
}

/// The arguments as the model wrote them, where that is known and still holds.
fn written(input: &Value, own: Option<&Value>) -> String {
    let raw = own.and_then(|own| text(own, "arguments"));
    match raw.filter(|raw| arguments::parse(raw).as_ref() == Ok(input)) {
        Some(raw) => raw.to_owned(),
        None if input.is_object() => input.to_string(),
        None => "{}".to_owned(),
    }
}

/// Which call an item makes or answers. Only items that somebody has to answer have a call id: one without its answer
/// is refused, and so is an answer without its call.
struct CallLink {
    kind: String,
    call_id: String,
    is_output: bool,
}

fn link(item: &Value) -> Option<CallLink> {
    let (kind, call_id) = (text(item, "type")?, text(item, "call_id")?.to_owned());
    let call = kind.strip_suffix("_output");
    Some(CallLink { kind: call.unwrap_or(kind).to_owned(), call_id, is_output: call.is_some() })
}

impl CallLink {
    fn call(&self) -> (String, String) {
        (self.kind.clone(), self.call_id.clone())
    }

    fn is_answered(&self, rest: &[Block]) -> bool {
        rest.iter().any(|block| match block {
            Block::HostedCall { metadata, .. } => {
                let item = own(metadata.as_ref()).and_then(|own| own.get("item"));
                item.and_then(link).is_some_and(|other| other.is_output && other.call() == self.call())
            }
            _ => false,
        })
    }
}

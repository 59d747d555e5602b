//! A provider that plays a script, without network.
//!
//! It serves trials, demonstrations and tests of whatever sits above: the events have the shape and order of a real
//! answer, and a failure is the error that it would be over HTTP. Which step is played follows from the conversation
//! alone (how many assistant turns stand after the last user message), so a session that was killed and resumed goes on
//! where it was. Only the tries of one request are counted, for failures that pass: they have the same conversation.

mod demo;
mod play;
pub mod script;

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use serde_json::json;

use crate::{Content, EventStream, Message, ModelRequest, PreparedRequest, Provider};
use play::ScriptPlayback;
pub use script::{Script, ScriptError};
use script::{ScriptStep, ScriptText};

/// What is said when the conversation goes on after the last step.
const EXHAUSTED: &str = "The script has no further steps.";

/// How many milliseconds pass before each word of the demo.
const DEMO_PACE: u64 = 15;

/// A provider that plays a script.
#[derive(Debug, Clone)]
pub struct Scripted {
    source: ScriptSource,
    tries: Arc<Mutex<HashMap<ConversationKey, u64>>>,
}

#[derive(Debug, Clone)]
enum ScriptSource {
    Script(Arc<Script>),
    Demo,
}

/// What identifies a request over its tries: whose conversation it is, and how far that has come.
type ConversationKey = (Option<String>, usize);

impl Scripted {
    /// Plays a script.
    pub fn new(script: Script) -> Self {
        Self::of(ScriptSource::Script(Arc::new(script)))
    }

    /// Plays the script in a file.
    ///
    /// # Errors
    ///
    /// When the file cannot be read, or is not a script.
    pub fn read(path: &Path) -> Result<Self, ScriptError> {
        Script::read(path).map(Self::new)
    }

    /// The model of `everturn demo`: it changes the greeting in the `greeting.txt` named by the prompt.
    pub fn demo() -> Self {
        Self::of(ScriptSource::Demo)
    }

    fn of(source: ScriptSource) -> Self {
        Self { source, tries: Arc::default() }
    }

    /// How often this request was made before.
    fn count(&self, request: &ModelRequest) -> u64 {
        let mut tries = self.tries.lock().unwrap_or_else(PoisonError::into_inner);
        let count = tries.entry((request.cache_key.clone(), request.messages.len())).or_default();
        let before = *count;
        *count = before.saturating_add(1);
        before
    }
}

impl Provider for Scripted {
    fn prepare(&self, request: ModelRequest) -> PreparedRequest {
        let request = request.repaired();
        // Nobody is sent anything; this is for those who want to see what would be.
        let messages: Vec<String> = request.messages.iter().map(|message| format!("{message:?}")).collect();
        let tools: Vec<&str> = request.tools.iter().map(|tool| tool.name.as_str()).collect();
        let body =
            json!({"model": request.model, "system": request.system, "messages": messages, "tools": tools});
        PreparedRequest::new(request, Bytes::from(body.to_string().into_bytes()))
    }

    fn send(&self, prepared: &PreparedRequest) -> EventStream {
        let request = prepared.request.as_ref();
        let (step, pace) = match &self.source {
            ScriptSource::Demo => (demo::step(request, turns_since_prompt(&request.messages)), DEMO_PACE),
            ScriptSource::Script(script) => (step(script, request), script.pace),
        };
        ScriptPlayback::new(step, pace, request, self.count(request)).into_stream()
    }
}

/// The step of a script that a request asks for.
fn step(script: &Script, request: &ModelRequest) -> ScriptStep {
    let prompt = request.messages.iter().rev().find_map(prompt_text).unwrap_or_default();
    // A request without tools is for a title.
    if request.tools.is_empty() {
        return say(script.title.clone().unwrap_or(prompt));
    }
    let fitting =
        script.steps.iter().filter(|step| step.when.as_ref().is_none_or(|words| prompt.contains(words)));
    let step = fitting.into_iter().nth(turns_since_prompt(&request.messages)).cloned();
    step.unwrap_or_else(|| say(EXHAUSTED.to_owned()))
}

/// A step that says something and nothing else.
fn say(text: String) -> ScriptStep {
    ScriptStep { text: Some(ScriptText::from(text)), ..ScriptStep::default() }
}

/// Assistant messages after the last thing the user said.
fn turns_since_prompt(messages: &[Message]) -> usize {
    let since = messages.iter().rev().take_while(|message| prompt_text(message).is_none());
    since.filter(|message| matches!(message, Message::Assistant { .. })).count()
}

/// The text of a user message; reminders the runtime injects are not prompts.
fn prompt_text(message: &Message) -> Option<String> {
    let Message::User(contents) = message else { return None };
    let text = Content::text_of(contents);
    (!text.trim_start().starts_with("<system-reminder>")).then_some(text)
}

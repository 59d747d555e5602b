//! Prompts as clients send them.

use everturn_engine::Prompt;
use everturn_engine::inbox::PartInput;
use everturn_model::inbox::Delivery;
use everturn_model::part::{PartKind, Span};
use everturn_model::session::ModelRef;
use everturn_model::{Map, Millis};
use serde::Deserialize;
use serde_json::Value;

use super::session::Model;
use crate::error::Error;
use crate::input::{entry_id, part_id};

/// A prompt.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PromptBody {
    #[serde(rename = "messageID")]
    message: Option<String>,
    model: Option<Model>,
    variant: Option<String>,
    agent: Option<String>,
    #[serde(default)]
    no_reply: bool,
    system: Option<String>,
    tools: Option<Map>,
    format: Option<Format>,
    parts: Vec<PartBody>,
}

#[derive(Debug, Deserialize)]
struct Format {
    #[serde(rename = "type")]
    kind: String,
}

#[derive(Debug, Deserialize)]
struct PartBody {
    id: Option<String>,
    #[serde(flatten)]
    kind: Kind,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum Kind {
    Text {
        text: String,
        synthetic: Option<bool>,
        ignored: Option<bool>,
        time: Option<Time>,
        metadata: Option<Map>,
    },
    File {
        mime: String,
        filename: Option<String>,
        url: String,
        source: Option<Value>,
    },
    Agent {
        name: String,
        source: Option<Value>,
    },
    Subtask {
        prompt: String,
        description: String,
        agent: String,
        model: Option<Model>,
        command: Option<String>,
    },
}

#[derive(Debug, Deserialize)]
struct Time {
    start: Millis,
    end: Option<Millis>,
}

impl PromptBody {
    /// What the engine is asked for.
    pub(crate) fn into_prompt(self) -> Result<Prompt, Error> {
        if self.format.is_some_and(|format| format.kind != "text") {
            return Err(Error::Absent("an answer in a given JSON schema"));
        }
        if self.parts.is_empty() {
            return Err(Error::body("a prompt needs at least one part"));
        }
        let variant = self.variant;
        Ok(Prompt {
            id: self.message.map(entry_id).transpose()?,
            agent: self.agent,
            model: self.model.map(|model| model.with_variant(variant)),
            system: self.system,
            tools: self.tools,
            parts: self.parts.into_iter().map(PartBody::into_part).collect::<Result<_, _>>()?,
            delivery: Delivery::Steer,
            reply: !self.no_reply,
        })
    }
}

impl PartBody {
    fn into_part(self) -> Result<PartInput, Error> {
        Ok(PartInput { id: self.id.map(part_id).transpose()?, kind: self.kind.into() })
    }
}

impl From<Kind> for PartKind {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Text { text, synthetic, ignored, time, metadata } => {
                let time = time.map(|time| Span { start: time.start, end: time.end });
                Self::Text { text, synthetic, ignored, time, metadata }
            }
            Kind::File { mime, filename, url, source } => Self::File { mime, filename, url, source },
            Kind::Agent { name, source } => Self::Agent { name, source },
            Kind::Subtask { prompt, description, agent, model, command } => {
                Self::Subtask { prompt, description, agent, model: model.map(ModelRef::from), command }
            }
        }
    }
}

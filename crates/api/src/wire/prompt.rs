//! Prompts as clients send them.

use everturn_engine::Prompt;
use everturn_engine::inbox::{PartInput, ResourceAddress};
use everturn_model::entry::AnswerShape;
use everturn_model::inbox::Delivery;
use everturn_model::part::{PartKind, Span};
use everturn_model::session::ModelRef;
use everturn_model::{EntryId, Map, Millis, PartId};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::message::OutputFormat;
use super::part::{FilePartSource, MentionSource};
use super::session::ModelInMessage;
use crate::error::Error;
use crate::input::Id;

/// A prompt.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PromptBody {
    /// The id that the message is to have. The same prompt under the same id again is the same prompt.
    #[serde(rename = "messageID")]
    message: Option<Id<EntryId>>,
    model: Option<ModelInMessage>,
    variant: Option<String>,
    agent: Option<String>,
    /// Only to be kept: nobody answers.
    #[serde(default)]
    no_reply: bool,
    system: Option<String>,
    #[schemars(with = "Option<std::collections::BTreeMap<String, bool>>")]
    tools: Option<Map>,
    #[schemars(with = "Option<OutputFormat>")]
    format: Option<RequestedFormat>,
    parts: Vec<PromptPart>,
}

/// How the answer is to look: `text`, or a `json_schema`.
#[derive(Debug, Deserialize)]
struct RequestedFormat {
    #[serde(rename = "type")]
    kind: String,
    schema: Option<Value>,
    #[serde(rename = "retryCount")]
    retries: Option<u64>,
}

/// How often an answer that has not the shape is tried again, unless the client says.
const RETRIES: u64 = 2;

impl RequestedFormat {
    /// The shape that is asked for; none for text.
    fn shape(self) -> Result<Option<AnswerShape>, Error> {
        match (self.kind.as_str(), self.schema) {
            ("text", _) => Ok(None),
            ("json_schema", Some(schema @ Value::Object(_))) => {
                Ok(Some(AnswerShape { schema, retries: self.retries.unwrap_or(RETRIES) }))
            }
            ("json_schema", _) => Err(Error::Body("format.schema must be a JSON schema".to_owned())),
            (other, _) => Err(Error::Body(format!("format.type must be text or json_schema, not {other:?}"))),
        }
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(inline)]
pub(crate) struct PromptPart {
    id: Option<Id<PartId>>,
    #[serde(flatten)]
    kind: PromptPartKind,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(inline)]
#[serde(tag = "type", rename_all = "lowercase")]
enum PromptPartKind {
    Text {
        text: String,
        synthetic: Option<bool>,
        ignored: Option<bool>,
        time: Option<PromptPartTime>,
        metadata: Option<Map>,
    },
    File {
        mime: String,
        filename: Option<String>,
        url: String,
        #[schemars(with = "Option<FilePartSource>")]
        source: Option<Value>,
    },
    Agent {
        name: String,
        #[schemars(with = "Option<MentionSource>")]
        source: Option<Value>,
    },
    Subtask {
        prompt: String,
        description: String,
        agent: String,
        model: Option<ModelInMessage>,
        command: Option<String>,
    },
}

#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(inline)]
struct PromptPartTime {
    start: Millis,
    end: Option<Millis>,
}

impl PromptBody {
    /// What the engine is asked for.
    pub(crate) fn into_prompt(self) -> Result<Prompt, Error> {
        let format = self.format.map(RequestedFormat::shape).transpose()?.flatten();
        if self.parts.is_empty() {
            return Err(Error::Body("a prompt needs at least one part".to_owned()));
        }
        let mut tools = self.tools.iter().flatten();
        if let Some((name, value)) = tools.find(|(_, value)| !value.is_boolean()) {
            return Err(Error::Body(format!("tools.{name} must be true or false, not {value}")));
        }
        let variant = self.variant;
        Ok(Prompt {
            id: self.message.map(|id| id.0),
            agent: self.agent,
            model: self.model.map(|model| model.with_variant(variant)),
            system: self.system,
            tools: self.tools,
            format,
            parts: self.parts.into_iter().map(PartInput::from).collect(),
            delivery: Delivery::Steer,
            reply: !self.no_reply,
            resume: true,
        })
    }
}

impl PromptPart {
    /// A file.
    pub(crate) fn file(
        id: Option<Id<PartId>>,
        mime: String,
        filename: Option<String>,
        url: String,
        source: Option<Value>,
    ) -> Self {
        Self { id, kind: PromptPartKind::File { mime, filename, url, source } }
    }
}

impl From<PromptPart> for PartInput {
    fn from(part: PromptPart) -> Self {
        let resource = part.kind.resource();
        Self { id: part.id.map(|id| id.0), kind: part.kind.into(), resource }
    }
}

/// What a file's source says of a resource; other sources, and what is no source at all, are kept and not read.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum AttachedSource {
    Resource {
        #[serde(rename = "clientName")]
        server: String,
        uri: String,
    },
}

impl PromptPartKind {
    /// The resource of an MCP server that a part attaches.
    fn resource(&self) -> Option<ResourceAddress> {
        let Self::File { source: Some(source), .. } = self else { return None };
        let AttachedSource::Resource { server, uri } = AttachedSource::deserialize(source).ok()?;
        Some(ResourceAddress { server, uri })
    }
}

impl From<PromptPartKind> for PartKind {
    fn from(kind: PromptPartKind) -> Self {
        match kind {
            PromptPartKind::Text { text, synthetic, ignored, time, metadata } => {
                let time = time.map(|time| Span { start: time.start, end: time.end });
                Self::Text { text, synthetic, ignored, time, metadata }
            }
            PromptPartKind::File { mime, filename, url, source } => {
                Self::File { mime, filename, url, source }
            }
            PromptPartKind::Agent { name, source } => Self::Agent { name, source },
            PromptPartKind::Subtask { prompt, description, agent, model, command } => {
                Self::Subtask { prompt, description, agent, model: model.map(ModelRef::from), command }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn resource(source: &Value) -> Option<ResourceAddress> {
        let part = json!({"type": "file", "mime": "text/plain", "url": "docs://a", "source": source});
        PartInput::from(serde_json::from_value::<PromptPart>(part).unwrap()).resource
    }

    #[test]
    fn a_file_from_a_resource_says_where_it_is() {
        let text = json!({"value": "@a", "start": 0, "end": 2});
        let source = json!({"type": "resource", "clientName": "docs", "uri": "docs://a", "text": text});
        let address = ResourceAddress { server: "docs".to_owned(), uri: "docs://a".to_owned() };
        assert_eq!(resource(&source), Some(address));
        assert_eq!(resource(&json!({"type": "resource", "uri": "docs://a"})), None);
        assert_eq!(resource(&json!({"type": "file", "path": "a", "clientName": "x", "uri": "y"})), None);
        assert_eq!(resource(&json!("anything")), None);
    }
}

//! One conversation that uses every feature, for snapshots of the requests that each protocol makes of it.

use serde_json::{Value, json};

use crate::{
    AnswerFormat, AnswerOrigin, Block, Content, Effort, Message, ModelRequest, Reasoning, ToolChoice,
    ToolSpec,
};

/// A picture of one pixel.
pub(crate) const PIXEL: &str = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

/// A document, as far as a request looks at it.
pub(crate) const DOCUMENT: &str = "data:application/pdf;base64,JVBERi0xLjQKJSVFT0YK";

/// Who answers in [`conversation`].
pub(crate) fn origin() -> AnswerOrigin {
    AnswerOrigin { provider: "acme".into(), model: "m-1".into() }
}

/// The conversation. `metadata` is what the protocol under test attached to its own reasoning and its own calls.
pub(crate) fn conversation(reasoning: Option<Value>, call: Option<Value>) -> ModelRequest {
    let answer = |blocks| Message::Assistant { blocks, origin: Some(origin()) };
    let text = |text: &str| Block::Text { text: text.into(), metadata: None };
    ModelRequest {
        origin: origin(),
        model: "m-1".into(),
        system: vec!["You are careful.".into(), "The project is a parser.".into()],
        messages: vec![
            Message::User(vec![
                Content::Text("What is in these?".into()),
                Content::Media {
                    mime: "image/png".into(),
                    url: PIXEL.into(),
                    filename: Some("dot.png".into()),
                },
                Content::Media {
                    mime: "application/pdf".into(),
                    url: DOCUMENT.into(),
                    filename: Some("notes.pdf".into()),
                },
            ]),
            answer(vec![
                Block::Reasoning { text: "Two reads at once.".into(), metadata: reasoning },
                text("I look."),
                Block::ToolCall {
                    id: "call_1".into(),
                    name: "read".into(),
                    input: json!({"filePath": "a.rs"}),
                    metadata: call,
                },
                Block::ToolCall {
                    id: "call_2".into(),
                    name: "look".into(),
                    input: json!({"file": "dot.png"}),
                    metadata: None,
                },
            ]),
            Message::Tool {
                call_id: "call_1".into(),
                name: "read".into(),
                output: vec![Content::Text("fn main() {}".into())],
                is_error: false,
            },
            Message::Tool {
                call_id: "call_2".into(),
                name: "look".into(),
                output: vec![
                    Content::Text("one pixel".into()),
                    Content::Media { mime: "image/png".into(), url: PIXEL.into(), filename: None },
                ],
                is_error: true,
            },
            Message::System("The file a.rs changed <outside>.".into()),
            answer(vec![text("An empty program and a dot.")]),
            Message::User(vec![Content::Text("Thanks. As data, please.".into())]),
        ],
        tools: vec![
            ToolSpec {
                name: "read".into(),
                description: "Reads a file.".into(),
                schema: json!({
                    "$schema": "https://json-schema.org/draft/2020-12/schema",
                    "type": "object",
                    "properties": {
                        "filePath": {"type": "string", "minLength": 1},
                        "offset": {"type": ["integer", "null"], "minimum": 0},
                        "mode": {"anyOf": [{"const": "text"}, {"const": "hex"}]},
                    },
                    "required": ["filePath"],
                    "additionalProperties": false,
                })
                .into(),
            },
            ToolSpec {
                name: "look".into(),
                description: "Shows a picture.".into(),
                schema: json!({"type": "object", "properties": {"file": {"type": "string"}}}).into(),
            },
        ],
        tool_choice: ToolChoice::Tool("read".into()),
        max_output: Some(4_000),
        temperature: Some(0.5),
        reasoning: Reasoning { effort: Some(Effort::High), budget: Some(2_000) },
        format: Some(AnswerFormat {
            name: "summary".into(),
            schema: json!({"type": "object", "properties": {"lines": {"type": "integer"}}, "required": ["lines"]}),
        }),
        cache_key: Some("ses_1".into()),
        ..ModelRequest::default()
    }
}

/// The same conversation, asked of another model.
pub(crate) fn switched(reasoning: Option<Value>, call: Option<Value>) -> ModelRequest {
    let origin = AnswerOrigin { provider: "other".into(), model: "m-2".into() };
    ModelRequest { origin, model: "m-2".into(), ..conversation(reasoning, call) }
}

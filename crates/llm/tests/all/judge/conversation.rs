//! One conversation that uses every feature, asked in several ways. The folder `requests` has the same for the SDKs.

use everturn_llm::{
    AnswerFormat, AnswerOrigin, Block, Content, Effort, Message, ModelRequest, Reasoning, ToolChoice,
    ToolSpec,
};
use serde_json::{Value, json};

use super::Protocol;

/// A picture of one pixel.
pub(super) const PIXEL: &str = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

/// A document, as far as a request looks at it.
pub(super) const DOCUMENT: &str = "data:application/pdf;base64,JVBERi0xLjQKJSVFT0YK";

/// The ways in which a protocol is asked, by their names on the other side.
pub(super) fn requests(protocol: Protocol) -> Vec<(&'static str, ModelRequest)> {
    let budget = Reasoning { effort: None, budget: Some(2_000) };
    let effort = Reasoning { effort: Some(Effort::High), budget: None };
    let thinks = |model: &str, reasoning: Reasoning, format: Option<AnswerFormat>| ModelRequest {
        reasoning,
        format,
        ..conversation(protocol, model)
    };
    let forced = |model: &str| ModelRequest {
        tool_choice: ToolChoice::Tool("read".into()),
        temperature: Some(0.5),
        ..conversation(protocol, model)
    };
    match protocol {
        Protocol::Anthropic => vec![
            ("budget", thinks("claude-haiku-4-5", budget, Some(summary()))),
            ("adaptive", thinks("claude-opus-4-8", effort, Some(summary()))),
            ("forced", forced("claude-haiku-4-5")),
        ],
        Protocol::Responses => {
            vec![("reasoning", thinks("gpt-5.1", effort, Some(summary()))), ("forced", forced("gpt-4.1"))]
        }
        Protocol::Chat => vec![
            ("reasoning", thinks("gpt-5.1", effort, Some(summary()))),
            ("forced", forced("gpt-4.1")),
            ("compatible", thinks("gpt-5.1", effort, Some(summary()))),
        ],
        Protocol::Gemini => vec![
            // This model takes no schema for its answer next to tools.
            ("budget", thinks("gemini-2.5-pro", budget, None)),
            ("level", thinks("gemini-3-pro-preview", effort, Some(summary()))),
            ("forced", forced("gemini-2.0-flash")),
        ],
    }
}

/// What each protocol attached to the reasoning, the text and the two calls when it streamed them.
fn metadata(protocol: Protocol) -> [Option<Value>; 4] {
    match protocol {
        Protocol::Anthropic => [Some(json!({"anthropic": {"signature": "c2lnbmVk"}})), None, None, None],
        Protocol::Responses => {
            let own = |own: Value| Some(json!({"openai-responses": own}));
            [
                own(json!({"id": "rs_1", "encrypted_content": "gAAA"})),
                own(json!({"id": "msg_1", "after": "rs_1"})),
                own(json!({"id": "fc_1", "arguments": "{ \"filePath\": \"a.rs\" }"})),
                None,
            ]
        }
        Protocol::Chat => [None, None, None, None],
        Protocol::Gemini => {
            let own = |own: Value| Some(json!({"gemini": own}));
            [
                own(json!({"thoughtSignature": "c2lnLTE="})),
                None,
                own(json!({"id": "call_1", "thoughtSignature": "c2lnLTI="})),
                own(json!({"id": "call_2"})),
            ]
        }
    }
}

fn conversation(protocol: Protocol, model: &str) -> ModelRequest {
    let origin = AnswerOrigin { provider: protocol.name().into(), model: model.into() };
    ModelRequest {
        messages: messages(protocol, &origin),
        origin,
        model: model.into(),
        system: vec!["You are careful.".into(), "The project is a parser.".into()],
        tools: tools(),
        max_output: Some(4_000),
        cache_key: Some("ses_1".into()),
        ..ModelRequest::default()
    }
}

fn messages(protocol: Protocol, origin: &AnswerOrigin) -> Vec<Message> {
    let answer = |blocks| Message::Assistant { blocks, origin: Some(origin.clone()) };
    let media = |mime: &str, url: &str, filename: Option<&str>| Content::Media {
        mime: mime.into(),
        url: url.into(),
        filename: filename.map(str::to_owned),
    };
    let call = |id: &str, name: &str, input: Value, metadata| Block::ToolCall {
        id: id.into(),
        name: name.into(),
        input,
        metadata,
    };
    let result = |id: &str, name: &str, output, is_error| Message::Tool {
        call_id: id.into(),
        name: name.into(),
        output,
        is_error,
    };
    let text = |text: &str| Content::Text(text.into());
    let [thought, said, first, second] = metadata(protocol);
    vec![
        Message::User(vec![
            text("What is in these?"),
            media("image/png", PIXEL, Some("dot.png")),
            media("application/pdf", DOCUMENT, Some("notes.pdf")),
        ]),
        answer(vec![
            Block::Reasoning { text: "Two reads at once.".into(), metadata: thought },
            Block::Text { text: "I look.".into(), metadata: said },
            call("call_1", "read", json!({"filePath": "a.rs"}), first),
            call("call_2", "look", json!({"file": "dot.png"}), second),
        ]),
        result("call_1", "read", vec![text("fn main() {}")], false),
        result("call_2", "look", vec![text("one pixel"), media("image/png", PIXEL, None)], true),
        Message::System("The file a.rs changed <outside>.".into()),
        answer(vec![Block::Text { text: "An empty program and a dot.".into(), metadata: None }]),
        Message::User(vec![text("Thanks. As data, please. SAY:{\"lines\": 1}")]),
    ]
}

fn tools() -> Vec<ToolSpec> {
    let read = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {
            "filePath": {"type": "string", "minLength": 1},
            "offset": {"type": ["integer", "null"], "minimum": 0},
            "mode": {"anyOf": [{"const": "text"}, {"const": "hex"}]},
        },
        "required": ["filePath"],
        "additionalProperties": false,
    });
    let look = json!({"type": "object", "properties": {"file": {"type": "string"}}});
    vec![
        ToolSpec { name: "read".into(), description: "Reads a file.".into(), schema: read.into() },
        ToolSpec { name: "look".into(), description: "Shows a picture.".into(), schema: look.into() },
    ]
}

fn summary() -> AnswerFormat {
    let schema = json!({
        "type": "object",
        "properties": {
            "lines": {"type": "integer", "description": "How many.", "minimum": 0},
            "names": {"type": "array", "items": {"type": "string", "minLength": 1}, "minItems": 2},
            "kind": {"type": "string", "enum": ["program", "library"]},
        },
        "required": ["lines"],
    });
    AnswerFormat { name: "summary".into(), schema }
}

//! A neutral request as a Chat Completions body.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::Dialect;
use super::decode::METADATA;
use super::ids::{self, CallIds};
use crate::{Block, Content, Effort, Format, Message, Request, ToolChoice, history};

/// The body of a streaming request.
pub(super) fn body(request: &Request, dialect: Dialect) -> Value {
    let mut body = Map::new();
    body.insert("model".into(), json!(request.model));
    body.insert("messages".into(), Value::Array(messages(request, dialect)));
    if !request.tools.is_empty() {
        let tools = request.tools.iter().map(|tool| {
            let function =
                json!({"name": tool.name, "description": tool.description, "parameters": tool.schema});
            json!({"type": "function", "function": function})
        });
        body.insert("tools".into(), tools.collect());
        let choice = match &request.tool_choice {
            ToolChoice::Auto => json!("auto"),
            ToolChoice::None => json!("none"),
            ToolChoice::Required => json!("required"),
            ToolChoice::Tool(name) => json!({"type": "function", "function": {"name": name}}),
        };
        body.insert("tool_choice".into(), choice);
    }
    if let Some(limit) = request.max_output {
        let name = match dialect {
            Dialect::OpenAi => "max_completion_tokens",
            Dialect::Compatible => "max_tokens",
        };
        body.insert(name.into(), json!(limit));
    }
    if let Some(temperature) = request.temperature {
        body.insert("temperature".into(), json!(temperature));
    }
    if let Some(effort) = request.reasoning.effort {
        body.insert("reasoning_effort".into(), json!(effort_name(effort, dialect)));
    }
    if let Some(Format { name, schema }) = &request.format {
        let format = json!({"type": "json_schema", "json_schema": {"name": name, "schema": schema}});
        body.insert("response_format".into(), format);
    }
    if let (Dialect::OpenAi, Some(key)) = (dialect, &request.cache_key) {
        body.insert("prompt_cache_key".into(), json!(key));
    }
    body.insert("stream".into(), json!(true));
    body.insert("stream_options".into(), json!({"include_usage": true}));
    body.extend(request.options.clone());
    Value::Object(body)
}

/// The word for an effort. Only OpenAI has one beyond `high`.
fn effort_name(effort: Effort, dialect: Dialect) -> &'static str {
    match (effort, dialect) {
        (Effort::None, _) => "none",
        (Effort::Minimal, _) => "minimal",
        (Effort::Low, _) => "low",
        (Effort::Medium, _) => "medium",
        (Effort::High, _) | (Effort::Max, Dialect::Compatible) => "high",
        (Effort::Max, Dialect::OpenAi) => "xhigh",
    }
}

fn messages(request: &Request, dialect: Dialect) -> Vec<Value> {
    let system = request.system.iter().filter(|part| !part.trim().is_empty());
    let system: Vec<&str> = system.map(String::as_str).collect();
    let head = (!system.is_empty()).then(|| json!({"role": "system", "content": system.join("\n\n")}));
    let mut lowered: Vec<Value> = head.into_iter().collect();
    // What tools showed. A result takes only text here, so it follows in the person's name, after the last result.
    let mut shown: Vec<Content> = Vec::new();
    let mut ids = CallIds::default();
    for message in &history::wrap_system(&request.messages) {
        if let Message::Tool { output, .. } = message {
            shown.extend(output.iter().filter(|content| matches!(content, Content::Media { .. })).cloned());
        } else {
            lowered.extend(attachments(&mut shown));
        }
        if let Message::Assistant { blocks, .. } = message {
            // Thoughts alone are no message to most servers.
            if !blocks.iter().any(|block| matches!(block, Block::Text { .. } | Block::ToolCall { .. })) {
                continue;
            }
            // Ids are matched within one answer and its results.
            ids = CallIds::default();
        }
        lowered.push(lower(message, dialect, &mut ids));
    }
    lowered.extend(attachments(&mut shown));
    lowered
}

/// A message with what tools showed, if they showed anything.
fn attachments(shown: &mut Vec<Content>) -> Option<Value> {
    let pieces: Vec<Value> = shown.drain(..).map(|content| piece(&content)).collect();
    (!pieces.is_empty()).then(|| json!({"role": "user", "content": pieces}))
}

fn lower(message: &Message, dialect: Dialect, ids: &mut CallIds) -> Value {
    match message {
        Message::User(contents) => json!({"role": "user", "content": user(contents)}),
        Message::Assistant { blocks, .. } => assistant(blocks, dialect, ids),
        Message::Tool { call_id, output, .. } => {
            json!({"role": "tool", "tool_call_id": ids.answer(call_id), "content": Content::text_of(output)})
        }
        // Not reached: most servers take a system message at the front only, so it was wrapped.
        Message::System(text) => json!({"role": "user", "content": text}),
    }
}

/// Plain text stays a string: not every server takes a list.
fn user(contents: &[Content]) -> Value {
    match contents {
        [Content::Text(text)] => json!(text),
        _ => contents.iter().map(piece).collect(),
    }
}

fn piece(content: &Content) -> Value {
    match content {
        Content::Text(text) => json!({"type": "text", "text": text}),
        Content::Media { mime, url, filename } => media(mime, url, filename.as_deref()),
    }
}

fn media(mime: &str, url: &str, filename: Option<&str>) -> Value {
    let encoded = url.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,"));
    let format = match mime {
        "audio/wav" | "audio/x-wav" => Some("wav"),
        "audio/mpeg" | "audio/mp3" => Some("mp3"),
        _ => None,
    };
    let name = filename.unwrap_or("attachment");
    match (encoded, format) {
        _ if mime.starts_with("image/") => json!({"type": "image_url", "image_url": {"url": url}}),
        (Some((_, data)), Some(format)) => {
            json!({"type": "input_audio", "input_audio": {"data": data, "format": format}})
        }
        (Some((_, data)), None) if mime.starts_with("text/") => {
            json!({"type": "text", "text": plain_text(name, data)})
        }
        (Some(_), None) => json!({"type": "file", "file": {"filename": name, "file_data": url}}),
        // The protocol has no reference to such a file; the model shall at least know of it.
        (None, _) => json!({"type": "text", "text": format!("[attachment {name} ({mime}): {url}]")}),
    }
}

fn plain_text(name: &str, data: &str) -> String {
    match STANDARD.decode(data) {
        Ok(bytes) => format!("[attachment {name}]\n{}", String::from_utf8_lossy(&bytes)),
        Err(_) => format!("[attachment {name} could not be decoded]"),
    }
}

fn assistant(blocks: &[Block], dialect: Dialect, ids: &mut CallIds) -> Value {
    let mut text = String::new();
    let mut reasoning: Map<String, Value> = Map::new();
    let mut calls: Vec<Value> = Vec::new();
    for block in blocks {
        match block {
            Block::Text { text: more, .. } => text.push_str(more),
            Block::Reasoning { text, metadata } => replay(&mut reasoning, text, metadata.as_ref()),
            Block::ToolCall { id, name, input, metadata } => {
                let arguments = if input.is_object() { input.to_string() } else { "{}".to_owned() };
                let name = match dialect {
                    Dialect::OpenAi => ids::fitting(name),
                    Dialect::Compatible => ids::named(name).to_owned(),
                };
                let mut call = json!({"id": ids.call(id), "type": "function",
                    "function": {"name": name, "arguments": arguments}});
                let extra = metadata.as_ref().and_then(|all| all.get(METADATA)?.get("extra_content"));
                if let (Some(extra), Some(fields)) = (extra, call.as_object_mut()) {
                    fields.insert("extra_content".into(), extra.clone());
                }
                calls.push(call);
            }
            // The protocol has no word for tools that the provider runs.
            Block::HostedCall { .. } | Block::HostedResult { .. } => {}
        }
    }
    let mut message = Map::new();
    message.insert("role".into(), json!("assistant"));
    let silent = text.is_empty() && !calls.is_empty();
    message.insert("content".into(), if silent { Value::Null } else { json!(text) });
    if dialect == Dialect::Compatible {
        message.extend(reasoning);
    }
    if !calls.is_empty() {
        message.insert("tool_calls".into(), Value::Array(calls));
    }
    Value::Object(message)
}

/// Puts reasoning back into the field it came from.
fn replay(fields: &mut Map<String, Value>, text: &str, metadata: Option<&Value>) {
    let own = metadata.and_then(|all| all.get(METADATA));
    if let Some(Value::Array(details)) = own.and_then(|own| own.get("reasoning_details")) {
        let slot = fields.entry("reasoning_details").or_insert_with(|| json!([]));
        if let Value::Array(list) = slot {
            list.extend(details.iter().cloned());
        }
        return;
    }
    let field = own.and_then(|own| own.get("field")?.as_str()).unwrap_or("reasoning_content");
    let slot = fields.entry(field).or_insert_with(|| json!(""));
    if let Value::String(all) = slot {
        all.push_str(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ToolSpec, sample};

    #[expect(clippy::needless_pass_by_value, reason = "a test reads best with its values in place")]
    fn lowered(message: Message) -> Value {
        lower(&message, Dialect::Compatible, &mut CallIds::default())
    }

    fn answer(blocks: Vec<Block>) -> Message {
        Message::Assistant { blocks, origin: None }
    }

    #[test]
    fn whole_body() {
        let request = Request {
            model: "m-1".into(),
            system: vec!["one".into(), String::new(), "two".into()],
            messages: vec![Message::User(vec![Content::Text("hi".into())])],
            tools: vec![ToolSpec {
                name: "read".into(),
                description: "reads".into(),
                schema: json!({"type": "object"}),
            }],
            tool_choice: ToolChoice::Required,
            max_output: Some(99),
            temperature: Some(0.5),
            cache_key: Some("ses_1".into()),
            options: json!({"top_k": 3, "stream_options": {"x": 1}}).as_object().unwrap().clone(),
            ..Request::default()
        };
        let expected = json!({
            "model": "m-1",
            "messages": [{"role": "system", "content": "one\n\ntwo"}, {"role": "user", "content": "hi"}],
            "tools": [{"type": "function",
                "function": {"name": "read", "description": "reads", "parameters": {"type": "object"}}}],
            "tool_choice": "required",
            "max_tokens": 99,
            "temperature": 0.5,
            "stream": true,
            "stream_options": {"x": 1},
            "top_k": 3,
        });
        assert_eq!(body(&request, Dialect::Compatible), expected);
        let openai = body(&request, Dialect::OpenAi);
        assert_eq!(openai["max_completion_tokens"], 99);
        assert_eq!(openai["prompt_cache_key"], "ses_1");
        assert_eq!(openai.get("max_tokens"), None);
    }

    #[test]
    fn tool_choice_needs_tools() {
        let request = Request { tool_choice: ToolChoice::None, ..Request::default() };
        assert_eq!(body(&request, Dialect::Compatible).get("tool_choice"), None);
    }

    #[test]
    fn assistant_with_everything() {
        let blocks = vec![
            Block::Reasoning { text: "hm".into(), metadata: None },
            Block::Text { text: "ok".into(), metadata: None },
            Block::ToolCall {
                id: "c1".into(),
                name: "read".into(),
                input: json!({"filePath": "a"}),
                metadata: Some(json!({METADATA: {"extra_content": {"google": {"thought_signature": "s"}}}})),
            },
            Block::ToolCall { id: "c2".into(), name: "list".into(), input: Value::Null, metadata: None },
        ];
        assert_eq!(
            lowered(answer(blocks.clone())),
            json!({"role": "assistant", "content": "ok", "reasoning_content": "hm", "tool_calls": [
                {"id": "c1", "type": "function",
                    "function": {"name": "read", "arguments": "{\"filePath\":\"a\"}"},
                    "extra_content": {"google": {"thought_signature": "s"}}},
                {"id": "c2", "type": "function", "function": {"name": "list", "arguments": "{}"}},
            ]})
        );
        let openai = lower(&answer(blocks), Dialect::OpenAi, &mut CallIds::default());
        assert_eq!(openai.get("reasoning_content"), None);
    }

    #[test]
    fn reasoning_returns_to_its_field() {
        let block = |metadata| answer(vec![Block::Reasoning { text: "hm".into(), metadata }]);
        let field = lowered(block(Some(json!({METADATA: {"field": "reasoning"}}))));
        assert_eq!(field, json!({"role": "assistant", "content": "", "reasoning": "hm"}));
        let details = lowered(block(Some(json!({METADATA: {"reasoning_details": [{"type": "x"}]}}))));
        assert_eq!(
            details,
            json!({"role": "assistant", "content": "", "reasoning_details": [{"type": "x"}]})
        );
    }

    #[test]
    fn silent_assistant_has_null_content() {
        let call = Block::ToolCall { id: "c".into(), name: "t".into(), input: json!({}), metadata: None };
        assert_eq!(lowered(answer(vec![call]))["content"], Value::Null);
    }

    #[test]
    fn attachments() {
        let check = |mime: &str, url: &str, expected: Value| {
            assert_eq!(media(mime, url, Some("f")), expected, "{mime} {url}");
        };
        check(
            "image/png",
            "data:image/png;base64,AA",
            json!({"type": "image_url",
            "image_url": {"url": "data:image/png;base64,AA"}}),
        );
        check(
            "audio/mpeg",
            "data:audio/mpeg;base64,AA",
            json!({"type": "input_audio",
            "input_audio": {"data": "AA", "format": "mp3"}}),
        );
        check(
            "application/pdf",
            "data:application/pdf;base64,AA",
            json!({"type": "file",
            "file": {"filename": "f", "file_data": "data:application/pdf;base64,AA"}}),
        );
        check(
            "text/plain",
            "data:text/plain;base64,aGk=",
            json!({"type": "text", "text": "[attachment f]\nhi"}),
        );
        check(
            "application/pdf",
            "https://x/y",
            json!({"type": "text",
            "text": "[attachment f (application/pdf): https://x/y]"}),
        );
    }

    #[test]
    fn a_conversation_with_everything_in_it() {
        let reasoning = json!({METADATA: {"field": "reasoning"}});
        let request = sample::conversation(Some(reasoning), None).repaired();
        let show = |dialect| serde_json::to_string_pretty(&body(&request, dialect)).unwrap();
        insta::assert_snapshot!("everything_compatible", show(Dialect::Compatible));
        insta::assert_snapshot!("everything_openai", show(Dialect::OpenAi));
    }

    #[test]
    fn the_same_conversation_after_a_switch() {
        let reasoning = json!({METADATA: {"field": "reasoning"}});
        let request = sample::switched(Some(reasoning), None).repaired();
        let shown = serde_json::to_string_pretty(&body(&request, Dialect::Compatible)).unwrap();
        insta::assert_snapshot!("switched", shown);
    }
}

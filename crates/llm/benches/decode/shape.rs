//! What a client that looks at text and arguments alone would read each payload into.

#![allow(dead_code, reason = "reading is all that is measured")]

use serde::Deserialize;

#[derive(Deserialize)]
pub(crate) struct Chunk {
    id: Option<String>,
    model: Option<String>,
    choices: Vec<Choice>,
}

#[derive(Deserialize)]
struct Choice {
    index: u64,
    delta: ChunkDelta,
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct ChunkDelta {
    content: Option<String>,
    tool_calls: Option<Vec<ToolCall>>,
}

#[derive(Deserialize)]
struct ToolCall {
    index: u64,
    id: Option<String>,
    function: Function,
}

#[derive(Deserialize)]
struct Function {
    name: Option<String>,
    arguments: Option<String>,
}

#[derive(Deserialize)]
pub(crate) struct Notice {
    #[serde(rename = "type")]
    kind: String,
    item_id: Option<String>,
    output_index: Option<u64>,
    content_index: Option<u64>,
    delta: Option<String>,
    text: Option<String>,
    arguments: Option<String>,
}

#[derive(Deserialize)]
pub(crate) struct Message {
    #[serde(rename = "type")]
    kind: String,
    index: Option<u64>,
    delta: Option<MessageDelta>,
}

#[derive(Deserialize)]
struct MessageDelta {
    #[serde(rename = "type")]
    kind: Option<String>,
    text: Option<String>,
    partial_json: Option<String>,
    stop_reason: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Answer {
    candidates: Vec<Candidate>,
    usage_metadata: Option<Counts>,
    model_version: Option<String>,
    response_id: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Candidate {
    content: Content,
    index: u64,
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct Content {
    parts: Vec<Part>,
    role: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Part {
    text: Option<String>,
    function_call: Option<FunctionCall>,
    thought_signature: Option<String>,
}

#[derive(Deserialize)]
struct FunctionCall {
    name: String,
    args: serde_json::Value,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Counts {
    prompt_token_count: Option<u64>,
    candidates_token_count: Option<u64>,
    total_token_count: Option<u64>,
}

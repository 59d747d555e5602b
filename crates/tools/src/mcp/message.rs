//! JSON-RPC 2.0 as MCP uses it.
//!
//! Only the envelope is read here. What it carries stays text until somebody who knows its type reads it, so that a
//! large message does not become a much larger tree of values.

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::readable;

/// The most messages of one batch that are looked at.
const BATCH_MAX: usize = 1000;

/// The most bytes of an error's text that are kept.
const ERROR_MAX: usize = 4096;

/// JSON-RPC's code for a method that is not there.
pub(super) const METHOD_NOT_FOUND: i64 = -32601;

/// An error answer.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct RpcError {
    #[serde(default)]
    pub(super) code: i64,
    #[serde(default)]
    pub(super) message: String,
}

#[derive(Debug, Deserialize)]
struct RpcEnvelope<'a> {
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(default)]
    method: Option<String>,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
    #[serde(borrow, default)]
    result: Option<&'a RawValue>,
    #[serde(default)]
    error: Option<RpcError>,
}

/// One message of a server.
#[derive(Debug)]
pub(super) enum RpcMessage<'a> {
    /// To a request of ours; no number if its id is not one that we give.
    Answer { id: Option<u64>, outcome: Result<&'a RawValue, RpcError> },
    /// It wants something.
    Request { id: &'a RawValue, method: String },
    /// It says something.
    Notice { method: String, params: Option<&'a RawValue> },
}

/// The messages of a text; none if any of it is not JSON-RPC.
pub(super) fn parse(text: &str) -> Option<Vec<RpcMessage<'_>>> {
    let envelopes: Vec<RpcEnvelope<'_>> = if text.trim_start().starts_with('[') {
        serde_json::from_str(text).ok().filter(|batch: &Vec<_>| batch.len() <= BATCH_MAX)?
    } else {
        vec![serde_json::from_str(text).ok()?]
    };
    envelopes.into_iter().map(message).collect()
}

fn message(envelope: RpcEnvelope<'_>) -> Option<RpcMessage<'_>> {
    let RpcEnvelope { id, method, params, result, error } = envelope;
    match (id, method) {
        (Some(id), Some(method)) => Some(RpcMessage::Request { id, method }),
        (None, Some(method)) => Some(RpcMessage::Notice { method, params }),
        (id, None) => {
            let outcome = match (error, result) {
                (Some(error), _) => Err(RpcError { message: readable(&error.message, ERROR_MAX), ..error }),
                (None, Some(result)) => Ok(result),
                // An empty result that was written as null.
                (None, None) => Ok(id.map(|_| RawValue::NULL)?),
            };
            Some(RpcMessage::Answer { id: id.and_then(number), outcome })
        }
    }
}

/// The id as the number we gave; some servers give it back as a text.
fn number(id: &RawValue) -> Option<u64> {
    id.get().trim_matches('"').parse().ok()
}

/// A request.
pub(super) fn request(id: u64, method: &str, params: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()
}

/// A notification.
pub(super) fn notice(method: &str, params: Option<&Value>) -> String {
    match params {
        Some(params) => json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string(),
        None => json!({"jsonrpc": "2.0", "method": method}).to_string(),
    }
}

/// The answer to a server's request, whose id is given back as it came.
pub(super) fn answer(id: &RawValue, outcome: Result<&Value, RpcError>) -> String {
    match outcome {
        Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string(),
        Err(error) => {
            let error = json!({"code": error.code, "message": error.message});
            json!({"jsonrpc": "2.0", "id": id, "error": error}).to_string()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Option<&[&str]>) {
        let seen = parse(text).map(|messages| {
            let short = |message: RpcMessage<'_>| match message {
                RpcMessage::Answer { id, outcome } => {
                    format!("answer {id:?} {:?}", outcome.map(RawValue::get).map_err(|error| error.message))
                }
                RpcMessage::Request { id, method } => format!("request {} {method}", id.get()),
                RpcMessage::Notice { method, params } => {
                    format!("notice {method} {:?}", params.map(RawValue::get))
                }
            };
            messages.into_iter().map(short).collect::<Vec<_>>()
        });
        let seen = seen.as_ref().map(|seen| seen.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(seen.as_deref(), expected, "{text}");
    }

    #[test]
    fn envelopes() {
        check(r#"{"jsonrpc":"2.0","id":3,"result":{"a":1}}"#, Some(&[r#"answer Some(3) Ok("{\"a\":1}")"#]));
        check(r#"{"jsonrpc":"2.0","id":"3","result":null}"#, Some(&[r#"answer Some(3) Ok("null")"#]));
        check(r#"{"id":7,"error":{"code":-1,"message":"no\u0000"}}"#, Some(&[r#"answer Some(7) Err("no")"#]));
        check(r#"{"id":"x","result":1}"#, Some(&[r#"answer None Ok("1")"#]));
        check(r#"{"id":"x-1","method":"ping"}"#, Some(&[r#"request "x-1" ping"#]));
        check(
            r#"[{"method":"a"},{"method":"b","params":[]}]"#,
            Some(&["notice a None", r#"notice b Some("[]")"#]),
        );
        for invalid in
            ["", "hello", "7", "{", r#"{"jsonrpc":"2.0"}"#, r#"[{"method":"a"},3]"#, r#"{"method":7}"#]
        {
            check(invalid, None);
        }
    }
}

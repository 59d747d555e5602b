//! What OpenCode calls a fault: a name and data.
//!
//! The names are made from the model's types here, and read back into them. A fault that the types cannot reproduce
//! byte for byte also keeps the original value, and is written as that.

use std::collections::BTreeMap;

use everturn_model::Map;
use everturn_model::fault::{ApiFault, Fault, FaultKind};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::Value;

use super::shape::{object, text};

/// A fault as V1 clients see it.
#[derive(Debug, Clone, Copy)]
pub struct FaultView<'a>(pub &'a Fault);

impl Serialize for FaultView<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match (&self.0.came, name(&self.0.kind)) {
            (Some(came), _) => came.serialize(serializer),
            (None, None) => serializer.serialize_none(),
            (None, Some(name)) => {
                let mut map = serializer.serialize_map(Some(2))?;
                map.serialize_entry("name", name)?;
                map.serialize_entry("data", &FaultData(self.0))?;
                map.end()
            }
        }
    }
}

/// The name of a kind; none for what means nothing here.
fn name(kind: &FaultKind) -> Option<&'static str> {
    Some(match kind {
        FaultKind::Aborted | FaultKind::CutOff => "MessageAbortedError",
        FaultKind::Authentication { .. } => "ProviderAuthError",
        // There is no word for it. Asking again may help, and this is the one that says so.
        FaultKind::Api(_) | FaultKind::CutStream | FaultKind::TimedOut { .. } => "APIError",
        FaultKind::ContextOverflow { .. } => "ContextOverflowError",
        FaultKind::OutputLength => "MessageOutputLengthError",
        FaultKind::ContentFilter => "ContentFilterError",
        FaultKind::StructuredOutput { .. } => "StructuredOutputError",
        FaultKind::Internal => "UnknownError",
        FaultKind::Imported => return None,
    })
}

/// The name that a fault came with, or the one that it has here.
pub(super) fn full_name(fault: &Fault) -> &str {
    let came = fault.came.as_deref().and_then(|came| came.get("name")).and_then(Value::as_str);
    came.or(name(&fault.kind)).unwrap_or_default()
}

struct FaultData<'a>(&'a Fault);

impl Serialize for FaultData<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        put(&mut map, "message", self.0.message.as_ref())?;
        match &self.0.kind {
            FaultKind::Authentication { provider } => map.serialize_entry("providerID", provider)?,
            FaultKind::Api(api) => {
                put(&mut map, "statusCode", api.status)?;
                put(&mut map, "isRetryable", api.retryable)?;
                put(&mut map, "responseHeaders", api.headers.as_ref())?;
                put(&mut map, "responseBody", api.body.as_ref())?;
                put(&mut map, "metadata", api.url.as_ref().map(|url| RequestUrl { url }))?;
            }
            FaultKind::CutStream | FaultKind::TimedOut { .. } => map.serialize_entry("isRetryable", &true)?,
            FaultKind::ContextOverflow { body } => put(&mut map, "responseBody", body.as_ref())?,
            FaultKind::StructuredOutput { retries } => put(&mut map, "retries", *retries)?,
            FaultKind::Aborted
            | FaultKind::CutOff
            | FaultKind::OutputLength
            | FaultKind::ContentFilter
            | FaultKind::Internal
            | FaultKind::Imported => {}
        }
        map.end()
    }
}

#[derive(Serialize)]
struct RequestUrl<'a> {
    url: &'a str,
}

fn put<M: SerializeMap>(map: &mut M, key: &str, value: Option<impl Serialize>) -> Result<(), M::Error> {
    value.map_or(Ok(()), |value| map.serialize_entry(key, &value))
}

/// A fault from what V1 says of it.
#[must_use]
pub fn read_fault(value: Value) -> Fault {
    let empty = Map::new();
    let data = value.get("data").and_then(Value::as_object).unwrap_or(&empty);
    let kind = value.get("name").and_then(Value::as_str).and_then(|name| read_kind(name, data));
    let message = text(data, "message").map(str::to_owned);
    let mut fault = Fault { kind: kind.unwrap_or(FaultKind::Imported), message, came: None };
    if !is_exact(&fault, &value) {
        fault.came = Some(Box::new(value));
    }
    fault
}

/// A fault that has a name and means nothing here.
pub(super) fn imported(name: &str, message: &str) -> Fault {
    let data = object([("message", message.into())]);
    read_fault(object([("name", name.into()), ("data", data.into())]).into())
}

/// Whether every byte of a value comes back, in its order.
fn is_exact(fault: &Fault, value: &Value) -> bool {
    let bytes = serde_json::to_string(value);
    bytes.is_ok_and(|bytes| serde_json::to_string(&FaultView(fault)).is_ok_and(|shown| shown == bytes))
}

fn read_kind(name: &str, data: &Map) -> Option<FaultKind> {
    let word = |key: &str| text(data, key).map(str::to_owned);
    let count = |key: &str| data.get(key).and_then(Value::as_u64);
    Some(match name {
        "MessageAbortedError" => FaultKind::Aborted,
        "ProviderAuthError" => FaultKind::Authentication { provider: word("providerID").unwrap_or_default() },
        "APIError" => FaultKind::Api(Box::new(ApiFault {
            status: count("statusCode"),
            retryable: data.get("isRetryable").and_then(Value::as_bool),
            headers: data.get("responseHeaders").and_then(headers),
            body: word("responseBody"),
            url: data.get("metadata").and_then(|asked| asked.get("url")?.as_str()).map(str::to_owned),
        })),
        "ContextOverflowError" => FaultKind::ContextOverflow { body: word("responseBody") },
        "MessageOutputLengthError" => FaultKind::OutputLength,
        "ContentFilterError" => FaultKind::ContentFilter,
        "StructuredOutputError" => FaultKind::StructuredOutput { retries: count("retries") },
        "UnknownError" => FaultKind::Internal,
        _ => return None,
    })
}

fn headers(value: &Value) -> Option<BTreeMap<String, String>> {
    let text = |(name, value): (&String, &Value)| Some((name.clone(), value.as_str()?.to_owned()));
    value.as_object()?.iter().map(text).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shown(fault: &Fault) -> String {
        serde_json::to_string(&FaultView(fault)).unwrap()
    }

    /// What OpenCode's contract has, what the engine once wrote, and what no version of either has.
    fn samples() -> Vec<Value> {
        let api = |data: Value| json!({"name": "APIError", "data": data});
        vec![
            json!({"name": "UnknownError", "data": {"message": "x"}}),
            json!({"name": "UnknownError", "data": {"message": "x", "ref": "err_1"}}),
            json!({"name": "UnknownError", "data": {}}),
            json!({"name": "MessageAbortedError", "data": {"message": "Aborted"}}),
            json!({"name": "MessageAbortedError", "data": {}}),
            json!({"name": "MessageAbortedError", "data": {"message": 5}}),
            json!({"name": "ProviderAuthError", "data": {"message": "no", "providerID": "p"}}),
            json!({"name": "ProviderAuthError", "data": {"providerID": "p", "message": "no"}}),
            json!({"name": "ProviderAuthError", "data": {"message": "no"}}),
            json!({"name": "MessageOutputLengthError", "data": {}}),
            json!({"name": "ContextOverflowError", "data": {"message": "long", "responseBody": "{}"}}),
            json!({"name": "ContentFilterError", "data": {"message": "no"}}),
            json!({"name": "StructuredOutputError", "data": {"message": "no", "retries": 2}}),
            api(json!({
                "message": "busy", "statusCode": 529, "isRetryable": true,
                "responseHeaders": {"a": "1", "b": "2"}, "responseBody": "", "metadata": {"url": "https://x"},
            })),
            api(json!({"message": "busy", "isRetryable": false})),
            api(json!({"isRetryable": false, "message": "busy"})),
            api(json!({"message": "x", "responseHeaders": {"b": "1", "a": "2"}})),
            api(json!({"message": "x", "responseHeaders": {"b": 1}})),
            api(json!({"message": "x", "metadata": {"url": "u", "more": "m"}})),
            api(json!({"message": "x", "statusCode": "500"})),
            json!({"name": "provider.auth", "data": {"message": "later"}}),
            json!({"name": "UnknownError", "data": {"message": "x"}, "stack": "…"}),
            json!({"data": {"message": "x"}, "name": "UnknownError"}),
            json!({"name": "UnknownError"}),
            json!({"name": 3, "data": []}),
            json!("it failed"),
            json!({}),
            Value::Null,
        ]
    }

    #[test]
    fn a_fault_of_our_own_is_shown_under_the_name_of_its_kind() {
        let api = ApiFault { status: Some(529), retryable: Some(true), ..ApiFault::default() };
        let kinds = [
            (FaultKind::Aborted, r#"{"name":"MessageAbortedError","data":{"message":"m"}}"#),
            (FaultKind::CutOff, r#"{"name":"MessageAbortedError","data":{"message":"m"}}"#),
            (FaultKind::CutStream, r#"{"name":"APIError","data":{"message":"m","isRetryable":true}}"#),
            (
                FaultKind::TimedOut { limit: 5 },
                r#"{"name":"APIError","data":{"message":"m","isRetryable":true}}"#,
            ),
            (
                FaultKind::Authentication { provider: "p".to_owned() },
                r#"{"name":"ProviderAuthError","data":{"message":"m","providerID":"p"}}"#,
            ),
            (
                FaultKind::Api(Box::new(api)),
                r#"{"name":"APIError","data":{"message":"m","statusCode":529,"isRetryable":true}}"#,
            ),
            (
                FaultKind::ContextOverflow { body: Some("{}".to_owned()) },
                r#"{"name":"ContextOverflowError","data":{"message":"m","responseBody":"{}"}}"#,
            ),
            (FaultKind::OutputLength, r#"{"name":"MessageOutputLengthError","data":{"message":"m"}}"#),
            (FaultKind::ContentFilter, r#"{"name":"ContentFilterError","data":{"message":"m"}}"#),
            (
                FaultKind::StructuredOutput { retries: Some(2) },
                r#"{"name":"StructuredOutputError","data":{"message":"m","retries":2}}"#,
            ),
            (FaultKind::Internal, r#"{"name":"UnknownError","data":{"message":"m"}}"#),
            (FaultKind::Imported, "null"),
        ];
        for (kind, expected) in kinds {
            assert_eq!(shown(&Fault { kind, message: Some("m".to_owned()), came: None }), expected);
        }
    }

    #[test]
    fn every_fault_leaves_as_it_came() {
        for value in samples() {
            assert_eq!(shown(&read_fault(value.clone())), value.to_string());
        }
    }

    #[test]
    fn faults_of_earlier_logs_are_shown_as_before() {
        // Until version 2 of `step.failed` the log held V1's own shape.
        for value in samples() {
            let earlier: Fault = serde_json::from_value(value.clone()).unwrap();
            assert_eq!(shown(&earlier), value.to_string());
            assert_eq!(earlier.kind, read_fault(value.clone()).kind, "{value}");
            let stored = serde_json::to_string(&earlier).unwrap();
            assert_eq!(serde_json::from_str::<Fault>(&stored).unwrap(), earlier, "{stored}");
        }
    }

    #[test]
    fn a_fault_is_understood_whatever_else_it_holds() {
        let fault = read_fault(json!({"name": "APIError", "data": {
            "statusCode": 429, "message": "slow", "isRetryable": true, "more": 1, "metadata": {"url": "u"},
        }}));
        let api = ApiFault {
            status: Some(429),
            retryable: Some(true),
            url: Some("u".to_owned()),
            ..ApiFault::default()
        };
        assert_eq!(fault.kind, FaultKind::Api(Box::new(api)));
        assert_eq!(fault.message.as_deref(), Some("slow"));
        let auth =
            read_fault(json!({"name": "ProviderAuthError", "data": {"providerID": "p", "message": "m"}}));
        assert_eq!(auth.kind, FaultKind::Authentication { provider: "p".to_owned() });
    }
}

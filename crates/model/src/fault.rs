//! Faults: why a turn or a compaction failed.
//!
//! A fault says what happened in our own types. `interop` turns it into what V1, V2 and pi call it. A fault of another
//! program that says more than the types can, or something else, also keeps its original value, and is written as that.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::{Map, Millis, earlier};

/// Why something failed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Fault {
    /// What happened.
    pub kind: FaultKind,
    /// The same for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The fault as another program wrote it, where the types cannot reproduce every byte of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub came: Option<Box<Value>>,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// A person stopped it.
    Aborted,
    /// The process ended in the middle of it.
    CutOff,
    /// The provider did not accept the key.
    Authentication {
        /// The provider.
        provider: String,
    },
    /// The provider answered with a failure.
    Api(Box<ApiFault>),
    /// The conversation is longer than the model can read.
    ContextOverflow {
        /// What the provider answered.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        body: Option<String>,
    },
    /// The provider's answer broke off before its end.
    CutStream,
    /// The answer took longer than it may, or nothing came of it for too long.
    TimedOut {
        /// The limit, in milliseconds.
        limit: Millis,
    },
    /// The answer reached its length limit.
    OutputLength,
    /// The provider's filter ended the answer.
    ContentFilter,
    /// The answer does not have the shape that was asked for.
    StructuredOutput {
        /// How often it was tried again.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retries: Option<u64>,
    },
    /// Something else went wrong; the message says what.
    Internal,
    /// A fault of another program that means nothing here.
    Imported,
}

/// A failure that a provider answered with.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApiFault {
    /// The HTTP status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u64>,
    /// Whether asking again may help.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retryable: Option<bool>,
    /// The answer's headers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub headers: Option<BTreeMap<String, String>>,
    /// The answer's body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// What was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

impl Fault {
    /// A fault with a message.
    #[must_use]
    pub fn new(kind: FaultKind, message: impl Into<String>) -> Self {
        Self { kind, message: Some(message.into()), came: None }
    }

    /// A failure of this program, or one that has no kind of its own.
    #[must_use]
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(FaultKind::Internal, message)
    }

    /// What to tell a person.
    #[must_use]
    pub fn text(&self) -> &str {
        self.message.as_deref().unwrap_or(match &self.kind {
            FaultKind::Aborted => "It was stopped.",
            FaultKind::CutOff => "The server ended in the midst of it.",
            FaultKind::Authentication { .. } => "The provider did not accept the key.",
            FaultKind::Api(_) => "The provider answered with a failure.",
            FaultKind::ContextOverflow { .. } => "The conversation is longer than the model can read.",
            FaultKind::CutStream => "The provider's answer broke off before its end.",
            FaultKind::TimedOut { .. } => "The provider took too long.",
            FaultKind::OutputLength => "The answer reached its longest length.",
            FaultKind::ContentFilter => "The provider's filter ended the answer.",
            FaultKind::StructuredOutput { .. } => "The answer has not the shape that was asked for.",
            FaultKind::Internal | FaultKind::Imported => "It failed, and nothing says why.",
        })
    }
}

/// The shape in which a fault is stored.
#[derive(Deserialize)]
struct StoredFault {
    kind: FaultKind,
    #[serde(default)]
    message: Option<String>,
    #[serde(default)]
    came: Option<Box<Value>>,
}

impl<'de> Deserialize<'de> for Fault {
    // Faults are few. Only they are looked at before they are read.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let ours = |map: &Map| {
            map.contains_key("kind")
                && map.keys().all(|key| matches!(key.as_str(), "kind" | "message" | "came"))
        };
        if !value.as_object().is_some_and(ours) {
            return Ok(earlier::fault(value));
        }
        let StoredFault { kind, message, came } =
            StoredFault::deserialize(value).map_err(serde::de::Error::custom)?;
        Ok(Self { kind, message, came })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_survives_storage() {
        let api = ApiFault {
            status: Some(529),
            retryable: Some(true),
            headers: Some([("retry-after".to_owned(), "3".to_owned())].into()),
            body: Some("{}".to_owned()),
            url: Some("https://api.example.com/v1".to_owned()),
        };
        let kinds = [
            FaultKind::Aborted,
            FaultKind::CutOff,
            FaultKind::Authentication { provider: "anthropic".to_owned() },
            FaultKind::Api(Box::new(api)),
            FaultKind::Api(Box::default()),
            FaultKind::ContextOverflow { body: Some("long".to_owned()) },
            FaultKind::CutStream,
            FaultKind::TimedOut { limit: 300_000 },
            FaultKind::OutputLength,
            FaultKind::ContentFilter,
            FaultKind::StructuredOutput { retries: Some(2) },
            FaultKind::Internal,
            FaultKind::Imported,
        ];
        for kind in kinds {
            for message in [None, Some("it failed".to_owned())] {
                for came in [None, Some(Box::new(serde_json::json!({"name": "Odd", "kind": 1})))] {
                    let fault = Fault { kind: kind.clone(), message: message.clone(), came };
                    let text = serde_json::to_string(&fault).unwrap();
                    assert_eq!(serde_json::from_str::<Fault>(&text).unwrap(), fault, "{text}");
                }
            }
        }
    }

    #[test]
    fn a_fault_is_stored_in_our_own_words() {
        let fault = Fault::new(FaultKind::Authentication { provider: "x".to_owned() }, "no");
        assert_eq!(
            serde_json::to_string(&fault).unwrap(),
            r#"{"kind":{"authentication":{"provider":"x"}},"message":"no"}"#
        );
        let unknown = serde_json::from_str::<Fault>(r#"{"kind":"tired"}"#);
        assert!(unknown.is_err(), "a kind of a later version is not taken for another: {unknown:?}");
    }
}

//! The Context Snapshot: what the model was told last, by source.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// What the model was told last.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct ContextSnapshot(pub(super) BTreeMap<String, AdmittedValue>);

/// What the model was told of one source.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct AdmittedValue {
    /// The value.
    pub(super) value: Value,
    /// What to say when the source is gone and nobody can say it any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) removal: Option<String>,
}

/// The field that has the values. Before there was one, a snapshot was the values by their keys, which all have a slash.
const SOURCES: &str = "sources";

impl ContextSnapshot {
    /// A snapshot as an entry has it; none when it is no snapshot.
    pub(super) fn read(value: &Value) -> Option<Self> {
        let map = value.as_object()?;
        if let Some(sources) = map.get(SOURCES) {
            return BTreeMap::deserialize(sources).ok().map(Self);
        }
        // An empty list was how nothing was kept once.
        let said = map.iter().filter(|(_, value)| value.as_array().is_none_or(|list| !list.is_empty()));
        let admitted = |value: &Value| AdmittedValue { value: value.clone(), removal: None };
        Some(Self(said.map(|(key, value)| (key.clone(), admitted(value))).collect()))
    }

    /// The snapshot as an entry keeps it.
    pub(super) fn write(&self) -> Value {
        json!({SOURCES: self.0})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snapshots_are_read_as_they_were_written() {
        let told = |value: Value, removal: Option<&str>| AdmittedValue {
            value,
            removal: removal.map(str::to_owned),
        };
        let snapshot = ContextSnapshot(BTreeMap::from([
            ("core/date".to_owned(), told("2026-11-18".into(), None)),
            ("host/a".to_owned(), told(json!([1]), Some("gone"))),
        ]));
        let written = snapshot.write();
        let literal =
            r#"{"sources":{"core/date":{"value":"2026-11-18"},"host/a":{"value":[1],"removal":"gone"}}}"#;
        assert_eq!(written.to_string(), literal);
        assert_eq!(ContextSnapshot::read(&written), Some(snapshot));
    }

    #[test]
    fn snapshots_of_earlier_versions_had_values_only() {
        let literal = json!({"core/date": "2026-11-17", "core/instructions": [], "core/skill-guidance": [{"name": "a"}]});
        let read = ContextSnapshot::read(&literal).unwrap();
        assert_eq!(read.0.keys().collect::<Vec<_>>(), ["core/date", "core/skill-guidance"]);
        assert_eq!(ContextSnapshot::read(&json!("?")), None);
        assert_eq!(ContextSnapshot::read(&json!({"sources": 1})), None);
    }
}

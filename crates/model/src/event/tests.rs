//! What events are called, and that they survive storage.

use super::*;

#[test]
fn names_are_unique_and_versions_start_at_one() {
    let names: std::collections::BTreeSet<_> = CATALOGUE.iter().map(|(name, _)| name).collect();
    assert_eq!(names.len(), CATALOGUE.len());
    assert!(CATALOGUE.iter().all(|(_, version)| *version >= 1));
}

#[test]
fn an_event_without_fields_survives_storage() {
    let text = serde_json::to_string(&Event::RevertCleared {}).unwrap();
    assert_eq!(text, r#"{"revert.cleared":{}}"#);
    assert_eq!(serde_json::from_str::<Event>(&text).unwrap(), Event::RevertCleared {});
}

#[test]
fn an_amendment_survives_storage() {
    // Its own fields once had the names of the event's, and the log could not be read back.
    let part = Part::new(PartId::new("prt_1"), crate::PartKind::text("new"));
    let event = Event::EntryAmended {
        entry: EntryId::new("msg_1"),
        part: Some(part.id.clone()),
        change: Amendment::ReplacePart { part: Box::new(part) },
    };
    let text = serde_json::to_string(&event).unwrap();
    assert_eq!(serde_json::from_str::<Event>(&text).unwrap(), event);
}

//! What a reader does not understand, kept so that it leaves as it came.
//!
//! A reader consumes an object field by field. What has no word here, or has a word but an unexpected type, goes to
//! [`UnreadFields`]; so do the names of fields that a writer always prints but the source did not have. A writer prints
//! what it knows through [`MergedObject`], which puts the kept fields over it: the source wins.

use everturn_model::{Extra, Map};
use serde::Serialize;
use serde::ser::SerializeMap;
use serde_json::Value;

/// The fields kept for V1.
pub(super) const V1: &str = "v1";
/// The names of V1 fields that the source did not have.
pub(super) const ABSENT: &str = "v1-absent";
/// A value that is no object, or an object of an unknown role, kept whole.
pub(super) const WHOLE: &str = "v1-whole";

/// The state of a tool call as it came, where a part cannot hold it; it is shown as long as there is no result.
pub(super) const STATE: &str = "v1-state";

/// Fields that a reader could not take.
#[derive(Debug, Default)]
pub(super) struct UnreadFields {
    fields: Map,
    absent: Map,
    state: Option<Value>,
}

impl UnreadFields {
    /// Keeps a field as it came.
    pub(super) fn keep(&mut self, key: impl Into<String>, value: Value) {
        self.fields.insert(key.into(), value);
    }

    /// Notes that the source lacked a field that is always written, unless it is among the kept ones.
    pub(super) fn require(&mut self, key: &str, found: bool) {
        if !found && !self.fields.contains_key(key) {
            self.absent.insert(key.to_owned(), Value::Bool(true));
        }
    }

    /// A kept field.
    pub(super) fn get(&self, key: &str) -> Option<&Value> {
        self.fields.get(key)
    }

    /// Keeps the state of a tool call as it came.
    pub(super) fn keep_state(&mut self, state: Value) {
        self.state = Some(state);
    }

    /// What an entry, part or result carries along.
    pub(super) fn into_extra(self) -> Extra {
        let mut extra = Extra::default();
        if !self.fields.is_empty() {
            extra.set(V1, self.fields);
        }
        if !self.absent.is_empty() {
            extra.set(ABSENT, self.absent);
        }
        if let Some(state) = self.state {
            extra.put(STATE, "state", state);
        }
        extra
    }
}

/// An object that is being written, merged with the fields that were kept.
#[derive(Debug)]
pub(super) struct MergedObject<'a, M> {
    map: M,
    kept: Option<&'a Map>,
    absent: Option<&'a Map>,
}

impl<'a, M: SerializeMap> MergedObject<'a, M> {
    /// An object that `map` writes, under what `extra` keeps.
    pub(super) fn new(map: M, extra: &'a Extra) -> Self {
        if extra.is_empty() {
            return Self { map, kept: None, absent: None };
        }
        Self { map, kept: extra.get(V1), absent: extra.get(ABSENT) }
    }

    /// Writes a field, unless the source had it otherwise or not at all.
    pub(super) fn put<T: Serialize + ?Sized>(&mut self, key: &str, value: &T) -> Result<(), M::Error> {
        let covered = |fields: Option<&Map>| fields.is_some_and(|fields| fields.contains_key(key));
        if covered(self.kept) || covered(self.absent) {
            return Ok(());
        }
        self.map.serialize_entry(key, value)
    }

    /// Writes a field where there is one.
    pub(super) fn put_some<T: Serialize>(&mut self, key: &str, value: Option<T>) -> Result<(), M::Error> {
        value.map_or(Ok(()), |value| self.put(key, &value))
    }

    /// Writes what was kept, and ends the object.
    pub(super) fn end(mut self) -> Result<M::Ok, M::Error> {
        for (key, value) in self.kept.into_iter().flatten() {
            self.map.serialize_entry(key, value)?;
        }
        self.map.end()
    }
}

/// What a writer writes, as a value.
pub(super) fn to_value(written: &impl Serialize) -> Value {
    // Keys are texts and numbers finite, so this has no way to fail.
    serde_json::to_value(written).unwrap_or_default()
}

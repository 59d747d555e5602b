//! Texts inside a frame, borrowed from it where they need no unescaping: most of a stream is small texts, and each is
//! to be copied once, into its event.

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;

use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// A text.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub(crate) struct WireText<'a>(#[serde(borrow)] pub(crate) Cow<'a, str>);

impl Deref for WireText<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

/// What should be a text, from a server that may send anything.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum LooseText<'a> {
    Text(Cow<'a, str>),
    Other(Value),
}

impl<'a> LooseText<'a> {
    /// The text, if it is one.
    pub(crate) fn text(self) -> Option<Cow<'a, str>> {
        match self {
            Self::Text(text) => Some(text),
            Self::Other(_) => None,
        }
    }
}

/// Keeps a text that says something, unless it is the one that is known.
pub(crate) fn keep(slot: &mut Option<String>, said: Option<WireText<'_>>) {
    if let Some(text) = said.filter(|text| !text.is_empty() && slot.as_deref() != Some(&**text)) {
        *slot = Some(text.0.into_owned());
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for LooseText<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(LooseTextVisitor)
    }
}

struct LooseTextVisitor;

impl<'de> Visitor<'de> for LooseTextVisitor {
    type Value = LooseText<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON")
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(LooseText::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(LooseText::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_string<E: Error>(self, text: String) -> Result<Self::Value, E> {
        Ok(LooseText::Text(Cow::Owned(text)))
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(LooseText::Other(Value::Null))
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Self::Value, E> {
        Ok(LooseText::Other(value.into()))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Self::Value, E> {
        Ok(LooseText::Other(value.into()))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Self::Value, E> {
        Ok(LooseText::Other(value.into()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Self::Value, E> {
        Ok(LooseText::Other(value.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Self::Value, A::Error> {
        Value::deserialize(SeqAccessDeserializer::new(list)).map(LooseText::Other)
    }

    fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<Self::Value, A::Error> {
        Value::deserialize(MapAccessDeserializer::new(fields)).map(LooseText::Other)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn plain_texts_are_borrowed() {
        let read = |json: &'static str| serde_json::from_str::<LooseText<'_>>(json).unwrap();
        assert!(matches!(read("\"plain\""), LooseText::Text(Cow::Borrowed("plain"))));
        assert!(matches!(read("\"a\\nb\""), LooseText::Text(Cow::Owned(text)) if text == "a\nb"));
        assert!(matches!(serde_json::from_str("\"plain\""), Ok(WireText(Cow::Borrowed("plain")))));
        assert!(
            matches!(serde_json::from_str("\"a\\nb\""), Ok(WireText(Cow::Owned(text))) if text == "a\nb")
        );
    }

    #[test]
    fn anything_else_is_kept_as_it_is() {
        for value in [
            json!(null),
            json!(true),
            json!(1),
            json!(-1),
            json!(1.5),
            json!([1, {"a": "b"}]),
            json!({"a": []}),
        ] {
            let json = value.to_string();
            let read: LooseText<'_> = serde_json::from_str(&json).unwrap();
            assert_eq!(read, LooseText::Other(value));
        }
    }
}

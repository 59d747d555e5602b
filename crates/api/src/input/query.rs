//! Queries: the extractor, and types for single values.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use everturn_model::Millis;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{
    self, Deserialize, DeserializeOwned, DeserializeSeed, Deserializer, IntoDeserializer, MapAccess, Visitor,
};

use crate::describe::{Describe, Description, ParameterPlace};
use crate::error::{Error, ErrorKind};

/// The query of a request. Of several values under one name the first counts, and names that `T` does not have are
/// ignored. An empty value is none, except for those that are [`TextParameter`].
#[derive(Debug)]
pub(crate) struct Query<T>(pub(crate) T);

impl<S: Sync, T: DeserializeOwned> FromRequestParts<S> for Query<T> {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Error> {
        read(parts.uri.query().unwrap_or_default()).map(Self).map_err(Error::Query)
    }
}

impl<T: JsonSchema> Describe for Query<T> {
    fn describe(description: &mut Description<'_>) {
        description.parameters::<T>(ParameterPlace::Query);
        description.errors.insert(ErrorKind::Query);
    }
}

/// A value of a query, decoded; the first where there are several.
pub(crate) fn value_in(query: &str, name: &str) -> Option<String> {
    let mut pairs = form_urlencoded::parse(query.as_bytes());
    pairs.find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
}

fn read<T: DeserializeOwned>(query: &str) -> Result<T, String> {
    let mut pairs: Vec<(Cow<'_, str>, Cow<'_, str>)> = Vec::new();
    let mut seen = HashSet::new();
    for (key, value) in form_urlencoded::parse(query.as_bytes()) {
        // No database takes it in every place.
        if value.contains('\0') {
            return Err(format!("{key} holds a NUL"));
        }
        if seen.insert(key.clone()) {
            pairs.push((key, value));
        }
    }
    let mut pairs = QueryPairs { rest: pairs.into_iter(), value: None, key: String::new() };
    let read = T::deserialize(de::value::MapAccessDeserializer::new(&mut pairs));
    read.map_err(|QueryError(message)| format!("{} {message}", pairs.key).trim_start().to_owned())
}

/// The pairs of a query as an object; it remembers which one is being read.
struct QueryPairs<'a> {
    rest: std::vec::IntoIter<(Cow<'a, str>, Cow<'a, str>)>,
    value: Option<Cow<'a, str>>,
    key: String,
}

impl<'de> MapAccess<'de> for &mut QueryPairs<'_> {
    type Error = QueryError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, QueryError> {
        let Some((key, value)) = self.rest.next() else {
            self.key.clear();
            return Ok(None);
        };
        self.key = key.into_owned();
        self.value = Some(value);
        seed.deserialize(self.key.as_str().into_deserializer()).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, QueryError> {
        seed.deserialize(QueryValue(self.value.take().unwrap_or_default()))
    }
}

/// What is wrong with a value.
#[derive(Debug)]
struct QueryError(String);

impl fmt::Display for QueryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for QueryError {}

impl de::Error for QueryError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self(message.to_string())
    }
}

/// One value.
struct QueryValue<'a>(Cow<'a, str>);

impl<'de> Deserializer<'de> for QueryValue<'_> {
    type Error = QueryError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, QueryError> {
        visitor.visit_str(&self.0)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, QueryError> {
        if self.0.is_empty() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf unit unit_struct newtype_struct
        seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

macro_rules! value {
    ($name:ident, $schema:tt) => {
        impl JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!($schema)
            }
        }
    };
}

/// A text that may be empty and is there all the same.
#[derive(Debug, Clone, Default)]
pub(crate) struct TextParameter(pub(crate) Option<String>);

value!(TextParameter, {"type": "string"});

impl<'de> Deserialize<'de> for TextParameter {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from).map(|text| Self(Some(text)))
    }
}

/// A flag.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct FlagParameter(pub(crate) bool);

value!(FlagParameter, {"type": "boolean"});

impl<'de> Deserialize<'de> for FlagParameter {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        match String::deserialize(from)?.as_str() {
            "" | "false" => Ok(Self(false)),
            "true" => Ok(Self(true)),
            other => Err(de::Error::custom(format!("must be true or false, not {other:?}"))),
        }
    }
}

/// How many at most; zero and nothing both mean all.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Limit(pub(crate) Option<u32>);

value!(Limit, {"type": "integer", "minimum": 0});

impl<'de> Deserialize<'de> for Limit {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        if text.is_empty() {
            return Ok(Self(None));
        }
        let count: u32 =
            text.parse().map_err(|_| de::Error::custom(format!("must be a whole number, not {text:?}")))?;
        Ok(Self((count > 0).then_some(count)))
    }
}

/// The number of something, from 1 on; nothing means none of them in particular.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct NumberParameter(pub(crate) Option<usize>);

value!(NumberParameter, {"type": "integer", "minimum": 1});

impl<'de> Deserialize<'de> for NumberParameter {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        if text.is_empty() {
            return Ok(Self(None));
        }
        match text.parse() {
            Ok(number) if number > 0 => Ok(Self(Some(number))),
            _ => Err(de::Error::custom(format!("must be a whole number from 1 on, not {text:?}"))),
        }
    }
}

/// A moment in milliseconds; what is behind the point does not count.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct MomentParameter(pub(crate) Option<Millis>);

value!(MomentParameter, {"type": "number"});

impl<'de> Deserialize<'de> for MomentParameter {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        if text.is_empty() {
            return Ok(Self(None));
        }
        let whole = text.split('.').next().unwrap_or_default();
        let moment =
            whole.parse().map_err(|_| de::Error::custom(format!("must be milliseconds, not {text:?}")))?;
        Ok(Self(Some(moment)))
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Default, Deserialize)]
    #[serde(default)]
    struct Asked {
        directory: Option<String>,
        path: TextParameter,
        limit: Limit,
        start: MomentParameter,
        roots: FlagParameter,
        turn: NumberParameter,
        #[serde(rename = "location[directory]")]
        place: Option<String>,
    }

    fn asked(query: &str) -> Asked {
        read(query).unwrap()
    }

    #[test]
    fn decodes_what_is_encoded() {
        for (text, expected) in [
            ("%2Ftmp%2Fdemo", "/tmp/demo"),
            ("a+b", "a b"),
            ("100%", "100%"),
            ("%zz%4", "%zz%4"),
            ("%+1", "% 1"),
            ("%C3%A9", "é"),
        ] {
            assert_eq!(asked(&format!("directory={text}")).directory.as_deref(), Some(expected), "{text}");
            assert_eq!(value_in(&format!("x=1&y={text}"), "y").as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn finds_values() {
        let found = asked("directory=%2Fx&limit=3&path=&location%5Bdirectory%5D=y&limit=x&unknown=1");
        assert_eq!(found.directory.as_deref(), Some("/x"));
        assert_eq!(found.path.0.as_deref(), Some(""));
        assert_eq!(found.place.as_deref(), Some("y"));
        assert_eq!(found.limit.0, Some(3));
        let nothing = asked("directory=&limit=&start=&roots=");
        assert_eq!((nothing.directory, nothing.path.0, nothing.limit.0), (None, None, None));
        assert_eq!((nothing.start.0, nothing.roots.0), (None, false));
        assert_eq!(value_in("a=1", "b"), None);
    }

    #[test]
    fn counts_moments_and_flags() {
        assert_eq!(asked("limit=100").limit.0, Some(100));
        assert_eq!(asked("limit=0").limit.0, None);
        assert_eq!(asked("start=1792119654347").start.0, Some(1_792_119_654_347));
        assert_eq!(asked("start=1.5").start.0, Some(1));
        assert!(asked("roots=true").roots.0);
        assert_eq!(
            [asked("turn=17").turn.0, asked("turn=").turn.0, asked("").turn.0],
            [Some(17), None, None]
        );
        for (query, message) in [
            ("limit=x", "limit must be a whole number, not \"x\""),
            ("start=x", "start must be milliseconds, not \"x\""),
            ("directory=a&roots=maybe", "roots must be true or false, not \"maybe\""),
            ("turn=0", "turn must be a whole number from 1 on, not \"0\""),
            ("turn=-1", "turn must be a whole number from 1 on, not \"-1\""),
            ("turn=1.5", "turn must be a whole number from 1 on, not \"1.5\""),
            ("turn=x", "turn must be a whole number from 1 on, not \"x\""),
        ] {
            assert_eq!(read::<Asked>(query).unwrap_err(), message);
        }
    }
}

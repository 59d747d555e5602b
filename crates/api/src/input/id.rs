//! Ids that clients send: checked where they are read.

use std::borrow::Cow;

use everturn_model::ids::ID_LIMIT;
use everturn_model::{EntryId, EventId, PartId, RequestId, SessionId};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

/// An id of a kind.
#[derive(Debug, Clone)]
pub(crate) struct Id<T>(pub(crate) T);

/// The id of a question.
#[derive(Debug, Clone)]
pub(crate) struct QuestionId(pub(crate) RequestId);

/// A kind of id.
pub(crate) trait Prefixed: Sized {
    /// What it begins with, without the underscore.
    const PREFIX: &'static str;

    /// Reads one.
    fn read(text: String) -> Option<Self>;
}

macro_rules! prefixed {
    ($($kind:ident),*) => {
        $(impl Prefixed for $kind {
            const PREFIX: &'static str = $kind::PREFIX;

            fn read(text: String) -> Option<Self> {
                Self::is_well_formed(&text).then(|| Self::new(text))
            }
        })*
    };
}

prefixed!(SessionId, EntryId, PartId, EventId, RequestId);

impl Prefixed for QuestionId {
    const PREFIX: &'static str = "que";

    fn read(text: String) -> Option<Self> {
        let fits = text.len() <= ID_LIMIT && !text.contains(char::is_control);
        (fits && text.starts_with("que_")).then(|| Self(RequestId::new(text)))
    }
}

impl<'de, T: Prefixed> Deserialize<'de> for Id<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        let shown = format!("{:?}", text.get(..text.floor_char_boundary(ID_LIMIT)).unwrap_or_default());
        let wrong = || {
            let kind = T::PREFIX;
            D::Error::custom(format!(
                "{shown} is not an id of one line that begins with {kind}_ and has at most {ID_LIMIT} bytes"
            ))
        };
        T::read(text).map(Self).ok_or_else(wrong)
    }
}

impl<T: Prefixed> JsonSchema for Id<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("{}ID", T::PREFIX).into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "pattern": format!("^{}_", T::PREFIX)})
    }
}

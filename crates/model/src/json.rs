//! The JSON of what is stored, as plain functions.
//!
//! What serde derives is generic, so each crate that asks for it compiles it anew, with all the types inside; a session's
//! types are large, and the store and the views read and write them in many places. Here they are compiled once, as fast
//! as reading has to be.

use crate::inbox::InboxItem;
use crate::request::Request;
use crate::subject::EventPayload;
use crate::todo::Todo;
use crate::{Entry, Part, Session};

/// What can be read from the JSON that it is stored as.
pub trait FromJson: Sized {
    /// The value.
    ///
    /// # Errors
    /// When the JSON is damaged or means something else.
    fn from_json(json: &str) -> serde_json::Result<Self>;
}

/// What can be written as the JSON that it is stored as.
pub trait ToJson {
    /// The JSON.
    ///
    /// # Errors
    /// When something in it has no form in JSON.
    fn to_json(&self) -> serde_json::Result<String>;
}

macro_rules! read {
    ($($stored:ty),*) => {$(
        impl FromJson for $stored {
            fn from_json(json: &str) -> serde_json::Result<Self> {
                serde_json::from_str(json)
            }
        }
    )*};
}

macro_rules! written {
    ($($stored:ty),*) => {$(
        impl ToJson for $stored {
            fn to_json(&self) -> serde_json::Result<String> {
                serde_json::to_string(self)
            }
        }
    )*};
}

read!(Entry, EventPayload, InboxItem, Part, Request, Session, Vec<Part>, Vec<Todo>);
written!(Entry, InboxItem, Part, Request, Session, Vec<Todo>);

//! The audit: what was done to the log itself. It says when, why and to which sessions, and never repeats content.

use everturn_model::Millis;
use serde_json::Value;

use crate::store::ask;
use crate::{Error, Store};

/// One thing that was done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Audit {
    /// When.
    pub time: Millis,
    /// What: `purge`, `rebuild`, `scrub`, `restore`.
    pub action: String,
    /// To what and why, as an object.
    pub detail: Value,
}

impl Audit {
    pub(crate) fn new(time: Millis, action: &str, detail: Value) -> Self {
        Self { time, action: action.to_owned(), detail }
    }
}

impl Store {
    /// What was done to the log itself, the newest first, at most `limit`.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn audits(&self, limit: usize) -> Result<Vec<Audit>, Error> {
        ask!(self, engine => engine.audits(limit).await)
    }
}

//! A request as it came: for tests that look at more than its body.

use std::collections::BTreeMap;

use axum::http::{HeaderMap, Method, Uri};
use serde_json::Value;

/// A request as it came.
#[derive(Debug, Clone, PartialEq)]
pub struct ArrivedRequest {
    /// The method.
    pub method: String,
    /// The path, as it was written.
    pub path: String,
    /// What stands behind the question mark, as it was written; empty where there is none.
    pub query: String,
    /// The headers by their names in lower case. Where one comes more than once, the values stand in their order with
    /// commas between them.
    pub headers: BTreeMap<String, String>,
    /// The body.
    pub body: Value,
}

impl ArrivedRequest {
    pub(super) fn new(method: &Method, uri: &Uri, headers: &HeaderMap, body: Value) -> Self {
        let mut named: BTreeMap<String, String> = BTreeMap::new();
        for (name, value) in headers {
            let value = String::from_utf8_lossy(value.as_bytes());
            named
                .entry(name.as_str().to_owned())
                .and_modify(|known| {
                    known.push_str(", ");
                    known.push_str(&value);
                })
                .or_insert_with(|| value.clone().into_owned());
        }
        Self {
            method: method.as_str().to_owned(),
            path: uri.path().to_owned(),
            query: uri.query().unwrap_or_default().to_owned(),
            headers: named,
            body,
        }
    }
}

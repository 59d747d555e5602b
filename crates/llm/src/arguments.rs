//! The arguments of a tool call, as models write them.

use serde_json::{Value, json};

/// The arguments as an object. No text at all is a call without arguments.
///
/// # Errors
///
/// Why they cannot be used.
pub(crate) fn parse(raw: &str) -> Result<Value, String> {
    if raw.trim().is_empty() {
        return Ok(json!({}));
    }
    let value: Value =
        serde_json::from_str(raw).map_err(|cause| format!("the arguments are not JSON: {cause}"))?;
    // Some servers encode the arguments twice.
    let value = match &value {
        Value::String(inner) => serde_json::from_str(inner).unwrap_or(value),
        _ => value,
    };
    if value.is_object() { Ok(value) } else { Err("the arguments are not a JSON object".to_owned()) }
}

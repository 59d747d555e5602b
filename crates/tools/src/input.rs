//! Tool arguments, decoded from JSON with errors that tell a model what to correct.

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::tool::Failure;

/// Decodes the arguments of one call.
pub(crate) fn decode<T: DeserializeOwned>(tool: &str, input: Value) -> Result<T, Failure> {
    serde_json::from_value(input).map_err(|error| {
        Failure::InvalidInput(format!("The arguments of '{tool}' do not fit its schema: {error}."))
    })
}

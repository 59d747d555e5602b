//! The `opencode.json` that points at a model server.

use std::path::Path;

use serde_json::{Value, json};

/// A configuration whose only provider is `fake` with the model `fake-1`, served at `base_url`.
pub fn opencode_config(base_url: &str) -> Value {
    json!({
        "$schema": "https://opencode.ai/config.json",
        "autoupdate": false,
        "share": "manual",
        "model": "fake/fake-1",
        "small_model": "fake/fake-1",
        "enabled_providers": ["fake"],
        "provider": {
            "fake": {
                "npm": "@ai-sdk/openai-compatible",
                "name": "Fake",
                "options": {"baseURL": base_url, "apiKey": "none"},
                "models": {
                    "fake-1": {
                        "name": "Fake One",
                        "tool_call": true,
                        "attachment": true,
                        "modalities": {"input": ["text", "image"], "output": ["text"]},
                        "limit": {"context": 200_000, "output": 8_000},
                    },
                },
            },
        },
    })
}

/// Writes a configuration to `path`.
///
/// # Panics
///
/// When the file cannot be written.
pub fn write(path: &Path, config: &Value) {
    let text = format!("{config:#}\n");
    std::fs::write(path, text).unwrap_or_else(|cause| panic!("{}: {cause}", path.display()));
}

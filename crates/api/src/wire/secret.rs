//! What is never shown: keys, tokens, passwords, and the values of headers and environments. What has none of these
//! names and looks like one of them is hidden too.

use everturn_model::Map;
use everturn_model::secret_name::{holds_secrets, is_secret, masked_list};
use everturn_model::secret_shape::{HIDDEN, mask};
use serde_json::Value;

/// The same object without its secrets.
pub(crate) fn without(map: &Map) -> Map {
    let kept = map.iter().filter(|(key, _)| !is_secret(key));
    kept.map(|(key, value)| (key.clone(), shown(key, value))).collect()
}

fn shown(key: &str, value: &Value) -> Value {
    match value {
        Value::Object(map) if holds_secrets(key) => {
            map.keys().map(|key| (key.clone(), Value::from(HIDDEN))).collect::<Map>().into()
        }
        Value::Object(map) => without(map).into(),
        Value::Array(list) => masked_list(list, |value| shown(key, value)),
        Value::String(text) => mask(text).into_owned().into(),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn secrets_stay_here() {
        let config = json!({
            "model": "a/b",
            "keybinds": {"leader": "ctrl+x"},
            "provider": {"a": {
                "env": ["A_KEY"],
                "options": {"baseURL": "https://me:pw@host/v1", "apiKey": "sk-1", "api_key": "sk-2",
                    "headers": {"X-Api": "sk-3"}, "secretAccessKey": "sk-4", "timeout": 5},
                "models": {"b": {"limit": {"context": 1}}},
            }},
            "mcp": {"x": {"environment": {"TOKEN": "sk-5"}, "oauth": {"clientSecret": "sk-6"}}},
        });
        let shown = without(config.as_object().unwrap());
        let text = serde_json::to_string(&shown).unwrap();
        assert!(!text.contains("sk-") && !text.contains("pw"), "{text}");
        assert_eq!(shown["provider"]["a"]["options"]["baseURL"], "https://host/v1");
        assert_eq!(shown["provider"]["a"]["options"]["timeout"], 5);
        assert_eq!(shown["provider"]["a"]["options"]["headers"]["X-Api"], HIDDEN);
        assert_eq!(shown["provider"]["a"]["env"][0], "A_KEY");
        assert_eq!(shown["keybinds"]["leader"], "ctrl+x");
        assert_eq!(shown["model"], "a/b");
    }

    #[test]
    fn secrets_under_names_that_nobody_knows_are_hidden_by_their_shape() {
        // Only names were looked at: what stood in an argument, or under a setting of somebody's own, was shown.
        let config = json!({
            "provider": {"a": {"options": {"deployment": "sk-proj-0123456789abcdef", "region": "eu-central-1",
                "note": "login is https://me:pw@host/x?key=abc"}}},
            "mcp": {"x": {"command": ["npx", "server", "--pat", "ghp_0123456789abcdefABCDEF0123456789abcd",
                "--password", "X", "--api-key=X"]}},
            "plugin": ["https://host/p.js"],
        });
        let shown = without(config.as_object().unwrap());
        let expected = json!({
            "provider": {"a": {"options": {"deployment": HIDDEN, "region": "eu-central-1",
                "note": "login is https://host/x?key=[hidden]"}}},
            "mcp": {"x": {"command": ["npx", "server", "--pat", HIDDEN, "--password", HIDDEN, "--api-key=[hidden]"]}},
            "plugin": ["https://host/p.js"],
        });
        assert_eq!(Value::Object(shown), expected);
    }
}

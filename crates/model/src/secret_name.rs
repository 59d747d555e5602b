//! What is a secret because of its name, and settings without such.

use serde_json::{Map, Value};

use crate::secret_shape::{HIDDEN, mask};

/// Ends of names whose values are secrets.
const ENDS: [&str; 8] =
    ["apikey", "secret", "password", "authorization", "accesskey", "accesskeyid", "privatekey", "credential"];

/// Names whose values are: `max_tokens` and the like are none.
const TOKENS: [&str; 8] = [
    "token",
    "accesstoken",
    "authtoken",
    "refreshtoken",
    "sessiontoken",
    "bearertoken",
    "apitoken",
    "credentials",
];

/// Further ends of names, of variables and of options of programs.
const ENDS_OF_VARIABLES: [&str; 4] = ["token", "key", "passwd", "pass"];

fn plain(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
}

/// Whether the value of a setting of this name is a secret.
#[must_use]
pub fn is_secret(name: &str) -> bool {
    let name = plain(name);
    ENDS.iter().any(|end| name.ends_with(end)) || TOKENS.contains(&name.as_str())
}

/// The same for a variable of the environment, or an option of a program.
fn is_secret_variable(name: &str) -> bool {
    is_secret(name) || ENDS_OF_VARIABLES.iter().any(|end| plain(name).ends_with(end))
}

/// Whether what is in a setting of this name has names of somebody's own.
#[must_use]
pub fn holds_secrets(name: &str) -> bool {
    matches!(plain(name).as_str(), "headers" | "environment" | "env")
}

/// What is shown of a secret: where it is taken from, if it is not written there. That is none, and the very thing that
/// somebody decides about who is asked whether a project may have it.
fn hidden(secret: &str) -> Value {
    let mut shown = String::new();
    let mut rest = secret;
    while let Some((at, end)) = reference(rest) {
        let (before, reference) = (rest.get(..at).unwrap_or_default(), rest.get(at..end).unwrap_or_default());
        if !before.trim().is_empty() {
            shown.push_str(HIDDEN);
        }
        shown.push_str(reference);
        rest = rest.get(end..).unwrap_or_default();
    }
    if !rest.trim().is_empty() || shown.is_empty() {
        shown.push_str(HIDDEN);
    }
    shown.into()
}

/// Where the first `{env:NAME}` or `{file:PATH}` of a text begins and ends.
fn reference(text: &str) -> Option<(usize, usize)> {
    let at = ["{env:", "{file:"].iter().filter_map(|kind| text.find(kind)).min()?;
    let end = text.get(at..)?.find('}')?;
    Some((at, at + end + 1))
}

/// A list without what looks like a secret, and without what options of programs say that are secrets by their names.
#[must_use]
pub fn masked_list(list: &[Value], each: impl Fn(&Value) -> Value) -> Value {
    let mut is_value = false;
    let mut shown = Vec::with_capacity(list.len());
    for value in list {
        let text = value.as_str().unwrap_or_default();
        let option = text.starts_with('-').then(|| text.split_once('='));
        shown.push(match option {
            Some(Some((name, said))) if is_secret_variable(name) && !said.is_empty() => {
                format!("{name}={}", hidden(said).as_str().unwrap_or(HIDDEN)).into()
            }
            None if is_value && value.is_string() => hidden(text),
            _ => each(value),
        });
        is_value = option == Some(None) && is_secret_variable(text);
    }
    Value::Array(shown)
}

/// A setting as it is shown to somebody who is to decide about all of it: what is secret by its name or its shape is
/// hidden, and everything else is there, variables of programs included.
#[must_use]
pub fn masked(name: &str, value: &Value) -> Value {
    let is_hidden = |key: &str, value: &Value| !value.is_null() && key != "env" && is_secret(key);
    let hide = |value: &Value| hidden(value.as_str().unwrap_or_default());
    match value {
        value if is_hidden(name, value) && !value.is_object() => hide(value),
        Value::Object(map) if plain(name) == "headers" => {
            map.iter().map(|(key, value)| (key.clone(), hide(value))).collect::<Map<_, _>>().into()
        }
        Value::Object(map) if holds_secrets(name) => {
            let one = |(key, value): (&String, &Value)| {
                let shown = if is_secret_variable(key) { hide(value) } else { masked(key, value) };
                (key.clone(), shown)
            };
            map.iter().map(one).collect::<Map<_, _>>().into()
        }
        Value::Object(map) => {
            map.iter().map(|(key, value)| (key.clone(), masked(key, value))).collect::<Map<_, _>>().into()
        }
        Value::Array(list) => masked_list(list, |value| masked("", value)),
        Value::String(text) => mask(text).into_owned().into(),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_secret_by_its_name_is_hidden_and_what_runs_is_shown() {
        // A request for trust showed what `/config` hides.
        let check = |value: Value, expected: Value| assert_eq!(masked("mcp.docs", &value), expected);
        check(
            json!({
                "command": ["docs", "--password", "hunter2", "--api-key=abc", "--port", "80", "-k"],
                "environment": {"DB_PASSWORD": "x", "GITHUB_TOKEN": "y", "LD_PRELOAD": "./evil.so", "PATH": "."},
                "headers": {"Authorization": "Bearer hunter", "X-Team": "a"},
                "url": "https://me:pw@host/x",
            }),
            json!({
                "command": ["docs", "--password", HIDDEN, "--api-key=[hidden]", "--port", "80", "-k"],
                "environment": {"DB_PASSWORD": HIDDEN, "GITHUB_TOKEN": HIDDEN, "LD_PRELOAD": "./evil.so", "PATH": "."},
                "headers": {"Authorization": HIDDEN, "X-Team": HIDDEN},
                "url": "https://host/x",
            }),
        );
        check(
            json!({"options": {"apiKey": "SECRET", "baseURL": "http://x", "maxTokens": 5}, "oauth": {"clientSecret": 1}}),
            json!({"options": {"apiKey": HIDDEN, "baseURL": "http://x", "maxTokens": 5}, "oauth": {"clientSecret": HIDDEN}}),
        );
    }

    #[test]
    fn where_a_secret_is_taken_from_is_shown() {
        // Whoever was asked could not see that a project wanted another key than before.
        let check = |value: &str, expected: &str| {
            let header = |text: &str| json!({"headers": {"X": text}});
            assert_eq!(masked("mcp.docs", &header(value)), header(expected));
            let option =
                |text: &str| json!({"options": {"apiKey": text}, "command": [format!("--token={text}")]});
            assert_eq!(masked("provider.docs", &option(value)), option(expected));
        };
        check("{file:~/.ssh/id_rsa}", "{file:~/.ssh/id_rsa}");
        check("{env:A}{env:B}", "{env:A}{env:B}");
        check("Bearer {env:TOKEN}", "[hidden]{env:TOKEN}");
        check("{env:USER}:hunter2", "{env:USER}[hidden]");
        check("hunter{2", HIDDEN);
        check("{env:unfinished", HIDDEN);
        check(" ", HIDDEN);
    }
}

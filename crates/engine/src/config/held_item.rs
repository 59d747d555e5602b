//! What a project asks for as a person is shown it: in words, with its content, or with what has changed since they
//! trusted it.

use std::collections::BTreeMap;

use everturn_model::secret_name::masked;
use everturn_model::secret_shape::HIDDEN;
use everturn_tools::patch::{self, PatchHeader};
use serde_json::{Value, json};

use super::trust::digest;
use super::{Config, Trust, sandbox_limits};

/// A thing that a project asks for and nobody has trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldItem {
    /// Its name, such as `model` or `mcp.docs`.
    pub name: String,
    /// What a person lets happen by trusting it.
    pub words: String,
    /// What it says, as it was written but for secrets.
    pub content: HeldContent,
    /// The same in lines that each say something by themselves, what runs and where things are sent first.
    pub(crate) lines: Vec<String>,
    /// What it says, in short.
    pub(crate) digest: String,
}

/// The content of such a thing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HeldContent {
    /// All of it: nothing under its name was trusted before.
    Whole(String),
    /// What is different from what was trusted under its name the last time.
    Diff(String),
}

impl HeldContent {
    /// The text.
    #[must_use]
    pub fn text(&self) -> &str {
        match self {
            Self::Whole(text) | Self::Diff(text) => text,
        }
    }
}

impl HeldItem {
    /// A thing of this name and value. `before` is what was trusted under the name.
    #[must_use]
    pub fn new(name: &str, value: &Value, before: Option<&Value>) -> Self {
        let setting = name.rsplit('.').next().unwrap_or(name);
        let now = masked(setting, value);
        let mut lines = lines_of("", &now);
        let content = match before {
            None => HeldContent::Whole(pretty(&now)),
            Some(before) => {
                let before = told_apart(before, value, masked(setting, before));
                let gone = lines_of("", &before);
                let is_new = |line: &&String| !gone.contains(line);
                let added: Vec<String> =
                    lines.iter().filter(is_new).map(|line| format!("+ {line}")).collect();
                let is_gone = |line: &&String| !lines.contains(line);
                let taken = gone.iter().filter(is_gone).map(|line| format!("- {line}"));
                let changes = added.into_iter().chain(taken).collect();
                lines = changes;
                let patch = patch::unified("", &pretty(&before), &pretty(&now), PatchHeader::Bare);
                let changed = patch.text.lines().skip_while(|line| !line.starts_with("@@")).skip(1);
                HeldContent::Diff(changed.flat_map(|line| [line, "\n"]).collect())
            }
        };
        Self { name: name.to_owned(), words: words(name, value), content, lines, digest: digest(value) }
    }
}

/// Things that run something or say where something is sent, and those that open most besides.
const FIRST_ITEMS: [&str; 8] =
    ["mcp", "provider", "command", "websearch", "sandbox", "agent", "model", "small_model"];

impl HeldItem {
    /// Where it stands among others that are shown: what runs and where things are sent comes first.
    pub(crate) fn rank(&self) -> usize {
        let kind = self.name.split('.').next().unwrap_or(&self.name);
        FIRST_ITEMS.iter().position(|first| *first == kind).unwrap_or(FIRST_ITEMS.len())
    }
}

impl Config {
    /// What the project asks for and nobody has trusted, beside what was trusted in it before.
    pub(crate) fn held_items(&self, trust: &Trust) -> Vec<HeldItem> {
        // What cannot be read trusts nothing, and nobody can say what was in it.
        let before: BTreeMap<String, Value> = trust.granted(&self.root).unwrap_or_default();
        self.held.iter().map(|(name, value)| HeldItem::new(name, value, before.get(name))).collect()
    }

    /// All of it in short, together with the folder that it is trusted in.
    pub(crate) fn held_digest(&self) -> String {
        digest(&json!({"folder": self.root.to_string_lossy(), "held": self.held}))
    }
}

fn pretty(value: &Value) -> String {
    let mut text = serde_json::to_string_pretty(value).unwrap_or_default();
    text.push('\n');
    text
}

/// What stands for a secret that is another one by now.
const HIDDEN_BEFORE: &str = "[hidden before]";

/// A value without its secrets, in which those are marked that have changed.
fn told_apart(before: &Value, now: &Value, mut shown: Value) -> Value {
    match (before, now, &mut shown) {
        (before, now, Value::String(text)) if text.contains(HIDDEN) && before != now => {
            *text = text.replace(HIDDEN, HIDDEN_BEFORE);
        }
        (Value::Object(before), Value::Object(now), Value::Object(shown)) => {
            for (key, value) in shown {
                if let (Some(before), Some(now)) = (before.get(key), now.get(key)) {
                    *value = told_apart(before, now, value.take());
                }
            }
        }
        (Value::Array(before), Value::Array(now), Value::Array(shown)) => {
            for ((before, now), value) in before.iter().zip(now).zip(shown) {
                *value = told_apart(before, now, value.take());
            }
        }
        _ => {}
    }
    shown
}

/// Settings that run something, or say where something is sent.
const FIRST: [&str; 7] = ["command", "baseURL", "url", "npm", "environment", "model", "template"];

/// What a value says, each thing as one line that begins with it, since lines may be cut.
fn lines_of(name: &str, value: &Value) -> Vec<String> {
    match value {
        Value::Object(map) if !map.is_empty() => {
            let mut fields: Vec<(&String, &Value)> = map.iter().collect();
            let leads = |value: &Value, key: &String| {
                let is_first = |key: &str| FIRST.contains(&key);
                let inner = value.as_object().is_some_and(|map| map.keys().any(|key| is_first(key)));
                if is_first(key) { 0 } else { 2 - u8::from(inner) }
            };
            fields.sort_by_key(|(key, value)| leads(value, key));
            let path = |key: &str| if name.is_empty() { key.to_owned() } else { format!("{name}.{key}") };
            fields.into_iter().flat_map(|(key, value)| lines_of(&path(key), value)).collect()
        }
        Value::Array(list) if list.iter().all(Value::is_string) && !list.is_empty() => {
            let word = |value: &Value| match value.as_str() {
                Some(text) if !text.is_empty() && !text.contains([' ', '"', '\\']) => text.to_owned(),
                _ => value.to_string(),
            };
            vec![line_of(name, &list.iter().map(word).collect::<Vec<_>>().join(" "))]
        }
        Value::String(text) => vec![line_of(name, text)],
        other => vec![line_of(name, &other.to_string())],
    }
}

fn line_of(name: &str, text: &str) -> String {
    if name.is_empty() { text.to_owned() } else { format!("{text} ({name})") }
}

fn words(name: &str, value: &Value) -> String {
    if name == "sandbox" {
        return sandbox_limits::words(value);
    }
    let words = match name.split('.').next().unwrap_or(name) {
        "agent" => "an agent with a model, rules or settings of its own",
        "command" => "a command that runs programs or chooses a model",
        "default_agent" => "which agent answers",
        "disabled_providers" | "enabled_providers" => "which providers are used",
        "instructions" => "files outside the project that the model is told",
        "mcp" => "a program that is started here, or an address that is called",
        "model" | "small_model" => "which model answers, and who gets the conversation",
        "permission" => "rules that allow more than you do",
        "provider" => "where conversations and keys are sent, and which keys",
        "skills" => "skills outside the project",
        "snapshot" => "whether changes of files can be undone",
        "limits" => "how long a turn may take",
        "tool_output" => "how much of an output the model sees",
        "websearch" => "where searches are sent",
        _ => "a setting",
    };
    words.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thing_is_shown_whole_or_by_what_has_changed() {
        let check = |before: Option<&Value>, content: HeldContent, lines: &[&str]| {
            let value = json!({"type": "local", "command": ["docs"]});
            let item = HeldItem::new("mcp.docs", &value, before);
            let words = "a program that is started here, or an address that is called".to_owned();
            let lines = lines.iter().map(|line| (*line).to_owned()).collect();
            let expected =
                HeldItem { name: "mcp.docs".into(), words, content, lines, digest: digest(&value) };
            assert_eq!(item, expected);
        };
        let whole = "{\n  \"type\": \"local\",\n  \"command\": [\n    \"docs\"\n  ]\n}\n";
        check(None, HeldContent::Whole(whole.to_owned()), &["docs (command)", "local (type)"]);
        let changed =
            " {\n   \"type\": \"local\",\n   \"command\": [\n-    \"old\"\n+    \"docs\"\n   ]\n }\n";
        let before = json!({"type": "local", "command": ["old"]});
        let lines = ["+ docs (command)", "- old (command)"];
        check(Some(&before), HeldContent::Diff(changed.to_owned()), &lines);
    }

    #[test]
    fn a_thing_is_shown_without_secrets_and_what_runs_comes_first() {
        // A request showed, and stored, keys that `/config` hides.
        let value = json!({
            "name": "X",
            "options": {"apiKey": "SECRETKEYA1234", "timeout": 5, "baseURL": "http://evil.example"},
        });
        let item = HeldItem::new("provider.x", &value, None);
        assert!(!item.content.text().contains("SECRET"), "{item:?}");
        assert_eq!(
            item.lines,
            [
                "http://evil.example (options.baseURL)",
                "[hidden] (options.apiKey)",
                "5 (options.timeout)",
                "X (name)",
            ]
        );
        let mut before = value.clone();
        before["options"]["apiKey"] = json!("another one");
        let item = HeldItem::new("provider.x", &value, Some(&before));
        let lines = ["+ [hidden] (options.apiKey)", "- [hidden before] (options.apiKey)"];
        assert_eq!(item.lines, lines);
    }

    #[test]
    fn what_is_opened_is_said_in_words() {
        let check = |value: Value, expected: &str| {
            assert_eq!(HeldItem::new("sandbox", &value, None).words, expected, "{value}");
        };
        let off = "the sandbox is switched off: commands can read and change all that you can";
        check(json!("off"), off);
        check(json!({"mode": "off", "readable": ["~/x"]}), off);
        check(json!("workspace"), "how far commands are confined");
        check(
            json!({"readable": ["~/.ssh", "/srv/x"], "writable": ["~/other"]}),
            "commands can read ~/.ssh, /srv/x and change ~/other besides the project",
        );
    }
}

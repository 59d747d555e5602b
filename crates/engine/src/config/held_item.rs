//! What a project asks for as a person is shown it: in words, with its content, or with what has changed since they
//! trusted it.

use std::collections::BTreeMap;

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
    /// What it says, as it was written.
    pub content: HeldContent,
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
        let content = match before {
            None => HeldContent::Whole(pretty(value)),
            Some(before) => {
                let patch = patch::unified("", &pretty(before), &pretty(value), PatchHeader::Bare);
                let changed = patch.text.lines().skip_while(|line| !line.starts_with("@@")).skip(1);
                HeldContent::Diff(changed.flat_map(|line| [line, "\n"]).collect())
            }
        };
        Self { name: name.to_owned(), words: words(name, value), content, digest: digest(value) }
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
        let check = |before: Option<&Value>, content: HeldContent| {
            let value = json!({"type": "local", "command": ["docs"]});
            let item = HeldItem::new("mcp.docs", &value, before);
            let words = "a program that is started here, or an address that is called".to_owned();
            let expected = HeldItem { name: "mcp.docs".into(), words, content, digest: digest(&value) };
            assert_eq!(item, expected);
        };
        let whole = "{\n  \"type\": \"local\",\n  \"command\": [\n    \"docs\"\n  ]\n}\n";
        check(None, HeldContent::Whole(whole.to_owned()));
        let changed =
            " {\n   \"type\": \"local\",\n   \"command\": [\n-    \"old\"\n+    \"docs\"\n   ]\n }\n";
        let before = json!({"type": "local", "command": ["old"]});
        check(Some(&before), HeldContent::Diff(changed.to_owned()));
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

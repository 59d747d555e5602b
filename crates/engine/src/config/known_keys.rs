//! The keys that a configuration can have, here and in OpenCode, and which of them a misspelt one was meant to be.
//!
//! An OpenCode configuration has keys that nothing here acts on yet: they are known, and no mistake.

use serde_json::Value;

use super::misspelling::{is_close, is_permission, plain};

/// A level of a configuration, and its keys.
pub(super) struct KeyLevel {
    pub(super) keys: &'static [&'static str],
    /// Those that say what may be done.
    pub(super) restricting: &'static [&'static str],
    /// Those whose value is a table: what is no table was not meant to be one of them.
    tables: &'static [&'static str],
    /// Whether other keys may stand there: those of an agent are handed to its provider.
    pub(super) is_open: bool,
}

/// A whole file.
pub(super) const TOP: KeyLevel = KeyLevel {
    keys: &[
        "$schema",
        "agent",
        "attachment",
        "autoshare",
        "autoupdate",
        "command",
        "compaction",
        "default_agent",
        "disabled_providers",
        "enabled_providers",
        "enterprise",
        "experimental",
        "formatter",
        "instructions",
        "keybinds",
        "layout",
        "logLevel",
        "lsp",
        "mcp",
        "mode",
        "model",
        "permission",
        "plugin",
        "provider",
        "reference",
        "references",
        "sandbox",
        "server",
        "share",
        "shell",
        "skills",
        "small_model",
        "snapshot",
        "subagent_depth",
        "theme",
        "tool_output",
        "tools",
        "trash",
        "tui",
        "username",
        "watcher",
        "websearch",
    ],
    restricting: &["agent", "mode", "permission", "sandbox", "tools"],
    tables: &["agent", "command", "mcp", "mode", "provider"],
    is_open: false,
};

/// An agent, or a mode as OpenCode called them before.
pub(super) const AGENT: KeyLevel = KeyLevel {
    keys: &[
        "color",
        "description",
        "disable",
        "hidden",
        "maxSteps",
        "mode",
        "model",
        "name",
        "options",
        "permission",
        "prompt",
        "steps",
        "temperature",
        "tools",
        "top_p",
        "variant",
    ],
    restricting: &["disable", "permission", "tools"],
    tables: &[],
    is_open: true,
};

/// Levels in which nothing restricts: the key of each, and whether there is one for each name in it.
pub(super) const OTHERS: [(&str, bool, KeyLevel); 5] = [
    (
        "mcp",
        true,
        plain_level(&[
            "command",
            "cwd",
            "enabled",
            "environment",
            "headers",
            "oauth",
            "timeout",
            "type",
            "url",
        ]),
    ),
    (
        "provider",
        true,
        plain_level(&["api", "blacklist", "env", "id", "models", "name", "npm", "options", "whitelist"]),
    ),
    ("skills", false, plain_level(&["paths", "urls"])),
    ("tool_output", false, plain_level(&["max_bytes", "max_lines"])),
    ("websearch", false, plain_level(&["key", "provider", "url"])),
];

/// The agents that nobody has to configure.
pub(super) const BUILTIN_AGENTS: [&str; 5] = ["build", "plan", "general", "explore", "title"];

/// What a word has in it that says what may be done, whatever else it is called in other programs.
const RESTRICTING_STEMS: [&str; 2] = ["permi", "sandbox"];

/// The same where it is said what may not be done, so that `true` forbids and `false` does not.
const FORBIDDING_STEMS: [&str; 10] = [
    "approv",
    "confirm",
    "denied",
    "deny",
    "disallow",
    "forbid",
    "read_only",
    "readonly",
    "restrict",
    "untrust",
];

/// Such words that are also in the names of settings for providers, as `disableParallelToolUse` and `safePrompt`: where those
/// may be, only the whole word counts.
const FORBIDDING_WORDS: [&str; 6] = ["ask", "block", "blocked", "disable", "disabled", "safe"];

/// The same in the name of a table or a list.
const RESTRICTING_TABLES: [&str; 5] = ["agent", "allow", "block", "rule", "tool"];

/// What the settings of a server have in their names that mean it to run, and not to.
const RUNNING_STEMS: [&str; 5] = ["activ", "enabl", "launch", "run", "start"];
const RESTING_STEMS: [&str; 5] = ["disabl", "inactiv", "paus", "skip", "suspend"];

/// Actions that forbid, or let the person do so.
const FORBIDDING: [&str; 2] = ["ask", "deny"];

const fn plain_level(keys: &'static [&'static str]) -> KeyLevel {
    KeyLevel { keys, restricting: &[], tables: &[], is_open: false }
}

/// What a key was meant to be that is none of a level's.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct UnknownKey {
    /// The key that comes closest.
    pub(super) nearest: Option<&'static str>,
    /// Whether it may have been meant to forbid something.
    pub(super) may_restrict: bool,
}

impl KeyLevel {
    /// What is to be said of a key; nothing if it is known, or may be there.
    pub(super) fn unknown(&self, key: &str, value: &Value) -> Option<UnknownKey> {
        if self.keys.contains(&key) {
            return None;
        }
        let nearest = self.nearest(key, value);
        let is_table = value.is_object() || value.is_array();
        let word = plain(key);
        let has = |stems: &[&str]| stems.iter().any(|stem| word.contains(stem));
        let sounds = has(&RESTRICTING_STEMS) || is_table && has(&RESTRICTING_TABLES);
        let is_permission = is_permission(if self.is_open { key } else { &word });
        let may_restrict = if has(&FORBIDDING_STEMS) || self.has_forbidding_word(&word) {
            !value.is_null() && *value != false
        } else {
            let is_meant = nearest.map_or(sounds, |nearest| self.restricting.contains(&nearest));
            !only_allows(value) && (forbids(value) || is_permission || is_meant)
        };
        let may_restrict = may_restrict && !self.restricting.is_empty();
        (nearest.is_some() || may_restrict || !self.is_open).then_some(UnknownKey { nearest, may_restrict })
    }

    fn has_forbidding_word(&self, word: &str) -> bool {
        if self.is_open {
            return FORBIDDING_WORDS.contains(&word);
        }
        word.split('_').any(|part| FORBIDDING_WORDS.iter().any(|word| part.starts_with(word)))
    }

    fn nearest(&self, key: &str, value: &Value) -> Option<&'static str> {
        let word = plain(key);
        let is_table = value.is_object() || value.is_array();
        let fits = |known: &&&str| is_table || !self.tables.contains(*known);
        let close = self.keys.iter().filter(fits).filter(|known| is_close(&word, known));
        close.min_by_key(|known| strsim::osa_distance(&word, known)).copied()
    }
}

/// Whether an unknown setting may have been meant to switch off the server that it is of.
pub(super) fn may_switch_off(key: &str, unknown: &UnknownKey, value: &Value) -> bool {
    let word = plain(key);
    let has = |stems: &[&str]| stems.iter().any(|stem| word.contains(stem));
    if has(&RESTING_STEMS) || word == "off" {
        return *value != false;
    }
    // Others are numbers, such as how long its start may take.
    unknown.nearest == Some("enabled") && *value != true || has(&RUNNING_STEMS) && *value == false
}

/// Whether a value allows something and forbids nothing.
pub(super) fn only_allows(value: &Value) -> bool {
    match value {
        Value::Object(map) => !map.is_empty() && map.values().all(only_allows),
        other => other == "allow" || *other == true,
    }
}

/// Whether a value that is no setting here has rules in it that forbid something.
pub(super) fn has_restrictions(value: &Value) -> bool {
    let switches = value.as_object().into_iter().flatten();
    forbids(value) || switches.into_iter().any(|(name, value)| *value == false && is_permission(name))
}

/// Whether a rule that forbids something is anywhere in a value.
fn forbids(value: &Value) -> bool {
    match value {
        Value::Object(map) => {
            map.iter().any(|(key, value)| FORBIDDING.contains(&plain(key).as_str()) || forbids(value))
        }
        Value::Array(items) => items.iter().any(forbids),
        Value::String(text) => FORBIDDING.contains(&plain(text).as_str()),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(level: &KeyLevel, key: &str, value: &Value, expected: Option<(Option<&'static str>, bool)>) {
        let expected = expected.map(|(nearest, may_restrict)| UnknownKey { nearest, may_restrict });
        assert_eq!(level.unknown(key, value), expected, "{key}: {value}");
    }

    #[test]
    fn the_built_in_agents_are_listed() {
        let config = crate::Config::default();
        let names: Vec<&str> = config.agents().all().iter().map(|agent| agent.name.as_str()).collect();
        assert_eq!(names, BUILTIN_AGENTS);
    }

    #[test]
    fn what_was_meant_is_found() {
        let rules = json!({"bash": "deny"});
        for (key, value, expected) in [
            ("permission", &rules, None),
            ("permissions", &rules, Some((Some("permission"), true))),
            ("Permission", &json!("deny"), Some((Some("permission"), true))),
            ("permissions", &json!({"bash": "allow"}), Some((Some("permission"), false))),
            ("tool", &json!({"bash": false}), Some((Some("tools"), true))),
            ("sand-box", &json!("read-only"), Some((Some("sandbox"), true))),
            ("agents", &json!({"build": {"tools": {"bash": false}}}), Some((Some("agent"), true))),
            ("modle", &json!("x/y"), Some((Some("model"), false))),
            ("smallModel", &json!("x/y"), Some((Some("small_model"), false))),
            ("tool_outputs", &json!({"max_lines": 1}), Some((Some("tool_output"), false))),
            ("policy", &rules, Some((None, true))),
            ("allowed_tools", &json!(["read"]), Some((None, true))),
            ("hooks", &json!({"before": ["make"]}), Some((None, false))),
            ("fancy", &json!(true), Some((None, false))),
        ] {
            check(&TOP, key, value, expected);
        }
    }

    #[test]
    fn an_agent_has_settings_for_its_provider() {
        for (key, value) in [
            ("reasoningEffort", json!("high")),
            ("textVerbosity", json!("low")),
            ("thinking", json!({"type": "enabled"})),
            ("toolChoice", json!("auto")),
            ("top_k", json!(5)),
            ("maxTokens", json!(5)),
        ] {
            check(&AGENT, key, &value, None);
        }
        check(&AGENT, "permissions", &json!({"bash": "deny"}), Some((Some("permission"), true)));
        check(&AGENT, "permissionMode", &json!("plan"), Some((None, true)));
        check(&AGENT, "disabled", &json!("yes"), Some((Some("disable"), true)));
        check(&AGENT, "rules", &json!({"bash": "deny"}), Some((None, true)));
        check(&AGENT, "promt", &json!("Look."), Some((Some("prompt"), false)));
    }
}

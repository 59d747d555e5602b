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
        "budget",
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
        "limits",
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
pub(super) const OTHERS: [(&str, bool, KeyLevel); 7] = [
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
    (
        "compaction",
        false,
        plain_level(&[
            "auto",
            "max_messages",
            "max_tokens",
            "preserve_recent_tokens",
            "prune",
            "recent_messages",
            "reserved",
            "tail_turns",
        ]),
    ),
    ("limits", false, plain_level(&["inactivity", "retry_after", "turn"])),
    ("skills", false, plain_level(&["paths", "urls"])),
    ("tool_output", false, plain_level(&["max_bytes", "max_lines"])),
    ("websearch", false, plain_level(&["key", "provider", "url"])),
];

/// The agents that nobody has to configure.
pub(super) const BUILTIN_AGENTS: [&str; 6] = ["build", "plan", "general", "explore", "title", "compaction"];

/// What people call all agents, or the one that they work with.
pub(super) const ALL_AGENTS: [&str; 10] =
    ["", "agent", "all", "any", "default", "every", "everyone", "global", "main", "primary"];

/// What a word has in it that says what may be done, whatever else it is called in other programs.
const RESTRICTING_STEMS: [&str; 2] = ["permi", "sandbox"];

/// The same where it is said what may not be done, so that `true` forbids and `false` does not.
const FORBIDDING_STEMS: [&str; 14] = [
    "allowlist",
    "approv",
    "blacklist",
    "confirm",
    "denied",
    "deny",
    "disallow",
    "forbid",
    "lockdown",
    "read_only",
    "readonly",
    "restrict",
    "untrust",
    "whitelist",
];

/// What turns around a word that says that somebody is asked: `auto_approve` and `skip_confirmation` ask nobody, and
/// `no_auto_approve` asks again.
const ASKING_STEMS: [&str; 2] = ["approv", "confirm"];
const TURNING_STEMS: [&str; 8] = ["auto", "bypass", "disabl", "dont", "never", "no_", "skip", "without"];

/// What a word has in it that lets something happen, so that `false` forbids it.
const PERMITTING_STEMS: [&str; 2] = ["allow", "trust"];
const PERMITTING_WORDS: [&str; 4] = ["allow", "allowed", "trust", "trusted"];

/// Such words that are also in the names of settings for providers, as `disableParallelToolUse` and `safePrompt`: where those
/// may be, only the whole word counts.
const FORBIDDING_WORDS: [&str; 7] = ["ask", "block", "blocked", "disable", "disabled", "only", "safe"];

/// The same in the name of a table or a list.
const RESTRICTING_TABLES: [&str; 5] = ["agent", "allow", "block", "rule", "tool"];

/// What the settings of a server have in their names that mean it to run, and not to.
const RUNNING_STEMS: [&str; 5] = ["activ", "enabl", "launch", "run", "start"];
const RESTING_STEMS: [&str; 7] = ["disabl", "halt", "inactiv", "paus", "skip", "stop", "suspend"];

/// Words that are such a setting by themselves or as a part of one: `turned_off`, `off`.
const RESTING_WORDS: [&str; 2] = ["off", "offline"];

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
        let may_restrict = if asks_nobody(&word) {
            // `true` is what it says, and anything else keeps something from it.
            !value.is_null() && !only_allows(value)
        } else if has(&FORBIDDING_STEMS) || self.has_forbidding_word(&word) {
            !value.is_null() && *value != false
        } else {
            let permits =
                if self.is_open { PERMITTING_WORDS.contains(&word.as_str()) } else { has(&PERMITTING_STEMS) };
            let sounds = sounds || *value == false && permits;
            let is_meant = nearest.map_or(sounds, |nearest| self.restricting.contains(&nearest));
            !only_allows(value) && (forbids(value) || is_permission || is_meant)
        };
        let may_restrict = may_restrict && !self.restricting.is_empty();
        (nearest.is_some() || may_restrict || !self.is_open).then_some(UnknownKey { nearest, may_restrict })
    }

    fn has_forbidding_word(&self, word: &str) -> bool {
        if self.is_open { FORBIDDING_WORDS.contains(&word) } else { has_forbidding_part(word) }
    }

    fn nearest(&self, key: &str, value: &Value) -> Option<&'static str> {
        let word = plain(key);
        let is_table = value.is_object() || value.is_array();
        let fits = |known: &&&str| is_table || !self.tables.contains(*known);
        let close = self.keys.iter().filter(fits).filter(|known| is_close(&word, known));
        close.min_by_key(|known| strsim::osa_distance(&word, known)).copied()
    }
}

fn has_forbidding_part(word: &str) -> bool {
    word.split('_').any(|part| FORBIDDING_WORDS.iter().any(|word| part.starts_with(word)))
}

fn sounds_forbidding(word: &str) -> bool {
    FORBIDDING_STEMS.iter().any(|stem| word.contains(stem)) || has_forbidding_part(word)
}

/// Whether a word says that something is done without asking.
fn asks_nobody(word: &str) -> bool {
    let turned = TURNING_STEMS.iter().filter(|stem| word.contains(*stem)).count();
    ASKING_STEMS.iter().any(|stem| word.contains(stem)) && turned % 2 == 1
}

/// Whether an unknown setting may have been meant to switch off the server that it is of, or to forbid it something, which
/// only keeping it from starting does for sure.
pub(super) fn may_switch_off(key: &str, unknown: &UnknownKey, value: &Value) -> bool {
    let word = plain(key);
    // As a state that is given a name: `"state": "stopped"`.
    if value.as_str().is_some_and(|state| rests(&plain(state))) {
        return true;
    }
    // Other numbers are none that switch, such as how long its start or its end may take.
    let is_switch = value.as_u64().is_none_or(|number| number <= 1) && !value.is_f64();
    if rests(&word) || sounds_forbidding(&word) && !asks_nobody(&word) {
        return is_switch && !value.is_null() && *value != false && *value != 0;
    }
    let runs = RUNNING_STEMS.iter().any(|stem| word.contains(stem));
    unknown.nearest == Some("enabled") && *value != true || runs && *value == false
}

/// Whether a word says of a server that it does not run.
fn rests(word: &str) -> bool {
    RESTING_STEMS.iter().any(|stem| word.contains(stem))
        || word.split('_').any(|part| RESTING_WORDS.contains(&part))
}

/// Whether a value allows something and forbids nothing.
pub(super) fn only_allows(value: &Value) -> bool {
    match value {
        Value::Object(map) => !map.is_empty() && map.values().all(only_allows),
        other => other == "allow" || *other == true,
    }
}

/// Whether a rule that forbids something is anywhere in a value.
pub(super) fn forbids(value: &Value) -> bool {
    match value {
        Value::Object(map) => {
            let is_off = |key: &str, value: &Value| *value == false && is_permission(key);
            map.iter().any(|(key, value)| {
                FORBIDDING.contains(&plain(key).as_str()) || is_off(key, value) || forbids(value)
            })
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
            ("auto_approve", &json!(true), Some((None, false))),
            ("autoApprove", &json!("allow"), Some((None, false))),
            ("auto_approve", &json!(false), Some((None, true))),
            ("auto_approve", &json!(["read"]), Some((None, true))),
            ("auto_approve", &json!({"read": true, "bash": false}), Some((None, true))),
            ("auto_approve", &Value::Null, Some((None, false))),
            ("skip_confirmation", &json!(true), Some((None, false))),
            ("no_auto_approve", &json!(true), Some((None, true))),
            ("disable_auto_approve", &json!(true), Some((None, true))),
            ("require_approval", &json!(true), Some((None, true))),
            ("require_approval", &json!(false), Some((None, false))),
            ("hooks", &json!({"before": ["make"]}), Some((None, false))),
            ("fancy", &json!(true), Some((None, false))),
            ("config", &json!({"tools": {"bash": false}}), Some((None, true))),
            ("whitelist", &json!(["read"]), Some((None, true))),
            ("only", &json!(["read"]), Some((None, true))),
            ("trusted", &json!(false), Some((None, true))),
            ("trusted", &json!(true), Some((None, false))),
            ("lockdown", &json!(true), Some((None, true))),
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

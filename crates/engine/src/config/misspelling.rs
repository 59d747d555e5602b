//! Words in rules that mean nothing here, and what they were meant to be.
//!
//! Every word can be the name of a tool: MCP servers, plugins and other releases of OpenCode have their own. So a name counts
//! as misspelt only if it comes close to one that is known, is that of a tool that asks under another name, or is what other
//! programs call one; or if no tool can have it, as `Bash(git *)`. What an action is called is known for certain.

use std::collections::BTreeSet;

use everturn_tools::bash::{NETWORK, OUTSIDE};
use everturn_tools::scope::{PROTECTED, SECRET};
use everturn_tools::webfetch::LOCAL_NETWORK;

/// What rules are about, here and in OpenCode.
pub(super) const NAMES: [&str; 25] = [
    "bash",
    "codesearch",
    "doom_loop",
    "edit",
    "external_directory",
    "glob",
    "grep",
    "invalid",
    "list",
    LOCAL_NETWORK,
    "lsp",
    NETWORK,
    OUTSIDE,
    "plan_enter",
    "plan_exit",
    PROTECTED,
    "question",
    "read",
    SECRET,
    "skill",
    "task",
    "todoread",
    "todowrite",
    "webfetch",
    "websearch",
];

/// Tools that change files ask for `edit`.
pub(super) const EDITING_TOOLS: [&str; 4] = ["apply_patch", "multiedit", "patch", "write"];

const ACTIONS: [&str; 3] = ["allow", "ask", "deny"];

/// What other programs for agents call it.
const SYNONYMS: [(&str, &str); 20] = [
    ("all", "*"),
    ("any", "*"),
    ("command", "bash"),
    ("commands", "bash"),
    ("default", "*"),
    ("everything", "*"),
    ("exec", "bash"),
    ("execute", "bash"),
    ("fetch", "webfetch"),
    ("ls", "list"),
    ("notebookedit", "edit"),
    ("powershell", "bash"),
    ("read_file", "read"),
    ("run", "bash"),
    ("run_command", "bash"),
    ("run_shell_command", "bash"),
    ("shell", "bash"),
    ("str_replace", "edit"),
    ("terminal", "bash"),
    ("write_file", "edit"),
];

/// How much of each word is shown.
const SHOWN: usize = 64;

/// Names of up to so many letters are other words soon.
const SHORT: usize = 5;

/// A name that means nothing.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct WrongName {
    /// What is wrong with it.
    pub(super) what: String,
    /// The permission that was meant.
    pub(super) meant: Option<&'static str>,
}

/// What the names of the tools of MCP servers begin with, before an underscore.
pub(super) fn prefixes<'n>(servers: impl Iterator<Item = &'n String>) -> BTreeSet<String> {
    servers.map(|name| name.replace(|letter| !is_of_names(letter), "_")).collect()
}

/// Whether a tool of this name is an MCP server's.
pub(super) fn is_of_server(name: &str, prefixes: &BTreeSet<String>) -> bool {
    let is_prefix = |(at, _)| name.get(..at).is_some_and(|server| prefixes.contains(server));
    name.match_indices('_').any(is_prefix)
}

/// Whether a name is that of a permission, or of a tool that asks under another one.
pub(super) fn is_permission(name: &str) -> bool {
    NAMES.contains(&name) || EDITING_TOOLS.contains(&name)
}

/// What is wrong with the name of a permission. Tools whose names begin with one of `prefixes` are MCP servers'.
pub(super) fn wrong_name(name: &str, prefixes: &BTreeSet<String>) -> Option<WrongName> {
    if NAMES.contains(&name) || is_of_server(name, prefixes) {
        return None;
    }
    let is_name = !name.is_empty() && name.chars().all(|letter| is_of_names(letter) || is_wildcard(letter));
    let is_pattern = name.contains(is_wildcard);
    if let Some(meant) = (!is_pattern).then(|| permission_meant(name)).flatten() {
        let what = format!("no permission is called `{}`: did you mean `{meant}`?", shown(name));
        return Some(WrongName { what, meant: Some(meant) });
    }
    if is_name {
        return None;
    }
    // `Bash(git *)`, and the pattern of a command where its permission belongs.
    let (head, pattern) = match name.split_once('(') {
        Some((head, rest)) => (permission_meant(head), rest.strip_suffix(')').unwrap_or(rest)),
        None => (Some("bash"), name),
    };
    let what = format!("no permission is called `{}`", shown(name));
    let what = match head {
        Some(head) => format!("{what}: did you mean `{}` below `{head}`?", shown(pattern)),
        None => what,
    };
    Some(WrongName { what, meant: head })
}

/// What is wrong with the word for an action.
pub(super) fn wrong_action(word: &str) -> Option<String> {
    if ACTIONS.contains(&word) {
        return None;
    }
    let near = ACTIONS.into_iter().find(|action| strsim::osa_distance(&plain(word), action) <= 2);
    let hint = near
        .filter(|_| !word.is_empty())
        .map_or_else(String::new, |near| format!(": did you mean `{near}`?"));
    Some(format!("is none of `allow`, `ask` and `deny`{hint}"))
}

/// The permission that a word means, known or misspelt.
pub(super) fn permission_meant(word: &str) -> Option<&'static str> {
    let word = plain(word);
    if EDITING_TOOLS.contains(&word.as_str()) {
        return Some("edit");
    }
    let synonym = SYNONYMS.into_iter().find(|(synonym, _)| *synonym == word).map(|(_, meant)| meant);
    let close = || {
        let close = NAMES.into_iter().filter(|known| is_close(&word, known));
        close.min_by_key(|known| strsim::osa_distance(&word, known))
    };
    synonym.or_else(close)
}

/// A word without the differences that nobody means.
pub(super) fn plain(word: &str) -> String {
    word.trim().to_lowercase().replace(['-', ' '], "_")
}

/// Whether a word was probably meant to be one that is known.
pub(super) fn is_close(word: &str, known: &str) -> bool {
    let is_beginning = word.len() > SHORT && known.starts_with(word);
    // Most words are told apart by their length, which takes no time.
    if is_beginning || word.len().abs_diff(known.len()) > 2 {
        return is_beginning;
    }
    let distance = strsim::osa_distance(word, known);
    if known.len() > SHORT {
        return distance <= 2;
    }
    // One letter instead of another makes another word: `lint` is no misspelt `list`.
    let letters = |word: &str| {
        let mut letters: Vec<char> = word.chars().collect();
        letters.sort_unstable();
        letters
    };
    distance == 0 || distance == 1 && (word.len() != known.len() || letters(word) == letters(known))
}

/// A word as a person is shown it.
pub(super) fn shown(word: &str) -> String {
    word.chars().take(SHOWN).collect()
}

fn is_of_names(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || ['_', '-'].contains(&letter)
}

fn is_wildcard(letter: char) -> bool {
    ['*', '?'].contains(&letter)
}

#[cfg(test)]
mod tests {
    use everturn_tools::{Registry, ToolSettings};

    use super::*;

    fn wrong(name: &str) -> Option<(String, Option<&'static str>)> {
        let servers = ["bas".to_owned(), "my todo".to_owned()];
        wrong_name(name, &prefixes(servers.iter())).map(|wrong| (wrong.what, wrong.meant))
    }

    #[test]
    fn every_word_may_be_the_name_of_a_tool() {
        for name in NAMES {
            assert_eq!(wrong(name), None);
        }
        // Servers that are configured here, or elsewhere, tools of plugins, and patterns.
        for name in [
            "bas_h",
            "my_todo_write",
            "github_create_issue",
            "mymcp_*",
            "b?sh",
            "*",
            "deploy",
            "lint",
            "test",
        ] {
            assert_eq!(wrong(name), None);
        }
        for name in ["exit", "dash", "base", "mcp__github__push", "Deploy-2"] {
            assert_eq!(wrong(name), None);
        }
    }

    #[test]
    fn every_tool_asks_under_a_name_that_is_known() {
        let tools = Registry::builtin(&ToolSettings::default()).offer();
        for name in tools.names() {
            let permission = tools.get(name).unwrap().permission().to_owned();
            let permission = permission.as_str();
            assert!(NAMES.contains(&permission), "{permission}");
        }
    }

    #[test]
    fn a_misspelt_name_is_found() {
        for (name, meant) in [
            ("bahs", "bash"),
            ("Bash", "bash"),
            ("basch", "bash"),
            ("bsh", "bash"),
            ("edti", "edit"),
            ("edits", "edit"),
            ("write", "edit"),
            ("Write", "edit"),
            ("MultiEdit", "edit"),
            ("NotebookEdit", "edit"),
            ("apply_patch", "edit"),
            ("webftech", "webfetch"),
            ("WebFetch", "webfetch"),
            ("web-fetch", "webfetch"),
            ("external-directory", "external_directory"),
            ("external_dir", "external_directory"),
            ("outside_sanbox", "outside_sandbox"),
            ("skills", "skill"),
            ("shell", "bash"),
            ("Execute", "bash"),
            ("run", "bash"),
        ] {
            let what = format!("no permission is called `{name}`: did you mean `{meant}`?");
            assert_eq!(wrong(name), Some((what, Some(meant))));
        }
    }

    #[test]
    fn what_no_tool_can_be_called_is_found() {
        for (name, end, meant) in [
            ("Bash(git *)", ": did you mean `git *` below `bash`?", Some("bash")),
            ("Read(./secrets/**)", ": did you mean `./secrets/**` below `read`?", Some("read")),
            ("Odd(x)", "", None),
            ("rm -rf *", ": did you mean `rm -rf *` below `bash`?", Some("bash")),
        ] {
            assert_eq!(wrong(name), Some((format!("no permission is called `{name}`{end}"), meant)));
        }
    }

    #[test]
    fn a_misspelt_action_is_found() {
        let none = "is none of `allow`, `ask` and `deny`";
        for word in ["denny", "Deny"] {
            assert_eq!(wrong_action(word), Some(format!("{none}: did you mean `deny`?")));
        }
        for word in ["never", ""] {
            assert_eq!(wrong_action(word), Some(none.to_owned()));
        }
        assert_eq!(["allow", "ask", "deny"].map(wrong_action), [None, None, None]);
    }
}

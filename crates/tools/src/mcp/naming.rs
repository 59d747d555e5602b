//! The names of servers' tools among all others.
//!
//! A name is the server's and the tool's own, joined, in the letters that providers accept. Where that would be the
//! name of something else, or is too long, a short hash of both is added. It depends on the configuration, on the
//! built-in tools and on the server's own list, never on which server happened to connect first: the same tool has
//! the same name tomorrow, and so do the rules that a person made about it.

use std::collections::{BTreeMap, BTreeSet};

use crate::registry::{RESERVED, Registry};

/// The longest name.
const NAME_MAX: usize = 64;

/// Hexadecimal digits of the hash.
const HASH: usize = 8;

/// The names of one server's tools.
#[derive(Debug, Clone)]
pub(super) struct Naming {
    server: String,
    prefix: String,
    /// Another server's prefix is the same, and that one has the better right to it.
    shared: bool,
    /// Longer prefixes of other servers that begin with this one.
    within: Vec<String>,
    below: Registry,
}

impl Naming {
    /// The naming of a server among the configured ones, over the tools below.
    pub(super) fn new<'a>(server: &str, all: impl IntoIterator<Item = &'a str>, below: Registry) -> Self {
        let prefix = prefix(server);
        let (mut shared, mut within) = (false, Vec::new());
        for other in all.into_iter().filter(|other| *other != server) {
            let theirs = self::prefix(other);
            // At most one server is called exactly what its prefix says.
            shared |= theirs == prefix && format!("{server}_") != prefix;
            if theirs.len() > prefix.len() && theirs.starts_with(&prefix) {
                within.push(theirs);
            }
        }
        Self { server: server.to_owned(), prefix, shared, within, below }
    }

    /// The names of the tools of a list, by the tools' own names. A name that is listed twice counts once.
    pub(super) fn names(&self, tools: &[&str]) -> BTreeMap<String, String> {
        let tools: BTreeSet<&str> = tools.iter().copied().collect();
        let plain = |tool: &str| format!("{}{}", self.prefix, letters(tool));
        let mut users: BTreeMap<String, usize> = BTreeMap::new();
        for tool in &tools {
            *users.entry(plain(tool)).or_default() += 1;
        }
        let mut names = BTreeMap::new();
        let mut taken = BTreeSet::new();
        for tool in tools {
            let name = plain(tool);
            let contested = users.get(&name).is_some_and(|users| *users > 1) && letters(tool) != tool;
            let named = if contested || name.len() > NAME_MAX || self.is_foreign(&name) {
                self.hashed(name, tool)
            } else {
                name
            };
            // Two equal hashes: nothing that happens, and nothing that may hide another tool.
            if taken.insert(named.clone()) {
                names.insert(tool.to_owned(), named);
            }
        }
        names
    }

    /// Whether the name means something else, or may.
    fn is_foreign(&self, name: &str) -> bool {
        self.shared
            || self.within.iter().any(|prefix| name.starts_with(prefix))
            || RESERVED.contains(&name)
            || self.below.get(name).is_some()
    }

    fn hashed(&self, mut name: String, tool: &str) -> String {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&(self.server.len() as u64).to_le_bytes());
        hasher.update(self.server.as_bytes());
        hasher.update(tool.as_bytes());
        let hash = hasher.finalize().to_hex();
        name.truncate(NAME_MAX - HASH - 1);
        format!("{name}_{}", hash.get(..HASH).unwrap_or_default())
    }
}

/// The beginning of the names of a server's tools.
fn prefix(server: &str) -> String {
    let name = letters(server);
    let first = name.starts_with(|first: char| first.is_ascii_alphabetic());
    if first { format!("{name}_") } else { format!("mcp_{name}_") }
}

/// The text in letters that providers accept.
fn letters(text: &str) -> String {
    let fine = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == '-';
    text.chars().map(|letter| if fine(letter) { letter } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::registry::ToolSettings;

    fn check(servers: &[&str], server: &str, tools: &[&str], expected: &[(&str, &str)]) {
        let below = Registry::builtin(&ToolSettings::default());
        let names = Naming::new(server, servers.iter().copied(), below).names(tools);
        let names: Vec<(&str, &str)> =
            names.iter().map(|(tool, name)| (tool.as_str(), name.as_str())).collect();
        assert_eq!(names, expected, "{server} of {servers:?}");
    }

    #[test]
    fn plain_names_stay_plain() {
        check(
            &["git-hub"],
            "git-hub",
            &["list_prs", "ask"],
            &[("ask", "git-hub_ask"), ("list_prs", "git-hub_list_prs")],
        );
        check(&["1. x"], "1. x", &["ö"], &[("ö", "mcp_1__x__")]);
        check(&["a"], "a", &["b", "b"], &[("b", "a_b")]);
    }

    #[test]
    fn no_tool_is_called_what_something_else_is_asked_for_under() {
        // Whoever allowed the tool for good let every command out of the sandbox.
        for reserved in RESERVED.iter().filter(|name| name.contains('_')) {
            let (server, tool) = reserved.split_once('_').unwrap();
            let below = Registry::builtin(&ToolSettings::default());
            let names = Naming::new(server, [server], below).names(&[tool]);
            assert!(names[tool].starts_with(&format!("{reserved}_")), "{names:?}");
        }
    }

    #[test]
    fn names_that_fall_together_are_told_apart() {
        check(
            &["s"],
            "s",
            &["a.b", "a_b", "a/b"],
            &[("a.b", "s_a_b_9a18427a"), ("a/b", "s_a_b_21aecb09"), ("a_b", "s_a_b")],
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]
        #[test]
        fn no_two_tools_have_one_name(
            servers in proptest::collection::btree_set("[a-c_./1]{1,4}", 1..5),
            tools in proptest::collection::btree_set("[a-c_. é]{1,70}|[ab_.]{0,3}", 0..12),
        ) {
            let below = Registry::builtin(&ToolSettings::default());
            let tools: Vec<&str> = tools.iter().map(String::as_str).collect();
            let all = || servers.iter().map(String::as_str);
            let mut seen = BTreeSet::new();
            for server in all() {
                let names = Naming::new(server, all(), below.clone()).names(&tools);
                prop_assert_eq!(names.len(), tools.len());
                for name in names.into_values() {
                    prop_assert!(name.len() <= NAME_MAX && name == letters(&name), "{}", name);
                    prop_assert!(name.starts_with(|first: char| first.is_ascii_alphabetic()), "{}", name);
                    prop_assert!(seen.insert(name.clone()), "{} twice", name);
                }
            }
        }
    }
}

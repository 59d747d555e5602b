//! A denial with a slip of the pen in one of its keys never lets happen without a question what the denial forbids.

use std::fs;

use everturn_model::permission::Action;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::Desk;

/// What is denied: what has a tool, reading among it, and what a sandbox keeps.
const DENIED: [&str; 14] = [
    "bash",
    "edit",
    "read",
    "glob",
    "grep",
    "list",
    "webfetch",
    "task",
    "external_directory",
    "outside_sandbox",
    "network",
    "protected_file",
    "local_network",
    "secret_file",
];

/// Slips that hands make.
#[derive(Debug, Clone, Copy)]
enum Slip {
    None,
    Swapped,
    Dropped,
    Doubled,
    Capital,
    Plural,
    Spaced,
}

impl Slip {
    /// The word with the slip somewhere in it.
    fn make(self, word: &str, at: usize) -> String {
        let mut letters: Vec<char> = word.chars().collect();
        let at = at % (letters.len() - 1);
        match self {
            Self::None => {}
            Self::Swapped => letters.swap(at, at + 1),
            Self::Dropped => drop(letters.remove(at)),
            Self::Doubled => letters.insert(at, letters[at]),
            Self::Capital => letters[0] = letters[0].to_ascii_uppercase(),
            Self::Plural => letters.push('s'),
            Self::Spaced => letters.push(' '),
        }
        letters.into_iter().collect()
    }
}

/// The keys to a denial, and what is there.
fn denial() -> impl Strategy<Value = (Vec<&'static str>, Value)> {
    let denied = prop::sample::select(DENIED.to_vec());
    let of_tools = prop_oneof![Just(json!(false)), Just(json!("false")), Just(json!(0))];
    let rule = prop_oneof![
        Just(("permission", json!("deny"))),
        Just(("permission", json!({"*": "deny"}))),
        Just(("permission", json!("Deny"))),
        of_tools.prop_map(|off| ("tools", off)),
    ];
    let whose = prop_oneof![Just(Vec::new()), Just(vec!["agent", "build"]), Just(vec!["mode", "build"]),];
    (whose, rule, denied).prop_map(|(mut path, (kind, value), denied)| {
        path.extend([kind, denied]);
        (path, value)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(256) })]

    #[test]
    fn a_slip_never_allows_what_was_denied(
        (path, value) in denial(),
        slip in prop::sample::select(vec![
            Slip::None, Slip::Swapped, Slip::Dropped, Slip::Doubled, Slip::Capital, Slip::Plural, Slip::Spaced,
        ]),
        key in 0_usize..4,
        at in 0_usize..20,
    ) {
        let desk = Desk::new();
        let mut words: Vec<String> = path.iter().map(|word| (*word).to_owned()).collect();
        let key = key % words.len();
        words[key] = slip.make(&words[key], at);
        let text = words.iter().rev().fold(value, |value, word| json!({word: value}));
        fs::create_dir(desk.root.join("own")).unwrap();
        fs::write(desk.root.join("own/opencode.json"), text.to_string()).unwrap();
        let config = desk.look();
        let build = config.agents().all().iter().find(|agent| agent.name == "build").unwrap();
        let decided = build.policy.decide(&[], path[path.len() - 1], &["x".to_owned()]);
        prop_assert!(decided != Action::Allow, "{}", text);
        // Whoever does not make one is obeyed without a word.
        let is_sound = matches!(slip, Slip::None) && [json!("deny"), json!(false)].contains(text.pointer(&format!("/{}", path.join("/"))).unwrap_or(&json!(null)));
        prop_assert!(!is_sound || config.problems.is_empty() && decided == Action::Deny, "{:?}", config.problems);
        prop_assert!(words.iter().eq(&path) || !config.problems.is_empty(), "{}", text);
    }
}

//! Repetition: a model that makes the same calls again and again.
//!
//! What counts are the calls since the newest prompt, in their order, whichever answer they are in and whatever came of
//! them. Three times the same call, or the same two or three calls in turn three times, are a loop. Whoever lets the call go
//! on that completes it has them counted anew from there; a call that was refused for it is counted, so the next one of its
//! kind completes a loop at once.

use std::collections::VecDeque;

use everturn_model::entry::Body;
use everturn_model::part::PartKind;
use everturn_model::request::DOOM_LOOP;
use everturn_model::tool::{Outcome, ToolResult};
use everturn_model::tree::Node;
use everturn_model::{Map, PartId, Tree, path};
use serde_json::Value;

/// How often the same is done until it is a loop.
const ROUNDS: usize = 3;

/// How many different calls a loop has at most.
const LONGEST_CYCLE: usize = 3;

/// How many refusals of repeated calls a model is told of before the work ends.
const REFUSALS: usize = 3;

/// How the result of a call is marked that was refused as a repetition.
const REFUSED: &str = "refused";

/// The calls since the newest prompt, as far as they matter.
#[derive(Debug, Clone, Default)]
pub(crate) struct CallRepetition {
    /// The last ones, since they are counted.
    recent: VecDeque<blake3::Hash>,
    /// How many of the last ones were refused, one after the other.
    refused: usize,
}

/// That a call completes a loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Repetition {
    /// How many calls are repeated in turn.
    pub(crate) cycle: usize,
    /// Whether the model was told often enough that they are refused.
    pub(crate) is_hopeless: bool,
}

impl CallRepetition {
    /// The calls of a conversation up to and including one that is about to run, and whether that one completes a loop.
    pub(crate) fn up_to(tree: &Tree, part: &PartId) -> (Self, Option<Repetition>) {
        let path = path::to(tree, tree.session.leaf.as_ref());
        let prompt = path.iter().rposition(|node| matches!(node.entry.body, Body::User(_))).unwrap_or(0);
        Self::of(path.get(prompt..).unwrap_or_default(), part)
    }

    fn of(path: &[&Node], last: &PartId) -> (Self, Option<Repetition>) {
        let results = path::results(path);
        let mut calls = Self::default();
        for node in path {
            for part in &node.parts {
                // What the provider runs itself it answers for itself, and what has no whole input was not called.
                let PartKind::Tool { call, tool, state, hosted: false, .. } = &part.kind else { continue };
                if state.status() == "pending" {
                    continue;
                }
                let refused = results.get(&(&node.entry.id, call.as_str())).is_some_and(|it| is_refusal(it));
                let verdict = calls.add_settled(tool, state.input(), refused);
                if part.id == *last {
                    return (calls, verdict);
                }
            }
        }
        (calls, None)
    }

    /// Takes in the next call, which is about to run.
    pub(crate) fn add(&mut self, tool: &str, input: &Value) -> Option<Repetition> {
        self.add_settled(tool, input, false)
    }

    fn add_settled(&mut self, tool: &str, input: &Value, refused: bool) -> Option<Repetition> {
        if self.recent.len() == ROUNDS * LONGEST_CYCLE {
            self.recent.pop_front();
        }
        self.recent.push_back(fingerprint(tool, input));
        let cycle = (1..=LONGEST_CYCLE).find(|cycle| self.has_rounds_of(*cycle));
        let found = cycle.map(|cycle| Repetition { cycle, is_hopeless: self.refused + 1 >= REFUSALS });
        if refused {
            self.refused += 1;
        } else {
            self.refused = 0;
            if found.is_some() {
                self.recent.clear();
            }
        }
        found
    }

    /// Whether the last calls are so many repeated often enough.
    fn has_rounds_of(&self, cycle: usize) -> bool {
        let last = self.recent.iter().rev().take(ROUNDS * cycle);
        last.len() == ROUNDS * cycle
            && last.clone().skip(cycle).zip(last).all(|(earlier, later)| earlier == later)
    }
}

/// What is kept with the result of a call that was refused as a repetition.
pub(crate) fn refusal_mark() -> Map {
    Map::from_iter([(DOOM_LOOP.to_owned(), REFUSED.into())])
}

fn is_refusal(result: &ToolResult) -> bool {
    let mark = result.metadata.as_ref().and_then(|metadata| metadata.get(DOOM_LOOP));
    result.outcome == Outcome::Error && mark.is_some_and(|mark| mark == REFUSED)
}

/// What a call is known by: its tool and its input, in whatever order the fields of that came.
fn fingerprint(tool: &str, input: &Value) -> blake3::Hash {
    let mut hasher = blake3::Hasher::new();
    hash_text(&mut hasher, tool);
    hash_value(&mut hasher, input);
    hasher.finalize()
}

fn hash_text(hasher: &mut blake3::Hasher, text: &str) {
    hasher.update(&text.len().to_le_bytes());
    hasher.update(text.as_bytes());
}

fn hash_value(hasher: &mut blake3::Hasher, value: &Value) {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => {
            hasher.update(b"v");
            hash_text(hasher, &value.to_string());
        }
        Value::String(text) => {
            hasher.update(b"s");
            hash_text(hasher, text);
        }
        Value::Array(items) => {
            hasher.update(b"a");
            hasher.update(&items.len().to_le_bytes());
            items.iter().for_each(|item| hash_value(hasher, item));
        }
        Value::Object(fields) => {
            hasher.update(b"o");
            hasher.update(&fields.len().to_le_bytes());
            let mut fields: Vec<(&String, &Value)> = fields.iter().collect();
            fields.sort_unstable_by_key(|(name, _)| *name);
            for (name, value) in fields {
                hash_text(hasher, name);
                hash_value(hasher, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use everturn_model::Part;
    use everturn_model::entry::{Assistant, Entry, User};
    use everturn_model::tool::ToolState;
    use serde_json::json;

    use super::*;

    /// Which of these calls complete a loop, by their place; a capital letter was refused as a repetition.
    fn loops(calls: &str) -> Vec<usize> {
        let mut seen = CallRepetition::default();
        let completes = |(at, call): (usize, char)| {
            let input = json!({"path": call.to_ascii_lowercase().to_string()});
            seen.add_settled("read", &input, call.is_ascii_uppercase()).map(|_| at)
        };
        calls.chars().enumerate().filter_map(completes).collect()
    }

    #[test]
    fn three_rounds_of_up_to_three_calls_are_a_loop() {
        let check = |calls: &str, expected: &[usize]| assert_eq!(loops(calls), expected, "{calls}");
        check("aa", &[]);
        check("aaa", &[2]);
        check("aabaa", &[]);
        check("baaa", &[3]);
        check("ababa", &[]);
        check("ababab", &[5]);
        check("abcabcabc", &[8]);
        check("abcabcab", &[]);
        check("abcdabcdabcd", &[]);
        check("aabaabaab", &[8]);
        check("xyzabcabcabcq", &[11]);
        // Whoever lets it go on is not asked at once again.
        check("aaaaaaa", &[2, 5]);
        // What is refused does not begin anew.
        check("aaAAAb", &[2, 3, 4]);
        check("ababaBABa", &[5, 6, 7, 8]);
    }

    #[test]
    fn a_model_that_does_not_listen_is_hopeless() {
        let mut seen = CallRepetition::default();
        let hopeless: Vec<Option<bool>> = (0..6)
            .map(|at| seen.add_settled("read", &json!({}), at > 1).map(|found| found.is_hopeless))
            .collect();
        assert_eq!(hopeless, [None, None, Some(false), Some(false), Some(true), Some(true)]);
        seen.add_settled("write", &json!({}), false);
        seen.add_settled("read", &json!({}), false);
        seen.add_settled("read", &json!({}), false);
        let after = seen.add_settled("read", &json!({}), false);
        assert_eq!(after, Some(Repetition { cycle: 1, is_hopeless: false }));
    }

    #[test]
    fn a_call_is_the_same_in_whatever_order_its_fields_came() {
        let of = |text: &str| fingerprint("read", &serde_json::from_str(text).unwrap());
        assert_eq!(of(r#"{"a": 1, "b": {"c": [], "d": "x"}}"#), of(r#"{"b": {"d": "x", "c": []}, "a": 1}"#));
        for other in [r#"{"a": 1}"#, r#"{"a": "1", "b": {"c": [], "d": "x"}}"#, r#"["a", 1]"#, "null"] {
            assert_ne!(of(r#"{"a": 1, "b": {"c": [], "d": "x"}}"#), of(other), "{other}");
        }
        assert_ne!(fingerprint("read", &json!({})), fingerprint("write", &json!({})));
        // Neighbours do not run into each other.
        assert_ne!(of(r#"["ab", "c"]"#), of(r#"["a", "bc"]"#));
        assert_ne!(of(r#"[["a"], "b"]"#), of(r#"[["a", "b"]]"#));
    }

    fn node(id: &str, body: Body, parts: Vec<Part>) -> Node {
        Node::new(Entry::new(id.into(), None, 0, body), parts)
    }

    fn called(id: &str, hosted: bool) -> Part {
        let state = ToolState::Running { input: json!({}), title: None, metadata: None, start: 0 };
        let kind =
            PartKind::Tool { call: id.to_owned(), tool: "read".to_owned(), state, hosted, metadata: None };
        Part::new(id.into(), kind)
    }

    #[test]
    fn calls_are_counted_over_answers_and_from_the_newest_prompt() {
        let assistant = |id: &str, parts| node(id, Body::Assistant(Assistant::default()), parts);
        let first = assistant("msg_1", vec![called("prt_1", false), called("prt_h", true)]);
        let second = assistant("msg_2", vec![called("prt_2", false), called("prt_3", false)]);
        let verdict = |path: &[&Node]| CallRepetition::of(path, &"prt_3".into()).1.is_some();
        assert!(verdict(&[&first, &second]));
        let mut session = everturn_model::Session::new("ses_1".into(), "global", "/srv", "t", "1", 17);
        session.leaf = Some("msg_2".into());
        let mut tree = Tree::new(session);
        let prompt = node("msg_p", Body::User(User::default()), Vec::new());
        let mut before: Option<everturn_model::EntryId> = None;
        for mut node in [first, prompt, second] {
            node.entry.parent = before.replace(node.entry.id.clone());
            assert!(tree.insert(node));
        }
        assert_eq!(CallRepetition::up_to(&tree, &"prt_3".into()).1, None);
    }
}

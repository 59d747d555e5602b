//! The JSON of what is stored, as plain functions.
//!
//! What serde derives is generic, so each crate that asks for it compiles it anew, with all the types inside; a session's
//! types are large, and the store and the views read and write them in many places. Here they are compiled once, as fast
//! as reading has to be.
//!
//! What is read is nested 127 levels deep at most, or serde refuses it. What is written knows no such end, so depth is
//! measured at the doors, before anything is stored that could never be read again.

use crate::inbox::InboxItem;
use crate::request::Request;
use crate::subject::EventPayload;
use crate::todo::Todo;
use crate::{Entry, Part, Session};

/// How deep a value may be nested that comes from a client, a model or another program.
pub const DEPTH_LIMIT: usize = 64;

/// How many values one request may bring.
pub const VALUE_LIMIT: usize = 500_000;

/// How deep an event may be nested that is stored: such a value, and the layers around it. Rows have some layers more,
/// and are still read.
pub const STORED_DEPTH_LIMIT: usize = 112;

/// What stands in the place of a value that was nested too deep, as JSON.
const CUT: &str = "\"[removed: it was nested too deep to be read]\"";

/// How deep JSON is nested: 0 for a number, 1 for a list of numbers. What is no JSON has some depth, too.
#[must_use]
pub fn depth(json: &[u8]) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    for (_, step) in steps(json) {
        match step {
            Step::In => depth += 1,
            Step::Out => depth = depth.saturating_sub(1),
            Step::Next => {}
        }
        deepest = deepest.max(depth);
    }
    deepest
}

/// How many values JSON has in it, counted before it is read: in memory each takes many times what it takes here. An
/// empty list counts as one that is not empty.
#[must_use]
pub fn values(json: &[u8]) -> usize {
    1 + steps(json).filter(|(_, step)| !matches!(step, Step::Out)).count()
}

/// The same JSON with a note in the place of every list and object that is nested deeper than [`DEPTH_LIMIT`]. No type
/// of ours is that deep, so what goes is always a piece of a free value.
#[must_use]
pub fn cut_deep(json: &str) -> String {
    let mut cut = String::new();
    let (mut depth, mut kept) = (0_usize, 0);
    for (at, step) in steps(json.as_bytes()) {
        match step {
            Step::In => {
                depth += 1;
                if depth == DEPTH_LIMIT + 1 {
                    cut.push_str(json.get(kept..at).unwrap_or_default());
                    cut.push_str(CUT);
                }
            }
            Step::Out => {
                if depth == DEPTH_LIMIT + 1 {
                    kept = at + 1;
                }
                depth = depth.saturating_sub(1);
            }
            Step::Next => {}
        }
    }
    cut.push_str(json.get(kept..).unwrap_or_default());
    cut
}

/// Where a list or an object begins, goes on or ends.
enum Step {
    In,
    Next,
    Out,
}

/// The brackets and commas of JSON that stand outside of its strings, each with its place.
fn steps(json: &[u8]) -> impl Iterator<Item = (usize, Step)> {
    let (mut inside, mut escaped) = (false, false);
    json.iter().enumerate().filter_map(move |(at, byte)| {
        if inside {
            inside = escaped || *byte != b'"';
            escaped = !escaped && *byte == b'\\';
            return None;
        }
        match byte {
            b'"' => inside = true,
            b'[' | b'{' => return Some((at, Step::In)),
            b',' => return Some((at, Step::Next)),
            b']' | b'}' => return Some((at, Step::Out)),
            _ => {}
        }
        None
    })
}

/// What can be read from the JSON that it is stored as.
pub trait FromJson: Sized {
    /// The value.
    ///
    /// # Errors
    /// When the JSON is damaged or means something else.
    fn from_json(json: &str) -> serde_json::Result<Self>;
}

/// What can be written as the JSON that it is stored as.
pub trait ToJson {
    /// The JSON.
    ///
    /// # Errors
    /// When something in it has no form in JSON.
    fn to_json(&self) -> serde_json::Result<String>;
}

macro_rules! read {
    ($($stored:ty),*) => {$(
        impl FromJson for $stored {
            fn from_json(json: &str) -> serde_json::Result<Self> {
                serde_json::from_str(json)
            }
        }
    )*};
}

macro_rules! written {
    ($($stored:ty),*) => {$(
        impl ToJson for $stored {
            fn to_json(&self) -> serde_json::Result<String> {
                serde_json::to_string(self)
            }
        }
    )*};
}

read!(Entry, EventPayload, InboxItem, Part, Request, Session, Vec<Part>, Vec<Todo>);
written!(Entry, InboxItem, Part, Request, Session, Vec<Todo>);

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn nested(levels: usize) -> String {
        format!("{}{}", "[".repeat(levels), "]".repeat(levels))
    }

    #[test]
    fn depth_is_counted_outside_of_strings() {
        let cases = [("1", 0), ("[]", 1), (r#"{"a":[1,{"b":2}],"c":[]}"#, 3), (r#"["[[[\"[[\\",[]]"#, 2)];
        for (json, levels) in cases {
            assert_eq!(depth(json.as_bytes()), levels, "{json}");
        }
        assert_eq!(depth(nested(5000).as_bytes()), 5000);
    }

    #[test]
    fn values_are_counted_outside_of_strings() {
        let cases = [("1", 1), ("[1,2,3]", 4), (r#"{"a":[1,",[{"],"b":2}"#, 5), ("[[],[]]", 5)];
        for (json, count) in cases {
            assert_eq!(values(json.as_bytes()), count, "{json}");
        }
    }

    #[test]
    fn serde_reads_what_may_be_stored_and_refuses_what_is_a_little_deeper() {
        assert!(serde_json::from_str::<Value>(&nested(STORED_DEPTH_LIMIT + 15)).is_ok());
        assert!(serde_json::from_str::<Value>(&nested(STORED_DEPTH_LIMIT + 16)).is_err());
    }

    #[test]
    fn only_what_is_too_deep_is_cut() {
        let shallow = r#"{"a":[1,"]"],"b":{"c":"[["}}"#;
        assert_eq!(cut_deep(shallow), shallow);
        let edge = nested(DEPTH_LIMIT);
        assert_eq!(cut_deep(&edge), edge);
        let deep = format!(r#"{{"before":"é","deep":{},"after":[2]}}"#, nested(200));
        let cut: Value = serde_json::from_str(&cut_deep(&deep)).unwrap();
        let mut inner = serde_json::from_str(CUT).unwrap();
        for _ in 1..DEPTH_LIMIT {
            inner = json!([inner]);
        }
        assert_eq!(cut, json!({"before": "é", "deep": inner, "after": [2]}));
    }
}

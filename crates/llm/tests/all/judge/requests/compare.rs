//! Where two requests differ.

use std::collections::BTreeSet;
use std::fmt;

use everturn_testkit::model_server::ArrivedRequest;
use serde_json::{Value, json};

/// Headers that belong to the connection. They tell which HTTP library was used, in which version.
const CONNECTION: [&str; 6] =
    ["accept-encoding", "accept-language", "connection", "content-length", "host", "sec-fetch-mode"];

/// One place where they differ, with what stands there.
#[derive(Debug)]
pub(super) struct Difference {
    pub(super) place: String,
    ours: Option<Value>,
    theirs: Option<Value>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let show = |value: &Option<Value>| value.as_ref().map_or("nothing".to_owned(), Value::to_string);
        write!(f, "{}: ours is {}, the SDK's is {}", self.place, show(&self.ours), show(&self.theirs))
    }
}

/// All places where they differ.
pub(super) fn differences(ours: &ArrivedRequest, theirs: &ArrivedRequest) -> Vec<Difference> {
    let mut found = Vec::new();
    for (place, ours, theirs) in [
        ("method", &ours.method, &theirs.method),
        ("path", &ours.path, &theirs.path),
        ("query", &ours.query, &theirs.query),
    ] {
        walk(place, Some(&json!(ours)), Some(&json!(theirs)), &mut found);
    }
    let names: BTreeSet<&String> = ours.headers.keys().chain(theirs.headers.keys()).collect();
    for name in names.into_iter().filter(|name| !CONNECTION.contains(&name.as_str())) {
        let value = |headers: &ArrivedRequest| headers.headers.get(name).map(|value| json!(value));
        walk(name, value(ours).as_ref(), value(theirs).as_ref(), &mut found);
    }
    walk("", Some(&ours.body), Some(&theirs.body), &mut found);
    found
}

/// Goes down as far as both sides have the same kind of value with something in it.
fn walk(place: &str, ours: Option<&Value>, theirs: Option<&Value>, found: &mut Vec<Difference>) {
    match (ours, theirs) {
        (Some(Value::Object(left)), Some(Value::Object(right))) => {
            for name in left.keys().chain(right.keys()).collect::<BTreeSet<_>>() {
                walk(&format!("{place}/{name}"), left.get(name), right.get(name), found);
            }
        }
        (Some(Value::Array(left)), Some(Value::Array(right))) => {
            for index in 0..left.len().max(right.len()) {
                walk(&format!("{place}/{index}"), left.get(index), right.get(index), found);
            }
        }
        (left, right) if left == right => {}
        (left, right) => {
            let (ours, theirs) = (left.cloned(), right.cloned());
            found.push(Difference { place: place.to_owned(), ours, theirs });
        }
    }
}

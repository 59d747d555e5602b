//! Two sequences of normalised events, and how they differ.

use serde_json::Value;

/// One difference.
#[derive(Debug, PartialEq)]
pub(super) struct Difference {
    pub(super) phase: String,
    /// The event and the field, or what happened to the event.
    pub(super) what: String,
    /// What was recorded and what came.
    pub(super) values: String,
}

/// Everything in which `live` differs from `recorded`.
pub(super) fn differences(phase: &str, recorded: &[Value], live: &[Value]) -> Vec<Difference> {
    let mut found = Vec::new();
    let mut note =
        |what: String, values: String| found.push(Difference { phase: phase.to_owned(), what, values });
    let pairs = align(recorded, live);
    for (left, right) in &pairs {
        fields(&recorded[*left], &live[*right], &mut note);
    }
    let mut extra: Vec<usize> =
        (0..live.len()).filter(|right| pairs.iter().all(|pair| pair.1 != *right)).collect();
    for left in (0..recorded.len()).filter(|left| pairs.iter().all(|pair| pair.0 != *left)) {
        let event = &recorded[left];
        match extra.iter().position(|right| subject(&live[*right]) == subject(event)) {
            Some(place) => {
                let right = extra.remove(place);
                note(format!("{} has moved", label(event)), format!("from place {left} to {right}: {event}"));
                fields(event, &live[right], &mut note);
            }
            None => note(format!("{} is missing", label(event)), event.to_string()),
        }
    }
    for right in extra {
        note(format!("{} is extra", label(&live[right])), live[right].to_string());
    }
    found
}

/// The longest way through both sequences: pairs of events about the same subject, equal ones preferred.
fn align(recorded: &[Value], live: &[Value]) -> Vec<(usize, usize)> {
    let worth = |left: usize, right: usize| match (&recorded[left], &live[right]) {
        (one, other) if one == other => 3,
        (one, other) if subject(one) == subject(other) => 2,
        _ => 0_u32,
    };
    let (rows, columns) = (recorded.len(), live.len());
    let mut best = vec![vec![0; columns + 1]; rows + 1];
    for left in (0..rows).rev() {
        for right in (0..columns).rev() {
            let gain = worth(left, right);
            let both = if gain > 0 { gain + best[left + 1][right + 1] } else { 0 };
            best[left][right] = both.max(best[left + 1][right]).max(best[left][right + 1]);
        }
    }
    let mut pairs = Vec::new();
    let (mut left, mut right) = (0, 0);
    while left < rows && right < columns {
        let gain = worth(left, right);
        if gain > 0 && best[left][right] == gain + best[left + 1][right + 1] {
            pairs.push((left, right));
            (left, right) = (left + 1, right + 1);
        } else if best[left][right] == best[left + 1][right] {
            left += 1;
        } else {
            right += 1;
        }
    }
    pairs
}

/// What an event is about: its kind and the names of the things in it.
fn subject(event: &Value) -> String {
    let name = |pointer: &str| event.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    let names = ["/properties/sessionID", "/properties/info/id", "/properties/part/id", "/properties/partID"];
    format!("{} {}", label(event), names.map(name).join(" "))
}

/// The kind of an event as a reader would name it.
fn label(event: &Value) -> String {
    let kind = event["type"].as_str().unwrap_or("?");
    let details = ["info/role", "part/type", "part/state/status", "status/type"];
    let details: Vec<&str> = details
        .iter()
        .filter_map(|path| event.pointer(&format!("/properties/{path}")).and_then(Value::as_str))
        .collect();
    if details.is_empty() { kind.to_owned() } else { format!("{kind}({})", details.join(" ")) }
}

/// Each field in which two events differ.
fn fields(recorded: &Value, live: &Value, note: &mut impl FnMut(String, String)) {
    let label = label(recorded);
    let mut found = Vec::new();
    walk(&recorded["properties"], &live["properties"], "", &mut found);
    for (path, values) in found {
        note(format!("{label} {path}"), values);
    }
}

fn walk(left: &Value, right: &Value, path: &str, found: &mut Vec<(String, String)>) {
    let below = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    match (left, right) {
        (Value::Object(one), Value::Object(other)) => {
            for (name, value) in one {
                match other.get(name) {
                    Some(counterpart) => walk(value, counterpart, &below(name), found),
                    None => found.push((below(name), format!("recorded {value}, but absent"))),
                }
            }
            for (name, value) in other.iter().filter(|(name, _)| !one.contains_key(*name)) {
                found.push((below(name), format!("not recorded, but {value}")));
            }
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            for (index, (value, counterpart)) in one.iter().zip(other).enumerate() {
                walk(value, counterpart, &below(&index.to_string()), found);
            }
        }
        _ if left == right => {}
        _ => found.push((path.to_owned(), format!("recorded {left}, but {right}"))),
    }
}

//! What is told of the sources at the beginning of an epoch, within it, and when it is replaced.

use serde_json::json;

use super::*;
use crate::context::ContextKey;

fn source(key: &str, value: Observed<Value>) -> ContextSource {
    let say = |word: &str| format!("{key} {word}");
    ContextSource {
        key: ContextKey::new(&format!("t/{key}")).unwrap(),
        value,
        baseline: say("is"),
        update: say("changed"),
        removal: Some(say("went")),
    }
}

fn there(value: u32) -> Observed<Value> {
    Observed::Present(value.into())
}

fn unknown() -> Observed<Value> {
    Observed::Unavailable { why: "a reason".to_owned() }
}

/// A snapshot of these values, each with words for its going.
fn told(values: &[(&str, u32)]) -> Value {
    let values = values
        .iter()
        .map(|(key, value)| (format!("t/{key}"), json!({"value": value, "removal": format!("{key} went")})));
    json!({"sources": values.collect::<serde_json::Map<_, _>>()})
}

fn context(text: &str, values: &[(&str, u32)]) -> AdmittedContext {
    AdmittedContext { text: text.to_owned(), snapshot: told(values) }
}

#[test]
fn an_epoch_begins_with_everything_or_not_at_all() {
    let sources = [source("a", there(1)), source("b", Observed::Absent), source("c", there(2))];
    assert_eq!(initialize(&sources).unwrap(), context("a is\n\nc is", &[("a", 1), ("c", 2)]));
    let error = initialize(&[source("a", there(1)), source("b", unknown())]).unwrap_err();
    assert!(error.to_string().ends_with("a reason"), "{error}");
}

#[test]
fn only_what_differs_is_said() {
    let check = |previous: Value, value: Observed<Value>, expected: Option<AdmittedContext>| {
        let found = reconcile(&previous, &[source("a", value.clone())]);
        let expected = expected.map_or(ContextStep::Unchanged, ContextStep::Updated);
        assert_eq!(found, expected, "{previous} {value:?}");
    };
    let one = told(&[("a", 1)]);
    check(one.clone(), there(1), None);
    check(one.clone(), there(2), Some(context("a changed", &[("a", 2)])));
    check(told(&[]), there(2), Some(context("a is", &[("a", 2)])));
    check(one.clone(), Observed::Absent, Some(context("a went", &[])));
    check(told(&[]), Observed::Absent, None);
    // What cannot be seen has not changed.
    check(one, unknown(), None);
    check(told(&[]), unknown(), None);
    // What earlier versions kept.
    check(json!({"t/a": 1}), there(1), None);
    check(json!({"t/a": 1}), there(2), Some(context("a changed", &[("a", 2)])));
    check(json!({"t/a": []}), there(1), Some(context("a is", &[("a", 1)])));
}

#[test]
fn what_nobody_tells_of_any_more_is_gone() {
    let known = told(&[("a", 1), ("b", 2), ("c", 3)]);
    let sources = [source("a", there(2))];
    assert_eq!(
        reconcile(&known, &sources),
        ContextStep::Updated(context("a changed\n\nb went\n\nc went", &[("a", 2)]))
    );
    // A producer that gives several sources and does not answer is not gone.
    let silent = ContextSource::unavailable(ContextKey::new("t/many").unwrap(), "slow".to_owned());
    let known = json!({"sources": {"t/many/one": {"value": 1, "removal": "one went"}}});
    assert_eq!(reconcile(&known, std::slice::from_ref(&silent)), ContextStep::Unchanged);
    assert_eq!(replace(&known, &[silent]), None);
}

#[test]
fn what_cannot_be_said_begins_a_new_epoch_unless_something_known_cannot_be_seen() {
    let known = json!({"sources": {"t/a": {"value": 1}, "t/b": {"value": 2}, "t/c": {"value": 3}}});
    let seen = [source("a", there(5)), source("c", there(3))];
    let fresh = context("a is\n\nc is", &[("a", 5), ("c", 3)]);
    assert_eq!(reconcile(&known, &seen), ContextStep::Replace(fresh.clone()));
    assert_eq!(replace(&known, &seen), Some(fresh));
    let mute = ContextSource { removal: None, ..source("b", Observed::Absent) };
    assert!(matches!(reconcile(&known, &[seen[0].clone(), mute, seen[1].clone()]), ContextStep::Replace(_)));
    let hidden = [source("a", unknown()), source("c", there(3))];
    assert_eq!(reconcile(&known, &hidden), ContextStep::Blocked);
    // What was never told does not hold it up.
    let new = [source("a", there(1)), source("c", there(3)), source("d", unknown())];
    assert!(matches!(reconcile(&known, &new), ContextStep::Replace(_)));
    // A snapshot that nobody understands is as good as none.
    assert_eq!(
        reconcile(&json!("?"), &[source("a", there(1))]),
        ContextStep::Replace(context("a is", &[("a", 1)]))
    );
}

#[test]
fn null_is_a_value_and_fields_have_no_order() {
    let kept = |value: Value| json!({"sources": {"t/a": {"value": value, "removal": "a went"}}});
    let now = |value: Value| [source("a", Observed::Present(value))];
    let changed = AdmittedContext { text: "a changed".to_owned(), snapshot: kept(Value::Null) };
    assert_eq!(reconcile(&kept(json!(1)), &now(Value::Null)), ContextStep::Updated(changed));
    assert_eq!(reconcile(&kept(Value::Null), &now(Value::Null)), ContextStep::Unchanged);
    let turned: Value = serde_json::from_str(r#"{"y": 2, "x": 1}"#).unwrap();
    assert_eq!(reconcile(&kept(json!({"x": 1, "y": 2})), &now(turned)), ContextStep::Unchanged);
}

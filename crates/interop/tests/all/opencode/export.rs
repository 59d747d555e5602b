//! Every recorded export goes through the log and comes out the same.

use everturn_interop::opencode::export;
use everturn_model::path;
use serde_json::Value;

use super::data::{fixture, folded};

fn check(value: &Value, name: &str) {
    let imported = export::read_value(value.clone()).unwrap();
    let tree = folded(&imported);
    let way = path::to(&tree, tree.session.leaf.as_ref());
    assert_eq!(&export::write(&tree.session, &way, &tree.inbox), value, "{name}");
}

fn folder(name: &str) -> usize {
    let mut count = 0;
    for file in std::fs::read_dir(fixture(name)).unwrap() {
        let file = file.unwrap().path();
        let value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        check(&value, file.to_str().unwrap());
        count += 1;
    }
    count
}

#[test]
fn every_export_of_1_1_16_survives() {
    assert_eq!(folder("export-1.1.16"), 19);
}

#[test]
fn every_export_of_1_18_33_survives() {
    assert_eq!(folder("export-1.18.33"), 15);
}

#[test]
fn fields_beside_the_messages_survive() {
    let value = serde_json::json!({
        "info": {"id": "ses_1", "title": 3, "time": {"created": 5, "updated": 6, "archived": null}, "new": [1]},
        "messages": [],
        "later": {"a": 1}
    });
    check(&value, "odd");
}

#[test]
fn what_is_no_export_is_refused() {
    let messages = ["", "[]", "{}", r#"{"info":{}}"#, r#"{"info":{"id":"ses_1"},"messages":3}"#]
        .map(|text| export::read(text.as_bytes()).unwrap_err().to_string());
    assert_eq!(
        messages,
        [
            "export: EOF while parsing a value at line 1 column 0",
            "export: is no object",
            "export.info: is no session",
            "export.info: has no id",
            "export.messages: is no list",
        ]
    );
}

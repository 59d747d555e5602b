//! Hand-made histories whose contexts were worked out by hand.

use everturn_interop::pi::{self, Dialect, PathEnd, PiView, Program};
use everturn_model::{EntryId, Tree, path};
use serde_json::{Value, json};

use super::tree;

const HEADER: &str =
    r#"{"type":"session","version":3,"id":"case","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/x"}"#;

/// A file of these entries, each with a time one second after the last.
fn file(entries: &[Value]) -> String {
    let mut text = format!("{HEADER}\n");
    for (at, entry) in entries.iter().enumerate() {
        let mut entry = entry.clone();
        entry["timestamp"] = format!("2026-01-01T00:00:{:02}.000Z", at + 1).into();
        text += &format!("{entry}\n");
    }
    text
}

fn entry(kind: &str, id: &str, parent: Option<&str>, fields: Value) -> Value {
    let mut entry = json!({"type": kind, "id": id, "parentId": parent});
    for (name, value) in fields.as_object().unwrap() {
        entry[name] = value.clone();
    }
    entry
}

fn message(id: &str, parent: Option<&str>, message: Value) -> Value {
    entry("message", id, parent, json!({"message": message}))
}

fn user(text: &str) -> Value {
    json!({"role": "user", "content": text, "timestamp": 1})
}

fn assistant(content: Value, stop: &str) -> Value {
    json!({"role": "assistant", "content": content, "provider": "p", "model": "m", "stopReason": stop, "timestamp": 2})
}

fn call(id: &str) -> Value {
    json!({"type": "toolCall", "id": id, "name": "read", "arguments": {"path": "x"}})
}

fn said(text: &str) -> Value {
    json!([{"type": "text", "text": text}])
}

fn result(call: &str, text: &str) -> Value {
    json!({"role": "toolResult", "toolCallId": call, "toolName": "read", "content": said(text), "isError": false, "timestamp": 3})
}

fn context(tree: &Tree, flavor: Program, id: &str) -> Value {
    let view = PiView::new(tree, flavor);
    view.context(&PathEnd::At(view.find(id).unwrap().clone()))
}

/// Reads a history, checks that it leaves as it came, with and without its bytes, and gives its tree.
fn check(text: &str) -> Tree {
    let tree = tree(text.as_bytes());
    assert_eq!(String::from_utf8(pi::write(&tree, Some(text.as_bytes()))).unwrap(), text);
    let again = pi::write(&tree, None);
    assert_eq!(super::values(&again), super::values(text.as_bytes()));
    tree
}

/// The results on the path to an entry, as (assistant, call, output).
fn results(tree: &Tree, id: &str) -> Vec<(String, String, String)> {
    let view = PiView::new(tree, Program::Pi);
    let path = path::to(tree, Some(view.find(id).unwrap()));
    let name = |id: &EntryId| view.name_of(id).unwrap().to_owned();
    let mut results: Vec<_> = path::results(&path)
        .into_iter()
        .map(|((assistant, call), result)| (name(assistant), call.to_owned(), result.output.clone()))
        .collect();
    results.sort();
    results
}

fn triple(assistant: &str, call: &str, output: &str) -> (String, String, String) {
    (assistant.to_owned(), call.to_owned(), output.to_owned())
}

#[test]
fn results_on_another_branch() {
    let asked = assistant(json!([said("look")[0], call("c1"), call("c2")]), "toolUse");
    let tree = check(&file(&[
        message("1", None, user("u")),
        message("2", Some("1"), asked.clone()),
        message("3", Some("2"), result("c1", "one")),
        message("4", Some("3"), result("c2", "two")),
        message("5", Some("3"), user("stop")),
        message("6", Some("2"), user("elsewhere")),
        message("7", Some("6"), assistant(said("ok"), "stop")),
    ]));
    let model = json!({"provider": "p", "modelId": "m"});
    assert_eq!(
        context(&tree, Program::Pi, "7"),
        json!({
            "messages": [user("u"), asked, user("elsewhere"), assistant(said("ok"), "stop")],
            "thinkingLevel": "off",
            "model": model,
        })
    );
    // omp leaves calls out whose results are elsewhere: both here, one on the path to 5.
    let omp = |id| context(&tree, Program::Omp18, id)["messages"].clone();
    let looked = assistant(said("look"), "toolUse");
    assert_eq!(omp("7"), json!([user("u"), looked, user("elsewhere"), assistant(said("ok"), "stop")]));
    let half = assistant(json!([said("look")[0], call("c1")]), "toolUse");
    assert_eq!(omp("5"), json!([user("u"), half, result("c1", "one"), user("stop")]));
    assert_eq!(results(&tree, "7"), []);
    assert_eq!(results(&tree, "5"), [triple("2", "c1", "one")]);
    assert_eq!(results(&tree, "4"), [triple("2", "c1", "one"), triple("2", "c2", "two")]);
}

#[test]
fn labels_and_state_between_call_and_result() {
    let asked = assistant(json!([call("c1")]), "toolUse");
    let tree = check(&file(&[
        message("1", None, user("u")),
        message("2", Some("1"), asked.clone()),
        entry("label", "3", Some("2"), json!({"targetId": "1", "label": "start"})),
        entry("custom", "4", Some("3"), json!({"customType": "ext", "data": {"n": 1}})),
        entry("session_info", "5", Some("4"), json!({"name": " Named "})),
        message("6", Some("5"), result("c1", "one")),
        message("7", Some("6"), assistant(said("done"), "stop")),
        entry("label", "8", Some("7"), json!({"targetId": "3", "label": "on a label"})),
        entry("label", "9", Some("8"), json!({"targetId": "1", "label": ""})),
    ]));
    let messages = json!([user("u"), asked, result("c1", "one"), assistant(said("done"), "stop")]);
    for flavor in [Program::Pi, Program::Omp18] {
        assert_eq!(context(&tree, flavor, "9")["messages"], messages);
    }
    assert_eq!(results(&tree, "9"), [triple("2", "c1", "one")]);
    let view = PiView::new(&tree, Program::Pi);
    assert_eq!(view.name(), Some("Named"));
    let labels: Vec<_> =
        view.labels().into_iter().map(|(id, (label, _))| (view.name_of(id), label)).collect();
    assert_eq!(labels, [(Some("3"), "on a label")]);
    assert_eq!(tree.session.title, "Named");
}

#[test]
fn two_roots() {
    let tree = check(&file(&[
        message("1", None, user("first")),
        message("2", Some("1"), assistant(said("one"), "stop")),
        message("3", None, user("second")),
        message("4", Some("3"), assistant(said("two"), "stop")),
        message("5", Some("2"), user("more")),
    ]));
    let messages = |id| context(&tree, Program::Pi, id)["messages"].clone();
    assert_eq!(messages("4"), json!([user("second"), assistant(said("two"), "stop")]));
    assert_eq!(messages("5"), json!([user("first"), assistant(said("one"), "stop"), user("more")]));
    let leaf = |id: &str, parent: Option<&str>, role: &str, children: Value| json!({"id": id, "parentId": parent, "type": "message", "role": role, "children": children});
    let first = leaf("2", Some("1"), "assistant", json!([leaf("5", Some("2"), "user", json!([]))]));
    let second = leaf("4", Some("3"), "assistant", json!([]));
    assert_eq!(
        PiView::new(&tree, Program::Pi).tree(),
        json!([leaf("1", None, "user", json!([first])), leaf("3", None, "user", json!([second]))])
    );
}

#[test]
fn call_ids_that_repeat_belong_to_the_nearest_turn() {
    let asked = || assistant(json!([call("c1")]), "toolUse");
    let tree = check(&file(&[
        message("1", None, user("u")),
        message("2", Some("1"), asked()),
        message("3", Some("2"), result("c1", "first")),
        message("4", Some("3"), asked()),
        message("5", Some("4"), result("c1", "second")),
    ]));
    assert_eq!(results(&tree, "5"), [triple("2", "c1", "first"), triple("4", "c1", "second")]);
}

#[test]
fn a_compaction_keeps_from_its_first_kept_entry_on() {
    let tree = check(&file(&[
        message("1", None, user("a")),
        entry("thinking_level_change", "2", Some("1"), json!({"thinkingLevel": "high"})),
        message("3", Some("2"), user("b")),
        entry(
            "compaction",
            "4",
            Some("3"),
            json!({"summary": "S", "firstKeptEntryId": "2", "tokensBefore": 9, "details": {}}),
        ),
        entry("custom_message", "5", Some("4"), json!({"customType": "t", "content": "c", "display": true})),
        entry("branch_summary", "6", Some("5"), json!({"fromId": "5", "summary": "left"})),
        entry("branch_summary", "7", Some("6"), json!({"fromId": "6", "summary": ""})),
        entry("model_change", "8", Some("7"), json!({"provider": "q", "modelId": "n"})),
    ]));
    let seconds = |at: i64| 1_767_225_600_000 + at * 1000;
    assert_eq!(
        context(&tree, Program::Pi, "8"),
        json!({
            "messages": [
                {"role": "compactionSummary", "summary": "S", "tokensBefore": 9, "timestamp": seconds(4)},
                user("b"),
                {"role": "custom", "customType": "t", "content": "c", "display": true, "timestamp": seconds(5)},
                {"role": "branchSummary", "summary": "left", "fromId": "5", "timestamp": seconds(6)},
            ],
            "thinkingLevel": "high",
            "model": {"provider": "q", "modelId": "n"},
        })
    );
}

#[test]
fn omp_settings_clear_and_failed_turns() {
    let failed = assistant(json!([said("half")[0], call("c1")]), "aborted");
    let tree = check(&file(&[
        entry("model_change", "1", None, json!({"model": "q/n"})),
        entry("model_change", "2", Some("1"), json!({"model": "q/small", "role": "small"})),
        entry(
            "thinking_level_change",
            "3",
            Some("2"),
            json!({"thinkingLevel": "high", "configured": "auto"}),
        ),
        message("4", Some("3"), user("before")),
        entry(
            "compaction",
            "5",
            Some("4"),
            json!({"summary": "S", "firstKeptEntryId": "4", "tokensBefore": 1}),
        ),
        entry("reset_boundary", "6", Some("5"), json!({})),
        entry("ttsr_injection", "7", Some("6"), json!({"injectedRules": ["r1", "r2"]})),
        entry("ttsr_injection", "8", Some("7"), json!({"injectedRules": ["r2", "r3"]})),
        entry("mode_change", "9", Some("8"), json!({"mode": "plan", "data": {"file": "p.md"}})),
        message("a", Some("9"), user("after")),
        message("b", Some("a"), failed),
        message("c", Some("b"), result("c1", "cancelled")),
        message("d", Some("c"), assistant(said(" "), "error")),
        entry("service_tier_change", "e", Some("d"), json!({"serviceTier": {"openai": "flex"}})),
        entry("custom", "f", Some("e"), json!({"customType": "session_exit"})),
    ]));
    assert_eq!(
        context(&tree, Program::Omp18, "f"),
        json!({
            "messages": [user("after")],
            "thinkingLevel": "high",
            "configuredThinkingLevel": "auto",
            "serviceTier": {"openai": "flex"},
            "models": {"default": "q/n", "small": "q/small"},
            "injectedTtsrRules": ["r1", "r2", "r3"],
            "mode": "plan",
            "modeData": {"file": "p.md"},
        })
    );
    let before = context(&tree, Program::Omp18, "5")["messages"].clone();
    let summary = json!({"role": "compactionSummary", "summary": "S", "tokensBefore": 1, "timestamp": 1_767_225_605_000_i64});
    assert_eq!(before, json!([summary, user("before")]));
    // The side model is no model of the conversation.
    assert_eq!(tree.session.model.as_ref().map(|model| model.model.as_str()), Some("m"));
}

#[test]
fn dialects_are_told_by_shape() {
    fn check(first: &str, entry: &str, dialect: Dialect) {
        let text = format!("{first}\n{entry}\n");
        assert_eq!(pi::read(text.as_bytes()).unwrap().dialect, dialect, "{text}");
    }
    let plain = r#"{"type":"message","id":"1","parentId":null,"message":{}}"#;
    check(HEADER, plain, Dialect::Pi);
    check(
        r#"{"type":"session","version":3,"id":"n","title":"T","titleSource":"auto"}"#,
        plain,
        Dialect::Omp5,
    );
    check(HEADER, r#"{"type":"model_change","id":"1","parentId":null,"model":"p/m"}"#, Dialect::Omp5);
    check(HEADER, r#"{"type":"title_change","id":"1","parentId":null,"title":"T"}"#, Dialect::Omp18);
    check(r#"{"type":"title","v":1,"title":"T","pad":" "}"#, HEADER, Dialect::Omp18);
}

#[test]
fn a_title_slot_names_the_session_and_folds_into_omps_header() {
    let text = format!(
        "{{\"type\":\"title\",\"v\":1,\"title\":\"Slot\",\"source\":\"user\",\"pad\":\"  \"}}\n{HEADER}\n"
    );
    let tree = check(&text);
    assert_eq!(tree.session.title, "Slot");
    let header = PiView::new(&tree, Program::Omp18).header().unwrap();
    assert_eq!((&header["title"], &header["titleSource"]), (&json!("Slot"), &json!("user")));
    assert_eq!(PiView::new(&tree, Program::Pi).header().unwrap().get("title"), None);
}

#[test]
fn a_broken_line_shifts_the_indices_of_version_1_as_in_pi() {
    let line = |text: &str| {
        format!(
            r#"{{"type":"message","timestamp":"2026-01-01T00:00:01.000Z","message":{{"role":"user","content":"{text}"}}}}"#
        )
    };
    let compaction = r#"{"type":"compaction","timestamp":"2026-01-01T00:00:02.000Z","summary":"S","firstKeptEntryIndex":2,"tokensBefore":1}"#;
    let lines = [
        r#"{"type":"session","id":"v1"}"#.to_owned(),
        line("a"),
        "{broken".to_owned(),
        line("b"),
        line("c"),
        compaction.to_owned(),
    ];
    let text = lines.join("\n");
    let tree = tree(text.as_bytes());
    assert_eq!(pi::write(&tree, Some(text.as_bytes())), text.as_bytes());
    let context = PiView::new(&tree, Program::Pi).context(&PathEnd::Current);
    let kept: Vec<_> =
        context["messages"].as_array().unwrap().iter().map(|message| message["content"].clone()).collect();
    assert_eq!(kept, [Value::Null, json!("b"), json!("c")]);
}

#[test]
fn half_of_an_emoji_does_not_cost_the_line() {
    let text = format!(
        "{HEADER}\n{}\n",
        r#"{"type":"message","id":"1","parentId":null,"timestamp":"2026-01-01T00:00:01.000Z","message":{"role":"user","content":"cut \ud83d"}}"#
    );
    let file = pi::read(text.as_bytes()).unwrap();
    assert_eq!(file.problems, [pi::LineProblem { line: 2, kind: pi::ProblemKind::HalfCharacter }]);
    let tree = super::import(&file);
    assert_eq!(pi::write(&tree, Some(text.as_bytes())), text.as_bytes());
    assert_eq!(context(&tree, Program::Pi, "1")["messages"][0]["content"], "cut \u{fffd}");
}

#[test]
fn long_files_take_no_stack_and_no_square_time() {
    let count = 20_000;
    let mut text = format!("{HEADER}\n");
    for at in 0..count {
        let parent = if at == 0 { "null".to_owned() } else { format!("\"{}\"", at - 1) };
        text += &format!(
            "{{\"type\":\"custom\",\"customType\":\"x\",\"id\":\"{at}\",\"parentId\":{parent},\"timestamp\":\"2026-01-01T00:00:01.000Z\"}}\n"
        );
    }
    let file = pi::read(text.as_bytes()).unwrap();
    let tree = file.tree();
    let view = PiView::new(&tree, Program::Pi);
    assert_eq!(view.branch(&PathEnd::Current).len(), count);
    assert_eq!(view.context(&PathEnd::Current)["messages"], json!([]));
    let flat = view.tree();
    assert_eq!(
        flat[count - 1],
        json!({"depth": count - 1, "id": format!("{}", count - 1), "type": "custom"})
    );
    assert!(pi::write(&tree, Some(text.as_bytes())) == text.as_bytes());
}

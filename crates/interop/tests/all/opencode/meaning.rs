//! What imported messages of OpenCode mean here: the fields that the model has words for.
//!
//! A session comes out as it came in whatever was understood of it, because the rest rides along. So a round trip does
//! not notice that tokens or the reason of an end were lost. Here each recorded message is read a second time, by hand,
//! and compared with what the tree says.

use everturn_interop::opencode::export;
use everturn_model::entry::Assistant;
use everturn_model::part::PartKind;
use everturn_model::tool::Outcome;
use everturn_model::usage::Cache;
use everturn_model::{Body, Fault, FaultKind, Finish, Money, Part, Tokens, Tree};
use serde_json::Value;

use super::data::{fixture, folded};

/// What was seen, so that nothing is said of nothing.
#[derive(Debug, Default)]
struct Seen {
    stopped: usize,
    called: usize,
    failed: usize,
    used: usize,
    paid: usize,
    completed: usize,
    errors: usize,
}

fn tokens(value: &Value) -> Tokens {
    let count = |value: &Value| value.as_u64().unwrap_or_default();
    Tokens {
        total: value["total"].as_u64(),
        input: count(&value["input"]),
        output: count(&value["output"]),
        reasoning: count(&value["reasoning"]),
        cache: Cache { read: count(&value["cache"]["read"]), write: count(&value["cache"]["write"]) },
    }
}

fn money(value: &Value) -> Money {
    Money::from_f64(value.as_f64().unwrap())
}

/// What OpenCode calls a fault that has a meaning here.
fn name(fault: &Fault) -> &'static str {
    match &fault.kind {
        FaultKind::Aborted => "MessageAbortedError",
        FaultKind::Authentication { .. } => "ProviderAuthError",
        FaultKind::Api(_) => "APIError",
        FaultKind::ContextOverflow { .. } => "ContextOverflowError",
        FaultKind::OutputLength => "MessageOutputLengthError",
        FaultKind::ContentFilter => "ContentFilterError",
        FaultKind::StructuredOutput { .. } => "StructuredOutputError",
        FaultKind::Internal => "UnknownError",
        FaultKind::CutOff | FaultKind::CutStream | FaultKind::TimedOut { .. } | FaultKind::Imported => {
            panic!("no message holds this: {fault:?}")
        }
    }
}

fn check_answer(place: &str, info: &Value, assistant: &Assistant, seen: &mut Seen) {
    assert_eq!(assistant.finish, info["finish"].as_str().map(Finish::from), "{place}");
    assert_eq!(assistant.tokens, tokens(&info["tokens"]), "{place}");
    assert_eq!(assistant.cost, money(&info["cost"]), "{place}");
    let fault = assistant.error.as_ref();
    assert_eq!(fault.map(name), info["error"]["name"].as_str(), "{place}");
    let message = fault.and_then(|fault| fault.message.as_deref());
    assert_eq!(message, info["error"]["data"]["message"].as_str(), "{place}");
    let model = assistant.model.as_ref().map(|model| (model.provider.as_str(), model.model.as_str()));
    assert_eq!(model, info["providerID"].as_str().zip(info["modelID"].as_str()), "{place}");
    assert_eq!(assistant.completed, info["time"]["completed"].as_i64(), "{place}");
    seen.stopped += usize::from(assistant.finish == Some(Finish::Stop));
    seen.called += usize::from(assistant.finish == Some(Finish::ToolCalls));
    seen.failed += usize::from(fault.is_some());
    seen.used += usize::from(assistant.tokens.input > 0);
    seen.paid += usize::from(assistant.cost > Money::ZERO);
}

fn check_step(place: &str, raw: &Value, part: &Part) {
    let PartKind::StepFinish { reason, tokens: used, cost, .. } = &part.kind else {
        panic!("{place}: {part:?}")
    };
    assert_eq!(Some(reason), raw["reason"].as_str().map(Finish::from).as_ref(), "{place}");
    assert_eq!(*used, tokens(&raw["tokens"]), "{place}");
    assert_eq!(*cost, money(&raw["cost"]), "{place}");
}

/// The end of a call is an entry of its own.
fn check_call(place: &str, raw: &Value, tree: &Tree, seen: &mut Seen) {
    let results = tree.nodes().iter().filter_map(|node| match &node.entry.body {
        Body::ToolResult { result } if Some(result.call.as_str()) == raw["callID"].as_str() => Some(result),
        _ => None,
    });
    let results: Vec<_> = results.collect();
    let state = &raw["state"];
    let (outcome, text) = match state["status"].as_str().unwrap() {
        "completed" => (Outcome::Completed, &state["output"]),
        "error" => (Outcome::Error, &state["error"]),
        other => panic!("{place}: {other}"),
    };
    assert_eq!(results.len(), 1, "{place}");
    assert_eq!((results[0].outcome, Some(results[0].output.as_str())), (outcome, text.as_str()), "{place}");
    assert_eq!(Some(results[0].tool.as_str()), raw["tool"].as_str(), "{place}");
    seen.completed += usize::from(outcome == Outcome::Completed);
    seen.errors += usize::from(outcome == Outcome::Error);
}

/// Compares each message of a folder of exports.
fn folder(name: &str) -> Seen {
    let mut seen = Seen::default();
    for file in std::fs::read_dir(fixture(name)).unwrap() {
        let file = file.unwrap().path();
        let value: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        let tree = folded(&export::read_value(value.clone()).unwrap());
        for message in value["messages"].as_array().unwrap() {
            let info = &message["info"];
            let place = format!("{} {}", file.display(), info["id"]);
            let own = |node: &&everturn_model::tree::Node| Some(node.entry.wire_id()) == info["id"].as_str();
            // A command and its output, or a compaction and its summary, are one entry.
            let Some(node) = tree.nodes().iter().find(own) else { continue };
            let Body::Assistant(assistant) = &node.entry.body else { continue };
            check_answer(&place, info, assistant, &mut seen);
            for raw in message["parts"].as_array().unwrap() {
                let part = node.parts.iter().find(|part| Some(part.id.as_str()) == raw["id"].as_str());
                match raw["type"].as_str() {
                    Some("step-finish") => check_step(&place, raw, part.unwrap()),
                    Some("tool") => check_call(&place, raw, &tree, &mut seen),
                    _ => {}
                }
            }
            let rest = serde_json::to_string(&node.entry.extra).unwrap();
            for word in ["\"finish\"", "\"tokens\"", "\"cost\"", "\"providerID\""] {
                assert!(!rest.contains(word), "{place}: {word} has a meaning here, and rides along: {rest}");
            }
        }
    }
    seen
}

#[test]
fn answers_of_1_1_16_mean_here_what_they_mean_there() {
    let seen = folder("export-1.1.16");
    assert!(seen.stopped >= 18 && seen.called >= 24 && seen.failed >= 2, "{seen:?}");
    assert!(seen.used >= 30 && seen.paid >= 3 && seen.completed >= 20 && seen.errors >= 5, "{seen:?}");
}

#[test]
fn answers_of_1_18_33_mean_here_what_they_mean_there() {
    let seen = folder("export-1.18.33");
    assert!(seen.stopped >= 11 && seen.called >= 18 && seen.failed >= 2, "{seen:?}");
    assert!(seen.used >= 20 && seen.completed >= 10 && seen.errors >= 2, "{seen:?}");
}

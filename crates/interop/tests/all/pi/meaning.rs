//! What the lines of a file mean here: the fields that the model has words for.
//!
//! A file comes out as it came in whatever was understood of it, because the rest rides along. So a round trip does not
//! notice that a call was taken for an end, a cost for twice as much or a failure for a success. Here each line is read
//! a second time, by hand, and compared with what the tree says.

use std::collections::HashSet;

use everturn_interop::pi::{self, PiView, Program};
use everturn_model::tool::Outcome;
use everturn_model::usage::Cache;
use everturn_model::{Body, FaultKind, Finish, Money, PartKind, Tokens};
use serde_json::Value;

use super::{names, source, tree};

/// What was seen, so that nothing is said of nothing.
#[derive(Debug, Default, PartialEq, Eq)]
struct Seen {
    stopped: usize,
    called: usize,
    aborted: usize,
    failed: usize,
    paid: usize,
    cached: usize,
    results: usize,
    errors: usize,
}

/// The lines of a file that hold a message, with its id; only ids that occur once.
fn messages(bytes: &[u8]) -> Vec<(String, Value)> {
    let lines = bytes.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok());
    let entries: Vec<Value> = lines.filter(|entry: &Value| entry["type"] == "message").collect();
    let mut ids = HashSet::new();
    let twice: HashSet<&str> =
        entries.iter().filter_map(|entry| entry["id"].as_str()).filter(|id| !ids.insert(*id)).collect();
    let messages = entries.iter().filter_map(|entry| {
        let id = entry["id"].as_str().filter(|id| !twice.contains(id))?;
        Some((id.to_owned(), entry["message"].clone()))
    });
    messages.collect()
}

fn check_answer(place: &str, message: &Value, body: &Body, seen: &mut Seen) {
    let Body::Assistant(assistant) = body else { panic!("{place}: {body:?}") };
    let stop = message["stopReason"].as_str().unwrap();
    let finish = match stop {
        "toolUse" => Finish::ToolCalls,
        other => Finish::from(other),
    };
    assert_eq!(assistant.finish, Some(finish), "{place}");
    let fault = assistant.error.as_ref().map(|fault| &fault.kind);
    match stop {
        "aborted" => assert_eq!(fault, Some(&FaultKind::Aborted), "{place}"),
        "error" => assert_eq!(fault, Some(&FaultKind::Internal), "{place}"),
        _ => assert_eq!(fault, None, "{place}"),
    }
    seen.stopped += usize::from(stop == "stop");
    seen.called += usize::from(stop == "toolUse");
    seen.aborted += usize::from(stop == "aborted");
    seen.failed += usize::from(stop == "error");

    let usage = &message["usage"];
    let count = |name: &str| usage[name].as_u64().unwrap_or_default();
    let tokens = Tokens {
        total: usage["totalTokens"].as_u64(),
        input: count("input"),
        output: count("output"),
        reasoning: 0,
        cache: Cache { read: count("cacheRead"), write: count("cacheWrite") },
    };
    assert_eq!(assistant.tokens, tokens, "{place}");
    seen.cached += usize::from(tokens.cache.read > 0);
    let cost = usage["cost"]["total"].as_f64().unwrap_or_default();
    assert_eq!(assistant.cost, Money::from_f64(cost), "{place}");
    seen.paid += usize::from(cost > 0.0);
    let model = assistant.model.as_ref().map(|model| (model.provider.as_str(), model.model.as_str()));
    assert_eq!(model, message["provider"].as_str().zip(message["model"].as_str()), "{place}");
}

fn check_result(place: &str, message: &Value, body: &Body, seen: &mut Seen) {
    let Body::ToolResult { result } = body else { panic!("{place}: {body:?}") };
    let outcome = if message["isError"] == true { Outcome::Error } else { Outcome::Completed };
    assert_eq!(result.outcome, outcome, "{place}");
    assert_eq!(Some(result.call.as_str()), message["toolCallId"].as_str(), "{place}");
    assert_eq!(Some(result.tool.as_str()), message["toolName"].as_str(), "{place}");
    let blocks = message["content"].as_array().into_iter().flatten();
    let texts: Vec<&str> = blocks.filter_map(|block| block["text"].as_str()).collect();
    assert_eq!(result.output, texts.join("\n"), "{place}");
    seen.results += 1;
    seen.errors += usize::from(outcome == Outcome::Error);
}

#[test]
fn answers_and_results_mean_here_what_they_mean_there() {
    let mut seen = Seen::default();
    for name in names() {
        let bytes = source(&name);
        let Ok(file) = pi::read(&bytes) else { continue };
        let tree = super::import(&file);
        let view = PiView::new(&tree, Program::Pi);
        for (id, message) in messages(&bytes) {
            let place = format!("{name} {id}");
            // What a damaged file has lost is said in `damage`.
            let Some(node) = view.find(&id).and_then(|id| tree.node(id)) else { continue };
            match message["role"].as_str() {
                Some("assistant") => check_answer(&place, &message, &node.entry.body, &mut seen),
                Some("toolResult") => check_result(&place, &message, &node.entry.body, &mut seen),
                _ => {}
            }
        }
    }
    let least =
        Seen { stopped: 60, called: 9, aborted: 1, failed: 1, paid: 40, cached: 1, results: 10, errors: 2 };
    let counts = |seen: &Seen| {
        [
            seen.stopped,
            seen.called,
            seen.aborted,
            seen.failed,
            seen.paid,
            seen.cached,
            seen.results,
            seen.errors,
        ]
    };
    assert!(counts(&seen).iter().zip(counts(&least)).all(|(seen, least)| *seen >= least), "{seen:?}");
}

#[test]
fn nothing_with_a_meaning_here_rides_along() {
    let tree = tree(&source("a02-tools-openai"));
    let mut looked = 0;
    for node in tree.nodes() {
        let assistant = matches!(node.entry.body, Body::Assistant(_));
        if !assistant && !matches!(node.entry.body, Body::ToolResult { .. }) {
            continue;
        }
        looked += 1;
        let rest = serde_json::to_string(&node.entry.extra).unwrap();
        for word in ["stopReason", "toolUse", "isError", "toolCallId", "toolName", "\"total\"", "totalTokens"]
        {
            assert!(!rest.contains(word), "{word} of {} rides along: {rest}", node.entry.id);
        }
        let calls = node.parts.iter().filter(|part| matches!(part.kind, PartKind::Foreign { .. }));
        assert_eq!(calls.count(), 0, "every block has a kind here");
    }
    assert!(looked > 3, "{looked}");
}

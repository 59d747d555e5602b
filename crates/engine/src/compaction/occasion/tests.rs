//! When it is tried again, by what happened: prompts, answers, summaries that came to something or did not.

use everturn_model::Fault;
use everturn_model::entry::{Assistant, Entry, Pair, User};

use super::*;

/// Entries: `u` prompts, `a` answers, `x` answers that failed, `s` a summary, `f` one that failed, `i` one that was
/// interrupted.
fn may(path: &str) -> bool {
    let fault = |kind| Some(Fault::new(kind, "why"));
    let answer = |error| Assistant { completed: Some(1), error, ..Assistant::default() };
    let failed = |error| {
        let pair = Some(Box::new(Pair { assistant: answer(error), ..Pair::default() }));
        Body::Compaction(Compaction { pair, ..Compaction::default() })
    };
    let node = |(at, letter): (usize, char)| {
        let body = match letter {
            'u' => Body::User(User::default()),
            'a' => Body::Assistant(answer(None)),
            'x' => Body::Assistant(answer(fault(FaultKind::Internal))),
            's' => Body::Compaction(Compaction { summary: Some("so far".into()), ..Compaction::default() }),
            'f' => failed(fault(FaultKind::Internal)),
            'i' => failed(fault(FaultKind::Aborted)),
            other => panic!("{other}"),
        };
        Node::new(Entry::new(format!("msg_{at}").as_str().into(), None, 1, body), Vec::new())
    };
    let nodes: Vec<Node> = path.chars().enumerate().map(node).collect();
    may_be_tried(&nodes.iter().collect::<Vec<_>>())
}

#[test]
fn it_is_not_tried_twice_without_anything_new() {
    for (path, expected) in [
        ("", true),
        ("uaua", true),
        ("uas", false),
        ("uasx", false),
        ("uasu", true),
        ("uasa", true),
        ("uai", true),
    ] {
        assert_eq!(may(path), expected, "{path}");
    }
}

#[test]
fn after_failures_more_and_more_has_to_happen() {
    for (path, expected) in [
        ("uaf", false),
        ("uafu", false),
        ("uafau", true),
        ("uafauf", false),
        ("uafaufaua", false),
        ("uafaufauau", true),
        ("uafaufiauau", true),
        ("sufauf", false),
        ("fafafafafafafafafafafafafafafaf", false),
    ] {
        assert_eq!(may(path), expected, "{path}");
    }
    // However often it failed, it is tried again some day.
    assert!(may(&("f".repeat(50) + &"a".repeat(32))));
    assert!(!may(&("f".repeat(50) + &"a".repeat(31))));
    // One that came to something begins anew.
    assert!(may("uafafafasu"));
}

//! Cuts through paths that are written down in short: a letter for each entry, and how many tokens it has.

use everturn_model::Part;
use everturn_model::entry::{Assistant, Compaction, Entry, User};
use everturn_model::part::PartKind;
use everturn_model::session::ModelRef;
use everturn_model::tool::{Outcome, ToolResult, ToolState};
use serde_json::json;

use super::*;

/// Entries: `u` prompts, `a` answers, `c` answers with a call, `r` its result, `m` a switch of the model, `s` a summary
/// that keeps what follows the second entry.
fn nodes(path: &str, tokens: usize) -> Vec<Node> {
    let text = "x".repeat(tokens * 4);
    let node = |(at, letter): (usize, char)| {
        let id = |at: usize| format!("msg_{at}").as_str().into();
        let said = PartKind::text(text.clone());
        let call = || {
            let state = ToolState::Pending { input: json!({}), raw: String::new() };
            let (call, tool) = ("call".to_owned(), "read".to_owned());
            PartKind::Tool { call, tool, state, hosted: false, metadata: None }
        };
        let (body, kinds) = match letter {
            'u' => (Body::User(User::default()), vec![said]),
            'a' => (Body::Assistant(Assistant::default()), vec![said]),
            'c' => (Body::Assistant(Assistant::default()), vec![said, call()]),
            'r' => {
                let result = Box::new(ToolResult::new("call", "read", Outcome::Completed, &text));
                (Body::ToolResult { result }, vec![])
            }
            'm' => {
                let model = ModelRef { provider: "p".into(), model: "m".into(), variant: None };
                (Body::ModelSwitch { model }, vec![])
            }
            's' => {
                let (summary, first_kept) = (Some("so far".to_owned()), Some(id(2)));
                (Body::Compaction(Compaction { summary, first_kept, ..Compaction::default() }), vec![])
            }
            other => panic!("{other}"),
        };
        let part = |(place, kind)| Part::new(format!("prt_{at}_{place}").as_str().into(), kind);
        let parts = kinds.into_iter().enumerate().map(part).collect();
        Node::new(Entry::new(id(at), at.checked_sub(1).map(id), 1, body), parts)
    };
    path.chars().enumerate().map(node).collect()
}

/// The path with a bar where it is cut, or a stroke in the middle of a turn; what the model does not see is left out.
fn cut(path: &str, tokens: usize, bounds: KeptBounds) -> String {
    let nodes = nodes(path, tokens);
    let path_nodes: Vec<&Node> = nodes.iter().collect();
    let cut = choose(&path_nodes, &bounds);
    let letters =
        |places: &[usize]| places.iter().map(|at| char::from(path.as_bytes()[*at])).collect::<String>();
    format!("{}{}{}", letters(&cut.summed), if cut.splits { "/" } else { "|" }, letters(&cut.kept))
}

fn keep(tokens: u64) -> KeptBounds {
    KeptBounds { tokens, ..KeptBounds::default() }
}

#[test]
fn enough_of_the_end_is_kept() {
    assert_eq!(cut("uauaua", 100, keep(0)), "uauaua|");
    assert_eq!(cut("uauaua", 100, keep(200)), "uaua|ua");
    assert_eq!(cut("uauaua", 100, keep(201)), "uau/aua", "as much as is wanted, at least");
    assert_eq!(cut("uauaua", 100, keep(600)), "|uauaua");
    assert_eq!(cut("uauaua", 100, keep(9_000)), "|uauaua");
}

#[test]
fn a_call_and_its_result_stay_together() {
    // The result alone would be enough, and is kept with its call.
    assert_eq!(cut("ucrcrcr", 100, keep(50)), "ucrcr/cr");
    let most = KeptBounds { most: Some(150), ..keep(50) };
    assert_eq!(cut("ucrcrcr", 100, most), "ucrcrcr|", "together they are too large");
    assert_eq!(cut("ucrcrcru", 100, keep(150)), "ucrcrcr|u");
    assert_eq!(cut("ucrcrcr", 100, keep(150)), "ucrcr/cr");
    assert_eq!(cut("ucrcrcr", 100, keep(202)), "ucrcr/cr");
    assert_eq!(cut("ucrua", 100, keep(150)), "ucr|ua");
    for tokens in 0..900 {
        let cut = cut("ucrucrcruacra", 70, keep(tokens));
        let (_, kept) = cut.split_once(['|', '/']).unwrap();
        assert!(!kept.starts_with('r'), "{cut}");
    }
}

#[test]
fn what_may_be_kept_is_bounded() {
    let most = KeptBounds { most: Some(250), ..keep(201) };
    assert_eq!(cut("uauaua", 100, most), "uaua|ua");
    let nothing = KeptBounds { most: Some(50), ..keep(10) };
    assert_eq!(cut("uaua", 100, nothing), "uaua|", "the newest is too large by itself");
    let messages = KeptBounds { messages: Some(3), ..keep(9_000) };
    assert_eq!(cut("uauaua", 100, messages), "uau/aua");
    let turns = KeptBounds { turns: Some(1), ..keep(9_000) };
    assert_eq!(cut("uauacrua", 100, turns), "uau/acrua", "one prompt, and what came before it");
}

#[test]
fn what_is_no_message_goes_with_what_follows_it() {
    assert_eq!(cut("uamua", 100, keep(200)), "ua|mua");
    assert_eq!(cut("uamcr", 100, keep(200)), "ua/mcr");
}

#[test]
fn an_earlier_summary_is_where_it_begins() {
    // Of what it stands for, the model sees only what it keeps.
    assert_eq!(cut("uauasua", 100, keep(200)), "ua|ua");
    assert_eq!(cut("uauasua", 100, keep(9_000)), "|uaua");
    assert_eq!(cut("uauas", 100, keep(100)), "u/a");
}

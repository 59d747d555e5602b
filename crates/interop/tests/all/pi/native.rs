//! Sessions that went on here, and sessions that began here, as files of pi.

use everturn_interop::pi::{self, PathEnd, PiView, Program};
use everturn_model::entry::{Assistant, Compaction, Shell, User};
use everturn_model::event::{Amendment, Cause, Event, Record};
use everturn_model::finish::Finish;
use everturn_model::session::ModelRef;
use everturn_model::tool::{Outcome, ToolResult, ToolState};
use everturn_model::{
    Body, Entry, EntryId, Money, Part, PartId, PartKind, Session, SessionId, Tokens, Tree, fold,
};
use serde_json::{Value, json};

use super::{source, tree};

const NOW: i64 = 1_800_000_000_000;

/// Folds further events into a tree.
fn grow(tree: &mut Tree, events: Vec<Event>) {
    for (seq, event) in (2..).zip(events) {
        let record = Record {
            id: "evt_x".into(),
            session: tree.session.id.clone(),
            seq,
            time: NOW,
            event,
            subject: None,
        };
        fold::apply(tree, &record).unwrap();
    }
}

fn entry(id: &str, parent: Option<&EntryId>, body: Body) -> Box<Entry> {
    Box::new(Entry::new(id.into(), parent.cloned(), NOW, body))
}

fn part(id: &str, kind: PartKind) -> Part {
    Part::new(PartId::from(id), kind)
}

fn added(id: &str, parent: Option<&EntryId>, body: Body, parts: Vec<Part>) -> Event {
    Event::EntryAdded { entry: entry(id, parent, body), parts }
}

fn find(tree: &Tree, id: &str) -> EntryId {
    PiView::new(tree, Program::Pi).find(id).unwrap().clone()
}

/// What was written after the bytes that were there.
fn written_after(tree: &Tree, before: &[u8]) -> Vec<Value> {
    let after = pi::write(tree, Some(before));
    let rest = after.strip_prefix(before).expect("what was there is still there");
    super::values(rest)
}

fn context(tree: &Tree) -> Value {
    PiView::new(tree, Program::Pi).context(&PathEnd::Current)
}

/// The context of a file as pi would open it.
fn opened(bytes: &[u8]) -> Value {
    context(&tree(bytes))
}

fn model() -> Option<ModelRef> {
    Some(ModelRef { provider: "p".to_owned(), model: "m".to_owned(), variant: None })
}

#[test]
fn a_session_that_goes_on_here_goes_on_in_its_file() {
    let before = source("a01-plain-cli");
    let mut tree = tree(&before);
    let leaf = tree.session.leaf.clone();
    let call = PartKind::Tool {
        call: "c1".to_owned(),
        tool: "bash".to_owned(),
        state: ToolState::Running {
            input: json!({"command": "ls"}),
            title: None,
            metadata: None,
            start: NOW,
        },
        hosted: false,
        metadata: None,
    };
    let turn = Assistant {
        model: model(),
        completed: Some(NOW + 5),
        finish: Some(Finish::ToolCalls),
        tokens: Tokens { input: 10, output: 2, reasoning: 3, ..Tokens::default() },
        cost: Money::from_f64(0.25),
        ..Assistant::default()
    };
    let (asked, answered) = (EntryId::from("msg_1"), EntryId::from("msg_2"));
    let result = ToolResult::new("c1", "bash", Outcome::Unknown, "lost");
    grow(
        &mut tree,
        vec![
            added(
                "msg_1",
                leaf.as_ref(),
                Body::User(User::default()),
                vec![
                    part("prt_1", PartKind::text("list")),
                    part(
                        "prt_2",
                        PartKind::File {
                            mime: "image/png".to_owned(),
                            filename: None,
                            url: "data:image/png;base64,AAAA".to_owned(),
                            source: None,
                        },
                    ),
                ],
            ),
            added(
                "msg_2",
                Some(&asked),
                Body::Assistant(turn),
                vec![
                    part("prt_3", PartKind::StepStart { snapshot: None }),
                    part("prt_4", PartKind::text("ok")),
                    part("prt_5", call),
                ],
            ),
            Event::ToolSettled {
                entry: entry("msg_3", Some(&answered), Body::ToolResult { result: Box::new(result) }),
                assistant: Some(answered.clone()),
                part: None,
            },
        ],
    );
    let lines = written_after(&tree, &before);
    let ids: Vec<&str> = lines.iter().map(|line| line["id"].as_str().unwrap()).collect();
    assert!(ids.iter().all(|id| id.len() == 8 && id.chars().all(|digit| digit.is_ascii_hexdigit())));
    let parent = PiView::new(&tree, Program::Pi).name_of(&leaf.unwrap()).unwrap().to_owned();
    let (date, later) = ("2027-01-15T08:00:00.000Z", "2027-01-15T08:00:00.005Z");
    let cost = json!({"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0.25});
    assert_eq!(
        lines,
        [
            json!({"type": "message", "id": ids[0], "parentId": parent, "timestamp": date, "message": {
                "role": "user",
                "content": [{"type": "text", "text": "list"}, {"type": "image", "data": "AAAA", "mimeType": "image/png"}],
                "timestamp": NOW}}),
            json!({"type": "message", "id": ids[1], "parentId": ids[0], "timestamp": later, "message": {
                "role": "assistant",
                "content": [{"type": "text", "text": "ok"}, {"type": "toolCall", "id": "c1", "name": "bash", "arguments": {"command": "ls"}}],
                "api": "everturn", "provider": "p", "model": "m",
                "usage": {"input": 10, "output": 5, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 15, "cost": cost},
                "stopReason": "toolUse", "timestamp": NOW}}),
            json!({"type": "message", "id": ids[2], "parentId": ids[1], "timestamp": date, "message": {
                "role": "toolResult", "toolCallId": "c1", "toolName": "bash",
                "content": [{"type": "text", "text": "lost"}], "isError": true, "timestamp": NOW}}),
        ]
    );
    assert_eq!(opened(&pi::write(&tree, Some(&before))), context(&tree));
    assert_eq!(opened(&pi::write(&tree, None)), context(&tree));
}

#[test]
fn labels_and_names_made_here_follow_the_leaf() {
    let before = source("b01-labels");
    let mut tree = tree(&before);
    let leaf = tree.session.leaf.clone();
    let target = find(&tree, "6fbca4a2");
    let label = Body::Label { target: Some(target), label: Some("mine".to_owned()) };
    grow(
        &mut tree,
        vec![
            Event::Labeled { entry: entry("msg_1", leaf.as_ref(), label) },
            Event::TitleChanged {
                entry: "msg_2".into(),
                parent: leaf.clone(),
                title: "Named".to_owned(),
                replaces: None,
            },
            added("msg_3", leaf.as_ref(), Body::ThinkingSwitch { level: Some("low".to_owned()) }, Vec::new()),
        ],
    );
    let lines = written_after(&tree, &before);
    let id = |at: usize| lines[at]["id"].clone();
    let date = "2027-01-15T08:00:00.000Z";
    assert_eq!(
        lines,
        [
            json!({"type": "thinking_level_change", "id": id(0), "parentId": "64c574e6", "timestamp": date, "thinkingLevel": "low"}),
            json!({"type": "label", "id": id(1), "parentId": id(0), "timestamp": date, "targetId": "6fbca4a2", "label": "mine"}),
            json!({"type": "session_info", "id": id(2), "parentId": id(1), "timestamp": date, "name": "Named"}),
        ]
    );
    let after = super::tree(&pi::write(&tree, Some(&before)));
    let view = PiView::new(&after, Program::Pi);
    assert_eq!((view.name(), view.labels()[&find(&after, "6fbca4a2")].0), (Some("Named"), "mine"));
    assert_eq!(context(&after), context(&tree));
}

#[test]
fn pi_opens_the_file_at_our_leaf() {
    let before = source("a05-branched-summary");
    let mut tree = tree(&before);
    for to in [Some(find(&tree, "508edbe8")), None] {
        let moved =
            Event::LeafMoved { from: tree.session.leaf.clone(), to: to.clone(), cause: Cause::Branch };
        grow(&mut tree, vec![moved]);
        let lines = written_after(&tree, &before);
        let parent = to.as_ref().map(|_| "508edbe8");
        let id = &lines[0]["id"];
        assert_eq!(lines.len(), 1);
        assert_eq!(
            lines[0],
            json!({"type": "custom", "id": id, "parentId": parent, "timestamp": lines[0]["timestamp"], "customType": "everturn.leaf"})
        );
        assert_eq!(opened(&pi::write(&tree, Some(&before))), context(&tree));
    }
    // A branch from there needs no mark.
    let leaf = find(&tree, "508edbe8");
    grow(
        &mut tree,
        vec![
            Event::LeafMoved { from: None, to: Some(leaf.clone()), cause: Cause::Branch },
            added(
                "msg_1",
                Some(&leaf),
                Body::User(User::default()),
                vec![part("prt_1", PartKind::text("again"))],
            ),
        ],
    );
    let lines = written_after(&tree, &before);
    assert_eq!((lines.len(), &lines[0]["parentId"]), (1, &json!("508edbe8")));
    assert_eq!(opened(&pi::write(&tree, Some(&before))), context(&tree));
}

#[test]
fn old_versions_are_lifted_when_they_grow() {
    for name in ["v1-minimal", "v1-compaction-index-0-and-oob", "v2-hook-message"] {
        let before = source(name);
        let mut tree = tree(&before);
        let was = context(&tree);
        let leaf = tree.session.leaf.clone();
        grow(
            &mut tree,
            vec![added(
                "msg_1",
                leaf.as_ref(),
                Body::ThinkingSwitch { level: Some("low".to_owned()) },
                Vec::new(),
            )],
        );
        let after = pi::write(&tree, Some(&before));
        let file = pi::read(&after).unwrap();
        assert_eq!((file.version, file.problems.clone()), (3, Vec::new()), "{name}");
        let now = context(&super::import(&file));
        assert_eq!((&now["messages"], &now["thinkingLevel"]), (&was["messages"], &json!("low")), "{name}");
    }
}

#[test]
fn damaged_files_grow_into_files_that_pi_can_open() {
    fn grown(name: &str) -> (Vec<u8>, Vec<u8>) {
        let before = source(name);
        let mut tree = tree(&before);
        let leaf = tree.session.leaf.clone();
        grow(
            &mut tree,
            vec![added(
                "msg_1",
                leaf.as_ref(),
                Body::User(User::default()),
                vec![part("prt_1", PartKind::text("on"))],
            )],
        );
        (pi::write(&tree, Some(&before)), before)
    }
    // Nothing is glued to a line that was cut short.
    let (after, before) = grown("e02-truncated-last-line");
    assert!(after.starts_with(&before));
    assert_eq!(pi::read(&after).unwrap().seed.nodes.len(), 4);
    // A header comes first, so that pi does not empty the file.
    let (after, before) = grown("e03-missing-header");
    let first: Value = serde_json::from_slice(after.split(|byte| *byte == b'\n').next().unwrap()).unwrap();
    assert_eq!(first["type"], "session");
    assert!(after.windows(before.len()).any(|window| window == before));
    // The same for a header whose id pi does not accept.
    let (after, _) = grown("e05-header-id-not-string");
    let file = pi::read(&after).unwrap();
    assert_eq!((file.header.clone().unwrap()["id"].clone(), file.problems), (json!("42"), Vec::new()));
}

#[test]
fn a_changed_part_changes_its_line_only() {
    let before = source("a02-tools-openai");
    let mut tree = tree(&before);
    let id =
        tree.nodes().iter().find(|node| matches!(node.entry.body, Body::User(_))).unwrap().entry.id.clone();
    let mut new = tree.node(&id).unwrap().parts[0].clone();
    new.kind = PartKind::text("something else");
    let change = Amendment::ReplacePart { part: Box::new(new.clone()) };
    grow(&mut tree, vec![Event::EntryAmended { entry: id, part: Some(new.id), change }]);
    let after = pi::write(&tree, Some(&before));
    let (old, new) = (super::values(&before), super::values(&after));
    let changed: Vec<usize> = (0..old.len()).filter(|at| old[*at] != new[*at]).collect();
    assert_eq!((old.len(), changed.len()), (new.len(), 1));
    assert_eq!(new[changed[0]]["message"]["content"][0]["text"], "something else");
    let (before, after) = (String::from_utf8(before).unwrap(), String::from_utf8(after).unwrap());
    let differ = before.lines().zip(after.lines()).filter(|(old, new)| old != new).count();
    assert_eq!(differ, 1);
}

#[test]
fn a_hidden_entry_leaves_the_file_and_its_children_stay() {
    let before = source("b04-custom");
    let mut tree = tree(&before);
    let hidden = find(&tree, "a2d7765c");
    grow(&mut tree, vec![Event::EntryAmended { entry: hidden, part: None, change: Amendment::Hide }]);
    let after = pi::write(&tree, Some(&before));
    let (old, new) = (super::values(&before), super::values(&after));
    assert_eq!(new.len(), old.len() - 1);
    let child = new.iter().find(|value| value["id"] == "2235e002").unwrap();
    assert_eq!(child["parentId"], "5bc78dff");
    assert_eq!(opened(&after), context(&tree));
}

/// A session that began here, with an entry of every kind.
fn own() -> Tree {
    let session = Session::new(SessionId::from("ses_1"), "global", "/x", "Ours", "0.1.0", NOW);
    let mut tree = Tree::new(session);
    let bodies = [
        Body::AgentSwitch { agent: "build".to_owned() },
        Body::ModelSwitch { model: model().unwrap() },
        Body::ThinkingSwitch { level: Some("high".to_owned()) },
        Body::Epoch { baseline: "You are".to_owned(), snapshot: json!({"date": 1}), directory: None },
        Body::User(User::default()),
        Body::Assistant(Assistant {
            model: model(),
            finish: Some(Finish::Stop),
            completed: Some(NOW),
            tokens: Tokens { total: Some(0), ..Tokens::default() },
            ..Assistant::default()
        }),
        Body::System { text: "the date changed".to_owned(), snapshot: Some(json!({"date": 2})) },
        Body::Synthetic { text: Some("noted".to_owned()), origin_type: None, display: Some(false) },
        Body::Shell(Shell {
            command: "ls".to_owned(),
            output: Some("a".to_owned()),
            exit: Some(0),
            completed: Some(NOW),
            ..Shell::default()
        }),
        Body::Compaction(Compaction {
            summary: Some("short".to_owned()),
            first_kept: Some("msg_4".into()),
            tokens_before: Some(9),
            ..Compaction::default()
        }),
        Body::BranchSummary { summary: "left".to_owned(), from: Some("x".to_owned()) },
        Body::Custom { custom_type: "ext".to_owned(), data: Some(json!([1])) },
    ];
    let mut events = Vec::new();
    for (at, body) in bodies.into_iter().enumerate() {
        let parent = at.checked_sub(1).map(|at| EntryId::from(format!("msg_{at}").as_str()));
        let text = matches!(body, Body::User(_) | Body::Assistant(_));
        let parts = text.then(|| part(&format!("prt_{at}"), PartKind::text("words")));
        events.push(added(&format!("msg_{at}"), parent.as_ref(), body, parts.into_iter().collect()));
    }
    grow(&mut tree, events);
    tree
}

#[test]
fn a_session_that_began_here_comes_back_the_same() {
    let ours = own();
    let bytes = pi::write(&ours, None);
    let file = pi::read(&bytes).unwrap();
    assert_eq!(
        (file.problems.clone(), file.session.title.as_str(), file.session.directory.as_str()),
        (Vec::new(), "Ours", "/x")
    );
    let theirs = super::import(&file);
    let bodies = |tree: &Tree| -> Vec<Body> {
        let body = |body: &Body| match body {
            // Ids are new in another session.
            Body::Compaction(compaction) => {
                let kept = compaction
                    .first_kept
                    .as_ref()
                    .and_then(|id| tree.nodes().iter().position(|node| &node.entry.id == id));
                assert_eq!(kept, Some(4));
                Body::Compaction(Compaction { first_kept: None, ..compaction.clone() })
            }
            body => body.clone(),
        };
        tree.nodes().iter().map(|node| body(&node.entry.body)).collect()
    };
    // The name, which is no entry here, is the last line there.
    let mut expected = bodies(&ours);
    expected.push(Body::Title { title: Some("Ours".to_owned()) });
    assert_eq!(bodies(&theirs), expected);
    assert_eq!(context(&theirs)["messages"], context(&ours)["messages"]);
    assert_eq!(pi::write(&theirs, Some(&bytes)), bytes);
}

#[test]
fn a_turn_that_holds_steps_and_results_becomes_several_lines() {
    let mut tree = own();
    let leaf = tree.session.leaf.clone();
    let result =
        Box::new(ToolResult { end: Some(NOW + 1), ..ToolResult::new("c1", "bash", Outcome::Completed, "a") });
    let tool = PartKind::Tool {
        call: "c1".to_owned(),
        tool: "bash".to_owned(),
        state: ToolState::Completed { input: json!({}), result },
        hosted: false,
        metadata: None,
    };
    let finish = |reason: &str, input| PartKind::StepFinish {
        reason: reason.to_owned().into(),
        snapshot: None,
        tokens: Tokens { input, ..Tokens::default() },
        cost: Money::ZERO,
    };
    let start = || PartKind::StepStart { snapshot: None };
    let kinds = [start(), tool, finish("tool-calls", 5), start(), PartKind::text("done"), finish("stop", 7)];
    let parts = kinds.into_iter().enumerate().map(|(at, kind)| part(&format!("prt_s{at}"), kind)).collect();
    let turn = EntryId::from("msg_t");
    grow(
        &mut tree,
        vec![
            added(
                "msg_t",
                leaf.as_ref(),
                Body::Assistant(Assistant { model: model(), ..Assistant::default() }),
                parts,
            ),
            added(
                "msg_u",
                Some(&turn),
                Body::User(User::default()),
                vec![part("prt_u", PartKind::text("next"))],
            ),
        ],
    );
    let lines = super::values(&pi::write(&tree, None));
    let lines: Vec<_> =
        lines.iter().skip_while(|line| line["message"]["content"][0]["type"] != "toolCall").collect();
    let shape: Vec<_> = lines
        .iter()
        .map(|line| {
            (
                line["message"]["role"].as_str(),
                line["message"]["usage"]["input"].as_u64(),
                line["message"]["stopReason"].as_str(),
            )
        })
        .collect();
    assert_eq!(
        shape,
        [
            (Some("assistant"), Some(5), Some("toolUse")),
            (Some("toolResult"), None, None),
            (Some("assistant"), Some(7), Some("stop")),
            (Some("user"), None, None),
            (None, None, None),
        ]
    );
    for pair in lines.windows(2) {
        assert_eq!(pair[1]["parentId"], pair[0]["id"], "a chain");
    }
}

//! Cases that no recording has: branches, strange places, strange values.

use everturn_interop::opencode::v1::{self, V1Message};
use everturn_interop::opencode::{Imported, export};
use everturn_model::derived_ids::DerivedIds;
use everturn_model::entry::{Assistant, Body, Compaction, Shell, User};
use everturn_model::event::{Cause, Record, Seed};
use everturn_model::finish::Trigger;
use everturn_model::part::PartKind;
use everturn_model::session::ForkOrigin;
use everturn_model::tool::{Outcome, ToolResult, ToolState};
use everturn_model::tree::Node;
use everturn_model::{Entry, EntryId, Event, EventId, Part, PartId, Session, SessionId, Tree, fold, path};
use serde_json::{Value, json};

use super::data::{folded, from_stored};

fn session() -> Session {
    Session::new(SessionId::new("ses_1"), "global", "/", "t", "1", 1)
}

fn entry(id: &str, parent: Option<&str>, body: Body) -> Entry {
    Entry::new(EntryId::new(id), parent.map(EntryId::new), 5, body)
}

fn turn(id: &str, parent: Option<&str>, completed: Option<i64>) -> Node {
    let body = Body::Assistant(Assistant { completed, ..Assistant::default() });
    let state = ToolState::Running { input: json!({"a": 1}), title: None, metadata: None, start: 6 };
    let (call, tool) = ("c".to_owned(), "bash".to_owned());
    let tool = PartKind::Tool { call, tool, state, hosted: false, metadata: None };
    Node::new(entry(id, parent, body), vec![Part::new(PartId::new(format!("prt_{id}")), tool)])
}

fn result(id: &str, parent: &str, outcome: Outcome, output: &str) -> Node {
    let mut result = Box::new(ToolResult::new("c", "bash", outcome, output));
    result.end = Some(8);
    Node::new(entry(id, Some(parent), Body::ToolResult { result }), Vec::new())
}

fn bare(id: &str, parent: &str, body: Body) -> Node {
    Node::new(entry(id, Some(parent), body), Vec::new())
}

fn tree(nodes: Vec<Node>, leaf: &str) -> Tree {
    let seed = Seed { nodes, leaf: Some(EntryId::new(leaf)), ..Seed::default() };
    folded(&Imported { project: None, session: session(), seed })
}

fn shown(tree: &Tree) -> Vec<V1Message> {
    let way = path::to(tree, tree.session.leaf.as_ref());
    let messages = v1::messages(&tree.session.id, &way, &tree.inbox);
    let written = serde_json::to_string(&v1::conversation(&tree.session.id, &way, &tree.inbox)).unwrap();
    assert_eq!(from_stored(&tree.session.id, &way, &tree.inbox), written, "read from what is stored");
    messages
}

fn state(tree: &Tree) -> Value {
    shown(tree).last().unwrap().parts[0]["state"].clone()
}

#[test]
fn a_result_counts_only_on_its_own_branch() {
    let nodes = vec![
        turn("msg_1", None, Some(9)),
        result("msg_2", "msg_1", Outcome::Completed, "yes"),
        bare("msg_3", "msg_1", Body::Custom { custom_type: "x".to_owned(), data: None }),
    ];
    assert_eq!(
        state(&tree(nodes.clone(), "msg_2")),
        json!({"status": "completed", "input": {"a": 1}, "output": "yes", "title": "", "metadata": {},
            "time": {"start": 6, "end": 8}})
    );
    assert_eq!(
        state(&tree(nodes, "msg_3")),
        json!({"status": "error", "input": {"a": 1}, "error": "The call was interrupted before it ended",
            "time": {"start": 6, "end": 9}})
    );
    assert_eq!(
        state(&tree(vec![turn("msg_1", None, None)], "msg_1")),
        json!({"status": "running", "input": {"a": 1}, "time": {"start": 6}})
    );
}

#[test]
fn what_stands_between_a_call_and_its_result_does_not_matter() {
    let nodes = vec![
        turn("msg_1", None, Some(9)),
        bare("msg_2", "msg_1", Body::Label { target: None, label: Some("here".to_owned()) }),
        bare("msg_3", "msg_2", Body::Custom { custom_type: "x".to_owned(), data: None }),
        result("msg_4", "msg_3", Outcome::Unknown, "no idea"),
    ];
    let tree = tree(nodes, "msg_4");
    assert_eq!(shown(&tree).len(), 1);
    assert_eq!(
        state(&tree),
        json!({"status": "error", "input": {"a": 1}, "error": "no idea",
            "metadata": {"everturn": {"outcome": "unknown"}}, "time": {"start": 6, "end": 8}})
    );
}

#[test]
fn a_repeated_call_id_belongs_to_the_nearest_turn() {
    let nodes = vec![
        turn("msg_1", None, Some(9)),
        result("msg_2", "msg_1", Outcome::Completed, "first"),
        turn("msg_3", Some("msg_2"), Some(9)),
        result("msg_4", "msg_3", Outcome::Completed, "second"),
    ];
    let outputs: Vec<_> = shown(&tree(nodes, "msg_4"))
        .iter()
        .map(|message| message.parts[0]["state"]["output"].clone())
        .collect();
    assert_eq!(outputs, ["first", "second"]);
}

#[test]
fn each_root_has_its_own_conversation() {
    let user = |id: &str| {
        let part = Part::new(PartId::new(format!("prt_{id}")), PartKind::text(id));
        Node::new(entry(id, None, Body::User(User::default())), vec![part])
    };
    let nodes = vec![user("msg_1"), user("msg_2")];
    let texts = |leaf: &str| {
        let list = shown(&tree(nodes.clone(), leaf));
        list.iter().map(|message| message.parts[0]["text"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!((texts("msg_1"), texts("msg_2")), (vec!["msg_1".to_owned()], vec!["msg_2".to_owned()]));
}

#[test]
fn entries_of_other_programs_show_as_messages() {
    let nodes = vec![
        Node::new(
            entry(
                "msg_1",
                None,
                Body::Synthetic { text: Some("hi".to_owned()), origin_type: None, display: None },
            ),
            Vec::new(),
        ),
        bare("msg_2", "msg_1", Body::BranchSummary { summary: "left".to_owned(), from: None }),
        bare(
            "msg_3",
            "msg_2",
            Body::Shell(Shell {
                command: "ls".to_owned(),
                output: Some("a\n".to_owned()),
                exit: Some(0),
                ..Shell::default()
            }),
        ),
        bare(
            "msg_4",
            "msg_3",
            Body::Compaction(Compaction { summary: Some("all".to_owned()), ..Compaction::default() }),
        ),
        bare("msg_5", "msg_4", Body::System { text: "unseen".to_owned(), snapshot: None }),
    ];
    let list = shown(&tree(nodes, "msg_5"));
    let told = list.iter().map(|message| {
        let part = &message.parts[0];
        let text = part.get("text").unwrap_or(&part["type"]).as_str().unwrap();
        let word = |key: &str| message.info[key].as_str().unwrap_or_default().to_owned();
        (word("id"), word("role"), word("parentID"), part["id"].as_str().unwrap().to_owned(), text.to_owned())
    });
    let expected = [
        ("msg_1", "user", "", "prt_10", "hi"),
        ("msg_2", "user", "", "prt_20", "left"),
        ("msg_3", "user", "", "prt_30", "The following tool was executed by the user"),
        ("msg_3z", "assistant", "msg_3", "prt_31", "tool"),
        ("msg_4", "user", "", "prt_40", "compaction"),
        ("msg_4z", "assistant", "msg_4", "prt_41", "all"),
    ];
    let own = |(a, b, c, d, e): (&str, &str, &str, &str, &str)| {
        (a.to_owned(), b.to_owned(), c.to_owned(), d.to_owned(), e.to_owned())
    };
    assert_eq!(told.collect::<Vec<_>>(), expected.map(own));
    assert_eq!(list[5].info["summary"], true);
    assert_eq!(list[3].parts[0]["state"]["metadata"], json!({"output": "a\n", "exit": 0}));
}

#[test]
fn a_page_is_cut_before_anything_is_printed() {
    let nodes: Vec<_> = ["msg_1", "msg_2", "msg_3"]
        .iter()
        .map(|id| Node::new(entry(id, None, Body::User(User::default())), Vec::new()))
        .collect();
    let way: Vec<_> = nodes.iter().collect();
    let id = SessionId::new("ses_1");
    let mut conversation = v1::conversation(&id, &way, &[]);
    assert_eq!(conversation.ids().collect::<Vec<_>>(), ["msg_1", "msg_2", "msg_3"]);
    conversation.keep(1..2);
    assert_eq!((conversation.len(), conversation.is_empty()), (1, false));
    assert_eq!(conversation.messages(), v1::messages(&id, &way, &[])[1..2]);
    conversation.keep(7..9);
    assert!(conversation.is_empty());
}

#[test]
fn hidden_entries_and_parts_are_left_out() {
    let mut first = turn("msg_1", None, None);
    first.parts.push(Part { hidden: true, ..Part::new(PartId::new("prt_h"), PartKind::text("secret")) });
    let mut second = turn("msg_2", Some("msg_1"), None);
    second.entry.hidden = true;
    let list = shown(&tree(vec![first, second], "msg_2"));
    assert_eq!(list.iter().map(|message| message.parts.len()).collect::<Vec<_>>(), [1]);
}

fn check(messages: Value) {
    let messages: Vec<V1Message> = serde_json::from_value(messages).unwrap();
    let id = SessionId::new("ses_1");
    let seed = v1::read_messages(&id, messages.clone(), &mut DerivedIds::new("ses_1"));
    let tree = folded(&Imported { project: None, session: session(), seed });
    assert_eq!(shown(&tree), messages);
}

#[test]
fn nonsense_survives() {
    check(json!([{"info": null}, {"info": "text", "parts": [null, 3, "x", [], {}]}]));
    check(
        json!([{"info": {"role": "system", "id": "msg_1", "text": "x"}, "parts": [{"type": "text", "text": "y"}]}]),
    );
    check(
        json!([{"info": {"role": "user"}, "parts": [{"type": 3}, {"type": "text"}, {"type": "text", "text": 3}]}]),
    );
    check(
        json!([{"info": {"role": "assistant", "cost": "x", "tokens": [], "time": "noon", "path": 3, "error": 1}}]),
    );
    check(
        json!([{"info": {"role": "assistant", "id": 5, "cost": -1, "tokens": {"input": -1}, "modelID": "m"}}]),
    );
    check(
        json!([{"info": {"role": "assistant", "id": "msg_1", "cost": 1e300, "time": {"created": 1, "completed": null}}}]),
    );
}

#[test]
fn repeated_ids_survive() {
    let part = json!({"id": "prt_1", "type": "text", "text": "x"});
    let message =
        json!({"info": {"role": "user", "id": "msg_1", "time": {"created": 1}}, "parts": [part, part]});
    check(json!([message, message, message]));
}

#[test]
fn calls_with_one_id_in_one_turn_keep_their_own_ends() {
    let tool = |output: &str| {
        json!({"type": "tool", "callID": "c", "tool": "bash", "state": {"status": "completed", "input": {},
            "output": output, "title": "", "metadata": {}, "time": {"start": 1, "end": 2}}})
    };
    let info = json!({"role": "assistant", "id": "msg_1", "time": {"created": 1, "completed": 2}});
    check(json!([{"info": info, "parts": [tool("one"), tool("two")]}]));
}

#[test]
fn order_is_by_time_because_ids_wrap() {
    let message = |id: &str, time: i64| json!({"info": {"role": "user", "id": id, "time": {"created": time}}, "parts": []});
    check(json!([
        message("msg_ba96934a1001WjD5LglrOPDmgC", 1_768_073_802_913_i64),
        message("msg_1dd26b678001xsgWsFmC5jmwSd", 1_794_711_664_248_i64),
        message("msg_1dd26b678002xsgWsFmC5jmwSd", 1_794_711_664_248_i64)
    ]));
    // Without a time, the id says it.
    let late = json!({"info": {"role": "user", "id": "msg_1dd26b678001xsgWsFmC5jmwSd"}, "parts": []});
    check(json!([message("msg_ba96934a1001WjD5LglrOPDmgC", 1_768_073_802_913_i64), late]));
}

#[test]
fn pairs_are_one_entry_and_calls_have_results_of_their_own() {
    let messages = json!([
        {"info": {"role": "user", "id": "msg_1", "time": {"created": 1}},
            "parts": [{"id": "prt_1", "type": "compaction", "auto": true, "tail_start_id": "msg_0"}]},
        {"info": {"role": "assistant", "id": "msg_2", "parentID": "msg_1", "summary": true, "time": {"created": 2}},
            "parts": [{"id": "prt_2", "type": "text", "text": "sum"}]},
        {"info": {"role": "user", "id": "msg_3", "time": {"created": 3}}, "parts": [{"id": "prt_3", "type": "text",
            "text": "The following tool was executed by the user", "synthetic": true}]},
        {"info": {"role": "assistant", "id": "msg_4", "parentID": "msg_3", "time": {"created": 4}}, "parts": [
            {"id": "prt_4", "type": "tool", "callID": "c", "tool": "bash", "state": {"status": "completed",
                "input": {"command": "ls"}, "output": "a", "metadata": {"exit": 3}, "time": {"start": 4, "end": 5}}}]},
        {"info": {"role": "assistant", "id": "msg_5", "parentID": "msg_3", "time": {"created": 6}}, "parts": [
            {"id": "prt_5", "type": "tool", "callID": "d", "tool": "bash", "state": {"status": "error",
                "input": {}, "error": "no", "time": {"start": 6, "end": 7}}}]}
    ]);
    check(messages.clone());
    let messages = serde_json::from_value(messages).unwrap();
    let seed = v1::read_messages(&SessionId::new("ses_1"), messages, &mut DerivedIds::new("ses_1"));
    let kinds: Vec<_> = seed.nodes.iter().map(|node| node.entry.body.kind()).collect();
    assert_eq!(kinds, ["compaction", "shell", "assistant", "tool_result"]);
    let Body::Compaction(compaction) = &seed.nodes[0].entry.body else { panic!() };
    assert_eq!(
        (compaction.summary.as_deref(), compaction.reason.as_ref(), compaction.first_kept.as_ref()),
        (Some("sum"), Some(&Trigger::Auto), Some(&EntryId::new("msg_0")))
    );
    let Body::Shell(shell) = &seed.nodes[1].entry.body else { panic!() };
    assert_eq!((shell.command.as_str(), shell.output.as_deref(), shell.exit), ("ls", Some("a"), Some(3)));
}

#[test]
fn what_the_source_said_of_a_session_holds_until_the_session_changes() {
    let value = json!({"info": {"id": "ses_1", "title": "old", "time": {"created": 1, "updated": 2, "archived": null}},
        "messages": [{"info": {"role": "assistant", "id": "msg_1", "time": {"created": 1}, "cost": 0.5,
            "providerID": "p", "modelID": "m"}, "parts": []}]});
    let mut tree = folded(&export::read_value(value.clone()).unwrap());
    assert_eq!(v1::session_info(&tree.session), value["info"]);
    let step = |seq, event| Record {
        id: EventId::new("evt_9"),
        session: SessionId::new("ses_1"),
        seq,
        time: 9,
        event,
        subject: None,
    };
    let leaf = Event::LeafMoved { from: None, to: None, cause: Cause::Branch };
    fold::apply(&mut tree, &step(2, leaf)).unwrap();
    let info = v1::session_info(&tree.session);
    assert_eq!((&info["cost"], info.get("model").is_some()), (&json!(0), false));
}

#[test]
fn a_fork_tells_every_message_it_copied() {
    let nodes = vec![turn("msg_1", None, Some(9)), result("msg_2", "msg_1", Outcome::Completed, "yes")];
    let seed = Seed { nodes, leaf: Some(EntryId::new("msg_2")), ..Seed::default() };
    let origin = ForkOrigin { session: SessionId::new("ses_0"), entry: None };
    let event = Event::SessionForked { origin, seed: Box::new(seed) };
    let (id, session_id) = (EventId::new("evt_1"), SessionId::new("ses_1"));
    let record = Record { id, session: session_id, seq: 1, time: 7, event, subject: None };
    let mut tree = Tree::new(session());
    fold::apply(&mut tree, &record).unwrap();
    let list = v1::events(None, &record, &tree);
    let kinds: Vec<_> = list.iter().map(|event| event.kind).collect();
    assert_eq!(kinds, ["message.updated", "message.part.updated"]);
    assert_eq!(list[1].properties["part"]["state"]["output"], "yes");
}

#[test]
fn a_branch_tells_what_left_what_joined_and_which_call_lost_its_result() {
    let user =
        |id: &str, parent: &str| Node::new(entry(id, Some(parent), Body::User(User::default())), Vec::new());
    let nodes = vec![
        turn("msg_1", None, Some(9)),
        result("msg_2", "msg_1", Outcome::Completed, "yes"),
        user("msg_3", "msg_2"),
        user("msg_4", "msg_1"),
    ];
    let mut tree = tree(nodes, "msg_3");
    let event = Event::LeafMoved {
        from: Some(EntryId::new("msg_3")),
        to: Some(EntryId::new("msg_4")),
        cause: Cause::Branch,
    };
    let (id, session_id) = (EventId::new("evt_2"), SessionId::new("ses_1"));
    let record = Record { id, session: session_id, seq: 2, time: 7, event, subject: None };
    fold::apply(&mut tree, &record).unwrap();
    let told = v1::events(None, &record, &tree).into_iter().map(|event| {
        let body = event.properties;
        let what = [&body["messageID"], &body["part"]["state"]["status"], &body["info"]["id"]];
        (event.kind, what.into_iter().find_map(Value::as_str).unwrap_or_default().to_owned())
    });
    assert_eq!(
        told.collect::<Vec<_>>(),
        [
            ("message.removed", "msg_3".to_owned()),
            ("message.part.updated", "error".to_owned()),
            ("message.updated", "msg_4".to_owned()),
            ("session.updated", "ses_1".to_owned())
        ]
    );
}

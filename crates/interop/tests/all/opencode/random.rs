//! Random messages, with fields and values that nobody expects, survive the tree.

use everturn_interop::opencode::Imported;
use everturn_interop::opencode::v1::{self, V1Message};
use everturn_model::derived_ids::DerivedIds;
use everturn_model::{Map, Session, SessionId, path};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::data::{folded, from_stored};

fn odd() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        Just(json!(0.5)),
        "[a-z]{0,4}".prop_map(Value::from),
        Just(json!([1, "x", null])),
        Just(json!({"deep": {"er": [3]}})),
        Just(json!({})),
    ]
}

/// Takes some fields away, makes some odd, and adds some.
fn spoilt(base: impl Strategy<Value = Value>) -> impl Strategy<Value = Value> {
    let spoil = prop::collection::vec((any::<prop::sample::Index>(), prop::option::of(odd())), 0..3);
    let add = prop::collection::vec(("(new|old|[a-z]{1,3})", odd()), 0..2);
    (base, spoil, add).prop_map(|(mut value, spoil, add)| {
        let map = value.as_object_mut().unwrap();
        for (at, with) in spoil {
            let key = at.get(&map.keys().cloned().collect::<Vec<_>>()).clone();
            match with {
                _ if key == "id" || key == "time" => {}
                Some(with) => drop(map.insert(key, with)),
                None => drop(map.shift_remove(&key)),
            }
            if map.is_empty() {
                break;
            }
        }
        map.extend(add);
        value
    })
}

fn tokens() -> impl Strategy<Value = Value> {
    let exact =
        (any::<u32>(), any::<u16>(), prop::option::of(any::<u32>())).prop_map(|(input, output, total)| {
            let mut map = Map::new();
            map.extend(total.map(|total| ("total".to_owned(), total.into())));
            map.insert("input".to_owned(), input.into());
            map.insert("output".to_owned(), output.into());
            map.insert("reasoning".to_owned(), 0.into());
            map.insert("cache".to_owned(), json!({"read": 1, "write": 2}));
            Value::from(map)
        });
    prop_oneof![3 => exact.clone(), 1 => spoilt(exact)]
}

fn state() -> impl Strategy<Value = Value> {
    let time = || json!({"start": 10, "end": 20});
    let base = prop_oneof![
        Just(json!({"status": "pending", "input": {}, "raw": "{\"a"})),
        Just(json!({"status": "running", "input": {"command": "ls"}, "title": "t", "time": {"start": 10}})),
        Just(json!({"status": "completed", "input": {"command": "ls"}, "output": "a\n", "title": "ls",
            "metadata": {"exit": 0}, "time": time()})),
        Just(json!({"status": "completed", "input": {"command": "ls"}, "output": "", "title": "",
            "metadata": {}, "time": {"start": 1, "end": 2, "compacted": 3},
            "attachments": [{"type": "file", "mime": "image/png", "url": "data:,x"},
                {"id": "prt_a", "sessionID": "ses_1", "messageID": "msg_q", "type": "file", "mime": "a/b", "url": "u"}]})),
        Just(json!({"status": "error", "input": {}, "error": "no", "time": time()})),
        Just(json!({"status": "error", "input": {}, "error": "?",
            "metadata": {"everturn": {"outcome": "unknown"}, "x": 1}, "time": time()})),
    ];
    prop_oneof![2 => base.clone(), 1 => spoilt(base)]
}

fn tool() -> impl Strategy<Value = Value> {
    let metadata = prop::option::of(prop_oneof![
        Just(json!({"providerExecuted": true})),
        Just(json!({"openai": {"itemId": "x"}})),
    ]);
    ("call_[ab]", "(bash|read)", state(), metadata).prop_map(|(call, tool, state, metadata)| {
        let mut value = json!({"type": "tool", "callID": call, "tool": tool, "state": state});
        if let Some(metadata) = metadata {
            value["metadata"] = metadata;
        }
        value
    })
}

fn body() -> impl Strategy<Value = Value> {
    let shell = "The following tool was executed by the user";
    let plain = prop_oneof![
        "[ -~]{0,9}".prop_map(|text| json!({"type": "text", "text": text})),
        Just(json!({"type": "text", "text": shell, "synthetic": true})),
        Just(json!({"type": "text", "text": "", "time": {"start": 1, "end": 2}, "ignored": true})),
        Just(json!({"type": "reasoning", "text": "hm", "time": {"start": 1}, "metadata": {"a": {"s": "x"}}})),
        Just(
            json!({"type": "file", "mime": "text/plain", "filename": "a", "url": "file:///a", "source": {"x": 1}})
        ),
        Just(json!({"type": "snapshot", "snapshot": "abc"})),
        Just(json!({"type": "patch", "hash": "abc", "files": ["a", "b"]})),
        Just(json!({"type": "agent", "name": "plan", "source": {"value": "@plan", "start": 0, "end": 5}})),
        Just(json!({"type": "compaction", "auto": true, "overflow": false})),
        Just(json!({"type": "compaction", "auto": false})),
        Just(json!({"type": "subtask", "prompt": "p", "description": "d", "agent": "a",
            "model": {"providerID": "x", "modelID": "y"}})),
        Just(json!({"type": "retry", "attempt": 2, "error": {"name": "APIError"}, "time": {"created": 4}})),
        Just(json!({"type": "step-start", "snapshot": "abc"})),
        tokens().prop_map(
            |tokens| json!({"type": "step-finish", "reason": "stop", "cost": 0.25, "tokens": tokens})
        ),
        Just(json!({"type": "hologram", "beam": 3})),
    ];
    prop_oneof![3 => plain.clone(), 2 => tool(), 1 => spoilt(plain), 1 => spoilt(tool())]
}

fn info() -> impl Strategy<Value = Value> {
    let user = prop_oneof![
        Just(json!({"role": "user", "agent": "build", "model": {"providerID": "p", "modelID": "m"}})),
        Just(
            json!({"role": "user", "agent": "b", "model": {"providerID": "p", "modelID": "m", "variant": "high"},
            "system": "s", "tools": {"bash": false},
            "summary": {"title": "t", "diffs": [{"file": "a", "additions": 1, "deletions": 0, "before": "", "after": "x"}]}})
        ),
    ];
    let assistant = (tokens(), any::<bool>(), any::<bool>()).prop_map(|(tokens, summary, failed)| {
        let mut value = json!({"role": "assistant", "parentID": "", "modelID": "m", "providerID": "p",
            "mode": "build", "agent": "build", "path": {"cwd": "/a", "root": "/"}, "cost": 0.028599,
            "tokens": tokens, "finish": "stop"});
        if summary {
            value["summary"] = true.into();
        }
        if failed {
            value["error"] = json!({"name": "APIError", "data": {"message": "no"}});
        }
        value
    });
    let base = prop_oneof![user, assistant];
    prop_oneof![3 => base.clone(), 1 => spoilt(base)]
}

fn messages() -> impl Strategy<Value = Vec<V1Message>> {
    let one = (info(), prop::collection::vec((body(), 0..40u8), 0..4), 0..3i64, any::<bool>(), any::<bool>());
    prop::collection::vec(one, 0..7).prop_map(|list| {
        let mut time = 1_000;
        let mut last = String::new();
        let place = list.into_iter().enumerate().map(|(at, (mut info, parts, later, done, linked))| {
            time += later;
            let id = format!("msg_{at}");
            info["id"] = id.as_str().into();
            if at % 5 != 4 {
                info["sessionID"] = "ses_1".into();
            }
            info["time"] = json!({"created": time});
            if info["role"] == "assistant" {
                if done {
                    info["time"]["completed"] = (time + 1).into();
                }
                if linked && info.get("parentID").is_some() {
                    info["parentID"] = last.as_str().into();
                }
            }
            last.clone_from(&id);
            let parts = parts.into_iter().map(|(mut part, number)| {
                if number != 0 {
                    part["id"] = format!("prt_{number}").into();
                    part["sessionID"] = "ses_1".into();
                }
                if number != 1 {
                    part["messageID"] = id.as_str().into();
                }
                part
            });
            V1Message { parts: parts.collect(), info }
        });
        place.collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1_000) })]
    #[test]
    fn any_messages_survive_the_tree(messages in messages()) {
        let id = SessionId::new("ses_1");
        let session = Session::new(id.clone(), "global", "/", "t", "1", 1_000);
        let seed = v1::read_messages(&id, messages.clone(), &mut DerivedIds::new("ses_1"));
        let tree = folded(&Imported { project: None, session, seed });
        let way = path::to(&tree, tree.session.leaf.as_ref());
        let written = serde_json::to_string(&v1::conversation(&id, &way, &tree.inbox)).unwrap();
        let read: Vec<V1Message> = serde_json::from_str(&written).unwrap();
        prop_assert_eq!(&read, &messages);
        prop_assert_eq!(v1::messages(&id, &way, &tree.inbox), messages);
        prop_assert_eq!(from_stored(&id, &way, &tree.inbox), written);
    }
}

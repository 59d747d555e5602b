//! Random histories: whatever pi could have written comes back, and the context is what pi's rules give for the lines.

use std::collections::HashMap;

use everturn_interop::pi::{self, PathEnd, PiView, Program};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::{Map, Value, json};

use super::tree;

/// Any JSON, with keys that may be pi's own.
fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (-1e25..1e25).prop_map(Value::from),
        (-1e-3..1e-3).prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            vec((key(), inner), 0..4).prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

fn key() -> impl Strategy<Value = String> {
    prop_oneof![
        select(vec!["details", "usage", "cost", "timestamp", "content", "label", "summary", "0", "17"])
            .prop_map(str::to_owned),
        "[a-zé]{1,3}",
        any::<String>(),
    ]
}

/// Fields that nobody expects.
fn extras() -> impl Strategy<Value = Vec<(String, Value)>> {
    let named = select(vec![
        "api",
        "responseId",
        "attribution",
        "intent",
        "fromHook",
        "fromExtension",
        "x",
        "é",
        "7",
    ]);
    prop_oneof![3 => Just(Vec::new()), 1 => vec((named.prop_map(str::to_owned), value()), 0..3)]
}

/// An object from expected fields and unexpected ones; now and then a field is of another type, missing or moved.
fn object(fields: Vec<(&'static str, BoxedStrategy<Value>)>) -> BoxedStrategy<Value> {
    let field = |(name, usual): (&'static str, BoxedStrategy<Value>)| {
        let odd = prop_oneof![value().prop_map(Some), Just(None)];
        let value = prop_oneof![40 => usual.prop_map(Some), 1 => odd];
        value.prop_map(move |value| (name.to_owned(), value)).boxed()
    };
    let fields: Vec<_> = fields.into_iter().map(field).collect();
    let ordered = (fields, extras()).prop_map(|(fields, extras)| {
        let fields = fields.into_iter().filter_map(|(name, value)| Some((name, value?)));
        fields.chain(extras).collect::<Vec<_>>()
    });
    let ordered = ordered.boxed();
    let moved = ordered.clone().prop_shuffle();
    prop_oneof![8 => ordered, 1 => moved]
        .prop_map(|fields| Value::Object(fields.into_iter().collect()))
        .boxed()
}

fn text() -> BoxedStrategy<Value> {
    prop_oneof![any::<String>(), "[a-z ]{0,12}", Just("😀\u{2028}\u{0}\"\\".to_owned())]
        .prop_map(Value::from)
        .boxed()
}

fn one(value: Value) -> BoxedStrategy<Value> {
    Just(value).boxed()
}

fn number() -> BoxedStrategy<Value> {
    prop_oneof![(0_u64..1_000_000).prop_map(Value::from), (0.0..1.0).prop_map(Value::from)].boxed()
}

fn block() -> BoxedStrategy<Value> {
    prop_oneof![
        4 => object(vec![("type", one(json!("text"))), ("text", text())]),
        1 => object(vec![("type", one(json!("thinking"))), ("thinking", text()), ("thinkingSignature", text())]),
        2 => object(vec![
            ("type", one(json!("toolCall"))),
            ("id", select(vec!["c1", "c2", "c3"]).prop_map(Value::from).boxed()),
            ("name", text()),
            ("arguments", value().boxed()),
        ]),
        1 => object(vec![
            ("type", one(json!("image"))),
            ("data", select(vec!["AAAA", "", "blob:sha256:00ff"]).prop_map(Value::from).boxed()),
            ("mimeType", select(vec!["image/png", "text/plain", ""]).prop_map(Value::from).boxed()),
        ]),
        1 => value(),
    ]
    .boxed()
}

fn content() -> BoxedStrategy<Value> {
    prop_oneof![2 => text(), 5 => vec(block(), 0..4).prop_map(Value::from)].boxed()
}

fn usage() -> BoxedStrategy<Value> {
    let names = ["input", "output", "cacheRead", "cacheWrite"];
    let mut cost: Vec<_> = names.iter().map(|name| (*name, number())).collect();
    cost.push(("total", number()));
    let mut usage: Vec<_> = names.iter().map(|name| (*name, number())).collect();
    usage.extend([("totalTokens", number()), ("cost", object(cost))]);
    object(usage)
}

fn message() -> BoxedStrategy<Value> {
    let role = |role: &str| ("role", one(json!(role)));
    let time = ("timestamp", (0_i64..2_000_000_000_000).prop_map(Value::from).boxed());
    let truth = || any::<bool>().prop_map(Value::from).boxed();
    prop_oneof![
        4 => object(vec![role("user"), ("content", content()), time.clone()]),
        6 => object(vec![
            role("assistant"),
            ("content", content()),
            ("api", text()),
            ("provider", text()),
            ("model", text()),
            ("usage", usage()),
            ("stopReason", select(vec!["stop", "toolUse", "length", "error", "aborted", "tool-calls"]).prop_map(Value::from).boxed()),
            time.clone(),
        ]),
        3 => object(vec![
            role("toolResult"),
            ("toolCallId", select(vec!["c1", "c2", "c3"]).prop_map(Value::from).boxed()),
            ("toolName", text()),
            ("content", content()),
            ("details", value().boxed()),
            ("isError", truth()),
            time.clone(),
        ]),
        1 => object(vec![
            role("bashExecution"), ("command", text()), ("output", text()), ("exitCode", number()),
            ("cancelled", truth()), ("truncated", truth()), time.clone(),
        ]),
        1 => object(vec![role("custom"), ("customType", text()), ("content", content()), ("display", truth()), time.clone()]),
        1 => object(vec![role("branchSummary"), ("summary", text()), ("fromId", text()), time.clone()]),
        1 => object(vec![role("compactionSummary"), ("summary", text()), ("tokensBefore", number()), time.clone()]),
        1 => object(vec![role("developer"), ("content", content()), time.clone()]),
        1 => object(vec![role("pythonExecution"), ("code", text()), time]),
        1 => value(),
    ]
    .boxed()
}

/// What an entry says beside its place in the tree; `@` stands for the id of another entry.
fn entry() -> BoxedStrategy<Value> {
    let kind = |kind: &str| ("type", one(json!(kind)));
    let other = || one(json!("@"));
    prop_oneof![
        12 => object(vec![kind("message"), ("message", message())]),
        1 => object(vec![kind("thinking_level_change"), ("thinkingLevel", text())]),
        1 => object(vec![kind("model_change"), ("provider", text()), ("modelId", text())]),
        1 => object(vec![kind("model_change"), ("model", select(vec!["p/m", "p/m/n", "m"]).prop_map(Value::from).boxed())]),
        1 => object(vec![kind("compaction"), ("summary", text()), ("firstKeptEntryId", other()), ("tokensBefore", number())]),
        1 => object(vec![kind("branch_summary"), ("fromId", other()), ("summary", text())]),
        1 => object(vec![kind("custom"), ("customType", text()), ("data", value().boxed())]),
        1 => object(vec![
            kind("custom_message"), ("customType", text()), ("content", content()), ("display", any::<bool>().prop_map(Value::from).boxed()),
        ]),
        2 => object(vec![kind("label"), ("targetId", other()), ("label", text())]),
        1 => object(vec![kind("session_info"), ("name", text())]),
        1 => object(vec![kind("title_change"), ("title", text()), ("source", text())]),
        1 => object(vec![kind("ttsr_injection"), ("injectedRules", one(json!(["r"])))]),
        1 => object(vec![kind("future"), ("payload", value().boxed())]),
    ]
    .boxed()
}

/// A history as values: a header, then a tree of entries.
fn history() -> impl Strategy<Value = Vec<Value>> {
    let place = (option::weighted(0.95, any::<Index>()), any::<Index>(), 0_i64..4_000_000, any::<bool>());
    vec((entry(), place), 0..24).prop_map(|entries| {
        let mut values = vec![json!({"type": "session", "version": 3, "id": "a-b", "timestamp": "2026-01-01T00:00:00.000Z", "cwd": "/x"})];
        let mut ids: Vec<String> = Vec::new();
        for (at, (mut entry, (parent, other, time, first))) in entries.into_iter().enumerate() {
            let id = format!("{:08x}", at * 7919 + 1);
            let parent = parent.filter(|_| !ids.is_empty()).map(|parent| ids[parent.index(ids.len())].clone());
            let other = if ids.is_empty() { id.clone() } else { ids[other.index(ids.len())].clone() };
            let map = entry.as_object_mut().unwrap();
            for value in map.values_mut().filter(|value| **value == json!("@")) {
                *value = other.clone().into();
            }
            let moment = jiff::Timestamp::from_millisecond(1_767_225_600_000 + time).unwrap();
            let mut base = Map::new();
            base.insert("id".to_owned(), id.clone().into());
            base.insert("parentId".to_owned(), json!(parent));
            base.insert("timestamp".to_owned(), format!("{moment:.3}").into());
            let mut fields = std::mem::take(map);
            for name in ["id", "parentId", "timestamp"] {
                fields.remove(name);
            }
            if first {
                base.append(&mut fields);
                *map = base;
            } else {
                fields.append(&mut base);
                *map = fields;
            }
            values.push(entry);
            ids.push(id);
        }
        values
    })
}

/// Lines as a program with a taste of its own would write them, so that rewriting one shows.
fn spaced(value: &Value) -> String {
    match value {
        Value::Object(map) => {
            let fields: Vec<String> =
                map.iter().map(|(name, value)| format!("{} : {}", json!(name), spaced(value))).collect();
            format!("{{ {} }}", fields.join(" ,"))
        }
        other => other.to_string(),
    }
}

fn text_of(values: &[Value]) -> String {
    values.iter().map(|value| spaced(value) + "\n").collect()
}

/// What pi's rules give for the lines of a sound history: an independent and simple reading of them.
fn expected_context(values: &[Value], leaf: &Value) -> Value {
    let by_id: HashMap<&str, &Value> =
        values.iter().skip(1).map(|value| (value["id"].as_str().unwrap(), value)).collect();
    let mut path = Vec::new();
    let mut next = Some(leaf);
    while let Some(entry) = next {
        path.insert(0, entry);
        next = entry["parentId"].as_str().map(|id| by_id[id]);
    }
    let moment = |entry: &Value| {
        entry["timestamp"].as_str().unwrap().parse::<jiff::Timestamp>().unwrap().as_millisecond()
    };
    let pick = |from: &Value, role: Option<&str>, names: &[(&str, &str)], time: Option<i64>| {
        let mut map = Map::new();
        map.extend(role.map(|role| ("role".to_owned(), json!(role))));
        for (name, new) in names {
            map.extend(from.get(name).map(|value| ((*new).to_owned(), value.clone())));
        }
        map.extend(time.map(|time| ("timestamp".to_owned(), json!(time))));
        Value::Object(map)
    };
    let (mut thinking, mut model, mut cut) = (Some(json!("off")), Value::Null, None);
    for (at, entry) in path.iter().enumerate() {
        match entry["type"].as_str().unwrap_or_default() {
            "thinking_level_change" => thinking = entry.get("thinkingLevel").cloned(),
            "model_change" => {
                model = pick(entry, None, &[("provider", "provider"), ("modelId", "modelId")], None);
            }
            "message" if entry["message"]["role"] == "assistant" => {
                model =
                    pick(&entry["message"], None, &[("provider", "provider"), ("model", "modelId")], None);
            }
            "compaction" => cut = Some(at),
            _ => {}
        }
    }
    let message = |entry: &&Value| match entry["type"].as_str().unwrap_or_default() {
        "message" => entry.get("message").cloned(),
        "custom_message" => {
            let names = [
                ("customType", "customType"),
                ("content", "content"),
                ("display", "display"),
                ("details", "details"),
            ];
            Some(pick(entry, Some("custom"), &names, Some(moment(entry))))
        }
        "branch_summary" => {
            let empty = match &entry["summary"] {
                Value::Null => true,
                Value::Bool(truth) => !truth,
                Value::Number(number) => number.as_f64() == Some(0.0),
                Value::String(text) => text.is_empty(),
                _ => false,
            };
            let names = [("summary", "summary"), ("fromId", "fromId")];
            (!empty).then(|| pick(entry, Some("branchSummary"), &names, Some(moment(entry))))
        }
        _ => None,
    };
    let mut messages = Vec::new();
    match cut {
        None => messages.extend(path.iter().filter_map(message)),
        Some(cut) => {
            let entry = path[cut];
            let names = [("summary", "summary"), ("tokensBefore", "tokensBefore")];
            messages.push(pick(entry, Some("compactionSummary"), &names, Some(moment(entry))));
            let kept =
                path[..cut].iter().skip_while(|kept| Some(&kept["id"]) != entry.get("firstKeptEntryId"));
            messages.extend(kept.filter_map(message));
            messages.extend(path[cut + 1..].iter().filter_map(message));
        }
    }
    let mut context = Map::new();
    context.insert("messages".to_owned(), messages.into());
    context.extend(thinking.map(|thinking| ("thinkingLevel".to_owned(), thinking)));
    context.insert("model".to_owned(), model);
    context.into()
}

/// Lines that no program wrote on purpose.
fn junk() -> impl Strategy<Value = Vec<u8>> {
    let line = prop_oneof![
        2 => entry().prop_map(|entry| entry.to_string().into_bytes()),
        2 => (entry(), 0_usize..8, option::of(0_usize..8)).prop_map(|(mut entry, id, parent)| {
            entry["id"] = format!("{id}").into();
            entry["parentId"] = json!(parent.map(|parent| parent.to_string()));
            entry.to_string().into_bytes()
        }),
        1 => (entry(), any::<Index>()).prop_map(|(entry, cut)| {
            let bytes = entry.to_string().into_bytes();
            bytes[..cut.index(bytes.len())].to_vec()
        }),
        1 => value().prop_map(|value| value.to_string().into_bytes()),
        1 => Just(br#"{"type":"session","id":"again","version":3}"#.to_vec()),
        1 => Just(br#"{"type":"message","id":"9","message":{"role":"user","content":"\ud83d"}}"#.to_vec()),
        1 => vec(any::<u8>(), 0..20),
        1 => Just(b"   ".to_vec()),
    ];
    let end = select(vec!["\n", "\r\n", "\n\n"]);
    let start = select(vec![
        "",
        "\u{feff}",
        "{\"type\":\"session\",\"version\":2,\"id\":\"x\"}\n",
        "{\"type\":\"session\",\"id\":\"x\"}\n",
    ]);
    (start, vec((line, end), 0..12), any::<bool>()).prop_map(|(start, lines, ended)| {
        let mut bytes = start.as_bytes().to_vec();
        for (line, end) in lines {
            bytes.extend(line);
            bytes.extend(end.as_bytes());
        }
        if !ended {
            bytes.pop();
        }
        bytes
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn histories_come_back(values in history()) {
        let text = text_of(&values);
        let tree = tree(text.as_bytes());
        let same = pi::write(&tree, Some(text.as_bytes()));
        prop_assert_eq!(String::from_utf8(same).unwrap(), text);
        let again = pi::write(&tree, None);
        let again: Vec<Value> = again.split(|byte| *byte == b'\n').filter(|line| !line.is_empty())
            .map(|line| serde_json::from_slice(line).unwrap()).collect();
        prop_assert_eq!(&again, &values);
        let text = |values: &[Value]| values.iter().map(pi::stringify).collect::<Vec<_>>();
        prop_assert_eq!(text(&again), text(&values), "the order of keys");
    }

    #[test]
    fn contexts_follow_pis_rules(values in history(), leaf in any::<Index>()) {
        prop_assume!(values.len() > 1);
        let text = text_of(&values);
        let tree = tree(text.as_bytes());
        let leaf = &values[1 + leaf.index(values.len() - 1)];
        let view = PiView::new(&tree, Program::Pi);
        let id = view.find(leaf["id"].as_str().unwrap()).unwrap().clone();
        let ours = view.context(&PathEnd::At(id));
        prop_assert_eq!(pi::stringify(&ours), pi::stringify(&expected_context(&values, leaf)));
    }

    #[test]
    fn junk_comes_back_and_stops_nothing(bytes in junk()) {
        let Ok(file) = pi::read(&bytes) else { return Ok(()) };
        let tree = super::import(&file);
        prop_assert!(pi::write(&tree, Some(&bytes)) == bytes, "{:?}", String::from_utf8_lossy(&bytes));
        let again = pi::write(&tree, None);
        let lines = |bytes: &[u8]| pi::read(bytes).unwrap().seed.nodes.len();
        let from_nothing = lines(&again);
        prop_assert_eq!(from_nothing, file.seed.nodes.len());
        for flavor in [Program::Pi, Program::Omp18] {
            for view in [PiView::new(&tree, flavor), PiView::new(&tree, flavor).mended()] {
                let _ = (view.context(&PathEnd::Current), view.tree(), view.listing(), view.labels());
            }
        }
    }
}

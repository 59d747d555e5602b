//! The repair of a conversation: what comes out is valid, stays as it is when repaired again, and has everything in it
//! that was valid before.

use everturn_llm::history::INTERRUPTED;
use everturn_llm::{AnswerOrigin, Block, Content, Message, repair};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use super::config;

fn asked() -> AnswerOrigin {
    AnswerOrigin { provider: "acme".into(), model: "m-1".into() }
}

fn is_own(origin: Option<&AnswerOrigin>) -> bool {
    origin == Some(&asked())
}

fn words() -> impl Strategy<Value = String> {
    select(vec!["", " \n", "one", "two", "three"]).prop_map(str::to_owned)
}

/// Few enough that they meet again.
fn ids() -> impl Strategy<Value = String> {
    select(vec!["a", "b", "c", ""]).prop_map(str::to_owned)
}

fn signature() -> impl Strategy<Value = Option<Value>> {
    select(vec![None, Some(json!({"anthropic": {"signature": "s"}})), Some(json!({"gemini": 1}))])
}

fn contents() -> impl Strategy<Value = Vec<Content>> {
    let media = select(vec!["", "data:image/png;base64,AA=="]);
    let media =
        media.prop_map(|url| Content::Media { mime: "image/png".into(), url: url.into(), filename: None });
    vec(prop_oneof![3 => words().prop_map(Content::Text), 1 => media], 0..3)
}

fn block() -> impl Strategy<Value = Block> {
    let hosted = |id: &String| (id.clone(), "web".to_owned());
    prop_oneof![
        (words(), signature()).prop_map(|(text, metadata)| Block::Text { text, metadata }),
        (words(), signature()).prop_map(|(text, metadata)| Block::Reasoning { text, metadata }),
        (ids(), signature()).prop_map(|(id, metadata)| Block::ToolCall {
            id,
            name: "read".into(),
            input: json!({"a": 1}),
            metadata
        }),
        (ids(), signature()).prop_map(move |(id, metadata)| {
            let (id, name) = hosted(&id);
            Block::HostedCall { id, name, input: json!({}), metadata }
        }),
        (ids(), signature()).prop_map(move |(id, metadata)| {
            let (id, name) = hosted(&id);
            Block::HostedResult { id, name, output: json!([]), metadata }
        }),
    ]
}

fn message() -> impl Strategy<Value = Message> {
    let origin = select(vec![None, Some(asked()), Some(asked()), Some(AnswerOrigin::default())]);
    prop_oneof![
        2 => contents().prop_map(Message::User),
        3 => (vec(block(), 0..5), origin).prop_map(|(blocks, origin)| Message::Assistant { blocks, origin }),
        3 => (ids(), contents(), any::<bool>()).prop_map(|(call_id, output, is_error)| Message::Tool {
            call_id,
            name: "read".into(),
            output,
            is_error,
        }),
        1 => words().prop_map(Message::System),
    ]
}

/// The rules that a conversation breaks.
fn broken(messages: &[Message]) -> Vec<&'static str> {
    let mut faults = Vec::new();
    let mut rule = |holds: bool, rule: &'static str| {
        if !holds {
            faults.push(rule);
        }
    };
    let mut owed: Vec<&str> = Vec::new();
    let last_answer = messages.iter().rposition(|message| !matches!(message, Message::Tool { .. }));
    for (index, message) in messages.iter().enumerate() {
        if let Message::Tool { call_id, .. } = message {
            rule(owed.first() == Some(&call_id.as_str()), "a result follows its call, in order");
            owed = owed.split_off(owed.len().min(1));
            continue;
        }
        rule(owed.is_empty(), "every call has its result");
        owed.clear();
        match message {
            Message::User(contents) => {
                rule(!contents.is_empty() && contents.iter().all(has_content), "the person says something");
            }
            Message::System(text) => rule(!text.trim().is_empty(), "an instruction says something"),
            Message::Assistant { blocks, origin } => {
                rule(!blocks.is_empty() && blocks.iter().all(says_something), "an answer says something");
                rule(is_own(origin.as_ref()) || blocks.iter().all(is_plain), "no foreign thoughts");
                rule(hosted_is_settled(blocks, last_answer == Some(index)), "own tools are settled");
                owed = blocks.iter().filter_map(called).collect();
            }
            Message::Tool { .. } => {}
        }
    }
    rule(owed.is_empty(), "every call has its result");
    faults
}

fn has_content(content: &Content) -> bool {
    match content {
        Content::Text(text) => !text.trim().is_empty(),
        Content::Media { url, .. } => !url.is_empty(),
    }
}

fn says_something(block: &Block) -> bool {
    match block {
        Block::Text { text, .. } => !text.trim().is_empty(),
        Block::Reasoning { text, metadata } => metadata.is_some() || !text.trim().is_empty(),
        _ => true,
    }
}

fn is_plain(block: &Block) -> bool {
    matches!(block, Block::Text { metadata: None, .. } | Block::ToolCall { metadata: None, .. })
}

fn called(block: &Block) -> Option<&str> {
    match block {
        Block::ToolCall { id, .. } => Some(id),
        _ => None,
    }
}

fn hosted_is_settled(blocks: &[Block], is_last: bool) -> bool {
    let ids = |result: bool| -> Vec<&str> {
        let ids = blocks.iter().filter_map(|block| match block {
            Block::HostedCall { id, .. } if !result => Some(id.as_str()),
            Block::HostedResult { id, .. } if result => Some(id.as_str()),
            _ => None,
        });
        ids.collect()
    };
    let (calls, results) = (ids(false), ids(true));
    let answered = |id: &&str| results.contains(id);
    results.iter().all(|id| calls.contains(id)) && (is_last || calls.iter().all(answered))
}

/// What has to be there afterwards, in this order: all that people and instructions say, and of answers their text and
/// calls.
fn substance(messages: &[Message]) -> Vec<String> {
    let mut said = Vec::new();
    for message in messages {
        match message {
            Message::User(contents) => {
                said.extend(contents.iter().filter(|one| has_content(one)).map(|one| format!("{one:?}")));
            }
            Message::System(text) => {
                said.extend(Some(format!("system {text}")).filter(|_| !text.trim().is_empty()));
            }
            Message::Assistant { blocks, .. } => said.extend(blocks.iter().filter_map(|block| match block {
                Block::Text { text, .. } if !text.trim().is_empty() => Some(format!("text {text}")),
                Block::ToolCall { id, .. } => Some(format!("call {id}")),
                _ => None,
            })),
            Message::Tool { .. } => {}
        }
    }
    said
}

/// How many results say something of their own.
fn results(messages: &[Message]) -> Vec<(&str, &[Content])> {
    let results = messages.iter().filter_map(|message| match message {
        Message::Tool { call_id, output, .. } => Some((call_id.as_str(), output.as_slice())),
        _ => None,
    });
    results.filter(|(_, output)| *output != [Content::Text(INTERRUPTED.into())]).collect()
}

/// A conversation without fault: answers of this model and of others, each call with its result.
fn sound() -> impl Strategy<Value = Vec<Message>> {
    let said = || select(vec!["one", "two"]).prop_map(str::to_owned);
    let user = said().prop_map(|text| vec![Message::User(vec![Content::Text(text)])]);
    let system = said().prop_map(|text| vec![Message::System(text)]);
    let answer = (vec((0..4_usize, said(), signature()), 1..5), any::<bool>()).prop_map(|(parts, own)| {
        let mut blocks = Vec::new();
        for (number, (kind, text, metadata)) in parts.into_iter().enumerate() {
            let (id, name) = (format!("id_{number}"), "read".to_owned());
            let metadata = metadata.filter(|_| own);
            match kind {
                0 => blocks.push(Block::Text { text, metadata }),
                1 if own => blocks.push(Block::Reasoning { text, metadata }),
                2 if own => {
                    let (input, output) = (json!({}), json!([]));
                    blocks.push(Block::HostedCall { id: id.clone(), name: name.clone(), input, metadata });
                    blocks.push(Block::HostedResult { id, name, output, metadata: None });
                }
                _ => blocks.push(Block::ToolCall { id, name, input: json!({"a": text}), metadata }),
            }
        }
        let result = |id: &str| Message::Tool {
            call_id: id.to_owned(),
            name: "read".into(),
            output: vec![Content::Text("found".into())],
            is_error: id.ends_with('1'),
        };
        let results: Vec<Message> = blocks.iter().filter_map(called).map(result).collect();
        let origin = own.then(asked);
        std::iter::once(Message::Assistant { blocks, origin }).chain(results).collect()
    });
    vec(prop_oneof![2 => user, 1 => system, 3 => answer], 0..8).prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(config(2_000))]

    #[test]
    fn what_comes_out_is_valid_and_stays(messages in vec(message(), 0..12)) {
        let repaired = repair(messages.clone(), &asked());
        prop_assert_eq!(broken(&repaired), Vec::<&str>::new(), "{:#?}", repaired);
        prop_assert_eq!(&repair(repaired.clone(), &asked()), &repaired);
        prop_assert_eq!(substance(&repaired), substance(&messages));
        // No result is made up but the one that says so.
        let before = results(&messages);
        prop_assert!(results(&repaired).iter().all(|result| before.contains(result)));
    }

    #[test]
    fn what_is_valid_stays_as_it_is(messages in sound()) {
        prop_assert_eq!(broken(&messages), Vec::<&str>::new());
        prop_assert_eq!(repair(messages.clone(), &asked()), messages);
    }
}

#[test]
fn the_rules_notice_what_breaks_them() {
    let check = |messages: Vec<Message>, expected: &str| assert_eq!(broken(&messages), [expected]);
    let answer = |blocks: Vec<Block>, origin| Message::Assistant { blocks, origin };
    let call = || Block::ToolCall { id: "a".into(), name: "read".into(), input: json!({}), metadata: None };
    let search =
        || Block::HostedCall { id: "h".into(), name: "web".into(), input: json!({}), metadata: None };
    let thought = || Block::Reasoning { text: "hm".into(), metadata: None };
    let user = || Message::User(vec![Content::Text("hi".into())]);
    let result =
        || Message::Tool { call_id: "a".into(), name: "read".into(), output: vec![], is_error: false };
    check(vec![answer(vec![call()], None)], "every call has its result");
    check(vec![answer(vec![call()], None), user()], "every call has its result");
    check(vec![result()], "a result follows its call, in order");
    check(vec![Message::User(vec![])], "the person says something");
    check(vec![Message::System(" ".into())], "an instruction says something");
    check(vec![answer(vec![], None)], "an answer says something");
    check(vec![answer(vec![thought()], None)], "no foreign thoughts");
    check(vec![answer(vec![search()], Some(asked())), user()], "own tools are settled");
    assert_eq!(broken(&[answer(vec![search()], Some(asked()))]), Vec::<&str>::new());
}

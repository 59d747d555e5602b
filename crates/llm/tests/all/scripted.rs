//! The scripted provider plays the step the conversation asks for.

use everturn_llm::{Block, Content, Event, FinishReason, Message, Provider, Request, Scripted, ToolSpec};
use futures_util::StreamExt;
use serde_json::json;

async fn play(provider: &Scripted, messages: Vec<Message>) -> Vec<Event> {
    let tools = vec![ToolSpec { name: "edit".into(), description: String::new(), schema: json!({}) }];
    let request = Request { messages, tools, ..Request::default() };
    provider.stream(request).map(Result::unwrap).collect().await
}

fn user(text: &str) -> Message {
    Message::User(vec![Content::Text(text.into())])
}

fn assistant() -> Message {
    Message::Assistant { blocks: vec![Block::Text { text: "x".into(), metadata: None }], origin: None }
}

fn text_of(events: &[Event]) -> String {
    let texts = events.iter().filter_map(|event| match event {
        Event::TextDelta { text, .. } => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}

#[tokio::test]
async fn steps_follow_the_conversation() {
    let script = json!({"steps": [
        {"reasoning": "hm, ", "text": "one two", "tools": [{"name": "read", "input": {"filePath": "a"}}]},
        {"text": "done"},
    ]});
    let provider = Scripted::from_value(script).unwrap();
    let first = play(&provider, vec![user("go")]).await;
    let id = "call_scripted_1_0".to_owned();
    let (raw, input) = (r#"{"filePath":"a"}"#.to_owned(), json!({"filePath": "a"}));
    let Some(Event::StepFinish { reason: FinishReason::ToolCalls, usage, metadata: None }) =
        first.get(first.len() - 2).cloned()
    else {
        panic!("{first:?}")
    };
    let expected = vec![
        Event::Start,
        Event::ReasoningStart { id: "reasoning-0".into() },
        Event::ReasoningDelta { id: "reasoning-0".into(), text: "hm, ".into() },
        Event::ReasoningEnd { id: "reasoning-0".into(), metadata: None },
        Event::TextStart { id: "text-0".into() },
        Event::TextDelta { id: "text-0".into(), text: "one ".into() },
        Event::TextDelta { id: "text-0".into(), text: "two".into() },
        Event::TextEnd { id: "text-0".into(), metadata: None },
        Event::ToolInputStart { id: id.clone(), name: "read".into() },
        Event::ToolInputDelta { id: id.clone(), text: raw.clone() },
        Event::ToolInputEnd { id: id.clone() },
        Event::ToolCall { id, name: "read".into(), input, raw, metadata: None },
        Event::StepFinish { reason: FinishReason::ToolCalls, usage, metadata: None },
        Event::Finish,
    ];
    assert_eq!(first, expected);

    let turn = |rest: &[Message]| [&[user("go"), assistant()], rest].concat();
    assert_eq!(text_of(&play(&provider, turn(&[])).await), "done");
    assert_eq!(text_of(&play(&provider, turn(&[user("<system-reminder>x")])).await), "done");
    assert_eq!(text_of(&play(&provider, turn(&[user("again")])).await), "one two");
    assert_eq!(text_of(&play(&provider, turn(&[assistant()])).await), "The script has no further steps.");
}

#[test]
fn a_list_is_a_script_and_nonsense_is_not() {
    assert!(Scripted::from_value(json!([{"text": "a"}])).is_ok());
    for script in [json!("x"), json!({"text": "a"}), json!([{"txt": "a"}]), json!([{"tools": [{}]}])] {
        assert!(Scripted::from_value(script.clone()).is_err(), "{script}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_demo_edits_the_file_in_the_prompt() {
    let provider = Scripted::demo();
    let prompt = user("Please change the greeting in /tmp/demo/greeting.txt.");
    let events = play(&provider, vec![prompt.clone()]).await;
    let call = events.iter().find_map(|event| match event {
        Event::ToolCall { name, input, .. } => Some((name.as_str(), input.clone())),
        _ => None,
    });
    let input = json!({"filePath": "/tmp/demo/greeting.txt", "oldString": "Hello, world",
        "newString": "Hello, Everturn"});
    assert_eq!(call, Some(("edit", input)));
    let events = play(&provider, vec![prompt, assistant()]).await;
    assert_eq!(text_of(&events), "Done: greeting.txt now says \"Hello, Everturn\".");
    assert!(events.iter().all(|event| !matches!(event, Event::ToolCall { .. })));
}

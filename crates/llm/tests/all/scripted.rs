//! The scripted provider plays the step the conversation asks for, and says of a bad script what is wrong.

use std::time::Duration;

use everturn_llm::scripted::Script;
use everturn_llm::{
    Block, Content, Error, FinishReason, HttpFailure, Message, ModelRequest, Provider, Scripted, StreamEvent,
    ToolSpec, Usage,
};
use futures_util::StreamExt;
use serde_json::{Value, json};

fn request(messages: Vec<Message>) -> ModelRequest {
    let tools = vec![ToolSpec { name: "edit".into(), description: String::new(), schema: json!({}).into() }];
    ModelRequest { messages, tools, ..ModelRequest::default() }
}

async fn play(provider: &Scripted, messages: Vec<Message>) -> Vec<StreamEvent> {
    provider.stream(request(messages)).map(Result::unwrap).collect().await
}

/// The events of an answer and the error that ended it.
async fn watch(provider: &Scripted) -> (Vec<StreamEvent>, Option<Error>) {
    let mut stream = provider.stream(request(vec![user("go")]));
    let mut events = Vec::new();
    while let Some(next) = stream.next().await {
        match next {
            Ok(event) => events.push(event),
            Err(error) => {
                assert!(stream.next().await.is_none(), "an error ends the stream");
                return (events, Some(error));
            }
        }
    }
    (events, None)
}

fn script(script: &Value) -> Scripted {
    Scripted::new(Script::parse(&script.to_string()).unwrap())
}

fn user(text: &str) -> Message {
    Message::User(vec![Content::Text(text.into())])
}

fn assistant() -> Message {
    Message::Assistant { blocks: vec![Block::Text { text: "x".into(), metadata: None }], origin: None }
}

fn text_of(events: &[StreamEvent]) -> String {
    let texts = events.iter().filter_map(|event| match event {
        StreamEvent::TextDelta { text, .. } => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}

fn says(text: &str) -> Vec<StreamEvent> {
    let id = || "text-0".to_owned();
    let words = text.split_inclusive(' ').map(|word| StreamEvent::TextDelta { id: id(), text: word.into() });
    std::iter::once(StreamEvent::TextStart { id: id() }).chain(words).collect()
}

#[tokio::test]
async fn steps_follow_the_conversation() {
    let provider = script(&json!({"steps": [
        {"reasoning": "hm, ", "text": "one two", "tools": [{"name": "read", "input": {"filePath": "a"}}]},
        {"text": "done"},
    ]}));
    let first = play(&provider, vec![user("go")]).await;
    let id = "call_scripted_1_0".to_owned();
    let (raw, input) = (r#"{"filePath":"a"}"#.to_owned(), json!({"filePath": "a"}));
    let usage = Usage { input: 1, output: 6, total: Some(7), ..Usage::default() };
    let expected = vec![
        StreamEvent::Start,
        StreamEvent::ReasoningStart { id: "reasoning-0".into() },
        StreamEvent::ReasoningDelta { id: "reasoning-0".into(), text: "hm, ".into() },
        StreamEvent::ReasoningEnd { id: "reasoning-0".into(), metadata: None },
        StreamEvent::TextStart { id: "text-0".into() },
        StreamEvent::TextDelta { id: "text-0".into(), text: "one ".into() },
        StreamEvent::TextDelta { id: "text-0".into(), text: "two".into() },
        StreamEvent::TextEnd { id: "text-0".into(), metadata: None },
        StreamEvent::ToolInputStart { id: id.clone(), name: "read".into() },
        StreamEvent::ToolInputDelta { id: id.clone(), text: raw.clone() },
        StreamEvent::ToolInputEnd { id: id.clone() },
        StreamEvent::ToolCall { id, name: "read".into(), input, raw, metadata: None },
        StreamEvent::StepFinish { reason: FinishReason::ToolCalls, usage, metadata: None },
        StreamEvent::Finish,
    ];
    assert_eq!(first, expected);

    let turn = |rest: &[Message]| [&[user("go"), assistant()], rest].concat();
    assert_eq!(text_of(&play(&provider, turn(&[])).await), "done");
    assert_eq!(text_of(&play(&provider, turn(&[user("<system-reminder>x")])).await), "done");
    assert_eq!(text_of(&play(&provider, turn(&[user("again")])).await), "one two");
    assert_eq!(text_of(&play(&provider, turn(&[assistant()])).await), "The script has no further steps.");
}

#[tokio::test]
async fn one_script_answers_several_prompts() {
    let provider = script(&json!([
        {"when": "write", "text": "first"},
        {"when": "write", "text": "second"},
        {"text": "anything"},
    ]));
    let check = async |messages: Vec<Message>, expected: &str| {
        assert_eq!(text_of(&play(&provider, messages).await), expected);
    };
    check(vec![user("please write")], "first").await;
    check(vec![user("please write"), assistant()], "second").await;
    check(vec![user("please write"), assistant(), assistant()], "anything").await;
    check(vec![user("please write"), assistant(), user("read")], "anything").await;
    check(vec![user("read"), assistant()], "The script has no further steps.").await;
}

#[tokio::test]
async fn who_asks_without_tools_gets_a_title() {
    let check = async |value: Value, expected: &str| {
        let request = ModelRequest { messages: vec![user("the prompt")], ..ModelRequest::default() };
        let events: Vec<StreamEvent> = script(&value).stream(request).map(Result::unwrap).collect().await;
        assert_eq!(text_of(&events), expected);
    };
    check(json!({"title": "A title", "steps": [{"error": {"status": 500}}]}), "A title").await;
    check(json!([{"text": "x"}]), "the prompt").await;
}

#[tokio::test]
async fn metadata_several_calls_usage_and_the_reason_are_as_written() {
    let provider = script(&json!([{
        "reasoning": {"text": "", "metadata": {"anthropic": {"redacted": "r"}}},
        "hosted": [
            {"name": "search", "input": {"query": "q"}, "output": [1], "failed": true,
                "metadata": {"m": 1}, "resultMetadata": {"r": 2}},
            {"name": "code"},
        ],
        "text": {"text": "so", "metadata": {"openai": {"id": "msg_1"}}},
        "tools": [{"name": "a", "metadata": {"gemini": {"thoughtSignature": "s"}}}, {"name": "b", "raw": "{"}],
        "usage": {"input": 1, "output": 2, "reasoning": 3, "cacheRead": 4, "cacheWrite": 5},
        "finish": "length",
    }]));
    let (events, failure) = watch(&provider).await;
    assert!(failure.is_none(), "{failure:?}");
    let (first, second) = ("call_scripted_1_0".to_owned(), "call_scripted_1_1".to_owned());
    let searched = "hosted_scripted_1_0".to_owned();
    let usage = Usage { input: 1, output: 2, reasoning: 3, cache_read: 4, cache_write: 5, total: Some(15) };
    let mut expected = vec![
        StreamEvent::Start,
        StreamEvent::ReasoningStart { id: "reasoning-0".into() },
        StreamEvent::ReasoningEnd {
            id: "reasoning-0".into(),
            metadata: Some(json!({"anthropic": {"redacted": "r"}})),
        },
        StreamEvent::HostedCall {
            id: searched.clone(),
            name: "search".into(),
            input: json!({"query": "q"}),
            metadata: Some(json!({"m": 1})),
        },
        StreamEvent::HostedResult {
            id: searched,
            name: "search".into(),
            output: json!([1]),
            is_error: true,
            metadata: Some(json!({"r": 2})),
        },
        StreamEvent::HostedCall {
            id: "hosted_scripted_1_1".into(),
            name: "code".into(),
            input: json!({}),
            metadata: None,
        },
    ];
    expected.extend(says("so"));
    expected.extend([
        StreamEvent::TextEnd { id: "text-0".into(), metadata: Some(json!({"openai": {"id": "msg_1"}})) },
        StreamEvent::ToolInputStart { id: first.clone(), name: "a".into() },
        StreamEvent::ToolInputDelta { id: first.clone(), text: "{}".into() },
        StreamEvent::ToolInputEnd { id: first.clone() },
        StreamEvent::ToolCall {
            id: first,
            name: "a".into(),
            input: json!({}),
            raw: "{}".into(),
            metadata: Some(json!({"gemini": {"thoughtSignature": "s"}})),
        },
        StreamEvent::ToolInputStart { id: second.clone(), name: "b".into() },
        StreamEvent::ToolInputDelta { id: second.clone(), text: "{".into() },
        StreamEvent::ToolInputEnd { id: second.clone() },
        StreamEvent::ToolCallMalformed {
            id: second,
            name: "b".into(),
            raw: "{".into(),
            reason: "the arguments are not JSON: EOF while parsing an object at line 1 column 1".into(),
        },
        StreamEvent::StepFinish { reason: FinishReason::Length, usage, metadata: None },
        StreamEvent::Finish,
    ]);
    assert_eq!(events, expected);
}

#[tokio::test]
async fn a_step_without_anything_is_an_empty_answer_and_may_be_a_refusal() {
    for (step, reason) in [
        (json!({}), FinishReason::Stop),
        (json!({"text": ""}), FinishReason::Stop),
        (json!({"finish": "content-filter"}), FinishReason::ContentFilter),
    ] {
        let usage = Usage { input: 1, output: 1, total: Some(2), ..Usage::default() };
        let finish = StreamEvent::StepFinish { reason, usage, metadata: None };
        let played = play(&script(&json!([step])), vec![user("go")]).await;
        assert_eq!(played, [StreamEvent::Start, finish, StreamEvent::Finish]);
    }
}

#[tokio::test(start_paused = true)]
async fn pauses_and_paces() {
    let provider = script(&json!({"pace": 20, "steps": [
        {"pause": 1000, "text": "one two", "tools": [{"name": "a"}]},
        {"pace": 0, "text": "one two"},
    ]}));
    let began = tokio::time::Instant::now();
    let mut stream = provider.stream(request(vec![user("go")]));
    assert_eq!(stream.next().await.unwrap().unwrap(), StreamEvent::Start);
    assert_eq!(began.elapsed(), Duration::from_millis(1000));
    drop(stream.collect::<Vec<_>>().await);
    assert_eq!(began.elapsed(), Duration::from_millis(1060), "two words and one set of arguments");
    play(&provider, vec![user("go"), assistant()]).await;
    assert_eq!(began.elapsed(), Duration::from_millis(1060));
}

#[tokio::test]
async fn errors_are_what_they_would_be_over_http() {
    let http = |status: u16, error: Value, wait: Option<&str>| {
        let headers = wait.map(|wait| ("retry-after".to_owned(), wait.to_owned()));
        let body = json!({"error": error}).to_string();
        Box::new(HttpFailure { status, headers: headers.into_iter().collect(), body, url: String::new() })
    };
    let check = async |error: Value, before: &[StreamEvent], expected: Error| {
        let provider = script(&json!([{"text": "one two three", "error": error}]));
        let (events, failure) = watch(&provider).await;
        assert_eq!(events, before, "{error}");
        assert_eq!(format!("{:?}", failure.unwrap()), format!("{expected:?}"), "{error}");
    };
    let begun = |words: &str| {
        let text = if words.is_empty() { Vec::new() } else { says(words) };
        [vec![StreamEvent::Start], text].concat()
    };
    check(
        json!({"status": 429, "message": "slow down", "retryAfter": 1.5}),
        &[],
        Error::RateLimit {
            retry_after: Some(Duration::from_millis(1500)),
            http: http(429, json!({"message": "slow down"}), Some("1.5")),
        },
    )
    .await;
    check(
        json!({"status": 400, "type": "context_length_exceeded"}),
        &[],
        Error::ContextOverflow { http: http(400, json!({"type": "context_length_exceeded"}), None) },
    )
    .await;
    check(json!({"status": 401}), &[], Error::Authentication { http: http(401, json!({}), None) }).await;
    check(
        json!({"status": 503, "message": "no", "after": 2}),
        &begun("one two "),
        Error::Overloaded { http: http(503, json!({"code": 503, "message": "no"}), None) },
    )
    .await;
    let transport = |before_first_byte: bool, message: &str| Error::Transport {
        before_first_byte,
        message: message.to_owned(),
        source: None,
    };
    check(json!({"kind": "transport", "message": "no route"}), &[], transport(true, "no route")).await;
    let broken = "the script breaks it";
    check(json!({"kind": "transport", "after": 0}), &begun(""), transport(false, broken)).await;
    check(json!({"kind": "transport", "after": 1}), &begun("one "), transport(false, broken)).await;
    let whole =
        [begun("one two three"), vec![StreamEvent::TextEnd { id: "text-0".into(), metadata: None }]].concat();
    check(json!({"kind": "transport", "after": 9}), &whole, transport(false, broken)).await;
    let reason = "the script ends it before its last event".to_owned();
    check(json!({"kind": "incomplete"}), &whole, Error::Incomplete { reason }).await;
    check(
        json!({"kind": "malformed", "message": "no JSON", "after": 2}),
        &begun("one two "),
        Error::Malformed {
            reason: "no JSON".to_owned(),
            http: Box::new(HttpFailure { status: 200, ..HttpFailure::default() }),
        },
    )
    .await;
}

#[tokio::test]
async fn an_error_may_pass_and_tries_of_other_requests_do_not_count() {
    let provider = script(&json!([{"text": "at last", "error": {"status": 503, "times": 2}}]));
    let tried = async |request: ModelRequest| {
        let events: Vec<_> = provider.stream(request).collect().await;
        events.iter().all(Result::is_ok)
    };
    let own = || ModelRequest { cache_key: Some("ses_a".into()), ..request(vec![user("go")]) };
    let other = || ModelRequest { cache_key: Some("ses_b".into()), ..request(vec![user("go")]) };
    let later = || ModelRequest { messages: vec![user("go"), assistant(), user("go")], ..own() };
    assert_eq!([tried(own()).await, tried(other()).await, tried(later()).await], [false; 3]);
    assert_eq!([tried(own()).await, tried(own()).await], [false, true]);
    assert_eq!([tried(other()).await, tried(later()).await], [false; 2]);
}

#[test]
fn what_is_not_in_the_format_is_refused_with_its_line() {
    let check = |text: &str, expected: &str| {
        let error = Script::parse(text).unwrap_err().to_string();
        assert_eq!(error, expected, "{text}");
    };
    check(
        "\"x\"",
        "invalid type: string \"x\", expected a list of steps, or an object with the list under `steps` at line 1 column 3",
    );
    check(
        "{\n \"text\": 1}",
        "unknown field `text`, expected one of `title`, `pace`, `steps` at line 2 column 7",
    );
    check("{}", "missing field `steps` at line 1 column 2");
    check(
        "[\n {\"text\": \"a\"},\n {\"pause\": -1}]",
        "invalid value: integer `-1`, expected u64 at line 3 column 13",
    );
    check(
        "[{\"text\":\n 5}]",
        "invalid type: integer `5`, expected a text, or an object with `text` and `metadata` at line 2 column 2",
    );
    check(
        "[{\"text\": {\"txt\": 1}}]",
        "unknown field `txt`, expected `text` or `metadata` at line 1 column 16",
    );
    check("[{\"text\": {\"text\": \"\"}}]", "there is neither text nor metadata at line 1 column 22");
    check("[{\"tools\": [\n{}]}]", "missing field `name` at line 2 column 2");
    check(
        "[{\"tools\": [{\"name\": \"a\", \"input\": {}, \"raw\": \"\"}]}]",
        "a call has `input` or `raw`, not both at line 1 column 50",
    );
    check(
        "[{\"finish\": \"tired\"}]",
        "unknown variant `tired`, expected one of `stop`, `paused`, `length`, `tool-calls`, `content-filter`, `error`, `unknown` at line 1 column 19",
    );
    let error = |fields: &str| format!("[\n{{\"error\": {fields}}}]");
    check(&error("{}"), "an error has a `status` or a `kind` at line 2 column 13");
    check(&error("{\"status\": 200}"), "the `status` of an error is from 400 to 599 at line 2 column 26");
    check(
        &error("{\"kind\": \"transport\", \"type\": \"x\"}"),
        "`type` and `retryAfter` go with a `status` at line 2 column 45",
    );
    check(
        &error("{\"status\": 500, \"kind\": \"transport\"}"),
        "an error has a `status` or a `kind` at line 2 column 47",
    );
    check("[{\"text\": \"a\"}", "EOF while parsing a list at line 1 column 14");
}

#[test]
fn a_file_that_cannot_be_played_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("play.json");
    let error = Scripted::read(&path).unwrap_err().to_string();
    assert_eq!(
        error,
        format!(
            "the script {} cannot be read: No such file or directory (os error 2). `scripted/<path>` takes a path from the session's folder on, or an absolute one; `scripted/demo` is built in",
            path.display()
        )
    );
    // A device can be read without end: it took all memory.
    let error = Scripted::read(std::path::Path::new("/dev/null")).unwrap_err().to_string();
    assert!(error.starts_with("the script /dev/null cannot be read: it is not an ordinary file."), "{error}");
    std::fs::write(&path, "[\n{\"txet\": 1}]").unwrap();
    let error = Scripted::read(&path).unwrap_err().to_string();
    let expected = "unknown field `txet`, expected one of `when`, `pause`, `pace`, `reasoning`, `hosted`, `text`, `tools`, `usage`, `finish`, `error` at line 2 column 7";
    assert_eq!(
        error,
        format!("the script {} cannot be played: {expected}. Correct it there and ask again", path.display())
    );
}

#[tokio::test(start_paused = true)]
async fn the_demo_edits_the_file_in_the_prompt() {
    let provider = Scripted::demo();
    let prompt = user("Please change the greeting in /tmp/demo/greeting.txt.");
    let events = play(&provider, vec![prompt.clone()]).await;
    let call = events.iter().find_map(|event| match event {
        StreamEvent::ToolCall { name, input, .. } => Some((name.as_str(), input.clone())),
        _ => None,
    });
    let input = json!({"filePath": "/tmp/demo/greeting.txt", "oldString": "Hello, world",
        "newString": "Hello, Everturn"});
    assert_eq!(call, Some(("edit", input)));
    let events = play(&provider, vec![prompt, assistant()]).await;
    assert_eq!(text_of(&events), "Done: greeting.txt now says \"Hello, Everturn\".");
    assert!(events.iter().all(|event| !matches!(event, StreamEvent::ToolCall { .. })));
}

//! The scripted model, asked over HTTP.

use everturn_testkit::{Client, EventReader, ModelServer};
use serde_json::{Value, json};

const PATH: &str = "/chat/completions";

fn body(prompt: &str, stream: bool) -> Value {
    json!({"model": "fake-1", "stream": stream, "messages": [{"role": "user", "content": prompt}]})
}

async fn ask(server: &ModelServer, prompt: &str) -> Vec<Value> {
    let reply = Client::new(server.base_url()).post(PATH, &body(prompt, true)).await.ok();
    assert_eq!(reply.header("content-type"), Some("text/event-stream"));
    let frames = reply.body.split_terminator("\n\n").map(|frame| frame.strip_prefix("data: ").unwrap());
    let mut frames: Vec<&str> = frames.collect();
    assert_eq!(frames.pop(), Some("[DONE]"));
    frames.into_iter().map(|frame| serde_json::from_str(frame).unwrap()).collect()
}

fn deltas(chunks: &[Value]) -> Vec<Value> {
    chunks.iter().map(|chunk| chunk["choices"][0]["delta"].clone()).collect()
}

#[tokio::test]
async fn text_in_words() {
    let server = ModelServer::recorded();
    let chunks = ask(&server, "THINK  hi\nthere").await;
    assert_eq!(
        deltas(&chunks),
        [
            json!({"role": "assistant", "content": ""}),
            json!({"reasoning_content": "Let me think about "}),
            json!({"reasoning_content": "this request."}),
            json!({"content": "Hello "}),
            json!({"content": "from "}),
            json!({"content": "the "}),
            json!({"content": "fake "}),
            json!({"content": "model. "}),
            json!({"content": "You "}),
            json!({"content": "said: "}),
            json!({"content": "THINK  "}),
            json!({"content": "hi\n"}),
            json!({"content": "there"}),
            json!({}),
        ]
    );
    let last = chunks.last().unwrap();
    assert_eq!(last["choices"][0]["finish_reason"], "stop");
    let prompt = last["usage"]["prompt_tokens"].as_u64().unwrap();
    assert!(prompt > 10);
    assert_eq!(
        last["usage"],
        json!({"prompt_tokens": prompt, "completion_tokens": 20, "total_tokens": prompt + 20})
    );
    assert_eq!(server.requests(), [body("THINK  hi\nthere", true)]);
}

#[tokio::test]
async fn tool_call_in_two_halves() {
    let server = ModelServer::start();
    let chunks = ask(&server, "TOOL:read:a.txt").await;
    let deltas = deltas(&chunks);
    let id = &deltas[1]["tool_calls"][0]["id"];
    assert_eq!(
        deltas[1..4],
        [
            json!({"tool_calls": [{"index": 0, "id": id, "type": "function",
                "function": {"name": "read", "arguments": ""}}]}),
            json!({"tool_calls": [{"index": 0, "function": {"arguments": "{\"filePath"}}]}),
            json!({"tool_calls": [{"index": 0, "function": {"arguments": "\": \"a.txt\"}"}}]}),
        ]
    );
    assert_eq!(chunks.last().unwrap()["choices"][0]["finish_reason"], "tool_calls");
}

#[tokio::test]
async fn whole_answers_and_errors() {
    let server = ModelServer::start();
    let client = Client::new(server.base_url());
    let reply = client.post(PATH, &body("TOOL:bash:ls", false)).await.ok().json();
    let function = &reply["choices"][0]["message"]["tool_calls"][0]["function"];
    assert_eq!(
        function,
        &json!({"name": "bash", "arguments": "{\"command\": \"ls\", \"description\": \"run ls\"}"})
    );
    assert_eq!(reply["choices"][0]["finish_reason"], "tool_calls");

    let prompt = body("ERR:429x2 RETRY-AFTER:0 SAY:fine", false);
    for _ in 0..2 {
        let reply = client.post(PATH, &prompt).await;
        assert_eq!((reply.status, reply.header("retry-after")), (429, Some("0")));
        assert_eq!(reply.json()["error"]["message"], "fake error");
    }
    let reply = client.post(PATH, &prompt).await.ok().json();
    assert_eq!(reply["choices"][0]["message"]["content"], "fine");

    assert_eq!(client.post("/elsewhere", &json!({})).await.status, 404);
    assert_eq!(client.post(PATH, &body("JSONTOOL:x:{", false)).await.status, 400);
}

#[tokio::test]
async fn a_hold_stops_before_the_last_word() {
    let server = ModelServer::start();
    let client = Client::new(server.base_url());
    let asking = tokio::spawn(async move { client.post(PATH, &body("HOLD:a SAY:one two", true)).await.body });
    server.held("a").await;
    assert!(!asking.is_finished());
    server.release("a");
    let text = asking.await.unwrap();
    assert!(
        text.contains("\"one \"") && text.contains("\"two\"") && text.ends_with("data: [DONE]\n\n"),
        "{text}"
    );
}

#[tokio::test]
async fn a_client_that_leaves_is_noticed() {
    let server = ModelServer::start();
    let client = Client::new(server.base_url());
    let asking = tokio::spawn(async move { client.post(PATH, &body("HOLD:a\nTOOL:bash:ls", true)).await });
    server.held("a").await;
    asking.abort();
    server.abandoned("a").await;
}

#[tokio::test]
async fn a_broken_connection() {
    let server = ModelServer::start();
    let client = Client::new(server.base_url());
    let prompt = body("DROP:1x1 SAY:one two three", true);
    let broken = client.try_send("POST".parse().unwrap(), PATH, Some(&prompt)).await;
    assert!(broken.is_err(), "{broken:?}");
    assert!(client.post(PATH, &prompt).await.ok().body.contains("three"));
    assert_eq!(server.received(2).await.len(), 2);
}

#[tokio::test]
async fn prompts_leave_titles_out() {
    let server = ModelServer::start();
    let client = Client::new(server.base_url());
    let title = json!({"model": "m", "messages": [{"role": "system", "content": "You are a title generator."},
        {"role": "user", "content": "hello"}]});
    let reply = client.post(PATH, &title).await.ok().json();
    assert_eq!(reply["choices"][0]["message"]["content"], "Fake title: hello");
    client.post(PATH, &body("hello", false)).await.ok();
    assert_eq!((server.requests().len(), server.prompts().len()), (2, 1));
}

/// An axum server that sends a few events and then keeps or ends the stream.
async fn event_server(ends: bool) -> (Client, tokio::task::JoinHandle<()>) {
    use futures_util::StreamExt as _;
    let handler = move || async move {
        let frames = [
            "data: {\"type\":\"a\",\"n\":1}\n\n",
            ": beat\n\n",
            "id: 7\nevent: x\ndata: {\"type\":\"b\"}\n\n",
        ];
        let frames = futures_util::stream::iter(frames).map(Ok::<_, std::io::Error>);
        let tail = futures_util::stream::pending().take(usize::from(!ends));
        axum::body::Body::from_stream(frames.chain(tail))
    };
    let router = axum::Router::new().route("/event", axum::routing::get(handler));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = Client::new(format!("http://{}", listener.local_addr().unwrap()));
    (client, tokio::spawn(async move { axum::serve(listener, router).await.unwrap() }))
}

#[tokio::test]
async fn events_are_waited_for_in_order() {
    let (client, server) = event_server(false).await;
    let mut events: EventReader = client.events("/event").await;
    assert_eq!(events.wait_for(|data| data["n"] == 1).await, json!({"type": "a", "n": 1}));
    let second = events.wait_for_event(|_| true).await;
    assert_eq!((second.event.as_deref(), second.id.as_deref()), (Some("x"), Some("7")));
    assert_eq!(events.seen().len(), 2);
    server.abort();
}

#[tokio::test]
#[should_panic(expected = "the stream has ended")]
async fn an_event_that_does_not_come() {
    let (client, _server) = event_server(true).await;
    client.events("/event").await.wait_for_type("c").await;
}

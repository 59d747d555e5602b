//! The plan as an HTTP answer, streamed or whole.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State as Extract;
use axum::http::{Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use serde_json::{Value, json};

use super::json_text::dumps;
use super::plan::{Plan, Step, plan};
use super::{State, add};

/// When an answer was made, for the wire; nobody depends on it.
const CREATED: u64 = 1_767_225_600;

/// Every path ends here: servers are configured with all kinds of prefixes.
pub(super) fn router(state: Arc<State>) -> Router {
    Router::new().fallback(handle).with_state(state)
}

async fn handle(Extract(state): Extract<Arc<State>>, method: Method, uri: Uri, body: Bytes) -> Response {
    if method == Method::GET {
        return reply(
            StatusCode::OK,
            &json!({"object": "list", "data": [{"id": "fake", "object": "model"}]}),
        );
    }
    let Ok(body) = serde_json::from_slice::<Value>(&body) else {
        return refuse(StatusCode::BAD_REQUEST, "bad json");
    };
    if !uri.path().ends_with("/chat/completions") {
        return refuse(StatusCode::NOT_FOUND, &format!("no route {}", uri.path()));
    }
    let planned = plan(&body, &state.greeting);
    state.requests.send_modify(|all| all.push(body.clone()));
    match planned {
        Ok(planned) => answer(&state, &body, &planned),
        Err(reason) => refuse(StatusCode::BAD_REQUEST, &reason),
    }
}

fn answer(state: &Arc<State>, body: &Value, plan: &Plan) -> Response {
    if let Some(failure) = &plan.error
        && state.spend(&plan.prompt, "ERR", failure.status.times)
    {
        let status = failure.status.value;
        let code = u16::try_from(status).ok().and_then(|status| StatusCode::from_u16(status).ok());
        let error = json!({"error": {"message": "fake error", "type": "fake", "code": status.to_string()}});
        let mut response = reply(code.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), &error);
        if let Some(seconds) = failure.retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
        }
        return response;
    }
    let id = format!("chatcmpl-{}", state.next());
    let model = body.get("model").cloned().unwrap_or_default();
    let prompt_tokens = dumps(body).len() / 4;
    let usage = json!({"prompt_tokens": prompt_tokens, "completion_tokens": 20,
        "total_tokens": prompt_tokens + 20});
    if body.get("stream").and_then(Value::as_bool) != Some(true) {
        return whole(state, &id, &model, &usage, &plan.step);
    }
    let chunk = |delta: &Value, finish: Option<&str>| {
        let mut chunk = json!({"id": id, "object": "chat.completion.chunk", "created": CREATED, "model": model,
            "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]});
        if let (Some(_), Some(fields)) = (finish, chunk.as_object_mut()) {
            fields.insert("usage".to_owned(), usage.clone());
        }
        Act::Send(Bytes::from(format!("data: {}\n\n", dumps(&chunk))))
    };
    let mut acts = acts(state, plan, chunk);
    if let Some(limit) = plan.drop
        && state.spend(&plan.prompt, "DROP", limit.times)
    {
        cut(&mut acts, limit.value);
    }
    let performance = Performance { acts, state: Arc::clone(state), holding: None };
    let stream = stream::unfold(performance, |mut performance| async move {
        performance.next().await.map(|piece| (piece, performance))
    });
    let kind = [(header::CONTENT_TYPE, "text/event-stream")];
    (StatusCode::OK, kind, Body::from_stream(stream)).into_response()
}

/// One move of a streamed answer.
#[derive(Debug, Clone)]
enum Act {
    Send(Bytes),
    /// A piece of the step's own content: what `DROP` counts.
    Piece(Bytes),
    Pause(Duration),
    Hold(String),
    Break,
}

fn acts(state: &State, plan: &Plan, chunk: impl Fn(&Value, Option<&str>) -> Act) -> VecDeque<Act> {
    let piece = |delta: &Value| match chunk(delta, None) {
        Act::Send(bytes) => Act::Piece(bytes),
        other => other,
    };
    let hold = plan.hold.clone().map(Act::Hold);
    let mut acts = VecDeque::from([chunk(&json!({"role": "assistant", "content": ""}), None)]);
    if plan.think {
        acts.push_back(chunk(&json!({"reasoning_content": "Let me think about "}), None));
        acts.push_back(chunk(&json!({"reasoning_content": "this request."}), None));
    }
    let finish = match &plan.step {
        Step::Tool { name, input } => {
            let text = dumps(input);
            let (head, tail) = text.split_at(text.len() / 2);
            let id = format!("call_{}_{}", std::process::id(), state.next());
            acts.push_back(piece(&json!({"tool_calls": [{"index": 0, "id": id, "type": "function",
                "function": {"name": name, "arguments": ""}}]})));
            acts.push_back(piece(&json!({"tool_calls": [{"index": 0, "function": {"arguments": head}}]})));
            acts.extend(hold);
            acts.push_back(piece(&json!({"tool_calls": [{"index": 0, "function": {"arguments": tail}}]})));
            "tool_calls"
        }
        Step::Text(text) => {
            let mut words = words(text);
            let last = words.pop().unwrap_or_default();
            let pause = (plan.slow > 0).then(|| Act::Pause(Duration::from_millis(plan.slow)));
            for word in words {
                acts.push_back(piece(&json!({"content": word})));
                acts.extend(pause.clone());
            }
            acts.extend(hold);
            acts.push_back(piece(&json!({"content": last})));
            acts.extend(pause);
            "stop"
        }
    };
    acts.push_back(chunk(&json!({}), Some(finish)));
    acts.push_back(Act::Send(Bytes::from_static(b"data: [DONE]\n\n")));
    acts
}

/// Each word with the white space after it.
fn words(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut in_gap = true;
    for character in text.trim_start().chars() {
        match words.last_mut() {
            Some(word) if character.is_whitespace() || !in_gap => word.push(character),
            _ => words.push(character.to_string()),
        }
        in_gap = character.is_whitespace();
    }
    words
}

/// Ends the answer after `count` pieces of its content by breaking the connection.
fn cut(acts: &mut VecDeque<Act>, count: u64) {
    let mut left = count;
    let keep = acts.iter().position(|act| match act {
        Act::Piece(_) if left == 0 => true,
        Act::Piece(_) => {
            left -= 1;
            false
        }
        _ => false,
    });
    // With fewer pieces than asked for, the end itself is missing.
    acts.truncate(keep.unwrap_or(acts.len().saturating_sub(2)));
    acts.push_back(Act::Break);
}

/// A streamed answer under way.
struct Performance {
    acts: VecDeque<Act>,
    state: Arc<State>,
    holding: Option<String>,
}

impl Performance {
    async fn next(&mut self) -> Option<io::Result<Bytes>> {
        loop {
            match self.acts.pop_front()? {
                Act::Send(bytes) | Act::Piece(bytes) => return Some(Ok(bytes)),
                Act::Pause(time) => tokio::time::sleep(time).await,
                Act::Break => {
                    // Lets what was sent so far reach the client before the connection goes.
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    return Some(Err(io::Error::other("the script breaks the connection here")));
                }
                Act::Hold(name) => {
                    self.holding = Some(name.clone());
                    add(&self.state.held, &name);
                    let mut released = self.state.released.subscribe();
                    drop(released.wait_for(|names| names.contains(&name)).await);
                    self.holding = None;
                }
            }
        }
    }
}

impl Drop for Performance {
    fn drop(&mut self) {
        if let Some(name) = self.holding.take() {
            add(&self.state.abandoned, &name);
        }
    }
}

fn whole(state: &State, id: &str, model: &Value, usage: &Value, step: &Step) -> Response {
    let (message, finish) = match step {
        Step::Text(text) => (json!({"role": "assistant", "content": text}), "stop"),
        Step::Tool { name, input } => {
            let call = json!({"id": format!("call_{}", state.next()), "type": "function",
                "function": {"name": name, "arguments": dumps(input)}});
            (json!({"role": "assistant", "content": null, "tool_calls": [call]}), "tool_calls")
        }
    };
    let body = json!({"id": id, "object": "chat.completion", "created": CREATED, "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": finish}], "usage": usage});
    reply(StatusCode::OK, &body)
}

fn refuse(status: StatusCode, message: &str) -> Response {
    reply(status, &json!({"error": {"message": message}}))
}

fn reply(status: StatusCode, body: &Value) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], dumps(body)).into_response()
}

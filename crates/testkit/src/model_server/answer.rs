//! The plan as an HTTP answer, streamed or whole.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State as Extract;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use serde_json::{Value, json};

use super::arrived_request::ArrivedRequest;
use super::json_text::dumps;
use super::plan::{AnswerPlan, AnswerStep, CLOCK, HttpFault, WantedCall, plan};
use super::wire::{AnswerFinish, AnswerPiece, AnswerUsage, EncodeAnswer, WireFormat, tokens};
use super::{ModelServerState, add};

/// Every path ends here: servers are configured with all kinds of prefixes.
pub(super) fn router(state: Arc<ModelServerState>) -> Router {
    Router::new().fallback(handle).with_state(state)
}

async fn handle(
    Extract(state): Extract<Arc<ModelServerState>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    if method == Method::GET {
        return reply(
            StatusCode::OK,
            &json!({"object": "list", "data": [{"id": "fake", "object": "model"}]}),
        );
    }
    let Ok(body) = serde_json::from_slice::<Value>(&body) else {
        return refuse(StatusCode::BAD_REQUEST, "bad json");
    };
    let Some(format) = WireFormat::of(uri.path()) else {
        return refuse(StatusCode::NOT_FOUND, &format!("no route {}", uri.path()));
    };
    let planned = plan(&format.said(&body), &state.greeting);
    let arrival = ArrivedRequest::new(&method, &uri, &headers, body.clone());
    state.requests.send_modify(|all| all.push((format, arrival)));
    match planned {
        Ok(planned) => {
            if let Some(name) = &planned.mute {
                stand(&state, name).await;
            }
            answer(&state, format, uri.path(), &body, &planned)
        }
        Err(reason) => refuse(StatusCode::BAD_REQUEST, &reason),
    }
}

fn answer(
    state: &Arc<ModelServerState>,
    format: WireFormat,
    path: &str,
    body: &Value,
    plan: &AnswerPlan,
) -> Response {
    if let Some(failure) = &plan.error
        && state.spend(&plan.prompt, "ERR", failure.status.times)
    {
        return fail(format, failure);
    }
    let named = path.rsplit('/').next().and_then(|last| last.split(':').next()).unwrap_or_default();
    let model = body.get("model").cloned().unwrap_or_else(|| json!(named));
    let used = plan.used.unwrap_or(AnswerUsage { input: tokens(body), cached: 0, output: 20, reasoning: 0 });
    let mut encoder = format.encoder(&model, state.next());
    let pieces = pieces(state, plan);
    let called = pieces.iter().any(|piece| matches!(piece, AnswerPiece::Call { .. }));
    let finish = plan.finish.unwrap_or(if called { AnswerFinish::Tools } else { AnswerFinish::Stop });
    if !format.streams(path, body) {
        return reply(StatusCode::OK, &encoder.whole(&pieces, finish, used));
    }
    let mut acts = acts(plan, &pieces, &mut *encoder);
    acts.extend(encoder.end(finish, used).into_iter().map(send));
    if let Some(limit) = plan.drop
        && state.spend(&plan.prompt, "DROP", limit.times)
    {
        cut(&mut acts, limit.value);
        acts.push_back(AnswerMove::Break);
    }
    if let Some(limit) = plan.short
        && state.spend(&plan.prompt, "SHORT", limit.times)
    {
        cut(&mut acts, limit.value);
    }
    if let Some(limit) = plan.cut
        && state.spend(&plan.prompt, "CUT", limit.times)
    {
        cut_bytes(&mut acts, limit.value);
    }
    let clock = plan.clock.then(tokio::time::Instant::now);
    let performance = AnswerPlayback { acts, state: Arc::clone(state), holding: None, clock };
    let stream = stream::unfold(performance, |mut performance| async move {
        performance.next().await.map(|piece| (piece, performance))
    });
    let kind = [(header::CONTENT_TYPE, "text/event-stream")];
    (StatusCode::OK, kind, Body::from_stream(stream)).into_response()
}

fn fail(format: WireFormat, failure: &HttpFault) -> Response {
    let status = failure.status.value;
    let code = u16::try_from(status).ok().and_then(|status| StatusCode::from_u16(status).ok());
    let code = code.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = match &failure.body {
        Some(body) => (code, body.clone()).into_response(),
        None => reply(code, &format.error(status, &failure.complaint)),
    };
    for (name, value) in &failure.headers {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            response.headers_mut().insert(name, value);
        }
    }
    response
}

fn send(frame: String) -> AnswerMove {
    AnswerMove::Send(Bytes::from(frame))
}

/// What is said, piece by piece.
fn pieces(state: &ModelServerState, plan: &AnswerPlan) -> Vec<AnswerPiece> {
    let mut pieces = Vec::new();
    if plan.think {
        pieces.push(AnswerPiece::Thought("Let me think about ".to_owned()));
        pieces.push(AnswerPiece::Thought("this request.".to_owned()));
    }
    let hosted: Vec<String> = (0..plan.hosted).map(|_| format!("srv_{}", state.next())).collect();
    if !hosted.is_empty() {
        pieces.push(AnswerPiece::Hosted(hosted));
    }
    match &plan.step {
        AnswerStep::Text(text) => pieces.extend(words(text).into_iter().map(AnswerPiece::Text)),
        AnswerStep::Tools(wanted) => {
            for WantedCall { name, input } in wanted {
                let text = dumps(input);
                let (head, tail) = text.split_at(text.len() / 2);
                let id = format!("call_{}_{}", std::process::id(), state.next());
                pieces.push(AnswerPiece::Call { id, name: name.clone() });
                pieces.push(AnswerPiece::Input(head.to_owned()));
                pieces.push(AnswerPiece::Input(tail.to_owned()));
            }
        }
    }
    pieces
}

/// One move of a streamed answer.
#[derive(Debug, Clone)]
enum AnswerMove {
    Send(Bytes),
    /// A piece of the step's own content: what `DROP` counts.
    Piece(Bytes),
    Pause(Duration),
    Hold(String),
    Break,
}

/// The moves of a streamed answer, up to its end. What the script does to it happens before its last piece.
fn acts(plan: &AnswerPlan, pieces: &[AnswerPiece], encoder: &mut dyn EncodeAnswer) -> VecDeque<AnswerMove> {
    let mut acts: VecDeque<AnswerMove> = encoder.begin().into_iter().map(send).collect();
    let last = pieces.len().saturating_sub(1);
    for (at, piece) in pieces.iter().enumerate() {
        if at == last {
            acts.extend(plan.hold.clone().map(AnswerMove::Hold));
            acts.extend(plan.garble.then(|| send("data: {\"half\": \n\n".to_owned())));
            if let Some(complaint) = &plan.fail {
                acts.extend(encoder.fail(complaint).into_iter().map(send));
            }
        }
        let own = !matches!(piece, AnswerPiece::Thought(_) | AnswerPiece::Hosted(_));
        let told = encoder.piece(piece).into_iter().map(Bytes::from);
        acts.extend(told.map(|frame| if own { AnswerMove::Piece(frame) } else { AnswerMove::Send(frame) }));
        if plan.slow > 0 && matches!(piece, AnswerPiece::Text(_)) {
            acts.push_back(AnswerMove::Pause(Duration::from_millis(plan.slow)));
        }
    }
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

/// Ends the answer after `count` pieces of its content.
fn cut(acts: &mut VecDeque<AnswerMove>, count: u64) {
    let mut left = count;
    let keep = acts.iter().position(|act| match act {
        AnswerMove::Piece(_) if left == 0 => true,
        AnswerMove::Piece(_) => {
            left -= 1;
            false
        }
        _ => false,
    });
    // With fewer pieces than asked for, the end itself is missing.
    acts.truncate(keep.unwrap_or(acts.len().saturating_sub(2)));
}

/// Ends the answer after `count` bytes by breaking the connection.
fn cut_bytes(acts: &mut VecDeque<AnswerMove>, count: u64) {
    let mut left = usize::try_from(count).unwrap_or(usize::MAX);
    let mut kept = VecDeque::new();
    for act in acts.drain(..) {
        match act {
            AnswerMove::Send(bytes) | AnswerMove::Piece(bytes) if bytes.len() >= left => {
                kept.push_back(AnswerMove::Send(bytes.slice(..left)));
                break;
            }
            AnswerMove::Send(bytes) | AnswerMove::Piece(bytes) => {
                left -= bytes.len();
                kept.push_back(AnswerMove::Send(bytes));
            }
            other => kept.push_back(other),
        }
    }
    kept.push_back(AnswerMove::Break);
    *acts = kept;
}

/// A streamed answer under way.
struct AnswerPlayback {
    acts: VecDeque<AnswerMove>,
    state: Arc<ModelServerState>,
    holding: Option<String>,
    /// When the next word is due, where words say when they are sent.
    clock: Option<tokio::time::Instant>,
}

impl AnswerPlayback {
    async fn next(&mut self) -> Option<io::Result<Bytes>> {
        loop {
            match self.acts.pop_front()? {
                AnswerMove::Send(bytes) | AnswerMove::Piece(bytes) if self.clock.is_some() => {
                    let text = String::from_utf8_lossy(&bytes);
                    return Some(Ok(text.replace(CLOCK, &microseconds().to_string()).into()));
                }
                AnswerMove::Send(bytes) | AnswerMove::Piece(bytes) => return Some(Ok(bytes)),
                AnswerMove::Pause(time) => match &mut self.clock {
                    Some(due) => {
                        *due += time;
                        tokio::time::sleep_until(*due).await;
                    }
                    None => tokio::time::sleep(time).await,
                },
                AnswerMove::Break => {
                    // Lets what was sent so far reach the client before the connection goes.
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    return Some(Err(io::Error::other("the script breaks the connection here")));
                }
                AnswerMove::Hold(name) => {
                    self.holding = Some(name.clone());
                    stand(&self.state, &name).await;
                    self.holding = None;
                }
            }
        }
    }
}

/// The time on the clock.
#[expect(clippy::disallowed_methods, reason = "what is measured is how late the words come")]
fn microseconds() -> u128 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |time| time.as_micros())
}

/// Stands still until the test says that it may go on.
async fn stand(state: &ModelServerState, name: &str) {
    add(&state.held, name);
    let mut released = state.released.subscribe();
    drop(released.wait_for(|names| names.contains(name)).await);
}

impl Drop for AnswerPlayback {
    fn drop(&mut self) {
        if let Some(name) = self.holding.take() {
            add(&self.state.abandoned, &name);
        }
    }
}

fn refuse(status: StatusCode, message: &str) -> Response {
    reply(status, &json!({"error": {"message": message}}))
}

fn reply(status: StatusCode, body: &Value) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], dumps(body)).into_response()
}

//! Reading messages, and changing them afterwards.

use axum::Router;
use axum::extract::{Path, State};
use axum::http::header::LINK;
use axum::http::{HeaderName, HeaderValue, Uri};
use axum::routing::get;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use everturn_engine::Engine;
use everturn_engine::sessions::Conversation;
use everturn_interop::opencode::v1::{self, Message};
use everturn_model::entry::{Body, Compaction, Shell};
use everturn_model::mint::Mint;
use everturn_model::tree::Node;
use everturn_model::{EntryId, SessionId};
use serde_json::Value;

use super::whole;
use crate::App;
use crate::error::Error;
use crate::input::{Json, Query, entry_id, part_id, session_id};
use crate::reply::{Result, ok};

/// Where a client goes on reading, towards the past.
const NEXT: HeaderName = HeaderName::from_static("x-next-cursor");

pub(super) fn routes() -> Router<App> {
    Router::new()
        .route("/session/{session}/message", get(list).post(super::prompts::prompt))
        .route("/session/{session}/message/{message}", get(read).delete(remove))
        .route(
            "/session/{session}/message/{message}/part/{part}",
            axum::routing::delete(remove_part).patch(replace_part),
        )
}

/// The messages of a conversation.
pub(super) fn shown(conversation: &Conversation) -> Vec<Message> {
    let path: Vec<&Node> = conversation.nodes.iter().collect();
    v1::messages(&conversation.session.id, &path, &conversation.inbox)
}

/// The id of a message.
pub(super) fn id_of(message: &Message) -> &str {
    message.info.get("id").and_then(Value::as_str).unwrap_or_default()
}

async fn list(State(app): State<App>, Path(id): Path<String>, uri: Uri, query: Query) -> Result {
    let id = session_id(id)?;
    let limit = query.count("limit")?.map(|limit| usize::try_from(limit).unwrap_or(usize::MAX));
    let before = query.word("before").map(|cursor| read_cursor(&cursor)).transpose()?;
    if before.is_some() && limit.is_none() {
        return Err(Error::query("before needs a limit"));
    }
    // A page from the middle is cut out of the whole. One more than asked for shows whether there is more.
    let read = if before.is_some() { None } else { limit.map(|limit| limit.saturating_add(1)) };
    let conversation = app.engine.sessions().conversation(&id, read).await?;
    let path: Vec<&Node> = conversation.nodes.iter().collect();
    let mut messages = v1::conversation(&conversation.session.id, &path, &conversation.inbox);
    let mut end = messages.len();
    if let Some(before) = before {
        let found = messages.ids().position(|id| id == before);
        end = found.ok_or_else(|| Error::query("before names no message of this session"))?;
    }
    let surplus = end.saturating_sub(limit.unwrap_or(usize::MAX));
    messages.keep(surplus..end);
    let mut response = ok(&messages)?;
    if let (true, Some(limit), Some(first)) = (surplus > 0, limit, messages.ids().next()) {
        let cursor = URL_SAFE_NO_PAD.encode(first);
        let link = format!("<{}?limit={limit}&before={cursor}>; rel=\"next\"", uri.path());
        let headers = response.headers_mut();
        headers.extend(HeaderValue::try_from(cursor).ok().map(|cursor| (NEXT, cursor)));
        headers.extend(HeaderValue::try_from(link).ok().map(|link| (LINK, link)));
    }
    Ok(response)
}

fn read_cursor(cursor: &str) -> Result<String> {
    let bytes = URL_SAFE_NO_PAD.decode(cursor).ok();
    let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
    text.ok_or_else(|| Error::query("before is not a cursor of this server"))
}

async fn read(State(app): State<App>, Path((id, message)): Path<(String, String)>) -> Result {
    let (id, message) = (session_id(id)?, entry_id(message)?);
    let messages = shown(&app.engine.sessions().conversation(&id, None).await?);
    match messages.iter().find(|found| id_of(found) == message.as_str()) {
        Some(found) => ok(found),
        None => Err(everturn_engine::Error::NoMessage(message).into()),
    }
}

async fn remove(State(app): State<App>, Path((id, message)): Path<(String, String)>) -> Result {
    let (id, message) = (session_id(id)?, entry_id(message)?);
    let engine = app.engine;
    engine.sessions().get(&id).await?;
    whole(async move {
        on_entry(&engine, &id, message, |id, message| {
            let engine = engine.clone();
            async move { engine.sessions().hide_message(&id, &message).await }
        })
        .await
    })
    .await?;
    ok(&true)
}

async fn remove_part(
    State(app): State<App>,
    Path((id, message, part)): Path<(String, String, String)>,
) -> Result {
    let (id, message, part) = (session_id(id)?, entry_id(message)?, part_id(part)?);
    let engine = app.engine;
    engine.sessions().get(&id).await?;
    whole(async move {
        on_entry(&engine, &id, message, |id, message| {
            let (engine, part) = (engine.clone(), part.clone());
            async move { engine.sessions().hide_part(&id, &message, &part).await }
        })
        .await
    })
    .await?;
    ok(&true)
}

async fn replace_part(
    State(app): State<App>,
    Path((id, message, part)): Path<(String, String, String)>,
    Json(body): Json<Value>,
) -> Result {
    let (id, message, part) = (session_id(id)?, entry_id(message)?, part_id(part)?);
    for (key, own) in [("id", part.as_str()), ("messageID", message.as_str()), ("sessionID", id.as_str())] {
        if body.get(key).and_then(Value::as_str) != Some(own) {
            return Err(Error::body(format!("{key} must be {own}, as in the path")));
        }
    }
    app.engine.sessions().get(&id).await?;
    let mut mint = Mint::new(part.as_str());
    let read = v1::read_part(&id, message.as_str(), body, app.engine.mint().now(), &mut mint);
    let shown = v1::part(&id, message.as_str(), &read, None);
    let engine = app.engine;
    whole(async move {
        on_entry(&engine, &id, message, |id, message| {
            let (engine, part) = (engine.clone(), read.clone());
            async move { engine.sessions().replace_part(&id, &message, part).await }
        })
        .await
    })
    .await?;
    ok(&shown)
}

/// Does something to the entry that clients know by a message's id. That is its own id nearly always; the second
/// message of a pair and a message that came in under a taken id are looked for.
pub(super) async fn on_entry<T, F>(
    engine: &Engine,
    session: &SessionId,
    message: EntryId,
    act: impl Fn(SessionId, EntryId) -> F,
) -> Result<T, everturn_engine::Error>
where
    F: Future<Output = Result<T, everturn_engine::Error>>,
{
    match act(session.clone(), message.clone()).await {
        Err(everturn_engine::Error::NoMessage(_)) => {
            let conversation = engine.sessions().conversation(session, None).await?;
            let found = conversation.nodes.iter().find(|node| is_known_as(node, message.as_str()));
            let Some(node) = found else { return Err(everturn_engine::Error::NoMessage(message)) };
            act(session.clone(), node.entry.id.clone()).await
        }
        done => done,
    }
}

fn is_known_as(node: &Node, message: &str) -> bool {
    let second = match &node.entry.body {
        Body::Shell(Shell { pair, .. }) | Body::Compaction(Compaction { pair, .. }) => {
            pair.as_ref().map(|pair| pair.second.as_str())
        }
        _ => None,
    };
    node.entry.wire_id() == message || second == Some(message)
}

//! Reading messages, and changing them afterwards.

use axum::extract::State;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use everturn_engine::Engine;
use everturn_engine::inbox::WaitingOutcome;
use everturn_engine::sessions::{Conversation, PathPiece, StoredPath};
use everturn_interop::opencode::v1::{self, PartInfo, ReadNode, V1Message};
use everturn_model::derived_ids::DerivedIds;
use everturn_model::entry::{Body, Compaction, Shell};
use everturn_model::tree::{Node, NodeJson};
use everturn_model::{EntryId, SessionId};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::run_to_end;
use crate::App;
use crate::answer::{JsonAnswer, PageAnswer, Result, answer, printed_answer};
use crate::error::Error;
use crate::error::ErrorKind::{self, Busy, NotFound, Overloaded};
use crate::input::{Json, Limit, MessagePath, PartPath, Path, Query, SessionPath};
use crate::large::LargeAnswer;
use crate::operation::Operation;
use crate::wire::message::MessageWithParts;
use crate::wire::part::{NewPart, PartShape};

pub(super) fn operations() -> Vec<Operation> {
    let (one, part) = (
        "/session/{sessionID}/message/{messageID}",
        "/session/{sessionID}/message/{messageID}/part/{partID}",
    );
    vec![
        Operation::get("session.messages", "/session/{sessionID}/message", list)
            .fails_with([NotFound, Overloaded]),
        Operation::get("session.message", one, read).fails_with([NotFound, Overloaded]),
        Operation::delete("session.deleteMessage", one, remove).fails_with([NotFound, Busy]),
        Operation::delete("part.delete", part, remove_part).fails_with([NotFound, Busy, ErrorKind::Body]),
        Operation::patch("part.update", part, replace_part).fails_with([NotFound, Busy]),
    ]
}

/// The messages of a conversation.
pub(super) fn shown(conversation: &Conversation) -> Vec<V1Message> {
    let path: Vec<&Node> = conversation.nodes.iter().collect();
    v1::messages(&conversation.session.id, &path, &conversation.inbox)
}

/// The id of a message.
pub(super) fn id_of(message: &V1Message) -> &str {
    message.info.get("id").and_then(Value::as_str).unwrap_or_default()
}

/// Which messages a client wants to see.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
struct MessagesQuery {
    /// The newest so many; all where none is said.
    limit: Limit,
    /// Those before a cursor that an earlier answer gave.
    before: Option<String>,
}

async fn list(
    State(app): State<App>,
    Path(at): Path<SessionPath>,
    Query(asked): Query<MessagesQuery>,
) -> Result<PageAnswer<Vec<MessageWithParts>>> {
    let App { engine, answers, .. } = app;
    answers.build(LargeAnswer::Page, list_page(engine, at.session.0, asked)).await
}

async fn list_page(
    engine: Engine,
    id: SessionId,
    asked: MessagesQuery,
) -> Result<PageAnswer<Vec<MessageWithParts>>> {
    let limit = asked.limit.0.map(|limit| usize::try_from(limit).unwrap_or(usize::MAX));
    let before = asked.before.as_deref().map(read_cursor).transpose()?;
    if before.is_some() && limit.is_none() {
        return Err(Error::Query("before needs a limit".to_owned()));
    }
    let sessions = engine.sessions();
    // The page from the middle with the message that it ends before, and one more, which shows whether there is more.
    if let (Some(before), Some(limit)) = (&before, limit) {
        let piece = PathPiece::UpTo(EntryId::new(before.as_str()), limit.saturating_add(3));
        if let Some(path) = sessions.stored(&id, piece).await?
            && let Some(answer) = page(&path, Some(before), Some(limit), Alone::Must)?
        {
            return Ok(answer);
        }
    }
    let newest = limit.filter(|_| before.is_none());
    let piece = newest.map_or(PathPiece::Whole, |limit| PathPiece::Newest(limit.saturating_add(1)));
    let path = sessions.stored(&id, piece).await?;
    let path = path.ok_or_else(|| everturn_engine::Error::NoSession(id.clone()))?;
    page(&path, before.as_deref(), limit, Alone::May)?
        .ok_or_else(|| Error::Query("before names no message of this session".to_owned()))
}

/// Whether messages may be shown that say less than they would with the rest of the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Alone {
    May,
    Must,
}

/// The nodes of a piece of a path, read as far as they are shown.
fn read_nodes(path: &StoredPath) -> Result<Vec<ReadNode<'_>>> {
    let nodes = ReadNode::all(&path.nodes);
    Ok(nodes.map_err(|error| everturn_engine::Error::from(path.damaged(&error)))?)
}

/// A page; none when there is no message that it ends before, or when more of the path is needed.
fn page(
    path: &StoredPath,
    before: Option<&str>,
    limit: Option<usize>,
    alone: Alone,
) -> Result<Option<PageAnswer<Vec<MessageWithParts>>>> {
    let id = &path.session.id;
    let nodes = read_nodes(path)?;
    let mut messages = v1::stored_conversation(id, &nodes, &path.inbox);
    let end = match before {
        Some(before) => messages.ids().position(|id| id == before),
        None => Some(messages.len()),
    };
    let Some(end) = end else { return Ok(None) };
    let surplus = end.saturating_sub(limit.unwrap_or(usize::MAX));
    messages.keep(surplus..end);
    if alone == Alone::Must && !messages.stands_alone() {
        return Ok(None);
    }
    // Most of it leaves as it is stored, with some names around it.
    let stored: usize = path.nodes.iter().map(NodeJson::len).sum();
    let answer = printed_answer::<v1::ConversationView<'_>>(messages.to_json(stored + stored / 4 + 4096));
    let (true, Some(limit), Some(first)) = (surplus > 0, limit, messages.ids().next()) else {
        return Ok(Some(PageAnswer::last(answer)));
    };
    let cursor = URL_SAFE_NO_PAD.encode(first);
    let next = format!("/session/{id}/message?limit={limit}&before={cursor}");
    Ok(Some(PageAnswer::followed(answer, cursor, &next)))
}

fn read_cursor(cursor: &str) -> Result<String> {
    let bytes = URL_SAFE_NO_PAD.decode(cursor).ok();
    let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
    text.ok_or_else(|| Error::Query("before is not a cursor of this server".to_owned()))
}

async fn read(State(app): State<App>, Path(at): Path<MessagePath>) -> Result<JsonAnswer<MessageWithParts>> {
    let App { engine, answers, .. } = app;
    answers.build(LargeAnswer::Page, read_one(engine, at.session.0, at.message.0)).await
}

async fn read_one(engine: Engine, id: SessionId, message: EntryId) -> Result<JsonAnswer<MessageWithParts>> {
    let sessions = engine.sessions();
    for (piece, alone) in [(PathPiece::At(message.clone()), Alone::Must), (PathPiece::Whole, Alone::May)] {
        let Some(path) = sessions.stored(&id, piece).await? else { continue };
        let nodes = read_nodes(&path)?;
        let mut messages = v1::stored_conversation(&path.session.id, &nodes, &path.inbox);
        if messages.keep_one(message.as_str())
            && (alone == Alone::May || messages.stands_alone())
            && let Some(found) = messages.first()
        {
            return answer(&found);
        }
    }
    Err(everturn_engine::Error::NoMessage(message).into())
}

async fn remove(State(app): State<App>, Path(at): Path<MessagePath>) -> Result<JsonAnswer<bool>> {
    let (id, message) = (at.session.0, at.message.0);
    let engine = app.engine;
    engine.sessions().get(&id).await?;
    run_to_end(async move {
        // One that waits is taken back: it is not part of the conversation yet.
        if waited(engine.inbox().cancel(&id, &message).await)? {
            return Ok(());
        }
        on_entry(&engine, &id, message, |id, message| {
            let engine = engine.clone();
            async move { engine.sessions().hide_message(&id, &message).await }
        })
        .await
    })
    .await?;
    answer(&true)
}

async fn remove_part(State(app): State<App>, Path(at): Path<PartPath>) -> Result<JsonAnswer<bool>> {
    let (id, message, part) = (at.session.0, at.message.0, at.part.0);
    let engine = app.engine;
    engine.sessions().get(&id).await?;
    run_to_end(async move {
        if waited(engine.inbox().remove_part(&id, &message, &part).await)? {
            return Ok(());
        }
        on_entry(&engine, &id, message, |id, message| {
            let (engine, part) = (engine.clone(), part.clone());
            async move { engine.sessions().hide_part(&id, &message, &part).await }
        })
        .await
    })
    .await?;
    answer(&true)
}

async fn replace_part(
    State(app): State<App>,
    Path(at): Path<PartPath>,
    Json(body): Json<NewPart>,
) -> Result<JsonAnswer<PartShape>> {
    let (id, message, part) = (at.session.0, at.message.0, at.part.0);
    body.check()?;
    let NewPart(body) = body;
    for (key, own) in [("id", part.as_str()), ("messageID", message.as_str()), ("sessionID", id.as_str())] {
        if body.get(key).and_then(Value::as_str) != Some(own) {
            return Err(Error::Body(format!("{key} must be {own}, as in the path")));
        }
    }
    app.engine.sessions().get(&id).await?;
    let mut mint = DerivedIds::new(part.as_str());
    let new = v1::read_part(&id, message.as_str(), body, app.engine.mint().now(), &mut mint);
    let shown = answer(&PartInfo::of(&id, message.as_str(), &new));
    let engine = app.engine;
    run_to_end(async move {
        if waited(engine.inbox().edit_text(&id, &message, new.clone()).await)? {
            return Ok(());
        }
        on_entry(&engine, &id, message, |id, message| {
            let (engine, part) = (engine.clone(), new.clone());
            async move { engine.sessions().replace_part(&id, &message, part).await }
        })
        .await
    })
    .await?;
    shown
}

/// Whether a message waited, and was changed where it did.
fn waited(
    outcome: std::result::Result<WaitingOutcome, everturn_engine::Error>,
) -> std::result::Result<bool, everturn_engine::Error> {
    match outcome {
        Ok(WaitingOutcome::Done(_)) => Ok(true),
        Ok(WaitingOutcome::Promoted) | Err(everturn_engine::Error::NoMessage(_)) => Ok(false),
        Err(error) => Err(error),
    }
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

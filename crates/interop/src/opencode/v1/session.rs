//! The session as V1 clients see it.
//!
//! A session changes after its import. A field of the source that has another shape here is therefore shown as it came
//! only as long as the value here has not changed: each such field is kept as a pair of *here* and *there*.

use everturn_model::event::Seed;
use everturn_model::path::{self, PathState};
use everturn_model::permission::Rule;
use everturn_model::session::{ModelRef, Revert, SessionTimes, Spent, Summary};
use everturn_model::{EntryId, Extra, Map, Millis, Money, PartId, Session, SessionId, Tokens};
use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::opencode::shape::{self, ModelKey, millis, object, put, put_some, text};
use crate::opencode::unread;

/// Fields whose source differs from what would be printed here.
const PAIRS: &str = "v1-pairs";

/// The session as clients see it, to be written.
#[derive(Debug, Clone, Copy)]
pub struct SessionInfo<'a>(&'a Session);

impl<'a> SessionInfo<'a> {
    /// A session to be written.
    #[must_use]
    pub fn of(session: &'a Session) -> Self {
        Self(session)
    }
}

impl Serialize for SessionInfo<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.extra.get(PAIRS) {
            Some(pairs) if !pairs.is_empty() => session_info(self.0).serialize(serializer),
            _ => SessionFields::of(self.0).serialize(serializer),
        }
    }
}

/// The session as clients see it.
#[must_use]
pub fn session_info(session: &Session) -> Value {
    let mut map = plain(session);
    for (key, pair) in session.extra.get(PAIRS).into_iter().flatten() {
        if map.get(key) != pair.get("here") {
            continue;
        }
        match pair.get("there") {
            Some(there) => drop(map.insert(key.clone(), there.clone())),
            None => drop(map.shift_remove(key)),
        }
    }
    map.into()
}

/// A session from what a client or a file says of it; none when it has no id.
#[must_use]
pub fn read_session(map: Map) -> Option<Session> {
    let id = SessionId::new(text(&map, "id")?);
    let word = |key: &str| text(&map, key).map(str::to_owned);
    let time = map.get("time").and_then(Value::as_object);
    let moment = |key: &str| time.and_then(|time| millis(time, key));
    let created = moment("created").unwrap_or_default();
    let mut session = Session::new(
        id,
        text(&map, "projectID").unwrap_or_default(),
        text(&map, "directory").unwrap_or_default(),
        text(&map, "title").unwrap_or_default(),
        text(&map, "version").unwrap_or_default(),
        created,
    );
    session.slug = word("slug").unwrap_or_default();
    session.workspace = word("workspaceID");
    session.path = word("path");
    session.parent = text(&map, "parentID").map(SessionId::new);
    session.agent = word("agent");
    session.model =
        map.get("model").and_then(|model| shape::read_model(model, ModelKey::Id)).map(|(model, _)| model);
    session.summary = map.get("summary").and_then(shape::read_summary);
    session.share =
        map.get("share").and_then(|share| share.get("url")).and_then(Value::as_str).map(str::to_owned);
    session.metadata = map.get("metadata").and_then(Value::as_object).cloned();
    session.foreign_rules = Some(map.get("permission").and_then(shape::read_rules).unwrap_or_default());
    session.revert = map.get("revert").and_then(read_revert);
    session.cost = map.get("cost").map(|cost| shape::read_money(cost).0).unwrap_or_default();
    session.tokens = map.get("tokens").map(|tokens| shape::read_tokens(tokens).0).unwrap_or_default();
    session.time = SessionTimes {
        created,
        updated: moment("updated").unwrap_or(created),
        compacting: moment("compacting"),
        archived: moment("archived"),
        moved: None,
        trashed: None,
    };
    session.spent = Spent { tokens: session.tokens, cost: session.cost };
    keep_pairs(&mut session, map);
    Some(session)
}

/// Prepares a session for its entries: the fold will take agent, model and sums from the path, and what the source
/// said is still shown as long as the path stays what it is.
pub(in crate::opencode) fn adopt(session: &mut Session, seed: &Seed) {
    let Value::Object(shown) = session_info(session) else { return };
    // A seed of V1 messages is one chain, so its nodes are its path.
    let state = path::state(&seed.nodes);
    let spoken = shown.contains_key("tokens") || shown.contains_key("cost");
    if !spoken {
        session.spent = Spent { tokens: state.tokens, cost: state.cost };
    }
    let kept = PathState::cached(session);
    session.agent = state.agent.or(kept.agent);
    session.model = state.model.or(kept.model);
    session.tokens = state.tokens;
    session.cost = state.cost;
    keep_pairs(session, shown);
}

fn keep_pairs(session: &mut Session, source: Map) {
    session.extra.set(PAIRS, Map::new());
    let mut printed = plain(session);
    let mut pairs = Map::new();
    for (key, there) in source {
        match printed.remove(&key) {
            Some(here) if here == there => {}
            Some(here) => put(&mut pairs, &key, object([("here", here), ("there", there)])),
            None => put(&mut pairs, &key, object([("there", there)])),
        }
    }
    for (key, here) in printed {
        put(&mut pairs, &key, object([("here", here)]));
    }
    session.extra.set(PAIRS, pairs);
}

fn plain(session: &Session) -> Map {
    match unread::to_value(&SessionFields::of(session)) {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

/// A session, without what its source had otherwise.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SessionFields<'a> {
    id: &'a SessionId,
    #[serde(skip_serializing_if = "str::is_empty")]
    slug: &'a str,
    #[serde(rename = "projectID")]
    project: &'a str,
    #[serde(rename = "workspaceID", skip_serializing_if = "Option::is_none")]
    workspace: Option<&'a str>,
    directory: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<&'a str>,
    #[serde(rename = "parentID", skip_serializing_if = "Option::is_none")]
    parent: Option<&'a SessionId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    summary: Option<&'a Summary>,
    cost: Money,
    tokens: &'a Tokens,
    #[serde(skip_serializing_if = "Option::is_none")]
    share: Option<ShareAddress<'a>>,
    title: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<ChosenModel<'a>>,
    version: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<&'a Map>,
    time: SessionTimesView,
    #[serde(skip_serializing_if = "Option::is_none")]
    permission: Option<&'a [Rule]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    revert: Option<Value>,
}

#[derive(Serialize)]
struct ShareAddress<'a> {
    url: &'a str,
}

#[derive(Serialize)]
struct ChosenModel<'a> {
    id: &'a str,
    #[serde(rename = "providerID")]
    provider: &'a str,
    variant: &'a str,
}

#[derive(Serialize)]
struct SessionTimesView {
    created: Millis,
    updated: Millis,
    #[serde(skip_serializing_if = "Option::is_none")]
    compacting: Option<Millis>,
    #[serde(skip_serializing_if = "Option::is_none")]
    archived: Option<Millis>,
}

impl<'a> SessionFields<'a> {
    fn of(session: &'a Session) -> Self {
        let time = &session.time;
        let brought = session.foreign_rules.as_deref().filter(|rules| !rules.is_empty());
        Self {
            id: &session.id,
            slug: &session.slug,
            project: &session.project,
            workspace: session.workspace.as_deref(),
            directory: &session.directory,
            path: session.path.as_deref(),
            parent: session.parent.as_ref(),
            summary: session.summary.as_ref(),
            cost: session.cost,
            tokens: &session.tokens,
            share: session.share.as_deref().map(|url| ShareAddress { url }),
            title: &session.title,
            agent: session.agent.as_deref(),
            model: session.model.as_ref().map(ChosenModel::of),
            version: &session.version,
            metadata: session.metadata.as_ref(),
            time: SessionTimesView {
                created: time.created,
                updated: time.updated,
                compacting: time.compacting,
                archived: time.archived,
            },
            permission: session.permission.as_deref().or(brought),
            revert: session.revert.as_ref().map(revert),
        }
    }
}

impl<'a> ChosenModel<'a> {
    // Clients are told of a variant even when nobody chose one.
    fn of(model: &'a ModelRef) -> Self {
        let variant = model.variant.as_deref().unwrap_or("default");
        Self { id: &model.model, provider: &model.provider, variant }
    }
}

/// A staged revert as clients see it.
pub(in crate::opencode) fn revert(revert: &Revert) -> Value {
    let mut map = object([("messageID", revert.message.as_str().into())]);
    put_some(&mut map, "partID", revert.part.as_ref().map(PartId::as_str));
    put_some(&mut map, "snapshot", revert.snapshot.as_deref());
    put_some(&mut map, "diff", revert.diff.as_deref());
    put_some(&mut map, "files", revert.files.clone());
    for (key, value) in &revert.extra {
        map.insert(key.clone(), value.clone());
    }
    map.into()
}

/// A staged revert from what was said of it.
pub(in crate::opencode) fn read_revert(value: &Value) -> Option<Revert> {
    let map = value.as_object()?;
    let mut revert = Revert::new(EntryId::new(text(map, "messageID")?));
    for (key, value) in map {
        match (key.as_str(), value) {
            ("messageID", _) => {}
            ("partID", Value::String(part)) => revert.part = Some(PartId::new(part.as_str())),
            ("snapshot", Value::String(snapshot)) => revert.snapshot = Some(snapshot.clone()),
            ("diff", Value::String(diff)) => revert.diff = Some(diff.clone()),
            ("files", files) if !files.is_null() => revert.files = Some(files.clone()),
            _ => drop(revert.extra.insert(key.clone(), value.clone())),
        }
    }
    Some(revert)
}

/// Fields of a session that no dialect shows: files kept beside it.
pub(in crate::opencode) fn beside(extra: &Extra, name: &str) -> Option<Value> {
    extra.field("v1-beside", name).cloned()
}

/// Keeps a file beside a session.
pub(in crate::opencode) fn keep_beside(extra: &mut Extra, name: &str, value: Value) {
    extra.put("v1-beside", name, value);
}

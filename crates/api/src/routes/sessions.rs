//! Sessions as a whole: list, create, read, change, delete, fork.

use axum::Router;
use axum::extract::{Path, State};
use axum::routing::{get, post};
use everturn_engine::sessions::Filter;
use everturn_interop::opencode::v1;
use everturn_model::Session;
use everturn_model::event::SessionChange;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::messages::on_entry;
use super::whole;
use crate::App;
use crate::hub;
use crate::input::{Json, MaybeJson, Query, entry_id, session_id};
use crate::place::Place;
use crate::reply::{Result, ok};
use crate::wire::session::{Create, Update};

/// How many sessions a list has when nobody says.
const LISTED: u32 = 100;

pub(super) fn routes() -> Router<App> {
    Router::new()
        .route("/session", get(list).post(create))
        .route("/session/status", get(statuses))
        .route("/session/{session}", get(read).patch(update).delete(remove))
        .route("/session/{session}/children", get(children))
        .route("/session/{session}/todo", get(todo))
        .route("/session/{session}/diff", get(diff))
        .route("/session/{session}/fork", post(fork))
}

async fn list(State(app): State<App>, Place(location): Place, query: Query) -> Result {
    let limit = query.count("limit")?.unwrap_or(LISTED);
    let path = query.text("path");
    let below = path.as_deref().unwrap_or_default().trim_matches('/');
    // A path is asked for inside the project; a folder only where the client names it.
    let whole_project = path.is_some() || query.text("scope").as_deref() == Some("project");
    let directory = (!whole_project && query.word("directory").is_some())
        .then(|| location.directory.display().to_string());
    let filter = Filter {
        project: None,
        directory,
        roots: query.flag("roots")?,
        search: query.word("search"),
        since: query.moment("start")?,
        archived: true,
        trashed: false,
        limit: below.is_empty().then_some(limit),
    };
    let mut sessions = app.engine.projects().sessions(&location, filter).await?;
    if !below.is_empty() {
        sessions.retain(|session| is_below(session, below));
        sessions.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    }
    ok(&shown(&sessions))
}

fn is_below(session: &Session, path: &str) -> bool {
    let rest = session.path.as_deref().and_then(|own| own.strip_prefix(path));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn shown(sessions: &[Session]) -> Vec<Value> {
    sessions.iter().map(v1::session_info).collect()
}

async fn create(
    State(app): State<App>,
    Place(location): Place,
    MaybeJson(body): MaybeJson<Create>,
) -> Result {
    let new = body.into_new()?;
    if let Some(parent) = &new.parent {
        app.engine.sessions().get(parent).await?;
    }
    let session = whole(async move { app.engine.sessions().create(&location, new).await }).await?;
    ok(&v1::session_info(&session))
}

async fn statuses(State(app): State<App>) -> Result {
    let statuses = app.engine.drains().statuses().into_iter();
    let map: Map<String, Value> =
        statuses.map(|(id, signal)| (id.to_string(), hub::status(&signal))).collect();
    ok(&map)
}

async fn read(State(app): State<App>, Path(id): Path<String>) -> Result {
    ok(&v1::session_info(&app.engine.sessions().get(&session_id(id)?).await?))
}

async fn update(State(app): State<App>, Path(id): Path<String>, Json(body): Json<Update>) -> Result {
    let id = session_id(id)?;
    let title = body.title.clone();
    let mut changes = body.changes()?;
    let mut session = app.engine.sessions().get(&id).await?;
    for change in &mut changes {
        // Rules are added behind those that are there, and the last one counts.
        if let SessionChange::Permission { rules: Some(rules) } = change {
            let mut all = session.permission.clone().unwrap_or_default();
            all.append(rules);
            *rules = all;
        }
    }
    if let Some(title) = title {
        let (engine, id) = (app.engine.clone(), id.clone());
        session = whole(async move { engine.sessions().rename(&id, &title).await }).await?;
    }
    if !changes.is_empty() {
        session = whole(async move { app.engine.sessions().change(&id, changes).await }).await?;
    }
    ok(&v1::session_info(&session))
}

async fn remove(State(app): State<App>, Path(id): Path<String>) -> Result {
    let id = session_id(id)?;
    whole(async move { app.engine.sessions().trash(&id).await }).await?;
    ok(&true)
}

async fn children(State(app): State<App>, Path(id): Path<String>) -> Result {
    let id = session_id(id)?;
    app.engine.sessions().get(&id).await?;
    ok(&shown(&app.engine.sessions().children(&id).await?))
}

async fn todo(State(app): State<App>, Path(id): Path<String>) -> Result {
    let id = session_id(id)?;
    app.engine.sessions().get(&id).await?;
    ok(&app.engine.sessions().todos(&id).await?)
}

async fn diff(State(app): State<App>, Path(id): Path<String>, query: Query) -> Result {
    let id = session_id(id)?;
    app.engine.sessions().get(&id).await?;
    let diffs = match query.word("messageID").map(entry_id).transpose()? {
        None => app.engine.sessions().diff(&id, None).await?,
        Some(message) => {
            on_entry(&app.engine, &id, message, |id, message| {
                let engine = app.engine.clone();
                async move { engine.sessions().diff(&id, Some(&message)).await }
            })
            .await?
        }
    };
    ok(&diffs)
}

#[derive(Debug, Default, Deserialize)]
struct Fork {
    #[serde(rename = "messageID")]
    message: Option<String>,
}

async fn fork(State(app): State<App>, Path(id): Path<String>, MaybeJson(body): MaybeJson<Fork>) -> Result {
    let id = session_id(id)?;
    let message = body.message.map(entry_id).transpose()?;
    app.engine.sessions().get(&id).await?;
    let session = match message {
        None => whole(async move { app.engine.sessions().fork(&id, None).await }).await?,
        Some(message) => {
            let engine = app.engine;
            whole(async move {
                on_entry(&engine, &id, message, |id, message| {
                    let engine = engine.clone();
                    async move { engine.sessions().fork(&id, Some(&message)).await }
                })
                .await
            })
            .await?
        }
    };
    ok(&v1::session_info(&session))
}

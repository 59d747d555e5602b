//! Sessions as a whole: list, create, read, change, delete, fork.

use std::collections::BTreeMap;

use axum::extract::State;
use everturn_engine::sessions::{ArchivedSessions, Filter};
use everturn_interop::opencode::v1::SessionInfo;
use everturn_model::{EntryId, Session};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, de};

use super::messages::on_entry;
use super::run_to_end;
use crate::App;
use crate::answer::{JsonAnswer, NoContent, Result, answer};
use crate::error::Error;
use crate::error::ErrorKind::{Busy, Conflict, NotFound};
use crate::input::{
    FlagParameter, Id, Json, Limit, MomentParameter, OptionalJson, Path, Query, SessionPath, TextParameter,
};
use crate::operation::Operation;
use crate::wire::session::{
    FileDiffShape, ForkBody, SessionCreate, SessionMoveBody, SessionPatch, SessionShape, SessionStatus,
    TodoShape,
};
use crate::workdir::Workdir;

/// How many sessions a list has when nobody says.
const LISTED: u32 = 100;

pub(super) fn operations() -> Vec<Operation> {
    vec![
        Operation::get("session.list", "/session", list),
        Operation::post("session.create", "/session", create).fails_with([NotFound, Conflict]),
        Operation::get("session.status", "/session/status", statuses),
        Operation::get("session.get", "/session/{sessionID}", read).fails_with([NotFound]),
        Operation::patch("session.update", "/session/{sessionID}", update).fails_with([NotFound]),
        Operation::delete("session.delete", "/session/{sessionID}", remove).fails_with([NotFound]),
        Operation::get("session.children", "/session/{sessionID}/children", children).fails_with([NotFound]),
        Operation::get("session.todo", "/session/{sessionID}/todo", todo).fails_with([NotFound]),
        Operation::get("session.diff", "/session/{sessionID}/diff", diff).fails_with([NotFound]),
        Operation::post(
            "experimental.controlPlane.moveSession",
            "/experimental/control-plane/move-session",
            relocate,
        )
        .fails_with([NotFound, Busy]),
        Operation::post("session.fork", "/session/{sessionID}/fork", fork).fails_with([NotFound]),
    ]
}

/// Which sessions a client wants to see.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
struct SessionsQuery {
    /// `project`: those of the whole project, wherever in it.
    #[schemars(with = "Option<String>", extend("enum" = ["project"]))]
    scope: Option<ScopeParameter>,
    /// Those below this path of the project.
    path: TextParameter,
    /// Without those that belong to another session.
    roots: FlagParameter,
    /// Active at or after this moment.
    start: MomentParameter,
    /// Whose title contains this.
    search: Option<String>,
    limit: Limit,
    #[schemars(skip)]
    directory: Option<String>,
}

/// How far a list reaches.
#[derive(Debug)]
struct ScopeParameter;

impl<'de> Deserialize<'de> for ScopeParameter {
    fn deserialize<D: Deserializer<'de>>(from: D) -> std::result::Result<Self, D::Error> {
        match String::deserialize(from)?.as_str() {
            "project" => Ok(Self),
            other => Err(de::Error::custom(format!("must be project, not {other:?}"))),
        }
    }
}

async fn list(
    State(app): State<App>,
    Workdir(location): Workdir,
    Query(asked): Query<SessionsQuery>,
) -> Result<JsonAnswer<Vec<SessionShape>>> {
    let limit = asked.limit.0.unwrap_or(LISTED);
    let below = asked.path.0.as_deref().unwrap_or_default().trim_matches('/');
    // A path is asked for inside the project; a folder only where the client names it.
    let whole_project = asked.path.0.is_some() || asked.scope.is_some();
    let directory =
        (!whole_project && asked.directory.is_some()).then(|| location.directory.display().to_string());
    let filter = Filter {
        project: None,
        directory,
        roots: asked.roots.0,
        parent: None,
        search: asked.search,
        since: asked.start.0,
        archived: ArchivedSessions::Included,
        trashed: false,
        limit: below.is_empty().then_some(limit),
    };
    let mut sessions = app.engine.projects().sessions(&location, filter).await?;
    if !below.is_empty() {
        sessions.retain(|session| is_below(session, below));
        sessions.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    }
    answer(&shown(&sessions))
}

fn is_below(session: &Session, path: &str) -> bool {
    let rest = session.path.as_deref().and_then(|own| own.strip_prefix(path));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn shown(sessions: &[Session]) -> Vec<SessionInfo<'_>> {
    sessions.iter().map(SessionInfo::of).collect()
}

async fn create(
    State(app): State<App>,
    Workdir(location): Workdir,
    OptionalJson(body): OptionalJson<SessionCreate>,
) -> Result<JsonAnswer<SessionShape>> {
    let new = body.into_new()?;
    if let Some(parent) = &new.parent {
        app.engine.sessions().get(parent).await?;
    }
    let session = run_to_end(async move { app.engine.sessions().create(&location, new).await }).await?;
    answer(&SessionInfo::of(&session))
}

async fn statuses(
    State(app): State<App>,
    Workdir(location): Workdir,
) -> Result<JsonAnswer<BTreeMap<String, SessionStatus>>> {
    let statuses = app.engine.drains().statuses();
    let sessions = statuses.iter().map(|(id, _)| id.clone()).collect();
    let here = app.engine.projects().held_by(&location, sessions).await?;
    let of_here = statuses.iter().filter(|(id, _)| here.contains(id));
    let shown: BTreeMap<String, SessionStatus> =
        of_here.map(|(id, signal)| (id.to_string(), signal.into())).collect();
    answer(&shown)
}

async fn read(State(app): State<App>, Path(at): Path<SessionPath>) -> Result<JsonAnswer<SessionShape>> {
    let session = app.engine.sessions().get(&at.session.0).await?;
    answer(&SessionInfo::of(&session))
}

async fn update(
    State(app): State<App>,
    Path(at): Path<SessionPath>,
    Json(body): Json<SessionPatch>,
) -> Result<JsonAnswer<SessionShape>> {
    let id = at.session.0;
    let title = body.title.clone();
    let changes = body.changes()?;
    let update = async move { app.engine.sessions().update(&id, title.as_deref(), changes).await };
    answer(&SessionInfo::of(&run_to_end(update).await?))
}

async fn remove(State(app): State<App>, Path(at): Path<SessionPath>) -> Result<JsonAnswer<bool>> {
    let id = at.session.0;
    run_to_end(async move { app.engine.sessions().trash(&id).await }).await?;
    answer(&true)
}

async fn children(
    State(app): State<App>,
    Path(at): Path<SessionPath>,
) -> Result<JsonAnswer<Vec<SessionShape>>> {
    let id = at.session.0;
    app.engine.sessions().get(&id).await?;
    let children = app.engine.sessions().children(&id).await?;
    answer(&shown(&children))
}

async fn todo(State(app): State<App>, Path(at): Path<SessionPath>) -> Result<JsonAnswer<Vec<TodoShape>>> {
    answer(&app.engine.sessions().todos(&at.session.0).await?)
}

/// Which changes a client wants to see.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
struct DiffQuery {
    #[serde(rename = "messageID")]
    message: Option<Id<EntryId>>,
}

async fn diff(
    State(app): State<App>,
    Path(at): Path<SessionPath>,
    Query(asked): Query<DiffQuery>,
) -> Result<JsonAnswer<Vec<FileDiffShape>>> {
    let id = at.session.0;
    app.engine.sessions().get(&id).await?;
    let diffs = match asked.message {
        None => app.engine.sessions().diff(&id, None).await?,
        Some(message) => {
            on_entry(&app.engine, &id, message.0, |id, message| {
                let engine = app.engine.clone();
                async move { engine.sessions().diff(&id, Some(&message)).await }
            })
            .await?
        }
    };
    answer(&diffs)
}

async fn relocate(State(app): State<App>, Json(body): Json<SessionMoveBody>) -> Result<NoContent> {
    if body.changes {
        return Err(Error::Body(
            "files stay where they are: changes of them cannot be moved along".to_owned(),
        ));
    }
    let (id, directory) = (body.session.0, body.destination.directory);
    // Nobody who names nothing means the folder that the server was started in, and no project is in what the system makes up.
    let made_up = ["/proc", "/sys"];
    if directory.is_empty()
        || made_up.iter().any(|made_up| std::path::Path::new(&directory).starts_with(made_up))
    {
        return Err(Error::Body(format!("{directory:?} is no folder that a session can move to")));
    }
    run_to_end(async move { app.engine.sessions().relocate(&id, &directory).await }).await?;
    Ok(NoContent)
}

async fn fork(
    State(app): State<App>,
    Path(at): Path<SessionPath>,
    OptionalJson(body): OptionalJson<ForkBody>,
) -> Result<JsonAnswer<SessionShape>> {
    let id = at.session.0;
    app.engine.sessions().get(&id).await?;
    let session = match body.message {
        None => run_to_end(async move { app.engine.sessions().fork(&id, None).await }).await?,
        Some(message) => {
            let engine = app.engine;
            run_to_end(async move {
                on_entry(&engine, &id, message.0, |id, message| {
                    let engine = engine.clone();
                    async move { engine.sessions().fork(&id, Some(&message)).await }
                })
                .await
            })
            .await?
        }
    };
    answer(&SessionInfo::of(&session))
}

//! The handlers, by resource.
//!
//! # Layout
//! - `sessions`: sessions as a whole
//! - `turns`: abort, revert and unrevert
//! - `messages`: reading messages, and changing them afterwards
//! - `prompts`: prompting
//! - `requests`: permission requests and questions
//! - `events`: the two event streams
//! - `settings`: configuration, providers, agents
//! - `places`: paths, projects, version control
//! - `mcp`: MCP servers
//! - `status`: health and what clients ask for at their start
//! - `absent`: what OpenCode has and this release has not

use axum::Router;
use axum::extract::Request;

use crate::App;
use crate::error::Error;

mod absent;
mod events;
mod mcp;
mod messages;
mod places;
mod prompts;
mod requests;
mod sessions;
mod settings;
mod status;
mod turns;

/// All routes. What is under `/api` (OpenCode's V2 protocol) is not there yet: the terminal asks for some of it at
/// its start and does without when it gets a 404.
pub(crate) fn all() -> Router<App> {
    Router::new()
        .merge(sessions::routes())
        .merge(turns::routes())
        .merge(messages::routes())
        .merge(prompts::routes())
        .merge(requests::routes())
        .merge(events::routes())
        .merge(settings::routes())
        .merge(places::routes())
        .merge(mcp::routes())
        .merge(status::routes())
        .merge(absent::routes())
        .fallback(|request: Request| async move { Error::NoRoute(name(&request)) })
        .method_not_allowed_fallback(|request: Request| async move {
            Error::NoMethod(format!("no route {}", name(&request)))
        })
}

fn name(request: &Request) -> String {
    format!("{} {}", request.method(), request.uri().path())
}

/// Work that goes on when its client goes away in the middle of it: half of an admission is none.
async fn whole<T: Send + 'static>(
    work: impl Future<Output = Result<T, everturn_engine::Error>> + Send + 'static,
) -> Result<T, Error> {
    Ok(tokio::spawn(work).await??)
}

//! The handlers, by resource.
//!
//! # Layout
//! - `sessions`: sessions as a whole
//! - `turns`: abort, revert and unrevert
//! - `messages`: reading messages, and changing them afterwards
//! - `prompts`: prompting
//! - `commands`: slash commands
//! - `shell`: commands of a person
//! - `inbox`: prompts that wait
//! - `request`: what a model was sent
//! - `requests`: permission requests and questions
//! - `compaction`: summing a conversation up
//! - `events`: the two event streams
//! - `settings`: configuration, providers, agents
//! - `places`: paths, projects, version control
//! - `mcp`: MCP servers
//! - `status`: health and what clients ask for at their start
//! - `unsupported`: what clients of OpenCode offer and this release has not

use axum::Router;
use axum::extract::Request;

use crate::App;
use crate::error::Error;
use crate::operation::Operation;

mod commands;
mod compaction;
mod events;
mod inbox;
mod mcp;
mod messages;
mod places;
mod prompts;
mod request;
mod requests;
mod sessions;
mod settings;
mod shell;
mod status;
mod turns;
mod unsupported;

/// All operations. What is under `/api` (OpenCode's V2 protocol) is not there yet: the terminal asks for some of it at
/// its start and does without when it gets a 404.
pub(crate) fn table() -> Vec<Operation> {
    [
        sessions::operations(),
        turns::operations(),
        messages::operations(),
        prompts::operations(),
        commands::operations(),
        shell::operations(),
        inbox::operations(),
        compaction::operations(),
        request::operations(),
        requests::operations(),
        events::operations(),
        settings::operations(),
        places::operations(),
        mcp::operations(),
        status::operations(),
        unsupported::operations(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// A route for each operation of the table, and nothing else.
pub(crate) fn all() -> Router<App> {
    let router = table().into_iter().fold(Router::new(), |router, operation| operation.mount(router));
    router
        .fallback(|request: Request| async move { Error::NoRoute(name(&request)) })
        .method_not_allowed_fallback(|request: Request| async move { Error::NoMethod(name(&request)) })
}

fn name(request: &Request) -> String {
    format!("{} {}", request.method(), request.uri().path())
}

/// Runs work to its end even if the client goes away in the middle of it.
async fn run_to_end<T: Send + 'static>(
    work: impl Future<Output = Result<T, everturn_engine::Error>> + Send + 'static,
) -> Result<T, Error> {
    Ok(tokio::spawn(work).await??)
}

//! `everturn session`: list, search, show, export and import, go on, move, archive, delete and restore.
//!
//! - `lookup`: from what a person typed to a session, or to what they may have meant
//! - `show`: a conversation as a person reads it
//! - `state`: what a session does or waits for
//! - `shelf`: the archive and the trash
//! - `inbox`: prompts that wait
//! - `compact`: summaries in place of what no longer fits
//! - `pin`: what every summary keeps word for word
//! - `request`: what the model was sent

mod compact;
mod inbox;
pub(super) mod lookup;
mod pin;
mod request;
mod shelf;
mod show;
mod state;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use clap::{Args, Subcommand};
use everturn_engine::Engine;
use everturn_engine::sessions::{ArchivedSessions, Filter};
use everturn_interop::opencode::{export, v1};
use everturn_model::session::Spent;
use everturn_model::tree::Node;
use everturn_model::{Money, Session};
use everturn_tools::foreign_file::{self, ReadBounds};
use serde_json::{Value, json};

use super::import::rules_line;
use super::run::RunCommand;
use crate::settings::{self, Listeners};
use crate::table;
use compact::CompactCommand;
use inbox::InboxCommand;
use pin::PinCommand;
use request::RequestCommand;
use shelf::Shelf;

/// How long work that is told to stop may take before this is said.
const STOPPING: Duration = Duration::from_secs(10);

/// The largest export that is taken in, in bytes.
const LARGEST: u64 = 1 << 30;

/// List, search, show, export, import, move, archive and delete sessions
#[derive(Debug, Subcommand)]
pub(crate) enum SessionCommand {
    /// The newest sessions of this project, or of this folder outside of repositories
    List {
        /// Of all projects and folders
        #[arg(short, long)]
        all: bool,
        /// The archived ones, which are not listed otherwise
        #[arg(long)]
        archived: bool,
        /// At most so many
        #[arg(short = 'n', long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
        limit: u32,
        /// Whose title contains this
        #[arg(long)]
        search: Option<String>,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Titles and texts in which all words occur, in every project
    Search {
        /// The words; the last one may be unfinished
        #[arg(required = true)]
        words: Vec<String>,
        /// At most so many
        #[arg(short = 'n', long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
        limit: u32,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// A session's conversation
    Show {
        /// The session
        id: String,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    Request(RequestCommand),
    /// Write a session as OpenCode exports it
    Export {
        /// The session
        id: String,
        /// Into this file instead of standard output
        #[arg(short, long)]
        output: Option<PathBuf>,
    },
    /// Read a session that OpenCode or Everturn exported
    Import {
        /// The file; - is standard input
        file: PathBuf,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    Inbox(InboxCommand),
    Compact(CompactCommand),
    Pin(PinCommand),
    /// Stop the work of a session, whichever process runs it; what waits there is kept
    Abort {
        /// The session
        id: String,
    },
    /// Go on here and now with what waits in a session: prompts, or a turn that waits for a person
    Resume {
        /// The session
        id: String,
        /// Say yes to every permission request instead of no
        #[arg(long)]
        yes: bool,
    },
    /// Go on with a session in another folder, with those of its subagents; files stay where they are
    Move {
        /// The session
        id: String,
        /// The folder
        folder: PathBuf,
    },
    /// Take sessions out of the list; they can still be used
    Archive(SessionIds),
    /// Put archived sessions back into the list
    Unarchive(SessionIds),
    /// Put sessions into the trash, with those of their subagents
    Delete(SessionIds),
    /// Take sessions out of the trash
    Restore(SessionIds),
    /// Delete sessions for good, which cannot be undone
    Purge {
        #[command(flatten)]
        sessions: SessionIds,
        /// Write the database anew as well, so that no byte of it stays in free space; takes time in proportion to all that is stored
        #[arg(long)]
        erase: bool,
        /// Without asking, and also those that are not in the trash
        #[arg(long)]
        yes: bool,
    },
}

/// The sessions that a command is about.
#[derive(Debug, Args)]
pub(crate) struct SessionIds {
    /// The sessions
    #[arg(required = true, value_name = "SESSION")]
    ids: Vec<String>,
    /// As JSON
    #[arg(long)]
    json: bool,
}

impl SessionCommand {
    pub(crate) fn execute(self) -> Result<()> {
        // Only these do more than read and write.
        let works = matches!(self, Self::Resume { .. } | Self::Abort { .. } | Self::Compact { .. });
        let mut builder = match works {
            true => tokio::runtime::Builder::new_multi_thread(),
            false => tokio::runtime::Builder::new_current_thread(),
        };
        let listeners = if works { Listeners::Some } else { Listeners::None };
        builder.enable_all().build()?.block_on(async {
            let engine = settings::open(&settings::working_folder()?, listeners).await?;
            let result = self.perform(&engine).await;
            engine.close().await;
            result
        })
    }

    async fn perform(self, engine: &Engine) -> Result<()> {
        match self {
            Self::List { all, archived, limit, search, json } => {
                let which = if archived { ArchivedSessions::Only } else { ArchivedSessions::Excluded };
                let none = match (archived, all) {
                    _ if search.is_some() => "no title contains that",
                    (false, false) => "no sessions here; --all lists those of every project",
                    (true, false) => "no archived sessions here; --all lists those of every project",
                    (false, true) => "there are no sessions",
                    (true, true) => "there are no archived sessions",
                };
                let filter =
                    Filter { roots: true, search, archived: which, limit: Some(limit), ..Filter::default() };
                let sessions = if all {
                    engine.sessions().list(filter).await?
                } else {
                    engine.projects().sessions_here(&engine.projects().location(None).await?, filter).await?
                };
                list(engine, &sessions, none, json).await
            }
            Self::Search { words, limit, json } => search(engine, &words.join(" "), limit, json).await,
            Self::Show { id, json } => {
                let session = lookup::listed(engine, &id).await?;
                show::show(engine, &session.id, json).await
            }
            Self::Export { id, output } => {
                let session = lookup::listed(engine, &id).await?;
                let conversation = engine.sessions().conversation(&session.id, None).await?;
                let path: Vec<&Node> = conversation.nodes.iter().collect();
                let value = export::write(&conversation.session, &path, &conversation.inbox);
                match output {
                    None => table::json(&value),
                    Some(file) => std::fs::write(&file, serde_json::to_string_pretty(&value)?)
                        .with_context(|| format!("cannot write {}", file.display()))?,
                }
                Ok(())
            }
            Self::Import { file, json } => {
                let (name, bytes) = if file.as_os_str() == "-" {
                    let mut bytes = Vec::new();
                    std::io::Read::read_to_end(&mut std::io::stdin(), &mut bytes)?;
                    ("standard input".to_owned(), bytes)
                } else {
                    let name = file.display().to_string();
                    let read = foreign_file::fetch(file, ReadBounds::bytes(LARGEST)).await;
                    let bytes = read.with_context(|| format!("cannot read {name}"))?;
                    (name, bytes)
                };
                let report = engine.imports().export(&bytes).await;
                let report = report.with_context(|| format!("cannot import {name}"))?;
                for problem in &report.problems {
                    table::note(problem);
                }
                rules_line(engine, &report).await?.into_iter().for_each(table::note);
                match report.imported.first() {
                    Some(_) if json => table::json(&json!({ "imported": report.imported })),
                    Some(id) => table::line(id),
                    None if report.present > 0 => bail!("that session is here already; nothing was changed"),
                    None => bail!("nothing was imported"),
                }
                Ok(())
            }
            Self::Request(command) => command.perform(engine).await,
            Self::Inbox(command) => command.perform(engine).await,
            Self::Compact(command) => command.perform(engine).await,
            Self::Pin(command) => command.perform(engine).await,
            Self::Abort { id } => {
                let session = lookup::listed(engine, &id).await?;
                if !session.has_work() {
                    table::note("nothing is at work in this session, and no prompt waits");
                    return Ok(());
                }
                engine.drains().abort(&session.id).await?;
                // Another process may have to settle it, or nobody any more but this one.
                if tokio::time::timeout(STOPPING, engine.drains().settled(&session.id)).await.is_err() {
                    table::note("it was told to stop, and is not at rest yet");
                }
                let now = engine.sessions().get(&session.id).await?;
                table::line(format!(
                    "{} {}",
                    now.id,
                    state::line(&now).unwrap_or_else(|| "rests".to_owned())
                ));
                Ok(())
            }
            Self::Resume { id, yes } => RunCommand::resume(id, yes).run(engine).await,
            Self::Move { id, folder } => {
                let session = lookup::listed(engine, &id).await?;
                let there =
                    folder.canonicalize().with_context(|| format!("cannot find {}", folder.display()))?;
                let there = there.to_str().context("the name of the folder is not UTF-8")?;
                let moved = engine.sessions().relocate(&session.id, there).await?;
                table::line(format!("{} goes on in {}", moved.id, moved.directory));
                Ok(())
            }
            Self::Archive(SessionIds { ids, json }) => Shelf { engine, json }.archive(&ids).await,
            Self::Unarchive(SessionIds { ids, json }) => Shelf { engine, json }.unarchive(&ids).await,
            Self::Delete(SessionIds { ids, json }) => Shelf { engine, json }.delete(&ids).await,
            Self::Restore(SessionIds { ids, json }) => Shelf { engine, json }.restore(&ids).await,
            Self::Purge { sessions: SessionIds { ids, json }, erase, yes } => {
                Shelf { engine, json }.purge(&ids, erase, yes).await
            }
        }
    }
}

/// Prints sessions with what each has cost, together with those of its subagents.
async fn list(engine: &Engine, sessions: &[Session], none: &str, json: bool) -> Result<()> {
    if sessions.is_empty() && !json {
        table::note(none);
        return Ok(());
    }
    let ids = sessions.iter().map(|session| session.id.clone()).collect();
    let spent = engine.spending().of_families(ids).await?;
    let spent = |session: &Session| spent.get(&session.id).copied().unwrap_or_default();
    if json {
        let described = sessions.iter().map(|session| {
            let mut value = json!(v1::session_info(session));
            if let Some(map) = value.as_object_mut() {
                let Spent { tokens, cost } = spent(session);
                map.insert("spent".to_owned(), json!({ "tokens": tokens, "cost": cost }));
                let state = Some(state::word(session)).filter(|word| !word.is_empty());
                map.insert("state".to_owned(), json!(state.unwrap_or("idle")));
            }
            value
        });
        table::json(&Value::Array(described.collect()));
        return Ok(());
    }
    // Where nothing costs anything and all rest, the titles have the room.
    let paid = sessions.iter().any(|session| spent(session).cost > Money::ZERO);
    let busy = sessions.iter().any(|session| !state::word(session).is_empty());
    let rows = sessions.iter().map(|session| {
        let (id, updated) = (session.id.to_string(), table::moment(session.time.updated));
        let state = busy.then(|| state::word(session).to_owned());
        let cost = paid.then(|| spent(session).cost.to_string());
        [id, updated].into_iter().chain(state).chain(cost).chain([session.title.clone()]).collect()
    });
    let mut head = vec!["session", "updated"];
    head.extend(busy.then_some("state"));
    head.extend(paid.then_some("cost"));
    head.push("title");
    table::rows(&head, rows);
    Ok(())
}

async fn search(engine: &Engine, words: &str, limit: u32, json: bool) -> Result<()> {
    let hits = engine.sessions().search(words, limit).await?;
    if json {
        let found = hits.into_iter();
        let found = found
            .map(|hit| json!({"session": hit.session, "title": hit.title, "text": hit.snippet.text}))
            .collect();
        table::json(&Value::Array(found));
    } else if hits.is_empty() {
        table::note("nothing was found");
    } else {
        let rows = hits.into_iter().map(|hit| vec![hit.session.to_string(), hit.title, hit.snippet.text]);
        table::rows(&["session", "title", "text"], rows);
    }
    Ok(())
}

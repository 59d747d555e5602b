//! `everturn session`: list, search, show, export and import.

use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};
use clap::Subcommand;
use everturn_engine::Engine;
use everturn_engine::sessions::Filter;
use everturn_interop::opencode::{export, v1};
use everturn_model::SessionId;
use everturn_model::tree::Node;
use serde_json::Value;

use crate::settings::{self, Listeners};
use crate::table;

/// List, search, show, export and import sessions
#[derive(Debug, Subcommand)]
pub(crate) enum SessionCommand {
    /// The newest sessions of this project
    List {
        /// Of all projects
        #[arg(short, long)]
        all: bool,
        /// At most so many
        #[arg(short = 'n', long, default_value_t = 50)]
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
        #[arg(short = 'n', long, default_value_t = 20)]
        limit: u32,
    },
    /// A session's conversation
    Show {
        /// The session
        id: String,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
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
    },
}

impl SessionCommand {
    pub(crate) fn execute(self) -> Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let engine = settings::open(&settings::working_folder()?, Listeners::None).await?;
            let result = self.perform(&engine).await;
            engine.close().await;
            result
        })
    }

    async fn perform(self, engine: &Engine) -> Result<()> {
        match self {
            Self::List { all, limit, search, json } => {
                let filter = Filter { roots: true, search, limit: Some(limit), ..Filter::default() };
                let sessions = if all {
                    engine.sessions().list(filter).await?
                } else {
                    engine.projects().sessions(&engine.projects().location(None).await?, filter).await?
                };
                list(&sessions, json);
                Ok(())
            }
            Self::Search { words, limit } => search(engine, &words.join(" "), limit).await,
            Self::Show { id, json } => show(engine, &SessionId::new(id), json).await,
            Self::Export { id, output } => {
                let conversation = engine.sessions().conversation(&SessionId::new(id), None).await?;
                let path: Vec<&Node> = conversation.nodes.iter().collect();
                let value = export::write(&conversation.session, &path, &conversation.inbox);
                match output {
                    None => table::json(&value),
                    Some(file) => std::fs::write(&file, serde_json::to_string_pretty(&value)?)
                        .with_context(|| format!("cannot write {}", file.display()))?,
                }
                Ok(())
            }
            Self::Import { file } => {
                let bytes = if file.as_os_str() == "-" {
                    let mut bytes = Vec::new();
                    std::io::Read::read_to_end(&mut std::io::stdin(), &mut bytes)?;
                    bytes
                } else {
                    std::fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?
                };
                let report = engine.imports().export(&bytes).await?;
                for problem in &report.problems {
                    table::note(problem);
                }
                match report.imported.first() {
                    Some(id) => table::line(id),
                    None if report.present > 0 => bail!("that session is here already; nothing was changed"),
                    None => bail!("nothing was imported"),
                }
                Ok(())
            }
        }
    }
}

fn list(sessions: &[everturn_model::Session], json: bool) {
    if json {
        table::json(&Value::Array(sessions.iter().map(v1::session_info).collect()));
    } else if sessions.is_empty() {
        table::note("no sessions here; --all lists those of every project");
    } else {
        let rows = sessions.iter().map(|session| {
            vec![session.id.to_string(), table::moment(session.time.updated), session.title.clone()]
        });
        table::rows(&["session", "updated", "title"], rows);
    }
}

async fn search(engine: &Engine, words: &str, limit: u32) -> Result<()> {
    let hits = engine.sessions().search(words, limit).await?;
    if hits.is_empty() {
        table::note("nothing was found");
    } else {
        let rows = hits.into_iter().map(|hit| vec![hit.session.to_string(), hit.title, hit.snippet.text]);
        table::rows(&["session", "title", "text"], rows);
    }
    Ok(())
}

async fn show(engine: &Engine, id: &SessionId, json: bool) -> Result<()> {
    let conversation = engine.sessions().conversation(id, None).await?;
    let path: Vec<&Node> = conversation.nodes.iter().collect();
    let messages = v1::messages(id, &path, &conversation.inbox);
    if json {
        table::json(&export::write(&conversation.session, &path, &conversation.inbox));
        return Ok(());
    }
    let session = &conversation.session;
    table::line(format!("{}  {}", session.id, session.title));
    table::line(format!("{}  {}", table::moment(session.time.updated), session.directory));
    if session.tokens.sum() > 0 {
        table::line(format!("{} tokens, {}", session.tokens.sum(), session.cost));
    }
    if let Some(revert) = &session.revert {
        table::line(format!("a revert to before {} is staged", revert.message));
        for file in &revert.skipped {
            table::line(format!("  left alone, because it was changed since: {file}"));
        }
    }
    for message in &messages {
        let role = message.info.get("role").and_then(Value::as_str).unwrap_or("?");
        table::line(format!("\n{role}"));
        for part in &message.parts {
            if let Some(text) = describe(part) {
                for printed in text.lines() {
                    table::line(format!("  {printed}"));
                }
            }
        }
        if let Some(error) = message.info.pointer("/error/data/message").and_then(Value::as_str) {
            table::line(format!("  error: {error}"));
        }
    }
    Ok(())
}

fn describe(part: &Value) -> Option<String> {
    let text = |pointer: &str| part.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    Some(match text("/type") {
        "text" => text("/text").to_owned(),
        "tool" => {
            let said = match text("/state/status") {
                "error" => text("/state/error").lines().next().unwrap_or_default(),
                _ => text("/state/title"),
            };
            format!("[{}: {}] {said}", text("/tool"), text("/state/status"))
        }
        "file" => format!("[file] {}", text("/filename")),
        "patch" => {
            let files = part.get("files").and_then(Value::as_array).map_or(0, Vec::len);
            format!("[{files} files changed]")
        }
        _ => return None,
    })
}

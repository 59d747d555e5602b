//! `everturn demo`: a prompt that changes a file, from beginning to end, with a built-in model and no network.

use std::path::Path;

use anyhow::{Context as _, Result};
use clap::Args;
use everturn_engine::sessions::NewSession;
use everturn_engine::{Config, Configurations, Engine, Options, Prompt, SessionUpdate, Signal};
use everturn_model::Event;
use everturn_model::entry::Body;
use everturn_model::session::FileDiff;

use crate::table;

const BEFORE: &str = "Hello, world\n";

/// See a prompt change a file
#[derive(Debug, Args)]
pub(crate) struct DemoCommand {}

impl DemoCommand {
    #[expect(clippy::unused_self, reason = "commands are alike")]
    pub(crate) fn execute(self) -> Result<()> {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let folder = tempfile::tempdir().context("no temporary folder")?;
        let project = folder.path().join("project");
        std::fs::create_dir(&project)?;
        std::fs::write(project.join("greeting.txt"), BEFORE)?;
        runtime.block_on(play(folder.path(), &project))
    }
}

async fn play(folder: &Path, project: &Path) -> Result<()> {
    let mut options = Options::new(&folder.join("data"), project);
    let mut config = Config::default();
    config.model = Some("scripted/demo".to_owned());
    options.configurations = Configurations::fixed(config, &options.paths.data);
    let engine = Engine::open(options).await?;
    let location = engine.projects().location(None).await?;
    let session = engine.sessions().create(&location, NewSession::default()).await?;
    let prompt = format!("Greet Everturn instead of the world in {}", project.join("greeting.txt").display());
    table::line("A folder with one file:");
    table::line("  greeting.txt: Hello, world");
    table::line("");
    table::line(format!("> {}", prompt.replace(&format!("{}/", project.display()), "")));
    table::line("");
    let mut updates = engine.bus().listen();
    engine.inbox().admit(&session.id, Prompt::text(&prompt)).await?;
    while let Ok(update) = updates.recv().await {
        match update {
            SessionUpdate::Live(live) => match &live.signal {
                Signal::Delta { text, .. } => table::text(text),
                Signal::Idle => break,
                Signal::Failed { error } => anyhow::bail!("{}", error.text()),
                _ => {}
            },
            SessionUpdate::Committed(committed) => match &committed.record.event {
                Event::ToolSettled { entry, .. } => {
                    if let Body::ToolResult { result } = &entry.body {
                        let title = result.title.as_deref().unwrap_or_default();
                        table::line(format!("[{}] {title}", result.tool));
                        table::line("");
                    }
                }
                Event::PartEnded { text, .. } if !text.starts_with('{') => table::text("\n\n"),
                _ => {}
            },
            SessionUpdate::Gap => {}
        }
    }
    engine.drains().settled(&session.id).await;
    let conversation = engine.sessions().conversation(&session.id, None).await?;
    let diffs = conversation.nodes.iter().filter_map(|node| match &node.entry.body {
        Body::User(user) => user.summary.as_ref().map(|summary| summary.diffs.clone()),
        _ => None,
    });
    let diffs: Vec<FileDiff> = diffs.flatten().collect();
    table::line("What changed:");
    for diff in &diffs {
        table::text(diff.patch.as_deref().unwrap_or_default().trim_end());
        table::line("");
    }
    let events = engine.sessions().log(&session.id).await?.len();
    let after = std::fs::read_to_string(project.join("greeting.txt"))?;
    engine.close().await;
    anyhow::ensure!(diffs.len() == 1 && after != BEFORE, "the demo changed nothing");
    table::line("");
    table::line(format!(
        "{events} durable events were written. Next: `everturn serve`, then attach OpenCode to it."
    ));
    Ok(())
}

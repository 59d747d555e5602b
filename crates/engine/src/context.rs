//! The Baseline System Context of an epoch: what the model is told before the conversation begins.
//!
//! It is rendered once, stored word for word in an `epoch` entry, and used unchanged until a compaction or a move
//! begins a new epoch, so that a provider's cache of it holds across restarts.

use std::path::Path;

use serde_json::{Value, json};

use crate::Error;
use crate::project::Location;

/// The baseline and the values it was made of.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Baseline {
    /// The text, word for word.
    pub(crate) text: String,
    /// The Context Snapshot: one value for each Context Source.
    pub(crate) snapshot: Value,
}

/// Observes the world and renders the baseline.
pub(crate) fn baseline(location: &Location, now: i64) -> Result<Baseline, Error> {
    let directory = location.directory.display().to_string();
    let worktree = location.worktree.display().to_string();
    let git = location.project.vcs.is_some();
    let date = jiff::Timestamp::from_millisecond(now)
        .map(|time| time.to_zoned(jiff::tz::TimeZone::system()).strftime("%Y-%m-%d").to_string())
        .unwrap_or_default();
    let environment = format!(
        "Working directory: {directory}\nProject root: {worktree}\nGit repository: {}\nPlatform: {}",
        if git { "yes" } else { "no" },
        std::env::consts::OS
    );
    let instructions = instructions(location)?;
    let mut parts = vec![environment, format!("Today is {date}.")];
    for (path, text) in &instructions {
        parts.push(format!("Instructions from {path}:\n{text}"));
    }
    let snapshot = json!({
        "core/environment": {"directory": directory, "worktree": worktree, "git": git},
        "core/date": date,
        "core/instructions": instructions.iter().map(|(path, text)| json!({"path": path, "text": text})).collect::<Vec<_>>(),
    });
    Ok(Baseline { text: parts.join("\n\n"), snapshot })
}

/// `AGENTS.md` files from the working folder up to the project root, outermost first.
fn instructions(location: &Location) -> Result<Vec<(String, String)>, Error> {
    let mut found = Vec::new();
    for folder in location.directory.ancestors().take_while(|folder| folder.starts_with(&location.worktree)) {
        let path = folder.join("AGENTS.md");
        if let Some(text) = read(&path)? {
            found.push((path.display().to_string(), text));
        }
    }
    found.reverse();
    Ok(found)
}

/// A file that is there but cannot be read stops the turn: going on without the person's rules is worse.
fn read(path: &Path) -> Result<Option<String>, Error> {
    match std::fs::read(path) {
        Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(Error::Io { context: format!("cannot read {}", path.display()), source }),
    }
}

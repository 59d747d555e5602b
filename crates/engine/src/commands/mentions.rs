//! What the text of a command mentions: files come with the prompt, and agents are asked for.
//!
//! What was typed may name any file, as every prompt may. The text itself may be a project's: it brings along only what the
//! agent may read there without asking, and other names stay words.

use std::path::{Path, PathBuf};

use everturn_model::part::PartKind;
use everturn_model::permission::{Action, Policy};
use everturn_tools::read::ReadTool;
use everturn_tools::{Scope, Tool as _};
use serde_json::json;

use super::{SlashCommandPlace, SlashCommands, template};
use crate::Error;
use crate::background::blocking;
use crate::calls::decide_need;
use crate::inbox::PartInput;

impl SlashCommands {
    /// The parts for what a text mentions, of which somebody has typed this.
    pub(super) async fn mentioned(
        &self,
        place: &SlashCommandPlace,
        words: &str,
        typed: &str,
    ) -> Result<Vec<PartInput>, Error> {
        let (names, typed) = (template::mentions(words), template::mentions(typed));
        let SlashCommandPlace { session, location, config, agent } = place;
        let policy = config.agents().policy_of(agent, session);
        let scope = self.confinement.scope(&location.directory, &location.worktree, None);
        let agents = config.agents().clone();
        let find = move || {
            let part = |name: &String| {
                let (path, is_typed) = (path_of(name, &scope), typed.contains(name));
                if path.exists() {
                    return (is_typed || may_read(&path, &scope, &policy)).then(|| file(name, &path));
                }
                agents.check(name).is_ok().then(|| PartKind::Agent { name: name.clone(), source: None })
            };
            names.iter().filter_map(part).map(PartInput::new).collect()
        };
        blocking(find).await
    }
}

fn path_of(name: &str, scope: &Scope) -> PathBuf {
    match name.strip_prefix("~/") {
        Some(rest) => scope.home.join(rest),
        None => scope.resolve(name),
    }
}

/// Whether the agent could read a file without asking.
fn may_read(path: &Path, scope: &Scope, policy: &Policy) -> bool {
    let needs = ReadTool.needs(&json!({"filePath": path.display().to_string()}), scope);
    needs.is_ok_and(|needs| needs.iter().all(|need| decide_need(scope, policy, &[], need) == Action::Allow))
}

fn file(name: &str, path: &Path) -> PartKind {
    let mime = if path.is_dir() { "application/x-directory" } else { media_type(path) };
    let (mime, filename) = (mime.to_owned(), Some(name.to_owned()));
    PartKind::File { mime, filename, url: address(path), source: None }
}

fn media_type(path: &Path) -> &'static str {
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    match extension.to_ascii_lowercase().as_str() {
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "webp" => "image/webp",
        "pdf" => "application/pdf",
        _ => "text/plain",
    }
}

/// The address of a file.
fn address(path: &Path) -> String {
    let mut url = "file://".to_owned();
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' | b'~' => {
                url.push(char::from(*byte));
            }
            byte => url.push_str(&format!("%{byte:02X}")),
        }
    }
    url
}

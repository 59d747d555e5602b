//! `everturn session show`: a conversation as a person reads it.

use anyhow::Result;
use everturn_engine::Engine;
use everturn_interop::opencode::{export, v1};
use everturn_model::SessionId;
use everturn_model::request::{Ask, Request};
use everturn_model::tree::Node;
use serde_json::Value;

use super::state;
use crate::plain::flatten;
use crate::table;

/// Prints a session.
pub(super) async fn show(engine: &Engine, id: &SessionId, json: bool) -> Result<()> {
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
    // Answers that were taken back, titles and subagents cost something too.
    let spent = engine.spending().of_families(vec![id.clone()]).await?.remove(id).unwrap_or_default();
    if (spent.tokens.sum(), spent.cost) != (session.tokens.sum(), session.cost) {
        table::line(format!("{} tokens, {} with all that is not shown here", spent.tokens.sum(), spent.cost));
    }
    let changes = conversation.changes();
    if changes.files > 0 {
        let files = table::counted(changes.files, "file", "files");
        table::line(format!("+{} -{} lines in {files}", changes.additions, changes.deletions));
    }
    if let Some(line) = state::line(session) {
        table::line(line);
    }
    for (of, request) in engine.requests().waiting().await? {
        if of == *id {
            table::line(waits_for(&request));
        }
    }
    if let Some(revert) = &session.revert {
        table::line(format!("a revert to before {} is staged", revert.message));
        for file in &revert.skipped {
            table::line(format!("  left alone, because it was changed since: {file}"));
        }
    }
    if let Some(rules) = session.foreign_rules.as_deref().filter(|rules| !rules.is_empty()) {
        table::line("rules that came with it, which allow nothing that is not allowed here:");
        for rule in rules {
            table::line(format!("  {} {} {}", rule.action.as_str(), rule.permission, rule.pattern));
        }
    }
    for message in &messages {
        let role = message.info.get("role").and_then(Value::as_str).unwrap_or("?");
        table::line("");
        // What is told the model under a person's name was written by nobody.
        table::line(if is_synthetic(&message.parts) { "note" } else { role });
        for part in &message.parts {
            if let Some(text) = describe(part) {
                for printed in text.lines() {
                    table::line(format!("  {printed}"));
                }
            }
        }
        if let Some(error) = message.info.pointer("/error/data/message").and_then(Value::as_str) {
            for (at, printed) in error.lines().enumerate() {
                table::line(format!("  {}{printed}", if at == 0 { "error: " } else { "  " }));
            }
        }
    }
    Ok(())
}

/// Whether nothing of a message was said by a person or a model.
fn is_synthetic(parts: &[Value]) -> bool {
    let synthetic = |part: &Value| part.get("synthetic") == Some(&Value::Bool(true));
    !parts.is_empty() && parts.iter().all(synthetic)
}

/// What a session waits for, in a line.
fn waits_for(request: &Request) -> String {
    match &request.ask {
        Ask::Question { .. } => "waits for the answer to a question".to_owned(),
        Ask::Permission { permission, patterns, metadata, .. } => {
            let note = metadata.get("note").and_then(Value::as_str).filter(|_| request.is_of_guard());
            let note = note.map(|note| format!(": {note}")).unwrap_or_default();
            flatten(&format!("waits for permission: {permission} ({}){note}", patterns.join(", ")))
                .into_owned()
        }
    }
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
            let notes = part.pointer("/state/metadata/notes").and_then(Value::as_array).into_iter().flatten();
            let notes: String =
                notes.filter_map(Value::as_str).map(|note| format!("\n  ! {}", flatten(note))).collect();
            format!("[{}: {}] {said}{notes}", text("/tool"), text("/state/status"))
        }
        "file" => format!("[file] {}", text("/filename")),
        "retry" => {
            let attempt = part.pointer("/attempt").and_then(Value::as_u64).unwrap_or_default();
            format!("[attempt {attempt} failed] {}", flatten(text("/error/data/message")))
        }
        "patch" => {
            let files = part.get("files").and_then(Value::as_array).map_or(0, Vec::len);
            format!("[{} changed]", table::counted(files, "file", "files"))
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use everturn_model::budget::{BudgetMeasure, BudgetPause, BudgetScope};

    use super::*;

    #[test]
    fn what_a_session_waits_for_is_one_line() {
        let (scope, measure) = (BudgetScope::Session, BudgetMeasure::Steps);
        let pause = BudgetPause { scope, measure, spent: 3, limit: 2, allowance: 2 };
        assert_eq!(
            waits_for(&Request::new("per_1".into(), 17, pause.ask(), None)),
            "waits for permission: budget (session steps): The budget of the session is used up: 3 of 2 (steps). Shall it go \
             on with 2 more?"
        );
        let ask = Ask::Permission {
            permission: "bash".to_owned(),
            patterns: vec!["ls".to_owned(), "echo a\nb".to_owned()],
            always: Vec::new(),
            metadata: everturn_model::Map::new(),
        };
        let shown = waits_for(&Request::new("per_1".into(), 17, ask, None));
        assert!(
            shown.starts_with("waits for permission: bash (ls, echo a") && shown.lines().count() == 1,
            "{shown}"
        );
    }
}

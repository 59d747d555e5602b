//! Sizes at the door: what is too large for its place is refused, by name and number, before anything of it is stored.
//!
//! Depth is the store's business, which sees everything that is written; what is here has to be right for people who read
//! lists and for programs that load them whole.

use everturn_model::compaction::{INSTRUCTIONS_LIMIT, PIN_LIMIT, PIN_SIZE_LIMIT, Pins};
use everturn_model::event::SessionChange;
use everturn_model::json::{self, DEPTH_LIMIT};
use everturn_model::part::PartKind;
use everturn_model::permission::Rule;
use everturn_model::session::{
    METADATA_KEY_LIMIT, METADATA_LIMIT, ModelRef, NAME_LIMIT, RULE_LIMIT, RULE_TEXT_LIMIT, TITLE_LIMIT,
};
use everturn_model::{Map, Part};

use crate::commands::{ARGUMENTS_LIMIT, GivenCommand, INTERPOLATION_LIMIT};
use crate::inbox::{PART_LIMIT, PartInput, Prompt};
use crate::sessions::NewSession;
use crate::shell::ShellCommand;
use crate::{Error, structured};

/// Checks what a new session begins with.
pub(crate) fn check_new_session(new: &NewSession) -> Result<(), Error> {
    new.title.as_deref().map_or(Ok(()), check_title)?;
    check_maybe("agent", new.agent.as_deref())?;
    check_model(new.model.as_ref())?;
    new.permission.as_deref().map_or(Ok(()), check_rules)?;
    new.metadata.as_ref().map_or(Ok(()), |metadata| check_map("metadata", metadata))
}

/// Checks changes of a session.
pub(crate) fn check_changes(changes: &[SessionChange]) -> Result<(), Error> {
    changes.iter().try_for_each(|change| match change {
        SessionChange::Permission { rules } => rules.as_deref().map_or(Ok(()), check_rules),
        SessionChange::PermissionAdded { rules } => check_rules(rules),
        SessionChange::Metadata { metadata: Some(metadata) } => check_map("metadata", metadata),
        SessionChange::Pinned { pins } => check_pins(pins),
        SessionChange::Metadata { metadata: None }
        | SessionChange::Archived { .. }
        | SessionChange::Parked
        | SessionChange::Share { .. } => Ok(()),
    })
}

/// Checks what a session has pinned.
fn check_pins(pins: &Pins) -> Result<(), Error> {
    check_count("pinned facts", pins.facts.len(), PIN_LIMIT)?;
    pins.goal.iter().chain(&pins.facts).try_for_each(|pin| check_text("pin", pin, PIN_SIZE_LIMIT))
}

/// Checks what a person asks of a compaction.
pub(crate) fn check_instructions(instructions: &str) -> Result<(), Error> {
    check_text("instructions", instructions, INSTRUCTIONS_LIMIT)
}

/// Checks the name of a session.
pub(crate) fn check_title(title: &str) -> Result<(), Error> {
    check_text("title", title, TITLE_LIMIT)
}

/// Checks a prompt.
pub(crate) fn check_prompt(prompt: &Prompt) -> Result<(), Error> {
    check_count("parts", prompt.parts.len(), PART_LIMIT)?;
    check_maybe("agent", prompt.agent.as_deref())?;
    check_model(prompt.model.as_ref())?;
    prompt.format.as_ref().map_or(Ok(()), structured::check)?;
    prompt.tools.as_ref().map_or(Ok(()), |tools| check_map("tools", tools))?;
    prompt.parts.iter().try_for_each(check_part)
}

/// Checks a slash command that somebody gives.
pub(crate) fn check_command(given: &GivenCommand) -> Result<(), Error> {
    check_text("command", &given.name, NAME_LIMIT)?;
    check_text("arguments", &given.arguments, ARGUMENTS_LIMIT)?;
    check_maybe("agent", given.agent.as_deref())?;
    check_maybe("variant", given.variant.as_deref())?;
    given.model.as_deref().map_or(Ok(()), |model| check_text("model", model, 2 * NAME_LIMIT))
}

/// Checks how much the text of a slash command runs.
pub(crate) fn check_interpolations(count: usize) -> Result<(), Error> {
    check_count("commands in the text of the slash command", count, INTERPOLATION_LIMIT)
}

/// Checks who is to run a person's command. Its length is the system's business.
pub(crate) fn check_shell(command: &ShellCommand) -> Result<(), Error> {
    check_maybe("agent", command.agent.as_deref())?;
    check_model(command.model.as_ref())
}

/// Checks a part that takes the place of another.
pub(crate) fn check_new_part(part: &Part) -> Result<(), Error> {
    check_kind(&part.kind)
}

fn check_part(part: &PartInput) -> Result<(), Error> {
    if let PartKind::Text { metadata: Some(metadata), .. } = &part.kind {
        check_map("metadata", metadata)?;
    }
    check_kind(&part.kind)
}

fn check_kind(kind: &PartKind) -> Result<(), Error> {
    match kind {
        PartKind::File { mime, filename, source, .. } => {
            check_text("mime", mime, NAME_LIMIT)?;
            check_maybe("filename", filename.as_deref())?;
            source.as_ref().map_or(Ok(()), |source| check_size("source", source))
        }
        PartKind::Agent { name, source } => {
            check_text("name", name, NAME_LIMIT)?;
            source.as_ref().map_or(Ok(()), |source| check_size("source", source))
        }
        PartKind::Subtask { agent, model, .. } => {
            check_text("agent", agent, NAME_LIMIT)?;
            check_model(model.as_ref())
        }
        PartKind::Tool { call, tool, .. } => {
            check_text("call", call, NAME_LIMIT)?;
            check_text("tool", tool, NAME_LIMIT)
        }
        _ => Ok(()),
    }
}

fn check_model(model: Option<&ModelRef>) -> Result<(), Error> {
    let Some(ModelRef { provider, model, variant }) = model else { return Ok(()) };
    check_text("provider", provider, NAME_LIMIT)?;
    check_text("model", model, NAME_LIMIT)?;
    check_maybe("variant", variant.as_deref())
}

fn check_rules(rules: &[Rule]) -> Result<(), Error> {
    check_count("permission", rules.len(), RULE_LIMIT)?;
    rules.iter().try_for_each(|rule| {
        check_text("permission", &rule.permission, RULE_TEXT_LIMIT)?;
        check_text("pattern", &rule.pattern, RULE_TEXT_LIMIT)
    })
}

fn check_map(what: &str, map: &Map) -> Result<(), Error> {
    check_count(what, map.len(), METADATA_KEY_LIMIT)?;
    check_size(what, map)
}

fn check_size(what: &str, value: &impl serde::Serialize) -> Result<(), Error> {
    let json = serde_json::to_vec(value).map_err(|error| Error::Invalid(error.to_string()))?;
    if json.len() > METADATA_LIMIT {
        let size = json.len();
        return Err(Error::Invalid(format!("{what} has {size} bytes; at most {METADATA_LIMIT} are allowed")));
    }
    let depth = json::depth(&json);
    if depth > DEPTH_LIMIT {
        return Err(Error::Invalid(format!(
            "{what} is nested {depth} levels deep; at most {DEPTH_LIMIT} are allowed"
        )));
    }
    Ok(())
}

fn check_maybe(what: &str, name: Option<&str>) -> Result<(), Error> {
    name.map_or(Ok(()), |name| check_text(what, name, NAME_LIMIT))
}

fn check_text(what: &str, text: &str, limit: usize) -> Result<(), Error> {
    // No database keeps it in every column, and no list shows it.
    if text.contains('\0') {
        return Err(Error::Invalid(format!("{what} holds a NUL")));
    }
    if text.len() > limit {
        let size = text.len();
        return Err(Error::Invalid(format!("{what} has {size} bytes; at most {limit} are allowed")));
    }
    Ok(())
}

fn check_count(what: &str, count: usize, limit: usize) -> Result<(), Error> {
    if count > limit {
        return Err(Error::Invalid(format!("{what} has {count} entries; at most {limit} are allowed")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(checked: Result<(), Error>) -> String {
        checked.err().map(|error| error.to_string()).unwrap_or_default()
    }

    #[test]
    fn what_is_at_a_limit_is_taken_and_what_is_above_it_is_refused() {
        assert_eq!(check(check_title(&"x".repeat(TITLE_LIMIT))), "");
        assert_eq!(
            check(check_title(&"x".repeat(TITLE_LIMIT + 1))),
            "title has 4097 bytes; at most 4096 are allowed"
        );
        assert_eq!(check(check_title("a\0b")), "title holds a NUL");
        let prompt = |parts: usize| Prompt {
            parts: vec![PartInput::new(PartKind::text("x")); parts],
            agent: Some("a".repeat(parts)),
            ..Prompt::text("x")
        };
        assert_eq!(check(check_prompt(&prompt(NAME_LIMIT))), "");
        assert_eq!(
            check(check_prompt(&prompt(NAME_LIMIT + 1))),
            "agent has 257 bytes; at most 256 are allowed"
        );
        assert_eq!(
            check(check_prompt(&prompt(PART_LIMIT + 1))),
            "parts has 10001 entries; at most 10000 are allowed"
        );
    }

    #[test]
    fn metadata_is_bounded_in_size_count_and_depth() {
        let change =
            |metadata: Map| check(check_changes(&[SessionChange::Metadata { metadata: Some(metadata) }]));
        let keys = |count: usize| (0..count).map(|key| (key.to_string(), json!(1))).collect::<Map>();
        assert_eq!(change(keys(METADATA_KEY_LIMIT)), "");
        assert_eq!(
            change(keys(METADATA_KEY_LIMIT + 1)),
            "metadata has 1001 entries; at most 1000 are allowed"
        );
        let long = Map::from_iter([("a".to_owned(), json!("x".repeat(METADATA_LIMIT)))]);
        assert_eq!(change(long), "metadata has 262152 bytes; at most 262144 are allowed");
        let deep = (0..DEPTH_LIMIT).fold(json!(1), |inner, _| json!([inner]));
        let deep = Map::from_iter([("a".to_owned(), deep)]);
        assert_eq!(change(deep), "metadata is nested 65 levels deep; at most 64 are allowed");
    }
}

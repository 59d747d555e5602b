//! Where a key stands in the text of a file.

use jsonc_parser::ast::Value as JsonValue;
use toml::de::{DeTable, DeValue};

/// The text of a file, by its language.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ConfigText {
    Json(String),
    /// JSON for what the first key of a path names, which is `permission`.
    Rules(String),
    Toml(String),
    /// Settings in the front matter of Markdown, for what the first keys of a path name.
    Markdown(String),
}

/// How many keys of a path the place of a Markdown file stands for: `agent` and the agent's name.
const OF_MARKDOWN: usize = 2;

impl ConfigText {
    /// The line and the column of a place in the text, from one on.
    pub(super) fn place_at(&self, at: usize) -> Option<(usize, usize)> {
        let (Self::Json(text) | Self::Rules(text) | Self::Toml(text) | Self::Markdown(text)) = self;
        place(text, at)
    }

    /// The line and the column of a key, from one on; where it is not found, those of the last key on the way there.
    pub(super) fn place_of(&self, path: &[String]) -> Option<(usize, usize)> {
        match self {
            Self::Json(text) => place(text, in_json(text, path)?),
            Self::Rules(text) => place(text, in_json(text, path.get(1..)?)?),
            Self::Toml(text) => place(text, in_toml(text, path)?),
            Self::Markdown(text) => in_front_matter(text, path.get(OF_MARKDOWN..)?),
        }
    }
}

/// The line and the column of a place in a text, from one on.
pub(super) fn place(text: &str, at: usize) -> Option<(usize, usize)> {
    let before = text.get(..at.min(text.len()))?;
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().map_or(0, |rest| rest.chars().count()) + 1;
    Some((line, column))
}

fn in_json(text: &str, path: &[String]) -> Option<usize> {
    let parsed = jsonc_parser::parse_to_ast(text, &Default::default(), &Default::default()).ok()?;
    let mut value = parsed.value.as_ref();
    let mut at = None;
    for key in path {
        let Some(JsonValue::Object(object)) = value else { break };
        // Of two with the same name the last one counts.
        let Some(found) = object.properties.iter().rev().find(|one| one.name.as_str() == key) else { break };
        at = Some(found.range.start);
        value = Some(&found.value);
    }
    at
}

fn in_toml(text: &str, path: &[String]) -> Option<usize> {
    let parsed = DeTable::parse(text).ok()?;
    let mut table = Some(parsed.get_ref());
    let mut at = None;
    for key in path {
        let found = table.and_then(|table| table.iter().find(|(name, _)| name.get_ref() == key));
        let Some((name, value)) = found else { break };
        at = Some(name.span().start);
        table = match value.get_ref() {
            DeValue::Table(table) => Some(table),
            _ => None,
        };
    }
    at
}

fn in_front_matter(text: &str, path: &[String]) -> Option<(usize, usize)> {
    let mut lines = text.lines().enumerate();
    let mut place = None;
    for key in path {
        let is_it = |line: &str| {
            let name = line.split_once(':').map(|(name, _)| name.trim().trim_matches(['"', '\'']));
            name == Some(key)
        };
        let Some((number, line)) = lines.find(|(_, line)| is_it(line)) else { break };
        let indentation = line.chars().take_while(|letter| letter.is_whitespace()).count();
        place = Some((number + 1, indentation + 1));
    }
    place
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_found_in_every_language() {
        let check = |text: &ConfigText, path: &str, expected: Option<(usize, usize)>| {
            let path: Vec<String> = path.split('/').map(str::to_owned).collect();
            assert_eq!(text.place_of(&path), expected, "{path:?} in {text:?}");
        };
        let json = "{ // permission: bahs\n  \"agent\": {\"x\": {\"permission\": {\"bahs\": \"ask\"}}},\n  \"permission\": {\n    \"ä\": \"ask\", \"bahs\": \"deny\" }\n}";
        let json = ConfigText::Json(json.to_owned());
        check(&json, "permission/bahs", Some((4, 17)));
        check(&json, "agent/x/permission/bahs", Some((2, 34)));
        check(&json, "permission/none", Some((3, 3)));
        check(&json, "none", None);
        let toml =
            ConfigText::Toml("model = \"x/y\"\n[permission]\nbash = \"ask\"\n  bahs = \"deny\"\n".to_owned());
        check(&toml, "permission/bahs", Some((4, 3)));
        check(&toml, "model/x", Some((1, 1)));
        let markdown = "---\nmode: subagent\npermission:\n  edit: deny\n  \"bahs\": deny\n---\nbahs: no\n";
        let markdown = ConfigText::Markdown(markdown.to_owned());
        check(&markdown, "agent/review/permission/bahs", Some((5, 3)));
        check(&markdown, "agent/review/tools/bahs", None);
    }
}

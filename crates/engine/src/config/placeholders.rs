//! Places in texts of a configuration: `{env:NAME}` stands for a variable of the environment, `{file:path}` for what is
//! in a file.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use everturn_model::Map;
use everturn_tools::foreign_file::{self, ForeignFileError, ReadBounds};
use everturn_tools::places;
use serde_json::Value;

use super::layer::FileStamps;
use super::named_files::NamedFiles;
use super::sources::ConfigSources;

/// A piece of a text.
pub(super) enum Piece<'t> {
    Plain(&'t str),
    Variable(&'t str),
    File(&'t str),
}

/// The pieces of a text. What is no place is plain.
pub(super) fn pieces(text: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let mut rest = text;
    let mut from = 0;
    while let Some(at) = rest.get(from..).and_then(|after| after.find('{')).map(|at| from + at) {
        let opened = rest.get(at + 1..).unwrap_or_default();
        let place = opened.split_once('}').and_then(|(place, after)| Some((place.split_once(':')?, after)));
        let piece = match place {
            Some((("env", name), after)) => Some((Piece::Variable(name), after)),
            Some((("file", path), after)) => Some((Piece::File(path), after)),
            _ => None,
        };
        match piece {
            Some((piece, after)) => {
                pieces.push(Piece::Plain(rest.get(..at).unwrap_or_default()));
                pieces.push(piece);
                (rest, from) = (after, 0);
            }
            None => from = at + 1,
        }
    }
    pieces.push(Piece::Plain(rest));
    pieces
}

/// Whether there is a place in any text of a value.
pub(super) fn are_in(value: &Value) -> bool {
    match value {
        Value::String(text) => pieces(text).iter().any(|piece| !matches!(piece, Piece::Plain(_))),
        Value::Array(items) => items.iter().any(are_in),
        Value::Object(map) => map.values().any(are_in),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Makes the paths of all places begin at the root, so that they mean the same wherever the value is merged into.
pub(super) fn anchor(value: &mut Value, folder: &Path, home: &Path) {
    match value {
        Value::String(text) => {
            let anchored = |piece: &Piece<'_>| match piece {
                Piece::Plain(text) => (*text).to_owned(),
                Piece::Variable(name) => format!("{{env:{name}}}"),
                Piece::File(path) => format!("{{file:{}}}", anchored_path(path, folder, home).display()),
            };
            *text = pieces(text).iter().map(anchored).collect();
        }
        Value::Array(items) => items.iter_mut().for_each(|item| anchor(item, folder, home)),
        Value::Object(map) => map.values_mut().for_each(|value| anchor(value, folder, home)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn anchored_path(path: &str, folder: &Path, home: &Path) -> PathBuf {
    match path.strip_prefix("~/") {
        Some(rest) => home.join(rest),
        None => folder.join(path),
    }
}

/// Fills the places of a value. What comes in is not looked into again. What was read of `named` is not read again: it is
/// what somebody has trusted.
///
/// # Errors
/// In words, when a file cannot be read.
pub(super) fn fill(
    value: &mut Value,
    sources: &ConfigSources,
    named: &NamedFiles,
    stamps: &mut FileStamps,
) -> Result<(), String> {
    match value {
        Value::String(text) => *text = filled(text, sources, named, stamps)?,
        Value::Array(items) => items.iter_mut().try_for_each(|item| fill(item, sources, named, stamps))?,
        Value::Object(map) => map.values_mut().try_for_each(|value| fill(value, sources, named, stamps))?,
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
    Ok(())
}

/// Why a file that is named was not read, in words.
pub(super) fn unread(path: &Path, error: &ForeignFileError) -> String {
    let (name, absent) = (path.display(), error.is_absent());
    if absent {
        format!("it names {name}, which is not there")
    } else {
        format!("it names {name}, which cannot be read: {error}")
    }
}

fn filled(
    text: &str,
    sources: &ConfigSources,
    named: &NamedFiles,
    stamps: &mut FileStamps,
) -> Result<String, String> {
    let mut done = String::new();
    for piece in pieces(text) {
        match piece {
            Piece::Plain(text) => done.push_str(text),
            Piece::Variable(name) => done.push_str(&(sources.variables)(name).unwrap_or_default()),
            Piece::File(path) => {
                let path = Path::new(path);
                if let Some(content) = named.content(path) {
                    done.push_str(content);
                    continue;
                }
                stamps.note(path);
                let found = foreign_file::read_text(path, ReadBounds::bytes(places::TEXT_MAX));
                done.push_str(found.map_err(|error| unread(path, &error))?.trim());
            }
        }
    }
    Ok(done)
}

/// Variables that are nobody's secret, also where a header is made of them, and that programs cannot do without.
const ORDINARY: [&str; 9] = ["HOME", "HOSTNAME", "LANG", "LOGNAME", "PATH", "PWD", "SHELL", "TMPDIR", "USER"];

/// The variables that a configuration takes keys of providers and of the search service from: programs must not see
/// them.
pub(super) fn key_variables(values: &Map) -> BTreeSet<String> {
    fn look(value: &Value, secret: bool, names: &mut BTreeSet<String>) {
        match value {
            Value::String(text) if secret => {
                names.extend(pieces(text).iter().filter_map(|piece| match piece {
                    Piece::Variable(name) if !ORDINARY.contains(name) => Some((*name).to_owned()),
                    _ => None,
                }));
            }
            Value::Array(items) => items.iter().for_each(|item| look(item, secret, names)),
            Value::Object(map) => {
                for (key, value) in map {
                    look(value, secret || holds_keys(key), names);
                }
            }
            _ => {}
        }
    }
    let mut names = BTreeSet::new();
    for part in ["provider", "websearch"] {
        if let Some(value) = values.get(part) {
            look(value, false, &mut names);
        }
    }
    names
}

/// Whether a setting of this name is a key, or has keys in it.
fn holds_keys(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name == "headers" || ["key", "token", "secret", "password"].iter().any(|word| name.contains(word))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;

    fn sources() -> ConfigSources {
        let variables = Arc::new(|name: &str| (name == "NAME").then(|| "value".to_owned()));
        ConfigSources { home: "/srv/me".into(), variables, ..ConfigSources::default() }
    }

    #[test]
    fn places_in_texts_are_filled_once() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("key"), "sk-{env:NAME}\n").unwrap();
        let check = |text: &str| {
            let mut value = json!([text]);
            anchor(&mut value, folder.path(), Path::new("/srv/me"));
            fill(&mut value, &sources(), &NamedFiles::default(), &mut FileStamps::default())?;
            Ok::<_, String>(value[0].as_str().unwrap().to_owned())
        };
        assert_eq!(check("plain { text } and {odd").unwrap(), "plain { text } and {odd");
        assert_eq!(check("a {file:key} b").unwrap(), "a sk-{env:NAME} b");
        assert_eq!(check("{env:NAME}{env:NONE}x{other:y}").unwrap(), "valuex{other:y}");
        assert_eq!(check("{ {env:NAME}").unwrap(), "{ value");
        let missing = format!("it names {}, which is not there", folder.path().join("missing").display());
        assert_eq!(check("{file:missing}"), Err(missing));
        assert!(check("{file:/dev/zero}").unwrap_err().contains("it is a device, not an ordinary file"));
    }

    #[test]
    fn paths_begin_at_the_root_before_files_are_merged() {
        let check = |text: &str| {
            let mut value = json!(text);
            anchor(&mut value, Path::new("/srv/demo"), Path::new("/srv/me"));
            value
        };
        assert_eq!(
            check("{file:a} {file:~/b} {file:/c} {env:D}{"),
            "{file:/srv/demo/a} {file:/srv/me/b} {file:/c} {env:D}{"
        );
        assert!(are_in(&json!({"a": ["{env:X}"]})) && !are_in(&json!({"a": ["{env}", "{x:y}"]})));
    }

    #[test]
    fn a_header_with_the_name_of_the_person_takes_it_from_nobody() {
        let read = json!({"provider": {"p": {"options": {"apiKey": "{env:KEY}",
            "headers": {"x-by": "{env:USER} of {env:TEAM}", "x-path": "{env:PATH}"}}}}});
        let names = key_variables(read.as_object().unwrap());
        assert_eq!(names, ["KEY", "TEAM"].map(str::to_owned).into());
    }
}

//! The front matter of a file: YAML between two lines of three hyphens, at the very beginning.
//!
//! # Layout
//! - `events`: the events of a YAML parser, and where they are
//! - `values`: all of its fields, as values of any type
//! - `yaml`: the two fields of a skill, from the events of a YAML parser

mod events;
mod values;
mod yaml;

use std::collections::HashMap;
use std::fmt;

use serde_json::{Map, Value};

/// What the front matter of a skill says; fields without a meaning here are passed over.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct FrontMatter {
    pub(crate) name: Option<String>,
    pub(crate) description: Option<String>,
}

/// A text and its front matter.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FrontMatterText<'t> {
    pub(crate) fields: FrontMatter,
    pub(crate) rest: &'t str,
}

/// Why front matter cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FrontMatterFault {
    /// The line of the file and the column, from one on.
    pub place: Option<(usize, usize)>,
    /// What is wrong there.
    pub what: String,
}

impl fmt::Display for FrontMatterFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((line, column)) = self.place {
            write!(f, "line {line} column {column}: ")?;
        }
        f.write_str(&self.what)
    }
}

/// Takes the text of a skill apart.
pub(crate) fn read(text: &str) -> Result<FrontMatterText<'_>, String> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let (matter, rest) =
        split(text).ok_or("it does not begin with front matter between two lines of `---`")?;
    let fields = match yaml::read(&in_place(matter)) {
        Ok(fields) => fields,
        Err(why) => plain(matter).ok_or_else(|| format!("its front matter is no YAML: {why}"))?,
    };
    Ok(FrontMatterText { fields, rest: rest.trim() })
}

/// Whether a text begins with front matter.
#[must_use]
pub fn is_there(text: &str) -> bool {
    split(text).is_some()
}

/// The fields of a text and what follows them. A text without front matter has no fields.
///
/// # Errors
/// When there is front matter that is no YAML, or too much of it.
pub fn fields(text: &str) -> Result<(Map<String, Value>, &str), FrontMatterFault> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let Some((matter, rest)) = split(text) else { return Ok((Map::new(), text.trim())) };
    let fields = values::read(&in_place(matter)).map_err(|fault| {
        let what = format!("its front matter is no YAML: {}", fault.what);
        FrontMatterFault { what, ..fault }
    })?;
    Ok((fields, rest.trim()))
}

/// Front matter with its lines where the file has them: the line of hyphens is the first one.
fn in_place(matter: &str) -> String {
    format!("\n{matter}")
}

fn split(text: &str) -> Option<(&str, &str)> {
    let mut lines = text.split_inclusive('\n');
    let first = lines.next().filter(|line| line.trim_end() == "---")?;
    let mut end = first.len();
    for line in lines {
        if line.trim_end() == "---" {
            return Some((text.get(first.len()..end)?, text.get(end + line.len()..)?));
        }
        end += line.len();
    }
    None
}

/// Many descriptions have a colon in them, which YAML allows only in quotes. Where each line is a field and its value,
/// everybody knows what was meant.
fn plain(matter: &str) -> Option<FrontMatter> {
    let mut found = HashMap::new();
    for line in matter.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')) {
        let (key, value) = line.split_once(':')?;
        if key.starts_with([' ', '\t', '-']) {
            return None;
        }
        let value = value.trim();
        // A text over several lines, or one that a quote begins, is YAML's to read.
        if value.starts_with(['"', '\'', '|', '>', '[', '{', '&', '*', '!']) {
            return None;
        }
        found.insert(key.trim(), value.to_owned());
    }
    Some(FrontMatter { name: found.remove("name"), description: found.remove("description") })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Result<(Option<&str>, Option<&str>, &str), &str>) {
        let read = read(text);
        let read = read
            .as_ref()
            .map_err(String::as_str)
            .map(|read| (read.fields.name.as_deref(), read.fields.description.as_deref(), read.rest));
        assert_eq!(read, expected, "{text:?}");
    }

    #[test]
    fn front_matter_and_text_are_told_apart() {
        let missing = Err("it does not begin with front matter between two lines of `---`");
        check(
            "---\nname: a\ndescription: does b\n---\n\nText\n---\n",
            Ok((Some("a"), Some("does b"), "Text\n---")),
        );
        check("\u{feff}---\r\nname: a\r\n---\r\nText\r\n", Ok((Some("a"), None, "Text")));
        check("---\n---\n", Ok((None, None, "")));
        check("---\nname: a\nlicense: MIT\nmetadata:\n  x: 1\n---\nb", Ok((Some("a"), None, "b")));
        check(
            "---\nname: a\ndescription: >\n  two\n  lines\n---\nb",
            Ok((Some("a"), Some("two lines\n"), "b")),
        );
        check("", missing);
        check("# Title\n---\nname: a\n---\n", missing);
        check("---\nname: a\n", missing);
    }

    #[test]
    fn a_colon_without_quotes_is_understood() {
        let text = "---\nname: a\ndescription: Use this: always, when x: y\n---\nb";
        check(text, Ok((Some("a"), Some("Use this: always, when x: y"), "b")));
    }

    #[test]
    fn lines_are_those_of_the_file() {
        // Those of skills began below the line of hyphens.
        let text = "---\nname: a\nlist: [\n---\n";
        let of_agent = fields(text).unwrap_err();
        let of_skill = read(text).unwrap_err();
        let (line, column) = of_agent.place.unwrap();
        assert_eq!(line, 3);
        let words = of_agent.what.strip_prefix("its front matter is no YAML: ").unwrap();
        assert_eq!(of_skill, format!("its front matter is no YAML: line {line} column {column}: {words}"));
    }

    #[test]
    fn what_is_no_yaml_is_said() {
        for text in [
            "---\nname: [\n---\n",
            "---\nname: {a: b\n---\n",
            "---\n- name: a\n---\n",
            "---\njust words\n---\n",
        ] {
            assert!(
                read(text).is_err_and(|why| why.starts_with("its front matter is no YAML: ")),
                "{text:?}"
            );
        }
    }
}

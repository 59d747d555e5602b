//! Front matter as values of any type, for files that say more than a name and a description.
//!
//! Anchors and aliases are refused: nobody writes them there, and a few lines of them can stand for gigabytes.

use granit_parser::{Event, Marker, ScalarStyle, Tag};
use serde_json::{Map, Value};

use super::FrontMatterFault;
use super::events::{YamlEvents, place};

/// The most values of one document.
const VALUES_MAX: usize = 10_000;

/// How deep values may be in one another.
const DEPTH_MAX: usize = 16;

/// Reads a document whose values are the fields of a mapping. An empty one has none.
pub(super) fn read(text: &str) -> Result<Map<String, Value>, FrontMatterFault> {
    let mut reader = ValueReader { events: YamlEvents::of(text), values: 0 };
    let mut document = None;
    while let Some((event, at)) = reader.events.next()? {
        match event {
            Event::DocumentStart(..) if document.is_some() => {
                return Err(place(at, "a second document begins"));
            }
            Event::DocumentStart(..) => {
                let (event, at) = reader.events.need()?;
                document = Some((reader.value(event, at, 0)?, at));
            }
            _ => {}
        }
    }
    match document {
        None | Some((Value::Null, _)) => Ok(Map::new()),
        Some((Value::Object(fields), _)) => Ok(fields),
        Some((_, at)) => Err(place(at, "it has no fields")),
    }
}

struct ValueReader<'t> {
    events: YamlEvents<'t>,
    values: usize,
}

impl<'t> ValueReader<'t> {
    fn value(&mut self, event: Event<'t>, at: Marker, depth: usize) -> Result<Value, FrontMatterFault> {
        self.values += 1;
        if self.values > VALUES_MAX || depth > DEPTH_MAX {
            return Err(place(at, "there is too much of it"));
        }
        match event {
            Event::Scalar(text, style, 0, tag) => Ok(scalar(&text, style, tag.as_deref())),
            Event::SequenceStart(_, 0, _) => {
                let mut items = Vec::new();
                loop {
                    match self.events.need()? {
                        (Event::SequenceEnd, _) => return Ok(items.into()),
                        (event, at) => items.push(self.value(event, at, depth + 1)?),
                    }
                }
            }
            Event::MappingStart(_, 0, _) => self.mapping(depth).map(Value::Object),
            Event::Scalar(..) | Event::SequenceStart(..) | Event::MappingStart(..) | Event::Alias(_) => {
                Err(place(at, "anchors and aliases are not taken here: write it out"))
            }
            other => Err(place(at, &format!("{other:?} is unexpected"))),
        }
    }

    fn mapping(&mut self, depth: usize) -> Result<Map<String, Value>, FrontMatterFault> {
        let mut fields = Map::new();
        loop {
            let (event, at) = self.events.need()?;
            if matches!(event, Event::MappingEnd) {
                return Ok(fields);
            }
            let key = match self.value(event, at, depth + 1)? {
                Value::String(key) => key,
                Value::Number(number) => number.to_string(),
                Value::Bool(flag) => flag.to_string(),
                _ => return Err(place(at, "a key must be text")),
            };
            let (event, value_at) = self.events.need()?;
            let value = self.value(event, value_at, depth + 1)?;
            if fields.contains_key(&key) {
                return Err(place(at, &format!("`{key}` is there twice")));
            }
            fields.insert(key, value);
        }
    }
}

fn scalar(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> Value {
    if tag.is_some() || !matches!(style, ScalarStyle::Plain) {
        return text.into();
    }
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => true.into(),
        "false" | "False" | "FALSE" => false.into(),
        other => match other.parse::<i64>() {
            Ok(number) => number.into(),
            // Only what is written as a number: Rust also reads `inf` and `nan`.
            Err(_)
                if other.starts_with(|first: char| first.is_ascii_digit() || matches!(first, '-' | '.')) =>
            {
                other.parse::<f64>().map_or_else(|_| other.into(), Value::from)
            }
            Err(_) => other.into(),
        },
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_have_their_types() {
        let text = "description: a: b\nmode: subagent\ntemperature: 0.1\nhidden: true\nnothing:\nsteps: 5\n\
                    text: '5'\npermission:\n  bash:\n    \"git *\": allow\n  edit: deny\nlist: [1, x]\n1: y";
        let text = text.replacen("a: b", "\"a: b\"", 1);
        let expected = json!({"description": "a: b", "mode": "subagent", "temperature": 0.1, "hidden": true,
            "nothing": null, "steps": 5, "text": "5",
            "permission": {"bash": {"git *": "allow"}, "edit": "deny"}, "list": [1, "x"], "1": "y"});
        assert_eq!(read(&text).map(Value::Object), Ok(expected));
        assert_eq!(read(""), Ok(Map::new()));
        assert_eq!(
            read("a: .5\nb: -3\nc: 1.2.3\nd: inf").map(Value::Object),
            Ok(json!({"a": 0.5, "b": -3, "c": "1.2.3", "d": "inf"}))
        );
    }

    #[test]
    fn what_could_grow_is_refused() {
        let check = |text: &str, why: &str| {
            assert_eq!(read(text).map_err(|fault| fault.to_string()), Err(why.to_owned()), "{text:.40}");
        };
        check("a: &x b\nc: *x", "line 1 column 7: anchors and aliases are not taken here: write it out");
        check("a: 1\na: 2", "line 2 column 1: `a` is there twice");
        check("- a", "line 1 column 1: it has no fields");
        let deep = format!("a: {}{}", "[".repeat(20), "]".repeat(20));
        check(&deep, "line 1 column 20: there is too much of it");
        let long = format!("a: [{}]", "1,".repeat(VALUES_MAX));
        assert!(read(&long).is_err_and(|fault| fault.what == "there is too much of it"));
    }
}

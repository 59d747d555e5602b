//! The fields of front matter, from the events of a YAML parser.
//!
//! Two fields are wanted, and each is text. What turns YAML into values of any type is many times as large, and a tree
//! of what else a file says would only be thrown away. So a node is no more than what it can become of use for: text,
//! or the two fields of a mapping that another one may merge. It holds no other node, and no chain of aliases is deep.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use granit_parser::{Event, Marker, ScalarStyle, Tag};

use super::events::{YamlEvents, place};
use super::{FrontMatter, FrontMatterFault};

/// Reads a document. An empty one has no fields.
pub(super) fn read(text: &str) -> Result<FrontMatter, FrontMatterFault> {
    let mut reader = YamlReader { events: YamlEvents::of(text), anchors: HashMap::new() };
    let mut document = None;
    while let Some((event, at)) = reader.events.next()? {
        match event {
            Event::DocumentStart(..) if document.is_some() => {
                return Err(place(at, "a second document begins"));
            }
            Event::DocumentStart(..) => {
                let (event, at) = reader.events.need()?;
                document = Some((reader.node(event, at)?, at));
            }
            _ => {}
        }
    }
    match document {
        None | Some((YamlNode::Null, _)) => Ok(FrontMatter::default()),
        Some((YamlNode::Mapping(fields), _)) => Ok(FrontMatter {
            name: text_of("name", fields.name)?,
            description: text_of("description", fields.description)?,
        }),
        Some((YamlNode::Text(_) | YamlNode::Mappings(_) | YamlNode::Other, at)) => {
            Err(place(at, "it has no fields"))
        }
    }
}

fn text_of(name: &str, field: Option<YamlField>) -> Result<Option<String>, FrontMatterFault> {
    match field {
        None | Some(YamlField::Null) => Ok(None),
        Some(YamlField::Text(text)) => Ok(Some(text.to_string())),
        Some(YamlField::Other) => {
            Err(FrontMatterFault { place: None, what: format!("`{name}` is not text") })
        }
    }
}

/// What a node is to those who look for fields.
#[derive(Debug, Clone)]
enum YamlNode {
    Null,
    Text(Rc<str>),
    /// The fields of a mapping.
    Mapping(YamlFields),
    /// A list of nothing but mappings: each field is of the first that has it.
    Mappings(YamlFields),
    Other,
}

/// The fields of a mapping, its own and those that it merges.
#[derive(Debug, Clone, Default)]
struct YamlFields {
    name: Option<YamlField>,
    description: Option<YamlField>,
}

impl YamlFields {
    fn or(self, other: Self) -> Self {
        Self { name: self.name.or(other.name), description: self.description.or(other.description) }
    }
}

/// The value of a field.
#[derive(Debug, Clone)]
enum YamlField {
    Null,
    Text(Rc<str>),
    Other,
}

impl From<YamlNode> for YamlField {
    fn from(node: YamlNode) -> Self {
        match node {
            YamlNode::Null => Self::Null,
            YamlNode::Text(text) => Self::Text(text),
            YamlNode::Mapping(_) | YamlNode::Mappings(_) | YamlNode::Other => Self::Other,
        }
    }
}

struct YamlReader<'t> {
    events: YamlEvents<'t>,
    anchors: HashMap<usize, YamlNode>,
}

impl<'t> YamlReader<'t> {
    /// The node that begins with an event. The parser allows 255 nodes of a kind in one another.
    fn node(&mut self, event: Event<'t>, at: Marker) -> Result<YamlNode, FrontMatterFault> {
        let (node, anchor) = match event {
            Event::Scalar(text, style, anchor, tag) => (scalar(&text, style, tag.as_deref()), anchor),
            Event::SequenceStart(_, anchor, _) => (self.sequence()?, anchor),
            Event::MappingStart(_, anchor, _) => (self.mapping()?, anchor),
            // What is not known yet is what the alias is in.
            Event::Alias(anchor) => {
                let known = self.anchors.get(&anchor).cloned();
                return known.ok_or_else(|| place(at, "an alias stands for what it is in"));
            }
            other => return Err(place(at, &format!("{other:?} is unexpected"))),
        };
        // Anchors are counted from one.
        if anchor > 0 {
            self.anchors.insert(anchor, node.clone());
        }
        Ok(node)
    }

    fn sequence(&mut self) -> Result<YamlNode, FrontMatterFault> {
        let (mut merged, mut mappings) = (YamlFields::default(), true);
        loop {
            match self.events.need()? {
                (Event::SequenceEnd, _) if mappings => return Ok(YamlNode::Mappings(merged)),
                (Event::SequenceEnd, _) => return Ok(YamlNode::Other),
                (event, at) => match self.node(event, at)? {
                    YamlNode::Mapping(fields) => merged = merged.or(fields),
                    YamlNode::Null | YamlNode::Text(_) | YamlNode::Mappings(_) | YamlNode::Other => {
                        mappings = false;
                    }
                },
            }
        }
    }

    fn mapping(&mut self) -> Result<YamlNode, FrontMatterFault> {
        let (mut own, mut merged) = (YamlFields::default(), YamlFields::default());
        let mut keys = HashSet::new();
        loop {
            let (event, at) = self.events.need()?;
            if matches!(event, Event::MappingEnd) {
                return Ok(YamlNode::Mapping(own.or(merged)));
            }
            let key = self.node(event, at)?;
            let (event, value_at) = self.events.need()?;
            let value = self.node(event, value_at)?;
            let YamlNode::Text(key) = key else { continue };
            match &*key {
                "name" => own.name = Some(value.into()),
                "description" => own.description = Some(value.into()),
                "<<" => match value {
                    YamlNode::Mapping(fields) | YamlNode::Mappings(fields) => merged = merged.or(fields),
                    YamlNode::Null | YamlNode::Text(_) | YamlNode::Other => {
                        return Err(place(value_at, "only mappings can be merged"));
                    }
                },
                _ => {}
            }
            if !keys.insert(Rc::clone(&key)) {
                return Err(place(at, &format!("`{key}` is there twice")));
            }
        }
    }
}

fn scalar(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> YamlNode {
    let plain = matches!(style, ScalarStyle::Plain);
    match tag.and_then(Tag::core_suffix) {
        Some("null") => YamlNode::Null,
        Some("str") => YamlNode::Text(text.into()),
        Some(_) => YamlNode::Other,
        None if tag.is_none() && plain && matches!(text, "" | "~" | "null" | "Null" | "NULL") => {
            YamlNode::Null
        }
        None => YamlNode::Text(text.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, name: Option<&str>, description: Option<&str>) {
        let found = read(text).unwrap_or_else(|why| panic!("{text:?}: {why}"));
        assert_eq!((found.name.as_deref(), found.description.as_deref()), (name, description), "{text:?}");
    }

    fn refuse(text: &str, why: &str) {
        assert_eq!(read(text).map_err(|fault| fault.to_string()), Err(why.to_owned()), "{text:?}");
    }

    #[test]
    fn each_way_to_write_text_is_read() {
        check("name: a\ndescription: b # not this", Some("a"), Some("b"));
        check("{name: a, description: 'it''s b'}", Some("a"), Some("it's b"));
        check("'name': a\n\"description\": \"b\\u0021\\n\"", Some("a"), Some("b!\n"));
        check("name: >-\n  a\n  b\ndescription: |\n  c\n  d", Some("a b"), Some("c\nd\n"));
        check("? name\n: a\ndescription: b\n  c", Some("a"), Some("b c"));
        check("%YAML 1.2\n---\nname: a\n...\n", Some("a"), None);
    }

    #[test]
    fn what_looks_like_another_type_is_text_where_text_is_wanted() {
        check("name: 5\ndescription: true", Some("5"), Some("true"));
        check("name: 1e3\ndescription: 2026-01-01", Some("1e3"), Some("2026-01-01"));
        check("name: !!str 5\ndescription: !custom b", Some("5"), Some("b"));
        check("name: 'null'\ndescription: !!str null", Some("null"), Some("null"));
        refuse("name: !!int 5", "`name` is not text");
        refuse("name: [a]", "`name` is not text");
        refuse("description: {a: b}", "`description` is not text");
    }

    #[test]
    fn a_field_may_be_empty() {
        for text in [
            "",
            "# nothing",
            "~",
            "null",
            "{}",
            "name:",
            "name: ~",
            "name: Null",
            "{name}",
            "name: !!null ''",
        ] {
            check(text, None, None);
        }
        check("name: ''\ndescription: \"\"", Some(""), Some(""));
    }

    #[test]
    fn other_fields_are_passed_over() {
        check("5: x\n[a, b]: y\nmetadata: {name: z, tags: [1, {a: b}]}\nname: a", Some("a"), None);
    }

    #[test]
    fn aliases_stand_for_what_they_name() {
        check("name: &x a\ndescription: *x", Some("a"), Some("a"));
        check("key: &k name\n*k : a", Some("a"), None);
        check("list: [&q a, *q]\nname: *q", Some("a"), None);
        refuse("name: *x", "line 1 column 7: while parsing node, found unknown anchor");
        refuse("&a {name: b, x: *a}", "line 1 column 17: an alias stands for what it is in");
    }

    #[test]
    fn mappings_are_merged_behind_what_is_said_itself() {
        check("<<: {name: a}\ndescription: b", Some("a"), Some("b"));
        check("base: &b {name: a}\n<<: *b", Some("a"), None);
        check("<<: {name: b}\nname: a", Some("a"), None);
        check("name: a\n<<: {name: b, description: c}", Some("a"), Some("c"));
        check("<<: [{name: a}, {name: b, description: c}]", Some("a"), Some("c"));
        refuse("name: a\n<<: 5", "line 2 column 5: only mappings can be merged");
    }

    #[test]
    fn what_is_said_twice_is_refused() {
        refuse("name: a\nname: b", "line 2 column 1: `name` is there twice");
        refuse("x: {d: 1, d: 2}\nname: k", "line 1 column 11: `d` is there twice");
        refuse("name: a\n---\nname: b", "line 2 column 1: a second document begins");
    }

    #[test]
    fn what_has_no_fields_is_refused() {
        for text in ["just words", "5", "- a", "[name, a]", "\"\""] {
            refuse(text, "line 1 column 1: it has no fields");
        }
        refuse(
            "name: a\ndescription: b: c",
            "line 2 column 15: mapping values are not allowed in this context",
        );
    }

    #[test]
    fn a_long_chain_of_aliases_is_read() {
        // As a tree of nodes that hold one another, it was deeper than the stack.
        let mut text = "a0: &a0 {name: a}\n".to_owned();
        for link in 1..20_000 {
            text.push_str(&format!("a{link}: &a{link} [*a{}]\n", link - 1));
        }
        text.push_str("name: b\n");
        check(&text, Some("b"), None);
    }

    #[test]
    fn deep_nesting_is_refused() {
        let text = format!("name: {}", "[".repeat(100_000));
        assert!(read(&text).is_err());
        let text = format!("a: {}{}\nname: b", "[".repeat(200), "]".repeat(200));
        check(&text, Some("b"), None);
    }
}

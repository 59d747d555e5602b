//! The variables that a line sets, and what words become with them.
//!
//! A value counts wherever the variable is used, whatever the order: loops and conditions decide which one it has. Where
//! it may have none yet it may be empty, which makes `$d/etc` another path, or come from outside the line.

use std::cell::Cell;
use std::collections::HashMap;
use std::ops::Range;

use tree_sitter::Node;

use super::lexer::SubstitutionEnds;
use super::programs::listed;
use super::shape::{
    ANYTHING, END, HOME, NAMES, NUMBER, SHAPES_MAX, SPLIT_VALUE, VALUE, WORDS, alternatives, is_open, literal,
};
use super::syntax::{children, start, text};
use super::variables;
use super::word::CommandWord;

/// Values within values are followed this far.
const DEPTH_MAX: usize = 6;

/// How much text values may become in all, in bytes: some that name one another grow without end.
const TEXT_MAX: usize = 1024 * 1024;

/// Commands that set the variables they are given the names of.
const SETTERS: &str =
    "read printf mapfile readarray getopts let wait declare typeset local export readonly unset";

/// Variables that the shell changes by itself.
const MOVING: &str =
    "_ PWD OLDPWD DIRSTACK REPLY OPTARG FUNCNAME GROUPS PIPESTATUS BASH_COMMAND BASH_SUBSHELL";

/// What a variable is set to in a line.
#[derive(Debug, Default)]
struct VariableSettings {
    /// The shapes, and where each was set.
    shapes: Vec<(usize, String)>,
    /// It may be set to anything.
    unknown: bool,
    /// Where it is certain to be set.
    certain: Vec<Range<usize>>,
}

/// The variables of a line.
#[derive(Debug, Default)]
pub(super) struct LineValues {
    settings: HashMap<String, VariableSettings>,
    /// Any variable may be set to anything.
    lost: bool,
    /// How much text values have become so far.
    spent: Cell<usize>,
}

impl LineValues {
    /// Looks for everything in a line that sets a variable.
    pub(super) fn of(nodes: &[(Node<'_>, Option<Node<'_>>)], line: &str, ends: &SubstitutionEnds) -> Self {
        let mut values = Self::default();
        let read = |node: Node<'_>| {
            let at = start(node, line);
            line.get(at..node.end_byte()).and_then(|source| CommandWord::read(source, at, ends).ok())
        };
        for (node, parent) in nodes {
            match (node.kind(), parent) {
                ("variable_assignment", Some(parent)) if parent.kind() != "command" => {
                    let Some(word) = read(*node) else {
                        values.lost = true;
                        continue;
                    };
                    let (name, shape) = word.shape.split_once('=').unwrap_or((word.shape.as_str(), WORDS));
                    let certain = is_certain(*node, *parent).then(|| node.end_byte()..line.len());
                    let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
                    let shapes = plain.then(|| vec![(node.start_byte(), literal(shape))]);
                    values.set(name.trim_end_matches('+'), shapes, certain);
                }
                ("for_statement", _) => {
                    let Some(name) = node.child_by_field_name("variable") else { continue };
                    let shapes: Option<Vec<(usize, String)>> = children(*node)
                        .into_iter()
                        .filter(|(field, _)| *field == Some("value"))
                        .map(|(_, child)| Some((child.start_byte(), alternatives(&read(child)?.shape)?)))
                        .collect::<Option<Vec<(usize, Vec<String>)>>>()
                        .filter(|words| !words.is_empty())
                        .map(|words| {
                            let each = |(at, shapes): (usize, Vec<String>)| {
                                shapes.into_iter().map(move |shape| (at, shape))
                            };
                            words.into_iter().flat_map(each).collect()
                        });
                    values.set(text(name, line), shapes, Some(node.byte_range()));
                }
                // A function may be called what a substitution is known by. An option may make a name stand for another
                // variable.
                ("unset_command" | "function_definition", _) => values.lost = true,
                ("declaration_command", _) => {
                    let plain = |kind: &str| matches!(kind, "variable_assignment" | "variable_name");
                    values.lost |= children(*node).iter().skip(1).any(|(_, child)| !plain(child.kind()));
                }
                ("command", _) => {
                    let words = children(*node).into_iter().map(|(_, child)| child);
                    let words: Vec<Option<CommandWord>> =
                        words.filter(|child| !child.kind().contains("redirect")).map(read).collect();
                    values.set_by_command(&words);
                }
                _ => {}
            }
        }
        values
    }

    fn set(&mut self, name: &str, shapes: Option<Vec<(usize, String)>>, certain: Option<Range<usize>>) {
        let settings = self.settings.entry(name.to_owned()).or_default();
        settings.certain.extend(certain);
        match shapes {
            Some(shapes) if settings.shapes.len() + shapes.len() <= SHAPES_MAX => {
                for (at, shape) in shapes {
                    if !settings.shapes.iter().any(|(_, known)| *known == shape && !shape.contains(is_open)) {
                        settings.shapes.push((at, shape));
                    }
                }
            }
            _ => settings.unknown = true,
        }
    }

    /// A command such as `read x`, also behind `command` or `builtin`.
    fn set_by_command(&mut self, words: &[Option<CommandWord>]) {
        let known: Vec<&str> =
            words.iter().map(|word| word.as_ref().and_then(CommandWord::known).unwrap_or_default()).collect();
        let before = |word: &&&str| listed("command builtin eval time -p --", word) || word.contains('=');
        let at = known.iter().take_while(before).count();
        let names = known.get(at + 1..).unwrap_or_default();
        let printed =
            known.get(at) == Some(&"printf") && !names.first().is_some_and(|name| name.starts_with("-v"));
        if printed || !known.get(at).is_some_and(|name| listed(SETTERS, name)) {
            return;
        }
        for name in names {
            // What is only known later may be any name.
            self.lost |= name.is_empty() || name.starts_with("-v") || name.starts_with("-n");
            self.set(name.split(['=', '[']).next().unwrap_or_default(), None, None);
        }
    }

    /// What a shape may turn out as, the signs for variables replaced by their values; never empty. What is not known
    /// stays a sign for anything.
    pub(super) fn shapes(&self, shape: &str, at: usize) -> Vec<String> {
        let open = || vec![format!("{}{WORDS}", shape.split(is_sign).next().unwrap_or_default())];
        let Some(shapes) = alternatives(shape) else { return open() };
        let mut found = Vec::new();
        for shape in shapes {
            match self.fill(&shape, at, DEPTH_MAX) {
                Some(filled) if found.len() + filled.len() <= SHAPES_MAX => found.extend(filled),
                _ => return open(),
            }
        }
        found
    }

    fn fill(&self, shape: &str, at: usize, depth: usize) -> Option<Vec<String>> {
        let mut done = vec![String::new()];
        let mut rest = shape;
        while let Some(place) = rest.find([VALUE, SPLIT_VALUE]) {
            let (before, marked) = rest.split_at_checked(place)?;
            let quoted = marked.starts_with(VALUE);
            let (body, after) = marked.get(1..)?.split_once(END)?;
            let leads =
                done.iter().all(String::is_empty) && before.is_empty() || before.ends_with(leads_to_path);
            let values = self.values(body, at, leads, depth).unwrap_or_else(|| vec![ANYTHING.to_owned()]);
            let values: Vec<String> =
                if quoted { values } else { values.iter().map(|v| self.split(v)).collect() };
            let length: usize = done.iter().map(String::len).sum::<usize>() + before.len() + 64;
            self.spent.set(self.spent.get() + length * values.len());
            if done.len() * values.len() > SHAPES_MAX || self.spent.get() > TEXT_MAX {
                return None;
            }
            let pairs = done.iter().flat_map(|start| values.iter().map(move |value| (start, value)));
            done = pairs.map(|(start, value)| format!("{start}{before}{value}")).collect();
            rest = after;
        }
        done.iter_mut().for_each(|shape| shape.push_str(rest));
        Some(done)
    }

    /// What an unquoted value becomes: it is split, and its patterns match names.
    fn split(&self, value: &str) -> String {
        if value.contains([' ', '\t', '\n']) || value.contains(is_open) || self.settings.contains_key("IFS") {
            return WORDS.to_owned();
        }
        value.replace(['*', '?', '['], NAMES)
    }

    /// The values of `$name` or `${name…}`; nothing if they cannot be told.
    fn values(&self, body: &str, at: usize, leads: bool, depth: usize) -> Option<Vec<String>> {
        let length = body.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(body.len());
        let (name, operation) = body.split_at_checked(length)?;
        let cut = |value: String| match operation {
            "" => Some(value),
            "##*/" => value.rsplit('/').next().map(ToOwned::to_owned),
            "%/*" => Some(value.rsplit_once('/').map_or(value.as_str(), |(folder, _)| folder).to_owned()),
            _ => {
                let suffix = operation.strip_prefix('%')?;
                let plain = suffix.chars().all(|c| c.is_ascii_alphanumeric() || c == '.' || c == '_');
                plain.then(|| value.strip_suffix(suffix).unwrap_or(&value).to_owned())
            }
        };
        let values = match self.settings.get(name) {
            _ if self.lost || depth == 0 => return None,
            None if body == NUMBER => return Some(vec!["0".to_owned()]),
            // A folder by its whole name is a path only where one begins.
            None if leads && body == "PWD" => vec![".".to_owned()],
            None if leads && body == "HOME" => vec![HOME.to_string()],
            None => return None,
            Some(settings) => {
                let certain = settings.certain.iter().any(|range| range.contains(&at));
                if settings.unknown || listed(MOVING, name) || !certain && !variables::small(name) {
                    return None;
                }
                let mut values = if certain { Vec::new() } else { vec![String::new()] };
                for (at, shape) in &settings.shapes {
                    values.extend(self.fill(shape, *at, depth - 1)?);
                    if values.len() > SHAPES_MAX {
                        return None;
                    }
                }
                values
            }
        };
        values.into_iter().map(cut).collect()
    }
}

/// Whether a path can begin behind this character.
pub(super) fn leads_to_path(c: char) -> bool {
    c.is_whitespace() || "=:,@([{<>|;&'\"`!".contains(c)
}

fn is_sign(c: char) -> bool {
    c.is_control()
}

/// Whether an assignment is done before anything behind it: it stands on its own, or first in a list.
fn is_certain(node: Node<'_>, parent: Node<'_>) -> bool {
    let mut node = node;
    let mut parent = Some(parent);
    while let Some(outer) = parent.filter(|outer| matches!(outer.kind(), "list" | "variable_assignments")) {
        if outer.kind() == "list" && outer.child(0) != Some(node) {
            return false;
        }
        node = outer;
        parent = outer.parent();
    }
    // Behind `&` it is set in another shell.
    let alone = node.next_sibling().is_none_or(|next| next.kind() != "&");
    parent.is_some_and(|outer| outer.kind() == "program") && alone
}

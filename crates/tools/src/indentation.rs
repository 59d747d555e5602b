//! How the indentation of a text that a model wrote becomes that of the file it goes into.
//!
//! There is a rule only if all lines that are in both agree on it; an indentation that the rule does not cover is
//! not made up.

use std::collections::HashMap;

/// The whitespace that a line begins with.
pub(crate) fn indent(line: &str) -> &str {
    line.get(..line.len() - line.trim_start().len()).unwrap_or_default()
}

/// How one indentation becomes another.
#[derive(Debug)]
pub(crate) enum IndentationRule<'a> {
    /// The file has this much more in front.
    Deeper(&'a str),
    /// The file has this much less in front.
    Shallower(&'a str),
    /// So many spaces are one tab in the file.
    Tabs(usize),
    /// One tab is so many spaces in the file.
    Spaces(usize),
    /// Each indentation that occurs has one in the file.
    Table(HashMap<&'a str, &'a str>),
}

impl<'a> IndentationRule<'a> {
    /// The rule that all pairs of an indentation and that of the file agree on.
    pub(crate) fn of(pairs: &[(&'a str, &'a str)]) -> Option<Self> {
        let &(old, file) = pairs.first()?;
        if let Some(more) = file.strip_suffix(old)
            && pairs.iter().all(|(old, file)| file.strip_prefix(more) == Some(*old))
        {
            return Some(Self::Deeper(more));
        }
        if let Some(less) = old.strip_suffix(file)
            && pairs.iter().all(|(old, file)| old.strip_prefix(less) == Some(*file))
        {
            return Some(Self::Shallower(less));
        }
        if let Some(width) = width(pairs) {
            return Some(Self::Tabs(width));
        }
        let turned: Vec<(&str, &str)> = pairs.iter().map(|(old, file)| (*file, *old)).collect();
        if let Some(width) = width(&turned) {
            return Some(Self::Spaces(width));
        }
        let mut table = HashMap::new();
        pairs
            .iter()
            .all(|(old, file)| table.insert(*old, *file).is_none_or(|other| other == *file))
            .then_some(())?;
        Some(Self::Table(table))
    }

    /// What an indentation is in the file, if that is clear.
    pub(crate) fn apply(&self, own: &str) -> Option<String> {
        match self {
            Self::Deeper(more) => Some(format!("{more}{own}")),
            Self::Shallower(less) => own.strip_prefix(less).map(str::to_owned),
            Self::Tabs(width) => {
                let even = own.bytes().all(|byte| byte == b' ') && own.len().is_multiple_of(*width);
                even.then(|| "\t".repeat(own.len() / width))
            }
            Self::Spaces(width) => {
                own.bytes().all(|byte| byte == b'\t').then(|| " ".repeat(own.len() * width))
            }
            Self::Table(table) => table.get(own).map(|file| (*file).to_owned()),
        }
    }
}

/// How many spaces on the first side are a tab on the second, if all pairs agree.
fn width(pairs: &[(&str, &str)]) -> Option<usize> {
    let (spaces, tabs) = pairs.iter().find(|(_, tabs)| !tabs.is_empty())?;
    let width = spaces.len().checked_div(tabs.len()).filter(|width| *width > 0)?;
    let agrees = |(spaces, tabs): &(&str, &str)| {
        spaces.bytes().all(|byte| byte == b' ')
            && tabs.bytes().all(|byte| byte == b'\t')
            && spaces.len() == tabs.len() * width
    };
    pairs.iter().all(agrees).then_some(width)
}

//! Where an attachment is: which file, and which of its lines.

use std::path::{Display, Path, PathBuf};

use everturn_model::part::PartKind;
use everturn_tools::foreign_file::LineRange;

use crate::inbox::{PartInput, ResourceAddress};

/// How much of an address where nobody looks is named, in characters.
const LONGEST_NAMED: usize = 200;

/// Where the content of a part is.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum AttachmentPlace {
    /// It attaches nothing, as most parts.
    Nowhere,
    /// An MCP server has it.
    Server(ResourceAddress),
    /// A file or folder of this machine.
    Disk,
    /// In the address itself.
    Inside,
    /// At an address where nobody looks; its beginning.
    Elsewhere(String),
}

impl AttachmentPlace {
    /// Where the content of this part is.
    pub(super) fn of(part: &PartInput) -> Self {
        let PartKind::File { url, .. } = &part.kind else { return Self::Nowhere };
        if let Some(address) = part.resource.clone() {
            return Self::Server(address);
        }
        match url.split_once(':').map(|(scheme, _)| scheme.to_ascii_lowercase()).as_deref() {
            Some("file") => Self::Disk,
            Some("data") => Self::Inside,
            _ => Self::Elsewhere(url.chars().take(LONGEST_NAMED).collect()),
        }
    }
}

/// A file or folder by its address, and which lines of it are wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FileAddress {
    /// An absolute path.
    pub(super) path: PathBuf,
    /// The lines; none is all of them.
    pub(super) lines: Option<LineRange>,
}

impl FileAddress {
    /// What an address says, `file:///path?start=10&end=20`, lines counted from 1. A path that is not absolute is one below
    /// the folder.
    pub(super) fn of(url: &str, directory: &str) -> Result<Self, String> {
        let rest = url.split_once(':').map_or(url, |(_, rest)| rest);
        let rest = rest.strip_prefix("//").unwrap_or(rest);
        let rest = rest.strip_prefix("localhost").filter(|rest| rest.starts_with('/')).unwrap_or(rest);
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        let path = Path::new(directory).join(decode(path));
        let lines = lines(query)
            .map_err(|reason| format!("Attached file {} is not shown: {reason}.", path.display()))?;
        Ok(Self { path, lines })
    }

    /// The path, to speak of it.
    pub(super) fn path(&self) -> Display<'_> {
        self.path.display()
    }
}

fn lines(query: &str) -> Result<Option<LineRange>, String> {
    let value = |name: &str| {
        let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        let value = pairs.find(|(key, value)| *key == name && !value.is_empty())?.1;
        Some(decode(value))
    };
    let number = |name: &str| match value(name) {
        None => Ok(None),
        Some(text) => {
            text.parse::<u64>().map(Some).map_err(|_| format!("its {name} is {text}, which is no line"))
        }
    };
    let (first, last) = (number("start")?, number("end")?);
    if first.is_none() && last.is_none() {
        return Ok(None);
    }
    // Some clients count from 0.
    let first = first.unwrap_or(1).max(1);
    match last {
        Some(last) if last < first => Err(format!("there is nothing from line {first} to line {last}")),
        last => Ok(Some(LineRange { first, last })),
    }
}

/// An address's text with its `%xx` read.
fn decode(text: &str) -> String {
    percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(url: &str, path: &str, lines: Option<(u64, Option<u64>)>) {
        let lines = lines.map(|(first, last)| LineRange { first, last });
        assert_eq!(FileAddress::of(url, "/srv/demo"), Ok(FileAddress { path: path.into(), lines }), "{url}");
    }

    #[test]
    fn addresses_are_decoded() {
        check("file:///srv/a%20b/%C3%A9.txt", "/srv/a b/é.txt", None);
        check("file:///srv/100%/x%zz", "/srv/100%/x%zz", None);
        // A sign before a digit was once taken for a part of a number.
        check("file:///srv/%+1", "/srv/%+1", None);
        check("FILE:///srv/what%3F.txt", "/srv/what?.txt", None);
        check("file://localhost/srv/a", "/srv/a", None);
        check("file://a.txt", "/srv/demo/a.txt", None);
        check("file:///srv/a?x=y", "/srv/a", None);
    }

    #[test]
    fn addresses_name_lines() {
        check("file:///a?start=10&end=20", "/a", Some((10, Some(20))));
        check("file:///a?start=10", "/a", Some((10, None)));
        check("file:///a?start=10&end=", "/a", Some((10, None)));
        check("file:///a?end=5", "/a", Some((1, Some(5))));
        check("file:///a?start=0&end=5", "/a", Some((1, Some(5))));
        check("file:///a?start=7&end=7", "/a", Some((7, Some(7))));
    }

    #[test]
    fn lines_that_are_none_are_named() {
        let check = |url: &str, reason: &str| {
            let expected = format!("Attached file /a is not shown: {reason}.");
            assert_eq!(FileAddress::of(url, "/srv/demo"), Err(expected), "{url}");
        };
        check("file:///a?start=20&end=10", "there is nothing from line 20 to line 10");
        check("file:///a?start=ten", "its start is ten, which is no line");
        check("file:///a?start=1&end=-1", "its end is -1, which is no line");
    }
}

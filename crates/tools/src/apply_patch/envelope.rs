//! A patch as the model writes it, taken apart into files and hunks.
//!
//! The form is line by line: `*** Begin Patch`, then for each file a header (`*** Add File:`, `*** Delete File:`,
//! `*** Update File:`) with its lines, then `*** End Patch`. A line of a hunk begins with a space, `-` or `+`;
//! `@@ text` names a line above it; `*** End of File` pins it to the end. `\ No newline at end of file` after a line
//! says what it says in other diffs. Models wrap patches into here-documents and code fences, which are taken off.

/// The line that says that the one before has no end.
const OPEN: &str = "\\ ";

/// What happens to one file.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PatchSection {
    Add { path: String, content: String },
    Delete { path: String },
    Update { path: String, destination: Option<String>, hunks: Vec<Hunk> },
}

/// A piece of a file with what becomes of it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Hunk {
    /// Lines that come before it in the file, each after the one before.
    pub(super) anchors: Vec<String>,
    pub(super) lines: Vec<PatchLine>,
    /// Whether it is the end of the file.
    pub(super) at_end: bool,
    /// Whether the file ended without a line break.
    pub(super) old_open: bool,
    /// Whether the file ends without a line break afterwards.
    pub(super) new_open: bool,
}

/// A line of a hunk.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PatchLine {
    pub(super) kind: PatchLineKind,
    /// The text without its end.
    pub(super) text: String,
    /// Whether the patch itself has a carriage return at its end.
    pub(super) carriage: bool,
}

/// What becomes of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PatchLineKind {
    Kept,
    Removed,
    Added,
}

/// Takes a patch apart; an error says which line is wrong, and why.
pub(super) fn parse(text: &str) -> Result<Vec<PatchSection>, String> {
    let mut lines: Vec<&str> = text.lines().collect();
    // `lines` takes carriage returns off, which are kept unless the whole patch has them.
    let carriage =
        text.contains("\r\n") && text.trim_end().split('\n').rev().skip(1).all(|line| line.ends_with('\r'));
    if !carriage {
        lines = text.split('\n').collect();
        lines.pop_if(|last| last.is_empty());
    }
    let is = |line: &&str, word: &str| line.trim() == word;
    let begin = lines.iter().position(|line| is(line, "*** Begin Patch"));
    let end = lines.iter().rposition(|line| is(line, "*** End Patch"));
    let (Some(begin), Some(end)) = (begin, end) else {
        return Err(
            "A patch begins with the line `*** Begin Patch` and ends with the line `*** End Patch`.".into()
        );
    };
    let before = lines.get(..begin).unwrap_or_default();
    let after = lines.get(end + 1..).unwrap_or_default();
    let body = lines.get(begin + 1..end).unwrap_or_default();
    if !before.iter().all(|line| opens(line)) || !after.iter().all(|line| closes(line)) {
        return Err("There is text before `*** Begin Patch` or after `*** End Patch`.".into());
    }
    let mut parser = PatchParser { lines: body, at: 0, offset: begin + 2 };
    let mut sections = Vec::new();
    while let Some(line) = parser.next() {
        if line.trim().is_empty() {
            continue;
        }
        sections.push(parser.section(line)?);
    }
    if sections.is_empty() {
        return Err(
            "The patch names no file. Use `*** Add File:`, `*** Update File:` or `*** Delete File:`.".into(),
        );
    }
    Ok(sections)
}

/// Whether a line may come before a patch: the command of a here-document, or a code fence.
fn opens(line: &str) -> bool {
    let line = line.trim();
    line.is_empty() || line.starts_with("```") || line.contains("<<")
}

/// Whether a line may come after a patch: the word that ends a here-document, or a code fence.
fn closes(line: &str) -> bool {
    let line = line.trim();
    line.is_empty() || line == "```" || line.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[derive(Debug)]
struct PatchParser<'a> {
    lines: &'a [&'a str],
    at: usize,
    /// The number of the first line in the patch.
    offset: usize,
}

impl<'a> PatchParser<'a> {
    fn peek(&self) -> Option<&'a str> {
        self.lines.get(self.at).copied()
    }

    fn next(&mut self) -> Option<&'a str> {
        let line = self.peek()?;
        self.at += 1;
        Some(line)
    }

    /// An error about the line that was taken last.
    fn wrong(&self, why: &str) -> String {
        let line: String = self
            .at
            .checked_sub(1)
            .and_then(|at| self.lines.get(at))
            .unwrap_or(&"")
            .chars()
            .take(200)
            .collect();
        format!("Line {} of the patch is wrong: {why} It is: {line}", self.offset + self.at - 1)
    }

    fn section(&mut self, header: &str) -> Result<PatchSection, String> {
        let named = |word: &str| header.strip_prefix(word).map(|path| path.trim().to_owned());
        let section = if let Some(path) = named("*** Add File:") {
            PatchSection::Add { content: self.content()?, path }
        } else if let Some(path) = named("*** Delete File:") {
            PatchSection::Delete { path }
        } else if let Some(path) = named("*** Update File:") {
            let destination = self.peek().and_then(|line| line.strip_prefix("*** Move to:"));
            let destination = destination.map(|path| path.trim().to_owned());
            self.at += usize::from(destination.is_some());
            PatchSection::Update { path, destination, hunks: self.hunks()? }
        } else {
            return Err(self.wrong(
                "A file begins with `*** Add File: path`, `*** Update File: path` or `*** Delete File: path`.",
            ));
        };
        Ok(section)
    }

    /// The lines of a new file.
    fn content(&mut self) -> Result<String, String> {
        let mut content = String::new();
        while let Some(line) = self.peek().filter(|line| !line.starts_with("*** ")) {
            self.at += 1;
            if let Some(text) = line.strip_prefix('+') {
                content.push_str(text);
                content.push('\n');
            } else if line.starts_with(OPEN) && content.ends_with('\n') {
                content.pop();
            } else if !line.trim().is_empty() || !self.blank_until_header() {
                return Err(self.wrong("Every line of a new file begins with `+`."));
            }
        }
        Ok(content)
    }

    /// Whether nothing but empty lines comes before the next header.
    fn blank_until_header(&self) -> bool {
        let rest = self.lines.get(self.at..).unwrap_or_default();
        rest.iter().find(|line| !line.trim().is_empty()).is_none_or(|line| line.starts_with("*** "))
    }

    fn hunks(&mut self) -> Result<Vec<Hunk>, String> {
        let mut hunks = Vec::new();
        let mut hunk = Hunk::default();
        while let Some(line) = self.peek() {
            let end = line.trim_end() == "*** End of File";
            if line.starts_with("*** ") && !end {
                break;
            }
            self.at += 1;
            if end {
                if hunk.lines.is_empty() {
                    return Err(self.wrong("It ends a hunk that has no lines."));
                }
                hunk.at_end = true;
                hunks.push(std::mem::take(&mut hunk));
            } else if let Some(anchor) = line.strip_prefix("@@") {
                if !hunk.lines.is_empty() {
                    hunks.push(std::mem::take(&mut hunk));
                }
                hunk.anchors.extend(anchor_text(anchor));
            } else if line.starts_with(OPEN) {
                hunk.open().ok_or_else(|| self.wrong("It follows no line of a hunk."))?;
            } else if line.trim_end_matches('\r').is_empty() {
                // An empty line that lost its space, unless it only keeps this file apart from what follows.
                let rest = self.lines.get(self.at..).unwrap_or_default();
                let next = rest.iter().find(|line| !line.trim_end_matches('\r').is_empty());
                if next.is_some_and(|next| !next.starts_with("*** ") && !next.starts_with("@@")) {
                    hunk.lines.push(PatchLine::new(PatchLineKind::Kept, line));
                }
            } else {
                hunk.lines.push(PatchLine::parse(line).ok_or_else(|| {
                    self.wrong("A line of a hunk begins with a space (kept), `-` (removed) or `+` (added).")
                })?);
            }
        }
        if !hunk.lines.is_empty() {
            hunks.push(hunk);
        } else if !hunk.anchors.is_empty() {
            return Err(self.wrong("It names a place at which nothing changes."));
        }
        Ok(hunks)
    }
}

/// What a `@@` line names: nothing if it is empty or only has line numbers, as other diffs have them.
fn anchor_text(anchor: &str) -> Option<String> {
    let text = anchor.strip_prefix(' ').unwrap_or(anchor).trim_end();
    let numbers = text.starts_with('-') && text.contains(" +") && text.contains("@@");
    (!text.trim().is_empty() && !numbers).then(|| text.to_owned())
}

impl Hunk {
    /// Notes that the last line has no end.
    fn open(&mut self) -> Option<()> {
        let kind = self.lines.last()?.kind;
        self.old_open |= kind != PatchLineKind::Added;
        self.new_open |= kind != PatchLineKind::Removed;
        Some(())
    }
}

impl PatchLine {
    fn parse(line: &str) -> Option<Self> {
        let mut chars = line.chars();
        let kind = match chars.next()? {
            ' ' => PatchLineKind::Kept,
            '-' => PatchLineKind::Removed,
            '+' => PatchLineKind::Added,
            _ => return None,
        };
        Some(Self::new(kind, chars.as_str()))
    }

    fn new(kind: PatchLineKind, text: &str) -> Self {
        let bare = text.strip_suffix('\r');
        Self { kind, text: bare.unwrap_or(text).to_owned(), carriage: bare.is_some() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(kind: PatchLineKind, text: &str) -> PatchLine {
        PatchLine { kind, text: text.to_owned(), carriage: false }
    }

    const PATCH: &str = "*** Begin Patch\n*** Add File: a b.txt\n+one\n+\n*** Update File: old\n*** Move to: new\n\
                         @@ class A\n@@ fn f\n kept\n-gone\n+come\n*** End of File\n\n*** Delete File: c\n*** End Patch";

    fn sections() -> Vec<PatchSection> {
        let hunk = Hunk {
            anchors: vec!["class A".to_owned(), "fn f".to_owned()],
            lines: vec![
                line(PatchLineKind::Kept, "kept"),
                line(PatchLineKind::Removed, "gone"),
                line(PatchLineKind::Added, "come"),
            ],
            at_end: true,
            ..Hunk::default()
        };
        vec![
            PatchSection::Add { path: "a b.txt".to_owned(), content: "one\n\n".to_owned() },
            PatchSection::Update {
                path: "old".to_owned(),
                destination: Some("new".to_owned()),
                hunks: vec![hunk],
            },
            PatchSection::Delete { path: "c".to_owned() },
        ]
    }

    #[test]
    fn every_part_is_understood_however_it_is_wrapped() {
        for text in [
            PATCH.to_owned(),
            format!("\n{PATCH}\n\n"),
            format!("apply_patch <<'EOF'\n{PATCH}\nEOF\n"),
            format!("```\n{PATCH}\n```"),
            PATCH.replace('\n', "\r\n"),
            format!("{}\r\n", PATCH.replace('\n', "\r\n")),
        ] {
            assert_eq!(parse(&text), Ok(sections()), "{text}");
        }
    }

    #[test]
    fn ends_of_files_and_carriage_returns_are_told_apart() {
        let text = "*** Begin Patch\n*** Update File: a\n@@ -1,2 +1,2 @@ fn\n a\r\n\n-b\n\\ No newline at end of file\n+c\n*** End Patch";
        let hunk = Hunk {
            lines: vec![
                PatchLine { kind: PatchLineKind::Kept, text: "a".to_owned(), carriage: true },
                line(PatchLineKind::Kept, ""),
                line(PatchLineKind::Removed, "b"),
                line(PatchLineKind::Added, "c"),
            ],
            old_open: true,
            ..Hunk::default()
        };
        let expected = PatchSection::Update { path: "a".to_owned(), destination: None, hunks: vec![hunk] };
        assert_eq!(parse(text), Ok(vec![expected]));
        let text = "*** Begin Patch\n*** Add File: a\n+x\r\n+y\n\\ No newline at end of file\n*** End Patch";
        assert_eq!(
            parse(text),
            Ok(vec![PatchSection::Add { path: "a".to_owned(), content: "x\r\ny".to_owned() }])
        );
    }

    #[test]
    fn errors_name_the_line() {
        for (text, expected) in [
            ("", "begins with"),
            ("*** Begin Patch\n*** End Patch", "names no file"),
            ("rm -rf /\n*** Begin Patch\n*** Delete File: a\n*** End Patch", "text before"),
            ("*** Begin Patch\n*** Add File: a\nx\n*** End Patch", "Line 3 of the patch"),
            ("*** Begin Patch\n*** Add File: a\n+x\n\n+y\n*** End Patch", "Line 4 of the patch"),
            ("*** Begin Patch\n*** Update File: a\nx\n*** End Patch", "Line 3 of the patch"),
            ("*** Begin Patch\n*** Update File: a\n@@ x\n*** End Patch", "nothing changes"),
            ("*** Begin Patch\n*** Rename File: a\n*** End Patch", "Line 2 of the patch"),
            ("*** Begin Patch\n*** Update File: a\n*** End of File\n*** End Patch", "no lines"),
            (
                "*** Begin Patch\n*** Delete File: a\n*** End Patch\n*** Begin Patch\n*** End Patch",
                "Line 3 of",
            ),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}

//! Finding a piece of text whose whitespace is not quite that of the file.
//!
//! Models get indentation and ends of lines wrong more often than words. So a piece that does not occur as it is
//! written is looked for line by line without the whitespace around each line. That is not a guess: every line must be
//! the same otherwise, there must be exactly one such place, and the new text must have one obvious indentation there.

use std::fmt::Write as _;
use std::ops::Range;

use crate::indentation::{IndentationRule, indent};

/// Lines of the file that a failure quotes.
const QUOTED_LINES: usize = 12;
/// Characters of each of them.
const QUOTED_CHARS: usize = 200;
/// The most comparisons of lines that a quotation is worth.
const QUOTE_EFFORT: usize = 4_000_000;

/// What came of looking for a piece.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum PieceMatch {
    /// It is in one place, which this text replaces.
    One(Range<usize>, String),
    /// It is in several places.
    Several(usize),
    /// It is in one place, but how to indent the new text there is not clear.
    Unclear,
    /// It is nowhere.
    None,
}

/// A line of a text, without its end.
#[derive(Debug, Clone, Copy)]
struct TextLine<'a> {
    text: &'a str,
    start: usize,
    /// Where the next line begins.
    end: usize,
}

fn lines(text: &str) -> Vec<TextLine<'_>> {
    let mut at = 0;
    text.split_inclusive('\n')
        .map(|whole| {
            let start = at;
            at += whole.len();
            let bare = whole.strip_suffix('\n').unwrap_or(whole);
            TextLine { text: bare.strip_suffix('\r').unwrap_or(bare), start, end: at }
        })
        .collect()
}

/// Looks for `old` in a text by its lines, and says what `new` must be to take its place.
pub(crate) fn fit(text: &str, old: &str, new: &str) -> PieceMatch {
    let (file, wanted) = (lines(text), lines(old));
    if wanted.iter().all(|line| line.text.trim().is_empty()) {
        return PieceMatch::None;
    }
    let same = |window: &&[TextLine<'_>]| {
        window.iter().zip(&wanted).all(|(line, want)| line.text.trim() == want.text.trim())
    };
    let mut places = file.windows(wanted.len()).filter(same);
    let Some(place) = places.next() else { return PieceMatch::None };
    let more = places.count();
    if more > 0 {
        return PieceMatch::Several(more + 1);
    }
    let (Some(first), Some(last)) = (place.first(), place.last()) else { return PieceMatch::None };
    let pairs: Vec<(&str, &str)> = wanted
        .iter()
        .zip(place)
        .filter(|(want, _)| !want.text.trim().is_empty())
        .map(|(want, line)| (indent(want.text), indent(line.text)))
        .collect();
    let Some(mut new) = reindent(new, &pairs) else { return PieceMatch::Unclear };
    let closed = text.get(last.start..last.end).is_some_and(|whole| whole.ends_with('\n'));
    // A piece that ends with a line break takes the one in the file with it, if there is one.
    let end = if old.ends_with('\n') {
        if !closed && new.ends_with('\n') {
            new.pop();
        }
        last.end
    } else {
        last.start + last.text.len()
    };
    PieceMatch::One(first.start..end, new)
}

/// The new text indented as the file is, where the pairs say how the old text's indentation is that of the file.
fn reindent(new: &str, pairs: &[(&str, &str)]) -> Option<String> {
    let rule = IndentationRule::of(pairs)?;
    let mut text = String::new();
    for whole in new.split_inclusive('\n') {
        if whole.trim().is_empty() {
            text.push_str(whole);
            continue;
        }
        let own = indent(whole);
        text.push_str(&rule.apply(own)?);
        text.push_str(whole.get(own.len()..).unwrap_or_default());
    }
    Some(text)
}

/// The part of a text that is most like a piece that does not occur in it, with line numbers.
pub(crate) fn nearest(text: &str, old: &str) -> Option<String> {
    let (file, wanted) = (lines(text), lines(old));
    let size = wanted.len().min(file.len());
    if size == 0 || file.len().saturating_mul(size) > QUOTE_EFFORT {
        return None;
    }
    let common = |window: &[TextLine<'_>]| {
        let equal = |(line, want): &(&TextLine<'_>, &TextLine<'_>)| {
            let want = want.text.trim();
            !want.is_empty() && line.text.trim() == want
        };
        window.iter().zip(&wanted).filter(equal).count()
    };
    let (most, at) = file
        .windows(size)
        .enumerate()
        .map(|(at, window)| (common(window), at))
        .max_by_key(|(n, at)| (*n, usize::MAX - at))?;
    let first = if most > 0 { at } else { alike(&file, &wanted)? };
    let mut quoted = String::new();
    for (number, line) in (first + 1..).zip(file.iter().skip(first).take(size.min(QUOTED_LINES))) {
        let shown: String = line.text.chars().take(QUOTED_CHARS).collect();
        write!(quoted, "\n{number}: {shown}").ok();
    }
    Some(quoted)
}

/// The line that begins most like the first line that is wanted, if it is like it at all.
fn alike(file: &[TextLine<'_>], wanted: &[TextLine<'_>]) -> Option<usize> {
    let want = wanted.iter().map(|line| line.text.trim()).find(|line| !line.is_empty())?;
    let shared =
        |line: &TextLine<'_>| line.text.trim().chars().zip(want.chars()).take_while(|(a, b)| a == b).count();
    let (most, at) = file
        .iter()
        .enumerate()
        .map(|(at, line)| (shared(line), at))
        .max_by_key(|(n, at)| (*n, usize::MAX - at))?;
    (most * 2 >= want.chars().count()).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, old: &str, new: &str, expected: &str) {
        match fit(text, old, new) {
            PieceMatch::One(range, new) => {
                let mut after = text.to_owned();
                after.replace_range(range, &new);
                assert_eq!(after, expected);
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_new_text_is_indented_as_the_file_is() {
        check(
            "f {\n        a;\n        b;\n}\n",
            "a;\nb;",
            "a;\nif c {\n    b;\n}",
            "f {\n        a;\n        if c {\n            b;\n        }\n}\n",
        );
        check("f {\n  a;\n}\n", "    f {\n      a;\n    }", "    f {\n      z;\n    }", "f {\n  z;\n}\n");
        check("f\n\ta\n\t\tb\n", "f\n    a\n        b", "f\n        c", "f\n\t\tc\n");
        check("f\n  a\n    b\n", "f\n\ta\n\t\tb", "f\n\t\t\tc", "f\n      c\n");
    }

    #[test]
    fn ends_of_lines_are_left_as_they_are() {
        check("a  \r\nb\t\r\nc\r\n", "a\nb\n", "x\n", "x\nc\r\n");
        check("a  \nb", " a\n b\n", " x\n y\n", "x\ny");
        check("a  \n \nb \nz", "a\n\nb", "x", "x\nz");
    }

    #[test]
    fn there_is_no_guessing() {
        assert_eq!(fit(" a\n b\n a\n b\n", "a\nb", "x"), PieceMatch::Several(2));
        assert_eq!(fit("a b\n", "a  b", "x"), PieceMatch::None);
        assert_eq!(fit("a\n\nb\n", " \n", "x"), PieceMatch::None);
        // Two lines that were level are not level in the file: where would a third one go?
        assert_eq!(fit("  a\n    b\n", "a\nb", "a\nc\nb"), PieceMatch::Unclear);
        assert_eq!(fit("a", "a\nb", "x"), PieceMatch::None);
    }

    #[test]
    fn the_nearest_text_is_quoted() {
        assert_eq!(
            nearest("one\ntwo\nthree\nfour\n", "two!\nthree\n").as_deref(),
            Some("\n2: two\n3: three")
        );
        assert_eq!(nearest("let x = 1;\nlet y = 2;\n", "let y = 3;").as_deref(), Some("\n2: let y = 2;"));
        assert_eq!(nearest("abc\n", "xyz"), None);
        assert_eq!(nearest("", "xyz"), None);
    }
}

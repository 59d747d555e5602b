//! The words of full-text search, the same for both engines, and the snippets that show where they were found.
//!
//! SQLite and PostgreSQL each cut texts into words in their own way, by locale, dictionary and version. The same
//! search would then find different sessions on each. So texts are cut here, and the engines are given finished words:
//! - SQLite: [`words`] as [`joined`] gives them, in an FTS5 table with `tokenize = "ascii tokenchars '_'"`. That
//!   tokenizer cuts at ASCII that is neither letter nor digit and leaves everything else alone.
//! - PostgreSQL: `array_to_tsvector` of [`words`] as [`spaced`] gives them, which does not parse them.

use std::borrow::Cow;
use std::ops::Range;

use serde::Serialize;

#[cfg(test)]
mod tests;

/// The longest word, in characters. Longer ones are hashes and encoded data; their beginning is enough to find them.
const LONGEST: usize = 64;

/// How many words of one text are taken.
const WORDS: usize = 20_000;

/// How many bytes of words are taken of one text. A `tsvector` holds less than a megabyte: most functions refuse more,
/// and `array_to_tsvector` (seen in 15.18) takes it and silently loses words.
const BYTES: usize = 512 * 1024;

/// How many words of a query are taken. FTS5 limits how deep an expression is.
const ASKED: usize = 64;

/// How many characters a snippet gives up to end at a space.
const REACH: usize = 20;

/// The words of a text, in lower case and in their order.
///
/// A word is a run of letters, digits and `_`; of Chinese, Japanese and Korean, each character is a word.
pub(crate) fn words(text: &str) -> Vec<String> {
    tokens(text).map(|token| token.word).collect()
}

/// Whether a text has a word.
pub(crate) fn has_word(text: &str) -> bool {
    text.chars().any(begins)
}

/// What FTS5 is given of a text: something that its tokenizer cuts into [`words`].
pub(crate) fn joined(text: &str) -> Cow<'_, str> {
    // Most text is ASCII, and there the tokenizer does all of it by itself.
    if is_plain(text) { Cow::Borrowed(text) } else { Cow::Owned(words(text).join(" ")) }
}

/// The [`words`] of a text with a space between each two.
pub(crate) fn spaced(text: &str) -> String {
    if !is_plain(text) {
        return words(text).join(" ");
    }
    let mut spaced = String::with_capacity(text.len());
    for word in text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| !word.is_empty()) {
        if !spaced.is_empty() {
            spaced.push(' ');
        }
        spaced.extend(word.chars().map(|c| c.to_ascii_lowercase()));
    }
    spaced
}

/// Whether a text is ASCII, and so short and its words so short that all of them are taken as they are.
fn is_plain(text: &str) -> bool {
    let in_word = |byte: &&u8| byte.is_ascii_alphanumeric() || **byte == b'_';
    let is_short = |(before, after): (&[u8], &[u8])| {
        let before = before.iter().rev().take_while(in_word).count();
        before + after.iter().take_while(in_word).count() <= LONGEST
    };
    // A word that is too long is there at a multiple of the longest: only these places have to be looked at.
    let mut places = (0..text.len()).step_by(LONGEST);
    text.len() <= WORDS
        && text.is_ascii()
        && places.all(|at| text.as_bytes().split_at_checked(at).is_none_or(is_short))
}

/// A word and where it is. Lower case can be longer than what was written, so both are kept.
struct TextWord {
    word: String,
    bytes: Range<usize>,
    chars: Range<usize>,
}

fn tokens(text: &str) -> impl Iterator<Item = TextWord> {
    let mut chars = text.char_indices().enumerate().peekable();
    let mut left = BYTES;
    let token = move || {
        let (at, (start, first)) = chars.find(|(_, (_, c))| begins(*c))?;
        let mut token =
            TextWord { word: String::new(), bytes: start..start + first.len_utf8(), chars: at..at + 1 };
        let mut length = push(&mut token.word, first, 0);
        if !stands_alone(first) {
            while let Some((at, (start, c))) = chars.next_if(|(_, (_, c))| continues(*c)) {
                token.bytes.end = start + c.len_utf8();
                token.chars.end = at + 1;
                length = push(&mut token.word, c, length);
            }
        }
        left = left.checked_sub(token.word.len())?;
        Some(token)
    };
    std::iter::from_fn(token).fuse().take(WORDS)
}

/// Adds a character of a word to it, in lower case, and returns how long the word is then.
///
/// Each character is changed by itself, other than `str::to_lowercase` does it: there the end of a word decides how a
/// Greek sigma is written, and the beginning of a word would not be found as a prefix of it.
fn push(word: &mut String, c: char, length: usize) -> usize {
    let lower = c.to_lowercase().map(|c| if c == 'ς' { 'σ' } else { c });
    let before = word.len();
    word.extend(lower.filter(|c| !is_accent(*c)).take(LONGEST.saturating_sub(length)));
    length + word.get(before..).unwrap_or_default().chars().count()
}

fn begins(c: char) -> bool {
    (c.is_alphanumeric() || c == '_') && !is_accent(c)
}

fn continues(c: char) -> bool {
    is_accent(c) || (begins(c) && !stands_alone(c))
}

/// An accent that is a character of its own. It does not end a word and is left out of it: it is what remains of `İ` in
/// lower case, and what some systems make of the letters in file names.
const fn is_accent(c: char) -> bool {
    matches!(c, '\u{300}'..='\u{36f}')
}

/// Whether the character is Chinese, Japanese or Korean: there, spaces do not show where words begin and end.
const fn stands_alone(c: char) -> bool {
    matches!(c,
        '\u{1100}'..='\u{11ff}'         // Hangul jamo
        | '\u{2e80}'..='\u{2fdf}'       // radicals
        | '\u{3005}'..='\u{3007}'       // Han iteration mark, closing mark, zero
        | '\u{3021}'..='\u{3029}'       // Suzhou numerals
        | '\u{3031}'..='\u{3035}'       // kana repeat marks
        | '\u{3038}'..='\u{303c}'       // numerals, iteration marks
        | '\u{3040}'..='\u{30ff}'       // Hiragana, Katakana
        | '\u{3100}'..='\u{31ff}'       // Bopomofo, Hangul compatibility jamo, Katakana extensions
        | '\u{3400}'..='\u{4dbf}'       // Han extension A
        | '\u{4e00}'..='\u{9fff}'       // Han
        | '\u{a960}'..='\u{a97f}'       // Hangul jamo extension A
        | '\u{ac00}'..='\u{d7ff}'       // Hangul syllables, jamo extension B
        | '\u{f900}'..='\u{faff}'       // Han compatibility
        | '\u{ff66}'..='\u{ffdc}'       // half-width Katakana and Hangul
        | '\u{1aff0}'..='\u{1b16f}'     // kana extensions and supplement
        | '\u{20000}'..='\u{3ffff}'     // Han extensions
    )
}

/// What is searched for: texts that have all the words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WordQuery {
    /// At least one, at most [`ASKED`].
    words: Vec<String>,
    /// The last word may be the beginning of one: it is still being typed.
    prefix: bool,
}

impl WordQuery {
    /// The query a person typed, if there is a word in it. A space at the end says that the last word is complete.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut words: Vec<String> = tokens(text).take(ASKED + 1).map(|token| token.word).collect();
        let cut = words.len() > ASKED;
        words.truncate(ASKED);
        let prefix = !cut && !text.ends_with(char::is_whitespace);
        (!words.is_empty()).then_some(Self { words, prefix })
    }

    /// The query as an expression for FTS5's `MATCH`.
    pub(crate) fn sqlite(&self) -> String {
        // No word has a quote in it; but if one ever had, it should be a word still.
        let quoted = |word: &String| format!("\"{}\"", word.replace('"', "\"\""));
        let all = self.words.iter().map(quoted).collect::<Vec<_>>().join(" AND ");
        if self.prefix { all + "*" } else { all }
    }

    /// The query as text for PostgreSQL's `tsquery`.
    pub(crate) fn postgres(&self) -> String {
        let quoted = |word: &String| format!("'{}'", word.replace('\\', "\\\\").replace('\'', "''"));
        let all = self.words.iter().map(quoted).collect::<Vec<_>>().join(" & ");
        if self.prefix { all + ":*" } else { all }
    }

    /// Whether the text has all the words: what both engines have to find.
    #[cfg(test)]
    pub(crate) fn matches(&self, text: &str) -> bool {
        let mut found = vec![false; self.words.len()];
        for token in tokens(text) {
            found.iter_mut().enumerate().for_each(|(at, found)| *found |= self.is(at, &token.word));
        }
        found.into_iter().all(|found| found)
    }

    /// Whether this is the word at that place of the query.
    fn is(&self, at: usize, word: &str) -> bool {
        let prefix = self.prefix && at + 1 == self.words.len();
        self.words.get(at).is_some_and(|asked| word == asked || (prefix && word.starts_with(asked)))
    }

    /// The piece of the text, about `width` characters long, that shows most of the query.
    ///
    /// It has at most `width` characters of the text, with white space drawn together, and `…` where it was cut. A text
    /// without any of the words gives its beginning.
    pub(crate) fn snippet(&self, text: &str, width: usize) -> Snippet {
        let hits: Vec<WordHit> = tokens(text)
            .filter_map(|token| {
                let asked = (0..self.words.len()).find(|at| self.is(*at, &token.word))?;
                Some(WordHit { asked, bytes: token.bytes, chars: token.chars })
            })
            .collect();
        let shown = window(text, densest(&hits, self.words.len(), width), width);
        let mut writer = SnippetWriter::default();
        writer.ellipsis(text.get(..shown.start));
        let mut at = shown.start;
        for hit in hits.iter().filter(|hit| shown.start <= hit.bytes.start && hit.bytes.start < shown.end) {
            let end = hit.bytes.end.min(shown.end);
            let found = text.get(hit.bytes.start..end).unwrap_or_default();
            // Where a word is cut, what is left may not be what was asked for any more.
            let whole = end == hit.bytes.end;
            if whole || tokens(found).next().is_some_and(|token| self.is(hit.asked, &token.word)) {
                writer.plain(text.get(at..hit.bytes.start));
                writer.mark(found);
                at = end;
            }
        }
        writer.plain(text.get(at..shown.end));
        writer.ellipsis(text.get(shown.end..));
        writer.snippet
    }
}

/// A piece of a text in which something was found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Snippet {
    /// The piece, in one line.
    pub text: String,
    /// Where the words that were found are in it, in bytes, in their order.
    pub marks: Vec<Range<usize>>,
}

/// A word of the text that was asked for.
struct WordHit {
    /// Which word of the query it is.
    asked: usize,
    bytes: Range<usize>,
    chars: Range<usize>,
}

/// The hits within `width` characters that are of the most different words, then the most, then the first.
fn densest(hits: &[WordHit], asked: usize, width: usize) -> &[WordHit] {
    let mut last = vec![None; asked];
    let (mut start, mut best, mut most) = (0, 0..hits.len().min(1), (0, 0));
    for (end, hit) in hits.iter().enumerate() {
        if let Some(last) = last.get_mut(hit.asked) {
            *last = Some(end);
        }
        while hits.get(start).is_some_and(|first| first.chars.start.saturating_add(width) < hit.chars.end) {
            start += 1;
        }
        let different = last.iter().flatten().filter(|at| **at >= start).count();
        let score = (different, (end + 1).saturating_sub(start));
        if score > most {
            (best, most) = (start..end + 1, score);
        }
    }
    hits.get(best).unwrap_or_default()
}

/// The `width` characters of the text with these hits in the middle, or less to begin and end with a whole word.
fn window(text: &str, hits: &[WordHit], width: usize) -> Range<usize> {
    let (bytes, chars) = match (hits.first(), hits.last()) {
        (Some(first), Some(last)) => (first.bytes.start..last.bytes.end, last.chars.end - first.chars.start),
        _ => (0..0, 0),
    };
    let before = |at: usize, chars: usize| {
        let mut back = text.get(..at).unwrap_or_default().char_indices().rev().map(|(at, _)| at);
        if chars == 0 { at } else { back.nth(chars - 1).unwrap_or(0) }
    };
    let after = |at: usize, chars: usize| {
        let mut on = text.get(at..).unwrap_or_default().char_indices().map(|(more, _)| at + more);
        on.nth(chars).unwrap_or(text.len())
    };
    let mut start = before(bytes.start, width.saturating_sub(chars) / 2);
    let mut end = after(start, width);
    if end == text.len() {
        start = before(end, width).min(start);
    }
    // A cut in the middle of a word is moved to a space, if there is one near that is not beyond a hit.
    let in_word = |at: usize| {
        let (one, other) = text.split_at_checked(at).unwrap_or_default();
        !one.ends_with(char::is_whitespace) && !other.starts_with(char::is_whitespace)
    };
    if start > 0 && in_word(start) {
        let mut near = text.get(start..bytes.start).unwrap_or_default().char_indices().take(REACH);
        start = near.find(|(_, c)| c.is_whitespace()).map_or(start, |(at, _)| start + at);
    }
    if end < text.len() && in_word(end) {
        let from = bytes.end.max(start);
        let mut near = text.get(from..end).unwrap_or_default().char_indices().rev().take(REACH);
        end = near.find(|(_, c)| c.is_whitespace()).map_or(end, |(at, _)| from + at);
    }
    start..end
}

/// Writes a snippet: white space and control characters become one space, and none is left at the ends.
#[derive(Default)]
struct SnippetWriter {
    snippet: Snippet,
    /// White space was read, but nothing after it yet.
    space: bool,
}

impl SnippetWriter {
    fn plain(&mut self, text: Option<&str>) {
        for c in text.unwrap_or_default().chars() {
            if is_blank(c) {
                self.space = true;
            } else {
                self.separate();
                self.snippet.text.push(c);
            }
        }
    }

    fn mark(&mut self, word: &str) {
        self.separate();
        let start = self.snippet.text.len();
        self.snippet.text.push_str(word);
        self.snippet.marks.push(start..self.snippet.text.len());
    }

    fn separate(&mut self) {
        if std::mem::take(&mut self.space) && !self.snippet.text.is_empty() && self.snippet.text != "…" {
            self.snippet.text.push(' ');
        }
    }

    /// Says that something was left out, if something was.
    fn ellipsis(&mut self, left_out: Option<&str>) {
        let more = left_out.unwrap_or_default().chars().any(|c| !is_blank(c));
        if more && self.snippet.text != "…" {
            self.space = false;
            self.snippet.text.push('…');
        }
    }
}

fn is_blank(c: char) -> bool {
    c.is_whitespace() || c.is_control()
}

//! The shell's words and operators, read without a grammar.
//!
//! The grammar of tree-sitter-bash is lenient: it takes a non-breaking space for a blank, `[ ]` for one word and
//! `#` behind an expansion for a comment. The shell does not. So every line is also cut into words and operators
//! here, by the shell's own few rules, and [`super::agreement`] compares the two readings. What neither side can
//! read for sure is an [`Unsure`], and an unsure line is never allowed by a rule for one program.
//!
//! Only the end of a substitution is taken from the tree; its inside is read again as a line of its own.

use std::collections::HashMap;
use std::ops::Range;

/// Nothing certain can be said about the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Unsure;

/// Where the tree says that substitutions and `${…}` end, by the place of their first character.
pub(super) type SubstitutionEnds = HashMap<usize, usize>;

/// What a lexeme is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LexemeKind {
    /// A word, with its quotes.
    Word,
    /// The number in front of a redirection.
    Descriptor,
    /// A control or redirection operator.
    Operator,
    /// The end of a line, which ends a command.
    Newline,
    /// The word that ends a here-document, at its end.
    Delimiter,
}

/// A word or an operator and its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Lexeme {
    pub(super) kind: LexemeKind,
    pub(super) range: Range<usize>,
}

/// The operators, the longest first where one begins another.
const OPERATORS: [&str; 26] = [
    ";;&", "<<<", "<<-", "&>>", ">&-", "<&-", "&&", "||", "|&", ";;", ";&", "<<", ">>", ">&", "<&", "<>",
    ">|", "&>", "(", ")", ";", "&", "|", "<", ">", "\n",
];

/// A here-document whose text has not begun yet.
#[derive(Debug)]
struct PendingHereDocument<'a> {
    delimiter: &'a str,
    expands: bool,
    tabs: bool,
}

/// The lexer at one place of a line.
#[derive(Debug)]
struct Lexer<'a> {
    source: &'a str,
    at: usize,
    end: usize,
    ends: &'a SubstitutionEnds,
    pending: Vec<PendingHereDocument<'a>>,
    found: Vec<Lexeme>,
}

/// Cuts a part of a line into words and operators.
pub(super) fn lexemes(
    source: &str,
    range: Range<usize>,
    ends: &SubstitutionEnds,
) -> Result<Vec<Lexeme>, Unsure> {
    let mut lexer =
        Lexer { source, at: range.start, end: range.end, ends, pending: Vec::new(), found: Vec::new() };
    lexer.run()?;
    Ok(lexer.found)
}

impl<'a> Lexer<'a> {
    fn rest(&self) -> &'a str {
        self.source.get(self.at..self.end).unwrap_or_default()
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn push(&mut self, kind: LexemeKind, length: usize) {
        self.found.push(Lexeme { kind, range: self.at..self.at + length });
        self.at += length;
    }

    fn run(&mut self) -> Result<(), Unsure> {
        while let Some(next) = self.peek() {
            match next {
                ' ' | '\t' => self.at += 1,
                '\\' if self.rest().starts_with("\\\n") => {
                    // The shell removes both characters before it looks for words: only after a blank is it sure
                    // that no word goes on behind them.
                    let before = self.source.get(..self.at).unwrap_or_default();
                    if !before.ends_with([' ', '\t', '\n']) {
                        return Err(Unsure);
                    }
                    self.at += 2;
                }
                '#' => match self.rest().find('\n') {
                    Some(length) => self.at += length,
                    None if self.end == self.source.len() => self.at = self.end,
                    // The comment would hide the end of the substitution that it is in.
                    None => return Err(Unsure),
                },
                '\n' => {
                    self.push(LexemeKind::Newline, 1);
                    self.documents()?;
                }
                _ => self.token()?,
            }
        }
        // A here-document without its text waits for a line that does not come.
        if self.pending.is_empty() { Ok(()) } else { Err(Unsure) }
    }

    fn token(&mut self) -> Result<(), Unsure> {
        let rest = self.rest();
        if rest.starts_with("<(") || rest.starts_with(">(") {
            return self.take_word();
        }
        let Some(operator) = OPERATORS.iter().find(|operator| rest.starts_with(**operator)) else {
            return self.take_word();
        };
        // `>&-` closes a descriptor only if nothing follows in the same word.
        let operator = match *operator {
            ">&-" | "<&-" if !ends_word(rest.get(3..).unwrap_or_default()) => return Err(Unsure),
            other => other,
        };
        self.push(LexemeKind::Operator, operator.len());
        if operator == "<<" || operator == "<<-" {
            let blanks = self.rest().len() - self.rest().trim_start_matches([' ', '\t']).len();
            self.at += blanks;
            let start = self.at;
            self.take_word()?;
            let word = self.source.get(start..self.at).unwrap_or_default();
            let (delimiter, expands) = delimiter(word)?;
            self.pending.push(PendingHereDocument { delimiter, expands, tabs: operator == "<<-" });
        }
        Ok(())
    }

    fn take_word(&mut self) -> Result<(), Unsure> {
        let start = self.at;
        self.word()?;
        if self.at == start {
            return Err(Unsure);
        }
        let word = self.source.get(start..self.at).unwrap_or_default();
        let redirected = self.rest().starts_with(['<', '>']);
        // `{name}>file` sets a variable.
        if redirected && word.starts_with('{') && word.ends_with('}') {
            return Err(Unsure);
        }
        let number = redirected && word.bytes().all(|byte| byte.is_ascii_digit());
        let kind = if number { LexemeKind::Descriptor } else { LexemeKind::Word };
        self.found.push(Lexeme { kind, range: start..self.at });
        Ok(())
    }

    /// Moves behind the word that begins here.
    fn word(&mut self) -> Result<(), Unsure> {
        while let Some(next) = self.peek() {
            let rest = self.rest();
            match next {
                '<' | '>' if rest.get(1..2) == Some("(") => self.skip_nested()?,
                ' ' | '\t' | '\n' | '|' | '&' | ';' | '(' | ')' | '<' | '>' => return Ok(()),
                '\\' => {
                    let escaped = rest.chars().nth(1).filter(|next| *next != '\n').ok_or(Unsure)?;
                    self.at += 1 + escaped.len_utf8();
                }
                '\'' => {
                    let close = rest.get(1..).and_then(|rest| rest.find('\'')).ok_or(Unsure)?;
                    self.at += close + 2;
                }
                '"' => self.double_quotes()?,
                '$' if rest.starts_with("$'") => self.escaped_quotes()?,
                '$' if rest.starts_with("$\"") => return Err(Unsure),
                '$' => self.dollar()?,
                '`' => self.skip_nested()?,
                other => self.at += other.len_utf8(),
            }
        }
        Ok(())
    }

    fn double_quotes(&mut self) -> Result<(), Unsure> {
        self.at += 1;
        loop {
            match self.peek().ok_or(Unsure)? {
                '"' => {
                    self.at += 1;
                    return Ok(());
                }
                '\\' => {
                    let escaped = self.rest().chars().nth(1).ok_or(Unsure)?;
                    self.at += 1 + escaped.len_utf8();
                }
                '$' => self.dollar()?,
                '`' => self.skip_nested()?,
                other => self.at += other.len_utf8(),
            }
        }
    }

    /// `$'…'`, in which a quote may be escaped.
    fn escaped_quotes(&mut self) -> Result<(), Unsure> {
        self.at += 2;
        loop {
            match self.peek().ok_or(Unsure)? {
                '\'' => {
                    self.at += 1;
                    return Ok(());
                }
                '\\' => {
                    let escaped = self.rest().chars().nth(1).ok_or(Unsure)?;
                    self.at += 1 + escaped.len_utf8();
                }
                other => self.at += other.len_utf8(),
            }
        }
    }

    fn dollar(&mut self) -> Result<(), Unsure> {
        match self.rest().as_bytes().get(1) {
            Some(b'(' | b'{') => self.skip_nested(),
            // The old form of arithmetic.
            Some(b'[') => Err(Unsure),
            // A name that goes on behind a removed line end would be another one.
            Some(b'\\') if self.rest().starts_with("$\\\n") => Err(Unsure),
            Some(_) | None => {
                self.at += 1;
                Ok(())
            }
        }
    }

    /// Moves behind a substitution, whose end the tree knows.
    fn skip_nested(&mut self) -> Result<(), Unsure> {
        let end = *self.ends.get(&self.at).ok_or(Unsure)?;
        if end <= self.at || end > self.end {
            return Err(Unsure);
        }
        self.at = end;
        Ok(())
    }

    /// Moves behind the texts of the here-documents that were announced on the line before.
    fn documents(&mut self) -> Result<(), Unsure> {
        for document in std::mem::take(&mut self.pending) {
            loop {
                let line = self.rest().split('\n').next().unwrap_or_default();
                let bare = if document.tabs { line.trim_start_matches('\t') } else { line };
                if bare == document.delimiter {
                    // In a substitution its end must not stand on the same line: the shell reads whole lines.
                    if !matches!(self.source.as_bytes().get(self.at + line.len()), Some(b'\n') | None) {
                        return Err(Unsure);
                    }
                    self.at += line.len() - bare.len();
                    self.push(LexemeKind::Delimiter, bare.len());
                    break;
                }
                if document.expands {
                    self.expanding(line.len())?;
                } else {
                    self.at += line.len();
                }
                if self.peek() != Some('\n') {
                    return Err(Unsure);
                }
                self.at += 1;
            }
        }
        Ok(())
    }

    /// One line of a here-document in which the shell expands.
    fn expanding(&mut self, length: usize) -> Result<(), Unsure> {
        let end = self.at + length;
        while self.at < end {
            match self.peek().ok_or(Unsure)? {
                '\\' => return Err(Unsure),
                '$' => self.dollar()?,
                '`' => self.skip_nested()?,
                other => self.at += other.len_utf8(),
            }
        }
        // A substitution over several lines would hide where the document ends.
        if self.at == end { Ok(()) } else { Err(Unsure) }
    }
}

fn ends_word(rest: &str) -> bool {
    rest.is_empty() || rest.starts_with([' ', '\t', '\n', '|', '&', ';', '(', ')', '<', '>'])
}

/// What a here-document ends with, and whether the shell expands in it.
fn delimiter(word: &str) -> Result<(&str, bool), Unsure> {
    let quoted = ['\'', '"']
        .into_iter()
        .find_map(|quote| word.strip_prefix(quote)?.strip_suffix(quote))
        .or_else(|| word.strip_prefix('\\'));
    let name = quoted.unwrap_or(word);
    let plain = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if plain { Ok((name, quoted.is_none())) } else { Err(Unsure) }
}

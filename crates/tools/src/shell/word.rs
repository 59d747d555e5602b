//! A word of a command as rules see it: without quotes where they only quote.
//!
//! Rules are matched against one text for a whole command, so a word must not be able to look like two, nor one
//! that is quoted like one that is not: what holds anything but plain characters is quoted again, always the same
//! way. `g"i"t` and `\git` are `git`; `'git status'` stays `'git status'`.

use super::lexer::{SubstitutionEnds, Unsure};
use super::shape;

/// The longest name of a variable that is looked for, in bytes.
const NAME_MAX: usize = 256;

/// A word, read as far as it can be known before the command runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CommandWord {
    /// What rules are matched against.
    pub(super) text: String,
    /// What the program gets, if that is certain. A leading `~` that the shell expands is still there.
    pub(super) value: Option<String>,
    /// The part before anything that is only known later.
    pub(super) prefix: String,
    /// What it may turn out as, with the signs of [`shape`] for what is only known later.
    pub(super) shape: String,
    /// Whether the shell expands the `~` at its start.
    pub(super) tilde: bool,
    /// Whether its value is split, and may turn out as any words or none.
    pub(super) splits: bool,
    /// Whether it may turn out as several words: because it is split, or as names of files, or as alternatives.
    pub(super) several: bool,
    /// Whether it may turn out to begin with `-`, or does.
    pub(super) option: bool,
}

impl CommandWord {
    /// Reads a word's source; `at` is where it stands in the line.
    pub(super) fn read(source: &str, at: usize, ends: &SubstitutionEnds) -> Result<Self, Unsure> {
        let mut reading = WordReader {
            source,
            at: 0,
            base: at,
            ends,
            value: String::new(),
            shape: String::new(),
            first: WordStart::Nothing,
            fixed: None,
            open: false,
            splits: false,
            glob: false,
            bracket: None,
            brace: false,
            comma: false,
        };
        reading.run()?;
        let braces = reading.brace && reading.comma;
        let known = !reading.open && !braces;
        let tilde = source.starts_with('~');
        let option = match reading.first {
            WordStart::Nothing => false,
            WordStart::Certain(first) => first == '-' || first == '{' && braces,
            WordStart::Unknown => true,
        };
        let text = if known { quote(&reading.value, tilde) } else { source.to_owned() };
        let several = reading.splits || reading.glob || braces;
        let WordReader { value, shape, splits, fixed, .. } = reading;
        let prefix = value.get(..fixed.unwrap_or(value.len())).unwrap_or_default().to_owned();
        Ok(Self {
            text,
            value: known.then_some(value),
            prefix,
            shape,
            tilde,
            splits,
            several,
            option: option || splits,
        })
    }

    /// A word that is certain.
    pub(super) fn literal(value: &str) -> Self {
        Self {
            text: quote(value, false),
            value: Some(value.to_owned()),
            prefix: value.to_owned(),
            shape: value.to_owned(),
            tilde: false,
            splits: false,
            several: false,
            option: value.starts_with('-'),
        }
    }

    /// Words that are only known when the command runs.
    pub(super) fn unknown(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            value: None,
            prefix: String::new(),
            shape: shape::WORDS.to_owned(),
            tilde: false,
            splits: true,
            several: true,
            option: true,
        }
    }

    /// The value, if it is certain.
    pub(super) fn known(&self) -> Option<&str> {
        self.value.as_deref()
    }
}

/// The text of a value: as it is if it is plain, in single quotes otherwise.
fn quote(value: &str, tilde: bool) -> String {
    let plain = |c: char| c.is_alphanumeric() || "_@%+=:,./-^".contains(c);
    let body = if tilde { value.strip_prefix('~').unwrap_or(value) } else { value };
    let bare = matches!(value, "{}" | "-I{}" | "[" | "]" | "!");
    if bare || !value.is_empty() && body.chars().all(plain) {
        value.to_owned()
    } else {
        format!("'{}'", value.replace('\'', r"'\''"))
    }
}

/// How a word begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WordStart {
    Nothing,
    Certain(char),
    Unknown,
}

#[derive(Debug)]
struct WordReader<'a> {
    source: &'a str,
    at: usize,
    /// Where the source stands in the line, by which the ends are known.
    base: usize,
    ends: &'a SubstitutionEnds,
    value: String,
    shape: String,
    first: WordStart,
    /// How much of the value came before anything that is only known later.
    fixed: Option<usize>,
    /// Something came that is only known later.
    open: bool,
    splits: bool,
    glob: bool,
    /// Where in the shape a set of characters to match has begun.
    bracket: Option<usize>,
    brace: bool,
    comma: bool,
}

impl<'a> WordReader<'a> {
    fn rest(&self) -> &'a str {
        self.source.get(self.at..).unwrap_or_default()
    }

    /// Takes a character as it is.
    fn take(&mut self, next: char) {
        if self.first == WordStart::Nothing {
            self.first = WordStart::Certain(next);
        }
        self.value.push(next);
        self.shape.push(next);
    }

    /// Takes something that is only known later, with its shape.
    fn unknown(&mut self, shape: &str) {
        self.shape.push_str(shape);
        if self.first == WordStart::Nothing {
            self.first = WordStart::Unknown;
        }
        self.fixed.get_or_insert(self.value.len());
        self.open = true;
    }

    fn run(&mut self) -> Result<(), Unsure> {
        while let Some(next) = self.rest().chars().next() {
            let rest = self.rest();
            match next {
                '\\' => {
                    let escaped = rest.chars().nth(1).ok_or(Unsure)?;
                    self.take(escaped);
                    self.at += 1 + escaped.len_utf8();
                }
                '\'' => {
                    let inner = rest.get(1..).and_then(|rest| rest.split_once('\'')).ok_or(Unsure)?.0;
                    inner.chars().for_each(|c| self.take(c));
                    self.at += inner.len() + 2;
                }
                '"' => self.double_quotes()?,
                '$' if rest.starts_with("$'") => self.escaped_quotes()?,
                '$' => {
                    let before = self.open;
                    self.open = false;
                    self.dollar(false)?;
                    self.splits |= self.open;
                    self.open |= before;
                }
                '`' => {
                    self.nested(false)?;
                    self.splits = true;
                }
                '<' | '>' => self.nested(false)?,
                '*' | '?' | '[' if !matches!(self.source, "[") => {
                    if next == '[' {
                        self.bracket.get_or_insert(self.shape.len());
                    }
                    self.unknown(shape::NAMES);
                    self.glob = true;
                    self.at += 1;
                }
                other => {
                    if other == '{' {
                        self.brace = true;
                        self.fixed.get_or_insert(self.value.len());
                    }
                    let before = self.shape.len();
                    // The shell takes the word for an assignment, and puts a home folder there.
                    let assigned = other == '~' && self.assigning();
                    if assigned {
                        self.unknown("");
                    }
                    self.comma |= self.brace && (other == ',' || rest.starts_with(".."));
                    let home = assigned || other == '~' && self.at == 0;
                    self.take(other);
                    self.at += other.len_utf8();
                    if let Some(sign) = shape::sign(other).filter(|_| self.brace || home) {
                        self.shape.truncate(before);
                        self.shape.push(sign);
                    }
                    self.close_bracket(other);
                }
            }
        }
        Ok(())
    }

    /// What stands between brackets is one character of a name. The first `]` may be one of those, so the last counts.
    fn close_bracket(&mut self, next: char) {
        match (next, self.bracket) {
            ('/', _) => self.bracket = None,
            (']', Some(start))
                if !self.shape.get(start..).is_some_and(|set| set.contains(shape::is_open)) =>
            {
                self.shape.truncate(start);
                self.shape.push_str(shape::NAMES);
            }
            _ => {}
        }
    }

    /// Whether a `~` that came next would stand at the start of a variable's value, or of a part of it.
    fn assigning(&self) -> bool {
        // Not the whole value each time: it may be long.
        let start = self.value.as_bytes().get(..self.value.len().min(NAME_MAX)).unwrap_or_default();
        self.value.ends_with(['=', ':'])
            && start.iter().position(|byte| *byte == b'=').is_some_and(|length| {
                let name = start.get(..length).unwrap_or_default();
                !name.is_empty()
                    && name.iter().all(|byte| byte.is_ascii_alphanumeric() || b"_+".contains(byte))
            })
    }

    fn double_quotes(&mut self) -> Result<(), Unsure> {
        self.at += 1;
        loop {
            let rest = self.rest();
            match rest.chars().next().ok_or(Unsure)? {
                '"' => {
                    self.at += 1;
                    return Ok(());
                }
                '\\' => {
                    let escaped = rest.chars().nth(1).ok_or(Unsure)?;
                    if !"$`\"\\\n".contains(escaped) {
                        self.take('\\');
                    }
                    if escaped != '\n' {
                        self.take(escaped);
                    }
                    self.at += 1 + escaped.len_utf8();
                }
                '$' => {
                    // `"$@"` is as many words as there are parameters.
                    self.splits |= rest.starts_with("$@") || rest.starts_with("${@}");
                    self.dollar(true)?;
                }
                '`' => self.nested(true)?,
                other => {
                    self.take(other);
                    self.at += other.len_utf8();
                }
            }
        }
    }

    /// `$'…'`: the escapes that stand for one plain character are read, others are left unknown.
    fn escaped_quotes(&mut self) -> Result<(), Unsure> {
        self.at += 2;
        loop {
            let rest = self.rest();
            match rest.chars().next().ok_or(Unsure)? {
                '\'' => {
                    self.at += 1;
                    return Ok(());
                }
                '\\' => {
                    let escaped = rest.chars().nth(1).ok_or(Unsure)?;
                    match escaped {
                        'n' => self.take('\n'),
                        't' => self.take('\t'),
                        '\\' | '\'' | '"' | '?' => self.take(escaped),
                        _ => self.unknown(shape::ANYTHING),
                    }
                    self.at += 1 + escaped.len_utf8();
                }
                other => {
                    self.take(other);
                    self.at += other.len_utf8();
                }
            }
        }
    }

    fn dollar(&mut self, quoted: bool) -> Result<(), Unsure> {
        let name = self.rest().get(1..).unwrap_or_default();
        match name.chars().next() {
            Some('(' | '{') => return self.nested(quoted),
            Some(c) if c.is_ascii_alphabetic() || c == '_' => {
                let length =
                    name.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(name.len());
                self.unknown(&shape::expansion(self.rest().get(..=length).unwrap_or_default(), quoted));
                self.at += 1 + length;
            }
            Some(c) if c.is_ascii_digit() || "@*#?$!-".contains(c) => {
                self.unknown(&shape::expansion(self.rest().get(..2).unwrap_or_default(), quoted));
                self.at += 2;
            }
            _ => {
                self.take('$');
                self.at += 1;
            }
        }
        Ok(())
    }

    /// A substitution or `${…}`.
    fn nested(&mut self, quoted: bool) -> Result<(), Unsure> {
        let end = self.ends.get(&(self.base + self.at)).and_then(|end| end.checked_sub(self.base));
        let end = end.filter(|end| *end > self.at && *end <= self.source.len()).ok_or(Unsure)?;
        self.unknown(&shape::expansion(self.source.get(self.at..end).unwrap_or_default(), quoted));
        self.at = end;
        Ok(())
    }
}

//! A word of a command as rules see it: without quotes where they only quote.
//!
//! Rules are matched against one text for a whole command, so a word must not be able to look like two, nor one
//! that is quoted like one that is not: what holds anything but plain characters is quoted again, always the same
//! way. `g"i"t` and `\git` are `git`; `'git status'` stays `'git status'`.

use super::lexer::{SubstitutionEnds, Unsure};

/// A word, read as far as it can be known before the command runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CommandWord {
    /// What rules are matched against.
    pub(super) text: String,
    /// What the program gets, if that is certain. A `~` that the shell expands is still there.
    pub(super) value: Option<String>,
    /// The part before anything that is only known later.
    pub(super) prefix: String,
    /// Whether the shell expands the `~` at its start.
    pub(super) tilde: bool,
    /// Whether its value is split, and may turn out as any words or none.
    pub(super) splits: bool,
    /// Whether it may turn out as several words: because it is split, or as names of files, or as alternatives.
    pub(super) several: bool,
    /// Whether the shell looks for names of files in its place.
    pub(super) glob: bool,
    /// How the names end that it stands for, if it can only turn out as names in the folder that it begins with.
    pub(super) names: Option<String>,
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
            first: WordStart::Nothing,
            fixed: None,
            open: false,
            splits: false,
            glob: false,
            names: true,
            set: false,
            tail: 0,
            brace: false,
            span: false,
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
        let WordReader { value, splits, fixed, glob, .. } = reading;
        let end = value.get(reading.tail..).filter(|_| !reading.set).unwrap_or_default();
        let names = (reading.names && glob && !braces).then(|| end.to_owned());
        let prefix = value.get(..fixed.unwrap_or(value.len())).unwrap_or_default().to_owned();
        Ok(Self {
            text,
            value: known.then_some(value),
            prefix,
            tilde,
            splits,
            several,
            glob,
            names,
            option: option || splits,
        })
    }

    /// A word that is certain.
    pub(super) fn literal(value: &str) -> Self {
        Self {
            text: quote(value, false),
            value: Some(value.to_owned()),
            prefix: value.to_owned(),
            tilde: false,
            splits: false,
            several: false,
            glob: false,
            names: None,
            option: value.starts_with('-'),
        }
    }

    /// Words that are only known when the command runs.
    pub(super) fn unknown(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            value: None,
            prefix: String::new(),
            tilde: false,
            splits: true,
            several: true,
            glob: false,
            names: None,
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
    first: WordStart,
    /// How much of the value came before anything that is only known later.
    fixed: Option<usize>,
    /// Something came that is only known later.
    open: bool,
    splits: bool,
    glob: bool,
    /// What is only known later are names in one folder.
    names: bool,
    /// They have one of a set of characters.
    set: bool,
    /// How much of the value came before the last sign for other characters.
    tail: usize,
    brace: bool,
    /// Two dots came behind a brace: a range, if another brace follows.
    span: bool,
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
        // What follows is looked for in the folders that match.
        self.names &= !(self.glob && next == '/');
        self.value.push(next);
    }

    /// Takes something that is only known later.
    fn unknown(&mut self) {
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
                    self.dollar()?;
                    // One number stays one word.
                    let number = ["$?", "$#", "$$"].iter().any(|number| rest.starts_with(number));
                    self.splits |= self.open && !number;
                    self.open |= before;
                }
                '`' => {
                    self.nested()?;
                    self.splits = true;
                }
                '<' | '>' => self.nested()?,
                '*' | '?' | '[' if !matches!(self.source, "[") => {
                    self.unknown();
                    self.glob = true;
                    self.set |= next == '[';
                    self.tail = self.value.len();
                    self.at += 1;
                }
                other => {
                    if other == '{' {
                        self.brace = true;
                        self.fixed.get_or_insert(self.value.len());
                    }
                    self.span |= self.brace && rest.starts_with("..");
                    self.comma |= self.brace && (other == ',' || other == '}' && self.span);
                    self.take(other);
                    self.at += other.len_utf8();
                }
            }
        }
        Ok(())
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
                    self.dollar()?;
                }
                '`' => self.nested()?,
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
                        _ => self.expands(),
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

    fn dollar(&mut self) -> Result<(), Unsure> {
        let name = self.rest().get(1..).unwrap_or_default();
        match name.chars().next() {
            Some('(' | '{') => return self.nested(),
            Some(c) if c.is_ascii_alphabetic() || c == '_' => {
                let length =
                    name.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(name.len());
                self.expands();
                self.at += 1 + length;
            }
            Some(c) if c.is_ascii_digit() || "@*#?$!-".contains(c) => {
                self.expands();
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
    fn nested(&mut self) -> Result<(), Unsure> {
        let end = self.ends.get(&(self.base + self.at)).and_then(|end| end.checked_sub(self.base));
        let end = end.filter(|end| *end > self.at && *end <= self.source.len()).ok_or(Unsure)?;
        self.expands();
        self.at = end;
        Ok(())
    }

    /// Takes something that may turn out as any text.
    fn expands(&mut self) {
        self.unknown();
        self.names = false;
    }
}

//! What a word may turn out as: its text, with signs for what is only known when the command runs.
//!
//! The signs are control characters. A line that holds one itself is not analysed, so they cannot be brought in.

/// Any text, within one word.
pub(super) const ANYTHING: &str = "\u{1}";
/// Any text, which may be any number of words.
pub(super) const WORDS: &str = "\u{2}";
/// Part of the name of a file that is there: what a pattern matches.
pub(super) const NAMES: &str = "\u{3}";
/// The home folder.
pub(super) const HOME: char = '\u{4}';
/// Braces and commas that may stand for alternatives.
const OPEN: char = '\u{5}';
const COMMA: char = '\u{6}';
const CLOSE: char = '\u{7}';
/// A variable's value, quoted and not, and where its name ends.
pub(super) const VALUE: char = '\u{11}';
pub(super) const SPLIT_VALUE: char = '\u{12}';
pub(super) const END: char = '\u{13}';

/// What stands for the name of a variable whose value is a number.
pub(super) const NUMBER: &str = "#";

/// More alternatives than this are not followed, nor more text in all of them.
pub(super) const SHAPES_MAX: usize = 64;
const TEXT_MAX: usize = 64 * 1024;

/// Whether a sign stands for any text at all.
pub(super) fn is_open(sign: char) -> bool {
    matches!(sign, '\u{1}' | '\u{2}' | VALUE | SPLIT_VALUE)
}

/// The sign for a character that the shell does not take as it is.
pub(super) fn sign(character: char) -> Option<char> {
    match character {
        '~' => Some(HOME),
        '{' => Some(OPEN),
        ',' => Some(COMMA),
        '}' => Some(CLOSE),
        _ => None,
    }
}

/// The shape of an expansion or substitution.
pub(super) fn expansion(source: &str, quoted: bool) -> String {
    let anything = if quoted && !source.contains('@') { ANYTHING } else { WORDS };
    let inner = |open: &str, close: &str| source.strip_prefix(open).and_then(|rest| rest.strip_suffix(close));
    if matches!(source, "$?" | "$#" | "$$" | "$!" | "$-")
        || source.starts_with("$((")
        || source.starts_with("${#")
    {
        return "0".to_owned();
    }
    // A path that the shell makes, of something that is open already.
    if source.starts_with("<(") || source.starts_with(">(") {
        return "pipe".to_owned();
    }
    let value = |name: &str| format!("{}{name}{END}", if quoted { VALUE } else { SPLIT_VALUE });
    if let Some(command) = inner("$(", ")").or_else(|| inner("`", "`")) {
        return match command.trim() {
            "pwd" => value("PWD"),
            command if is_number(command) => value(NUMBER),
            _ => anything.to_owned(),
        };
    }
    match inner("${", "}").or_else(|| source.strip_prefix('$')) {
        Some(name) if name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') => value(name),
        _ => anything.to_owned(),
    }
}

/// Whether a command prints numbers or a date, which lead nowhere as paths.
fn is_number(command: &str) -> bool {
    let plain = |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || "%_-".contains(c));
    let counts = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_digit() || c == ' ');
    command == "nproc"
        || command.strip_prefix("seq ").is_some_and(counts)
        || command.strip_prefix("date +").is_some_and(plain)
}

/// A shape with its alternatives written out; nothing if they are too many.
pub(super) fn alternatives(shape: &str) -> Option<Vec<String>> {
    if !shape.contains(OPEN) {
        return Some(vec![shape.to_owned()]);
    }
    let mut open = vec![shape.to_owned()];
    let mut done = Vec::new();
    let mut length = 0;
    while let Some(shape) = open.pop() {
        length += shape.len();
        if open.len() + done.len() >= SHAPES_MAX
            || length > TEXT_MAX
            || shape.matches(OPEN).count() > SHAPES_MAX
        {
            return None;
        }
        match split(&shape) {
            Some((_, parts, _)) if parts.len() > SHAPES_MAX => return None,
            Some((before, parts, after)) => {
                open.extend(parts.into_iter().map(|part| format!("{before}{part}{after}")));
            }
            None => done.push(literal(&shape)),
        }
    }
    Some(done)
}

/// A shape in which braces and commas are what they are.
pub(super) fn literal(shape: &str) -> String {
    shape.replace(OPEN, "{").replace(COMMA, ",").replace(CLOSE, "}")
}

/// What stands before, in and after the first braces that have alternatives or span a range.
fn split(shape: &str) -> Option<(&str, Vec<String>, &str)> {
    for (start, _) in shape.match_indices(OPEN) {
        let mut depth = 0_usize;
        let mut commas = vec![start];
        let signs = shape.get(start..)?.char_indices().filter(|(_, c)| matches!(*c, OPEN | COMMA | CLOSE));
        for (offset, sign) in signs {
            match sign {
                OPEN => depth += 1,
                COMMA if depth == 1 => commas.push(start + offset),
                CLOSE => depth -= 1,
                _ => {}
            }
            if depth > 0 {
                continue;
            }
            let end = start + offset;
            let (before, after) = (shape.get(..start)?, shape.get(end + 1..)?);
            let inside = shape.get(start + 1..end)?;
            if commas.len() > 1 {
                let ends = commas.iter().skip(1).copied().chain([end]);
                let parts = commas.iter().zip(ends).filter_map(|(from, to)| shape.get(from + 1..to));
                return Some((before, parts.map(str::to_owned).collect(), after));
            }
            if inside.contains("..") {
                // Between letters or numbers there is nothing else.
                let plain = |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric());
                let range = inside.split("..").all(|part| plain(part.strip_prefix('-').unwrap_or(part)));
                let part = if range { NAMES } else { WORDS };
                return Some((before, vec![part.to_owned()], after));
            }
            break;
        }
    }
    None
}

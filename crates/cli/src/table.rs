//! What a person sees: lines, tables, errors and the log. Everything that is printed is printed here.
//!
//! Titles, answers, names and errors come from models and from other people's files, so nothing in them steers a
//! terminal or begins a line of its own (`plain` says how). In a pipe they are as on a terminal, because what comes out
//! of it is usually read on one (`everturn run … | cat`); whoever needs every character as it is asks for JSON, which
//! has them all, escaped.
//!
//! Where the log is JSON, a program reads standard error, and expects nothing else there: notes and errors are then
//! events of the log, whatever level is logged.

use std::fmt::Display;
use std::io::{ErrorKind, IsTerminal as _, StderrLock, StdoutLock, Write};
use std::sync::OnceLock;

use anyhow::{Result, bail};
use clap::error::{ContextKind, ContextValue};
use comfy_table::{ColumnConstraint, ContentArrangement, Table};
use everturn_model::secret_shape::mask;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr};

use crate::plain::{escape, flatten, indent, neutralise};

fn output() -> StdoutLock<'static> {
    std::io::stdout().lock()
}

fn error_output() -> StderrLock<'static> {
    std::io::stderr().lock()
}

/// Prints a line, which stays one.
pub(crate) fn line(text: impl Display) {
    remember(writeln!(output(), "{}", flatten(&text.to_string())));
}

/// Prints text at once, with the lines that it has.
pub(crate) fn text(text: &str) {
    let mut out = output();
    remember(write!(out, "{}", neutralise(text)).and_then(|()| out.flush()));
}

/// Why some of the output is lost.
static LOST: OnceLock<String> = OnceLock::new();

/// Remembers that output was lost. A reader that went away (`| head`) wanted no more of it, and that is not an error.
fn remember(printed: std::io::Result<()>) {
    if let Err(error) = printed
        && error.kind() != ErrorKind::BrokenPipe
    {
        LOST.set(error.to_string()).ok();
    }
}

/// Fails if some of the output is lost: an export onto a full disk is none.
pub(crate) fn check_output() -> Result<()> {
    match LOST.get() {
        Some(reason) => bail!("cannot write to standard output: {reason}"),
        None => Ok(()),
    }
}

/// The target of notes in the log.
pub(crate) const NOTES: &str = "everturn::note";

static LOGGED: OnceLock<()> = OnceLock::new();

/// From now on notes and errors go to the log.
pub(crate) fn log_notes() {
    LOGGED.set(()).ok();
}

fn is_logged() -> bool {
    LOGGED.get().is_some()
}

/// Whether a person sees standard error as it is written.
pub(crate) fn is_watched() -> bool {
    !is_logged() && error_output().is_terminal()
}

/// Prints a note beside the output.
pub(crate) fn note(text: impl Display) {
    if is_logged() {
        tracing::info!(target: NOTES, "{text}");
        return;
    }
    print_note(text);
}

fn print_note(text: impl Display) {
    writeln!(error_output(), "{}", indent(&text.to_string())).ok();
}

/// Shows how far something is, in place of what was shown before.
pub(crate) fn progress(text: impl Display) {
    let mut out = error_output();
    write!(out, "\r{}", flatten(&text.to_string())).ok();
    out.flush().ok();
}

/// Where the log writes one of its lines, as text or as JSON.
#[derive(Debug)]
pub(crate) struct LogWriter;

impl Write for LogWriter {
    /// The log hands over each line at once, with its end. What else would end or steer it stands as an escape.
    fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
        let text = String::from_utf8_lossy(line);
        // An error may quote a key that somebody put where none is expected.
        let text = mask(text.strip_suffix('\n').unwrap_or(&text));
        writeln!(error_output(), "{}", escape(&text))?;
        Ok(line.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Prints an error with what caused it.
pub(crate) fn complain(error: &anyhow::Error) {
    let mut text = error.to_string();
    for cause in error.chain().skip(1) {
        let cause = cause.to_string();
        // Many errors name their cause themselves.
        if !text.contains(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
    }
    if is_logged() {
        tracing::error!(target: NOTES, "{text}");
        return;
    }
    print_note(format!("everturn: {text}"));
}

/// From now on a panic is told as an error is.
pub(crate) fn tell_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let trace = std::backtrace::Backtrace::capture();
        let told = match trace.status() {
            std::backtrace::BacktraceStatus::Captured => format!("{panic}\n{trace}"),
            _ => panic.to_string(),
        };
        complain(&anyhow::anyhow!(told));
    }));
}

/// What is wrong with the arguments, or the help that they ask for. An argument is told as one line.
fn explanation(error: &mut clap::Error) -> String {
    let told: Vec<(ContextKind, ContextValue)> = error
        .context()
        .filter_map(|(kind, value)| match value {
            ContextValue::String(text) => Some((kind, ContextValue::String(flatten(text).into_owned()))),
            ContextValue::Strings(texts) => {
                let flat = texts.iter().map(|text| flatten(text).into_owned()).collect();
                Some((kind, ContextValue::Strings(flat)))
            }
            _ => None,
        })
        .collect();
    for (kind, value) in told {
        error.insert(kind, value);
    }
    neutralise(&error.render().to_string()).into_owned()
}

/// Prints what is wrong with the arguments, or the help that they ask for. Gives the status to end with.
pub(crate) fn explain_arguments(mut error: clap::Error) -> u8 {
    let told = explanation(&mut error);
    if !error.use_stderr() {
        text(&told);
    } else if is_logged() {
        complain(&anyhow::anyhow!("{}", told.trim_end()));
    } else {
        write!(error_output(), "{told}").ok();
    }
    u8::try_from(error.exit_code()).unwrap_or(1)
}

/// Prints a value as JSON. What could steer a terminal is in its texts only, where JSON has escapes for it.
pub(crate) fn json(value: &serde_json::Value) {
    let text = serde_json::to_string_pretty(value).unwrap_or_default();
    let mut out = output();
    remember(text.lines().try_for_each(|line| writeln!(out, "{}", escape(line))));
}

/// How long a name in the first column may be and stay in one piece; an id of a session has 30 characters. Names are
/// there to be copied.
const UNBROKEN: usize = 32;

/// In a terminal that is narrower than this, a name in one piece would leave nothing for the rest.
const NARROW: u16 = 60;

/// Prints rows under a head.
pub(crate) fn rows(head: &[&str], rows: impl IntoIterator<Item = Vec<String>>) {
    for printed in arrange(head, rows, None).lines() {
        line(printed.trim_end());
    }
}

/// A table of this width, or else as wide as the terminal, where there is one.
fn arrange(head: &[&str], rows: impl IntoIterator<Item = Vec<String>>, width: Option<u16>) -> Table {
    let mut table = Table::new();
    if let Some(width) = width {
        table.set_width(width);
    }
    table
        .load_style(comfy_table::TableStyle::new())
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_header(head);
    let mut longest = 0;
    for row in rows {
        longest = longest.max(row.first().map_or(0, |name| self::width(name)));
        // A row is one line, if there is room.
        table.add_row(row.iter().map(|cell| flatten(&cell.replace('\t', " ")).into_owned()));
    }
    if longest <= UNBROKEN
        && table.width().is_none_or(|width| width >= NARROW)
        && let Some(first) = table.column_mut(0)
    {
        first.set_constraint(ColumnConstraint::ContentWidth);
    }
    table
}

/// A moment as people in this place write it.
pub(crate) fn moment(millis: i64) -> String {
    jiff::Timestamp::from_millisecond(millis)
        .map(|time| time.to_zoned(jiff::tz::TimeZone::system()).strftime("%Y-%m-%d %H:%M").to_string())
        .unwrap_or_default()
}

/// The time.
pub(crate) fn now() -> i64 {
    jiff::Timestamp::now().as_millisecond()
}

/// Asks a person about what cannot be undone; they have to agree. Where nobody can be asked, `--yes` says it.
pub(crate) fn confirm(question: &str) -> Result<()> {
    if !is_answered() {
        bail!("this cannot be undone, and nobody can be asked here: add --yes to do it all the same");
    }
    ask(question, "nothing was deleted")
}

/// The same about what lets more happen than before.
pub(crate) fn confirm_change(question: &str, otherwise: &str) -> Result<()> {
    if !is_answered() {
        bail!("nobody can be asked here: add --yes to do it all the same");
    }
    ask(question, otherwise)
}

/// Whether there is a person who can answer.
fn is_answered() -> bool {
    std::io::stdin().is_terminal() && error_output().is_terminal()
}

fn ask(question: &str, otherwise: &str) -> Result<()> {
    let mut out = error_output();
    write!(out, "{} [y/N] ", flatten(question)).ok();
    out.flush().ok();
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    match answer.trim().to_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => bail!("{otherwise}"),
    }
}

/// A number with the word for what is counted.
pub(crate) fn counted<N: Copy + Display + PartialEq + From<u8>>(number: N, one: &str, many: &str) -> String {
    let word = if number == N::from(1) { one } else { many };
    format!("{number} {word}")
}

/// A number as people read it.
pub(crate) fn count(number: u64) -> String {
    let units = ["", "k", "M", "G"];
    let mut unit = 0;
    let mut scaled = number;
    while scaled >= 100_000 && unit + 1 < units.len() {
        scaled /= 1000;
        unit += 1;
    }
    format!("{scaled}{}", units.get(unit).copied().unwrap_or_default())
}

/// How many columns of a terminal a text takes.
pub(crate) fn width(text: &str) -> usize {
    UnicodeWidthStr::width(text)
}

/// The end of a text that is wider than `most` columns; of a path that is what tells it from others.
pub(crate) fn ending(text: &str, most: usize) -> String {
    if width(text) <= most {
        return text.to_owned();
    }
    let mut room = most.saturating_sub(1);
    let fits = |character: &char| {
        let left = room.checked_sub(character.width().unwrap_or_default());
        room = left.unwrap_or_default();
        left.is_some()
    };
    let end: Vec<char> = text.chars().rev().take_while(fits).collect();
    std::iter::once('…').chain(end.into_iter().rev()).collect()
}

/// Whether a person sees the output on a terminal.
pub(crate) fn is_terminal() -> bool {
    output().is_terminal()
}

/// A size as people read it.
pub(crate) fn bytes(count: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB"];
    let mut unit = 0;
    let mut scaled = count;
    while scaled >= 10_240 && unit + 1 < units.len() {
        scaled /= 1024;
        unit += 1;
    }
    format!("{scaled} {}", units.get(unit).copied().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_stay_in_one_piece_beside_long_titles() {
        // In 80 columns the last character of every id was in a line of its own.
        let id = "ses_0123456789abcdefghijklmnop";
        let title = "a title that is much longer than what is left of a line beside an id and a time";
        let row = vec![id.to_owned(), "2026-11-16 11:47".to_owned(), title.to_owned()];
        for width in [80, NARROW, 40] {
            let table = arrange(&["session", "updated", "title"], [row.clone()], Some(width));
            let lines: Vec<String> = table.lines().collect();
            assert_eq!(lines.iter().any(|line| line.contains(id)), width >= NARROW, "{lines:#?}");
            assert!(lines.iter().all(|line| line.chars().count() <= usize::from(width)), "{lines:#?}");
            assert!(lines.len() < 12, "there is room for the title: {lines:#?}");
        }
    }

    #[test]
    fn a_row_is_one_line_and_steers_nothing() {
        let table = arrange(&["title"], [vec!["one\ttwo\nthree\u{1b}[0m".to_owned()]], None);
        assert_eq!(table.lines().nth(1).unwrap().trim(), "one two three�[0m");
    }
}

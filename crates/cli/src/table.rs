//! What a person sees: lines, tables and errors.
//!
//! Where the log is JSON, a program reads standard error, and expects nothing else there: notes and errors are then
//! events of the log, whatever level is logged.

use std::io::{IsTerminal as _, Write as _};
use std::sync::OnceLock;

use anyhow::{Result, bail};
use comfy_table::{ContentArrangement, Table};

/// Prints a line. A reader that went away (`| head`) is not an error.
pub(crate) fn line(text: impl std::fmt::Display) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{text}").ok();
}

/// Prints text as it is, at once.
pub(crate) fn text(text: impl std::fmt::Display) {
    let mut out = std::io::stdout().lock();
    write!(out, "{text}").ok();
    out.flush().ok();
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
    !is_logged() && std::io::stderr().is_terminal()
}

/// Prints a note beside the output.
pub(crate) fn note(text: impl std::fmt::Display) {
    if is_logged() {
        tracing::info!(target: NOTES, "{text}");
        return;
    }
    print_note(text);
}

fn print_note(text: impl std::fmt::Display) {
    let mut out = std::io::stderr().lock();
    writeln!(out, "{text}").ok();
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

/// Prints what is wrong with the arguments, or the help that they ask for. Gives the status to end with.
pub(crate) fn explain_arguments(error: &clap::Error) -> u8 {
    if is_logged() && error.use_stderr() {
        complain(&anyhow::anyhow!("{}", error.to_string().trim_end()));
    } else {
        error.print().ok();
    }
    u8::try_from(error.exit_code()).unwrap_or(1)
}

/// Prints a value as JSON.
pub(crate) fn json(value: &serde_json::Value) {
    line(serde_json::to_string_pretty(value).unwrap_or_default());
}

/// Prints rows under a head.
pub(crate) fn rows(head: &[&str], rows: impl IntoIterator<Item = Vec<String>>) {
    let mut table = Table::new();
    table
        .load_style(comfy_table::TableStyle::new())
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_header(head);
    for row in rows {
        table.add_row(row);
    }
    for printed in table.lines() {
        line(printed.trim_end());
    }
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

/// Asks a person, who has to agree. Where nobody can be asked, `--yes` says it.
pub(crate) fn confirm(question: &str) -> Result<()> {
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        bail!("this cannot be undone, and nobody can be asked here: add --yes to do it all the same");
    }
    let mut out = std::io::stderr().lock();
    write!(out, "{question} [y/N] ").ok();
    out.flush().ok();
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    match answer.trim().to_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => bail!("nothing was deleted"),
    }
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

/// The end of a text that is longer than `most` characters; of a path that is what tells it from others.
pub(crate) fn ending(text: &str, most: usize) -> String {
    let length = text.chars().count();
    if length <= most {
        return text.to_owned();
    }
    std::iter::once('…').chain(text.chars().skip(length + 1 - most)).collect()
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

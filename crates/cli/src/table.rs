//! What a person sees: lines, tables and errors.

use std::io::Write as _;

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

/// Prints a note beside the output.
pub(crate) fn note(text: impl std::fmt::Display) {
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
    note(format!("everturn: {text}"));
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

//! The lines that were written by hand; their file says what its signs mean.

use std::collections::BTreeMap;

const LINES: &str = include_str!("lines.txt");

/// A line that was written by hand.
#[derive(Debug, Clone, Copy)]
pub struct HostileLine {
    /// The line, with names of places in it.
    pub text: &'static str,
    /// Whether it would change the machine if nothing kept it from that.
    pub drastic: bool,
    /// Whether it needs a program that may be missing.
    pub optional: bool,
}

/// The lines of each family.
pub fn corpus() -> BTreeMap<&'static str, Vec<HostileLine>> {
    let read = |line: &'static str| match line.split_at_checked(2) {
        Some(("! ", text)) => HostileLine { text, drastic: true, optional: false },
        Some(("? ", text)) => HostileLine { text, drastic: false, optional: true },
        _ => HostileLine { text: line, drastic: false, optional: false },
    };
    let families = LINES.split("\n## ").skip(1).filter_map(|text| text.split_once('\n'));
    families
        .map(|(name, lines)| (name, lines.lines().filter(|line| !line.is_empty()).map(read).collect()))
        .collect()
}

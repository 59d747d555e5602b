//! Where the hunks of a patch belong in a file, and the file with them applied.
//!
//! Lines are compared exactly first, then without the whitespace behind them, then without any around them. A hunk
//! belongs to the one place after the hunk before it where all its lines are, or, below its `@@` lines, to the first;
//! if there are several, nothing is chosen. Lines that a hunk keeps stay as the file has them.

use std::borrow::Cow;

use tokio_util::sync::CancellationToken;

use super::envelope::{Hunk, PatchLine, PatchLineKind};
use crate::indentation::{IndentationRule, indent};
use crate::write::BOM;

/// How lines are compared, the strictest first.
const TIERS: [fn(&str, &str) -> bool; 3] =
    [|a, b| a == b, |a, b| a.trim_end() == b.trim_end(), |a, b| a.trim() == b.trim()];

/// A line of the file, before or after.
#[derive(Debug, Clone)]
struct FileLine<'a> {
    text: Cow<'a, str>,
    /// Nothing for a last line that has no end.
    end: &'static str,
}

/// Where a hunk belongs.
#[derive(Debug)]
struct HunkPosition<'a> {
    start: usize,
    /// How to indent what it adds.
    rule: IndentationRule<'a>,
}

/// The text with the hunks applied; an error says which hunk does not fit, in the words of the patch alone.
pub(super) fn apply(before: &str, hunks: &[Hunk], cancel: &CancellationToken) -> Result<String, String> {
    let (mark, text) = before.strip_prefix(BOM).map_or(("", before), |text| (BOM, text));
    let file: Vec<FileLine<'_>> = text.split_inclusive('\n').map(FileLine::of).collect();
    let mut open = !text.is_empty() && !text.ends_with('\n');
    // A patch that spells line ends out is taken at its word; otherwise new lines end as those around them.
    let literal = hunks.iter().flat_map(|hunk| &hunk.lines).any(|line| line.carriage);
    let mut after: Vec<FileLine<'_>> = Vec::new();
    let mut at = 0;
    for (number, hunk) in (1..).zip(hunks) {
        let place = locate(&file, at, hunk, open, cancel).map_err(|why| misfit(number, hunk, &why))?;
        after.extend_from_slice(file.get(at..place.start).unwrap_or_default());
        at = place.start;
        let near = at.checked_sub(1).and_then(|above| file.get(above)).or_else(|| file.get(at));
        let mut end = near.map_or("\n", |line| line.end);
        for line in &hunk.lines {
            match line.kind {
                PatchLineKind::Kept | PatchLineKind::Removed => {
                    let Some(own) = file.get(at) else { break };
                    at += 1;
                    end = if own.end.is_empty() { end } else { own.end };
                    if line.kind == PatchLineKind::Kept {
                        after.push(own.clone());
                    }
                }
                PatchLineKind::Added => after
                    .push(added(line, &place.rule, literal, end).map_err(|why| misfit(number, hunk, &why))?),
            }
        }
        if hunk.new_open || hunk.old_open {
            open = hunk.new_open;
        }
    }
    after.extend_from_slice(file.get(at..).unwrap_or_default());
    Ok(format!("{mark}{}", join(&after, open)))
}

fn added<'a>(
    line: &'a PatchLine,
    rule: &IndentationRule<'_>,
    literal: bool,
    near: &'static str,
) -> Result<FileLine<'a>, String> {
    let end = match (literal, line.carriage) {
        (true, true) => "\r\n",
        (true, false) => "\n",
        (false, _) if near.is_empty() => "\n",
        (false, _) => near,
    };
    if line.text.trim().is_empty() {
        return Ok(FileLine { text: Cow::Borrowed(&line.text), end });
    }
    let own = indent(&line.text);
    let there = rule
        .apply(own)
        .ok_or("the file has another indentation, and what to indent new lines with is unclear")?;
    let text = format!("{there}{}", line.text.get(own.len()..).unwrap_or_default());
    Ok(FileLine { text: Cow::Owned(text), end })
}

/// The lines as one text, whose last line has an end or not.
fn join(lines: &[FileLine<'_>], open: bool) -> String {
    let mut text = String::new();
    let mut near = "\n";
    for (left, line) in (0..lines.len()).rev().zip(lines) {
        near = if line.end.is_empty() { near } else { line.end };
        text.push_str(&line.text);
        if left > 0 || !open {
            text.push_str(near);
        }
    }
    text
}

impl<'a> FileLine<'a> {
    fn of(whole: &'a str) -> Self {
        let end = if whole.ends_with("\r\n") {
            "\r\n"
        } else if whole.ends_with('\n') {
            "\n"
        } else {
            ""
        };
        Self { text: Cow::Borrowed(whole.strip_suffix(end).unwrap_or(whole)), end }
    }
}

fn locate<'a>(
    file: &'a [FileLine<'_>],
    from: usize,
    hunk: &'a Hunk,
    open: bool,
    cancel: &CancellationToken,
) -> Result<HunkPosition<'a>, String> {
    let old: Vec<&str> =
        hunk.lines.iter().filter(|line| line.kind != PatchLineKind::Added).map(|line| &*line.text).collect();
    if hunk.old_open && !open {
        return Err("the file ends with a line break".to_owned());
    }
    let pinned = hunk.at_end || hunk.old_open || hunk.new_open;
    let origins = origins(file, from, &hunk.anchors)?;
    let as_it_is = IndentationRule::Deeper("");
    if old.is_empty() {
        let starts: Vec<usize> = if pinned || file.is_empty() {
            vec![file.len()]
        } else if hunk.anchors.is_empty() {
            return Err(
                "it only adds lines, and nothing says where. Add lines around it, a `@@` line above it, or \
                        `*** End of File` below it"
                    .to_owned(),
            );
        } else {
            origins.iter().map(|origin| origin + 1).collect()
        };
        return Ok(HunkPosition { start: only(&starts)?, rule: as_it_is });
    }
    for (tier, same) in TIERS.iter().enumerate() {
        let fits = |start: usize| {
            let window = file.get(start..start + old.len());
            window.is_some_and(|window| window.iter().zip(&old).all(|(own, old)| same(&own.text, old)))
        };
        let Some(last) = file.len().checked_sub(old.len()) else { break };
        let all: Vec<usize> = (if pinned { from.max(last) } else { from }..=last)
            .take_while(|_| !cancel.is_cancelled())
            .filter(|at| fits(*at))
            .collect();
        // What was found by then may not be all, and one place may look like the only one.
        if cancel.is_cancelled() {
            return Err("the call was cancelled".to_owned());
        }
        let mut starts = if hunk.anchors.is_empty() {
            all
        } else {
            origins.iter().filter_map(|origin| from_on(&all, *origin)).collect()
        };
        starts.dedup();
        if starts.is_empty() {
            continue;
        }
        let start = only(&starts)?;
        if tier < 2 {
            return Ok(HunkPosition { start, rule: as_it_is });
        }
        let pairs: Vec<(&str, &str)> = old
            .iter()
            .zip(file.iter().skip(start))
            .filter(|(old, _)| !old.trim().is_empty())
            .map(|(old, own)| (indent(old), indent(&own.text)))
            .collect();
        let rule = IndentationRule::of(&pairs)
            .ok_or("the file has another indentation, and what to indent new lines with is unclear")?;
        return Ok(HunkPosition { start, rule });
    }
    let whereabouts = match (pinned, from) {
        (true, _) => " at the end of the file",
        (false, 0) => "",
        (false, _) => " after the hunk before it",
    };
    Err(format!("its lines are not in the file{whereabouts}"))
}

fn only(starts: &[usize]) -> Result<usize, String> {
    match starts {
        [start] => Ok(*start),
        several => Err(format!(
            "its lines are in {} places. Add lines around it, or a `@@` line with a line above it",
            several.len()
        )),
    }
}

/// The lines that the `@@` lines may mean: for each line like the first, the next ones like the others.
fn origins(file: &[FileLine<'_>], from: usize, anchors: &[String]) -> Result<Vec<usize>, String> {
    for same in TIERS {
        let alike = |anchor: &String| -> Vec<usize> {
            (from..file.len()).filter(|at| file.get(*at).is_some_and(|own| same(&own.text, anchor))).collect()
        };
        let mut anchors = anchors.iter().map(alike);
        let Some(first) = anchors.next() else { return Ok(Vec::new()) };
        let mut found = anchors
            .fold(first, |found, next| found.into_iter().filter_map(|at| from_on(&next, at + 1)).collect());
        found.dedup();
        if !found.is_empty() {
            return Ok(found);
        }
    }
    Err(format!("there is no line like its `@@` line: {}", anchors.join(" / ")))
}

/// The first of some ascending numbers that is not below a bound.
fn from_on(ascending: &[usize], bound: usize) -> Option<usize> {
    ascending.get(ascending.partition_point(|at| *at < bound)).copied()
}

fn misfit(number: usize, hunk: &Hunk, why: &str) -> String {
    let first =
        hunk.lines.iter().map(|line| line.text.trim()).find(|text| !text.is_empty()).unwrap_or_default();
    let first: String = first.chars().take(100).collect();
    format!("hunk {number} (`{first}`) does not fit: {why}")
}

//! The bill of a session: one line for each time that something was used, of which the sums are what it has spent.
//!
//! A cost has more digits than a database adds up, so a line has what the whole sum grew by in billionths of a dollar.
//! That way the lines of a session come to its sum to the last digit, however they are rounded.

use crate::event::Seed;
use crate::session::{ModelRef, Session, Spent};
use crate::{Millis, Tokens};

/// What a step of a turn used.
pub const TURN: &str = "turn";

/// What a summary of the conversation used.
pub const COMPACTION: &str = "compaction";

/// What a session had used when it came from another program.
pub const IMPORT: &str = "import";

/// What was used at one time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BillLine {
    /// The event that says so.
    pub seq: u64,
    /// Which line of that event.
    pub line: u64,
    /// When it was used.
    pub time: Millis,
    /// By which model, where that is known.
    pub model: Option<ModelRef>,
    /// For what: [`TURN`], [`COMPACTION`], [`IMPORT`], or what the event says.
    pub source: String,
    /// How much.
    pub tokens: Tokens,
    /// What it cost, in billionths of a dollar.
    pub nanos: i64,
}

impl BillLine {
    /// The line of what came between two sums of a session.
    fn between(before: &Spent, after: &Spent) -> Self {
        Self {
            seq: 0,
            line: 0,
            time: 0,
            model: None,
            source: IMPORT.to_owned(),
            tokens: after.tokens.minus(&before.tokens),
            nanos: after.cost.to_nanos() - before.cost.to_nanos(),
        }
    }

    /// The line of what an event used; none when that is nothing.
    #[must_use]
    pub fn of_event(
        (seq, time): (u64, Millis),
        source: &str,
        model: Option<ModelRef>,
        before: &Spent,
        after: &Spent,
    ) -> Option<Self> {
        let line = Self { seq, time, model, source: source.to_owned(), ..Self::between(before, after) };
        (!line.is_nothing()).then_some(line)
    }

    /// The line of what a session had used when it was created; none when that is nothing, as it is unless it came from
    /// another program.
    #[must_use]
    pub fn of_creation(session: &Session) -> Option<Self> {
        let line = Self { time: session.time.updated, ..Self::between(&Spent::default(), &session.spent) };
        (!line.is_nothing()).then_some(line)
    }

    /// The lines of a session that has just come from another program: one for each answer that it brought along, by its
    /// model and at its time, and what is left of the line of its creation, which this one replaces. The program may have
    /// counted less than its messages say, and that is what counts.
    #[must_use]
    pub fn of_import(session: &Session, seed: &Seed) -> Vec<Self> {
        let mut left = session.spent;
        let mut lines = Vec::new();
        for node in &seed.nodes {
            let Some(answer) = node.entry.body.assistant().filter(|answer| answer.model.is_some()) else {
                continue;
            };
            let tokens = answer.tokens.at_most(&left.tokens);
            let rest =
                Spent { tokens: left.tokens.minus(&tokens), cost: left.cost - answer.cost.min(left.cost) };
            let line = Self {
                line: u64::try_from(lines.len()).unwrap_or(u64::MAX).saturating_add(1),
                time: answer.completed.unwrap_or(node.entry.time),
                model: answer.model.clone(),
                ..Self::between(&rest, &left)
            };
            left = rest;
            if !line.is_nothing() {
                lines.push(line);
            }
        }
        if session.spent != Spent::default() {
            lines.push(Self { time: session.time.updated, ..Self::between(&Spent::default(), &left) });
        }
        lines
    }

    fn is_nothing(&self) -> bool {
        self.tokens.sum() == 0 && self.nanos == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Money;

    #[test]
    fn lines_come_to_the_sum_to_the_last_digit() {
        // Each of three costs rounds up to a billionth, and their sum is two of them.
        let third = Spent { cost: "0.0000000006".parse().unwrap(), ..Spent::default() };
        let mut sum = Spent::default();
        let mut nanos = 0;
        for _ in 0..3 {
            let before = sum;
            sum.cost += third.cost;
            nanos += BillLine::of_event((1, 1), TURN, None, &before, &sum).map_or(0, |line| line.nanos);
        }
        assert_eq!((nanos, Money::from_nanos(nanos)), (2, "0.000000002".parse().unwrap()));
    }
}

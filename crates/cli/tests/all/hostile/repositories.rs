//! The corpus: repositories that would have something run or sent, or that hold up or fill whoever reads them.
//!
//! - `git`: what git reads
//! - `permissions`: rules and agents that allow what the person does not
//! - `settings`: models, providers, servers and whatever else is configured
//! - `shapes`: files that are no ordinary ones, and what is too large, too deep or no text
//! - `words`: instructions, agents, commands and skills

mod git;
mod permissions;
mod settings;
mod shapes;
mod words;

use super::site::HostileSite;

/// A repository that does harm.
#[derive(Debug, Clone, Copy)]
pub(super) struct HostileRepository {
    pub(super) name: &'static str,
    pub(super) make: fn(&HostileSite),
    /// A line for the shell that leaves the mark: what the repository is for, done by hand.
    pub(super) by_hand: Option<&'static str>,
    pub(super) answer: ExpectedAnswer,
}

/// Whether the person's model answers in a repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ExpectedAnswer {
    Given,
    /// Instructions cannot be read, so the model is told nothing at all.
    Withheld,
}

const fn repository(name: &'static str, make: fn(&HostileSite)) -> HostileRepository {
    HostileRepository { name, make, by_hand: None, answer: ExpectedAnswer::Given }
}

/// One of which it can be shown that it works.
const fn working(name: &'static str, by_hand: &'static str, make: fn(&HostileSite)) -> HostileRepository {
    HostileRepository { name, make, by_hand: Some(by_hand), answer: ExpectedAnswer::Given }
}

/// One whose instructions cannot be read: working by half of them is worse than waiting.
const fn silent(name: &'static str, make: fn(&HostileSite)) -> HostileRepository {
    HostileRepository { name, make, by_hand: None, answer: ExpectedAnswer::Withheld }
}

/// All of them; those that take longest come first.
pub(super) fn corpus() -> Vec<HostileRepository> {
    [git::ALL, shapes::ALL, settings::ALL, permissions::ALL, words::ALL].concat()
}

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
}

const fn repository(name: &'static str, make: fn(&HostileSite)) -> HostileRepository {
    HostileRepository { name, make, by_hand: None }
}

/// One of which it can be shown that it works.
const fn working(name: &'static str, by_hand: &'static str, make: fn(&HostileSite)) -> HostileRepository {
    HostileRepository { name, make, by_hand: Some(by_hand) }
}

/// All of them; those that take longest come first.
pub(super) fn corpus() -> Vec<HostileRepository> {
    [git::ALL, shapes::ALL, settings::ALL, permissions::ALL, words::ALL].concat()
}

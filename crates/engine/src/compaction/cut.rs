//! Where a conversation is cut: what comes before is summed up, what comes after is kept word for word.
//!
//! The newest entries are kept up to a number of tokens. A cut is never between a call and its result. It may be in the
//! middle of a turn, whose beginning is summed up then.

use std::collections::HashMap;

use everturn_model::entry::Body;
use everturn_model::path;
use everturn_model::tree::Node;

use super::size;
use crate::config::CompactionSettings;

/// How much of the newest conversation is kept.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct KeptBounds {
    /// As many tokens as it has at least, as long as there are so many.
    pub(crate) tokens: u64,
    /// More than so many it never has: a single entry may be larger than all that fits.
    pub(crate) most: Option<u64>,
    /// So many messages at most.
    pub(crate) messages: Option<u64>,
    /// So many turns at most.
    pub(crate) turns: Option<u64>,
}

/// A cut through the part of a path that the model sees, by places on the path.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PathCut {
    /// What is summed up.
    pub(crate) summed: Vec<usize>,
    /// What is kept.
    pub(crate) kept: Vec<usize>,
    /// Whether it is in the middle of a turn.
    pub(crate) splits: bool,
}

impl PathCut {
    /// The cut that keeps nothing.
    pub(crate) fn whole(path: &[&Node]) -> Self {
        Self { summed: visible(path), ..Self::default() }
    }

    /// Whether there is anything to sum up.
    pub(crate) fn is_empty(&self, path: &[&Node]) -> bool {
        !self.summed.iter().filter_map(|at| path.get(*at)).any(|node| is_message(node))
    }
}

/// What makes a cut necessary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CutOccasion {
    /// The next request would be too large.
    Estimate,
    /// The provider found a request too large, whatever its size was taken for.
    Overflow,
    /// Somebody asks for it: if all of it would be kept, all of it is summed up.
    Asked,
}

/// Where a path is cut by the settings, where so many tokens are usable.
pub(crate) fn of(
    path: &[&Node],
    settings: &CompactionSettings,
    usable: Option<u64>,
    occasion: CutOccasion,
) -> PathCut {
    let tokens = settings.kept_tokens(usable);
    let seen = visible(path);
    let all = || seen.iter().filter_map(|at| path.get(*at)).map(|node| size::of_node(node)).sum::<u64>();
    let bounds = KeptBounds {
        tokens: if occasion == CutOccasion::Overflow { tokens.min(all() / 4) } else { tokens },
        most: usable.map(|usable| usable / 2),
        messages: settings.kept_messages(),
        turns: settings.tail_turns,
    };
    let cut = choose(path, &bounds);
    match occasion {
        CutOccasion::Asked if cut.is_empty(path) => PathCut::whole(path),
        // What is newest is what the model has to answer.
        CutOccasion::Overflow if cut.is_empty(path) => choose(path, &KeptBounds { tokens: 1, ..bounds }),
        CutOccasion::Asked | CutOccasion::Overflow | CutOccasion::Estimate => cut,
    }
}

/// Where a path is cut.
pub(crate) fn choose(path: &[&Node], bounds: &KeptBounds) -> PathCut {
    let items = visible(path);
    let valid = valid_places(path, &items);
    let sizes: Vec<u64> =
        items.iter().map(|at| path.get(*at).map_or(0, |node| size::of_node(node))).collect();
    let mut cut = if bounds.tokens == 0 { items.len() } else { first_kept(&sizes, &valid, bounds.tokens) };
    let holds = |cut: usize, wanted: &dyn Fn(&Node) -> bool| {
        let kept = items.get(cut..).unwrap_or_default();
        let count = kept.iter().filter_map(|at| path.get(*at)).filter(|node| wanted(node)).count();
        u64::try_from(count).unwrap_or(u64::MAX)
    };
    let too_much = |cut: usize| {
        let tokens: u64 = sizes.get(cut..).unwrap_or_default().iter().sum();
        bounds.most.is_some_and(|most| tokens > most)
            || bounds.messages.is_some_and(|most| holds(cut, &is_message) > most)
            || bounds.turns.is_some_and(|most| holds(cut, &is_prompt) > most)
    };
    while cut < items.len() && too_much(cut) {
        cut = next_valid(&valid, cut + 1);
    }
    // What is no message goes with what follows it.
    if cut < items.len() {
        let is_other = |place: usize| {
            items.get(place).and_then(|at| path.get(*at)).is_some_and(|node| !is_message(node))
        };
        while cut > 0 && is_other(cut - 1) && valid.get(cut - 1).is_some_and(|place| *place != Place::Inside)
        {
            cut -= 1;
        }
    }
    let (summed, kept) = items.split_at(cut.min(items.len()));
    let node_at = |places: &[usize], place: usize| places.get(place).and_then(|at| path.get(*at)).copied();
    let begins = (0..kept.len()).filter_map(|place| node_at(kept, place)).find(|node| is_message(node));
    let had_turn = (0..summed.len()).filter_map(|place| node_at(summed, place)).any(is_prompt);
    let splits = had_turn && begins.is_some_and(|node| !is_prompt(node));
    PathCut { summed: summed.to_vec(), kept: kept.to_vec(), splits }
}

/// The places that the model sees.
fn visible(path: &[&Node]) -> Vec<usize> {
    let (_, mut places) = path::visible(path);
    places.retain(|at| path.get(*at).is_some_and(|node| !node.entry.hidden));
    places
}

/// What a place is good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// The kept part may begin there.
    Valid,
    /// It may not.
    Other,
    /// It may not: a call would be on one side of the cut and its result on the other.
    Inside,
}

/// Walks back until enough is kept, and from there on to the first valid place; to the last one before, where there is none.
fn first_kept(sizes: &[u64], valid: &[Place], enough: u64) -> usize {
    let mut sum = 0;
    for (place, size) in sizes.iter().enumerate().rev() {
        sum += size;
        if sum >= enough {
            let next = next_valid(valid, place);
            // The newest result alone may be enough. Without its call it could not be kept, and the model has just asked for it.
            let before = || valid.iter().take(place).rposition(|place| *place == Place::Valid);
            return if next < valid.len() { next } else { before().unwrap_or(next) };
        }
    }
    0
}

fn next_valid(valid: &[Place], from: usize) -> usize {
    let found = valid.iter().skip(from).position(|place| *place == Place::Valid);
    found.map_or(valid.len(), |found| from + found)
}

fn valid_places(path: &[&Node], items: &[usize]) -> Vec<Place> {
    let mut places = Vec::with_capacity(items.len());
    let mut holders: HashMap<&str, usize> = HashMap::new();
    let nodes = || items.iter().enumerate().filter_map(|(place, at)| Some((place, *path.get(*at)?)));
    // How many calls are open before each place.
    let mut inside = vec![false; items.len()];
    for (place, node) in nodes() {
        if let Body::ToolResult { result } = &node.entry.body {
            if let Some(holder) = holders.get(result.call.as_str()) {
                inside.iter_mut().take(place + 1).skip(holder + 1).for_each(|slot| *slot = true);
            }
        } else {
            holders.extend(node.parts.iter().filter_map(|part| Some((part.kind.call()?, place))));
        }
    }
    for (place, node) in nodes() {
        places.push(match &node.entry.body {
            _ if inside.get(place).copied().unwrap_or(true) => Place::Inside,
            Body::User(_)
            | Body::Assistant(_)
            | Body::Shell(_)
            | Body::Synthetic { .. }
            | Body::BranchSummary { .. } => Place::Valid,
            _ => Place::Other,
        });
    }
    places
}

fn is_prompt(node: &Node) -> bool {
    matches!(node.entry.body, Body::User(_))
}

/// Whether the model is given an entry as a message.
pub(crate) fn is_message(node: &Node) -> bool {
    match &node.entry.body {
        Body::User(_)
        | Body::Assistant(_)
        | Body::ToolResult { .. }
        | Body::Synthetic { .. }
        | Body::Shell(_)
        | Body::BranchSummary { .. } => true,
        Body::System { .. }
        | Body::Compaction(_)
        | Body::AgentSwitch { .. }
        | Body::ModelSwitch { .. }
        | Body::ThinkingSwitch { .. }
        | Body::Epoch { .. }
        | Body::Title { .. }
        | Body::Label { .. }
        | Body::Custom { .. }
        | Body::Foreign { .. } => false,
    }
}

#[cfg(test)]
mod tests;

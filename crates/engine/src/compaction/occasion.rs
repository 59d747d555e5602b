//! When a conversation is summed up without being asked, and when that is not tried again.

use everturn_llm::ModelRequest;
use everturn_llm::catalogue::TokenLimits;
use everturn_model::FaultKind;
use everturn_model::entry::{Body, Compaction};
use everturn_model::path;
use everturn_model::tree::Node;

use super::{cut, size};
use crate::config::CompactionSettings;

/// After how many failures the pause grows no more.
const MOST_DOUBLED: u32 = 5;

/// Whether a request is so large that the conversation has to be summed up first.
pub(crate) fn is_due(
    path: &[&Node],
    request: &ModelRequest,
    settings: &CompactionSettings,
    limits: &TokenLimits,
) -> bool {
    if !settings.auto || !may_be_tried(path) {
        return false;
    }
    let too_long = settings.usable(limits).is_some_and(|usable| next_size(path, request) > usable);
    let (_, shown) = path::visible(path);
    let shown = shown.iter().filter_map(|at| path.get(*at)).filter(|node| !node.entry.hidden);
    let messages = u64::try_from(shown.filter(|node| cut::is_message(node)).count()).unwrap_or(u64::MAX);
    too_long || settings.max_messages.is_some_and(|most| messages > most)
}

/// How large the next request is: what the provider has counted of the last one and what came since then, or what it is
/// itself by an estimate, whichever is more. Neither alone knows of everything: a count says nothing of what is new, and an
/// estimate nothing of how a provider counts.
fn next_size(path: &[&Node], request: &ModelRequest) -> u64 {
    let (cut, _) = path::visible(path);
    let since = path.get(cut.map_or(0, |cut| cut + 1)..).unwrap_or_default();
    let counted = since.iter().enumerate().rev().find_map(|(at, node)| match &node.entry.body {
        Body::Assistant(answer) if answer.error.is_none() && !node.entry.hidden => {
            Some((at, answer.tokens.sum())).filter(|(_, tokens)| *tokens > 0)
        }
        _ => None,
    });
    let counted = counted.map_or(0, |(at, tokens)| {
        tokens + since.iter().skip(at + 1).map(|node| size::of_node(node)).sum::<u64>()
    });
    counted.max(size::of_request(request))
}

/// Whether summing up may be tried: not twice without anything new, and after failures only when more and more has
/// happened since. Whoever asks for it is not held up by this.
pub(crate) fn may_be_tried(path: &[&Node]) -> bool {
    let mut since = 0_u64;
    let mut failures = 0_u32;
    for node in path.iter().rev().filter(|node| !node.entry.hidden) {
        match &node.entry.body {
            Body::User(_) if failures == 0 => since += 1,
            Body::Assistant(answer)
                if failures == 0 && answer.error.is_none() && answer.completed.is_some() =>
            {
                since += 1;
            }
            Body::Compaction(Compaction { summary: Some(_), .. }) => return since >= wanted(failures),
            Body::Compaction(compaction) => failures += u32::from(has_failed(compaction)),
            _ => {}
        }
    }
    failures == 0 || since >= wanted(failures)
}

/// How many prompts and answers there have to have been since so many failures.
fn wanted(failures: u32) -> u64 {
    2_u64.pow(failures.min(MOST_DOUBLED))
}

/// Whether a compaction failed by itself: one that was stopped or cut off says nothing of the next.
fn has_failed(compaction: &Compaction) -> bool {
    let fault = compaction.pair.as_ref().and_then(|pair| pair.assistant.error.as_ref());
    fault.is_some_and(|fault| !matches!(fault.kind, FaultKind::Aborted | FaultKind::CutOff))
}

#[cfg(test)]
mod tests;

//! What each compaction of a conversation kept and dropped, found out from the path itself.

use everturn_model::compaction::CarriedContext;
use everturn_model::entry::{Body, Compaction};
use everturn_model::finish::Trigger;
use everturn_model::session::ModelRef;
use everturn_model::tree::Node;
use everturn_model::{EntryId, Fault, Millis, Money, Tokens, path};

use super::{cut, size};

/// A part of a conversation, by its size.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConversationSpan {
    /// How many messages and results.
    pub entries: u64,
    /// How many tokens that is, roughly.
    pub tokens: u64,
    /// The first of them.
    pub first: Option<EntryId>,
    /// The last of them.
    pub last: Option<EntryId>,
}

impl ConversationSpan {
    fn of<'n>(nodes: impl Iterator<Item = &'n Node>) -> Self {
        let mut sum = Self::default();
        for node in nodes.filter(|node| cut::is_message(node)) {
            sum.entries += 1;
            sum.tokens += size::of_node(node);
            sum.first.get_or_insert_with(|| node.entry.id.clone());
            sum.last = Some(node.entry.id.clone());
        }
        sum
    }
}

/// One compaction of a conversation.
#[derive(Debug, Clone, PartialEq)]
pub struct CompactionRecord {
    /// Its entry.
    pub entry: EntryId,
    /// When it began.
    pub time: Millis,
    /// What made it begin.
    pub reason: Option<Trigger>,
    /// Whether a person has undone it.
    pub undone: bool,
    /// Why it failed.
    pub fault: Option<Fault>,
    /// The summary; none where it failed.
    pub summary: Option<String>,
    /// The model that wrote it.
    pub model: Option<ModelRef>,
    /// What that used.
    pub tokens: Tokens,
    /// What that cost.
    pub cost: Money,
    /// What the summary stands for.
    pub dropped: ConversationSpan,
    /// What was kept word for word.
    pub kept: ConversationSpan,
    /// What is carried beside the summary.
    pub carried: CarriedContext,
}

/// The compactions on a path, oldest first.
pub(crate) fn ledger(nodes: &[&Node]) -> Vec<CompactionRecord> {
    let found = nodes.iter().enumerate().filter_map(|(at, node)| match &node.entry.body {
        Body::Compaction(compaction) => Some(record(nodes.get(..at).unwrap_or_default(), node, compaction)),
        _ => None,
    });
    found.collect()
}

fn record(before: &[&Node], node: &Node, compaction: &Compaction) -> CompactionRecord {
    let (_, seen) = path::visible(before);
    let seen: Vec<&Node> =
        seen.iter().filter_map(|at| before.get(*at)).copied().filter(|node| !node.entry.hidden).collect();
    let first = compaction.first_kept.as_ref();
    let kept_from = first.and_then(|first| seen.iter().position(|node| node.entry.id == *first));
    let (dropped, kept) = match (&compaction.summary, kept_from) {
        // One that failed has changed nothing.
        (None, _) => seen.split_at(0),
        (Some(_), None) => seen.split_at(seen.len()),
        (Some(_), Some(from)) => seen.split_at(from),
    };
    let answer = node.entry.body.assistant().cloned().unwrap_or_default();
    CompactionRecord {
        entry: node.entry.id.clone(),
        time: node.entry.time,
        reason: compaction.reason.clone(),
        undone: node.entry.hidden,
        fault: answer.error,
        summary: compaction.summary.clone(),
        model: answer.model,
        tokens: answer.tokens,
        cost: answer.cost,
        dropped: ConversationSpan::of(dropped.iter().copied()),
        kept: ConversationSpan::of(kept.iter().copied()),
        carried: compaction.carried.as_deref().cloned().unwrap_or_default(),
    }
}

//! What a session has to do next, by what waits in it.

use everturn_model::inbox::Delivery;
use everturn_model::session::ModelRef;
use everturn_model::{EntryId, Tree};

/// What a session has to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NextWork {
    /// The prompts to promote, in this order.
    pub(crate) promote: Vec<EntryId>,
    /// The compaction that comes first.
    pub(crate) compaction: Option<WantedCompaction>,
    /// The model of the turn before, where this process ran it.
    pub(crate) model: Option<ModelRef>,
}

impl NextWork {
    /// Whether a person asked for a compaction.
    pub(crate) fn asks_for_compaction(&self) -> bool {
        matches!(self.compaction, Some(WantedCompaction::Asked(_)))
    }
}

/// A compaction that is to be made before anything else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum WantedCompaction {
    /// A person asked for it, by this message.
    Asked(EntryId),
    /// This one was begun, and its process ended.
    Begun(EntryId),
}

/// Whether there is something to do in a session: work, or a command to settle whose process has ended.
pub(crate) fn is_due(tree: &Tree) -> bool {
    next_work(tree).is_some() || tree.session.shell.is_some() && tree.session.time.trashed.is_none()
}

/// Steers are promoted at once, all of them; a queued prompt only when nothing else is left, one at a time. What a stop
/// holds is promoted by neither. A compaction that was asked for is a steer among others: what was said before it is
/// promoted before it, and what comes after it afterwards.
pub(crate) fn next_work(tree: &Tree) -> Option<NextWork> {
    // A staged revert is waiting for the person; a parked session for a prompt. Nobody goes on with what is in the trash.
    if tree.session.parked || tree.session.revert.is_some() || tree.session.time.trashed.is_some() {
        return None;
    }
    let begun = tree.session.open_compaction.as_ref();
    if let Some(begun) = begun {
        let compaction = Some(WantedCompaction::Begun(begun.entry.clone()));
        return Some(NextWork { promote: Vec::new(), compaction, model: None });
    }
    let of = |delivery| tree.inbox.iter().filter(move |item| item.delivery == delivery);
    let (mut promote, mut compaction) = (Vec::new(), None);
    if !tree.session.held {
        let mut first = of(Delivery::Steer).peekable();
        compaction = first.next_if(|item| item.is_compaction());
        if compaction.is_none() {
            promote.extend(first.take_while(|item| !item.is_compaction()).map(|item| item.id.clone()));
        }
        if promote.is_empty() && compaction.is_none() && !tree.session.open {
            let next = of(Delivery::Queue).next();
            compaction = next.filter(|item| item.is_compaction());
            promote.extend(next.filter(|item| !item.is_compaction()).map(|item| item.id.clone()));
        }
    }
    let compaction = compaction.map(|item| WantedCompaction::Asked(item.id.clone()));
    let is_work = tree.session.open || compaction.is_some() || !promote.is_empty();
    is_work.then_some(NextWork { promote, compaction, model: None })
}

//! Text that is streaming, kept for clients that come in between.
//!
//! A V1 client replaces a part when it is told of the whole part, and appends when it is told of a piece of text. When
//! it loads the messages it cannot tell which pieces they hold already. So the messages hold none of the text that is
//! streaming, as with OpenCode; the event stream alone brings it, in order. Who attaches in the middle of a text, or
//! attaches again after a loss, would lack its beginning: its stream begins with the part as it is so far, and goes on
//! with exactly the pieces that come after that.

use std::collections::BTreeMap;

use everturn_engine::bus::{Committed, Live, Notice, Signal};
use everturn_engine::mint::Mint;
use everturn_interop::opencode::v1;
use everturn_model::part::PartKind;
use everturn_model::{EntryId, Event, Part, PartId, SessionId};

use crate::hub::{Frame, payload};
use crate::wire::event::PartUpdated;

/// The texts and thoughts that are streaming, in the order in which they began.
#[derive(Debug, Default)]
pub(crate) struct Drafts(BTreeMap<PartId, Draft>);

#[derive(Debug)]
struct Draft {
    session: SessionId,
    project: String,
    directory: String,
    entry: EntryId,
    part: Part,
}

impl Drafts {
    /// Takes notice of what begins, grows and ends.
    pub(crate) fn follow(&mut self, notice: &Notice) {
        match notice {
            Notice::Committed(committed) => self.commit(committed),
            Notice::Live(live) => self.signal(live),
        }
    }

    /// Forgets everything: something was missed.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// Each part as it is so far.
    pub(crate) fn frames(&self, mint: &Mint) -> Vec<Frame> {
        let frame = |draft: &Draft| {
            let session = draft.session.as_str();
            let part = v1::part(&draft.session, draft.entry.as_str(), &draft.part, None);
            let updated = PartUpdated { session, part, time: mint.now() };
            Frame::new(&draft.directory, &draft.project, payload(mint, "message.part.updated", &updated))
        };
        self.0.values().map(frame).collect()
    }

    fn commit(&mut self, committed: &Committed) {
        match &committed.record.event {
            Event::PartStarted { entry, part } if streams(part) => {
                let session = &committed.tree.session;
                let draft = Draft {
                    session: session.id.clone(),
                    project: session.project.clone(),
                    directory: session.directory.clone(),
                    entry: entry.clone(),
                    part: (**part).clone(),
                };
                self.0.insert(part.id.clone(), draft);
            }
            Event::PartEnded { part, .. } => drop(self.0.remove(part)),
            // Whatever of it has not ended is not going on.
            Event::StepFailed { .. } | Event::SessionTrashed { .. } => {
                self.0.retain(|_, draft| draft.session != committed.tree.session.id);
            }
            _ => {}
        }
    }

    fn signal(&mut self, live: &Live) {
        match &live.signal {
            Signal::Delta { part, text: piece, .. } => {
                if let Some(Draft { part, .. }) = self.0.get_mut(part)
                    && let PartKind::Text { text, .. } | PartKind::Reasoning { text, .. } = &mut part.kind
                {
                    text.push_str(piece);
                }
            }
            // Work that failed leaves its text to the next attempt, which may be another process's.
            Signal::Idle => self.0.retain(|_, draft| draft.session != live.session),
            _ => {}
        }
    }
}

fn streams(part: &Part) -> bool {
    matches!(part.kind, PartKind::Text { .. } | PartKind::Reasoning { .. })
}

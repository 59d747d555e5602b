//! Text that is streaming, kept for clients that attach in the middle of it.
//!
//! A V1 client replaces a part when it is told of the whole part, and appends when it is told of a piece of text. When
//! it loads the messages it cannot tell which pieces they hold already. So the messages hold none of the text that is
//! streaming, as with OpenCode; the event stream alone brings it, in order. A client that attaches in the middle of a
//! text, or attaches again after a loss, would lack its beginning. So its stream begins with the part as it is so far,
//! and goes on with exactly the pieces that come after that. Each piece has its place in the text, so that one that
//! comes twice, from the process that streams it and from the buffer that it is saved in, is shown once.

use std::collections::BTreeMap;

use everturn_engine::bus::{Committed, Live, Signal, continuation};
use everturn_engine::mint::Mint;
use everturn_engine::sessions::StreamingPart;
use everturn_interop::opencode::v1;
use everturn_model::part::PartKind;
use everturn_model::{EntryId, Event, Part, PartId, Session, SessionId};

use crate::hub::{EventFrame, payload};
use crate::wire::event::PartUpdated;

/// The texts and thoughts that are streaming, in the order in which they began.
#[derive(Debug, Default)]
pub(crate) struct Drafts(BTreeMap<PartId, Draft>);

#[derive(Debug)]
struct Draft {
    session: SessionId,
    project: String,
    directory: String,
    /// The message that holds it.
    message: EntryId,
    part: Part,
}

impl Draft {
    fn new(session: &Session, message: &EntryId, part: &Part) -> Self {
        Self {
            session: session.id.clone(),
            project: session.project.clone(),
            directory: session.directory.clone(),
            message: message.clone(),
            part: part.clone(),
        }
    }

    fn text(&mut self) -> Option<&mut String> {
        match &mut self.part.kind {
            PartKind::Text { text, .. } | PartKind::Reasoning { text, .. } => Some(text),
            _ => None,
        }
    }

    /// The part as it is so far.
    fn frame(&self, mint: &Mint) -> EventFrame {
        let session = self.session.as_str();
        let part = v1::part(&self.session, self.message.as_str(), &self.part, None);
        let updated = PartUpdated { session, part, time: mint.now() };
        EventFrame::new(&self.directory, &self.project, payload(mint, "message.part.updated", &updated))
    }
}

/// What of a piece of text is new.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NewText<'t> {
    /// This much.
    Text(&'t str),
    /// Something is missing before it.
    Hole,
}

impl Drafts {
    /// Forgets everything, since something was missed, and begins with the parts that other processes stream.
    pub(crate) fn begin(&mut self, open: Vec<StreamingPart>) {
        self.0.clear();
        for StreamingPart { session, message, part, .. } in open {
            self.0.insert(part.id.clone(), Draft::new(&session, &message, &part));
        }
    }

    /// Each part as it is so far.
    pub(crate) fn frames(&self, mint: &Mint) -> Vec<EventFrame> {
        self.0.values().map(|draft| draft.frame(mint)).collect()
    }

    /// Takes notice of what begins and ends. A part that was known before it began shows as it is so far: its event would
    /// take back what was shown of it.
    pub(crate) fn commit(&mut self, committed: &Committed, mint: &Mint) -> Option<EventFrame> {
        match &committed.record.event {
            Event::PartStarted { entry, part } if streams(part) => {
                if let Some(draft) = self.0.get(&part.id) {
                    return Some(draft.frame(mint));
                }
                let second = committed.tree.node(entry).and_then(|node| node.entry.body.pair());
                let second = second.filter(|_| part.second).map(|pair| EntryId::new(pair.second.as_str()));
                let message = second.unwrap_or_else(|| entry.clone());
                self.0.insert(part.id.clone(), Draft::new(&committed.tree.session, &message, part));
            }
            Event::PartEnded { part, .. } => drop(self.0.remove(part)),
            // Whatever of it has not ended is not going on.
            Event::StepFailed { .. } | Event::CompactionFailed { .. } | Event::SessionTrashed { .. } => {
                self.0.retain(|_, draft| draft.session != committed.tree.session.id);
            }
            _ => {}
        }
        None
    }

    /// Takes in a piece of text, and says what of it is new.
    pub(crate) fn add<'t>(&mut self, part: &PartId, offset: usize, piece: &'t str) -> NewText<'t> {
        // Of a part whose beginning was missed, what comes is all there is.
        let Some(text) = self.0.get_mut(part).and_then(Draft::text) else { return NewText::Text(piece) };
        let Some(fresh) = continuation(text.len(), offset, piece) else { return NewText::Hole };
        text.push_str(fresh);
        NewText::Text(fresh)
    }

    /// The message that holds a part that is streaming.
    pub(crate) fn message(&self, part: &PartId) -> Option<&EntryId> {
        self.0.get(part).map(|draft| &draft.message)
    }

    /// Takes notice of what stops.
    pub(crate) fn signal(&mut self, live: &Live) {
        // Work that failed leaves its text to the next attempt, which may be another process's.
        if matches!(live.signal, Signal::Idle | Signal::Purged { .. }) {
            self.0.retain(|_, draft| draft.session != live.session);
        }
    }
}

fn streams(part: &Part) -> bool {
    matches!(part.kind, PartKind::Text { .. } | PartKind::Reasoning { .. })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use everturn_engine::world::System;

    use super::*;

    fn open(text: &str) -> StreamingPart {
        let session = Session::new(SessionId::new("ses_1"), "global", "/srv", "t", "1", 0);
        let part = Part::new(PartId::new("prt_1"), PartKind::text(text));
        StreamingPart { session, entry: EntryId::new("msg_1"), message: EntryId::new("msg_1"), part }
    }

    #[test]
    fn a_piece_that_comes_twice_is_new_once_and_a_hole_is_noticed() {
        let mut drafts = Drafts::default();
        drafts.begin(vec![open("one ")]);
        let part = PartId::new("prt_1");
        assert_eq!(drafts.add(&part, 0, "one "), NewText::Text(""), "it was in the buffer when this began");
        assert_eq!(drafts.add(&part, 2, "e two "), NewText::Text("two "), "in another cut");
        assert_eq!(drafts.add(&part, 8, "three"), NewText::Text("three"));
        assert_eq!(drafts.add(&part, 14, "five"), NewText::Hole);
        let unknown = PartId::new("prt_2");
        assert_eq!(drafts.add(&unknown, 3, "rest"), NewText::Text("rest"));
        let mint = Mint::new(Arc::new(System));
        let frames = drafts.frames(&mint);
        let shown = String::from_utf8(frames[0].bare().to_vec()).unwrap();
        assert!(frames.len() == 1 && shown.contains("\"one two three\""), "{shown}");
    }
}

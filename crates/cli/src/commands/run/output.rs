//! What a person was shown of a session: each text whole and once, whatever was missed while it streamed.

use std::collections::{HashMap, HashSet};

use everturn_engine::bus::continuation;
use everturn_model::fault::Fault;
use everturn_model::part::PartKind;
use everturn_model::tool::Outcome;
use everturn_model::{Body, EntryId, Event, PartId, Record, SessionId, Tree};

use serde_json::Value;

use crate::plain::flatten;

/// What was shown so far, and what became of the session.
pub(super) struct RunOutput<P> {
    /// Prints text at once.
    show: P,
    session: SessionId,
    prompt: EntryId,
    /// The last event that was taken. The log has what comes after it.
    seq: Option<u64>,
    /// Whether the prompt was told of. What was idle before is no sign of its end.
    admitted: bool,
    /// Whether a turn has taken it up.
    begun: bool,
    /// Whether another turn was waited for, because it asks somebody else.
    waited_for_others: bool,
    /// How much was shown of each text that is streaming, from its beginning on.
    texts: HashMap<PartId, usize>,
    /// The texts that were shown to their end.
    ended: HashSet<PartId>,
    /// Whether the last line has not ended.
    in_line: bool,
    missed: bool,
    idle: bool,
    deleted: bool,
    /// The answer in which something that it asked for was refused, unless a later one came after it.
    refused: Option<EntryId>,
    /// Why the last turn failed.
    failure: Option<Fault>,
}

impl<P: FnMut(&str)> RunOutput<P> {
    /// Nothing yet of the answer to a prompt.
    pub(super) fn new(show: P, session: SessionId, prompt: EntryId) -> Self {
        Self {
            show,
            session,
            prompt,
            seq: None,
            admitted: false,
            begun: false,
            waited_for_others: false,
            texts: HashMap::new(),
            ended: HashSet::new(),
            in_line: false,
            missed: false,
            idle: false,
            deleted: false,
            refused: None,
            failure: None,
        }
    }

    /// Nothing yet of the answer to a prompt that was accepted earlier and waits.
    pub(super) fn of_waiting(show: P, session: SessionId, prompt: EntryId) -> Self {
        Self { admitted: true, ..Self::new(show, session, prompt) }
    }

    /// Nothing yet of the turn that a session goes on with that waited for a person.
    pub(super) fn of_open_turn(show: P, session: SessionId) -> Self {
        Self { begun: true, ..Self::of_waiting(show, session, EntryId::from("")) }
    }

    /// The session.
    pub(super) fn session(&self) -> &SessionId {
        &self.session
    }

    /// The last event that was taken.
    pub(super) fn seq(&self) -> Option<u64> {
        self.seq
    }

    /// Whether nothing more is to come: the session is idle after the prompt, or gone.
    pub(super) fn is_over(&self) -> bool {
        self.idle || self.deleted
    }

    /// Whether a turn has taken up the prompt.
    pub(super) fn is_begun(&self) -> bool {
        self.begun
    }

    /// Another turn asks somebody else. True the first time, so that a person is told once.
    pub(super) fn wait_for_others(&mut self) -> bool {
        !std::mem::replace(&mut self.waited_for_others, true)
    }

    /// Whether somebody has deleted the session.
    pub(super) fn is_deleted(&self) -> bool {
        self.deleted
    }

    /// Whether something was missed, so that the log may have more than was shown.
    pub(super) fn has_missed(&self) -> bool {
        self.missed
    }

    /// Why the last turn failed.
    pub(super) fn failure(&self) -> Option<&Fault> {
        self.failure.as_ref()
    }

    /// Whether the work stopped at what was refused: no turn came after it.
    pub(super) fn is_refused(&self) -> bool {
        self.refused.is_some()
    }

    /// Something that an answer asked for is refused. That the answer has begun may be told later.
    pub(super) fn refuse(&mut self, answer: &EntryId) {
        self.refused = Some(answer.clone());
    }

    /// Something was not told.
    pub(super) fn miss(&mut self) {
        self.missed = true;
    }

    /// The session rests.
    pub(super) fn rest(&mut self) {
        self.idle |= self.admitted;
    }

    /// Somebody has deleted the session.
    pub(super) fn delete(&mut self) {
        self.deleted = true;
    }

    /// A turn has failed.
    pub(super) fn fail(&mut self, error: &Fault) {
        self.failure = Some(error.clone());
    }

    /// Shows what is new of a text that is streaming. Behind a hole nothing is: the text is whole when its part ends.
    pub(super) fn add(&mut self, part: &PartId, offset: usize, text: &str) {
        if self.ended.contains(part) {
            return;
        }
        let shown = self.texts.entry(part.clone()).or_default();
        match continuation(*shown, offset, text) {
            Some(fresh) => {
                *shown += fresh.len();
                self.print(fresh);
            }
            None => self.missed = true,
        }
    }

    /// Takes an event of the session, each once and in order. `tree` has the part that it is about.
    pub(super) fn take(&mut self, record: &Record, tree: &Tree) {
        if self.seq.is_some_and(|seq| record.seq <= seq) {
            return;
        }
        self.seq = Some(record.seq);
        match &record.event {
            Event::PromptAdmitted { item } if item.id == self.prompt => self.admitted = true,
            Event::PromptPromoted { id, .. } if *id == self.prompt => self.begun = true,
            // What failed before is not what was asked for here.
            Event::StepStarted { entry, .. } => {
                self.failure = None;
                self.refused.take_if(|refused| *refused != entry.id);
            }
            Event::StepFailed { error, resumes: false, .. } | Event::StepEnded { error: Some(error), .. } => {
                self.fail(error);
            }
            // A rule, or somebody else, was against what it called.
            Event::StepEnded { entry, declined: true, .. } => self.refuse(entry),
            Event::PartEnded { entry, part, text, .. } if is_text(tree, entry, part) => self.end(part, text),
            Event::ToolSettled { entry, .. } => {
                if let Body::ToolResult { result } = &entry.body {
                    let (sign, said) = match result.outcome {
                        Outcome::Completed => ("✓", result.title.as_deref().unwrap_or_default()),
                        _ => ("✗", result.output.lines().next().unwrap_or_default()),
                    };
                    let line = format!("{sign} {} {said}", result.tool);
                    self.print(&format!("{}\n", flatten(&line)));
                    let notes =
                        result.metadata.as_ref().and_then(|metadata| metadata.get("notes")?.as_array());
                    for note in notes.into_iter().flatten().filter_map(Value::as_str) {
                        self.print(&format!("  ! {}\n", flatten(note)));
                    }
                }
            }
            Event::SessionTrashed {} => self.deleted = true,
            _ => {}
        }
    }

    /// Takes what the log has after the last event that was taken. Without one that is what came after the prompt: what was
    /// before it is not the answer.
    pub(super) fn take_log(&mut self, log: &[Record], tree: &Tree) {
        let is_prompt = |record: &Record| matches!(&record.event, Event::PromptAdmitted { item } if item.id == self.prompt);
        let first = if self.seq.is_none() { log.iter().position(is_prompt).unwrap_or(log.len()) } else { 0 };
        for record in log.iter().skip(first) {
            self.take(record, tree);
        }
    }

    /// Ends a text with what was not shown of it.
    fn end(&mut self, part: &PartId, text: &str) {
        let shown = self.texts.remove(part).unwrap_or_default();
        self.ended.insert(part.clone());
        self.print(text.get(shown..).unwrap_or_default());
        self.print("\n");
    }

    /// Ends the last line.
    pub(super) fn finish(&mut self) {
        if self.in_line {
            self.print("\n");
        }
    }

    fn print(&mut self, text: &str) {
        if let Some(last) = text.chars().last() {
            self.in_line = last != '\n';
            (self.show)(text);
        }
    }
}

/// Whether a part is one that is shown.
fn is_text(tree: &Tree, entry: &EntryId, part: &PartId) -> bool {
    let part = tree.node(entry).and_then(|node| node.part(part));
    matches!(part.map(|part| &part.kind), Some(PartKind::Text { .. } | PartKind::Reasoning { .. }))
}

#[cfg(test)]
mod tests;

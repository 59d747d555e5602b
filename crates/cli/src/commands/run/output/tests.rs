//! What is shown of a text, by what came of it.

use std::cell::RefCell;
use std::rc::Rc;

use everturn_model::entry::{Assistant, Entry};
use everturn_model::inbox::{Delivery, InboxItem};
use everturn_model::tool::ToolResult;
use everturn_model::tree::Node;
use everturn_model::{EventId, Extra, Part, Session};

use serde_json::json;

use super::*;

/// Keeps what is shown.
type Show = Box<dyn FnMut(&str)>;

/// A session in which one text streams.
struct Stage {
    shown: RunOutput<Show>,
    printed: Rc<RefCell<String>>,
    tree: Tree,
    entry: EntryId,
    part: PartId,
}

impl Stage {
    fn new() -> Self {
        let (session, prompt) = (SessionId::new("ses_1"), EntryId::new("msg_1"));
        let (entry, part) = (EntryId::new("msg_2"), PartId::new("prt_1"));
        let mut tree = Tree::new(Session::new(session.clone(), "global", "/srv/demo", "t", "1", 0));
        let answer = Entry::new(entry.clone(), None, 0, Body::Assistant(Assistant::default()));
        tree.insert(Node::new(answer, vec![Part::new(part.clone(), PartKind::text(""))]));
        let printed = Rc::<RefCell<String>>::default();
        let out = Rc::clone(&printed);
        let show: Show = Box::new(move |text| out.borrow_mut().push_str(text));
        Self { shown: RunOutput::new(show, session, prompt), printed, tree, entry, part }
    }

    fn add(&mut self, offset: usize, text: &str) {
        self.shown.add(&self.part.clone(), offset, text);
    }

    fn record(&self, seq: u64, event: Event) -> Record {
        let (id, session) = (EventId::new(format!("evt_{seq}")), self.shown.session().clone());
        Record { id, session, seq, time: 0, event, subject: None }
    }

    fn ended(&self, seq: u64, text: &str) -> Record {
        let (entry, part, text) = (self.entry.clone(), self.part.clone(), text.to_owned());
        self.record(seq, Event::PartEnded { entry, part, text, metadata: None })
    }

    fn admitted(&self, seq: u64, prompt: &str) -> Record {
        let item = InboxItem {
            id: EntryId::new(prompt),
            time: 0,
            delivery: Delivery::Steer,
            reply: true,
            user: everturn_model::entry::User::default(),
            parts: Vec::new(),
            extra: Extra::default(),
            resume: true,
            place: None,
            revision: 0,
        };
        self.record(seq, Event::PromptAdmitted { item: Box::new(item) })
    }

    fn printed(&self) -> String {
        self.printed.borrow().clone()
    }
}

#[test]
fn a_hole_is_filled_by_the_end_of_the_text() {
    // What came behind a hole was counted as if all before it had been shown.
    let mut stage = Stage::new();
    stage.add(0, "one ");
    stage.add(8, "three ");
    stage.add(14, "four");
    assert_eq!(stage.printed(), "one ");
    assert!(stage.shown.has_missed());
    let ended = stage.ended(7, "one two three four");
    stage.shown.take(&ended, &stage.tree);
    assert_eq!(stage.printed(), "one two three four\n");
}

#[test]
fn nothing_is_shown_twice() {
    let mut stage = Stage::new();
    stage.add(0, "one two ");
    stage.add(4, "two three");
    let ended = stage.ended(7, "one two three");
    // From the log, then from the bus, with a piece that was on its way.
    stage.shown.take_log(&[stage.admitted(6, "msg_1"), ended.clone()], &stage.tree);
    stage.shown.take(&ended, &stage.tree);
    stage.add(8, "three");
    stage.shown.finish();
    assert_eq!(stage.printed(), "one two three\n");
}

#[test]
fn what_the_log_has_before_the_prompt_is_not_the_answer() {
    let mut stage = Stage::new();
    let log = [stage.ended(4, "before"), stage.admitted(5, "msg_0"), stage.admitted(6, "msg_1")];
    stage.shown.take_log(&log, &stage.tree);
    assert_eq!(stage.printed(), "");
    stage.shown.rest();
    assert!(stage.shown.is_over());
}

#[test]
fn a_line_that_was_cut_off_is_ended() {
    let mut stage = Stage::new();
    stage.add(0, "one ");
    let trashed = stage.record(3, Event::SessionTrashed {});
    stage.shown.take(&trashed, &stage.tree);
    assert!(stage.shown.is_over() && stage.shown.is_deleted());
    stage.shown.finish();
    stage.shown.finish();
    assert_eq!(stage.printed(), "one \n");
}

#[test]
fn what_rested_before_the_prompt_is_no_end_of_the_run() {
    let mut stage = Stage::new();
    stage.shown.rest();
    assert!(!stage.shown.is_over());
    stage.shown.take(&stage.admitted(6, "msg_0"), &stage.tree);
    stage.shown.rest();
    assert!(!stage.shown.is_over(), "nor is what rested after another prompt");
    stage.shown.take(&stage.admitted(7, "msg_1"), &stage.tree);
    assert!(!stage.shown.is_over());
    stage.shown.rest();
    assert!(stage.shown.is_over());
}

#[test]
fn only_the_own_prompt_begins_the_work() {
    // By another one's the run would stop what others do, and answer what they are asked.
    let mut stage = Stage::new();
    let promoted = |stage: &Stage, seq, prompt: &str| {
        stage.record(seq, Event::PromptPromoted { id: EntryId::new(prompt), parent: None, revision: None })
    };
    stage.shown.take(&promoted(&stage, 3, "msg_0"), &stage.tree);
    assert!(!stage.shown.is_begun());
    stage.shown.take(&promoted(&stage, 4, "msg_1"), &stage.tree);
    assert!(stage.shown.is_begun());
}

#[test]
fn what_became_of_a_command_is_shown_below_it() {
    // A line with a check mark was all, although what the command had made had another name.
    let mut stage = Stage::new();
    let mut result = ToolResult::new("call_1", "bash", Outcome::Completed, "");
    result.title = Some("sh tool.sh".to_owned());
    let notes = json!({"notes": [".vscode was renamed to .vscode.untrusted", "a\nb"]});
    result.metadata = notes.as_object().cloned();
    let body = Body::ToolResult { result: Box::new(result) };
    let entry = Box::new(Entry::new(EntryId::new("msg_3"), None, 0, body));
    let settled = Event::ToolSettled { entry, assistant: None, part: None };
    stage.shown.take(&stage.record(8, settled), &stage.tree);
    assert_eq!(stage.printed(), "✓ bash sh tool.sh\n  ! .vscode was renamed to .vscode.untrusted\n  ! a b\n");
}

#[test]
fn a_refusal_counts_although_the_beginning_of_its_answer_is_told_later() {
    // A request that waited was answered from the store before the bus had told of its turn, which then took the refusal for
    // one of an earlier turn: the run ended as if nothing had been refused.
    let mut stage = Stage::new();
    let started = |stage: &Stage, seq, id: &str| {
        let body = Body::Assistant(Assistant::default());
        let entry = Box::new(Entry::new(EntryId::new(id), None, 0, body));
        stage.record(seq, Event::StepStarted { entry, frame: None })
    };
    stage.shown.refuse(&EntryId::new("msg_2"));
    stage.shown.take(&started(&stage, 7, "msg_2"), &stage.tree);
    assert!(stage.shown.is_refused());
    stage.shown.take(&started(&stage, 8, "msg_3"), &stage.tree);
    assert!(!stage.shown.is_refused(), "the work went on");
}

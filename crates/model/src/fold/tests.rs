//! What the fold keeps of prompts that wait and of calls that have not settled. The random histories of the store compare
//! one fold with another, and do not see what both of them lose.

use super::*;
use crate::budget;
use crate::entry::{Assistant, Shell, User};
use crate::request::{Ask, PROJECT_TRUST, Request};
use crate::tool::FileForecast;
use crate::{EventId, Extra, Fault, Map, SessionId};
use serde_json::json;

/// A session that is folded event by event.
struct History {
    tree: Tree,
    seq: u64,
}

impl History {
    fn new() -> Self {
        let session = Session::new(SessionId::new("ses_1"), "global", "/srv", "t", "1", 0);
        Self { tree: Tree::new(session), seq: 0 }
    }

    fn fold(&mut self, event: Event) {
        self.seq += 1;
        let record = Record {
            id: EventId::new(format!("evt_{}", self.seq)),
            session: self.tree.session.id.clone(),
            seq: self.seq,
            time: 7,
            event,
            subject: None,
        };
        apply(&mut self.tree, &record).unwrap();
    }

    /// Why an event does not fit; the history is as before.
    fn refused(&self, event: Event) -> Error {
        let (id, session) = (EventId::new("evt_refused"), self.tree.session.id.clone());
        let record = Record { id, session, seq: self.seq + 1, time: 7, event, subject: None };
        apply(&mut self.tree.clone(), &record).unwrap_err()
    }

    /// A turn with calls that have these parts, all under one id.
    fn with_calls(parts: [&str; 2]) -> Self {
        let mut history = Self::new();
        let turn = Entry::new(turn(), None, 0, Body::Assistant(Assistant::default()));
        history.fold(Event::StepStarted { entry: Box::new(turn), frame: None });
        for part in parts {
            let state = ToolState::Pending { input: json!({}), raw: String::new() };
            let part = Box::new(tool(part, state));
            history.fold(Event::PartStarted { entry: self::turn(), part });
        }
        history
    }

    /// What is known of each call.
    fn open(&self) -> Vec<Option<OpenCall>> {
        self.tree.node(&turn()).unwrap().parts.iter().map(|part| part.open.as_deref().cloned()).collect()
    }

    fn waiting(&self, id: &str) -> &InboxItem {
        self.tree.waiting(&EntryId::new(id)).unwrap()
    }
}

fn turn() -> EntryId {
    EntryId::new("msg_turn")
}

fn tool(id: &str, state: ToolState) -> Part {
    let (call, tool) = ("call".to_owned(), "bash".to_owned());
    Part::new(PartId::new(id), PartKind::Tool { call, tool, state, hosted: false, metadata: None })
}

fn request(id: &str, part: Option<&str>) -> Request {
    let ask = Ask::Permission {
        permission: "bash".into(),
        patterns: Vec::new(),
        always: Vec::new(),
        metadata: Map::new(),
    };
    let call = CallRef { entry: turn(), call: "call".into(), part: part.map(PartId::new) };
    Request::new(RequestId::new(id), 0, ask, Some(call))
}

fn asked(request: &Request) -> Event {
    Event::RequestAsked { request: Box::new(request.clone()) }
}

fn answered(request: &Request) -> Event {
    let (id, call, message) = (request.id.clone(), request.call.clone(), Some("go".to_owned()));
    Event::RequestAnswered { id, call, reply: Some(Reply::Once), message, answers: None, follows: None }
}

/// A call whose newest request is this one.
fn waits(request: &Request) -> OpenCall {
    let request = Some(LastRequest { request: request.clone(), answer: None });
    OpenCall { request, ..OpenCall::default() }
}

/// The same after it was answered.
fn goes_on(request: &Request) -> OpenCall {
    let answer =
        GivenAnswer { reply: Some(Reply::Once), message: Some("go".into()), answers: None, follows: None };
    let request = Some(LastRequest { request: request.clone(), answer: Some(answer) });
    OpenCall { request, ..OpenCall::default() }
}

fn prompt(id: &str, delivery: Delivery) -> InboxItem {
    InboxItem {
        id: EntryId::new(id),
        time: 0,
        delivery,
        reply: true,
        user: User::default(),
        parts: Vec::new(),
        extra: Extra::default(),
        resume: true,
        place: None,
        revision: 0,
    }
}

/// Whether prompts are held, whether an open turn is being stopped, and how many prompts wait.
fn rest(history: &History) -> (bool, bool, u64) {
    let session = &history.tree.session;
    (session.held, session.stopping, session.waiting)
}

fn admitted(id: &str, resume: bool) -> Event {
    Event::PromptAdmitted { item: Box::new(InboxItem { resume, ..prompt(id, Delivery::Steer) }) }
}

fn promoted(id: &str) -> Event {
    Event::PromptPromoted { id: EntryId::new(id), parent: None, revision: Some(0) }
}

#[test]
fn a_stop_holds_what_waits_until_a_later_prompt_or_a_person_lets_it_go_on() {
    // What waited when a session was stopped joined the conversation unanswered.
    let mut history = History::new();
    history.fold(admitted("msg_a", true));
    let queued = prompt("msg_b", Delivery::Queue);
    history.fold(Event::PromptAdmitted { item: Box::new(queued.clone()) });
    assert_eq!(rest(&history), (false, false, 2));
    history.fold(Event::InterruptRequested {});
    assert_eq!(rest(&history), (true, false, 2), "no turn is open that could be stopped");
    history.fold(Event::PromptEdited { item: Box::new(queued) });
    history.fold(Event::PromptRerouted { id: EntryId::new("msg_b"), delivery: Delivery::Steer });
    history.fold(admitted("msg_c", false));
    assert_eq!(rest(&history), (true, false, 3), "nobody asked for it to go on");
    history.fold(admitted("msg_d", true));
    assert_eq!(rest(&history), (false, false, 4));
    history.fold(Event::InterruptRequested {});
    assert_eq!(rest(&history), (true, false, 4));
    history.fold(Event::SessionResumed {});
    assert_eq!(rest(&history), (false, false, 4));
}

#[test]
fn a_stop_is_for_the_turn_that_is_open_and_not_for_what_is_promoted_later() {
    let mut history = History::new();
    history.fold(admitted("msg_a", true));
    history.fold(promoted("msg_a"));
    history.fold(admitted("msg_b", true));
    history.fold(Event::InterruptRequested {});
    assert_eq!(rest(&history), (true, true, 1));
    history.fold(admitted("msg_c", true));
    assert_eq!(rest(&history), (false, true, 2), "the turn that is open is stopped all the same");
    history.fold(promoted("msg_b"));
    assert_eq!(rest(&history), (false, false, 1));
}

#[test]
fn a_prompt_that_was_changed_meanwhile_does_not_go_on_as_it_was() {
    let mut history = History::new();
    history.fold(admitted("msg_a", true));
    let other = InboxItem { revision: 7, place: Some(9), ..prompt("msg_a", Delivery::Queue) };
    history.fold(Event::PromptEdited { item: Box::new(other.clone()) });
    assert_eq!(
        history.waiting("msg_a"),
        &InboxItem { revision: 1, place: None, ..other },
        "as the fold counts"
    );
    history.fold(Event::PromptRerouted { id: EntryId::new("msg_a"), delivery: Delivery::Steer });
    history.fold(Event::InboxReordered { ids: ["msg_none", "msg_a"].map(EntryId::new).to_vec() });
    let waiting = history.waiting("msg_a");
    assert_eq!((waiting.revision, waiting.place), (2, Some(1)), "its place is not what it says");
    assert_eq!(history.refused(promoted("msg_a")), Error::Stale(EntryId::new("msg_a")));
    history.fold(Event::PromptPromoted { id: EntryId::new("msg_a"), parent: None, revision: Some(2) });
    assert_eq!(rest(&history), (false, false, 0));
}

#[test]
fn a_prompt_that_wakes_nobody_waits_for_one_that_does() {
    let mut history = History::new();
    history.fold(admitted("msg_a", false));
    assert_eq!(rest(&history), (true, false, 1));
    history.fold(Event::PromptCancelled { id: EntryId::new("msg_a") });
    assert_eq!(rest(&history), (false, false, 0), "nothing is held any more");
    history.fold(admitted("msg_b", true));
    history.fold(admitted("msg_c", false));
    assert_eq!(rest(&history), (false, false, 2), "the one before it is about to be answered");
    history.fold(promoted("msg_b"));
    history.fold(promoted("msg_c"));
    history.fold(admitted("msg_d", false));
    assert_eq!(rest(&history), (false, false, 1), "the turn that is open takes it along");
    history.fold(Event::InterruptRequested {});
    assert_eq!(rest(&history), (true, true, 1));
}

#[test]
fn a_request_that_names_no_part_belongs_to_the_newest_call_of_its_id() {
    // Requests of earlier versions name none, and models use an id again.
    let mut history = History::with_calls(["prt_old", "prt_new"]);
    let request = request("per_1", None);
    history.fold(asked(&request));
    assert_eq!(history.open(), [None, Some(waits(&request))]);
    history.fold(answered(&request));
    assert_eq!(history.open(), [None, Some(goes_on(&request))]);
}

#[test]
fn an_answer_to_an_older_request_of_a_call_is_none_to_the_newest() {
    let mut history = History::with_calls(["prt_1", "prt_2"]);
    let [first, second] = ["per_1", "per_2"].map(|id| request(id, Some("prt_1")));
    history.fold(asked(&first));
    history.fold(asked(&second));
    history.fold(answered(&first));
    assert_eq!(history.open(), [Some(waits(&second)), None]);
    history.fold(answered(&second));
    assert_eq!(history.open(), [Some(goes_on(&second)), None]);
}

#[test]
fn what_a_person_would_not_trust_is_remembered() {
    let mut history = History::new();
    let mut check = |digest: &str, call: Option<CallRef>, reply: Option<Reply>| {
        let ask = Ask::Permission {
            permission: PROJECT_TRUST.to_owned(),
            patterns: vec!["model".to_owned()],
            always: Vec::new(),
            metadata: json!({"digest": digest}).as_object().cloned().unwrap(),
        };
        let request = Request::new(RequestId::new("per_1"), 0, ask, call);
        history.fold(asked(&request));
        let Request { id, call, .. } = request;
        history.fold(Event::RequestAnswered { id, call, reply, message: None, answers: None, follows: None });
        history.tree.session.refused_trust.clone()
    };
    // What was taken back, put off or trusted may be asked for again.
    for reply in [None, Some(Reply::Once), Some(Reply::Always)] {
        assert_eq!(check("a", None, reply), [] as [&str; 0]);
    }
    assert_eq!(check("a", None, Some(Reply::Reject)), ["a"]);
    // A tool of that name is something else.
    let call = CallRef { entry: turn(), call: "call".into(), part: None };
    assert_eq!(check("b", Some(call), Some(Reply::Reject)), ["a"]);
    assert_eq!(check("b", None, Some(Reply::Reject)), ["a", "b"]);
    assert_eq!(check("a", None, Some(Reply::Reject)), ["b", "a"]);
    for number in 0..REFUSED_TRUST_LIMIT - 1 {
        check(&number.to_string(), None, Some(Reply::Reject));
    }
    let refused = history.tree.session.refused_trust;
    assert_eq!((refused.len(), refused[0].as_str()), (REFUSED_TRUST_LIMIT, "a"));
}

#[test]
fn a_call_keeps_what_is_known_of_it_when_its_part_is_replaced() {
    let mut history = History::with_calls(["prt_1", "prt_2"]);
    let request = request("per_1", Some("prt_1"));
    history.fold(asked(&request));
    history.fold(answered(&request));
    let file = |after: &str| FileForecast { path: "/srv/a".into(), before: None, after: Some(after.into()) };
    let begun = |forecast: Vec<FileForecast>| Event::ToolBegun {
        entry: turn(),
        part: PartId::new("prt_1"),
        forecast,
    };
    history.fold(begun(vec![file("x")]));
    let expected = OpenCall { begun: true, forecast: vec![file("x")], ..goes_on(&request) };
    assert_eq!(history.open(), [Some(expected.clone()), None]);
    let state = ToolState::Pending { input: json!({}), raw: "another text".into() };
    let new = tool("prt_1", state);
    let change = Amendment::ReplacePart { part: Box::new(new.clone()) };
    history.fold(Event::EntryAmended { entry: turn(), part: Some(new.id.clone()), change });
    let expected = Part { open: Some(Box::new(expected)), ..new };
    assert_eq!(history.tree.node(&turn()).unwrap().parts[0], expected);
    history.fold(begun(vec![file("y")]));
    assert_eq!(history.open()[0].as_ref().unwrap().forecast, [file("y")], "the later beginning counts");
}

#[test]
fn an_answer_about_a_budget_is_granted_or_lets_the_session_rest() {
    let check = |reply: Option<Reply>, reason: Option<&str>, granted: &[Option<u64>]| {
        let mut history = History::new();
        history.fold(admitted("msg_1", true));
        history.fold(promoted("msg_1"));
        history.fold(admitted("msg_2", true));
        let pause = BudgetPause {
            scope: budget::BudgetScope::Session,
            measure: budget::BudgetMeasure::Steps,
            spent: 9,
            limit: 8,
            allowance: 4,
        };
        let request = Request::new(RequestId::new("per_1"), 0, pause.ask(), None);
        history.fold(asked(&request));
        let (id, call) = (request.id, None);
        history.fold(Event::RequestAnswered { id, call, reply, message: None, answers: None, follows: None });
        let session = &history.tree.session;
        let said = session.parked_reason.as_ref().map(Fault::text);
        assert_eq!((session.open, session.parked, said), (true, reason.is_some(), reason), "{reply:?}");
        let more: Vec<Option<u64>> = session.granted.iter().map(|grant| grant.more).collect();
        assert_eq!(more, granted, "{reply:?}");
        assert!(history.tree.requests.is_empty());
    };
    // What was gone beyond the limit, and as much again as it was.
    check(Some(Reply::Once), None, &[Some(5)]);
    check(Some(Reply::Always), None, &[None]);
    let reason = "The budget of the session is used up: 9 of 8 (steps).";
    check(Some(Reply::Reject), Some(reason), &[]);
    // Taken back, because there is more to use by now.
    check(None, None, &[]);
}

#[test]
fn a_stop_parks_nothing_for_a_budget() {
    let pause = BudgetPause {
        scope: budget::BudgetScope::Project,
        measure: budget::BudgetMeasure::Steps,
        spent: 9,
        limit: 8,
        allowance: 4,
    };
    let request = Request::new(RequestId::new("per_1"), 0, pause.ask(), None);
    for begun in [true, false] {
        let mut history = History::new();
        history.fold(admitted("msg_1", true));
        if begun {
            history.fold(promoted("msg_1"));
            history.fold(admitted("msg_2", true));
        }
        history.fold(asked(&request));
        history.fold(Event::InterruptRequested {});
        let (id, reply) = (request.id.clone(), Some(Reply::Reject));
        history.fold(Event::RequestAnswered {
            id,
            call: None,
            reply,
            message: None,
            answers: None,
            follows: None,
        });
        let session = &history.tree.session;
        assert_eq!((session.open, session.held, session.parked), (false, true, false), "{begun}");
    }
}

#[test]
fn turns_are_counted_where_they_say_which_they_are() {
    let mut history = History::new();
    for (id, step) in [("msg_1", None), ("msg_2", Some(1)), ("msg_3", Some(2))] {
        let body = Body::Assistant(Assistant { step, ..Assistant::default() });
        let entry = Box::new(Entry::new(EntryId::new(id), None, 0, body));
        history.fold(Event::StepStarted { entry, frame: None });
    }
    assert_eq!(history.tree.session.steps, 2);
}

#[test]
fn a_command_of_a_person_is_work_until_it_has_ended() {
    let mut history = History::new();
    let shell = |output: Option<&str>| {
        let shell = Shell { output: output.map(str::to_owned), ..Shell::default() };
        Box::new(Entry::new(EntryId::new("msg_1"), None, 0, Body::Shell(shell)))
    };
    let started = |entry| Event::ShellStarted { entry, parts: Vec::new() };
    let other = Box::new(Entry::new(EntryId::new("msg_1"), None, 0, Body::Title { title: None }));
    assert!(matches!(history.refused(started(other)), Error::Unfit { .. }));
    history.fold(started(shell(None)));
    assert_eq!(history.tree.session.shell, Some(EntryId::new("msg_1")));
    assert_eq!((history.tree.session.is_at_work(), history.tree.session.has_work()), (true, true));
    let ended =
        Event::ShellEnded { entry: EntryId::new("msg_1"), output: "a".to_owned(), exit: Some(1), part: None };
    history.fold(ended);
    assert_eq!((history.tree.session.shell.clone(), history.tree.session.is_at_work()), (None, false));
    let expected =
        Shell { output: Some("a".to_owned()), exit: Some(1), completed: Some(7), ..Shell::default() };
    assert_eq!(history.tree.node(&EntryId::new("msg_1")).unwrap().entry.body, Body::Shell(expected));
    // One that came from elsewhere with its end.
    let mut history = History::new();
    history.fold(started(shell(Some("b"))));
    assert!(!history.tree.session.is_at_work());
}

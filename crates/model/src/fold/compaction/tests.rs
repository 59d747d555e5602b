//! What a session knows of a compaction while it is made and afterwards.

use crate::compaction::{CarriedContext, OpenCompaction, Pins};
use crate::entry::{Body, Compaction, Entry, Pair, User};
use crate::event::{Amendment, Cause, StepRemains};
use crate::inbox::{Delivery, InboxItem};
use crate::part::PartKind;
use crate::path;
use crate::{
    EntryId, Event, EventId, Extra, Fault, Part, PartId, Record, Session, SessionId, Tokens, Tree, apply,
};

fn fold(tree: &mut Tree, event: Event) {
    let record = Record {
        id: EventId::new("evt_1"),
        session: tree.session.id.clone(),
        seq: 1,
        time: 7,
        event,
        subject: None,
    };
    apply(tree, &record).unwrap();
}

fn session() -> Tree {
    Tree::new(Session::new(SessionId::new("ses_1"), "global", "/srv", "t", "1", 0))
}

fn asked() -> InboxItem {
    InboxItem {
        id: EntryId::new("msg_1"),
        time: 3,
        delivery: Delivery::Steer,
        reply: true,
        user: User::default(),
        parts: vec![Part::new(PartId::new("prt_1"), PartKind::Compaction { auto: false })],
        extra: Extra::default(),
        resume: true,
        place: None,
        revision: 0,
    }
}

fn started() -> Event {
    let pair = Pair { second: "msg_2".to_owned(), ..Pair::default() };
    let body = Body::Compaction(Compaction { pair: Some(Box::new(pair)), ..Compaction::default() });
    let entry = Box::new(Entry::new(EntryId::new("msg_1"), None, 3, body));
    Event::CompactionStarted { entry, parts: asked().parts }
}

fn remains() -> Box<StepRemains> {
    let part = Part { second: true, ..Part::new(PartId::new("prt_2"), PartKind::text("used")) };
    let tokens = Tokens { input: 5, ..Tokens::default() };
    Box::new(StepRemains { tokens, parts: vec![part], ..StepRemains::default() })
}

#[test]
fn a_session_is_open_while_it_is_summed_up_and_then_as_it_was() {
    for goes_on in [false, true] {
        let mut tree = session();
        fold(&mut tree, Event::PromptAdmitted { item: Box::new(asked()) });
        assert!(asked().is_compaction());
        tree.session.open = goes_on;
        fold(&mut tree, started());
        let open = OpenCompaction { entry: EntryId::new("msg_1"), goes_on };
        assert_eq!((tree.session.open_compaction.clone(), tree.session.open), (Some(open), true));
        assert_eq!((tree.session.waiting, tree.session.time.compacting), (0, Some(7)), "it waits no more");
        let mut failed = tree.clone();
        let carried = CarriedContext {
            pins: Pins { goal: Some("ship".to_owned()), facts: Vec::new() },
            ..CarriedContext::default()
        };
        let ended = Event::CompactionEnded {
            entry: EntryId::new("msg_1"),
            summary: "so far".to_owned(),
            first_kept: None,
            recent: None,
            carried: Some(Box::new(carried.clone())),
            remains: remains(),
        };
        fold(&mut tree, ended);
        let error = Fault::internal("no");
        let event = Event::CompactionFailed { entry: EntryId::new("msg_1"), error, remains: remains() };
        fold(&mut failed, event);
        for tree in [&tree, &failed] {
            let session = &tree.session;
            assert_eq!(
                (session.open, &session.open_compaction, session.time.compacting),
                (goes_on, &None, None)
            );
            assert_eq!((session.tokens.input, session.spent.tokens.input), (5, 5));
            assert_eq!(tree.node(&EntryId::new("msg_1")).unwrap().parts.len(), 2);
        }
        assert_eq!((tree.session.compaction.is_some(), failed.session.compaction), (true, None));
        let Body::Compaction(made) = &tree.node(&EntryId::new("msg_1")).unwrap().entry.body else { panic!() };
        assert_eq!((made.summary.as_deref(), made.carried.as_deref()), (Some("so far"), Some(&carried)));
    }
}

#[test]
fn one_that_was_undone_has_ended_no_epoch() {
    let mut tree = session();
    let epoch =
        Body::Epoch { baseline: "b".into(), snapshot: serde_json::json!({}), directory: Some("/srv".into()) };
    let entry = Entry::new(EntryId::new("msg_0"), None, 1, epoch);
    fold(&mut tree, Event::EntryAdded { entry: Box::new(entry), parts: Vec::new() });
    let Event::CompactionStarted { mut entry, parts } = started() else { panic!() };
    entry.parent = Some(EntryId::new("msg_0"));
    fold(&mut tree, Event::CompactionStarted { entry, parts });
    let ended = Event::CompactionEnded {
        entry: EntryId::new("msg_1"),
        summary: "so far".to_owned(),
        first_kept: None,
        recent: None,
        carried: None,
        remains: Box::default(),
    };
    fold(&mut tree, ended);
    assert_eq!((&tree.session.epoch, tree.session.compaction.is_some()), (&None, true));
    let change = Amendment::Hide;
    fold(&mut tree, Event::EntryAmended { entry: EntryId::new("msg_1"), part: None, change });
    let leaf = tree.session.leaf.clone();
    fold(&mut tree, Event::LeafMoved { from: leaf.clone(), to: leaf.clone(), cause: Cause::Branch });
    assert_eq!(
        (tree.session.epoch.as_ref(), &tree.session.compaction),
        (Some(&EntryId::new("msg_0")), &None)
    );
    let nodes = path::to(&tree, leaf.as_ref());
    assert_eq!(path::visible(&nodes), (None, vec![0, 1]));
}

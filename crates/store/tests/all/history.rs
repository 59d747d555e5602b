//! Random histories: whatever happens, the rows are the fold of the log, and the fold gives the same twice. And what V2
//! clients are told of an event needs its record alone, wherever in the log they begin.

use everturn_interop::opencode::v2::{self, V2Event};
use everturn_model::{Event, Record, Tree, fold};
use everturn_store::{Authority, NewEvent, Options, Store};
use proptest::prelude::*;

use crate::events::{again, session, session_id};
use crate::story::{Step, Story};

/// What V2 clients are told of each record, by the record alone.
fn told(log: &[Record]) -> Vec<Option<V2Event>> {
    log.iter().map(|record| v2::write_event(record).unwrap()).collect()
}

/// The same as from the tree that the log comes to, before each event and after it.
fn check_told_from_the_tree(log: &[Record]) {
    let mut tree: Option<Tree> = None;
    for record in log {
        let before = tree.clone();
        match &mut tree {
            None => tree = Some(fold::begin(record).unwrap()),
            Some(tree) => drop(fold::apply(tree, record).unwrap()),
        }
        let completed = |tree: &Tree| {
            let mut bare = Record { subject: None, ..record.clone() };
            bare.complete(tree);
            v2::write_event(&bare).unwrap()
        };
        let mut expected = v2::write_event(record).unwrap();
        if let Some(before) = &before {
            assert_eq!(completed(before), expected, "before {:?}", record.event);
        }
        let mut after = completed(tree.as_ref().unwrap());
        if matches!(record.event, Event::PromptPromoted { .. }) {
            // What this version promoted does not say any more how it was to be delivered; earlier ones noted it.
            for told in [&mut expected, &mut after] {
                told.as_mut().unwrap().data.as_object_mut().unwrap().remove("delivery").unwrap();
            }
        }
        assert_eq!(after, expected, "after {:?}", record.event);
    }
}

fn check(seed: u8, steps: &[Step], batches: &[usize]) {
    let mut story = Story::begin(session(&session_id()));
    story.seed(seed);
    for step in steps {
        story.step(*step);
    }
    assert_eq!(
        fold::replay(&story.records).unwrap().as_ref(),
        Some(&story.tree),
        "the fold is deterministic"
    );
    assert!(story.tree.session.floor >= fold::floor(&story.tree), "new ids sort after all that are used");

    let folder = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let open = || runtime.block_on(Store::open(Options::folder(folder.path(), "own_test"))).unwrap();
    let store = open();
    let id = story.tree.session.id.clone();
    let mut rest = story.records.as_slice();
    let mut sizes = batches.iter().cycle();
    while !rest.is_empty() {
        let (now, later) = rest.split_at((*sizes.next().unwrap()).clamp(1, rest.len()));
        let events: Vec<NewEvent> = now.iter().map(again).collect();
        let appended = runtime.block_on(store.append(&id, Authority::Open, events)).unwrap();
        assert_eq!(appended.first, now[0].seq, "seq has no gaps");
        rest = later;
    }
    let read = |store: &Store| {
        runtime.block_on(async {
            let tree = store.tree(&id).await.unwrap().unwrap();
            let log = store.events(&id, None, usize::MAX).await.unwrap();
            (tree, log)
        })
    };
    let (tree, log) = read(&store);
    assert_eq!(log, story.records, "the log is what was appended");
    assert_eq!(tree, story.tree, "the rows are the fold of the log");
    check_told_from_the_tree(&log);
    let whole = told(&log);
    for (seq, rest) in (0..).zip((1..=log.len()).map(|from| &whole[from..])) {
        let resumed = runtime.block_on(store.events(&id, Some(seq), usize::MAX)).unwrap();
        assert_eq!(told(&resumed), rest, "resumed behind {seq}");
    }
    let verdict = runtime.block_on(store.verify(&id)).unwrap();
    assert_eq!(verdict.problems, [], "and a check says so");
    runtime.block_on(store.rebuild(&id, 0)).unwrap();
    assert_eq!(runtime.block_on(store.verify(&id)).unwrap(), verdict, "a rebuild changes nothing");
    assert_eq!(read(&store).0, story.tree);
    drop(store);
    let store = open();
    assert_eq!(read(&store).0, story.tree, "and still are after a reopening");
}

/// Fewer cases than usual, because each one opens a database twice; `PROPTEST_CASES` says otherwise.
fn configuration() -> ProptestConfig {
    let usual = ProptestConfig::default();
    let cases = if usual.cases == 256 { 48 } else { usual.cases };
    ProptestConfig { cases, ..usual }
}

proptest! {
    #![proptest_config(configuration())]

    #[test]
    fn rows_are_the_fold_of_the_log(
        seed in 0u8..6,
        steps in prop::collection::vec(any::<Step>(), 1..120),
        batches in prop::collection::vec(1usize..6, 1..4),
    ) {
        check(seed, &steps, &batches);
    }
}

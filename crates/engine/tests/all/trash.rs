//! The trash: families go in, come out and go for good together.

use std::time::Duration;

use everturn_engine::sessions::NewSession;
use everturn_engine::{Error, Prompt, SessionUpdate};
use everturn_model::{Event, Session, SessionId};
use everturn_store::{Authority, NewEvent};
use everturn_testkit::within;

use crate::bench::Bench;

async fn child(bench: &Bench, parent: &SessionId) -> Session {
    let location = bench.engine.projects().location(None).await.unwrap();
    let new = NewSession { parent: Some(parent.clone()), ..NewSession::default() };
    bench.engine.sessions().create(&location, new).await.unwrap()
}

#[tokio::test]
async fn a_session_comes_out_with_those_that_belong_to_it() {
    let bench = Bench::new().await;
    let parent = bench.session.id.clone();
    let child = child(&bench, &parent).await.id;
    let grandchild = self::child(&bench, &child).await.id;
    let other = bench.say("SAY:hello").await;
    let trashed = bench.engine.sessions().trash(&parent).await.unwrap();
    assert_eq!(trashed, [parent.clone(), child.clone(), grandchild.clone()], "who went along is said");
    // Emptying the trash asked about one session and deleted three.
    let due = bench.engine.trash().due(Duration::ZERO).await.unwrap();
    assert_eq!(due.len(), 3, "{due:?}");
    assert_eq!(bench.engine.trash().due(Duration::from_secs(3600)).await.unwrap(), []);
    let listed = bench.engine.trash().list().await.unwrap();
    assert_eq!(listed.iter().map(|session| &session.id).collect::<Vec<_>>(), [&parent], "the head alone");
    assert!(matches!(bench.engine.sessions().get(&child).await, Err(Error::NoSession(_))));

    let restored = bench.engine.trash().restore(&parent).await.unwrap();
    assert_eq!(restored, [parent.clone(), child.clone(), grandchild]);
    assert!(bench.engine.trash().list().await.unwrap().is_empty());
    assert_eq!(bench.nodes().await.iter().filter(|node| node.entry.id == other).count(), 1);
    let again = bench.engine.trash().restore(&parent).await.unwrap_err();
    assert!(matches!(again, Error::NoSession(_)), "{again}");
}

#[tokio::test]
async fn a_session_comes_out_after_those_that_belong_to_it() {
    // It came out first: when that was cut off, it could not be asked for again, and the others stayed.
    let mut bench = Bench::new().await;
    let parent = bench.session.id.clone();
    let child = child(&bench, &parent).await.id;
    let grandchild = self::child(&bench, &child).await.id;
    bench.engine.sessions().trash(&parent).await.unwrap();
    bench.engine.trash().restore(&parent).await.unwrap();
    let restored = |update: &SessionUpdate| match update {
        SessionUpdate::Committed(committed) if committed.record.event.name() == "session.restored" => {
            Some(committed.record.session.clone())
        }
        _ => None,
    };
    for expected in [grandchild, child, parent] {
        assert_eq!(bench.notice(restored).await, expected);
    }
}

#[tokio::test]
async fn what_is_purged_is_gone_with_those_that_belong_to_it() {
    let bench = Bench::new().await;
    let parent = bench.session.id.clone();
    let child = child(&bench, &parent).await.id;
    let location = bench.engine.projects().location(None).await.unwrap();
    let other = bench.engine.sessions().create(&location, NewSession::default()).await.unwrap().id;
    assert_eq!(bench.engine.trash().purged(&parent).await.unwrap(), None);
    // One that is not in the trash, too.
    assert_eq!(bench.engine.trash().purge(&parent).await.unwrap(), [child.clone(), parent.clone()]);
    for id in [&parent, &child] {
        assert!(bench.engine.trash().purged(id).await.unwrap().is_some(), "{id}");
        assert!(bench.engine.trash().find(id).await.unwrap().is_none(), "{id}");
    }
    assert_eq!(bench.engine.sessions().get(&other).await.unwrap().id, other);
}

#[tokio::test]
async fn a_sweep_takes_only_what_was_there_long_enough() {
    let bench = Bench::new().await;
    let id = bench.session.id.clone();
    let day = Duration::from_secs(24 * 60 * 60);
    bench.engine.trash().sweep(Duration::ZERO).await.unwrap();
    assert_eq!(bench.engine.sessions().get(&id).await.unwrap().id, id, "it is not in the trash");
    bench.engine.sessions().trash(&id).await.unwrap();
    assert!(bench.engine.trash().sweep(day).await.unwrap().purged.is_empty(), "it is there since today");
    assert!(bench.engine.trash().reclaim().await.unwrap().purged.is_empty(), "reclaiming deletes nothing");
    assert!(bench.engine.trash().find(&id).await.unwrap().is_some());
    assert_eq!(bench.engine.trash().sweep(Duration::ZERO).await.unwrap().purged, [id]);
}

#[tokio::test]
async fn a_family_of_which_one_is_at_work_elsewhere_stays_whole() {
    // Those that belong to it were deleted first, and then it turned out that it was busy.
    for child_works in [false, true] {
        let bench = Bench::new().await;
        let parent = bench.session.id.clone();
        let child = child(&bench, &parent).await.id;
        let (busy, free) = if child_works { (&child, &parent) } else { (&parent, &child) };
        let other = bench.beside().await;
        bench.engine.inbox().admit(busy, Prompt::text("HOLD:x SAY:one two")).await.unwrap();
        bench.model.held("x").await;
        let refused = other.trash().purge(&parent).await.unwrap_err();
        assert!(matches!(&refused, Error::Busy(id) if id == busy), "{refused}");
        // The other process has let go of what it had taken before it came to the one at work.
        bench.engine.inbox().admit(free, Prompt::text("SAY:still here")).await.unwrap();
        within("the one that is free to answer", bench.engine.drains().settled(free)).await;
        assert_eq!(bench.transcript_of(free).await, ["user: SAY:still here", "assistant: still here"]);
        bench.model.release("x");
        within("the one at work to end", bench.engine.drains().settled(busy)).await;
        assert_eq!(bench.transcript_of(busy).await[1..], ["assistant: one two"]);
        assert_eq!(other.trash().purge(&parent).await.unwrap(), [child, parent]);
        other.close().await;
    }
}

#[tokio::test]
async fn a_family_whose_members_belong_to_each_other_can_be_deleted() {
    let bench = Bench::new().await;
    let location = bench.engine.projects().location(None).await.unwrap();
    let of = async |id: &str, parent: &str| {
        let (id, parent) = (Some(SessionId::new(id)), Some(SessionId::new(parent)));
        let new = NewSession { id, parent, ..NewSession::default() };
        bench.engine.sessions().create(&location, new).await.unwrap().id
    };
    let itself = of("ses_itself", "ses_itself").await;
    let (one, two) = (of("ses_one", "ses_two").await, of("ses_two", "ses_one").await);
    for id in [&itself, &one] {
        within("it to go into the trash", bench.engine.sessions().trash(id)).await.unwrap();
    }
    assert_eq!(bench.engine.trash().restore(&two).await.unwrap(), [two.clone(), one.clone()]);
    assert_eq!(bench.engine.trash().purge(&one).await.unwrap(), [two, one]);
    assert_eq!(bench.engine.trash().purge(&itself).await.unwrap(), [itself]);
}

#[tokio::test]
async fn work_stops_when_its_session_is_deleted_although_no_feed_tells_of_that() {
    let bench = Bench::new().await;
    let id = &bench.session.id;
    let quiet = bench.beside_quietly().await;
    quiet.inbox().admit(id, Prompt::text("HOLD:x SAY:one two")).await.unwrap();
    bench.model.held("x").await;
    within("it to go into the trash", quiet.sessions().trash(id)).await.unwrap();
    bench.model.abandoned("x").await;
    within("the session to settle", quiet.drains().settled(id)).await;
    quiet.close().await;
}

#[tokio::test]
async fn what_a_clock_that_was_ahead_has_put_into_the_trash_can_be_deleted() {
    let bench = Bench::new().await;
    let (id, mint) = (bench.session.id.clone(), bench.engine.mint());
    let time = mint.now() + 3_600_000;
    let trashed = NewEvent { id: mint.event(), time, event: Event::SessionTrashed {} };
    bench.other_store().await.append(&id, Authority::Open, vec![trashed]).await.unwrap();
    let due = bench.engine.trash().due(Duration::ZERO).await.unwrap();
    assert_eq!(due.iter().map(|session| &session.id).collect::<Vec<_>>(), [&id]);
    assert_eq!(bench.engine.trash().sweep(Duration::ZERO).await.unwrap().purged, [id]);
}

#[tokio::test]
async fn temporary_files_of_commands_go_with_their_session() {
    let data = tempfile::tempdir().unwrap();
    let kept = data.path().to_owned();
    let bench = Bench::with(|_| serde_json::json!({}), |options| options.paths.data = kept).await;
    let (id, child) = (bench.session.id.clone(), child(&bench, &bench.session.id).await.id);
    let location = bench.engine.projects().location(None).await.unwrap();
    let other = bench.engine.sessions().create(&location, NewSession::default()).await.unwrap().id;
    // Its name does not tell the id.
    let name = |id: &SessionId| blake3::hash(id.as_str().as_bytes()).to_hex().to_string();
    let folder = |id: &SessionId| data.path().join("temporary").join(name(id));
    for id in [&id, &child, &other] {
        std::fs::create_dir_all(folder(id).join("inner")).unwrap();
    }
    bench.engine.trash().purge(&id).await.unwrap();
    assert_eq!([&id, &child, &other].map(|id| folder(id).exists()), [false, false, true]);
    bench.engine.sessions().trash(&other).await.unwrap();
    assert!(folder(&other).exists(), "it can be taken out again");
    bench.engine.trash().sweep(Duration::ZERO).await.unwrap();
    assert!(!folder(&other).exists());
}

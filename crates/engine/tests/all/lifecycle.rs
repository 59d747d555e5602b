//! Sessions from their creation on: made once under a chosen id, moved to another folder, taken back and put away.

use everturn_engine::Error;
use everturn_engine::sessions::NewSession;
use everturn_model::SessionId;
use everturn_testkit::Repo;

use crate::bench::Bench;
use crate::parking;
use crate::permission::ask;

fn chosen(id: &SessionId, title: &str) -> NewSession {
    NewSession { id: Some(id.clone()), title: Some(title.to_owned()), ..NewSession::default() }
}

#[tokio::test]
async fn a_session_of_a_chosen_id_is_made_once_however_often_and_with_whatever_it_is_asked_for() {
    // Whoever came second was told that something is wrong with the store.
    let bench = Bench::new().await;
    let location = bench.engine.projects().location(None).await.unwrap();
    let id = SessionId::new("ses_0123456789abchosenbyacaller");
    let beside = bench.beside().await;
    let titles = ["one", "two", "three", "four"];
    let creations = titles.iter().enumerate().map(|(number, title)| {
        let engine = if number % 2 == 0 { &bench.engine } else { &beside };
        engine.sessions().create(&location, chosen(&id, title))
    });
    let made = futures_util::future::join_all(creations).await;
    let made: Vec<_> = made.into_iter().map(Result::unwrap).collect();
    assert!(made.iter().all(|session| *session == made[0]), "{made:?}");
    assert!(titles.contains(&made[0].title.as_str()));
    let log = bench.engine.sessions().log(&id).await.unwrap();
    assert_eq!(log.len(), 1);
    let words: Vec<&str> = made[0].slug.split('-').collect();
    assert!(matches!(&words[..], [one, two] if !one.is_empty() && !two.is_empty()), "{}", made[0].slug);

    // It is given as it is by then.
    bench.engine.sessions().update(&id, Some("renamed"), Vec::new()).await.unwrap();
    let again = bench.engine.sessions().create(&location, chosen(&id, "five")).await.unwrap();
    assert_eq!((again.id, again.title.as_str()), (id.clone(), "renamed"));
    // What was thrown away is not made again.
    bench.engine.sessions().trash(&id).await.unwrap();
    let refused = bench.engine.sessions().create(&location, chosen(&id, "six")).await;
    assert!(matches!(&refused, Err(Error::Conflict(taken)) if taken == id.as_str()), "{refused:?}");
    bench.engine.trash().restore(&id).await.unwrap();
    let restored = bench.engine.sessions().create(&location, chosen(&id, "seven")).await.unwrap();
    assert_eq!(restored.title, "renamed");
    bench.engine.trash().purge(&id).await.unwrap();
    let refused = bench.engine.sessions().create(&location, chosen(&id, "eight")).await;
    assert!(matches!(&refused, Err(Error::Conflict(taken)) if taken == id.as_str()), "{refused:?}");
}

#[tokio::test]
async fn a_session_that_is_moved_goes_on_in_the_other_folder_with_its_subagents() {
    let mut bench = Bench::new().await;
    bench.say("TOOL:task:SAY:child").await;
    let elsewhere = Repo::new(&[("b.txt", "there\n")]);
    let there = elsewhere.path().canonicalize().unwrap().display().to_string();
    let before = bench.engine.sessions().get(&bench.session.id).await.unwrap();
    let moved = bench.engine.sessions().relocate(&bench.session.id, &there).await.unwrap();
    assert_eq!((moved.directory.as_str(), moved.path.as_deref()), (there.as_str(), Some("")));
    assert_ne!(moved.project, before.project);
    assert_eq!((moved.leaf.as_ref(), moved.title.as_str()), (before.leaf.as_ref(), "a title"));
    let [child] = &bench.engine.sessions().children(&moved.id).await.unwrap()[..] else { panic!() };
    assert_eq!((child.directory.as_str(), child.project.as_str()), (there.as_str(), moved.project.as_str()));
    // Moving it there again changes nothing.
    let events = bench.engine.sessions().log(&moved.id).await.unwrap().len();
    bench.engine.sessions().relocate(&moved.id, &there).await.unwrap();
    assert_eq!(bench.engine.sessions().log(&moved.id).await.unwrap().len(), events);

    bench.session = moved;
    bench.say("TOOL:bash:cat b.txt\nSAY:done").await;
    let request = bench.model.prompts().pop().unwrap().to_string();
    assert!(request.contains("there") && request.contains(&format!("{there}\\n")), "{request}");
    let location = bench.engine.projects().location(Some(&there)).await.unwrap();
    let listed = bench.engine.projects().sessions(&location, Default::default()).await.unwrap();
    assert_eq!(listed.len(), 2);
}

#[tokio::test]
async fn a_session_is_moved_to_folders_only_and_not_while_it_is_at_work() {
    let bench = Bench::new().await;
    let file = bench.repo.join("a.txt").display().to_string();
    for (folder, reason) in [
        (file.as_str(), "is no folder that can be read"),
        ("/no/such/folder", "is no folder that can be read"),
        ("relative", "must be an absolute path"),
    ] {
        let refused = bench.engine.sessions().relocate(&bench.session.id, folder).await.unwrap_err();
        assert!(refused.to_string().contains(reason), "{refused}");
    }
    let message = bench.say(&format!("TOOL:write:{}=x\nSAY:wrote", bench.repo.join("w.txt").display())).await;
    bench.engine.reverts().revert(&bench.session.id, &message, None).await.unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let there = elsewhere.path().to_str().unwrap();
    let refused = bench.engine.sessions().relocate(&bench.session.id, there).await.unwrap_err();
    assert!(refused.to_string().contains("has a staged revert"), "{refused}");
    bench.engine.reverts().unrevert(&bench.session.id).await.unwrap();

    bench
        .engine
        .inbox()
        .admit(&bench.session.id, everturn_engine::Prompt::text("HOLD:x SAY:later"))
        .await
        .unwrap();
    bench.model.held("x").await;
    let refused = bench.engine.sessions().relocate(&bench.session.id, there).await.unwrap_err();
    assert!(matches!(refused, Error::Busy(_)), "{refused}");
    bench.model.release("x");
}

#[tokio::test]
async fn a_turn_that_is_not_finished_keeps_its_session_where_its_files_are() {
    // What a person allowed in one folder was done in the other, and what the turn had changed could not be undone.
    let mut bench = Bench::new().await;
    let elsewhere = tempfile::tempdir().unwrap();
    let there = elsewhere.path().canonicalize().unwrap().display().to_string();
    let id = bench.session.id.clone();
    // Nobody is at work on it, and its turn waits for a person.
    let entry = parking::begin(&mut bench).await;
    parking::fail(&bench, &entry, 3).await;
    bench.restart().await;
    bench.settled().await;
    let refused = bench.engine.sessions().relocate(&id, &there).await.unwrap_err();
    assert!(refused.to_string().contains("has a turn that is not finished"), "{refused}");

    bench.model.release("x");
    assert!(bench.engine.drains().resume(&id).await.unwrap());
    bench.settled().await;
    let moved = bench.engine.sessions().relocate(&id, &there).await.unwrap();
    assert_eq!(moved.directory, there);
}

#[tokio::test]
async fn nothing_is_moved_while_the_turn_of_a_subagent_is_not_finished() {
    let mut bench = Bench::new().await;
    let elsewhere = tempfile::tempdir().unwrap();
    let there = elsewhere.path().to_str().unwrap();
    let location = bench.engine.projects().location(None).await.unwrap();
    let parent = bench.engine.sessions().create(&location, NewSession::default()).await.unwrap();
    let child = NewSession { parent: Some(parent.id.clone()), ..NewSession::default() };
    bench.session = bench.engine.sessions().create(&location, child).await.unwrap();
    drop(ask(&mut bench, "TOOL:read:/etc/hostname\nSAY:read it").await);
    bench.engine.close().await;
    let beside = bench.beside().await;
    let refused = beside.sessions().relocate(&parent.id, there).await.unwrap_err();
    assert!(refused.to_string().contains("has a turn that is not finished"), "{refused}");
    assert_eq!(beside.sessions().get(&parent.id).await.unwrap().directory, parent.directory);
}

#[tokio::test]
async fn what_a_session_changed_in_files_is_told_with_it() {
    let bench = Bench::new().await;
    let write =
        |file: &str, text: &str| format!("TOOL:write:{}={text}\nSAY:wrote", bench.repo.join(file).display());
    bench.say(&write("one.txt", "a")).await;
    let undone = bench.say(&write("two.txt", "b")).await;
    let changed = |session: everturn_model::Session| {
        session.summary.map(|summary| (summary.additions, summary.deletions, summary.files))
    };
    let conversation = bench.engine.sessions().conversation(&bench.session.id, None).await.unwrap();
    let changes = conversation.changes();
    assert_eq!((changes.additions, changes.deletions, changes.files), (2, 0, 2));
    assert_eq!(
        changed(conversation.session),
        Some((0, 0, 0)),
        "as OpenCode tells it until something is undone"
    );
    let reverted = bench.engine.reverts().revert(&bench.session.id, &undone, None).await.unwrap();
    assert_eq!(changed(reverted), Some((1, 0, 1)));
}

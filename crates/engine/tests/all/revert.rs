//! Undo and redo: messages and files come back, and nothing that a person wrote is destroyed.

use std::path::PathBuf;

use everturn_engine::{Error, Prompt, SessionUpdate, Signal};
use everturn_model::session::{Revert, RevertedFile};
use everturn_model::{EntryId, Event};
use everturn_store::{Authority, NewEvent, Options, Store};
use everturn_testkit::{Refusal, within};

use crate::bench::Bench;
use crate::beside::overhear;

fn write(bench: &Bench, text: &str) -> String {
    write_to(bench, "w.txt", text)
}

fn write_to(bench: &Bench, file: &str, text: &str) -> String {
    format!("TOOL:write:{}={text}\nSAY:wrote", bench.repo.join(file).display())
}

/// Two prompts that write a file each.
async fn one_and_two(bench: &Bench) -> (EntryId, EntryId) {
    let one = bench.say(&write_to(bench, "1.txt", "one")).await;
    let two = bench.say(&write_to(bench, "2.txt", "two")).await;
    (one, two)
}

async fn revert(bench: &Bench, message: &EntryId) -> Revert {
    bench.engine.reverts().revert(&bench.session.id, message, None).await.unwrap().revert.unwrap()
}

async fn unrevert(bench: &Bench) {
    assert_eq!(bench.engine.reverts().unrevert(&bench.session.id).await.unwrap().revert, None);
}

/// The two files, where they are.
fn files(bench: &Bench) -> (Option<String>, Option<String>) {
    let read = |file| std::fs::read_to_string(bench.repo.join(file)).ok();
    (read("1.txt"), read("2.txt"))
}

fn both(one: Option<&str>, two: Option<&str>) -> (Option<String>, Option<String>) {
    (one.map(str::to_owned), two.map(str::to_owned))
}

/// The reverts in the log, in order.
async fn staged(bench: &Bench) -> Vec<Revert> {
    let log = bench.engine.sessions().log(&bench.session.id).await.unwrap();
    let revert = |event| match event {
        Event::RevertStaged { revert, .. } => Some(*revert),
        _ => None,
    };
    log.into_iter().filter_map(|record| revert(record.event)).collect()
}

/// Leaves the log as a process does that ends right after it said what it is about to do.
async fn crash(bench: &Bench, intent: Revert) {
    assert!(intent.pending);
    let store = Store::open(Options::folder(&bench.engine.paths().data, "another")).await.unwrap();
    let lease = store.acquire(&bench.session.id).await.unwrap();
    let event = Event::RevertStaged { revert: Box::new(intent), summary: None };
    let event = NewEvent { id: bench.engine.mint().event(), time: bench.engine.mint().now(), event };
    store.append(&bench.session.id, Authority::Owned(lease.clone()), vec![event]).await.unwrap();
    store.release(lease).await.unwrap();
}

fn path(bench: &Bench, file: &str) -> String {
    bench.repo.join(file).display().to_string()
}

#[tokio::test]
async fn files_and_messages_go_and_come_back() {
    let bench = Bench::new().await;
    bench.say("SAY:before").await;
    let message = bench.say(&write(&bench, "written")).await;
    assert_eq!(bench.repo.read("w.txt"), "written");
    let session = bench.engine.reverts().revert(&bench.session.id, &message, None).await.unwrap();
    assert!(!bench.repo.join("w.txt").exists());
    let revert = session.revert.unwrap();
    assert_eq!(revert.message, message);
    assert!(revert.diff.unwrap().contains("-written"));
    let session = bench.engine.reverts().unrevert(&bench.session.id).await.unwrap();
    assert_eq!(session.revert, None);
    assert_eq!(bench.repo.read("w.txt"), "written");
    assert_eq!(bench.transcript().await.len(), 6);
}

#[tokio::test]
async fn a_prompt_commits_the_revert_and_the_tree_keeps_what_left() {
    let bench = Bench::new().await;
    bench.say("SAY:before").await;
    let message = bench.say(&write(&bench, "written")).await;
    bench.engine.reverts().revert(&bench.session.id, &message, None).await.unwrap();
    bench.say("SAY:on a new path").await;
    assert_eq!(
        bench.transcript().await,
        ["user: SAY:before", "assistant: before", "user: SAY:on a new path", "assistant: on a new path"]
    );
    let tree = bench.engine.sessions().tree(&bench.session.id).await.unwrap();
    assert!(tree.node(&message).is_some(), "what left the path is still in the tree");
    assert_eq!(tree.session.revert, None);
}

#[tokio::test]
async fn what_the_person_changed_since_is_left_alone() {
    let bench = Bench::new().await;
    let message = bench.say(&write(&bench, "by the agent")).await;
    bench.repo.write("w.txt", "by the person");
    let session = bench.engine.reverts().revert(&bench.session.id, &message, None).await.unwrap();
    assert_eq!(bench.repo.read("w.txt"), "by the person");
    assert_eq!(session.revert.unwrap().skipped, [bench.repo.join("w.txt").display().to_string()]);
    bench.engine.reverts().unrevert(&bench.session.id).await.unwrap();
    assert_eq!(bench.repo.read("w.txt"), "by the person");
}

#[tokio::test]
async fn a_fork_has_ids_of_its_own_that_ascend() {
    let bench = Bench::new().await;
    bench.say("SAY:one").await;
    let second = bench.say("TOOL:bash:true\nSAY:two").await;
    let whole = bench.engine.sessions().fork(&bench.session.id, None).await.unwrap();
    assert_eq!(whole.title, "a title (fork #1)");
    let before = bench.engine.sessions().fork(&bench.session.id, Some(&second)).await.unwrap();
    let of = |id| {
        let engine = bench.engine.clone();
        async move { engine.sessions().conversation(&id, None).await.unwrap().nodes }
    };
    let (original, copy, short) = (bench.nodes().await, of(whole.id).await, of(before.id).await);
    assert_eq!(copy.len(), original.len());
    assert!(
        copy.iter().zip(&original).all(|(a, b)| a.entry.id != b.entry.id && a.parts.len() == b.parts.len())
    );
    let ids: Vec<&str> = copy.iter().map(|node| node.entry.id.as_str()).collect();
    assert!(ids.is_sorted(), "{ids:?}");
    assert_eq!(short.len(), 3, "the epoch, the first prompt and its answer");
}

#[tokio::test]
async fn a_second_revert_further_back_can_still_be_undone() {
    let bench = Bench::new().await;
    let first = bench.say(&write(&bench, "one")).await;
    let second = bench.say(&write(&bench, "two")).await;
    bench.engine.reverts().revert(&bench.session.id, &second, None).await.unwrap();
    assert_eq!(bench.repo.read("w.txt"), "one");
    bench.engine.reverts().revert(&bench.session.id, &first, None).await.unwrap();
    assert!(!bench.repo.join("w.txt").exists());
    bench.engine.reverts().unrevert(&bench.session.id).await.unwrap();
    assert_eq!(bench.repo.read("w.txt"), "two");
}

#[tokio::test]
async fn a_step_of_redo_brings_back_what_the_stage_further_back_took() {
    let bench = Bench::new().await;
    let (one, two) = one_and_two(&bench).await;
    let first = revert(&bench, &two).await;
    assert_eq!(files(&bench), both(Some("one"), None));
    let further = revert(&bench, &one).await;
    assert_eq!(files(&bench), both(None, None));
    let again = revert(&bench, &two).await;
    assert_eq!(files(&bench), both(Some("one"), None));
    assert_eq!(again, first, "as if the stage in between had never been");
    assert_eq!(further.snapshot, first.snapshot);
    unrevert(&bench).await;
    assert_eq!(files(&bench), both(Some("one"), Some("two")));
}

#[tokio::test]
async fn all_that_a_revert_took_comes_back() {
    let bench = Bench::new().await;
    let (one, _) = one_and_two(&bench).await;
    let reverted = revert(&bench, &one).await;
    assert_eq!(files(&bench), both(None, None));
    let diff = reverted.diff.unwrap();
    assert!(diff.contains("-one") && diff.contains("-two"), "{diff}");
    unrevert(&bench).await;
    assert_eq!(files(&bench), both(Some("one"), Some("two")));
}

#[tokio::test]
async fn staging_again_changes_nothing() {
    let bench = Bench::new().await;
    let (one, _) = one_and_two(&bench).await;
    let first = revert(&bench, &one).await;
    assert_eq!(revert(&bench, &one).await, first);
    assert_eq!(files(&bench), both(None, None));
    unrevert(&bench).await;
    assert_eq!(files(&bench), both(Some("one"), Some("two")));
}

#[tokio::test]
async fn what_the_person_writes_between_two_stages_stays() {
    let bench = Bench::new().await;
    let (one, two) = one_and_two(&bench).await;
    revert(&bench, &one).await;
    bench.repo.write("1.txt", "by the person");
    let again = revert(&bench, &two).await;
    assert_eq!(files(&bench), both(Some("by the person"), None));
    assert_eq!(again.skipped, [path(&bench, "1.txt")]);
    let further = revert(&bench, &one).await;
    assert_eq!(files(&bench), both(Some("by the person"), None));
    assert_eq!(further.skipped, [path(&bench, "1.txt")]);
    unrevert(&bench).await;
    assert_eq!(files(&bench), both(Some("by the person"), Some("two")));
}

#[tokio::test]
async fn a_file_that_becomes_again_what_the_revert_made_of_it_is_redone() {
    let bench = Bench::new().await;
    let (one, _) = one_and_two(&bench).await;
    revert(&bench, &one).await;
    bench.repo.write("1.txt", "by the person");
    revert(&bench, &one).await;
    std::fs::remove_file(bench.repo.join("1.txt")).unwrap();
    unrevert(&bench).await;
    assert_eq!(files(&bench), both(Some("one"), Some("two")));
}

#[tokio::test]
async fn what_the_person_wrote_between_two_prompts_stays() {
    let bench = Bench::new().await;
    let one = bench.say(&write_to(&bench, "1.txt", "one")).await;
    bench.repo.write("1.txt", "by the person");
    bench.repo.write("2.txt", "by the person");
    bench.say("JSONTOOL:read:{\"filePath\":\"2.txt\"}\nSAY:ok").await;
    bench.say(&write_to(&bench, "2.txt", "two")).await;
    let reverted = revert(&bench, &one).await;
    assert_eq!(files(&bench), both(Some("by the person"), Some("by the person")));
    assert_eq!(reverted.skipped, [path(&bench, "1.txt")]);
    unrevert(&bench).await;
    assert_eq!(files(&bench), both(Some("by the person"), Some("two")));
}

#[tokio::test]
async fn the_log_says_what_will_be_done_before_it_is_done() {
    let bench = Bench::new().await;
    let (one, two) = one_and_two(&bench).await;
    let done = revert(&bench, &two).await;
    revert(&bench, &one).await;
    let staged = staged(&bench).await;
    let pending: Vec<bool> = staged.iter().map(|revert| revert.pending).collect();
    assert_eq!(pending, [true, false, true, false]);
    assert_eq!((&staged[0].snapshot, &staged[0].restored), (&done.snapshot, &done.restored));
    assert!(staged[2].restored.contains(&done.restored[0]), "what the earlier stage did is not forgotten");
    assert!(staged.iter().all(|revert| revert.snapshot == done.snapshot));
}

#[tokio::test]
async fn a_crash_before_the_files_leaves_a_revert_that_can_be_undone_or_done() {
    let bench = Bench::new().await;
    let (one, two) = one_and_two(&bench).await;
    revert(&bench, &one).await;
    unrevert(&bench).await;
    let intent = staged(&bench).await.swap_remove(0);
    crash(&bench, intent.clone()).await;
    unrevert(&bench).await;
    assert_eq!(files(&bench), both(Some("one"), Some("two")));
    crash(&bench, intent).await;
    assert!(!revert(&bench, &two).await.pending);
    assert_eq!(files(&bench), both(Some("one"), None));
    unrevert(&bench).await;
    assert_eq!(files(&bench), both(Some("one"), Some("two")));
}

#[tokio::test]
async fn a_crash_amid_the_files_leaves_a_revert_that_can_be_undone_or_done() {
    let bench = Bench::new().await;
    let (one, two) = one_and_two(&bench).await;
    revert(&bench, &one).await;
    unrevert(&bench).await;
    let intent = staged(&bench).await.swap_remove(0);
    crash(&bench, intent.clone()).await;
    std::fs::remove_file(bench.repo.join("1.txt")).unwrap();
    unrevert(&bench).await;
    assert_eq!(files(&bench), both(Some("one"), Some("two")));
    crash(&bench, intent.clone()).await;
    std::fs::remove_file(bench.repo.join("1.txt")).unwrap();
    revert(&bench, &one).await;
    assert_eq!(files(&bench), both(None, None));
    unrevert(&bench).await;
    // What is neither as it was nor as it was to be is the person's.
    crash(&bench, intent).await;
    std::fs::remove_file(bench.repo.join("1.txt")).unwrap();
    bench.repo.write("2.txt", "by the person");
    let further = revert(&bench, &two).await;
    assert_eq!(files(&bench), both(Some("one"), Some("by the person")));
    assert_eq!(further.skipped, [path(&bench, "2.txt")]);
}

#[tokio::test]
async fn a_prompt_carries_a_revert_through_that_a_crash_cut_off() {
    let bench = Bench::new().await;
    bench.say("SAY:before").await;
    let (one, _) = one_and_two(&bench).await;
    revert(&bench, &one).await;
    unrevert(&bench).await;
    crash(&bench, staged(&bench).await.swap_remove(0)).await;
    bench.say("SAY:on a new path").await;
    assert_eq!(files(&bench), both(None, None));
    assert_eq!(
        bench.transcript().await,
        ["user: SAY:before", "assistant: before", "user: SAY:on a new path", "assistant: on a new path"]
    );
}

#[tokio::test]
async fn a_crash_amid_a_second_stage_can_be_undone() {
    let bench = Bench::new().await;
    let (one, two) = one_and_two(&bench).await;
    bench.say(&write_to(&bench, "1.txt", "three")).await;
    revert(&bench, &two).await;
    assert_eq!(files(&bench), both(Some("one"), None));
    revert(&bench, &one).await;
    let intent = staged(&bench).await.swap_remove(2);
    let of_one = |restored: &&RevertedFile| restored.file == path(&bench, "1.txt");
    assert_eq!(intent.restored.iter().filter(of_one).count(), 2, "from the first stage or from the second");
    for now in [None, Some("one"), Some("three")] {
        unrevert(&bench).await;
        assert_eq!(files(&bench), both(Some("three"), Some("two")));
        crash(&bench, intent.clone()).await;
        std::fs::remove_file(bench.repo.join("1.txt")).unwrap();
        if let Some(text) = now {
            bench.repo.write("1.txt", text);
        }
    }
    unrevert(&bench).await;
    assert_eq!(files(&bench), both(Some("three"), Some("two")));
}

#[tokio::test]
async fn a_revert_that_fails_leaves_the_session_free() {
    let bench = Bench::new().await;
    let (one, _) = one_and_two(&bench).await;
    let nowhere = EntryId::new("msg_0000000000000000nowhere");
    bench.engine.reverts().revert(&bench.session.id, &nowhere, None).await.unwrap_err();
    let snapshots = bench.engine.paths().data.join("snapshot");
    let away = PathBuf::from(format!("{}.away", snapshots.display()));
    std::fs::rename(&snapshots, &away).unwrap();
    std::fs::write(&snapshots, "").unwrap();
    bench.engine.reverts().revert(&bench.session.id, &one, None).await.unwrap_err();
    std::fs::remove_file(&snapshots).unwrap();
    std::fs::rename(&away, &snapshots).unwrap();
    assert_eq!(bench.engine.sessions().get(&bench.session.id).await.unwrap().revert, None);
    let store = Store::open(Options::folder(&bench.engine.paths().data, "another")).await.unwrap();
    let lease = store.acquire(&bench.session.id).await.expect("nobody has it");
    store.release(lease).await.unwrap();
    revert(&bench, &one).await;
    assert_eq!(files(&bench), both(None, None));
}

#[tokio::test]
async fn a_session_that_has_told_that_it_is_idle_can_be_reverted_at_once() {
    // It stayed busy until its turn was summarized, and refused a client that had waited for idle.
    let mut bench = Bench::new().await;
    let id = bench.session.id.clone();
    for (text, written) in [(write(&bench, "written"), true), ("ERR:400 SAY:no".to_owned(), false)] {
        let message = bench.engine.inbox().admit(&id, Prompt::text(&text)).await.unwrap().id;
        let idle = |update: &SessionUpdate| match update {
            SessionUpdate::Live(live) if live.session == id => (live.signal == Signal::Idle).then_some(()),
            _ => None,
        };
        bench.notice(idle).await;
        assert_eq!(bench.engine.drains().statuses(), []);
        revert(&bench, &message).await;
        assert!(!bench.repo.join("w.txt").exists());
        if written {
            unrevert(&bench).await;
            assert!(bench.repo.join("w.txt").exists());
            std::fs::remove_file(bench.repo.join("w.txt")).unwrap();
        }
    }
}

#[tokio::test]
async fn a_session_whose_end_could_not_be_recorded_refuses_at_once_and_lets_nobody_wait() {
    // It had told that it is idle, so whoever came then waited for as long as the end was tried to be recorded again.
    let bench = Bench::new().await;
    let id = bench.session.id.clone();
    let message = bench.say("SAY:hello").await;
    let mut updates = bench.engine.bus().listen();
    let refusal = Refusal::of(bench.data(), "step.failed");
    bench.engine.inbox().admit(&id, Prompt::text("ERR:400 SAY:no")).await.unwrap();
    let idle = |heard: &[String]| heard.last().is_some_and(|last| last == "idle");
    let failed = |heard: &[String]| heard.last().is_some_and(|last| last.contains("takes no step.failed"));
    for until in [&idle as &dyn Fn(&[String]) -> bool, &failed] {
        overhear(&mut updates, &bench, until).await;
        let refused = within("the answer", bench.engine.reverts().revert(&id, &message, None)).await;
        assert!(matches!(&refused, Err(Error::Busy(busy)) if *busy == id), "{refused:?}");
    }
    refusal.lift();
    within("the abort", bench.engine.drains().abort(&id)).await.unwrap();
    bench.settled().await;
    revert(&bench, &message).await;
}

//! Undo and redo: messages and files come back, and nothing that a person wrote is destroyed.

use crate::bench::Bench;

fn write(bench: &Bench, text: &str) -> String {
    format!("TOOL:write:{}={text}\nSAY:wrote", bench.repo.join("w.txt").display())
}

#[tokio::test]
async fn files_and_messages_go_and_come_back() {
    let bench = Bench::new().await;
    bench.say("SAY:before").await;
    let message = bench.say(&write(&bench, "written")).await;
    assert_eq!(bench.repo.read("w.txt"), "written");
    let session = bench.engine.revert(&bench.session.id, &message, None).await.unwrap();
    assert!(!bench.repo.join("w.txt").exists());
    let revert = session.revert.unwrap();
    assert_eq!(revert.message, message);
    assert!(revert.diff.unwrap().contains("-written"));
    let session = bench.engine.unrevert(&bench.session.id).await.unwrap();
    assert_eq!(session.revert, None);
    assert_eq!(bench.repo.read("w.txt"), "written");
    assert_eq!(bench.transcript().await.len(), 6);
}

#[tokio::test]
async fn a_prompt_commits_the_revert_and_the_tree_keeps_what_left() {
    let bench = Bench::new().await;
    bench.say("SAY:before").await;
    let message = bench.say(&write(&bench, "written")).await;
    bench.engine.revert(&bench.session.id, &message, None).await.unwrap();
    bench.say("SAY:on a new path").await;
    assert_eq!(
        bench.transcript().await,
        ["user: SAY:before", "assistant: before", "user: SAY:on a new path", "assistant: on a new path"]
    );
    let tree = bench.engine.tree(&bench.session.id).await.unwrap();
    assert!(tree.node(&message).is_some(), "what left the path is still in the tree");
    assert_eq!(tree.session.revert, None);
}

#[tokio::test]
async fn what_the_person_changed_since_is_left_alone() {
    let bench = Bench::new().await;
    let message = bench.say(&write(&bench, "by the agent")).await;
    bench.repo.write("w.txt", "by the person");
    let session = bench.engine.revert(&bench.session.id, &message, None).await.unwrap();
    assert_eq!(bench.repo.read("w.txt"), "by the person");
    assert_eq!(session.revert.unwrap().skipped, [bench.repo.join("w.txt").display().to_string()]);
    bench.engine.unrevert(&bench.session.id).await.unwrap();
    assert_eq!(bench.repo.read("w.txt"), "by the person");
}

#[tokio::test]
async fn a_fork_has_ids_of_its_own_that_ascend() {
    let bench = Bench::new().await;
    bench.say("SAY:one").await;
    let second = bench.say("TOOL:bash:true\nSAY:two").await;
    let whole = bench.engine.fork(&bench.session.id, None).await.unwrap();
    assert_eq!(whole.title, "a title (fork #1)");
    let before = bench.engine.fork(&bench.session.id, Some(&second)).await.unwrap();
    let of = |id| {
        let engine = bench.engine.clone();
        async move { engine.conversation(&id, None).await.unwrap().nodes }
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
    bench.engine.revert(&bench.session.id, &second, None).await.unwrap();
    assert_eq!(bench.repo.read("w.txt"), "one");
    bench.engine.revert(&bench.session.id, &first, None).await.unwrap();
    assert!(!bench.repo.join("w.txt").exists());
    bench.engine.unrevert(&bench.session.id).await.unwrap();
    assert_eq!(bench.repo.read("w.txt"), "two");
}

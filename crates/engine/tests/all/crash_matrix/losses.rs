//! What a turn that was cut off had used and changed: it was billed, and it can be undone.

use everturn_engine::Engine;
use everturn_model::entry::Assistant;
use everturn_model::part::PartKind;
use everturn_model::tree::Node;
use everturn_model::{Body, Money, Tree};
use everturn_testkit::within;

use super::child::{Cut, Moment};
use super::place::{Ground, StoreKind};
use super::remains;
use super::stories::Story;

/// The conversation of the one session after a turn was cut off right before its end, and another engine took over.
async fn cut_off(ground: &Ground, nth: usize) -> (Engine, Tree) {
    let cut = Cut { event: "step.ended".into(), nth, moment: Moment::Before };
    assert!(ground.live(Some(cut)).was_cut);
    let engine = Engine::open(ground.surroundings().options()).await.unwrap();
    engine.recover().await.unwrap();
    remains::at_rest(&engine, "a turn that was cut off").await;
    let session = remains::all(&engine).await.remove(0);
    let tree = engine.sessions().tree(&session.id).await.unwrap();
    (engine, tree)
}

fn ground(number: usize) -> Ground {
    Ground::new(StoreKind::Sqlite, Story::Tools, number)
}

/// The answers, oldest first.
fn answers(tree: &Tree) -> Vec<(&Node, &Assistant)> {
    let answers = tree.nodes().iter().filter_map(|node| Some((node, node.entry.body.assistant()?)));
    answers.collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_turn_used_that_was_cut_off_is_recorded() {
    for nth in 0..5 {
        // Chat Completions tell what was used at the end only: of them an estimate is left.
        let ground = ground(nth);
        let (engine, tree) = cut_off(&ground, nth).await;
        let answers = answers(&tree);
        let said = |(node, answer): &&(&Node, &Assistant)| {
            let began = node.parts.iter().any(|part| !matches!(part.kind, PartKind::StepStart { .. }));
            began && answer.tokens.input + answer.tokens.output == 0
        };
        let unpaid: Vec<_> = answers.iter().filter(said).collect();
        assert!(unpaid.is_empty(), "cut in turn {nth}: {unpaid:#?}");
        let sum: Money = answers.iter().map(|(_, answer)| answer.cost).sum();
        assert_eq!(tree.session.spent.cost, sum, "cut in turn {nth}");
        within("the engine to close", engine.close()).await;
    }
}

#[test]
fn what_was_saved_of_an_answer_is_kept_wherever_it_is_cut_off() {
    for (number, moment) in [Moment::Before, Moment::After].into_iter().enumerate() {
        let ground = Ground::new(StoreKind::Sqlite, Story::Talk, number);
        // The prompt that comes in the middle of an answer.
        let life = ground.live(Some(Cut { event: "prompt.admitted".into(), nth: 2, moment }));
        assert!(life.was_cut);
        let saved = remains::check(&ground, &[life], "in the middle of an answer");
        assert!(saved.iter().any(|saved| saved.is("alpha ")), "{moment:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_turn_changed_that_was_cut_off_is_undone_with_its_prompt() {
    // The edit is in the second turn, the command that makes a file in the third.
    for nth in [1, 2] {
        let ground = ground(nth);
        let (engine, tree) = cut_off(&ground, nth).await;
        // Each turn is an answer; the cut one ends with the calls that it had made.
        let (_, answer) = answers(&tree)[nth];
        let changed = ["a.txt", "made.txt"][nth - 1];
        let files = answer.files.clone().unwrap_or_default();
        assert!(files.iter().any(|file| file.ends_with(changed)), "cut in turn {nth}: {answer:#?}");
        let prompt = tree.nodes().iter().find(|node| matches!(node.entry.body, Body::User(_))).unwrap();
        engine.reverts().revert(&tree.session.id, &prompt.entry.id, None).await.unwrap();
        assert_eq!(
            std::fs::read_to_string(ground.repo.join("a.txt")).unwrap(),
            "hello\n",
            "cut in turn {nth}"
        );
        assert!(!ground.repo.join("made.txt").exists(), "cut in turn {nth}");
        within("the engine to close", engine.close()).await;
    }
}

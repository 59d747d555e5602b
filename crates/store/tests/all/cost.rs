//! What much of something costs: so many times more, and not the square of it.
//!
//! The numbers are so large that the square of them takes minutes, and the deadline so long that a slow machine meets it.

use std::time::{Duration, Instant};

use everturn_model::inbox::InboxItem;

use crate::events::{admitted, append, begin, new, promoted, prompt, text, tree};
use crate::place::{Kind, Place};

const DEADLINE: Duration = Duration::from_secs(40);

#[tokio::test]
async fn a_prompt_of_many_parts_holds_up_nobody() {
    // Each part was looked for among all: one of 80,000 parts held up all writes for 26 seconds.
    let place = Place::in_memory(Kind::Sqlite);
    let store = place.open("own_a").await;
    let id = begin(&store).await;
    let item = InboxItem { parts: (0..80_000).map(|_| text("x")).collect(), ..prompt("many") };
    let begun = Instant::now();
    append(&store, &id, vec![admitted(&item)]).await;
    append(&store, &id, vec![promoted(&item, None)]).await;
    assert!(begun.elapsed() < DEADLINE, "{:?}", begun.elapsed());
    assert_eq!(tree(&store, &id).await.node(&item.id).map(|node| node.parts.len()), Some(80_000));
}

#[tokio::test]
async fn many_prompts_that_wait_are_promoted_together() {
    // Each was looked for among all and taken out of their middle: 10,000 took 4 seconds.
    let place = Place::in_memory(Kind::Sqlite);
    let store = place.open("own_a").await;
    let id = begin(&store).await;
    let items: Vec<InboxItem> = (0..30_000).map(|_| prompt("wait")).collect();
    append(&store, &id, items.iter().map(admitted).collect()).await;
    let begun = Instant::now();
    let mut parent = None;
    let join = items.iter().map(|item| promoted(item, parent.replace(&item.id)));
    append(&store, &id, join.collect()).await;
    assert!(begun.elapsed() < DEADLINE, "{:?}", begun.elapsed());
    let after = tree(&store, &id).await;
    assert_eq!((after.inbox.len(), after.nodes().len()), (0, items.len()));
    append(&store, &id, vec![new(everturn_model::Event::InterruptRequested {})]).await;
}

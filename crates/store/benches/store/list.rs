//! The first page of sessions and the newest page of a conversation, as history grows.

use std::time::Instant;

use everturn_store::{Authority, Durability, Filter, Order, PageRequest, PathQuery, Store};

use crate::place::Place;
use crate::work::{self, Ids};
use crate::{Size, line, raw};

pub(crate) async fn measure(place: fn() -> Place, size: Size) {
    let place = place();
    let mut options = place.options("own_bench");
    // Only reads are measured here.
    options.durability = Durability::Process;
    let store = Store::open(options).await.unwrap();
    let steps = if size.quick { vec![1_000, 5_000] } else { vec![1_000, 10_000, 100_000] };
    let mut made = 0;
    let mut first = None;
    for step in steps {
        make(&store, made..step).await;
        made = step;
        raw::settle(&place).await;
        let time = page(&store, Filter { limit: Some(50), ..Filter::default() }).await;
        let filtered =
            Filter { project: Some("global".into()), roots: true, limit: Some(50), ..Filter::default() };
        let filtered = page(&store, filtered).await;
        let base = *first.get_or_insert((time, filtered));
        line(
            &format!(
                "{}: first page of {step} sessions (with filters: {})",
                place.name,
                work::show(filtered)
            ),
            &work::show(time),
            &format!("{} at 1000", work::show(base.0)),
            &format!("{:.2} (with filters {:.2})", time / base.0, filtered / base.1),
        );
    }
    let entries = size.pick(2_000, 10_000);
    work::long_session(&store, 1_000_000, entries).await;
    let id = work::session_id(1_000_000);
    let newest = PathQuery { session: id.clone(), leaf: None, order: Order::Newest, limit: 100 };
    let newest =
        median(async || drop(store.path(PageRequest::First(newest.clone())).await.unwrap()), 50).await;
    let whole = median(async || drop(store.tree(&id).await.unwrap().unwrap()), 5).await;
    line(
        &format!("{}: newest 100 of a path of {entries} entries, beside all of it", place.name),
        &work::show(newest),
        &work::show(whole),
        &format!("{:.3}", newest / whole),
    );
}

async fn make(store: &Store, range: std::ops::Range<usize>) {
    let mut waiting = tokio::task::JoinSet::new();
    for number in range {
        let store = store.clone();
        let mut ids = Ids::of(u64::try_from(number).unwrap());
        let created = vec![work::created(&mut ids, number)];
        let append =
            async move { store.append(&work::session_id(number), Authority::Open, created).await.map(drop) };
        waiting.spawn(append);
        if waiting.len() >= 512 {
            waiting.join_next().await.unwrap().unwrap().unwrap();
        }
    }
    while let Some(made) = waiting.join_next().await {
        made.unwrap().unwrap();
    }
}

async fn page(store: &Store, filter: Filter) -> f64 {
    median(async || drop(store.page(PageRequest::First(filter.clone())).await.unwrap()), 200).await
}

async fn median(mut work: impl AsyncFnMut(), times: usize) -> f64 {
    let mut took = Vec::with_capacity(times);
    for _ in 0..times {
        let began = Instant::now();
        work().await;
        took.push(began.elapsed().as_secs_f64());
    }
    work::percentile(&mut took, 0.5)
}

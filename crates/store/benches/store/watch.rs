//! How long an event takes from its acknowledgement to whoever follows the session, here and in another process.

use std::time::Instant;

use everturn_store::{Authority, Store};

use crate::place::Place;
use crate::work::{self, Ids};
use crate::{Size, line};

pub(crate) async fn measure(place: fn() -> Place, size: Size) {
    let place = place();
    let (here, there) = (place.open("own_here").await, place.open("own_there").await);
    let mut ids = Ids::of(1);
    let created = vec![work::created(&mut ids, 1)];
    here.append(&work::session_id(1), Authority::Open, created).await.unwrap();
    let mut parent = None;
    let times = size.pick(50, 300);
    let mut commits = Vec::new();
    let mut wait = async |watcher: &Store, commits: &mut Vec<f64>| {
        let mut took = Vec::new();
        for _ in 0..times {
            let seq = here.events(&work::session_id(1), None, usize::MAX).await.unwrap().len() as u64 - 1;
            let mut watch = watcher.watch(&work::session_id(1), Some(seq));
            let waiting = tokio::spawn(async move {
                watch.next().await.unwrap();
                Instant::now()
            });
            tokio::task::yield_now().await;
            let event = work::entry(&mut ids, &mut parent);
            let began = Instant::now();
            here.append(&work::session_id(1), Authority::Open, vec![event]).await.unwrap();
            let acknowledged = Instant::now();
            commits.push((acknowledged - began).as_secs_f64());
            let seen = waiting.await.unwrap();
            took.push(seen.saturating_duration_since(acknowledged).as_secs_f64());
        }
        took
    };
    let mut local = wait(&here, &mut commits).await;
    let mut other = wait(&there, &mut commits).await;
    let commit = work::percentile(&mut commits, 0.5);
    for (where_, took) in [("same process", &mut local), ("another process", &mut other)] {
        let (half, most) = (work::percentile(took, 0.5), work::percentile(took, 0.99));
        line(
            &format!("{}: from acknowledged to seen, {where_}", place.name),
            &format!("{}, p99 {}", work::show(half), work::show(most)),
            &format!("{} for the commit", work::show(commit)),
            &format!("{:.2}", half / commit),
        );
    }
}

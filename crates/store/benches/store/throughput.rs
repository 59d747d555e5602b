//! Appends at full durability: how many a second, and how long the slowest take, beside the raw engine writing the same
//! rows with the same indexes in the same transactions.

use std::time::Instant;

use everturn_store::Authority;

use crate::place::Place;
use crate::work::{self, Ids};
use crate::{Size, line, raw};

/// How often both are measured, in turn.
const ROUNDS: usize = 3;

pub(crate) async fn measure(place: fn() -> Place, size: Size) {
    for lanes in [1, 16, 64, 256] {
        let (mut ours, mut raws, mut slow, mut raw_slow) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut name = "";
        let mut group = 0.0;
        for _ in 0..ROUNDS {
            let place = place();
            name = place.name;
            let each = (size.pick(2_000, 20_000) / lanes).min(size.pick(500, 2_000));
            let (rate, mut latencies) = append(&place, lanes, each).await;
            ours.push(rate);
            slow.push(work::percentile(&mut latencies, 0.99));
            let groups = raw::groups(&place).await;
            group = groups.iter().map(Vec::len).sum::<usize>() as f64 / groups.len() as f64;
            let (rate, mut latencies) = raw::replay(&place, &groups).await;
            raws.push(rate);
            raw_slow.push(work::percentile(&mut latencies, 0.99));
        }
        let [ours, raws] = [&mut ours, &mut raws].map(|values| work::percentile(values, 0.5));
        let [slow, raw_slow] = [&mut slow, &mut raw_slow].map(|values| work::percentile(values, 0.5));
        line(
            &format!("{name}: appends, {lanes} sessions at once ({group:.1} in a commit)"),
            &format!("{ours:.0}/s, p99 {}", work::show(slow)),
            &format!("{raws:.0}/s, p99 {}", work::show(raw_slow)),
            &format!("{:.2}", ours / raws),
        );
    }
}

/// Appends from several tasks at once; gives appends a second and the time that each took.
async fn append(place: &Place, lanes: usize, each: usize) -> (f64, Vec<f64>) {
    let store = place.open("own_bench").await;
    for lane in 0..lanes {
        let mut ids = Ids::of(u64::try_from(lane).unwrap());
        let created = vec![work::created(&mut ids, lane)];
        store.append(&work::session_id(lane), Authority::Open, created).await.unwrap();
    }
    // Made before the clock starts: the raw engine's rows are ready too.
    let work: Vec<Vec<_>> = (0..lanes)
        .map(|lane| {
            let mut ids = Ids::of(1_000 + u64::try_from(lane).unwrap());
            let mut parent = None;
            (0..each).map(|_| work::entry(&mut ids, &mut parent)).collect()
        })
        .collect();
    let began = Instant::now();
    let tasks: Vec<_> = (0..lanes)
        .zip(work)
        .map(|(lane, events)| {
            let store = store.clone();
            tokio::spawn(async move {
                let id = work::session_id(lane);
                let mut latencies = Vec::with_capacity(events.len());
                for event in events {
                    let began = Instant::now();
                    store.append(&id, Authority::Open, vec![event]).await.unwrap();
                    latencies.push(began.elapsed().as_secs_f64());
                }
                latencies
            })
        })
        .collect();
    let mut latencies = Vec::new();
    for task in tasks {
        latencies.extend(task.await.unwrap());
    }
    ((lanes * each) as f64 / began.elapsed().as_secs_f64(), latencies)
}

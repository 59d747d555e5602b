//! What an append costs in a short and in a long session.

use std::time::Instant;

use everturn_store::Authority;

use crate::place::Place;
use crate::work::{self, Ids};
use crate::{Size, line};

pub(crate) async fn measure(place: fn() -> Place, size: Size) {
    let place = place();
    let store = place.open("own_bench").await;
    let (short, long) = (100, size.pick(2_000, 10_000));
    let mut parents = [work::long_session(&store, 1, short).await, work::long_session(&store, 2, long).await];
    let mut times = [Vec::new(), Vec::new()];
    let mut ids = Ids::of(900_000);
    // In turn, so that whatever else the machine does meets both.
    for _ in 0..size.pick(100, 400) {
        for (which, number) in [(0, 1), (1, 2)] {
            let event = work::entry(&mut ids, &mut parents[which]);
            let began = Instant::now();
            store.append(&work::session_id(number), Authority::Open, vec![event]).await.unwrap();
            times[which].push(began.elapsed().as_secs_f64());
        }
    }
    let [short_time, long_time] = times.each_mut().map(|times| work::percentile(times, 0.5));
    line(
        &format!("{}: one append to a session of {long} entries, beside one of {short}", place.name),
        &work::show(long_time),
        &work::show(short_time),
        &format!("{:.2}", long_time / short_time),
    );
}

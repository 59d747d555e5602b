//! A fork, beside the raw engine inserting the rows that it makes.

use std::time::Instant;

use everturn_store::{Cut, Fork};

use crate::place::Place;
use crate::work::{self, Ids};
use crate::{Size, line, raw};

pub(crate) async fn measure(place: fn() -> Place, size: Size) {
    for entries in if size.quick { vec![1_000] } else { vec![1_000, 10_000] } {
        let place = place();
        let store = place.open("own_bench").await;
        work::long_session(&store, 1, entries).await;
        let mut ids = Ids::of(800_000);
        let (mut ours, mut raws) = (Vec::new(), Vec::new());
        // A short fork takes little beside what else the machine does.
        let forks = 10..10 + size.pick(3, if entries > 1_000 { 9 } else { 29 });
        for number in forks.clone() {
            let fork = Fork {
                source: work::session_id(1),
                cut: Cut::Leaf,
                session: work::session(number),
                events: [ids.event(), ids.event()],
                time: work::NOW,
            };
            raw::settle(&place).await;
            let began = Instant::now();
            store.fork(fork).await.unwrap();
            ours.push(began.elapsed().as_secs_f64());
        }
        // Not by turns: every fourth write merges the full-text index, and that would always fall to the same one.
        for number in forks {
            raws.push(raw::insert_again(&place, &work::session_id(number)).await);
        }
        let [ours, raws] = [&mut ours, &mut raws].map(|values| work::percentile(values, 0.5));
        line(
            &format!("{}: fork of {entries} entries", place.name),
            &work::show(ours),
            &work::show(raws),
            &format!("{:.2}", ours / raws),
        );
    }
}

//! The fold: how fast a log becomes a tree, beside only parsing it.

use std::time::Instant;

use everturn_model::event::Event;
use everturn_model::{Record, fold};

use crate::work::{self, Ids};
use crate::{Size, line};

pub(crate) fn measure(size: Size) {
    let mut ids = Ids::of(7);
    let mut parent = None;
    let count = size.pick(5_000, 20_000);
    let first = work::created(&mut ids, 1);
    let events = std::iter::once(first).chain((0..count).map(|_| work::entry(&mut ids, &mut parent)));
    let records: Vec<Record> = (0u64..)
        .zip(events)
        .map(|(seq, new)| Record {
            id: new.id,
            session: work::session_id(1),
            seq,
            time: new.time,
            event: new.event,
            subject: None,
        })
        .collect();
    let texts: Vec<String> =
        records.iter().map(|record| serde_json::to_string(&record.event).unwrap()).collect();
    let (mut folds, mut parses) = (Vec::new(), Vec::new());
    for _ in 0..7 {
        let began = Instant::now();
        std::hint::black_box(fold::replay(&records).unwrap());
        folds.push(began.elapsed().as_secs_f64());
        let began = Instant::now();
        for text in &texts {
            std::hint::black_box(serde_json::from_str::<Event>(text).unwrap());
        }
        parses.push(began.elapsed().as_secs_f64());
    }
    let [fold, parse] = [&mut folds, &mut parses].map(|values| work::percentile(values, 0.5));
    line(
        &format!("fold of {count} events, beside parsing them"),
        &format!("{:.0}/s", count as f64 / fold),
        &format!("{:.0}/s", count as f64 / parse),
        &format!("{:.2}", parse / fold),
    );
}

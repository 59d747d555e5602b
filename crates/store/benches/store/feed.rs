//! How long an event takes from its acknowledgement to the feed of another process, and how long streamed text takes from
//! being saved. Its own process is told before the acknowledgement.

use std::sync::Arc;
use std::time::Instant;

use everturn_model::part::{PartKind, Span};
use everturn_model::{Entry, EntryId, Event, Part, PartId};
use everturn_store::{Authority, FeedItem, Observer};
use tokio::sync::mpsc::unbounded_channel;

use crate::place::Place;
use crate::work::{self, Ids};
use crate::{Size, line};

pub(crate) async fn measure(place: fn() -> Place, size: Size) {
    let place = place();
    let (told, mut hears) = unbounded_channel();
    let observer: Observer = Arc::new(move |item| drop(told.send((Instant::now(), item))));
    let here = place.open("own_here").await;
    let _there = place.open_with("own_there", observer).await;
    let mut ids = Ids::of(1);
    let session = work::session_id(1);
    here.append(&session, Authority::Open, vec![work::created(&mut ids, 1)]).await.unwrap();
    hears.recv().await.unwrap();
    let times = size.pick(50, 300);
    let (mut commits, mut events, mut texts) = (Vec::new(), Vec::new(), Vec::new());
    let mut parent = None;
    for _ in 0..times {
        let event = work::entry(&mut ids, &mut parent);
        let began = Instant::now();
        here.append(&session, Authority::Open, vec![event]).await.unwrap();
        let acknowledged = Instant::now();
        commits.push((acknowledged - began).as_secs_f64());
        let (heard, _) = hears.recv().await.unwrap();
        events.push(heard.saturating_duration_since(acknowledged).as_secs_f64());
    }
    let lease = here.acquire(&session).await.unwrap();
    let (entry, part) = (EntryId::new("msg_feed"), PartId::new("prt_feed"));
    let step = Entry::new(entry.clone(), parent, 1, everturn_model::Body::Assistant(Default::default()));
    let time = Some(Span { start: 1, end: None });
    let kind = PartKind::Text { text: String::new(), synthetic: None, ignored: None, time, metadata: None };
    let opening = vec![
        work::event(&mut ids, Event::StepStarted { entry: Box::new(step), frame: None }),
        work::event(
            &mut ids,
            Event::PartStarted { entry: entry.clone(), part: Box::new(Part::new(part.clone(), kind)) },
        ),
    ];
    here.append(&session, Authority::Owned(lease.clone()), opening).await.unwrap();
    for _ in 0..2 {
        hears.recv().await.unwrap();
    }
    for number in 0..times {
        let began = Instant::now();
        here.save_stream(&lease, &entry, &part, number * 4, "word".to_owned());
        let (heard, item) = hears.recv().await.unwrap();
        assert!(matches!(item, FeedItem::Text(_)), "{item:?}");
        texts.push(heard.saturating_duration_since(began).as_secs_f64());
    }
    let commit = work::percentile(&mut commits, 0.5);
    for (what, took) in [("acknowledged to told", &mut events), ("text saved to told", &mut texts)] {
        let (half, most) = (work::percentile(took, 0.5), work::percentile(took, 0.99));
        line(
            &format!("{}: {what}, another process", place.name),
            &format!("{}, p99 {}", work::show(half), work::show(most)),
            &format!("{} for the commit", work::show(commit)),
            &format!("{:.2}", half / commit),
        );
    }
}

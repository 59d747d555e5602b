//! How much of a streamed answer a crash can take: what came within the last 200 milliseconds.

use std::path::PathBuf;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use everturn_engine::{Prompt, SessionUpdate, Signal};
use everturn_model::Event;
use everturn_store::{Options, Store};
use everturn_testkit::HostileProvider;
use everturn_testkit::deadline::PATIENCE;
use everturn_testkit::hostile_provider::Malice;
use serde_json::json;

use crate::bench::Bench;

/// When streamed text is saved at the latest. Timers end with the first whole millisecond after their time.
pub(crate) const SAVED: Duration = Duration::from_millis(201);

/// A clock that moves only when a test moves it.
pub(crate) struct Clock {
    /// The paused clock runs ahead whenever all tasks wait, but not while a thread works for them.
    _work: mpsc::Sender<()>,
}

impl Clock {
    pub(crate) fn stop() -> Self {
        tokio::time::pause();
        let (work, ended) = mpsc::channel::<()>();
        tokio::task::spawn_blocking(move || ended.recv());
        Self { _work: work }
    }

    pub(crate) async fn advance(&self, time: Duration) {
        tokio::time::advance(time).await;
    }
}

/// Waits, by the clock on the wall, until what was saved is as wanted; gives what was saved instead.
pub(crate) async fn saved(store: &Store, bench: &Bench, wanted: impl Fn(&str) -> bool) -> Result<(), String> {
    let end = Instant::now() + PATIENCE / 6;
    loop {
        let streams = store.streams(&bench.session.id).await.unwrap();
        let text: String = streams.into_iter().map(|stream| stream.text).collect();
        if wanted(&text) {
            return Ok(());
        }
        if Instant::now() > end {
            return Err(text);
        }
        // Not a pause, as the clock stands still: the others go first.
        tokio::task::yield_now().await;
    }
}

/// Waits until the model has said a word.
pub(crate) async fn said(bench: &mut Bench, word: &str) {
    let is_word = |notice: &SessionUpdate| match notice {
        SessionUpdate::Live(live) => {
            matches!(&live.signal, Signal::Delta { text, .. } if text == word).then_some(())
        }
        SessionUpdate::Committed(_) | SessionUpdate::Gap => None,
    };
    bench.notice(is_word).await;
}

#[tokio::test]
async fn streamed_text_is_saved_within_200_milliseconds() {
    // Saving every 390 milliseconds, nearly twice what is promised, went unnoticed.
    let mut data = PathBuf::new();
    let mut bench = Bench::with(|_| json!({}), |options| data.clone_from(&options.paths.data)).await;
    let store = Store::open(Options::folder(data, "own_reader")).await.unwrap();
    let clock = Clock::stop();
    // Words come one by one, by the clock on the wall.
    let prompt = Prompt::text("SLOW:40 HOLD:end SAY:one two three four five");
    bench.engine.inbox().admit(&bench.session.id, prompt).await.unwrap();
    said(&mut bench, "one ").await;
    clock.advance(SAVED).await;
    assert_eq!(saved(&store, &bench, |text| text.starts_with("one ")).await, Ok(()));
    said(&mut bench, "four ").await;
    clock.advance(SAVED).await;
    assert_eq!(saved(&store, &bench, |text| text == "one two three four ").await, Ok(()));

    drop(clock);
    tokio::time::resume();
    bench.model.release("end");
    bench.settled().await;
    assert_eq!(bench.transcript().await.last().unwrap(), "assistant: one two three four five");
}

#[tokio::test]
async fn what_a_provider_counted_is_recorded_within_200_milliseconds() {
    // It waited for the next event, and a crash before that took it.
    let provider = HostileProvider::start(Malice::Counts);
    let mut bench = Bench::configured(provider.config(&json!({}))).await;
    let clock = Clock::stop();
    bench.engine.inbox().admit(&bench.session.id, Prompt::text("hello")).await.unwrap();
    // Between the two words it has counted.
    said(&mut bench, "two ").await;
    clock.advance(SAVED).await;
    let end = Instant::now() + PATIENCE / 6;
    loop {
        let log = bench.engine.sessions().log(&bench.session.id).await.unwrap();
        let counted = log.iter().find_map(|record| match &record.event {
            Event::UsageReported { tokens, last, .. } => Some((tokens.input, tokens.output, *last)),
            _ => None,
        });
        if let Some(counted) = counted {
            assert_eq!(counted, (900, 1, false));
            break;
        }
        assert!(Instant::now() < end, "the count is not in the log");
        tokio::task::yield_now().await;
    }
    drop(clock);
    tokio::time::resume();
    bench.engine.drains().abort(&bench.session.id).await.unwrap();
}

//! What a session's work looks like from outside: spans with names and fields that stay the same.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, OnceLock};

use everturn_engine::{Prompt, SessionUpdate};
use everturn_model::Event;
use everturn_model::request::Reply;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::DefaultGuard;
use tracing::{Dispatch, Metadata, Subscriber};

use crate::bench::Bench;
use crate::permission::ask;

/// The spans that were opened, with their fields, in this order.
#[derive(Clone, Default)]
struct Spans(Arc<Mutex<Vec<Span>>>);

#[derive(Clone, Default)]
struct Span {
    name: &'static str,
    fields: BTreeMap<&'static str, String>,
}

impl Visit for Span {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.fields.insert(field.name(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.fields.insert(field.name(), value.to_owned());
    }
}

impl Subscriber for Spans {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_span() && metadata.target().starts_with("everturn_engine")
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        let mut span = Span { name: attributes.metadata().name(), ..Span::default() };
        attributes.record(&mut span);
        let mut spans = self.0.lock().unwrap();
        spans.push(span);
        Id::from_u64(spans.len() as u64)
    }

    fn record(&self, id: &Id, values: &Record<'_>) {
        values.record(&mut self.0.lock().unwrap()[id.into_u64() as usize - 1]);
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &tracing::Event<'_>) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

impl Spans {
    /// Sees the spans of this test until the guard is dropped.
    fn see() -> (Self, DefaultGuard) {
        // While there is only one subscriber in the process, a span that another test is the first to open is judged by
        // that test's thread, which has none, and is off for everybody from then on.
        static SECOND: OnceLock<Dispatch> = OnceLock::new();
        SECOND.get_or_init(|| Dispatch::new(Self::default()));
        let spans = Self::default();
        let seen = tracing::subscriber::set_default(spans.clone());
        (spans, seen)
    }

    /// The spans of these names, each as a line, with a number where a duration is.
    fn lines(&self, names: &[&str]) -> Vec<String> {
        let mut lines = Vec::new();
        for mut span in self.0.lock().unwrap().clone() {
            if !names.contains(&span.name) {
                continue;
            }
            if let Some(duration) = span.fields.remove("duration_ms") {
                duration.parse::<u64>().unwrap();
                span.fields.insert("duration_ms", "a number".to_owned());
            }
            let fields: Vec<String> =
                span.fields.iter().map(|(name, value)| format!("{name}={value}")).collect();
            lines.push(format!("{} {}", span.name, fields.join(" ")));
        }
        lines
    }
}

const ALL: &[&str] = &["session", "turn", "provider_call", "tool_call"];

#[tokio::test]
async fn the_work_on_a_prompt_is_seen_as_spans() {
    let (spans, _seen) = Spans::see();
    let bench = Bench::new().await;
    bench.say("TOOL:bash:echo hi\nSAY:done").await;
    let model = bench.engine.sessions().get(&bench.session.id).await.unwrap().model.unwrap();
    let lines = spans.lines(ALL);
    let id = &bench.session.id;
    let call =
        lines.iter().find_map(|line| line.split_once("call.id=")?.1.split(' ').next()).unwrap_or_default();
    let provider = format!(
        "provider_call duration_ms=a number model={} outcome=completed provider={} session.id={id}",
        model.model, model.provider
    );
    let turn = format!("turn duration_ms=a number outcome=completed session.id={id}");
    assert_eq!(
        lines,
        [
            format!("session duration_ms=a number outcome=completed session.id={id}"),
            turn.clone(),
            provider.clone(),
            format!(
                "tool_call call.id={call} duration_ms=a number outcome=completed session.id={id} tool=bash"
            ),
            turn,
            provider,
        ]
    );
    assert!(!call.is_empty());
}

/// What the spans of these names say of their end, without the first few.
fn outcomes(spans: &Spans, from: usize, names: &[&str]) -> Vec<String> {
    let spans = spans.0.lock().unwrap().clone().into_iter().skip(from);
    let named = spans.filter(|span| names.contains(&span.name));
    named.map(|span| format!("{} {}", span.name, span.fields["outcome"])).collect()
}

#[tokio::test]
async fn the_end_of_work_has_one_word_wherever_it_is() {
    // Turns were `done`, providers `cancelled` and tools `Error`, for what was the same.
    let (spans, _seen) = Spans::see();
    let next = async || (Bench::new().await, spans.0.lock().unwrap().len());
    let work = ["session", "turn", "provider_call"];

    let (bench, from) = next().await;
    bench.engine.inbox().admit(&bench.session.id, Prompt::text("HOLD:x SAY:one two")).await.unwrap();
    bench.model.held("x").await;
    bench.engine.drains().abort(&bench.session.id).await.unwrap();
    assert_eq!(outcomes(&spans, from, ALL), work.map(|name| format!("{name} interrupted")));

    let (mut bench, from) = next().await;
    ask(&mut bench, "TOOL:read:/etc/hosts").await;
    bench.engine.drains().abort(&bench.session.id).await.unwrap();
    let expected =
        ["session interrupted", "turn interrupted", "provider_call completed", "tool_call interrupted"];
    assert_eq!(outcomes(&spans, from, ALL), expected);

    let (mut bench, from) = next().await;
    let request = ask(&mut bench, "TOOL:read:/etc/hosts").await;
    bench.engine.requests().reply(&request.id, Reply::Reject, None).await.unwrap();
    bench.settled().await;
    let expected = ["session declined", "turn declined", "provider_call completed", "tool_call declined"];
    assert_eq!(outcomes(&spans, from, ALL), expected);

    let (bench, from) = next().await;
    bench.say("ERR:400 SAY:no").await;
    assert_eq!(outcomes(&spans, from, ALL), work.map(|name| format!("{name} failed")));

    let (bench, from) = next().await;
    bench.say("TOOL:read:nowhere.txt\nSAY:sorry").await;
    assert_eq!(outcomes(&spans, from, &["session", "tool_call"]), ["session completed", "tool_call failed"]);
}

#[tokio::test]
async fn a_drain_that_waits_for_another_process_has_no_session() {
    // A server that waited wrote four spans of a session in every second.
    let (spans, _seen) = Spans::see();
    let bench = Bench::new().await;
    let other = bench.other_store().await;
    let lease = other.acquire(&bench.session.id).await.unwrap();
    bench.engine.inbox().admit(&bench.session.id, Prompt::text("SAY:hi")).await.unwrap();
    bench.engine.drains().abort(&bench.session.id).await.unwrap();
    assert_eq!(spans.lines(ALL), [""; 0]);
    other.release(lease).await.unwrap();
    // What was stopped is held: there is nothing to do although the session is free.
    bench.settled().await;
    assert_eq!(spans.lines(ALL), [""; 0]);
    bench.say("SAY:again").await;
    assert_eq!(outcomes(&spans, 0, &["session"]), ["session completed"]);
}

#[tokio::test]
async fn the_call_for_a_title_says_whose_it_is() {
    let (spans, _seen) = Spans::see();
    let mut bench = Bench::new().await;
    let location = bench.engine.projects().location(None).await.unwrap();
    bench.session = bench.engine.sessions().create(&location, Default::default()).await.unwrap();
    bench.say("SAY:hi").await;
    bench
        .notice(|notice| match notice {
            SessionUpdate::Committed(committed) => {
                matches!(committed.record.event, Event::TitleChanged { .. }).then_some(())
            }
            SessionUpdate::Live(_) | SessionUpdate::Gap => None,
        })
        .await;
    let calls = spans.lines(&["provider_call"]);
    let own = format!("session.id={}", bench.session.id);
    assert_eq!(calls.iter().filter(|line| line.ends_with(&own)).count(), 2, "{calls:?}");
    assert_eq!(outcomes(&spans, 0, &["provider_call"]), ["provider_call completed"; 2]);
}

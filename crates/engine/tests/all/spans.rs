//! What a session's work looks like from outside: spans with names and fields that stay the same.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::bench::Bench;

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

    fn event(&self, _: &Event<'_>) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[tokio::test]
async fn the_work_on_a_prompt_is_seen_as_spans() {
    let spans = Spans::default();
    let _seen = tracing::subscriber::set_default(spans.clone());
    let bench = Bench::new().await;
    bench.say("TOOL:bash:echo hi\nSAY:done").await;
    let model = bench.engine.sessions().get(&bench.session.id).await.unwrap().model.unwrap();
    let mut lines = Vec::new();
    for mut span in spans.0.lock().unwrap().clone() {
        if let Some(duration) = span.fields.remove("duration_ms") {
            duration.parse::<u64>().unwrap();
            span.fields.insert("duration_ms", "a number".to_owned());
        }
        let fields: Vec<String> = span.fields.iter().map(|(name, value)| format!("{name}={value}")).collect();
        lines.push(format!("{} {}", span.name, fields.join(" ")));
    }
    let id = &bench.session.id;
    let call =
        lines.iter().find_map(|line| line.split_once("call.id=")?.1.split(' ').next()).unwrap_or_default();
    let provider = format!(
        "provider_call duration_ms=a number model={} outcome=completed provider={}",
        model.model, model.provider
    );
    assert_eq!(
        lines,
        [
            format!("session session.id={id}"),
            format!("turn outcome=continue session.id={id}"),
            provider.clone(),
            format!(
                "tool_call call.id={call} duration_ms=a number outcome=Completed session.id={id} tool=bash"
            ),
            format!("turn outcome=done session.id={id}"),
            provider,
        ]
    );
    assert!(!call.is_empty());
}

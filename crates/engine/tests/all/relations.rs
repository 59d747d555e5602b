//! What holds between the parts of a session's runtime: one test for each relationship, named after it.

mod context;
mod epochs;
mod inbox;
mod outputs;
mod tools_output;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use everturn_engine::context::{
    ContextKey, ContextProducer, ContextRegistration, ContextRegistry, ContextSource, ContextView, Observed,
};
use everturn_model::entry::Body;
use everturn_tools::BoxFuture;
use serde_json::{Value, json};

use crate::bench::Bench;

/// A source that a test sets.
#[derive(Debug)]
pub(crate) struct Gauge {
    key: ContextKey,
    value: Mutex<Observed<Value>>,
    removal: Option<String>,
    looks: AtomicUsize,
}

impl Gauge {
    pub(crate) fn new(key: &str, value: Observed<Value>, removal: Option<&str>) -> Arc<Self> {
        let (key, removal) = (ContextKey::new(key).unwrap(), removal.map(str::to_owned));
        Arc::new(Self { key, value: Mutex::new(value), removal, looks: AtomicUsize::new(0) })
    }

    /// One that is there, and says when it goes.
    pub(crate) fn at(key: &str, value: u32) -> Arc<Self> {
        Self::new(key, Observed::Present(value.into()), Some(&format!("{key} is gone")))
    }

    pub(crate) fn set(&self, value: Observed<Value>) {
        *self.value.lock().unwrap() = value;
    }

    pub(crate) fn rise(&self, value: u32) {
        self.set(Observed::Present(value.into()));
    }

    pub(crate) fn hide(&self) {
        self.set(Observed::Unavailable { why: "the gauge is dark".to_owned() });
    }

    pub(crate) fn looks(&self) -> usize {
        self.looks.load(Ordering::SeqCst)
    }
}

impl ContextProducer for Gauge {
    fn key(&self) -> ContextKey {
        self.key.clone()
    }

    fn observe(&self, _view: Arc<ContextView>) -> BoxFuture<'_, Vec<ContextSource>> {
        self.looks.fetch_add(1, Ordering::SeqCst);
        let (key, value) = (&self.key, self.value.lock().unwrap().clone());
        let say = |word: &str| match &value {
            Observed::Present(value) => format!("{key} {word} {value}"),
            _ => String::new(),
        };
        let (baseline, update, removal) = (say("is"), say("is now"), self.removal.clone());
        let source = ContextSource { key: key.clone(), value, baseline, update, removal };
        Box::pin(async { vec![source] })
    }
}

/// A bench whose sources a test can add to.
pub(crate) async fn gauged(extra: Value) -> (Bench, ContextRegistry) {
    let registry = ContextRegistry::default();
    let own = registry.clone();
    (Bench::with(|_| extra, |options| options.context = own).await, registry)
}

/// A bench with one such source, which lasts.
pub(crate) async fn with(gauge: &Arc<Gauge>) -> Bench {
    let (bench, registry) = gauged(json!({})).await;
    add(&registry, gauge).keep();
    bench
}

pub(crate) fn add(registry: &ContextRegistry, gauge: &Arc<Gauge>) -> ContextRegistration {
    registry.register(Arc::clone(gauge) as Arc<dyn ContextProducer>).unwrap()
}

/// What the model was told of its surroundings on the path: baselines and updates, oldest first.
pub(crate) async fn told(bench: &Bench) -> Vec<(&'static str, String)> {
    let texts = bench.nodes().await.into_iter().filter_map(|node| match node.entry.body {
        Body::Epoch { baseline, .. } => Some(("baseline", baseline)),
        Body::System { text, .. } => Some(("update", text)),
        _ => None,
    });
    texts.collect()
}

/// The updates alone.
pub(crate) async fn updates(bench: &Bench) -> Vec<String> {
    let told = told(bench).await.into_iter();
    told.filter(|(kind, _)| *kind == "update").map(|(_, text)| text).collect()
}

/// The baselines alone.
pub(crate) async fn baselines(bench: &Bench) -> Vec<String> {
    let told = told(bench).await.into_iter();
    told.filter(|(kind, _)| *kind == "baseline").map(|(_, text)| text).collect()
}

/// The messages of the newest request, each as its role and text.
pub(crate) fn sent(bench: &Bench) -> Vec<String> {
    let request = bench.model.prompts().pop().unwrap();
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let messages = request["messages"].as_array().unwrap().iter();
    messages.map(|message| format!("{}: {}", text(&message["role"]), text(&message["content"]))).collect()
}

/// Whether the newest request has a text somewhere.
pub(crate) fn was_sent(bench: &Bench, text: &str) -> bool {
    sent(bench).iter().any(|message| message.contains(text))
}

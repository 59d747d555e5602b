//! The producers of the System Context.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use everturn_tools::{BoxFuture, Observed};
use futures_util::future::join_all;

use super::{ContextKey, ContextSource, ContextView, builtin};
use crate::Error;

/// How long a producer may take. A turn waits for all of them.
const OBSERVING: Duration = Duration::from_secs(30);

/// The largest text of one source, in bytes.
const SOURCE_MAX: usize = 4 * 1024 * 1024;

/// What contributes to the System Context.
pub trait ContextProducer: Send + Sync + Debug {
    /// Its key, which is that of its source, or what the keys of its sources begin with.
    fn key(&self) -> ContextKey;

    /// Looks at its sources. It is asked right before a request, and never told to look at another time.
    fn observe(&self, view: Arc<ContextView>) -> BoxFuture<'_, Vec<ContextSource>>;
}

/// A producer has this key already, or one within it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is a producer of system context already under {0}")]
pub struct DuplicateContextKey(ContextKey);

/// The producers of the System Context, by key; clones share them.
#[derive(Debug, Clone)]
pub struct ContextRegistry(Arc<Mutex<ContextProducers>>);

type ContextProducers = BTreeMap<ContextKey, Arc<dyn ContextProducer>>;

/// A registration; it ends when this is dropped, and what the producer had told is then told to be gone.
#[derive(Debug)]
#[must_use = "the producer is unregistered when this is dropped"]
pub struct ContextRegistration {
    registry: Weak<Mutex<ContextProducers>>,
    key: ContextKey,
}

impl ContextRegistration {
    /// Makes the registration last as long as its registry.
    pub fn keep(mut self) {
        self.registry = Weak::new();
    }
}

impl Drop for ContextRegistration {
    fn drop(&mut self) {
        if let Some(registry) = self.registry.upgrade() {
            registry.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.key);
        }
    }
}

impl Default for ContextRegistry {
    fn default() -> Self {
        let own = builtin::producers().into_iter().map(|producer| (producer.key(), producer));
        Self(Arc::new(Mutex::new(own.collect())))
    }
}

impl ContextRegistry {
    /// Adds a producer for as long as the registration lives.
    ///
    /// # Errors
    /// When there is one under its key.
    pub fn register(
        &self,
        producer: Arc<dyn ContextProducer>,
    ) -> Result<ContextRegistration, DuplicateContextKey> {
        let key = producer.key();
        let mut producers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(taken) = producers.keys().find(|known| known.is_within(&key) || key.is_within(known)) {
            return Err(DuplicateContextKey(taken.clone()));
        }
        producers.insert(key.clone(), producer);
        Ok(ContextRegistration { registry: Arc::downgrade(&self.0), key })
    }

    /// Looks at every source, all producers at once; what comes back is in the order of the keys, so that it is the same
    /// text whoever was faster.
    ///
    /// # Errors
    /// When what the producers give cannot be put together.
    pub(crate) async fn observe(&self, view: ContextView) -> Result<Vec<ContextSource>, Error> {
        let view = Arc::new(view);
        let producers: Vec<Arc<dyn ContextProducer>> =
            self.0.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect();
        let all = producers.iter().map(|producer| observe(producer.as_ref(), Arc::clone(&view)));
        let mut sources = Vec::new();
        for (producer, found) in producers.iter().zip(join_all(all).await) {
            let key = producer.key();
            for source in found {
                check(&key, &source)?;
                sources.push(source);
            }
        }
        sources.sort_by(|one, other| one.key.cmp(&other.key));
        let twice = sources.windows(2).find_map(|pair| match pair {
            [one, other] if one.key == other.key => Some(&one.key),
            _ => None,
        });
        match twice {
            Some(key) => Err(Error::Unavailable(format!("two sources have the key {key}"))),
            None => Ok(sources),
        }
    }
}

async fn observe(producer: &dyn ContextProducer, view: Arc<ContextView>) -> Vec<ContextSource> {
    match tokio::time::timeout(OBSERVING, producer.observe(view)).await {
        Ok(found) => found,
        Err(_) => {
            let why = format!("{} did not answer within {} seconds", producer.key(), OBSERVING.as_secs());
            vec![ContextSource::unavailable(producer.key(), why)]
        }
    }
}

/// Ensures that a source says something, and that it is its producer's own.
fn check(producer: &ContextKey, source: &ContextSource) -> Result<(), Error> {
    let key = &source.key;
    let texts = [&source.baseline, &source.update];
    let present = matches!(source.value, Observed::Present(_));
    let fault = if !key.is_within(producer) {
        format!("{producer} gave a source under {key}")
    } else if present && texts.iter().any(|text| text.trim().is_empty()) {
        format!("{key} has a value and no words for it")
    } else if texts.into_iter().chain(&source.removal).any(|text| text.len() > SOURCE_MAX) {
        format!("the text of {key} is longer than {} MiB", SOURCE_MAX / 1024 / 1024)
    } else {
        return Ok(());
    };
    Err(Error::Unavailable(fault))
}

#[cfg(test)]
mod tests {

    use super::*;

    fn source(key: ContextKey, baseline: &str, update: &str) -> ContextSource {
        ContextSource {
            key,
            value: Observed::Present(7.into()),
            baseline: baseline.to_owned(),
            update: update.to_owned(),
            removal: None,
        }
    }

    #[test]
    fn a_source_says_what_it_has_under_its_own_key_and_in_bounds() {
        let own = ContextKey::new("test/gauge").unwrap();
        let said = |baseline: &str, update: &str| source(own.clone(), baseline, update);
        let check_refused = |source: &ContextSource, expected: &str| {
            let fault = check(&own, source).unwrap_err().to_string();
            assert!(fault.contains(expected), "{fault}");
        };
        check(&own, &said("it is 7", "it is 7 now")).unwrap();
        check(&own, &source(own.of_one("left"), "it is 7", "it is 7 now")).unwrap();
        let silent = "test/gauge has a value and no words for it";
        check_refused(&said("", "it is 7 now"), silent);
        check_refused(&said("it is 7", " \n"), silent);
        let other = ContextKey::new("test/gauges").unwrap();
        check_refused(&source(other, "it is 7", "now"), "test/gauge gave a source under test/gauges");
        let long = "x".repeat(SOURCE_MAX + 1);
        let too_long = "the text of test/gauge is longer than 4 MiB";
        check_refused(&said(&long, "now"), too_long);
        check_refused(&said("it is 7", &long), too_long);
        check_refused(&ContextSource { removal: Some(long), ..said("it is 7", "now") }, too_long);
        // What is not there needs no words.
        check(&own, &ContextSource { value: Observed::Absent, ..said("", "") }).unwrap();
    }
}

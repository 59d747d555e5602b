//! Context Epochs: which one a path is in, how one begins, and what is told within it.

use everturn_model::Session;
use everturn_model::entry::Body;
use everturn_model::tree::Node;
use everturn_tools::Observed;
use serde_json::Value;

use super::snapshot::{AdmittedValue, ContextSnapshot};
use super::{AdmittedContext, ContextSource};
use crate::Error;

/// What has to be done before the next request, given what the model was told last.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ContextStep {
    /// Nothing: it knows everything.
    Unchanged,
    /// It is told what has changed.
    Updated(AdmittedContext),
    /// What has changed cannot be told; a new epoch begins.
    Replace(AdmittedContext),
    /// The same, and something that it was told cannot be seen at the moment: the epoch goes on as it is.
    Blocked,
}

/// The epoch of a path.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum PathEpoch<'n> {
    /// There is none, or it was about another folder: everything has to be told before anything else is.
    Missing,
    /// A compaction has ended it. As long as no other can begin, it goes on.
    Ended(&'n Value),
    /// It holds. The value is what the model was told last.
    Holds(&'n Value),
}

impl<'n> PathEpoch<'n> {
    /// The epoch of the path to the session's leaf.
    pub(crate) fn of(session: &Session, path: &[&'n Node]) -> Self {
        let newest = path.iter().rev().find(|node| matches!(node.entry.body, Body::Epoch { .. }));
        let Some(told) = newest.filter(|node| session.holds_epoch(&node.entry)).and_then(|_| told(path))
        else {
            return Self::Missing;
        };
        match &session.epoch {
            Some(_) => Self::Holds(told),
            None if session.compaction.is_some() => Self::Ended(told),
            // It moved away and came back.
            None => Self::Missing,
        }
    }

    /// What the model was told last, where it still counts.
    pub(crate) fn told(self) -> Option<&'n Value> {
        match self {
            Self::Missing => None,
            Self::Ended(told) | Self::Holds(told) => Some(told),
        }
    }
}

/// The part of a path that belongs to its newest epoch.
pub(super) fn newest<'a, 'n>(path: &'a [&'n Node]) -> &'a [&'n Node] {
    let begin = path.iter().rposition(|node| matches!(node.entry.body, Body::Epoch { .. }));
    begin.and_then(|begin| path.get(begin..)).unwrap_or_default()
}

/// What the model was told last in the newest epoch of a path.
fn told<'n>(path: &[&'n Node]) -> Option<&'n Value> {
    newest(path).iter().rev().find_map(|node| match &node.entry.body {
        Body::Epoch { snapshot, .. } | Body::System { snapshot: Some(snapshot), .. } => Some(snapshot),
        _ => None,
    })
}

/// The baseline of the first epoch of a conversation, or of the first in its folder.
///
/// # Errors
/// When a source is unavailable: a conversation must not begin without something that the person wants it to know.
pub(crate) fn initialize(sources: &[ContextSource]) -> Result<AdmittedContext, Error> {
    let unavailable = sources.iter().find_map(|source| match &source.value {
        Observed::Unavailable { why } => Some(why.clone()),
        Observed::Present(_) | Observed::Absent => None,
    });
    match unavailable {
        Some(why) => Err(Error::Unavailable(why)),
        None => Ok(baseline(sources)),
    }
}

/// The baseline of a new epoch in place of one in which the model was told `previous`; none while something of that cannot
/// be seen.
pub(crate) fn replace(previous: &Value, sources: &[ContextSource]) -> Option<AdmittedContext> {
    let known = ContextSnapshot::read(previous).unwrap_or_default();
    let told = |source: &ContextSource| known.0.keys().any(|key| source.covers(key));
    let blocked =
        sources.iter().any(|source| matches!(source.value, Observed::Unavailable { .. }) && told(source));
    (!blocked).then(|| baseline(sources))
}

fn baseline(sources: &[ContextSource]) -> AdmittedContext {
    let mut texts = Vec::new();
    let mut snapshot = ContextSnapshot::default();
    for source in sources {
        if let Observed::Present(value) = &source.value {
            texts.push(source.baseline.as_str());
            snapshot.0.insert(source.key.to_string(), source.admitted(value));
        }
    }
    AdmittedContext { text: texts.join("\n\n"), snapshot: snapshot.write() }
}

/// What has to be done, given what the model was told last.
pub(crate) fn reconcile(previous: &Value, sources: &[ContextSource]) -> ContextStep {
    let replaced = || replace(previous, sources).map_or(ContextStep::Blocked, ContextStep::Replace);
    let Some(mut snapshot) = ContextSnapshot::read(previous) else { return replaced() };
    let mut texts = Vec::new();
    for source in sources {
        let key = source.key.as_str();
        let text = match (&source.value, snapshot.0.get(key)) {
            (Observed::Unavailable { .. }, _) | (Observed::Absent, None) => continue,
            (Observed::Present(now), Some(before)) if *now == before.value => continue,
            (Observed::Present(_), Some(_)) => source.update.clone(),
            (Observed::Present(_), None) => source.baseline.clone(),
            (Observed::Absent, Some(before)) => {
                match source.removal.clone().or_else(|| before.removal.clone()) {
                    Some(removal) => removal,
                    None => return replaced(),
                }
            }
        };
        texts.push(text);
        match &source.value {
            Observed::Present(now) => drop(snapshot.0.insert(key.to_owned(), source.admitted(now))),
            _ => drop(snapshot.0.remove(key)),
        }
    }
    // Whose producer is gone is gone with it.
    let orphans: Vec<String> =
        snapshot.0.keys().filter(|key| !sources.iter().any(|source| source.covers(key))).cloned().collect();
    for key in orphans {
        match snapshot.0.remove(&key) {
            Some(AdmittedValue { removal: Some(removal), .. }) => texts.push(removal),
            _ => return replaced(),
        }
    }
    if texts.is_empty() {
        return ContextStep::Unchanged;
    }
    ContextStep::Updated(AdmittedContext { text: texts.join("\n\n"), snapshot: snapshot.write() })
}

#[cfg(test)]
mod tests;

//! Titles: a session that nobody named is named after its first prompt, by a small model, in the background.
//!
//! A try that fails is made again with the next turn. A name that somebody gives meanwhile stays: the store compares.

use std::collections::HashSet;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use everturn_llm::{Content, Message, ModelRequest, StreamEvent as Delta};
use everturn_model::entry::Body;
use everturn_model::part::PartKind;
use everturn_model::{Event, Session, SessionId, Tree, path};

use crate::journal::Journal;
use crate::lifecycle::Lifecycle;
use crate::models::{Models, UsableModel};
use crate::provider_call::ProviderCall;
use crate::sessions::is_default_title;
use crate::turn::AnswerMeter;
use crate::{Config, Error};

/// The longest title, in characters.
const LONGEST: usize = 100;

/// How long a title that is being made keeps the process from ending.
const GRACE: Duration = Duration::from_secs(5);

/// Names sessions in the background; clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Titles {
    journal: Journal,
    models: Models,
    lifecycle: Lifecycle,
    /// The sessions that are being named: one try at a time.
    trying: Arc<Mutex<HashSet<SessionId>>>,
}

impl Titles {
    /// Titles by a small model.
    pub(crate) fn new(journal: Journal, models: Models, lifecycle: Lifecycle) -> Self {
        Self { journal, models, lifecycle, trying: Arc::default() }
    }

    /// Names a session in the background after its first prompt, unless it has a name or is being named.
    pub(crate) fn name_later(&self, config: &Arc<Config>, session: &Session, tree: &Tree) {
        if session.parent.is_some() || !is_default_title(&session.title) {
            return;
        }
        let path = path::to(tree, session.leaf.as_ref());
        let Some(first) = path.into_iter().find(|node| matches!(node.entry.body, Body::User(_))) else {
            return;
        };
        let text: Vec<&str> = first
            .parts
            .iter()
            .filter_map(|part| match &part.kind {
                PartKind::Text { text, synthetic, .. } if *synthetic != Some(true) => Some(text.as_str()),
                _ => None,
            })
            .collect();
        let text = text.join("\n");
        if text.trim().is_empty() {
            return;
        }
        let folder = Path::new(&session.directory);
        let models = self.models.of(config);
        let Ok(chosen) = models.choose_small(session.model.as_ref(), folder) else { return };
        let agent = config.agents().named("title");
        let instructions = agent.map(|agent| agent.prompt.clone()).unwrap_or_default();
        if !self.trying().insert(session.id.clone()) {
            return;
        }
        let titles = self.clone();
        let session = session.clone();
        self.lifecycle.spawn(async move {
            let over = async {
                titles.lifecycle.closing().await;
                tokio::time::sleep(GRACE).await;
            };
            tokio::select! {
                () = over => {}
                named = titles.name(&session, &chosen, instructions, text) => if let Err(error) = named {
                    tracing::warn!(session = %session.id, error = error.to_string(), "no title was made");
                },
            }
            titles.trying().remove(&session.id);
        });
    }

    fn trying(&self) -> std::sync::MutexGuard<'_, HashSet<SessionId>> {
        self.trying.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn name(
        &self,
        session: &Session,
        chosen: &UsableModel,
        instructions: String,
        prompt: String,
    ) -> Result<(), Error> {
        let request = ModelRequest {
            origin: chosen.origin(),
            model: chosen.model.wire.to_string(),
            system: vec![instructions],
            messages: vec![Message::User(vec![Content::Text(prompt)])],
            ..ModelRequest::default()
        };
        let request = chosen.provider.prepare(request);
        let mut stream = ProviderCall::new(&session.id, chosen, &request);
        let mut title = String::new();
        let (mut meter, mut failure) = (AnswerMeter::default(), None);
        while let Some(delta) = stream.next().await {
            match delta {
                Ok(delta) => {
                    meter.follow(&delta);
                    if let Delta::TextDelta { text, .. } = delta {
                        title.push_str(&text);
                    }
                }
                Err(error) => {
                    failure = Some(Error::Invalid(error.to_string()));
                    break;
                }
            }
        }
        let mut events = Vec::new();
        // It is billed, whatever came of it.
        let tokens = meter.used(request.request()).tokens;
        if tokens.sum() > 0 {
            events.push(Event::UsageRecorded {
                source: "title".to_owned(),
                tokens,
                cost: chosen.pricing().cost(&tokens),
                model: Some(chosen.reference.clone()),
                failed: failure.is_some(),
            });
        }
        if failure.is_none()
            && let Some(title) = clean(&title)
        {
            let now = self.journal.session(&session.id).await?;
            let (entry, parent) = (self.journal.mint().entry(&now), now.leaf.clone());
            let replaces = Some(session.title.clone());
            events.push(Event::TitleChanged { entry, parent, title, replaces });
        }
        if !events.is_empty() {
            self.journal.append(&session.id, events).await?;
        }
        failure.map_or(Ok(()), Err)
    }
}

/// The first line that says something, without thoughts, cut to a length that lists can show.
fn clean(text: &str) -> Option<String> {
    let text = text.rsplit("</think>").next().unwrap_or(text);
    let line = text.lines().map(str::trim).find(|line| !line.is_empty())?;
    if line.chars().count() <= LONGEST {
        return Some(line.to_owned());
    }
    Some(line.chars().take(LONGEST - 3).chain("...".chars()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_are_one_short_line() {
        assert_eq!(clean("<think>hm</think>\n\n  A title \nmore"), Some("A title".to_owned()));
        assert_eq!(clean("  \n"), None);
        let long = clean(&"é".repeat(200)).unwrap();
        assert_eq!(long.chars().count(), 100);
        assert!(long.ends_with("..."));
    }
}

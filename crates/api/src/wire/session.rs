//! New sessions and changes of sessions, as clients ask for them.

use everturn_engine::sessions::NewSession;
use everturn_model::event::SessionChange;
use everturn_model::permission::Rule;
use everturn_model::session::ModelRef;
use everturn_model::{Map, Millis};
use serde::Deserialize;
use serde_json::Value;

use crate::error::Error;
use crate::input::session_id;

/// A new session.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Create {
    #[serde(rename = "parentID")]
    parent: Option<String>,
    title: Option<String>,
    agent: Option<String>,
    model: Option<Model>,
    permission: Option<Vec<Rule>>,
    metadata: Option<Map>,
}

/// A model as sessions name it: `id`, or as messages name it: `modelID`.
#[derive(Debug, Deserialize)]
pub(crate) struct Model {
    #[serde(rename = "providerID")]
    provider: String,
    #[serde(rename = "id", alias = "modelID")]
    model: String,
    variant: Option<String>,
}

impl From<Model> for ModelRef {
    fn from(model: Model) -> Self {
        Self { provider: model.provider, model: model.model, variant: model.variant }
    }
}

impl Model {
    /// The same model in another variant, where one is given.
    pub(crate) fn with_variant(self, variant: Option<String>) -> ModelRef {
        let variant = variant.or_else(|| self.variant.clone());
        ModelRef { variant, ..self.into() }
    }
}

impl Create {
    /// What the engine is asked for.
    pub(crate) fn into_new(self) -> Result<NewSession, Error> {
        Ok(NewSession {
            parent: self.parent.map(session_id).transpose()?,
            title: self.title,
            agent: self.agent,
            model: self.model.map(ModelRef::from),
            permission: self.permission,
            metadata: self.metadata,
            ..NewSession::default()
        })
    }
}

/// Changes of a session.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Update {
    /// A new name.
    pub(crate) title: Option<String>,
    #[serde(default, deserialize_with = "present")]
    permission: Option<Option<Vec<Rule>>>,
    #[serde(default, deserialize_with = "present")]
    metadata: Option<Option<Map>>,
    time: Option<Times>,
}

#[derive(Debug, Deserialize)]
struct Times {
    #[serde(default, deserialize_with = "present")]
    archived: Option<Option<Value>>,
}

impl Update {
    /// What changes beside the name.
    pub(crate) fn changes(self) -> Result<Vec<SessionChange>, Error> {
        let mut changes = Vec::new();
        if let Some(archived) = self.time.and_then(|time| time.archived) {
            changes.push(SessionChange::Archived { time: archived.as_ref().map(moment).transpose()? });
        }
        if let Some(rules) = self.permission {
            changes.push(SessionChange::Permission { rules });
        }
        if let Some(metadata) = self.metadata {
            changes.push(SessionChange::Metadata { metadata });
        }
        Ok(changes)
    }
}

fn moment(value: &Value) -> Result<Millis, Error> {
    let whole = value.as_i64().or_else(|| {
        let number = value.as_f64().filter(|number| number.is_finite())?;
        format!("{:.0}", number.trunc()).parse().ok()
    });
    whole.ok_or_else(|| Error::body(format!("time.archived must be milliseconds, not {value}")))
}

// Tells a field that is null from one that is left out.
fn present<'de, D: serde::Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Option<T>, D::Error> {
    T::deserialize(from).map(Some)
}

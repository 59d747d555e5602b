//! The Safe Provider-Turn Boundary: what happens between the last event and the next request.
//!
//! First the baseline, where an epoch begins; then prompts are promoted; then the model is told what has changed
//! around it since it was told last.

use std::path::Path;

use everturn_model::entry::{Body, Entry};
use everturn_model::permission::Rule;
use everturn_model::tool::{Outcome, ToolResult};
use everturn_model::{EntryId, Event, path};
use everturn_tools::instructions;
use serde_json::Value;

use super::Turn;
use crate::Error;
use crate::calls::Call;
use crate::context::{self, Source, View};
use crate::guidance::blocking;
use crate::project::Location;

impl Turn<'_> {
    /// What comes before the model: the epoch's baseline, then promotion.
    pub(super) fn open(&self, sources: &[Source]) -> Result<Vec<Event>, Error> {
        let mut events = Vec::new();
        let mut leaf = self.session().leaf.clone();
        if self.session().epoch.is_none() {
            let baseline = context::initialize(sources)?;
            let body = Body::Epoch { baseline: baseline.text, snapshot: baseline.snapshot };
            events.push(self.entry(&mut leaf, body));
        }
        for id in &self.work.promote {
            events.push(Event::PromptPromoted { id: id.clone(), parent: leaf.replace(id.clone()) });
        }
        Ok(events)
    }

    /// What has changed around the model since it was told last, as one entry behind `events`.
    pub(super) fn update(&self, sources: &[Source], events: &[Event]) -> Option<Event> {
        // A new epoch has just been told everything.
        self.session().epoch.as_ref()?;
        let path = path::to(&self.tree, self.session().leaf.as_ref());
        let change = context::reconcile(context::admitted(&path)?, sources)?;
        let mut leaf = events.iter().rev().find_map(|event| match event {
            Event::PromptPromoted { id, .. } => Some(id.clone()),
            _ => None,
        });
        leaf = leaf.or_else(|| self.session().leaf.clone());
        Some(self.entry(&mut leaf, Body::System { text: change.text, snapshot: Some(change.snapshot) }))
    }

    fn entry(&self, leaf: &mut Option<EntryId>, body: Body) -> Event {
        let id = self.engine.mint().entry(self.session());
        let parent = leaf.replace(id.clone());
        let entry = Entry::new(id, parent, self.engine.mint().now(), body);
        Event::EntryAdded { entry: Box::new(entry), parts: Vec::new() }
    }

    /// The System Context as it is now, for an agent with these rules.
    pub(super) async fn observe(&self, location: &Location, rules: Vec<Rule>) -> Result<Vec<Source>, Error> {
        let nested = if self.session().epoch.is_some() {
            let path = path::to(&self.tree, self.session().leaf.as_ref());
            context::found_beside(&path).into_iter().collect()
        } else {
            Vec::new()
        };
        let view = View {
            location: location.clone(),
            places: self.engine.places(location),
            rules,
            nested,
            now: self.engine.mint().now(),
        };
        blocking(move || context::observe(&view)).await
    }

    /// Names in the result of a read the instructions that apply to what was read and that the conversation does not
    /// know yet. The next boundary tells the model.
    pub(super) async fn name_loaded(&self, call: &Call, result: &mut ToolResult) -> Result<(), Error> {
        let named = call.input.get("filePath").and_then(Value::as_str);
        let (Some(named), "read", Outcome::Completed) = (named, call.tool.as_str(), result.outcome) else {
            return Ok(());
        };
        let location = self.engine.location(Some(&self.session().directory)).await?;
        let places = self.engine.places(&location);
        let file = location.directory.join(Path::new(named));
        let found = blocking(move || instructions::beside(&places, &file)).await?;
        let known = context::found_beside(&path::to(&self.tree, self.session().leaf.as_ref()));
        let new: Vec<Value> = found
            .iter()
            .filter(|path| !known.contains(*path))
            .map(|path| path.display().to_string().into())
            .collect();
        if !new.is_empty() {
            result.metadata.get_or_insert_default().insert("loaded".to_owned(), new.into());
        }
        Ok(())
    }
}

//! Results of calls: recorded first, then told to the model.

use std::path::Path;

use everturn_model::entry::{Body, Entry};
use everturn_model::tool::{Outcome, ToolResult};
use everturn_model::{Event, path};
use everturn_tools::instructions;
use serde_json::Value;

use super::{Turn, edits};
use crate::Error;
use crate::background::blocking;
use crate::bus::Signal;
use crate::calls::{SettledCall, ToolCall};
use crate::context::{self, PathEpoch};

impl Turn<'_> {
    /// Records a call's result; the model hears of it afterwards. Whatever the call still asks is answered with it.
    pub(super) async fn settle(&mut self, mut settled: SettledCall) -> Result<(), Error> {
        self.services.calls.withdraw_request(&self.session().id, &settled.call).await?;
        self.name_loaded(&settled.call, &mut settled.result).await?;
        edits::note_files(&mut settled);
        for file in &settled.edited {
            self.signal(Signal::FileEdited { file: file.display().to_string() });
        }
        let id = self.services.journal.mint().entry(self.session());
        let body = Body::ToolResult { result: Box::new(settled.result) };
        let entry = Entry::new(id, self.session().leaf.clone(), self.services.journal.mint().now(), body);
        self.commit(vec![Event::ToolSettled {
            entry: Box::new(entry),
            assistant: Some(settled.call.entry),
            part: Some(settled.call.part),
        }])
        .await
    }

    /// Names in the result of a read the instructions that apply to what was read and that the conversation does not
    /// know yet. The next boundary tells the model.
    async fn name_loaded(&self, call: &ToolCall, result: &mut ToolResult) -> Result<(), Error> {
        let named = call.input.get("filePath").and_then(Value::as_str);
        let (Some(named), "read", Outcome::Completed) = (named, call.tool.as_str(), result.outcome) else {
            return Ok(());
        };
        let location = self.services.projects.location(Some(&self.session().directory)).await?;
        let config = self.services.configurations.at(&location.directory).await;
        let places = self.services.guidance.places(&config, &location);
        let file = location.directory.join(Path::new(named));
        let found = blocking(move || instructions::beside(&places, &file)).await?;
        let path = path::to(&self.tree, self.session().leaf.as_ref());
        let known = context::found_beside(PathEpoch::of(self.session(), &path), &path);
        let new: Vec<Value> = found
            .iter()
            .filter(|path| known.iter().all(|nested| nested.path != **path))
            .map(|path| path.display().to_string().into())
            .collect();
        if !new.is_empty() {
            result.metadata.get_or_insert_default().insert("loaded".to_owned(), new.into());
        }
        Ok(())
    }
}

/// A call that did not finish, with the text that says why.
pub(super) fn unfinished(call: ToolCall, now: i64, words: &str) -> SettledCall {
    let result = ToolResult {
        start: Some(call.start),
        end: Some(now),
        ..ToolResult::new(&call.id, &call.tool, Outcome::Error, words)
    };
    SettledCall { call, result, declined: false, edited: Vec::new() }
}

//! Tool calls: the state machine of a call, and the result that ends it.
//!
//! ```text
//! pending → running → completed | error
//!        ↘ error (malformed, denied or interrupted before it ran)
//! ```
//! A call's part goes no further than `running`: its end is a `tool_result` entry of its own, so that a result can be on
//! one branch and absent on another. Imported calls may hold their end inline.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Extra, Map, Millis, Part};

/// What a call will make of one file, recorded before it acts: a restart can tell from the disk whether it did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileForecast {
    /// The file, as an absolute path.
    pub path: String,
    /// What its content is known by before the call; none when it is not there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// What its content is known by after the call; none when the call removes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

/// The state of a tool call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ToolState {
    /// Input is arriving.
    Pending {
        /// What is known of the input.
        #[serde(default)]
        input: Value,
        /// The text of the input so far.
        #[serde(default)]
        raw: String,
    },
    /// The call was accepted and may be at work.
    Running {
        /// The input.
        #[serde(default)]
        input: Value,
        /// A title given while it runs.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        title: Option<String>,
        /// What the tool shows while it runs.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        metadata: Option<Map>,
        /// When it began.
        start: Millis,
    },
    /// It ended well, and the result is inline.
    Completed {
        /// The input.
        #[serde(default)]
        input: Value,
        /// The result.
        result: Box<ToolResult>,
    },
    /// It failed, and the failure is inline.
    Error {
        /// The input.
        #[serde(default)]
        input: Value,
        /// The failure.
        result: Box<ToolResult>,
    },
}

/// An attempt to take a tool call where it cannot go.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a tool call that is {from} cannot become {to}")]
pub struct IllegalTransition {
    /// The state it is in.
    pub from: &'static str,
    /// The state it was to take.
    pub to: &'static str,
}

impl ToolState {
    /// The state's name on the wire.
    #[must_use]
    pub fn status(&self) -> &'static str {
        match self {
            Self::Pending { .. } => "pending",
            Self::Running { .. } => "running",
            Self::Completed { .. } => "completed",
            Self::Error { .. } => "error",
        }
    }

    /// The input as far as it is known.
    #[must_use]
    pub fn input(&self) -> &Value {
        match self {
            Self::Pending { input, .. }
            | Self::Running { input, .. }
            | Self::Completed { input, .. }
            | Self::Error { input, .. } => input,
        }
    }

    /// True when nothing can follow.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        matches!(self, Self::Completed { .. } | Self::Error { .. })
    }

    /// Takes the call to its next state.
    ///
    /// # Errors
    /// When the state machine has no such step.
    pub fn advance(&mut self, next: Self) -> Result<(), IllegalTransition> {
        let legal = matches!(
            (&*self, &next),
            (Self::Pending { .. }, Self::Pending { .. } | Self::Running { .. } | Self::Error { .. })
                | (Self::Running { .. }, Self::Running { .. } | Self::Completed { .. } | Self::Error { .. })
        );
        if !legal {
            return Err(IllegalTransition { from: self.status(), to: next.status() });
        }
        *self = next;
        Ok(())
    }
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// It did what it was asked.
    Completed,
    /// It failed, was denied or was interrupted.
    Error,
    /// The process died while it ran; whether it took effect is not known.
    Unknown,
}

/// The result of one call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolResult {
    /// The call it ends; call ids may repeat in a session.
    pub call: String,
    /// The tool's name.
    pub tool: String,
    /// How it ended.
    pub outcome: Outcome,
    /// What the model sees: the output, or the error's text.
    #[serde(default)]
    pub output: String,
    /// A short title for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What the tool says to clients.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map>,
    /// Files that came with it, as file parts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attachments: Option<Vec<Part>>,
    /// When the call began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<Millis>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<Millis>,
    /// When its output was cleared from the model's view.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compacted: Option<Millis>,
    /// What its call saw of files, by path; none for a file that was gone.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub seen: BTreeMap<String, Option<SeenFile>>,
    /// The files that its call changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub edited: Vec<String>,
    /// What is to be known of it where the provider ran the tool itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hosted: Option<Box<HostedResult>>,
    /// Fields of other programs.
    #[serde(default, skip_serializing_if = "Extra::is_empty")]
    pub extra: Extra,
}

/// What a call saw of one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeenFile {
    /// The fingerprint of its content.
    pub fingerprint: String,
    /// Whether the session knows what is in it, besides its own edits.
    pub shown: bool,
}

/// A result that came in the middle of an answer, from the provider that ran the tool itself.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct HostedResult {
    /// How many parts the answer had when it came: it goes back in the same place.
    pub place: usize,
    /// Provider metadata for replay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map>,
}

impl ToolResult {
    /// A result with an outcome and a text.
    #[must_use]
    pub fn new(call: &str, tool: &str, outcome: Outcome, output: &str) -> Self {
        Self {
            call: call.to_owned(),
            tool: tool.to_owned(),
            outcome,
            output: output.to_owned(),
            title: None,
            metadata: None,
            attachments: None,
            start: None,
            end: None,
            compacted: None,
            seen: BTreeMap::new(),
            edited: Vec::new(),
            hosted: None,
            extra: Extra::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn states() -> [ToolState; 4] {
        let result = Box::new(ToolResult::new("call_1", "bash", Outcome::Completed, "ok"));
        [
            ToolState::Pending { input: Value::Null, raw: String::new() },
            ToolState::Running { input: Value::Null, title: None, metadata: None, start: 1 },
            ToolState::Completed { input: Value::Null, result: result.clone() },
            ToolState::Error { input: Value::Null, result },
        ]
    }

    #[test]
    fn only_the_drawn_transitions_are_legal() {
        let mut legal = Vec::new();
        for from in states() {
            for to in states() {
                let mut state = from.clone();
                let (before, after) = (from.status(), to.status());
                match state.advance(to) {
                    Ok(()) => legal.push(format!("{before}>{after}")),
                    Err(error) => {
                        assert_eq!((error.from, error.to), (before, after));
                        assert_eq!(state, from, "a refused step changes nothing");
                    }
                }
            }
        }
        assert_eq!(
            legal,
            [
                "pending>pending",
                "pending>running",
                "pending>error",
                "running>running",
                "running>completed",
                "running>error"
            ]
        );
    }
}

//! The script file: what is said, step by step. `docs/scripts.md` describes it for people.
//!
//! Whatever is not in the format is refused when the file is read, with its line: a typing error that were passed over
//! would look like a model that does something else.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Error as _, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use crate::{FinishReason, Usage, ordinary_file};

/// The largest script, in bytes.
const LARGEST: u64 = 16 * 1024 * 1024;

/// Why a script cannot be played.
#[derive(Debug, thiserror::Error)]
pub enum ScriptError {
    /// The file cannot be read.
    #[error(
        "the script {} cannot be read: {source}. `scripted/<path>` takes a path from the session's folder on, or an absolute one; `scripted/demo` is built in",
        path.display()
    )]
    Unreadable {
        /// Where it was looked for.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It is not a script.
    #[error("the script {} cannot be played: {source}. Correct it there and ask again", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// What is wrong with it, and in which line.
        source: serde_json::Error,
    },
}

/// A script: an object, or just the list of its steps.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Script {
    /// The title that the session gets; without one it is called after its prompt.
    pub title: Option<String>,
    /// Milliseconds before each piece.
    pub pace: u64,
    /// The steps.
    pub steps: Vec<ScriptStep>,
}

impl Script {
    /// Reads a script from a text.
    ///
    /// # Errors
    ///
    /// What is wrong with it, and in which line.
    pub fn parse(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }

    /// Reads a script from a file.
    ///
    /// # Errors
    ///
    /// When the file cannot be read, or is not a script.
    pub fn read(path: &Path) -> Result<Self, ScriptError> {
        let unreadable = |source| ScriptError::Unreadable { path: path.to_owned(), source };
        let text = ordinary_file::read_text(path, LARGEST).map_err(unreadable)?;
        Self::parse(&text).map_err(|source| ScriptError::Invalid { path: path.to_owned(), source })
    }
}

/// One model step.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ScriptStep {
    /// Words of the prompts that it is for; it is for all of them without.
    pub when: Option<String>,
    /// Milliseconds before it begins.
    pub pause: u64,
    /// Milliseconds before each piece, where that is not the script's.
    pub pace: Option<u64>,
    /// What the model thinks first.
    pub reasoning: Option<ScriptText>,
    /// Tools that the provider runs itself.
    pub hosted: Vec<ScriptHostedTool>,
    /// What the model says.
    pub text: Option<ScriptText>,
    /// The tools it calls then.
    pub tools: Vec<ScriptCall>,
    /// What it used; a rough count without.
    pub usage: Option<ScriptUsage>,
    /// Why it stops, where that does not follow from the rest.
    pub finish: Option<ScriptFinish>,
    /// How it fails.
    pub error: Option<ScriptFailure>,
}

/// Text or reasoning: a string, or an object with what is to come back with it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ScriptText {
    /// The text.
    pub text: String,
    /// What the model wants back verbatim.
    pub metadata: Option<Map<String, Value>>,
}

impl From<String> for ScriptText {
    fn from(text: String) -> Self {
        Self { text, metadata: None }
    }
}

/// A tool call in a step.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(try_from = "WrittenCall")]
pub struct ScriptCall {
    /// The tool's name.
    pub name: String,
    /// Its arguments.
    pub input: Map<String, Value>,
    /// The arguments as text instead, which may be wrong.
    pub raw: Option<String>,
    /// What the model wants back verbatim.
    pub metadata: Option<Map<String, Value>>,
}

/// A tool that the provider runs itself.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ScriptHostedTool {
    /// The tool's name.
    pub name: String,
    /// Its arguments.
    #[serde(default)]
    pub input: Map<String, Value>,
    /// What came of it; without, the answer pauses for it.
    pub output: Option<Value>,
    /// Whether it failed.
    #[serde(default)]
    pub failed: bool,
    /// What the model wants back verbatim with the call.
    pub metadata: Option<Map<String, Value>>,
    /// What the model wants back verbatim with the result.
    pub result_metadata: Option<Map<String, Value>>,
}

/// Tokens, in disjoint counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct ScriptUsage {
    /// Prompt tokens that no cache had.
    pub input: u64,
    /// Visible output.
    pub output: u64,
    /// Reasoning.
    pub reasoning: u64,
    /// Read from a cache.
    pub cache_read: u64,
    /// Written to a cache.
    pub cache_write: u64,
}

impl From<ScriptUsage> for Usage {
    fn from(used: ScriptUsage) -> Self {
        let ScriptUsage { input, output, reasoning, cache_read, cache_write } = used;
        let total = [output, reasoning, cache_read, cache_write].into_iter().fold(input, u64::saturating_add);
        Self { input, output, reasoning, cache_read, cache_write, total: Some(total) }
    }
}

/// Why a step stops, in the words of stored sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ScriptFinish {
    /// It is done.
    Stop,
    /// It made a pause and goes on when it is asked again.
    Paused,
    /// The output limit was reached.
    Length,
    /// It waits for its tools.
    ToolCalls,
    /// It was refused.
    ContentFilter,
    /// The provider failed.
    Error,
    /// Nobody knows.
    Unknown,
}

impl From<ScriptFinish> for FinishReason {
    fn from(finish: ScriptFinish) -> Self {
        match finish {
            ScriptFinish::Stop => Self::Stop,
            ScriptFinish::Paused => Self::Paused,
            ScriptFinish::Length => Self::Length,
            ScriptFinish::ToolCalls => Self::ToolCalls,
            ScriptFinish::ContentFilter => Self::ContentFilter,
            ScriptFinish::Error => Self::Error,
            ScriptFinish::Unknown => Self::Unknown,
        }
    }
}

/// How a step fails.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(try_from = "WrittenFailure")]
pub struct ScriptFailure {
    /// What goes wrong.
    pub fault: ScriptFault,
    /// The words for it.
    pub message: Option<String>,
    /// How many pieces come before it.
    pub after: Option<usize>,
    /// How many tries of the same request fail; all of them without.
    pub times: Option<u64>,
}

/// What goes wrong.
#[derive(Debug, Clone, PartialEq)]
pub enum ScriptFault {
    /// The provider answers with an error.
    Status {
        /// The HTTP status.
        status: u16,
        /// The provider's own word for it.
        kind: Option<String>,
        /// How many seconds it asks to wait.
        retry_after: Option<f64>,
    },
    /// The connection breaks or is not made.
    Transport,
    /// The answer ends without its last event.
    Incomplete,
    /// A piece of the answer cannot be read.
    Malformed,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenCall {
    name: String,
    input: Option<Map<String, Value>>,
    raw: Option<String>,
    metadata: Option<Map<String, Value>>,
}

impl TryFrom<WrittenCall> for ScriptCall {
    type Error = &'static str;

    fn try_from(written: WrittenCall) -> Result<Self, Self::Error> {
        let WrittenCall { name, input, raw, metadata } = written;
        if input.is_some() && raw.is_some() {
            return Err("a call has `input` or `raw`, not both");
        }
        Ok(Self { name, input: input.unwrap_or_default(), raw, metadata })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct WrittenFailure {
    status: Option<u16>,
    kind: Option<BreakPoint>,
    r#type: Option<String>,
    retry_after: Option<f64>,
    message: Option<String>,
    after: Option<usize>,
    times: Option<u64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum BreakPoint {
    Transport,
    Incomplete,
    Malformed,
}

impl TryFrom<WrittenFailure> for ScriptFailure {
    type Error = &'static str;

    fn try_from(written: WrittenFailure) -> Result<Self, Self::Error> {
        let WrittenFailure { status, kind, r#type, retry_after, message, after, times } = written;
        let fault = match (status, kind) {
            (Some(status @ 400..=599), None) => ScriptFault::Status { status, kind: r#type, retry_after },
            (Some(_), None) => return Err("the `status` of an error is from 400 to 599"),
            (None, Some(_)) if r#type.is_some() || retry_after.is_some() => {
                return Err("`type` and `retryAfter` go with a `status`");
            }
            (None, Some(BreakPoint::Transport)) => ScriptFault::Transport,
            (None, Some(BreakPoint::Incomplete)) => ScriptFault::Incomplete,
            (None, Some(BreakPoint::Malformed)) => ScriptFault::Malformed,
            (Some(_), Some(_)) | (None, None) => return Err("an error has a `status` or a `kind`"),
        };
        Ok(Self { fault, message, after, times })
    }
}

impl<'de> Deserialize<'de> for Script {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct ScriptObject {
            title: Option<String>,
            #[serde(default)]
            pace: u64,
            steps: Vec<ScriptStep>,
        }

        // Not an untagged enum: that forgets the line of a mistake.
        struct ScriptVisitor;

        impl<'de> Visitor<'de> for ScriptVisitor {
            type Value = Script;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of steps, or an object with the list under `steps`")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Script, A::Error> {
                let steps = Vec::deserialize(SeqAccessDeserializer::new(list))?;
                Ok(Script { steps, ..Script::default() })
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Script, A::Error> {
                let ScriptObject { title, pace, steps } =
                    ScriptObject::deserialize(MapAccessDeserializer::new(map))?;
                Ok(Script { title, pace, steps })
            }
        }

        deserializer.deserialize_any(ScriptVisitor)
    }
}

impl<'de> Deserialize<'de> for ScriptText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct TextObject {
            text: String,
            metadata: Option<Map<String, Value>>,
        }

        struct TextVisitor;

        impl<'de> Visitor<'de> for TextVisitor {
            type Value = ScriptText;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text, or an object with `text` and `metadata`")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<ScriptText, E> {
                Ok(text.to_owned().into())
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<ScriptText, A::Error> {
                let TextObject { text, metadata } = TextObject::deserialize(MapAccessDeserializer::new(map))?;
                if text.is_empty() && metadata.is_none() {
                    return Err(A::Error::custom("there is neither text nor metadata"));
                }
                Ok(ScriptText { text, metadata })
            }
        }

        deserializer.deserialize_any(TextVisitor)
    }
}

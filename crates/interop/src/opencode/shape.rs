//! Small values that several OpenCode shapes share: tokens, amounts, models, moments, words, file changes.
//!
//! Each `read_*` takes what it can and says whether writing the result gives the value back; when it does not, the
//! caller keeps the value as it came.

use everturn_model::entry::UserSummary;
use everturn_model::finish::{Finish, Trigger};
use everturn_model::part::Span;
use everturn_model::permission::Rule;
use everturn_model::session::{FileDiff, ModelRef, Summary};
use everturn_model::usage::Cache;
use everturn_model::{Map, Millis, Money, Tokens};
use serde::Serialize;
use serde_json::Value;

/// A value that was read, and whether nothing of it is lost.
pub(super) type ReadValue<T> = (T, bool);

/// An object from its fields, in order.
pub(super) fn object<const N: usize>(fields: [(&str, Value); N]) -> Map {
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Puts a field in.
pub(super) fn put(map: &mut Map, key: &str, value: impl Into<Value>) {
    map.insert(key.to_owned(), value.into());
}

/// Puts a field in where there is one.
pub(super) fn put_some<T: Into<Value>>(map: &mut Map, key: &str, value: Option<T>) {
    if let Some(value) = value {
        put(map, key, value);
    }
}

pub(super) fn money(amount: Money) -> Value {
    amount.to_json()
}

pub(super) fn read_money(value: &Value) -> ReadValue<Money> {
    match value {
        Value::Number(number) if number.as_u64() == Some(0) => (Money::ZERO, true),
        Value::Number(number) => {
            let amount = Money::from_f64(number.as_f64().unwrap_or_default());
            (amount, &amount.to_json() == value)
        }
        _ => (Money::ZERO, false),
    }
}

pub(super) fn tokens(tokens: &Tokens) -> Value {
    let mut map = Map::new();
    put_some(&mut map, "total", tokens.total);
    put(&mut map, "input", tokens.input);
    put(&mut map, "output", tokens.output);
    put(&mut map, "reasoning", tokens.reasoning);
    put(
        &mut map,
        "cache",
        object([("read", tokens.cache.read.into()), ("write", tokens.cache.write.into())]),
    );
    map.into()
}

pub(super) fn read_tokens(value: &Value) -> ReadValue<Tokens> {
    let Some(map) = value.as_object() else { return (Tokens::default(), false) };
    let count = |map: &Map, key: &str| map.get(key).and_then(Value::as_u64);
    let own = ["total", "input", "output", "reasoning"].map(|key| count(map, key));
    let cache = map.get("cache").and_then(Value::as_object);
    let cached = ["read", "write"].map(|key| cache.and_then(|cache| count(cache, key)));
    let [total, input, output, reasoning] = own;
    let [read, write] = cached;
    let exact = [input, output, reasoning, read, write].iter().all(Option::is_some)
        && map.len() == 4 + usize::from(total.is_some())
        && cache.is_some_and(|cache| cache.len() == 2);
    let tokens = Tokens {
        total,
        input: input.unwrap_or_default(),
        output: output.unwrap_or_default(),
        reasoning: reasoning.unwrap_or_default(),
        cache: Cache { read: read.unwrap_or_default(), write: write.unwrap_or_default() },
    };
    (tokens, exact)
}

/// The key under which a shape keeps a model's own id.
#[derive(Debug, Clone, Copy)]
pub(super) enum ModelKey {
    /// Messages: `modelID`.
    ModelId,
    /// Sessions, and V2: `id`.
    Id,
}

impl ModelKey {
    fn name(self) -> &'static str {
        match self {
            Self::ModelId => "modelID",
            Self::Id => "id",
        }
    }
}

/// A model as messages name it.
#[derive(Debug, Serialize)]
pub(super) struct Model<'a> {
    /// The provider's id.
    #[serde(rename = "providerID")]
    pub(super) provider: &'a str,
    /// The model's own.
    #[serde(rename = "modelID")]
    pub(super) model: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    variant: Option<&'a str>,
}

impl<'a> Model<'a> {
    /// The model, or one without a name where there is none: every message has one.
    pub(super) fn of(found: Option<&'a ModelRef>) -> Self {
        Self {
            provider: found.map(|model| model.provider.as_str()).unwrap_or_default(),
            model: found.map(|model| model.model.as_str()).unwrap_or_default(),
            variant: found.and_then(|model| model.variant.as_deref()),
        }
    }
}

pub(super) fn model(model: &ModelRef, key: ModelKey) -> Value {
    let mut map = match key {
        ModelKey::ModelId => {
            object([("providerID", model.provider.as_str().into()), ("modelID", model.model.as_str().into())])
        }
        ModelKey::Id => {
            object([("id", model.model.as_str().into()), ("providerID", model.provider.as_str().into())])
        }
    };
    put_some(&mut map, "variant", model.variant.as_deref());
    map.into()
}

pub(super) fn read_model(value: &Value, key: ModelKey) -> Option<ReadValue<ModelRef>> {
    let map = value.as_object()?;
    let text = |key: &str| map.get(key).and_then(Value::as_str).map(str::to_owned);
    let model =
        ModelRef { provider: text("providerID")?, model: text(key.name())?, variant: text("variant") };
    let exact = map.len() == 2 + usize::from(model.variant.is_some());
    Some((model, exact))
}

pub(super) fn read_span(value: &Value) -> Option<ReadValue<Span>> {
    let map = value.as_object()?;
    let span = Span { start: millis(map, "start")?, end: millis(map, "end") };
    Some((span, map.len() == 1 + usize::from(span.end.is_some())))
}

/// A moment in an object.
pub(super) fn millis(map: &Map, key: &str) -> Option<Millis> {
    map.get(key).and_then(Value::as_i64)
}

/// A text in an object.
pub(super) fn text<'a>(map: &'a Map, key: &str) -> Option<&'a str> {
    map.get(key).and_then(Value::as_str)
}

/// The word for why a model stopped, the same in V1 and V2.
pub(super) fn finish(finish: &Finish) -> &str {
    match finish {
        Finish::Stop => "stop",
        Finish::ToolCalls => "tool-calls",
        // Clients take what they do not know for the end.
        Finish::Paused | Finish::Unknown => "unknown",
        Finish::Length => "length",
        Finish::ContentFilter => "content-filter",
        Finish::Error => "error",
        Finish::Aborted => "aborted",
        Finish::Imported(word) => word,
    }
}

pub(super) fn read_finish(word: String) -> Finish {
    match word.as_str() {
        "stop" => Finish::Stop,
        "tool-calls" => Finish::ToolCalls,
        "length" => Finish::Length,
        "content-filter" => Finish::ContentFilter,
        "error" => Finish::Error,
        "aborted" => Finish::Aborted,
        "unknown" => Finish::Unknown,
        _ => Finish::Imported(word),
    }
}

/// The word for what made a compaction begin.
pub(super) fn trigger(trigger: Option<&Trigger>) -> &str {
    match trigger {
        None | Some(Trigger::Auto) => "auto",
        Some(Trigger::Manual) => "manual",
        Some(Trigger::Imported(word)) => word,
    }
}

pub(super) fn read_trigger(word: &str) -> Trigger {
    match word {
        "auto" => Trigger::Auto,
        "manual" => Trigger::Manual,
        other => Trigger::Imported(other.to_owned()),
    }
}

pub(super) fn diffs(list: &[FileDiff]) -> Value {
    serde_json::to_value(list).unwrap_or_default()
}

/// Changes to files, or the value as it came when one of them lacks what every change has.
pub(super) fn read_diffs(value: Value) -> Result<Vec<FileDiff>, Value> {
    let Value::Array(list) = value else { return Err(value) };
    if list.iter().all(is_diff) { Ok(list.into_iter().map(read_diff).collect()) } else { Err(list.into()) }
}

fn is_diff(value: &Value) -> bool {
    value.as_object().is_some_and(|map| {
        text(map, "file").is_some()
            && ["additions", "deletions"].iter().all(|key| map.get(*key).is_some_and(Value::is_u64))
            && ["patch", "status"].iter().all(|key| map.get(*key).is_none_or(Value::is_string))
    })
}

fn read_diff(value: Value) -> FileDiff {
    let mut diff = FileDiff {
        file: String::new(),
        patch: None,
        additions: 0,
        deletions: 0,
        status: None,
        extra: Map::new(),
    };
    let Value::Object(map) = value else { return diff };
    for (key, value) in map {
        match (key.as_str(), value) {
            ("file", Value::String(file)) => diff.file = file,
            ("patch", Value::String(patch)) => diff.patch = Some(patch),
            ("status", Value::String(status)) => diff.status = Some(status.into()),
            ("additions", value) => diff.additions = value.as_u64().unwrap_or_default(),
            ("deletions", value) => diff.deletions = value.as_u64().unwrap_or_default(),
            (_, value) => drop(diff.extra.insert(key, value)),
        }
    }
    diff
}

/// What came of a prompt, as messages tell it.
#[derive(Debug, Serialize)]
pub(super) struct UserSummaryView<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<&'a str>,
    diffs: &'a [FileDiff],
    #[serde(flatten)]
    extra: &'a Map,
}

impl<'a> UserSummaryView<'a> {
    /// What came of a prompt.
    pub(super) fn of(summary: &'a UserSummary) -> Self {
        Self {
            title: summary.title.as_deref(),
            body: summary.body.as_deref(),
            diffs: &summary.diffs,
            extra: &summary.extra,
        }
    }
}

/// What came of a prompt; the value itself where it has another shape.
pub(super) fn read_user_summary(value: Value) -> Result<UserSummary, Value> {
    let Value::Object(mut map) = value else { return Err(value) };
    let diffs = match map.remove("diffs").map(read_diffs) {
        Some(Ok(diffs)) => diffs,
        Some(Err(raw)) => {
            map.insert("diffs".to_owned(), raw);
            return Err(map.into());
        }
        None => return Err(map.into()),
    };
    let mut summary = UserSummary { diffs, ..UserSummary::default() };
    for (key, value) in map {
        match (key.as_str(), value) {
            ("title", Value::String(title)) => summary.title = Some(title),
            ("body", Value::String(body)) => summary.body = Some(body),
            (_, value) => drop(summary.extra.insert(key, value)),
        }
    }
    Ok(summary)
}

pub(super) fn read_summary(value: &Value) -> Option<Summary> {
    let map = value.as_object()?;
    let count = |key: &str| map.get(key).and_then(Value::as_u64);
    Some(Summary {
        additions: count("additions")?,
        deletions: count("deletions")?,
        files: count("files")?,
        diffs: map.get("diffs").cloned().and_then(|diffs| read_diffs(diffs).ok()),
    })
}

/// The rules in a list; one that cannot be read is left out here.
pub(super) fn read_rules(value: &Value) -> Option<Vec<Rule>> {
    let list = value.as_array()?;
    Some(list.iter().filter_map(|rule| serde_json::from_value(rule.clone()).ok()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_to_stop_has_its_word_in_both_directions() {
        let reasons = [
            (Finish::Stop, "stop"),
            (Finish::ToolCalls, "tool-calls"),
            (Finish::Length, "length"),
            (Finish::ContentFilter, "content-filter"),
            (Finish::Error, "error"),
            (Finish::Aborted, "aborted"),
            (Finish::Unknown, "unknown"),
            (Finish::Imported("end_turn".to_owned()), "end_turn"),
        ];
        for (reason, word) in reasons {
            assert_eq!(finish(&reason), word);
            assert_eq!(read_finish(word.to_owned()), reason);
        }
    }
}

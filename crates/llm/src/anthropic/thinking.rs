//! How much a model thinks, in the words that it understands.
//!
//! A budget is sent as a budget, and an effort as an effort, wherever the model takes it. Where it does not, one is
//! made of the other by [`BUDGETS`]. A budget that the caller named raises the output limit if there is no room for
//! it; one that was made of an effort is ours and keeps within the limit instead.

use serde_json::{Value, json};

use super::model::{ClaudeModel, ThinkingControl};
use crate::{Effort, Reasoning};

/// The smallest budget that is accepted.
const MIN_BUDGET: u64 = 1_024;

/// The output limit where none is asked for: the protocol demands one.
const DEFAULT_LIMIT: u64 = 4_096;

/// Efforts and the budgets that stand for them.
const BUDGETS: [(Effort, u64); 5] = [
    (Effort::Minimal, MIN_BUDGET),
    (Effort::Low, 4_096),
    (Effort::Medium, 8_192),
    (Effort::High, 16_384),
    (Effort::Max, 32_000),
];

/// What a request says about thinking.
#[derive(Debug, PartialEq)]
pub(super) struct Thinking {
    /// The field `thinking`.
    pub(super) config: Option<Value>,
    /// The field `output_config.effort`.
    pub(super) effort: Option<&'static str>,
    /// The field `max_tokens`: thoughts count against it.
    pub(super) max_tokens: u64,
    /// Whether the model will think, so that other fields have to give way.
    pub(super) on: bool,
}

/// What to say to this model. `budget_fits` is whether the conversation is at a point where a budget is accepted.
pub(super) fn plan(
    model: ClaudeModel,
    reasoning: Reasoning,
    max_output: Option<u64>,
    budget_fits: bool,
) -> Thinking {
    let limit = max_output.unwrap_or(DEFAULT_LIMIT);
    let unsaid = Thinking { config: None, effort: None, max_tokens: limit, on: model.thinks_unasked() };
    let effort = match (reasoning.effort, reasoning.budget) {
        (None, None) => return unsaid,
        (Some(Effort::None), _) | (_, Some(0)) => return silent(model, unsaid),
        (Some(effort), _) => effort,
        (None, Some(budget)) => effort_for(budget),
    };
    let adaptive = |config: Value| Thinking {
        config: Some(config),
        effort: Some(effort_name(effort)),
        max_tokens: limit,
        on: true,
    };
    match (model.control(), reasoning.budget) {
        // These models keep their thoughts to themselves unless a summary is asked for.
        (ThinkingControl::Effort, _) => adaptive(json!({"type": "adaptive", "display": "summarized"})),
        (ThinkingControl::Either, None) => adaptive(json!({"type": "adaptive"})),
        (ThinkingControl::Either | ThinkingControl::Budget, _) if !budget_fits => unsaid,
        (ThinkingControl::Either | ThinkingControl::Budget, given) => {
            budgeted(given, effort, max_output, limit)
        }
    }
}

fn silent(model: ClaudeModel, unsaid: Thinking) -> Thinking {
    match (model.thinks_unasked(), model.can_be_silenced()) {
        (false, _) => unsaid,
        (true, true) => Thinking { config: Some(json!({"type": "disabled"})), on: false, ..unsaid },
        (true, false) => Thinking { effort: Some("low"), ..unsaid },
    }
}

fn budgeted(given: Option<u64>, effort: Effort, max_output: Option<u64>, limit: u64) -> Thinking {
    let budget = match (given, max_output) {
        (Some(budget), _) => budget,
        (None, None) => budget_for(effort),
        // A quarter is left for the answer.
        (None, Some(limit)) => budget_for(effort).min(limit.saturating_sub(limit / 4)),
    };
    let budget = budget.max(MIN_BUDGET);
    let max_tokens = if budget < limit { limit } else { budget.saturating_add(limit.max(1)) };
    let config = Some(json!({"type": "enabled", "budget_tokens": budget}));
    Thinking { config, effort: None, max_tokens, on: true }
}

/// The word for an effort. There is none below `low`.
fn effort_name(effort: Effort) -> &'static str {
    match effort {
        Effort::None | Effort::Minimal | Effort::Low => "low",
        Effort::Medium => "medium",
        Effort::High => "high",
        Effort::Max => "max",
    }
}

fn budget_for(effort: Effort) -> u64 {
    BUDGETS.iter().find(|(name, _)| *name == effort).map_or(MIN_BUDGET, |(_, budget)| *budget)
}

/// The least effort whose budget is enough.
fn effort_for(budget: u64) -> Effort {
    BUDGETS.iter().find(|(_, enough)| budget <= *enough).map_or(Effort::Max, |(effort, _)| *effort)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(
        model: &str,
        (effort, budget): (Option<Effort>, Option<u64>),
        max_output: Option<u64>,
        expected: (Value, Option<&'static str>, u64, bool),
    ) {
        let (config, effort_name, max_tokens, on) = expected;
        let expected =
            Thinking { config: (!config.is_null()).then_some(config), effort: effort_name, max_tokens, on };
        assert_eq!(plan(ClaudeModel::of(model), Reasoning { effort, budget }, max_output, true), expected);
    }

    fn budget(tokens: u64) -> Value {
        json!({"type": "enabled", "budget_tokens": tokens})
    }

    #[test]
    fn budgets_for_older_models() {
        let old = "claude-sonnet-4-5";
        check(old, (None, None), None, (Value::Null, None, 4_096, false));
        check(old, (Some(Effort::None), Some(5_000)), Some(9), (Value::Null, None, 9, false));
        check(old, (None, Some(0)), None, (Value::Null, None, 4_096, false));
        check(old, (None, Some(5)), None, (budget(1_024), None, 4_096, true));
        check(old, (None, Some(2_000)), Some(4_000), (budget(2_000), None, 4_000, true));
        check(old, (Some(Effort::Low), Some(8_000)), Some(4_000), (budget(8_000), None, 12_000, true));
        check(old, (Some(Effort::Medium), None), None, (budget(8_192), None, 12_288, true));
        check(old, (Some(Effort::High), None), Some(8_000), (budget(6_000), None, 8_000, true));
        check(old, (Some(Effort::Max), None), Some(64_000), (budget(32_000), None, 64_000, true));
        check(old, (Some(Effort::Max), None), Some(100), (budget(1_024), None, 1_124, true));
        check(old, (None, Some(u64::MAX)), None, (budget(u64::MAX), None, u64::MAX, true));
    }

    #[test]
    fn efforts_for_newer_models() {
        let adaptive = || json!({"type": "adaptive", "display": "summarized"});
        let both = "claude-opus-4-6";
        check(
            both,
            (Some(Effort::High), None),
            None,
            (json!({"type": "adaptive"}), Some("high"), 4_096, true),
        );
        check(both, (Some(Effort::High), Some(2_000)), None, (budget(2_000), None, 4_096, true));
        let new = "claude-opus-4-7";
        check(new, (Some(Effort::Minimal), None), Some(9), (adaptive(), Some("low"), 9, true));
        check(new, (None, Some(8_000)), None, (adaptive(), Some("medium"), 4_096, true));
        check(new, (Some(Effort::Max), Some(8_000)), None, (adaptive(), Some("max"), 4_096, true));
        check(new, (None, Some(90_000)), None, (adaptive(), Some("max"), 4_096, true));
        check(new, (Some(Effort::None), None), None, (Value::Null, None, 4_096, false));
    }

    #[test]
    fn models_that_think_unasked() {
        let none = (Some(Effort::None), None);
        check("claude-sonnet-5", (None, None), None, (Value::Null, None, 4_096, true));
        check("claude-sonnet-5", none, None, (json!({"type": "disabled"}), None, 4_096, false));
        check("claude-opus-5-5", none, None, (Value::Null, Some("low"), 4_096, true));
    }

    #[test]
    fn a_budget_that_does_not_fit_is_left_out() {
        let reasoning = Reasoning { effort: None, budget: Some(2_000) };
        let thinking = plan(ClaudeModel::of("claude-sonnet-4-5"), reasoning, None, false);
        assert_eq!(thinking, Thinking { config: None, effort: None, max_tokens: 4_096, on: false });
    }
}

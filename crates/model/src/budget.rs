//! Budgets: what a session, with those that belong to it, or a project may use up before a person is asked.
//!
//! The pause is a request without a call, and the answer is all that is needed to go on: the fold keeps in the session what
//! it was granted beyond its budget. Amounts of money are whole billionths of a dollar here.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Money;
use crate::request::{Ask, Request};

/// The permission under which a person is asked whether work goes on although a budget is used up. It belongs to no call, and
/// no rule decides about it.
pub const BUDGET: &str = "budget";

/// Where in the metadata of such a request it says what it is about.
const FIELD: &str = "budget";

/// What has a budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BudgetScope {
    /// A session with those that work for it.
    Session,
    /// All sessions of a project.
    Project,
}

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BudgetMeasure {
    /// Provider Turns.
    Steps,
    /// Tokens of all kinds.
    Tokens,
    /// Money, in billionths of a dollar.
    Cost,
}

/// A budget that is used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct BudgetPause {
    /// Whose budget.
    pub scope: BudgetScope,
    /// Of what.
    pub measure: BudgetMeasure,
    /// What was used.
    pub spent: u64,
    /// What was there to be used, with all that was granted.
    pub limit: u64,
    /// What one more answer lets be used from now on.
    pub allowance: u64,
}

/// What a person has granted a session beyond a budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct BudgetGrant {
    /// Whose budget.
    pub scope: BudgetScope,
    /// Of what.
    pub measure: BudgetMeasure,
    /// How much more; none where there is no limit any more.
    #[serde(default)]
    pub more: Option<u64>,
}

impl BudgetPause {
    /// What a person is asked.
    #[must_use]
    pub fn ask(&self) -> Ask {
        let subject = vec![format!("{} {}", self.scope, self.measure)];
        let mut metadata = crate::Map::new();
        metadata.insert(FIELD.to_owned(), serde_json::to_value(self).unwrap_or_default());
        let more = self.measure.words(self.allowance);
        metadata.insert("note".to_owned(), Value::String(format!("{self} Shall it go on with {more} more?")));
        Ask::Permission {
            permission: BUDGET.to_owned(),
            patterns: subject.clone(),
            always: subject,
            metadata,
        }
    }

    /// What is granted beyond the limit by one more answer: the last turn may have gone beyond it by any amount.
    #[must_use]
    pub fn granted(&self) -> u64 {
        self.spent.saturating_sub(self.limit).saturating_add(self.allowance)
    }

    /// The budget that a request is about; none for every other request.
    #[must_use]
    pub fn of(request: &Request) -> Option<Self> {
        match &request.ask {
            // A server of another program may have a tool of this name: what it asks for has a call.
            Ask::Permission { permission, metadata, .. }
                if request.call.is_none() && permission == BUDGET =>
            {
                serde_json::from_value(metadata.get(FIELD)?.clone()).ok()
            }
            Ask::Permission { .. } | Ask::Question { .. } => None,
        }
    }
}

/// Adds what was granted to what was granted before.
pub(crate) fn grant(granted: &mut Vec<BudgetGrant>, pause: &BudgetPause, more: Option<u64>) {
    let BudgetPause { scope, measure, .. } = *pause;
    match granted.iter_mut().find(|grant| grant.scope == scope && grant.measure == measure) {
        Some(grant) => {
            grant.more = grant.more.zip(more).map(|(before, more)| before.saturating_add(more));
        }
        None => granted.push(BudgetGrant { scope, measure, more }),
    }
}

impl BudgetMeasure {
    fn words(self, amount: u64) -> String {
        match self {
            Self::Cost => Money::from_nanos(i64::try_from(amount).unwrap_or(i64::MAX)).to_string(),
            Self::Steps | Self::Tokens => amount.to_string(),
        }
    }
}

impl fmt::Display for BudgetScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Session => "session",
            Self::Project => "project",
        })
    }
}

impl fmt::Display for BudgetMeasure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Steps => "steps",
            Self::Tokens => "tokens",
            Self::Cost => "cost",
        })
    }
}

impl fmt::Display for BudgetPause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = |amount| self.measure.words(amount);
        let Self { scope, measure, .. } = self;
        write!(
            f,
            "The budget of the {scope} is used up: {} of {} ({measure}).",
            words(self.spent),
            words(self.limit),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::CallRef;

    #[test]
    fn a_request_says_which_budget_it_is_about() {
        let pause = BudgetPause {
            scope: BudgetScope::Session,
            measure: BudgetMeasure::Cost,
            spent: 5_020_000_000,
            limit: 5_000_000_000,
            allowance: 2_500_000_000,
        };
        let mut request = Request::new("per_1".into(), 17, pause.ask(), None);
        assert_eq!(BudgetPause::of(&request), Some(pause));
        let Ask::Permission { patterns, metadata, .. } = &request.ask else { panic!("{request:?}") };
        assert_eq!(patterns, &["session cost"]);
        assert_eq!(
            metadata["note"],
            "The budget of the session is used up: $5.0200 of $5.0000 (cost). Shall it go on with $2.5000 more?"
        );
        let call = CallRef { entry: "msg_1".into(), call: "call_1".to_owned(), part: None };
        request.call = Some(call);
        assert_eq!(BudgetPause::of(&request), None, "a tool of that name asks for something else");
    }

    #[test]
    fn once_more_is_the_allowance_however_far_the_last_turn_went() {
        let dollars = |dollars: u64| dollars * 1_000_000_000;
        let pause = |spent, limit| BudgetPause {
            scope: BudgetScope::Session,
            measure: BudgetMeasure::Cost,
            spent: dollars(spent),
            limit: dollars(limit),
            allowance: dollars(1),
        };
        let far = pause(39, 1);
        let Ask::Permission { metadata, .. } = far.ask() else { panic!("{far:?}") };
        let note = metadata["note"].as_str().unwrap_or_default();
        assert!(note.ends_with("$39.0000 of $1.0000 (cost). Shall it go on with $1.0000 more?"), "{note}");
        assert_eq!(far.limit + far.granted(), dollars(40));
        assert_eq!(pause(1, 1).granted(), dollars(1));
        // What is asked about was used up: less than that grants no less.
        assert_eq!(pause(0, 1).granted(), dollars(1));
    }

    #[test]
    fn grants_add_up_until_there_is_no_limit() {
        let pause = |measure| BudgetPause {
            scope: BudgetScope::Session,
            measure,
            spent: 10,
            limit: 10,
            allowance: 10,
        };
        let mut granted = Vec::new();
        for (measure, more) in [
            (BudgetMeasure::Steps, Some(10)),
            (BudgetMeasure::Tokens, Some(3)),
            (BudgetMeasure::Steps, Some(7)),
            (BudgetMeasure::Tokens, None),
            (BudgetMeasure::Tokens, Some(1)),
        ] {
            grant(&mut granted, &pause(measure), more);
        }
        let of = |measure, more| BudgetGrant { scope: BudgetScope::Session, measure, more };
        assert_eq!(granted, [of(BudgetMeasure::Steps, Some(17)), of(BudgetMeasure::Tokens, None)]);
    }
}

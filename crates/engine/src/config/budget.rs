//! Budgets as they are configured: what a session or a project may use up before a person is asked.
//!
//! `{"session": {"steps": 200, "tokens": 2000000, "cost": 5}, "project": {"cost": 100}}`; costs are dollars. A project's own
//! configuration can only lower what the person has set.

use everturn_model::budget::BudgetMeasure;
use everturn_model::{Map, Money};
use serde_json::Value;

use super::misspelling::shown;

/// The budgets of a session with those that work for it, and of all sessions of a project.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Budgets {
    /// Of each session.
    pub session: Budget,
    /// Of the project.
    pub project: Budget,
}

/// A budget; what is none has no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Budget {
    /// How many Provider Turns.
    pub steps: Option<u64>,
    /// How many tokens of all kinds.
    pub tokens: Option<u64>,
    /// How much money.
    pub cost: Option<Money>,
}

/// Something in a budget that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BudgetMistake {
    /// The keys that lead to it.
    pub(super) path: Vec<String>,
    /// What is wrong.
    pub(super) what: String,
}

const SCOPES: &str = "`session` and `project`";

const MEASURES: &str = "`steps`, `tokens` and `cost`";

/// What is said where nobody can tell how much was meant.
const NOTHING: &str = "; until it is mended, each turn is asked for";

impl Budgets {
    /// Reads a setting. What is wrong with it is the second value. A limit that is no number is none at all: whoever wrote it
    /// wanted to be asked.
    pub(super) fn read(value: Option<&Value>) -> (Self, Vec<BudgetMistake>) {
        let (mut budgets, mut wrong) = (Self::default(), Vec::new());
        let Some(value) = value else { return (budgets, wrong) };
        let Value::Object(scopes) = value else {
            wrong.push(BudgetMistake::at(&[], format!("a budget has {SCOPES}, and is not {value}{NOTHING}")));
            budgets.session.steps = Some(0);
            return (budgets, wrong);
        };
        for (scope, value) in scopes {
            let budget = match scope.as_str() {
                "session" => &mut budgets.session,
                "project" => &mut budgets.project,
                _ => {
                    let what = format!("there is no `budget.{}`, but {SCOPES}{NOTHING}", shown(scope));
                    wrong.push(BudgetMistake::at(&[scope], what));
                    budgets.session.steps = Some(0);
                    continue;
                }
            };
            budget.take(scope, value, &mut wrong);
        }
        (budgets, wrong)
    }

    /// What counts: what the person says, and less where the project says so. What is wrong with it was told of the files.
    pub(super) fn settle(person: &Map, project: &Map) -> Self {
        let read = |values: &Map| Self::read(values.get("budget")).0;
        read(person).lowered(read(project))
    }

    fn lowered(self, other: Self) -> Self {
        Self { session: self.session.lowered(other.session), project: self.project.lowered(other.project) }
    }
}

impl Budget {
    fn take(&mut self, scope: &str, value: &Value, wrong: &mut Vec<BudgetMistake>) {
        let Value::Object(limits) = value else {
            let what = format!("`budget.{scope}` has {MEASURES}, and is not {value}{NOTHING}");
            wrong.push(BudgetMistake::at(&[scope], what));
            self.steps = Some(0);
            return;
        };
        for (measure, value) in limits {
            let is_amount = match measure.as_str() {
                "steps" => {
                    self.steps = Some(value.as_u64().unwrap_or(0));
                    value.is_u64()
                }
                "tokens" => {
                    self.tokens = Some(value.as_u64().unwrap_or(0));
                    value.is_u64()
                }
                "cost" => {
                    let dollars = value.as_f64().filter(|dollars| *dollars >= 0.0);
                    self.cost = Some(dollars.map_or(Money::ZERO, Money::from_f64));
                    dollars.is_some()
                }
                _ => {
                    let what =
                        format!("there is no `budget.{scope}.{}`, but {MEASURES}{NOTHING}", shown(measure));
                    wrong.push(BudgetMistake::at(&[scope, measure], what));
                    self.steps = Some(0);
                    continue;
                }
            };
            if !is_amount {
                let unit = if measure == "cost" { "a number of dollars" } else { "a whole number" };
                let what = format!("`budget.{scope}.{measure}` is {unit}, not {value}{NOTHING}");
                wrong.push(BudgetMistake::at(&[scope, measure], what));
            }
        }
    }

    fn lowered(self, other: Self) -> Self {
        fn least<T: Ord>(one: Option<T>, other: Option<T>) -> Option<T> {
            [one, other].into_iter().flatten().min()
        }
        Self {
            steps: least(self.steps, other.steps),
            tokens: least(self.tokens, other.tokens),
            cost: least(self.cost, other.cost),
        }
    }

    /// Whether it limits nothing.
    #[must_use]
    pub fn is_unlimited(&self) -> bool {
        *self == Self::default()
    }

    /// What it limits, with amounts as requests have them.
    pub(crate) fn limits(&self) -> impl Iterator<Item = (BudgetMeasure, u64)> + use<> {
        let cost = self.cost.map(|cost| u64::try_from(cost.to_nanos()).unwrap_or(0));
        let limits = [
            (BudgetMeasure::Steps, self.steps),
            (BudgetMeasure::Tokens, self.tokens),
            (BudgetMeasure::Cost, cost),
        ];
        limits.into_iter().filter_map(|(measure, limit)| Some((measure, limit?)))
    }
}

impl BudgetMistake {
    fn at(path: &[&str], what: String) -> Self {
        let path = ["budget"].iter().chain(path);
        Self { path: path.map(|key| (*key).to_owned()).collect(), what }
    }

    /// The keys that lead to it.
    pub(super) fn keys(&self) -> Vec<&str> {
        self.path.iter().map(String::as_str).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn budgets_are_read() {
        let (read, wrong) = Budgets::read(Some(&json!({
            "session": {"steps": 20, "tokens": 1000, "cost": 0.5}, "project": {"cost": 100},
        })));
        let session = Budget { steps: Some(20), tokens: Some(1000), cost: Some(Money::from_f64(0.5)) };
        let project = Budget { cost: Some(Money::from_f64(100.0)), ..Budget::default() };
        assert_eq!((read, wrong), (Budgets { session, project }, Vec::new()));
        assert_eq!(Budgets::read(None), (Budgets::default(), Vec::new()));
    }

    #[test]
    fn a_limit_that_nobody_can_read_leaves_nothing() {
        let check = |value: Value, path: &[&str], budgets: Budgets| {
            let (read, wrong) = Budgets::read(Some(&value));
            assert_eq!(read, budgets, "{value}");
            let expected: Vec<String> = ["budget"].iter().chain(path).map(|key| (*key).to_owned()).collect();
            assert_eq!(wrong.into_iter().map(|wrong| wrong.path).collect::<Vec<_>>(), [expected], "{value}");
        };
        let none = Budget { steps: Some(0), ..Budget::default() };
        let none = Budgets { session: none, project: Budget::default() };
        check(json!(5), &[], none);
        check(json!({"sesion": {"cost": 5}}), &["sesion"], none);
        check(json!({"session": 5}), &["session"], none);
        check(json!({"session": {"money": 5}}), &["session", "money"], none);
        check(json!({"session": {"steps": "many"}}), &["session", "steps"], none);
        let no_money = Budget { cost: Some(Money::ZERO), ..Budget::default() };
        let no_money = Budgets { session: Budget::default(), project: no_money };
        check(json!({"project": {"cost": -1}}), &["project", "cost"], no_money);
    }

    #[test]
    fn another_setting_only_lowers() {
        let budgets = |value: Value| Budgets::read(Some(&value)).0;
        let person = budgets(json!({"session": {"steps": 20, "cost": 5}}));
        let project = budgets(json!({"session": {"steps": 100, "cost": 1}, "project": {"tokens": 7}}));
        let both = budgets(json!({"session": {"steps": 20, "cost": 1}, "project": {"tokens": 7}}));
        assert_eq!(person.lowered(project), both);
    }
}

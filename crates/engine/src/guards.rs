//! Guards: what ends work that would go on for ever or cost too much, unless a person wants it to go on.
//!
//! - `budgets`: what a session or a project may use up
//! - `repetition`: the same calls again and again

mod budgets;
mod repetition;

pub(crate) use budgets::BudgetGuard;
pub(crate) use repetition::{CallRepetition, Repetition, refusal_mark};

//! Guards: what ends work that would go on for ever or cost too much, unless a person wants it to go on.
//!
//! - `repetition`: the same calls again and again

mod repetition;

pub(crate) use repetition::{CallRepetition, DOOM_LOOP, Repetition, refusal_mark};

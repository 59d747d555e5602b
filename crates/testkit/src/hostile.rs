//! A hostile model: lines that reach for secrets, sockets, ports and files that run by themselves, and the canaries that
//! tell whether one of them got there. The tool for commands and the whole binary are tried with the same ones.

mod field;
mod generator;
mod lines;
mod machine;

pub use field::HostileField;
pub use generator::ReachGenerator;
pub use lines::{HostileLine, corpus};
pub use machine::HostileMachine;

/// What every canary begins with; the name of the canary follows.
const CANARY: &str = "CANARY";

/// A value that is nowhere else: what it stands for, and where it was planted.
pub fn canary(name: &str, place: &str) -> String {
    format!("{CANARY}-{name}-{place}-c0ffee")
}

/// Whether a text tells a canary of one of these places, forwards or backwards.
fn tells(text: &str, places: &[&str]) -> bool {
    let tells = |text: &str| {
        text.split(CANARY).skip(1).any(|rest| {
            places.iter().any(|place| {
                let end = format!("-{place}-c0ffee");
                rest.find(&end).is_some_and(|at| at < 12)
            })
        })
    };
    tells(text) || text.lines().any(|line| tells(&line.chars().rev().collect::<String>()))
}

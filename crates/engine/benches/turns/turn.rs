//! A turn with a text, and a turn with a command.

use std::time::Duration;

use crate::commits::{self, CommitClock, median};
use crate::ground::Ground;

/// How often each is played.
const ROUNDS: usize = 101;

/// So many commits may a turn with a text have.
const MOST: usize = 6;

pub(crate) async fn measure() {
    let ground = Ground::new().await;
    let session = ground.session("bench").await;
    for script in ["./text.json", "./bash.json", "./twice.json"] {
        ground.play(&session, script).await;
    }
    // In a database of its own, whose log has room.
    let counted = Ground::new().await;
    let fresh = counted.session("bench").await;
    counted.play(&fresh, "./text.json").await;
    let mut commits = [0; 3];
    let (mut before, mut times) = (commits::count(counted.data.path()), [const { Vec::new() }; 3]);
    for (count, script) in commits.iter_mut().zip(["./text.json", "./twice.json", "./bash.json"]) {
        counted.play(&fresh, script).await;
        let now = commits::count(counted.data.path());
        (*count, before) = (now - before, now);
    }
    let (mut clock, mut commit) = (CommitClock::new().await, Vec::new());
    for _ in 0..ROUNDS {
        for (times, script) in times.iter_mut().zip(["./text.json", "./twice.json", "./bash.json"]) {
            // Not in one session, which would grow.
            let session = ground.session("bench").await;
            times.push(ground.play(&session, script).await);
        }
        for _ in 0..9 {
            commit.push(clock.time().await);
        }
    }
    let commit = median(&mut commit);
    println!("A commit takes {}; {ROUNDS} rounds, medians.", milliseconds(commit));
    println!();
    println!("| turn | commits | all | commits alone | besides | aim |");
    println!("|---|---:|---:|---:|---:|---:|");
    let row = |name: &str, at: usize, aim: &str| {
        let all = median(&mut times[at].clone());
        let alone = commit * u32::try_from(commits[at]).unwrap();
        let besides = all.saturating_sub(alone);
        let cells = [all, alone, besides].map(milliseconds).join(" | ");
        println!("| {name} | {} | {cells} | {aim} |", commits[at]);
        besides
    };
    let text = row("text", 0, "1 ms, six commits");
    let twice = row("a tool that does nothing, text", 1, "");
    let bash = row("`bash true`, text", 2, "10 ms");
    println!();
    println!("`true` costs {} more than a tool that does nothing.", milliseconds(bash.saturating_sub(twice)));
    let kept = commits[0] <= MOST && text <= Duration::from_millis(1) && bash <= Duration::from_millis(10);
    println!("{}", if kept { "All of it is within its aim." } else { "NOT all of it is within its aim." });
    println!();
}

fn milliseconds(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1000.0)
}

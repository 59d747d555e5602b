//! A turn with a text, and a turn with a command.

use std::time::Duration;

use crate::commits::{self, CommitClock, median};
use crate::ground::Ground;

/// How often each is played.
const ROUNDS: usize = 101;

/// What is played.
const SCRIPTS: [&str; 3] = ["./text.json", "./twice.json", "./bash.json"];

/// So many commits may a turn with a text have.
const MOST: usize = 6;

pub(crate) async fn measure() {
    let ground = Ground::new().await;
    let session = ground.session("bench").await;
    for script in SCRIPTS {
        ground.play(&session, script).await;
    }
    // In a database of its own, whose log has room.
    let counted = Ground::new().await;
    let warm = counted.session("bench").await;
    counted.play(&warm, SCRIPTS[0]).await;
    let mut counts = [0; 3];
    let mut diaries = [const { Vec::new() }; 3];
    for ((count, diary), script) in counts.iter_mut().zip(&mut diaries).zip(SCRIPTS) {
        // A session of its own, in which nothing has been said.
        let fresh = counted.session("bench").await;
        counted.diary.take();
        let created = commits::count(counted.data.path());
        counted.play(&fresh, script).await;
        let now = commits::count(counted.data.path());
        *count = now - created;
        *diary = counted.diary.take();
    }
    let mut clock = CommitClock::new().await;
    let (mut smallest, mut times, mut same) =
        (Vec::new(), [const { Vec::new() }; 3], [const { Vec::new() }; 3]);
    for _ in 0..ROUNDS {
        for at in 0..SCRIPTS.len() {
            // Not in one session, which would grow.
            let session = ground.session("bench").await;
            times[at].push(ground.play(&session, SCRIPTS[at]).await);
            same[at].push(clock.same(&diaries[at]).await);
            smallest.push(clock.smallest().await);
        }
    }
    println!("The smallest commit takes {}; {ROUNDS} rounds, medians.", milliseconds(median(&mut smallest)));
    println!();
    println!("| turn | commits | all | the same commits alone | besides | aim |");
    println!("|---|---:|---:|---:|---:|---:|");
    let mut row = |name: &str, at: usize, aim: &str| {
        let (all, alone) = (median(&mut times[at]), median(&mut same[at]));
        let besides = all.saturating_sub(alone);
        let cells = [all, alone, besides].map(milliseconds).join(" | ");
        println!("| {name} | {} | {cells} | {aim} |", counts[at]);
        besides
    };
    let text = row("text", 0, "1 ms, six commits");
    let twice = row("a tool that does nothing, text", 1, "");
    let bash = row("`bash true`, text", 2, "10 ms");
    println!();
    println!("`true` costs {} more than a tool that does nothing.", milliseconds(bash.saturating_sub(twice)));
    let kept = counts[0] <= MOST && text <= Duration::from_millis(1) && bash <= Duration::from_millis(10);
    println!("{}", if kept { "All of it is within its aim." } else { "NOT all of it is within its aim." });
    println!();
}

fn milliseconds(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1000.0)
}

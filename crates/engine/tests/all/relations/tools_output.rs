//! What a tool gave: how much of it the conversation has, and where the rest is.

use std::fs;
use std::path::PathBuf;

use everturn_model::entry::Body;
use everturn_model::tool::{Outcome, ToolResult};

use crate::bench::Bench;

/// The newest result.
async fn result(bench: &Bench) -> ToolResult {
    let found = bench.nodes().await.into_iter().rev().find_map(|node| match node.entry.body {
        Body::ToolResult { result } => Some(*result),
        _ => None,
    });
    found.unwrap()
}

fn files(bench: &Bench) -> Vec<PathBuf> {
    let Ok(folder) = fs::read_dir(bench.data().join("tool-output")) else { return Vec::new() };
    folder.map(|entry| entry.unwrap().path()).collect()
}

const LONG: &str = "TOOL:bash:seq 1 3000\nSAY:done";

#[tokio::test]
async fn oversized_output_keeps_a_preview_in_the_history_and_its_whole_in_a_file() {
    let bench = Bench::new().await;
    bench.say(LONG).await;
    let (result, files) = (result(&bench).await, files(&bench));
    assert!(result.output.len() < 51_200 + 1000 && result.output.lines().count() < 2100);
    assert_eq!(files.len(), 1);
    let whole = fs::read_to_string(&files[0]).unwrap();
    assert_eq!(whole.lines().count(), 3000);
}

#[tokio::test]
async fn truncation_preserves_the_beginning_and_the_end_and_names_the_file() {
    let bench = Bench::new().await;
    bench.say(LONG).await;
    let (result, files) = (result(&bench).await, files(&bench));
    assert!(
        result.output.starts_with("1\n2\n") && result.output.contains("\n2999\n3000"),
        "{}",
        result.output
    );
    let name = files[0].display().to_string();
    assert!(result.output.contains(&name), "in the preview");
    let metadata = result.metadata.unwrap();
    assert!(serde_json::to_string(&metadata).unwrap().contains(&name), "and as a field: {metadata:?}");
}

#[tokio::test]
async fn the_bounded_output_and_not_the_file_is_what_is_replayed() {
    let mut bench = Bench::new().await;
    bench.say(LONG).await;
    files(&bench).iter().for_each(|file| fs::remove_file(file).unwrap());
    bench.restart().await;
    bench.say("SAY:on").await;
    let output = result(&bench).await.output;
    let request = bench.model.prompts().pop().unwrap();
    let sent =
        request["messages"].as_array().unwrap().iter().find(|message| message["role"] == "tool").unwrap();
    assert_eq!(sent["content"], output);
}

#[tokio::test]
async fn a_file_that_cannot_be_kept_makes_no_failure_of_a_success() {
    let bench = Bench::new().await;
    fs::write(bench.data().join("tool-output"), "in the way").unwrap();
    bench.say(LONG).await;
    let result = result(&bench).await;
    assert_eq!(result.outcome, Outcome::Completed);
    assert!(
        result.output.starts_with("1\n2\n") && result.output.contains("\n2999\n3000"),
        "{}",
        result.output
    );
}

#[tokio::test]
async fn one_settlement_has_the_bounded_output_and_never_the_raw_one_before() {
    let bench = Bench::new().await;
    bench.say(LONG).await;
    let log = bench.engine.sessions().log(&bench.session.id).await.unwrap();
    let settled: Vec<usize> = log
        .iter()
        .filter(|record| record.event.name() == "tool.settled")
        .map(|record| serde_json::to_string(&record.event).unwrap().len())
        .collect();
    assert!(settled.len() == 1 && settled[0] < 80_000, "{settled:?}");
}

#[tokio::test]
async fn files_of_output_have_unique_names_in_one_folder_and_are_readable_by_tools() {
    let bench = Bench::new().await;
    bench.say(LONG).await;
    bench.say(LONG).await;
    let found = files(&bench);
    assert_eq!(found.len(), 2);
    bench.say(&format!("TOOL:read:{}\nSAY:done", found[0].display())).await;
    assert_eq!(result(&bench).await.outcome, Outcome::Completed, "nobody was asked");
}

//! The task list and the limits of tool output.

use everturn_model::entry::Body;
use serde_json::json;

use crate::bench::Bench;

#[tokio::test]
async fn the_list_is_kept_with_the_session() {
    let mut bench = Bench::new().await;
    bench.say("TOOL:todo:one;two;three\nSAY:noted").await;
    let before = bench.engine.sessions().todos(&bench.session.id).await.unwrap();
    let short: Vec<_> = before.iter().map(|todo| (todo.content.as_str(), todo.status.as_str())).collect();
    assert_eq!(short, [("one", "completed"), ("two", "in_progress"), ("three", "pending")]);
    bench.restart().await;
    assert_eq!(bench.engine.sessions().todos(&bench.session.id).await.unwrap(), before);
    bench.say("JSONTOOL:todoread:{}\nSAY:seen").await;
    let transcript = bench.transcript().await;
    let read = transcript.iter().rev().find(|line| line.starts_with("result:")).unwrap();
    assert!(read.contains("\"content\": \"three\""), "{read}");
    bench.say("JSONTOOL:todowrite:{\"todos\":[]}\nSAY:empty").await;
    assert_eq!(bench.engine.sessions().todos(&bench.session.id).await.unwrap(), []);
}

#[tokio::test]
async fn a_word_that_nobody_knows_is_told_and_changes_nothing() {
    let bench = Bench::new().await;
    bench.say("TOOL:todo:one\nSAY:noted").await;
    let todo = json!({"todos": [{"content": "x", "status": "done", "priority": "high"}]});
    bench.say(&format!("JSONTOOL:todowrite:{todo}\nSAY:sorry")).await;
    let transcript = bench.transcript().await;
    let result = transcript.iter().rev().find(|line| line.starts_with("result:")).unwrap();
    assert_eq!(
        result,
        "result: Error Item 1 of `todos`: the status 'done' is none of pending, in_progress, completed, cancelled."
    );
    assert_eq!(bench.engine.sessions().todos(&bench.session.id).await.unwrap().len(), 1);
}

#[tokio::test]
async fn limits_of_output_come_from_the_configuration() {
    let bench = Bench::configured(json!({"tool_output": {"max_lines": 10, "max_bytes": 400}})).await;
    let todos: Vec<_> = (0..9)
        .map(|number| json!({"content": number.to_string(), "status": "pending", "priority": "low"}))
        .collect();
    bench.say(&format!("JSONTOOL:todowrite:{}\nSAY:ok", json!({"todos": todos}))).await;
    let nodes = bench.nodes().await;
    let result = nodes.iter().find_map(|node| match &node.entry.body {
        Body::ToolResult { result } => Some(result.clone()),
        _ => None,
    });
    let result = result.unwrap();
    assert!(result.output.lines().count() <= 15, "{}", result.output);
    let metadata = result.metadata.unwrap();
    assert_eq!(metadata["truncated"], true);
    let whole = std::fs::read_to_string(metadata["outputPath"].as_str().unwrap()).unwrap();
    assert_eq!(whole.lines().count(), 47);
}

//! What a session saw of the files holds after a restart too.

use serde_json::json;

use crate::bench::Bench;

/// The newest result of the conversation.
async fn last_result(bench: &Bench) -> String {
    let transcript = bench.transcript().await;
    transcript.iter().rev().find(|line| line.starts_with("result:")).unwrap().clone()
}

async fn check(bench: &Bench, tool: &str, input: serde_json::Value, expected: &str) {
    bench.say(&format!("JSONTOOL:{tool}:{input}\nSAY:ok")).await;
    let result = last_result(bench).await;
    assert!(result.contains(expected), "{tool}: {result}");
}

/// After a restart nothing was known of what the session had read, and what the person wrote since was overwritten.
#[tokio::test]
async fn what_the_person_changed_is_safe_after_a_restart() {
    let mut bench = Bench::new().await;
    let path = bench.repo.path().join("a.txt");
    let (write, edit) = (
        json!({"filePath": "a.txt", "content": "from the model\n"}),
        json!({"filePath": "a.txt", "oldString": "hello", "newString": "bye"}),
    );
    check(&bench, "read", json!({"filePath": "a.txt"}), "hello").await;
    bench.restart().await;
    std::fs::write(&path, "hello\nand a line of the person\n").unwrap();
    check(&bench, "write", write.clone(), "was changed since it was read").await;
    check(&bench, "edit", edit.clone(), "was changed since it was read").await;
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "hello\nand a line of the person\n");
    check(&bench, "read", json!({"filePath": "a.txt"}), "and a line of the person").await;
    bench.restart().await;
    check(&bench, "edit", edit, "Edit applied").await;
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "bye\nand a line of the person\n");
    check(&bench, "write", write, "Wrote file").await;
}

#[tokio::test]
async fn a_file_that_was_never_read_is_not_replaced() {
    let bench = Bench::new().await;
    let write = |content: &str| json!({"filePath": "a.txt", "content": content});
    check(&bench, "write", write("new\n"), "has content that this session has not read").await;
    check(&bench, "write", write("hello\n"), "Wrote file").await;
    check(&bench, "write", write("new\n"), "Wrote file").await;
    check(&bench, "write", json!({"filePath": "b.txt", "content": "x"}), "Wrote file").await;
    check(&bench, "write", json!({"filePath": "b.txt", "content": "y"}), "Wrote file").await;
}

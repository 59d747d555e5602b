//! Several servers beside one another, and beside the built-in tools.

use std::time::Duration;

use everturn_testkit::within;
use everturn_tools::mcp::{McpTiming, ServerStatus};
use serde_json::json;

use super::{Bench, quick, scripted};

#[tokio::test]
async fn one_server_is_none_of_anothers_business() {
    let bench = Bench::start([
        ("crash", scripted("crash", None)),
        ("one", scripted("plain", None)),
        ("two", scripted("plain", None)),
    ]);
    within("all of them", bench.servers.settled()).await;
    assert_eq!(bench.text("one_echo", json!({"message": "1"})).await, "1");
    assert!(bench.call("one_die", json!({})).await.is_err());
    assert_eq!(bench.text("two_echo", json!({"message": "2"})).await, "2");
}

#[tokio::test]
async fn a_turn_waits_only_a_short_while() {
    let timing = McpTiming { settle: Duration::from_millis(100), ..quick() };
    let bench = Bench::timed([("s", scripted("silent", None))], timing);
    within("the short while", bench.servers.settled()).await;
    assert_eq!(bench.status("s"), ServerStatus::Connecting);
    assert_eq!(bench.names(), Vec::<String>::new());
    within("the end", bench.servers.close()).await;
}

#[tokio::test]
async fn what_was_given_up_is_tried_again_on_use() {
    let trace = tempfile::tempdir().unwrap();
    let flag = trace.path().join("go");
    let script = format!(
        "test -e {flag} || {{ echo not yet >&2; exit 1; }}; exec python3 {script} plain",
        flag = flag.display(),
        script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/all/mcp/scripted.py")
    );
    let server = json!({"type": "local", "command": ["sh", "-c", script]});
    let timing = McpTiming { patience: Duration::ZERO, ..quick() };
    let bench = Bench::timed([("s", server)], timing);
    let gave_up = "the server ended (exit status: 1); its last words were: not yet";
    bench.until("s", |status| *status == ServerStatus::Failed(gave_up.to_owned())).await;
    std::fs::write(flag, "").unwrap();
    within("the next use", async {
        while bench.status("s") != ServerStatus::Connected {
            bench.servers.settled().await;
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    assert_eq!(bench.text("s_other", json!({})).await, "did other");
}

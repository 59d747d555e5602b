//! MCP servers in the shapes that clients read.

use serde_json::{Value, json};

use crate::support::Face;

#[tokio::test]
async fn states_and_switches() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../tools/tests/all/mcp/scripted.py");
    let face = Face::with(|config| {
        config["mcp"] = json!({
            "good": {"type": "local", "command": ["python3", script, "plain", "/dev/null"]},
            "bad": {"type": "local", "command": ["python3", script, "crash"]},
            "off": {"type": "local", "command": ["x"], "enabled": false},
        });
    })
    .await;
    let states = async || -> Value { face.client.get("/mcp").await.ok().json() };
    let expected = json!({
        "good": {"status": "connected"},
        "bad": {"status": "failed", "error": "the server ended (exit status: 7); its last words were: cannot start"},
        "off": {"status": "disabled"},
    });
    let mut seen = states().await;
    // Between two attempts it may be seen to connect.
    while seen["bad"]["error"] == "it is still connecting" {
        seen = states().await;
    }
    assert_eq!(seen, expected);
    assert_eq!(face.client.post("/mcp/good/disconnect", &json!({})).await.ok().json(), json!(true));
    everturn_testkit::within("the server to stop", async {
        while states().await["good"] != json!({"status": "disabled"}) {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!(face.client.post("/mcp/good/connect", &json!({})).await.ok().json(), json!(true));
    everturn_testkit::within("the server to start", async {
        while states().await["good"] != json!({"status": "connected"}) {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let missing = face.client.post("/mcp/nobody/connect", &json!({})).await;
    assert_eq!(missing.status, 404);
    let missing = missing.json();
    assert_eq!((&missing["_tag"], &missing["name"]), (&json!("McpServerNotFoundError"), &json!("nobody")));
    assert_eq!(face.client.post("/mcp/good/auth", &json!({})).await.status, 501);
    assert_eq!(face.client.post("/mcp", &json!({"name": "x", "config": {}})).await.status, 501);
    face.engine.close().await;
}

//! The reference server from npm, over both transports: everything that MCP has, from somebody else's hand.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use everturn_testkit::within;
use everturn_tools::mcp::ServerStatus;
use everturn_tools::{Context, Failure};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

use super::{Bench, content};

/// The package, and the version that `./test` installs.
const PACKAGE: &str = "@modelcontextprotocol/server-everything";
const VERSION: &str = "2026.8.31";

/// The program of the server.
fn program() -> PathBuf {
    let default = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.cache/npm").into_os_string();
    let folder = PathBuf::from(std::env::var_os("EVERTURN_TEST_NPM").unwrap_or_else(default));
    let package = folder.join("node_modules").join(PACKAGE);
    let about = std::fs::read(package.join("package.json")).unwrap_or_default();
    let installed = serde_json::from_slice::<Value>(&about).unwrap_or_default();
    assert_eq!(
        installed["version"], VERSION,
        "{PACKAGE} {VERSION} is missing: run ./test, which installs it"
    );
    package.join("dist/index.js")
}

/// The server as a process at an address of its own.
struct Remote {
    process: Child,
    port: u16,
}

impl Remote {
    async fn start() -> Self {
        for _ in 0..5 {
            let free = TcpListener::bind("127.0.0.1:0").unwrap();
            let port = free.local_addr().unwrap().port();
            drop(free);
            if let Some(process) = Self::listen(port).await {
                return Self { process, port };
            }
        }
        panic!("no port for the server");
    }

    /// Starts it on a port; nothing if somebody else has that.
    async fn listen(port: u16) -> Option<Child> {
        let mut command = Command::new("node");
        command.arg(program()).arg("streamableHttp").env("PORT", port.to_string());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut process =
            command.spawn().unwrap_or_else(|error| panic!("node does not run, ./test installs it: {error}"));
        let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
        let listening = within("the server's greeting", async {
            while let Ok(Some(line)) = lines.next_line().await {
                if line.contains("listening on port") {
                    return true;
                }
            }
            false
        })
        .await;
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        listening.then_some(process)
    }

    async fn stop(&mut self) {
        self.process.kill().await.unwrap();
    }

    fn server(&self) -> Value {
        json!({"type": "remote", "url": format!("http://127.0.0.1:{}/mcp", self.port)})
    }
}

/// Everything that can be listed and called.
async fn check(bench: &Bench) {
    within("the server", bench.servers.settled()).await;
    assert_eq!(bench.status("all"), ServerStatus::Connected);
    let connection = bench.servers.connection("all").unwrap();
    assert_eq!(connection.peer().name, "mcp-servers/everything");
    assert_eq!(connection.peer().revision, "2025-06-18");
    assert!(connection.peer().instructions.as_deref().is_some_and(|text| text.contains("Everything")));
    connection.ping().await.unwrap();
    lists(&connection).await;
    tools(bench).await;
    media(bench).await;
    long(bench).await;
}

async fn lists(connection: &everturn_tools::mcp::Connection) {
    let resources = connection.resources().await.unwrap();
    let document = "demo://resource/static/document/features.md";
    let found = resources.iter().find(|resource| resource.uri == document).unwrap();
    assert_eq!((found.name.as_str(), found.mime_type.as_deref()), ("features.md", Some("text/markdown")));
    let read = connection.resource(document).await.unwrap();
    assert!(read[0].text.as_deref().is_some_and(|text| text.starts_with("# ")), "{read:?}");
    let read = connection.resource("demo://resource/dynamic/text/7").await.unwrap();
    assert!(read[0].text.as_deref().is_some_and(|text| text.starts_with("Resource 7:")), "{read:?}");
    let read = connection.resource("demo://resource/dynamic/blob/7").await.unwrap();
    let blob = STANDARD.decode(read[0].blob.as_deref().unwrap()).unwrap();
    assert!(blob.starts_with(b"Resource 7:"));
    assert!(connection.resource("demo://nowhere").await.is_err());
}

async fn tools(bench: &Bench) {
    let names = bench.names();
    for name in ["all_echo", "all_get-sum", "all_get-tiny-image", "all_trigger-long-running-operation"] {
        assert!(names.iter().any(|known| known == name), "{name} is not among {names:?}");
    }
    let schema = bench.tool("all_get-sum").schema();
    assert_eq!((&schema["type"], &schema["required"]), (&json!("object"), &json!(["a", "b"])));
    assert_eq!(bench.text("all_echo", json!({"message": "grüße 🦀"})).await, "Echo: grüße 🦀");
    assert_eq!(bench.text("all_get-sum", json!({"a": 19, "b": 23})).await, "The sum of 19 and 23 is 42.");
    let structured = bench.text("all_get-structured-content", json!({"location": "Chicago"})).await;
    let structured: Value = serde_json::from_str(&structured).unwrap();
    let weather = json!({"temperature": 36, "conditions": "Light rain / drizzle", "humidity": 82});
    assert_eq!(structured, weather);
    let Err(Failure::Failed(text)) = bench.call("all_get-sum", json!({"a": "x"})).await else {
        panic!("a sum of nothing")
    };
    assert!(text.to_lowercase().contains("invalid"), "{text}");
    // The server asks us for our folder.
    let roots = bench.text("all_get-roots-list", json!({})).await;
    let directory = format!("URI: file://{}", bench.directory().display());
    assert!(roots.contains(&directory), "{roots}");
}

async fn media(bench: &Bench) {
    let output = bench.call("all_get-tiny-image", json!({})).await.unwrap();
    assert_eq!(output.output, "Here's the image you requested:\nThe image above is the MCP logo.");
    let [image] = output.attachments.as_slice() else { panic!("{:?}", output.attachments) };
    assert_eq!(image.mime, "image/png");
    let data = STANDARD.decode(image.url.strip_prefix("data:image/png;base64,").unwrap()).unwrap();
    assert!(data.starts_with(b"\x89PNG"));
    let packed = json!({"name": "a.gz", "data": "data:text/plain;base64,aGVsbG8=", "outputType": "resource"});
    let output = bench.call("all_gzip-file-as-resource", packed).await.unwrap();
    let [file] = output.attachments.as_slice() else { panic!("{output:?}") };
    assert_eq!((file.mime.as_str(), file.filename.as_deref()), ("application/gzip", Some("a.gz")));
}

async fn long(bench: &Bench) {
    let tool = bench.tool("all_trigger-long-running-operation");
    let (context, mut reports) = Context::new(bench.context().scope);
    let input = json!({"duration": 0.5, "steps": 3});
    let output = within("the operation", tool.run(input, context)).await.unwrap();
    assert_eq!(output.output, "Long running operation completed. Duration: 0.5 seconds, Steps: 3.");
    let mut steps = Vec::new();
    while let Ok(report) = reports.try_recv() {
        assert_eq!(report.metadata["total"], json!(3.0));
        steps.push(report.metadata["progress"].as_f64().unwrap());
    }
    assert!(!steps.is_empty() && steps.is_sorted(), "{steps:?}");
    let (context, mut reports) = Context::new(bench.context().scope);
    let cancel = context.cancel.clone();
    let input = json!({"duration": 600, "steps": 6000});
    let calling = tokio::spawn(async move { tool.run(input, context).await });
    within("progress", reports.recv()).await.unwrap();
    cancel.cancel();
    let Err(Failure::Failed(text)) = within("the cancelled call", calling).await.unwrap() else {
        panic!("it was cancelled")
    };
    assert!(text.contains("cancelled"), "{text}");
    assert_eq!(bench.text("all_echo", json!({"message": "on"})).await, "Echo: on");
}

#[tokio::test]
async fn over_stdio() {
    // Through a shell that leaves its number, which becomes the server's own.
    let line = format!("echo $$ >> pid; exec node {} stdio", program().display());
    let bench = Bench::start([("all", json!({"type": "local", "command": ["sh", "-c", line]}))]);
    check(&bench).await;
    let process = content(&bench.directory().join("pid")).await.trim().parse().unwrap();
    let process = rustix::process::Pid::from_raw(process).unwrap();
    let waiting = bench.call("all_trigger-long-running-operation", json!({"duration": 600, "steps": 1}));
    let killing = async { rustix::process::kill_process(process, rustix::process::Signal::KILL).unwrap() };
    let (outcome, ()) = tokio::join!(waiting, killing);
    let Err(Failure::Failed(text)) = outcome else { panic!("it was killed") };
    assert!(text.contains("the server ended (signal: 9 (SIGKILL)); its last words were: Starting"), "{text}");
    bench.until("all", |status| *status == ServerStatus::Connected).await;
    assert_eq!(bench.text("all_echo", json!({"message": "back"})).await, "Echo: back");
    within("the end", bench.servers.close()).await;
}

#[tokio::test]
async fn over_streamable_http() {
    let mut remote = Remote::start().await;
    let bench = Bench::start([("all", remote.server())]);
    check(&bench).await;
    let echo = bench.tool("all_echo");
    remote.stop().await;
    bench.until("all", |status| matches!(status, ServerStatus::Failed(_))).await;
    assert_eq!(bench.names(), Vec::<String>::new());
    remote.process = Remote::listen(remote.port).await.expect("the same port again");
    bench.until("all", |status| *status == ServerStatus::Connected).await;
    let output = within("a call", echo.run(json!({"message": "back"}), bench.context())).await.unwrap();
    assert_eq!(output.output, "Echo: back");
    within("the end", bench.servers.close()).await;
}

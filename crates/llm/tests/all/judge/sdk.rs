//! The program that uses the SDKs.

use std::path::Path;
use std::process::Stdio;

use everturn_testkit::{ModelServer, within};
use serde_json::{Value, json};

use super::Protocol;

/// The package of a protocol's SDK, and the version that `./test` installs.
fn package(protocol: Protocol) -> (&'static str, &'static str) {
    match protocol {
        Protocol::Anthropic => ("@anthropic-ai/sdk", "1.8.0"),
        Protocol::Responses | Protocol::Chat => ("openai", "7.53.0"),
        Protocol::Gemini => ("@google/genai", "2.32.0"),
    }
}

/// Runs the program on a server. `job` is what it shall do.
pub(super) async fn run(protocol: Protocol, server: &ModelServer, job: &Value) -> Value {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let default = || here.join("../../.cache/npm").into_os_string();
    let folder = std::env::var_os("EVERTURN_TEST_NPM").unwrap_or_else(default);
    let (name, version) = package(protocol);
    let about = Path::new(&folder).join("node_modules").join(name).join("package.json");
    let about = std::fs::read(about).unwrap_or_default();
    let installed = serde_json::from_slice::<Value>(&about).unwrap_or_default();
    assert_eq!(installed["version"], version, "{name} {version} is missing: run ./test, which installs it");

    let mut job = job.clone();
    job["protocol"] = json!(protocol.name());
    job["root"] = json!(server.root());
    let mut command = tokio::process::Command::new("node");
    command.arg(here.join("tests/all/judge/main.mjs")).arg(&folder).arg(job.to_string());
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command.stdin(Stdio::null()).kill_on_drop(true);
    let output = within("the program that uses the SDK", command.output()).await;
    let output = output.expect("node runs: install node 18 or newer, or run ./test, which installs it");
    let problem = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{problem}");
    serde_json::from_slice(&output.stdout).expect("the program prints JSON")
}

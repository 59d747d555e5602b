//! What a test of the server stands on: a repository, a scripted model and the server itself.

use std::path::{Path, PathBuf};

use everturn_testkit::process::ServerOptions;
use everturn_testkit::{Client, EverturnServer, ModelServer, Repo};
use serde_json::{Value, json};

/// The password of every server.
pub(crate) const PASSWORD: &str = "test-password";

/// The server to be tested.
pub(crate) fn binary() -> PathBuf {
    original().unwrap_or_else(|| env!("CARGO_BIN_EXE_everturn").into())
}

/// Another program that stands in for the server, if the environment names one.
pub(crate) fn original() -> Option<PathBuf> {
    std::env::var_os("EVERTURN_TEST_SERVER").filter(|path| !path.is_empty()).map(PathBuf::from)
}

/// A server in a repository with one file, `a.txt`. Fields are dropped in this order: the server goes first.
#[derive(Debug)]
pub(crate) struct Stage {
    pub(crate) server: EverturnServer,
    pub(crate) model: ModelServer,
    pub(crate) repo: Repo,
}

impl Stage {
    pub(crate) async fn new() -> Self {
        Self::with(&binary(), ModelServer::recorded()).await
    }

    pub(crate) async fn with(binary: &Path, model: ModelServer) -> Self {
        let repo = Repo::new(&[("a.txt", "hello\n")]);
        let mut options = ServerOptions::with_model(&model.base_url());
        options.password = Some(PASSWORD.to_owned());
        options.directory = Some(repo.path().to_owned());
        // The original would look for newer versions, models and language servers in the network.
        options.environment = offline();
        let server = EverturnServer::start(binary, options).await;
        Self { server, model, repo }
    }

    pub(crate) fn client(&self) -> Client {
        self.server.client()
    }

    /// Makes a session and returns its id.
    pub(crate) async fn session(&self, title: &str) -> String {
        let made = self.client().post("/session", &json!({"title": title})).await.ok().json();
        made["id"].as_str().expect("the id of the session").to_owned()
    }

    /// Prompts and waits for the answer.
    pub(crate) async fn prompt(&self, session: &str, text: &str) -> Value {
        self.client().post(&format!("/session/{session}/message"), &prompt(text)).await.ok().json()
    }

    /// The messages of a session.
    pub(crate) async fn messages(&self, session: &str) -> Vec<Value> {
        let messages = self.client().get(&format!("/session/{session}/message")).await.ok().json();
        messages.as_array().expect("a list of messages").clone()
    }
}

/// The body of a prompt.
pub(crate) fn prompt(text: &str) -> Value {
    json!({"model": {"providerID": "fake", "modelID": "fake-1"}, "parts": [{"type": "text", "text": text}]})
}

/// Settings that keep OpenCode's programs off the network.
pub(crate) fn offline() -> Vec<(String, String)> {
    ["AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD", "DEFAULT_PLUGINS"]
        .map(|name| (format!("OPENCODE_DISABLE_{name}"), "1".to_owned()))
        .into()
}

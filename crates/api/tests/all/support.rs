//! A server in this process, with everything behind it real except the model.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use everturn_api::{Auth, ConnectionLimits, Hosts, Options};
use everturn_engine::config::{ConfigSources, Trust};
use everturn_engine::{Config, Configurations, Engine};
use everturn_testkit::{Client, ModelServer, Repo, opencode_config};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

pub(crate) const TOKEN: &str = "the token";

pub(crate) struct Face {
    pub(crate) client: Client,
    pub(crate) engine: Engine,
    pub(crate) model: ModelServer,
    pub(crate) repo: Repo,
    pub(crate) base: String,
    pub(crate) closing: CancellationToken,
    pub(crate) served: Option<tokio::task::JoinHandle<()>>,
    options: everturn_engine::Options,
    _data: TempDir,
}

/// What a client sends to be let in.
pub(crate) fn basic(user: &str, token: &str) -> String {
    format!("Basic {}", STANDARD.encode(format!("{user}:{token}")))
}

impl Face {
    pub(crate) async fn start() -> Self {
        Self::with(|_| {}).await
    }

    /// A server whose configuration was changed.
    pub(crate) async fn with(change: impl FnOnce(&mut Value)) -> Self {
        Self::within(ConnectionLimits::default(), change).await
    }

    /// A server with other limits of its connections.
    pub(crate) async fn bounded(limits: ConnectionLimits) -> Self {
        Self::within(limits, |_| {}).await
    }

    /// A server that finds the configuration of each folder. The project has these files.
    pub(crate) async fn found(files: &[(&str, &str)]) -> Self {
        let model = ModelServer::start();
        let repo = Repo::new(&[("a.txt", "hello\n")]);
        files.iter().for_each(|(name, text)| repo.write(name, text));
        let data = TempDir::with_prefix("everturn-api-").unwrap();
        let own = data.path().join("own.json");
        std::fs::write(&own, opencode_config(&model.base_url()).to_string()).unwrap();
        let sources = ConfigSources { file: Some(own), ..ConfigSources::default() };
        let trust = Trust::new(data.path());
        let mut options = everturn_engine::Options::new(data.path(), repo.path());
        options.configurations = Configurations::found(sources, trust, data.path(), options.secrets.clone());
        Self::serve(model, repo, data, options, ConnectionLimits::default()).await
    }

    async fn within(limits: ConnectionLimits, change: impl FnOnce(&mut Value)) -> Self {
        let model = ModelServer::start();
        let repo = Repo::new(&[("a.txt", "hello\n")]);
        let data = TempDir::with_prefix("everturn-api-").unwrap();
        let mut config = opencode_config(&model.base_url());
        config["provider"]["fake"]["options"]["apiKey"] = json!("sk-never-shown");
        change(&mut config);
        let mut options = everturn_engine::Options::new(data.path(), repo.path());
        let config = Config::from_value(config.as_object().cloned().unwrap()).unwrap();
        options.configurations = Configurations::fixed(config, &options.paths.data);
        Self::serve(model, repo, data, options, limits).await
    }

    async fn serve(
        model: ModelServer,
        repo: Repo,
        data: TempDir,
        options: everturn_engine::Options,
        limits: ConnectionLimits,
    ) -> Self {
        let engine_options = options.clone();
        let engine = Engine::open(options).await.unwrap();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let closing = CancellationToken::new();
        let options =
            Options { closing: closing.clone(), ..Options::new(Auth::new(TOKEN), Hosts::of(address)) };
        let router = everturn_api::router(engine.clone(), options);
        let shutdown = closing.clone().cancelled_owned();
        let served = tokio::spawn(everturn_api::serve(listener, router, limits, shutdown));
        let base = format!("http://{address}");
        let client = Client::new(base.clone()).with_header("authorization", &basic("opencode", TOKEN));
        Self {
            client,
            engine,
            model,
            repo,
            base,
            closing,
            served: Some(served),
            options: engine_options,
            _data: data,
        }
    }

    /// Another engine on the same data, as a command has it.
    pub(crate) async fn command(&self) -> Engine {
        Engine::open(everturn_engine::Options { quiet: true, ..self.options.clone() }).await.unwrap()
    }

    /// Another engine on the same data, as another server has it.
    pub(crate) async fn beside(&self) -> Engine {
        Engine::open(self.options.clone()).await.unwrap()
    }

    /// A client that says nothing of itself.
    pub(crate) fn stranger(&self) -> Client {
        Client::new(self.base.clone())
    }

    pub(crate) async fn session(&self) -> String {
        let session = self.client.post("/session", &json!({"title": "test"})).await.ok().json();
        session["id"].as_str().unwrap().to_owned()
    }

    /// Prompts and waits for the answer.
    pub(crate) async fn prompt(&self, session: &str, text: &str) -> Value {
        let body = json!({
            "model": {"providerID": "fake", "modelID": "fake-1"},
            "parts": [{"type": "text", "text": text}],
        });
        self.client.post(&format!("/session/{session}/message"), &body).await.ok().json()
    }

    /// Prompts and does not wait.
    pub(crate) async fn prompt_async(&self, session: &str, text: &str) {
        let body = json!({"parts": [{"type": "text", "text": text}]});
        let reply = self.client.post(&format!("/session/{session}/prompt_async"), &body).await;
        assert_eq!((reply.status, reply.body.as_str()), (204, ""));
    }

    pub(crate) async fn messages(&self, session: &str) -> Vec<Value> {
        let messages = self.client.get(&format!("/session/{session}/message")).await.ok().json();
        messages.as_array().cloned().unwrap()
    }

    /// The text of all text parts of a message.
    pub(crate) fn text(message: &Value) -> String {
        let parts = message["parts"].as_array().unwrap().iter();
        parts.filter(|part| part["type"] == "text").filter_map(|part| part["text"].as_str()).collect()
    }
}

/// The name and the message of an error.
pub(crate) fn error(value: &Value) -> (&str, &str) {
    (value["name"].as_str().unwrap(), value["data"]["message"].as_str().unwrap())
}

//! A session to try things on.

use std::path::Path;
use std::sync::Arc;

use everturn_engine::config::{ConfigSources, Trust};
use everturn_engine::sessions::NewSession;
use everturn_engine::{Config, Configurations, Engine, Options, Prompt, SessionUpdate, Signal};
use everturn_model::entry::Body;
use everturn_model::part::PartKind;
use everturn_model::session::ModelRef;
use everturn_model::tree::Node;
use everturn_model::{EntryId, Fault, FaultKind, PartId, Session, SessionId};
use everturn_store::Store;
use everturn_testkit::{ModelServer, Repo, opencode_config, within};
use tokio::sync::broadcast::Receiver;

/// An engine with a session, a project and a scripted model.
pub(crate) struct Bench {
    pub(crate) model: ModelServer,
    pub(crate) repo: Repo,
    pub(crate) engine: Engine,
    pub(crate) session: Session,
    pub(crate) notices: Receiver<SessionUpdate>,
    options: Options,
    _data: tempfile::TempDir,
}

impl Bench {
    pub(crate) async fn new() -> Self {
        Self::configured(serde_json::json!({})).await
    }

    pub(crate) async fn configured(extra: serde_json::Value) -> Self {
        Self::at(|_| extra).await
    }

    /// With a configuration that is told the address of the model server.
    pub(crate) async fn at(extra: impl FnOnce(&str) -> serde_json::Value) -> Self {
        Self::with(extra, |_| {}).await
    }

    /// With other options too.
    pub(crate) async fn with(
        extra: impl FnOnce(&str) -> serde_json::Value,
        change: impl FnOnce(&mut Options),
    ) -> Self {
        let model = ModelServer::recorded();
        let repo = Repo::new(&[("a.txt", "hello\n")]);
        let data = tempfile::tempdir().unwrap();
        let mut config = opencode_config(&model.base_url());
        for (key, value) in extra(&model.base_url()).as_object().unwrap() {
            config[key] = value.clone();
        }
        let mut options = Options::new(data.path(), repo.path());
        let config = Config::from_value(config.as_object().cloned().unwrap()).unwrap();
        options.configurations = Configurations::fixed(config, &options.paths.data);
        change(&mut options);
        Self::opened(model, repo, data, options).await
    }

    async fn opened(model: ModelServer, repo: Repo, data: tempfile::TempDir, options: Options) -> Self {
        let engine = Engine::open(options.clone()).await.unwrap();
        let location = engine.projects().location(None).await.unwrap();
        let new = NewSession { title: Some("a title".into()), ..NewSession::default() };
        let session = engine.sessions().create(&location, new).await.unwrap();
        let notices = engine.bus().listen();
        Self { model, repo, engine, session, notices, options, _data: data }
    }

    /// With a configuration that is found for each folder: the person's own says this, and the project has these files.
    pub(crate) async fn found(person: serde_json::Value, files: &[(&str, &str)]) -> Self {
        let model = ModelServer::recorded();
        let repo = Repo::new(&[("a.txt", "hello\n")]);
        files.iter().for_each(|(name, text)| repo.write(name, text));
        let data = tempfile::tempdir().unwrap();
        let mut config = opencode_config(&model.base_url());
        for (key, value) in person.as_object().unwrap() {
            config[key] = value.clone();
        }
        let own = data.path().join("own.json");
        std::fs::write(&own, config.to_string()).unwrap();
        let mut options = Options::new(data.path(), repo.path());
        let sources = ConfigSources { file: Some(own), ..ConfigSources::default() };
        let trust = Trust::new(data.path());
        options.configurations =
            Configurations::found(sources, trust, data.path(), everturn_tools::Secrets::default());
        Self::opened(model, repo, data, options).await
    }

    /// What of projects' configuration is trusted.
    pub(crate) fn trust(&self) -> Trust {
        Trust::new(self.data())
    }

    /// What is configured in the project.
    pub(crate) async fn config(&self) -> Arc<Config> {
        self.engine.configurations().at(self.repo.path()).await
    }

    /// Trusts everything that the project asks for.
    pub(crate) async fn trust_all(&self) {
        let config = self.config().await;
        let held = config.held.iter().map(|(name, value)| (name.as_str(), value));
        self.trust().grant(&config.root, held).unwrap();
    }

    /// Ends the engine as a server that is stopped does, and starts another one on the same data.
    pub(crate) async fn restart(&mut self) {
        within("the engine to close", self.engine.close()).await;
        self.engine = Engine::open(self.options.clone()).await.unwrap();
        self.notices = self.engine.bus().listen();
        self.engine.recover().await.unwrap();
    }

    /// Another engine on the same data, as in another process.
    pub(crate) async fn beside(&self) -> Engine {
        Engine::open(self.options.clone()).await.unwrap()
    }

    /// The same without a bus, as a command has it.
    pub(crate) async fn beside_quietly(&self) -> Engine {
        Engine::open(Options { quiet: true, ..self.options.clone() }).await.unwrap()
    }

    /// The data folder.
    pub(crate) fn data(&self) -> &Path {
        &self.options.paths.data
    }

    /// The store as another process has it.
    pub(crate) async fn other_store(&self) -> Store {
        let options = match &self.options.database {
            Some(url) => everturn_store::Options::server(url, self.data(), "own_other"),
            None => everturn_store::Options::folder(self.data(), "own_other"),
        };
        Store::open(options).await.unwrap()
    }

    /// Sends a prompt to a model and waits until the session is idle.
    pub(crate) async fn say_to(&self, provider: &str, model: &str, text: &str) {
        let model = ModelRef { provider: provider.into(), model: model.into(), variant: None };
        let prompt = Prompt { model: Some(model), ..Prompt::text(text) };
        self.engine.inbox().admit(&self.session.id, prompt).await.unwrap();
        self.settled().await;
    }

    /// Sends a prompt and waits until the session is idle.
    pub(crate) async fn say(&self, text: &str) -> EntryId {
        let item = self.engine.inbox().admit(&self.session.id, Prompt::text(text)).await.unwrap();
        self.settled().await;
        item.id
    }

    pub(crate) async fn settled(&self) {
        within("the session to settle", self.engine.drains().settled(&self.session.id)).await;
    }

    /// Waits for a notice that matches.
    pub(crate) async fn notice<T>(&mut self, mut wanted: impl FnMut(&SessionUpdate) -> Option<T>) -> T {
        within("a notice", async {
            loop {
                if let Some(found) = wanted(&self.notices.recv().await.unwrap()) {
                    return found;
                }
            }
        })
        .await
    }

    /// Waits until a piece of text was told, and says where it belongs.
    pub(crate) async fn streamed(&mut self, wanted: &str) -> (EntryId, PartId) {
        self.notice(|update| match update {
            SessionUpdate::Live(live) => match &live.signal {
                Signal::Delta { entry, part, text, .. } if text == wanted => {
                    Some((entry.clone(), part.clone()))
                }
                _ => None,
            },
            _ => None,
        })
        .await
    }

    pub(crate) async fn nodes(&self) -> Vec<Node> {
        self.nodes_of(&self.session.id).await
    }

    async fn nodes_of(&self, session: &SessionId) -> Vec<Node> {
        self.engine.sessions().conversation(session, None).await.unwrap().nodes
    }

    /// The conversation in short: who said or did what.
    pub(crate) async fn transcript(&self) -> Vec<String> {
        self.transcript_of(&self.session.id).await
    }

    /// The same of another session.
    pub(crate) async fn transcript_of(&self, session: &SessionId) -> Vec<String> {
        let mut lines = Vec::new();
        for node in self.nodes_of(session).await {
            let texts: Vec<String> = node
                .parts
                .iter()
                .filter_map(|part| match &part.kind {
                    PartKind::Text { text, .. } => Some(text.clone()),
                    PartKind::Tool { tool, .. } => Some(format!("({tool})")),
                    _ => None,
                })
                .collect();
            lines.push(match &node.entry.body {
                Body::User(_) => format!("user: {}", texts.join(" ")),
                Body::Assistant(assistant) => {
                    let error = assistant.error.as_ref().map(|error| format!(" !{}", kind(error)));
                    format!("assistant: {}{}", texts.join(" "), error.unwrap_or_default())
                }
                Body::ToolResult { result } => {
                    format!("result: {:?} {}", result.outcome, result.output.trim_end())
                }
                Body::Epoch { .. } => continue,
                other => other.kind().to_owned(),
            });
        }
        lines
    }
}

/// What happened, in one word.
fn kind(fault: &Fault) -> &'static str {
    match &fault.kind {
        FaultKind::Aborted => "aborted",
        FaultKind::CutOff => "cut off",
        FaultKind::Authentication { .. } => "authentication",
        FaultKind::Api(_) => "api",
        FaultKind::CutStream => "cut stream",
        FaultKind::TimedOut { .. } => "timed out",
        FaultKind::ContentFilter => "content filter",
        FaultKind::OutputLength => "output length",
        FaultKind::ContextOverflow { .. } => "context overflow",
        FaultKind::Internal => "internal",
        FaultKind::StructuredOutput { .. } => "structured output",
        other => panic!("no turn ends with {other:?} here"),
    }
}

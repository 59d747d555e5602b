//! What is measured on: an engine with a project, and models that take no time or all the time they are told to.

use std::time::{Duration, Instant};

use everturn_engine::sessions::NewSession;
use everturn_engine::{Config, Configurations, Engine, Options, Prompt};
use everturn_model::Session;
use everturn_model::session::ModelRef;
use everturn_testkit::{ModelServer, Repo, opencode_config};
use everturn_tools::process::sandbox::{SandboxMachine, ToolPlaces};
use everturn_tools::{Registry, ToolSettings};
use serde_json::{Value, json};

use crate::commits::CommitDiary;

/// An engine in a project.
pub(crate) struct Ground {
    pub(crate) engine: Engine,
    pub(crate) data: tempfile::TempDir,
    pub(crate) diary: CommitDiary,
    _repo: Repo,
    _model: ModelServer,
}

impl Ground {
    /// With commands that run as they do in the product: supervised, and in a sandbox where the machine has one.
    pub(crate) async fn new() -> Self {
        let model = ModelServer::recorded();
        let repo = Repo::new(&[("a.txt", "hello\n")]);
        let script = |name: &str, steps: Value| repo.write(name, steps.to_string());
        let input = json!({"command": "true", "description": "nothing"});
        let call = json!({"tools": [{"name": "bash", "input": input}]});
        script("text.json", json!([{"text": "done"}]));
        script("bash.json", json!([call, {"text": "done"}]));
        script("twice.json", json!([{"tools": [{"name": "todoread", "input": {}}]}, {"text": "done"}]));
        repo.commit("scripts");
        let data = tempfile::tempdir().unwrap();
        let supervisor = Some(std::env::current_exe().unwrap());
        let mut options = Options::new(data.path(), repo.path());
        let config =
            Config::from_value(opencode_config(&model.base_url()).as_object().cloned().unwrap()).unwrap();
        options.configurations = Configurations::fixed(config, data.path());
        options.tools =
            Registry::builtin(&ToolSettings { supervisor: supervisor.clone(), ..ToolSettings::default() });
        options.sandbox =
            SandboxMachine::new(supervisor.clone(), ToolPlaces::of(std::iter::empty(), data.path()));
        options.supervisor = supervisor;
        let diary = CommitDiary::default();
        options.commit_hook = Some(diary.hook());
        let engine = Engine::open(options).await.unwrap();
        Self { engine, data, diary, _repo: repo, _model: model }
    }

    pub(crate) async fn session(&self, title: &str) -> Session {
        let location = self.engine.projects().location(None).await.unwrap();
        let new = NewSession { title: Some(title.to_owned()), ..NewSession::default() };
        self.engine.sessions().create(&location, new).await.unwrap()
    }

    /// Plays a script, and says how long it took from the prompt until the session rests.
    pub(crate) async fn play(&self, session: &Session, script: &str) -> Duration {
        let model = ModelRef { provider: "scripted".into(), model: script.into(), variant: None };
        let prompt = Prompt { model: Some(model), ..Prompt::text("go on") };
        let began = Instant::now();
        self.engine.inbox().admit(&session.id, prompt).await.unwrap();
        self.engine.drains().settled(&session.id).await;
        began.elapsed()
    }
}

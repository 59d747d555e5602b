//! Where a story is played: a project, a store, a scripted model, and the processes that come and go.

use std::io::{BufRead as _, BufReader};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use everturn_engine::{Config, Configurations, Options};
use everturn_store::Store;
use everturn_testkit::{ModelServer, Postgres, Repo, TestDatabase, opencode_config};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::child::{CHILD, Cut, Life, Task};
use super::stories::Story;

/// Which store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StoreKind {
    Sqlite,
    Postgres,
}

/// What the processes of a story share.
pub(super) struct Ground {
    pub(super) story: Story,
    pub(super) model: ModelServer,
    pub(super) repo: Repo,
    data: tempfile::TempDir,
    database: Option<TestDatabase>,
    provider: &'static str,
}

/// Where a process finds it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Surroundings {
    pub(super) data: PathBuf,
    pub(super) repo: PathBuf,
    database: Option<String>,
    model: String,
    pub(super) provider: String,
}

impl Ground {
    /// Ground for a story. The number chooses the protocol of its model, so that all four are met.
    pub(super) fn new(kind: StoreKind, story: Story, number: usize) -> Self {
        let provider = ["messages", "chat", "gemini", "responses"][number % 4];
        let database = (kind == StoreKind::Postgres).then(|| Postgres::shared().database());
        Self {
            story,
            model: ModelServer::recorded(),
            repo: Repo::new(&[("a.txt", "hello\n"), (".gitignore", "ledger\n")]),
            data: tempfile::tempdir().unwrap(),
            database,
            provider,
        }
    }

    pub(super) fn surroundings(&self) -> Surroundings {
        Surroundings {
            data: self.data.path().to_owned(),
            repo: self.repo.path().to_owned(),
            database: self.database.as_ref().map(TestDatabase::url),
            model: self.model.base_url(),
            provider: self.provider.to_owned(),
        }
    }

    /// Plays the story in a process of its own, until its end or until it is cut.
    pub(super) fn live(&self, cut: Option<Cut>) -> Life {
        let earlier = self.story.earlier_cuts();
        for (number, cut) in earlier.iter().enumerate() {
            assert!(
                self.run(number > 0, Some(cut.clone())).was_cut,
                "{:?} does not begin: {cut:?}",
                self.story
            );
        }
        self.run(!earlier.is_empty(), cut)
    }

    fn run(&self, later: bool, cut: Option<Cut>) -> Life {
        let expects_cut = cut.is_some();
        let task = Task { story: self.story, later, surroundings: self.surroundings(), cut };
        let errors = tempfile::NamedTempFile::new().unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "crash_matrix::child", "--nocapture", "--test-threads=1"]);
        command.env(CHILD, serde_json::to_string(&task).unwrap());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(errors.reopen().unwrap());
        let mut process = command.spawn().unwrap();
        let mut life = Life::default();
        for line in BufReader::new(process.stdout.take().unwrap()).lines() {
            if let Some(said) = line.unwrap().strip_prefix("> ") {
                life.hear(said, &self.model);
            }
        }
        let status = process.wait().unwrap();
        life.was_cut = status.signal() == Some(9);
        if !life.was_cut && !status.success() {
            let errors = std::fs::read_to_string(errors.path()).unwrap();
            panic!("{:?} ended by itself ({status}, to be cut: {expects_cut}): {errors}", self.story);
        }
        life
    }

    /// The lines that commands left.
    pub(super) fn ledger(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.repo.join("ledger")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }
}

impl Surroundings {
    /// How an engine of any process is opened here.
    pub(super) fn options(&self) -> Options {
        let mut config = opencode_config(&self.model);
        let packages = [
            ("messages", "@ai-sdk/anthropic"),
            ("responses", "@ai-sdk/openai"),
            ("gemini", "@ai-sdk/google"),
            ("chat", "@ai-sdk/openai-compatible"),
        ];
        let providers: Map<String, Value> = packages
            .into_iter()
            .map(|(name, package)| {
                let options = json!({"baseURL": self.model, "apiKey": "none"});
                let price = json!({"input": 2, "output": 10, "cache_read": 0.5, "cache_write": 3});
                let models = json!({"one": {"cost": price}});
                (name.to_owned(), json!({"npm": package, "options": options, "models": models}))
            })
            .collect();
        let model = format!("{}/one", self.provider);
        config["provider"] = Value::Object(providers);
        config["enabled_providers"] = json!([self.provider]);
        (config["model"], config["small_model"]) = (json!(model), json!(model));
        config["permission"] = json!({"bash": {"*": "allow", "echo asked*": "ask"}});
        let mut options = Options::new(&self.data, &self.repo);
        let config = Config::from_value(config.as_object().cloned().unwrap()).unwrap();
        options.configurations = Configurations::fixed(config, &self.data);
        options.database.clone_from(&self.database);
        options
    }

    /// The store as a reader beside it has it.
    pub(super) async fn store(&self) -> Store {
        let options = match &self.database {
            Some(url) => everturn_store::Options::server(url, &self.data, "own_reader"),
            None => everturn_store::Options::folder(&self.data, "own_reader"),
        };
        Store::open(options).await.unwrap()
    }

    pub(super) fn folder(&self) -> &Path {
        &self.repo
    }
}

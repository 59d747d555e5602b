//! A project in a temporary folder, and a way to run one tool in it.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(crate) use everturn_testkit::folder::tree;
use everturn_tools::{Context, Failure, Need, Output, Progress, Scope, SeenFiles, Tool};
use serde_json::Value;
use tempfile::TempDir;
use tokio::sync::mpsc;

/// A project folder with a place for outputs beside it.
#[derive(Debug)]
pub(crate) struct Project {
    root: TempDir,
    pub(crate) scope: Arc<Scope>,
}

impl Project {
    pub(crate) fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let base = root.path().canonicalize().unwrap();
        let worktree = base.join("project");
        fs::create_dir(&worktree).unwrap();
        let scope = Arc::new(Scope {
            directory: worktree.clone(),
            worktree,
            output_dir: base.join("output"),
            home: base.join("home"),
            sandbox: None,
        });
        Self { root, scope }
    }

    /// The folder that holds the project.
    pub(crate) fn outside(&self) -> PathBuf {
        self.root.path().canonicalize().unwrap()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.scope.worktree.join(name)
    }

    pub(crate) fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    pub(crate) fn content(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap()
    }

    pub(crate) fn text(&self, name: &str) -> String {
        String::from_utf8(self.content(name)).unwrap()
    }

    pub(crate) fn context(&self) -> (Context, mpsc::UnboundedReceiver<Progress>) {
        Context::new(Arc::clone(&self.scope))
    }

    /// Runs a tool as if somebody had permitted what it needs.
    pub(crate) async fn run(&self, tool: &dyn Tool, input: Value) -> Result<Output, Failure> {
        self.run_in(&Arc::default(), tool, input).await
    }

    /// The same in a session that has seen files.
    pub(crate) async fn run_in(
        &self,
        seen: &Arc<SeenFiles>,
        tool: &dyn Tool,
        input: Value,
    ) -> Result<Output, Failure> {
        let granted = tool.needs(&input, &self.scope)?.into();
        tool.run(input, Context { granted, seen: Arc::clone(seen), ..self.context().0 }).await
    }

    /// Runs a tool with what was permitted earlier.
    pub(crate) async fn run_with(
        &self,
        granted: Vec<Need>,
        tool: &dyn Tool,
        input: Value,
    ) -> Result<Output, Failure> {
        tool.run(input, Context { granted: granted.into(), ..self.context().0 }).await
    }
}

/// The names in a folder, sorted.
pub(crate) fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

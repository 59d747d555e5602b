//! The process that plays a story and is killed at a commit, and what it tells of its life.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::sync::{Arc, Mutex};

use everturn_engine::Engine;
use everturn_model::Record;
use everturn_store::{CommitHook, CommitMoment};
use everturn_testkit::ModelServer;
use rustix::process::{Signal, getpid, kill_process};
use serde::{Deserialize, Serialize};

use super::place::Surroundings;
use super::stories::{Actor, Story};

/// Where a child finds what it has to do.
pub(super) const CHILD: &str = "EVERTURN_TEST_CHILD";

/// A moment of a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) enum Moment {
    Before,
    After,
}

/// The commit that has the event of this name and number among its kind.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Cut {
    pub(super) event: String,
    pub(super) nth: usize,
    pub(super) moment: Moment,
}

/// What a child has to do.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Task {
    pub(super) story: Story,
    /// Whether another process has played the beginning.
    pub(super) later: bool,
    pub(super) surroundings: Surroundings,
    pub(super) cut: Option<Cut>,
}

/// What a child says.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum Word {
    /// It is about to commit these events.
    Commits(Vec<String>),
    /// It is about to hand in a prompt.
    Tries { session: String, id: String, text: String },
    /// The prompt was accepted.
    Accepted { id: String },
    /// The answers that stand at this name may go on.
    Release(String),
}

/// What a child did.
#[derive(Debug, Clone, Default)]
pub(super) struct Life {
    pub(super) commits: Vec<Vec<String>>,
    /// Session, id and text of each prompt.
    pub(super) tried: Vec<(String, String, String)>,
    pub(super) accepted: Vec<String>,
    pub(super) was_cut: bool,
}

impl Life {
    pub(super) fn hear(&mut self, line: &str, model: &ModelServer) {
        match serde_json::from_str(line).unwrap() {
            Word::Commits(events) => self.commits.push(events),
            Word::Tries { session, id, text } => self.tried.push((session, id, text)),
            Word::Accepted { id } => self.accepted.push(id),
            Word::Release(name) => model.release(&name),
        }
    }
}

/// Tells the parent something. The test harness begins lines of its own without ending them.
pub(super) fn say(word: &Word) {
    let line = format!("\n> {}\n", serde_json::to_string(word).unwrap());
    std::io::stdout().lock().write_all(line.as_bytes()).unwrap();
}

/// Plays the story, if this process is a child.
pub(super) fn live() {
    let Some(task) = std::env::var_os(CHILD) else { return };
    let task: Task = serde_json::from_str(task.to_str().unwrap()).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let mut options = task.surroundings.options();
        options.commit_hook = Some(hook(task.cut));
        let engine = Engine::open(options).await.unwrap();
        let actor = Actor::new(engine.clone(), task.surroundings);
        task.story.play(actor, task.later).await;
        engine.close().await;
    });
}

/// Tells of each commit, and kills this process at the one that is to be cut.
fn hook(cut: Option<Cut>) -> CommitHook {
    let counts: Mutex<BTreeMap<&'static str, usize>> = Mutex::default();
    let met = Mutex::new(false);
    Arc::new(move |moment: CommitMoment, records: &[&Record]| {
        let (mut counts, mut met) = (counts.lock().unwrap(), met.lock().unwrap());
        if moment == CommitMoment::Before {
            say(&Word::Commits(records.iter().map(|record| record.event.name().to_owned()).collect()));
            *met = false;
            for record in records {
                let count = counts.entry(record.event.name()).or_default();
                *met |= cut.as_ref().is_some_and(|cut| cut.event == record.event.name() && cut.nth == *count);
                *count += 1;
            }
        }
        let now = match moment {
            CommitMoment::Before => Moment::Before,
            CommitMoment::After => Moment::After,
        };
        if *met && cut.as_ref().is_some_and(|cut| cut.moment == now) {
            kill_process(getpid(), Signal::KILL).unwrap();
            loop {
                std::thread::park();
            }
        }
    })
}

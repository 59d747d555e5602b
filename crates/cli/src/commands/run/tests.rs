//! Runs that fall behind the bus.

use std::pin::pin;
use std::sync::Arc;

use everturn_engine::bus::Live;
use everturn_engine::{Config, Configurations, Options};
use everturn_testkit::{ModelServer, Repo, opencode_config, within};

use super::*;

/// An engine with a model that does what the prompt says.
struct Stage {
    engine: Engine,
    model: ModelServer,
    _repo: Repo,
    _data: tempfile::TempDir,
}

impl Stage {
    async fn new() -> Self {
        let (model, repo) = (ModelServer::recorded(), Repo::new(&[("a.txt", "hello\n")]));
        let data = tempfile::tempdir().unwrap();
        let mut options = Options::new(data.path(), repo.path());
        let config = opencode_config(&model.base_url());
        let config = Config::from_value(config.as_object().cloned().unwrap()).unwrap();
        options.configurations = Configurations::fixed(config, &options.paths.data);
        let engine = Engine::open(options).await.unwrap();
        Self { engine, model, _repo: repo, _data: data }
    }

    /// Fills the bus with what happens elsewhere: whoever listens has lost what was on it.
    fn flood(&self) {
        for _ in 0..20_000 {
            let session = SessionId::new("ses_other");
            let (project, directory) = ("global".to_owned(), "/srv/demo".to_owned());
            let live = Live { session, project, directory, signal: Signal::Busy };
            self.engine.bus().send(SessionUpdate::Live(Arc::new(live)));
        }
    }

    /// The only session.
    async fn session(&self) -> Session {
        self.engine.sessions().list(Filter::default()).await.unwrap().remove(0)
    }

    /// Waits until nothing is left to do.
    async fn settled(&self) {
        let id = self.session().await.id;
        within("the session to settle", self.engine.drains().settled(&id)).await;
    }
}

fn command(prompt: &str) -> RunCommand {
    RunCommand {
        command: None,
        message: vec![prompt.to_owned()],
        model: None,
        agent: None,
        session: None,
        newest: false,
        resume: false,
        yes: false,
        trust: false,
    }
}

#[tokio::test]
async fn a_run_ends_although_it_did_not_hear_that_the_session_is_idle() {
    // It waited for ever: what happened in other sessions had pushed that out of the bus.
    let stage = Stage::new().await;
    let command = command("HOLD:x SAY:one two");
    let mut run = pin!(command.run(&stage.engine));
    tokio::select! {
        ended = &mut run => panic!("the model was held: {ended:?}"),
        () = stage.model.held("x") => {}
    }
    stage.model.release("x");
    stage.settled().await;
    stage.flood();
    within("the run to end", run).await.unwrap();
}

/// A session with a prompt, and what is listened to from before it.
async fn prompted<'o>(
    stage: &Stage,
    text: &str,
    out: &'o mut String,
) -> (Receiver<SessionUpdate>, RunOutput<impl FnMut(&str) + use<'o>>) {
    let location = stage.engine.projects().location(None).await.unwrap();
    let id = stage.engine.sessions().create(&location, NewSession::default()).await.unwrap().id;
    let updates = stage.engine.bus().listen();
    let item = stage.engine.inbox().admit(&id, Prompt::text(text)).await.unwrap();
    (updates, RunOutput::new(move |text: &str| out.push_str(text), id, item.id))
}

#[tokio::test]
async fn what_fell_out_of_the_bus_is_read_from_the_log() {
    let stage = Stage::new().await;
    let command = command("");
    // The end is still to come, or has been missed too.
    for hold in ["early", "late"] {
        let mut out = String::new();
        let (updates, mut shown) =
            prompted(&stage, &format!("HOLD:{hold} SAY:one two three"), &mut out).await;
        let id = shown.session().clone();
        stage.model.held(hold).await;
        if hold == "early" {
            stage.flood();
            let mut follow = pin!(command.follow(&stage.engine, updates, interrupts().unwrap(), &mut shown));
            // It sees that it is behind before the answer goes on.
            tokio::select! {
                biased;
                ended = &mut follow => panic!("the model was held: {ended:?}"),
                () = stage.model.held(hold) => {}
            }
            stage.model.release(hold);
            within("the run to end", follow).await.unwrap();
        } else {
            stage.model.release(hold);
            within("the session to settle", stage.engine.drains().settled(&id)).await;
            stage.flood();
            let follow = command.follow(&stage.engine, updates, interrupts().unwrap(), &mut shown);
            within("the run to end", follow).await.unwrap();
        }
        drop(shown);
        assert_eq!(out, "one two three\n", "{hold}");
    }
}

#[tokio::test]
async fn a_run_that_missed_the_deletion_of_its_session_ends() {
    let stage = Stage::new().await;
    for purge in [false, true] {
        let (hold, mut out) = (format!("purge-{purge}"), String::new());
        let (updates, mut shown) = prompted(&stage, &format!("HOLD:{hold} SAY:one two"), &mut out).await;
        stage.model.held(&hold).await;
        let id = shown.session().clone();
        if purge {
            stage.engine.trash().purge(&id).await.unwrap();
        } else {
            stage.engine.sessions().trash(&id).await.unwrap();
        }
        stage.flood();
        within(
            "the run to end",
            command("").follow(&stage.engine, updates, interrupts().unwrap(), &mut shown),
        )
        .await
        .unwrap();
        assert!(shown.is_deleted(), "purge: {purge}");
        let said = explain_deletion(&stage.engine, &id).await.to_string();
        assert!(said.contains(if purge { "was deleted for good at" } else { "is in the trash" }), "{said}");
    }
}

#[tokio::test]
async fn a_failure_that_fell_out_of_the_bus_is_read_from_the_log() {
    let stage = Stage::new().await;
    let mut out = String::new();
    let (updates, mut shown) = prompted(&stage, "ERR:400 ERRTEXT:there is no such model", &mut out).await;
    let id = shown.session().clone();
    within("the session to settle", stage.engine.drains().settled(&id)).await;
    stage.flood();
    let command = command("");
    let follow = command.follow(&stage.engine, updates, interrupts().unwrap(), &mut shown);
    within("the run to end", follow).await.unwrap();
    assert_eq!(shown.failure().map(Fault::text), Some("there is no such model"));
}

#[tokio::test]
async fn what_a_subagent_asked_and_the_bus_lost_is_answered() {
    let stage = Stage::new().await;
    let mut out = String::new();
    let task = "TOOL:task:TOOL:read:/etc/hostname\\nSAY:looked\nSAY:done";
    let (mut updates, mut shown) = prompted(&stage, task, &mut out).await;
    let asked = async {
        loop {
            if let SessionUpdate::Committed(committed) = updates.recv().await.unwrap()
                && matches!(committed.record.event, Event::RequestAsked { .. })
            {
                return committed.tree.session.parent.clone();
            }
        }
    };
    assert_eq!(within("a request", asked).await.as_ref(), Some(shown.session()));
    stage.flood();
    let command = command("");
    let follow = command.follow(&stage.engine, updates, interrupts().unwrap(), &mut shown);
    within("the run to end", follow).await.unwrap();
    assert_eq!(stage.engine.requests().waiting().await.unwrap(), Vec::new());
}

#[tokio::test]
async fn to_continue_is_to_go_on_in_a_session_of_a_person() {
    let stage = Stage::new().await;
    let location = stage.engine.projects().location(None).await.unwrap();
    let sessions = stage.engine.sessions();
    let root = sessions.create(&location, NewSession::default()).await.unwrap();
    let task = NewSession { parent: Some(root.id.clone()), ..NewSession::default() };
    let task = sessions.create(&location, task).await.unwrap();
    let newest = Filter { limit: Some(1), ..Filter::default() };
    let newest = stage.engine.projects().sessions(&location, newest).await.unwrap();
    assert_eq!(newest, [task], "the subagent's is the newest");
    let found = RunCommand { newest: true, ..command("") }.find(&stage.engine, &location).await.unwrap();
    assert_eq!(found, Some(root));
}

#[tokio::test]
async fn a_text_with_a_hole_is_whole_although_the_turn_fails() {
    let stage = Stage::new().await;
    let mut out = String::new();
    let (mut updates, mut shown) = prompted(&stage, "HOLD:x SAY:one two three four", &mut out).await;
    let command = command("");
    // All that comes is shown but the first piece.
    let first = async {
        loop {
            let update = updates.recv().await.unwrap();
            if let SessionUpdate::Live(live) = &update
                && let Signal::Delta { text, .. } = &live.signal
            {
                return text.clone();
            }
            command.show(&stage.engine, &update, &mut shown).await.unwrap();
        }
    };
    assert_eq!(within("text", first).await, "one ");
    stage.model.held("x").await;
    stage.engine.drains().abort(shown.session()).await.unwrap();
    let follow = command.follow(&stage.engine, updates, interrupts().unwrap(), &mut shown);
    within("the run to end", follow).await.unwrap();
    let failure = shown.failure().map(|failure| failure.kind.clone());
    drop(shown);
    assert_eq!((failure, out.as_str()), (Some(FaultKind::Aborted), "one two three \n"));
}

#[tokio::test]
async fn a_session_that_is_deleted_just_after_its_work_was_stopped_is_gone() {
    // Whoever deletes it stops its work first, and the run said only that.
    let stage = Stage::new().await;
    let location = stage.engine.projects().location(None).await.unwrap();
    let id = stage.engine.sessions().create(&location, NewSession::default()).await.unwrap().id;
    let failed = is_gone(&stage.engine, &id, &Fault::internal("the disk is full")).await;
    assert!(!failed.unwrap());
    let stopped = Fault::new(FaultKind::Aborted, "Aborted");
    let (gone, trashed) =
        tokio::join!(is_gone(&stage.engine, &id, &stopped), stage.engine.sessions().trash(&id));
    assert_eq!((gone.unwrap(), trashed.unwrap()), (true, vec![id]));
}

#[tokio::test]
async fn a_session_at_rest_is_nobodys_work() {
    let stage = Stage::new().await;
    let location = stage.engine.projects().location(None).await.unwrap();
    let id = stage.engine.sessions().create(&location, NewSession::default()).await.unwrap().id;
    let shown = RunOutput::new(|_: &str| {}, id, EntryId::new("msg_1"));
    assert!(!command("").is_others_work(&stage.engine, &shown).await.unwrap());
}

//! Projects that are moved, cloned, copied and made: where their sessions are afterwards.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use everturn_engine::sessions::{Filter, NewSession};
use everturn_engine::{Config, Configurations, Engine, Options, Prompt};
use everturn_model::Session;
use everturn_testkit::{ModelServer, opencode_config, within};

/// Folders with repositories in them, and an engine.
struct World {
    model: ModelServer,
    base: PathBuf,
    options: Options,
    engine: Engine,
    _folder: tempfile::TempDir,
}

impl World {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        let model = ModelServer::recorded();
        let mut options = Options::new(&base.join("data"), &base);
        let config = opencode_config(&model.base_url());
        let config = Config::from_value(config.as_object().cloned().unwrap()).unwrap();
        options.configurations = Configurations::fixed(config, &options.paths.data);
        let engine = Engine::open(options.clone()).await.unwrap();
        Self { model, base, options, engine, _folder: folder }
    }

    /// Another process on the same data, which knows nothing but what was written.
    async fn restart(&mut self) {
        self.engine.close().await;
        self.engine = Engine::open(self.options.clone()).await.unwrap();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.base.join(name)
    }

    fn git(&self, folder: &str, arguments: &[&str]) {
        let output = Command::new("git")
            .args(["-c", "user.name=Test", "-c", "user.email=test@example.com", "-c", "commit.gpgsign=false"])
            .args(arguments)
            .current_dir(self.path(folder))
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .output()
            .unwrap();
        let problem = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "git {arguments:?}: {problem}");
    }

    /// A repository whose first commit is of this name.
    fn repository(&self, name: &str) {
        fs::create_dir_all(self.path(name).join("sub")).unwrap();
        self.git(name, &["init", "-q", "-b", "main"]);
        self.git(name, &["commit", "-q", "--allow-empty", "-m", name]);
    }

    fn rename(&self, from: &str, to: &str) {
        fs::rename(self.path(from), self.path(to)).unwrap();
    }

    /// Moves a folder as between two disks: the copy has everything new.
    fn copy_and_remove(&self, from: &str, to: &str) {
        let done = Command::new("cp").arg("-R").args([self.path(from), self.path(to)]).status().unwrap();
        assert!(done.success());
        fs::remove_dir_all(self.path(from)).unwrap();
    }

    async fn session(&self, folder: &str) -> Session {
        self.session_by(&self.engine, folder).await
    }

    async fn session_by(&self, engine: &Engine, folder: &str) -> Session {
        let location = engine.projects().location(self.path(folder).to_str()).await.unwrap();
        let new = NewSession { title: Some(format!("made in {folder}")), ..NewSession::default() };
        engine.sessions().create(&location, new).await.unwrap()
    }

    /// The titles of the sessions in a folder, and of those listed there for the project.
    async fn check(&self, folder: &str, in_folder: &[&str], in_project: &[&str]) {
        let path = self.path(folder);
        let location = self.engine.projects().location(path.to_str()).await.unwrap();
        let titles = async |filter| {
            let sessions = self.engine.projects().sessions(&location, filter).await.unwrap();
            let mut titles: Vec<String> = sessions.into_iter().map(|session| session.title).collect();
            titles.sort();
            titles
        };
        let directory = Some(path.display().to_string());
        assert_eq!(
            titles(Filter { directory, ..Filter::default() }).await,
            in_folder,
            "in the folder {folder}"
        );
        assert_eq!(titles(Filter::default()).await, in_project, "in the project of {folder}");
    }

    /// Has a session run a command and gives what it printed last.
    async fn run(&self, session: &Session, command: &str) -> String {
        let prompt = format!("TOOL:bash:{command}\nSAY:done");
        self.engine.inbox().admit(&session.id, Prompt::text(&prompt)).await.unwrap();
        within("the session to settle", self.engine.drains().settled(&session.id)).await;
        self.printed(session).await
    }

    /// What a command of a session printed last.
    async fn printed(&self, session: &Session) -> String {
        let nodes = self.engine.sessions().conversation(&session.id, None).await.unwrap().nodes;
        let output = nodes.iter().rev().find_map(|node| match &node.entry.body {
            everturn_model::Body::ToolResult { result } => Some(result.output.trim().to_owned()),
            _ => None,
        });
        output.unwrap()
    }
}

#[tokio::test]
async fn a_moved_project_keeps_its_sessions() {
    let world = World::new().await;
    world.repository("a");
    fs::write(world.path("a").join("AGENTS.md"), "rules").unwrap();
    let session = world.session("a").await;
    let sub = world.session("a/sub").await;
    assert_eq!(world.run(&session, "pwd").await, world.path("a").display().to_string());
    world.rename("a", "b");
    world.check("b", &["made in a"], &["made in a", "made in a/sub"]).await;
    world.check("b/sub", &["made in a/sub"], &["made in a", "made in a/sub"]).await;
    let moved = world.engine.sessions().get(&session.id).await.unwrap();
    assert_eq!(
        (moved.epoch.as_ref(), moved.path.as_deref()),
        (None, Some("")),
        "it is told anew where it works"
    );
    let moved = world.engine.sessions().get(&sub.id).await.unwrap();
    assert_eq!(moved.directory, world.path("b/sub").display().to_string());
    // It goes on there, and the model is told so.
    assert_eq!(world.run(&session, "pwd").await, world.path("b").display().to_string());
    let request = world.model.prompts().pop().unwrap();
    let told = request["messages"][0]["content"].to_string();
    assert!(told.contains(&format!("Working directory: {}", world.path("b").display())), "{told}");
    assert!(!told.contains(&format!("Working directory: {}", world.path("a").display())), "{told}");
    // And back again, opened by another process.
    world.rename("b", "a");
    let other = Engine::open(world.options.clone()).await.unwrap();
    other.projects().location(world.path("a").to_str()).await.unwrap();
    other.close().await;
    world.check("a", &["made in a"], &["made in a", "made in a/sub"]).await;
    // Opening it once more changes nothing.
    let log = world.engine.sessions().log(&session.id).await.unwrap().len();
    world.check("a", &["made in a"], &["made in a", "made in a/sub"]).await;
    assert_eq!(world.engine.sessions().log(&session.id).await.unwrap().len(), log);
}

#[tokio::test]
async fn a_cloned_project_has_sessions_of_its_own() {
    let mut world = World::new().await;
    world.repository("a");
    let session = world.session("a").await;
    world.git("", &["clone", "-q", "a", "b"]);
    world.check("b", &[], &[]).await;
    let [a, b] = ["a", "b"].map(|name| world.path(name));
    let [a, b] = [
        world.engine.projects().location(a.to_str()).await.unwrap(),
        world.engine.projects().location(b.to_str()).await.unwrap(),
    ];
    assert_eq!(a.project.id, b.project.id);
    world.session("b").await;
    world.check("b", &["made in b"], &["made in b"]).await;
    world.check("a", &["made in a"], &["made in a"]).await;
    // When the original is removed, the clone does not inherit what was done in it, but shows it.
    fs::remove_dir_all(world.path("a")).unwrap();
    world.restart().await;
    world.check("b", &["made in b"], &["made in a", "made in b"]).await;
    assert_eq!(
        world.engine.sessions().get(&session.id).await.unwrap().directory,
        world.path("a").display().to_string()
    );
}

#[tokio::test]
async fn two_clones_that_are_moved_at_once_keep_their_own() {
    let mut world = World::new().await;
    world.repository("a");
    world.session("a").await;
    world.git("", &["clone", "-q", "a", "b"]);
    world.session("b").await;
    world.rename("a", "c");
    world.rename("b", "d");
    world.check("d", &["made in b"], &["made in a", "made in b"]).await;
    world.check("c", &["made in a"], &["made in a"]).await;
    world.check("d", &["made in b"], &["made in b"]).await;
    // And back, seen by another process.
    world.rename("c", "a");
    world.rename("d", "b");
    world.restart().await;
    world.check("b", &["made in b"], &["made in a", "made in b"]).await;
    world.check("a", &["made in a"], &["made in a"]).await;
    world.check("b", &["made in b"], &["made in b"]).await;
}

#[tokio::test]
async fn a_project_that_is_moved_onto_anothers_place_takes_none_of_its_sessions() {
    let world = World::new().await;
    world.repository("a");
    world.repository("b");
    world.session("a").await;
    world.session("b").await;
    world.rename("b", "old");
    world.rename("a", "b");
    world.check("b", &["made in a"], &["made in a"]).await;
    world.check("old", &["made in b"], &["made in b"]).await;
}

#[tokio::test]
async fn a_project_that_was_copied_and_removed_keeps_its_sessions() {
    let world = World::new().await;
    world.repository("a");
    world.session("a").await;
    world.copy_and_remove("a", "b");
    world.check("b", &["made in a"], &["made in a"]).await;
    // Not so while there is another clone, which might as well be the one that was meant.
    world.git("", &["clone", "-q", "b", "c"]);
    world.session("c").await;
    world.copy_and_remove("b", "d");
    world.check("d", &[], &["made in a"]).await;
}

#[tokio::test]
async fn sessions_from_before_places_were_kept_come_along() {
    let world = World::new().await;
    world.repository("a");
    let location = world.engine.projects().location(world.path("a").to_str()).await.unwrap();
    world.session("a/sub").await;
    // As it was written before: without places.
    let mut project = location.project;
    project.places.clear();
    let store =
        everturn_store::Store::open(everturn_store::Options::folder(world.base.join("data"), "own_test"));
    let store = store.await.unwrap();
    store.put_project(&project.id, serde_json::to_string(&project).unwrap()).await.unwrap();
    drop(store);
    world.rename("a", "b");
    world.check("b/sub", &["made in a/sub"], &["made in a/sub"]).await;
}

#[tokio::test]
async fn a_session_at_work_stays_until_it_is_done() {
    let world = World::new().await;
    world.repository("a");
    let busy = world.session("a").await;
    world.session("a/sub").await;
    let mut notices = world.engine.bus().listen();
    let prompt = "TOOL:bash:echo begun; read line < pipe\nSAY:done";
    let pipe = world.path("a").join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    world.engine.inbox().admit(&busy.id, Prompt::text(prompt)).await.unwrap();
    within("the command to begin", async {
        while crate::turn::begun(&notices.recv().await.unwrap()).is_none() {}
    })
    .await;
    world.rename("a", "b");
    // Another process opens the new place; one session is in its way, the other is not.
    let other = Engine::open(world.options.clone()).await.unwrap();
    other.projects().location(world.path("b").to_str()).await.unwrap();
    let directory = async |id| world.engine.sessions().get(id).await.unwrap().directory;
    assert_eq!(directory(&busy.id).await, world.path("a").display().to_string());
    world.engine.drains().abort(&busy.id).await.unwrap();
    within("the session to settle", world.engine.drains().settled(&busy.id)).await;
    world.check("b", &["made in a"], &["made in a", "made in a/sub"]).await;
    other.close().await;
}

#[tokio::test]
async fn worktrees_have_the_project_in_common() {
    let world = World::new().await;
    world.repository("a");
    world.session("a").await;
    world.git("a", &["worktree", "add", "-q", "../w", "-b", "work"]);
    let location = world.engine.projects().location(world.path("w").to_str()).await.unwrap();
    assert_eq!(location.worktree, world.path("w"));
    // It was looked for in `.git/HEAD`, and in a worktree `.git` is a file.
    assert_eq!(location.branch().as_deref(), Some("work"));
    world.session("w").await;
    world.check("w", &["made in w"], &["made in a", "made in w"]).await;
    world.check("a", &["made in a"], &["made in a", "made in w"]).await;
    // The next worktree does not take what the last one has left.
    world.git("a", &["worktree", "remove", "../w"]);
    world.git("a", &["worktree", "add", "-q", "../w2", "-b", "more"]);
    world.check("w2", &[], &["made in a", "made in w"]).await;
}

#[tokio::test]
async fn sessions_of_a_folder_stay_with_it_when_it_becomes_a_project() {
    let world = World::new().await;
    fs::create_dir_all(world.path("a/sub")).unwrap();
    world.session("a").await;
    world.git("a", &["init", "-q"]);
    world.session("a/sub").await;
    world.check("a", &["made in a"], &["made in a", "made in a/sub"]).await;
    // A repository within it, and a folder beside it, are something else.
    world.repository("a/nested");
    world.session("a/nested").await;
    fs::create_dir_all(world.path("beside")).unwrap();
    world.session("beside").await;
    world.git("a", &["commit", "-q", "--allow-empty", "-m", "first"]);
    world.check("a", &["made in a"], &["made in a", "made in a/sub"]).await;
    world.check("a/sub", &["made in a/sub"], &["made in a", "made in a/sub"]).await;
    world.check("a/nested", &["made in a/nested"], &["made in a/nested"]).await;
    world.check("beside", &["made in beside"], &["made in beside"]).await;
}

#[tokio::test]
async fn sessions_of_a_shallow_clone_stay_with_it_when_it_is_completed() {
    let world = World::new().await;
    world.repository("a");
    world.git("a", &["commit", "-q", "--allow-empty", "-m", "second"]);
    let address = format!("file://{}", world.path("a").display());
    world.git("", &["clone", "-q", "--depth", "1", &address, "b"]);
    let [a, b] = [world.path("a"), world.path("b")];
    let id = async |path: &Path| world.engine.projects().location(path.to_str()).await.unwrap().project.id;
    assert_ne!(id(&a).await, id(&b).await);
    world.session("b").await;
    world.git("b", &["fetch", "-q", "--unshallow"]);
    assert_eq!(id(&a).await, id(&b).await);
    world.check("b", &["made in b"], &["made in b"]).await;
}

#[tokio::test]
async fn what_a_moved_session_did_can_be_undone_there() {
    let world = World::new().await;
    world.repository("a");
    let session = world.session("a").await;
    let prompt = Prompt::text("TOOL:bash:echo x > made.txt\nSAY:done");
    let message = world.engine.inbox().admit(&session.id, prompt).await.unwrap().id;
    within("the session to settle", world.engine.drains().settled(&session.id)).await;
    world.rename("a", "b");
    world.check("b", &["made in a"], &["made in a"]).await;
    assert!(world.path("b/made.txt").exists());
    world.engine.reverts().revert(&session.id, &message, None).await.unwrap();
    assert!(!world.path("b/made.txt").exists());
    world.engine.reverts().unrevert(&session.id).await.unwrap();
    assert!(world.path("b/made.txt").exists());
}

#[tokio::test]
async fn a_slow_repository_holds_up_no_other() {
    // All lookups waited for each other, up to ten seconds for each at which git took its time.
    let world = World::new().await;
    world.repository("slow");
    world.repository("quick");
    // A file that git's configuration includes: it is not asked where its own files are pipes.
    let pipe = world.path("slow/.git/held");
    let content = b"# nothing\n";
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let config = fs::read_to_string(world.path("slow/.git/config")).unwrap();
    fs::write(world.path("slow/.git/config"), config + "[include]\n\tpath = held\n").unwrap();
    let engine = world.engine.clone();
    let slow = world.path("slow");
    let looking = tokio::spawn(async move { engine.projects().location(slow.to_str()).await });
    // Opening it waits for git, which then waits for what is written.
    let held = pipe.clone();
    let opened = tokio::task::spawn_blocking(move || fs::OpenOptions::new().write(true).open(held));
    let mut held = within("git to read", opened).await.unwrap().unwrap();
    let quick = within("the other one", world.engine.projects().location(world.path("quick").to_str()))
        .await
        .unwrap();
    assert_eq!(quick.project.worktree, world.path("quick"));
    assert!(!looking.is_finished());
    // Whoever opens it from now on finds a file.
    fs::write(world.path("file"), content).unwrap();
    fs::rename(world.path("file"), &pipe).unwrap();
    held.write_all(content).unwrap();
    drop(held);
    let slow = within("the slow one", looking).await.unwrap().unwrap();
    assert_ne!(slow.project.id, "global");
}

#[tokio::test]
async fn git_is_not_asked_at_every_lookup_when_it_has_no_answer() {
    // Where git takes its time, each lookup of a folder took ten seconds.
    let world = World::new().await;
    world.repository("a");
    let head = world.path("a/.git/HEAD");
    let content = fs::read(&head).unwrap();
    fs::write(&head, "no reference").unwrap();
    let id = async |folder: &str| {
        world.engine.projects().location(world.path(folder).to_str()).await.unwrap().project.id
    };
    assert_eq!(id("a").await, "global");
    fs::write(&head, content).unwrap();
    assert_eq!(id("a/sub").await, "global", "git was asked again at once");
    let mut world = world;
    world.restart().await;
    let location = world.engine.projects().location(world.path("a").to_str()).await.unwrap();
    assert_ne!(location.project.id, "global");
}

#[tokio::test]
async fn work_that_a_stop_left_open_goes_on_where_its_project_was_moved() {
    let mut world = World::new().await;
    world.repository("a");
    let session = world.session("a").await;
    let prompt = Prompt::text("MUTE:x\nTOOL:bash:pwd\nSAY:done");
    world.engine.inbox().admit(&session.id, prompt).await.unwrap();
    world.model.held("x").await;
    within("the engine to close", world.engine.close()).await;
    world.rename("a", "b");
    world.model.release("x");
    world.options.directory = world.path("b");
    world.engine = Engine::open(world.options.clone()).await.unwrap();
    assert_eq!(world.engine.recover().await.unwrap(), 1);
    within("the session to settle", world.engine.drains().settled(&session.id)).await;
    let session = world.engine.sessions().get(&session.id).await.unwrap();
    assert_eq!(session.directory, world.path("b").display().to_string());
    assert!(!session.open);
    assert_eq!(world.printed(&session).await, session.directory, "the command ran there");
}

//! The sandbox on the real binary: on unless the person switches it off, whatever a project says, and left only by the
//! word of a person.

use std::path::Path;
use std::process::Command;

use everturn_testkit::process::ServerOptions;
use everturn_testkit::{Client, EverturnServer, ModelServer, Repo, opencode_config, within};
use serde_json::{Value, json};

use crate::shell::Home;
use crate::stage::prompt;

/// A secret in the person's home.
const SECRET: &str = "secret-of-the-home";

/// A server in a repository, with a secret in its home.
struct SandboxScene {
    server: EverturnServer,
    repo: Repo,
    _model: ModelServer,
}

impl SandboxScene {
    /// With this in the person's configuration, and these files in the repository.
    async fn new(config: &[(&str, Value)], files: &[(&str, &str)]) -> Self {
        let model = ModelServer::start();
        let repo = Repo::new(files);
        let mut options = ServerOptions::with_model(&model.base_url());
        options.config = opencode_config(&model.base_url());
        for (key, value) in config {
            options.config[*key] = value.clone();
        }
        options.directory = Some(repo.path().to_owned());
        let server = EverturnServer::start(Path::new(env!("CARGO_BIN_EXE_everturn")), options).await;
        std::fs::create_dir(server.home().join(".ssh")).unwrap();
        std::fs::write(server.home().join(".ssh/id"), SECRET).unwrap();
        Self { server, repo, _model: model }
    }

    fn client(&self) -> Client {
        self.server.client()
    }

    /// A path in the home that no rule can read off the line.
    fn reading(&self) -> String {
        format!("h=$(echo {}); cat $h/.ssh/id", self.server.home().display())
    }

    async fn session(&self, agent: &str) -> String {
        let made = self.client().post("/session", &json!({"agent": agent})).await.ok().json();
        made["id"].as_str().unwrap().to_owned()
    }

    /// Has an agent run a command; the result is that of the call.
    async fn run(&self, agent: &str, input: &Value) -> Value {
        let session = self.session(agent).await;
        let mut body = prompt(&format!("JSONTOOL:bash:{input}\nSAY:done"));
        body["agent"] = json!(agent);
        self.client().post(&format!("/session/{session}/message"), &body).await.ok();
        self.result(&session).await
    }

    /// What came of the call of a session.
    async fn result(&self, session: &str) -> Value {
        let messages = self.client().get(&format!("/session/{session}/message")).await.ok().json();
        let parts =
            messages.as_array().unwrap().iter().flat_map(|message| message["parts"].as_array().unwrap());
        let calls: Vec<&Value> = parts.filter(|part| part["type"] == "tool").collect();
        assert_eq!(calls.len(), 1, "{messages}");
        calls[0]["state"].clone()
    }
}

fn command(line: &str) -> Value {
    json!({"command": line, "description": "a test"})
}

/// A call that a person has to answer: the session, the id of the request and what it asks for.
async fn asked(scene: &SandboxScene, input: &Value) -> (String, String, Value) {
    asked_by(scene, "build", input).await
}

/// The same by another agent.
async fn asked_by(scene: &SandboxScene, agent: &str, input: &Value) -> (String, String, Value) {
    let mut events = scene.client().events("/event").await;
    let session = scene.session(agent).await;
    let mut body = prompt(&format!("JSONTOOL:bash:{input}\nSAY:done"));
    body["agent"] = json!(agent);
    scene.client().post(&format!("/session/{session}/prompt_async"), &body).await.ok();
    let asked = events.wait_for_type("permission.asked").await["properties"].clone();
    let id = asked["id"].as_str().unwrap().to_owned();
    (session, id, asked)
}

/// Answers a request and waits until its session is done.
async fn answer(scene: &SandboxScene, session: &str, request: &str, reply: &str) -> Value {
    let mut events = scene.client().events("/event").await;
    let path = format!("/permission/{request}/reply");
    scene.client().post(&path, &json!({"reply": reply})).await.ok();
    events.wait_for_type("session.idle").await;
    scene.result(session).await
}

#[tokio::test]
async fn commands_are_in_it_unless_the_person_switches_it_off() {
    let walled = SandboxScene::new(&[], &[]).await;
    let kept = walled.run("build", &command(&walled.reading())).await;
    assert!(!kept.to_string().contains(SECRET), "{kept}");
    assert_eq!(kept["metadata"]["exit"], 1, "{kept}");
    let hook =
        "python3 -c \"open('.gi' + 't' + chr(47) + 'hooks' + chr(47) + 'pre-commit', 'w').write('x')\"";
    assert_ne!(walled.run("build", &command(hook)).await["metadata"]["exit"], 0);
    assert!(!walled.repo.join(".git/hooks/pre-commit").exists());
    // Work in the project goes on, and a later command finds what an earlier one has put into /tmp.
    let work =
        "echo made > made.txt && git add made.txt && git -c user.name=A -c user.email=a@b commit -qm one";
    assert_eq!(walled.run("build", &command(work)).await["metadata"]["exit"], 0);
    assert_eq!(walled.repo.git(&["log", "-1", "--format=%s"]).trim(), "one");

    let open = SandboxScene::new(&[("sandbox", json!("off")), ("permission", json!("allow"))], &[]).await;
    let read = open.run("build", &command(&open.reading())).await;
    assert_eq!(read["output"], SECRET, "{read}");
}

#[tokio::test]
async fn what_is_in_tmp_stays_for_the_session_and_for_nobody_else() {
    let scene = SandboxScene::new(&[], &[]).await;
    let session = scene.session("build").await;
    let name = format!("/tmp/everturn-test-{session}");
    let say = async |session: &str, line: &str| {
        let body = prompt(&format!("JSONTOOL:bash:{}\nSAY:done", command(line)));
        scene.client().post(&format!("/session/{session}/message"), &body).await.ok();
        let messages = scene.client().get(&format!("/session/{session}/message")).await.ok().json();
        let last = messages.as_array().unwrap().iter().rev();
        let mut parts = last.flat_map(|message| message["parts"].as_array().unwrap());
        parts.find(|part| part["type"] == "tool").unwrap()["state"]["output"].as_str().unwrap().to_owned()
    };
    say(&session, &format!("echo mine > {name}")).await;
    assert_eq!(say(&session, &format!("cat {name}")).await, "mine\n");
    assert!(!Path::new(&name).exists(), "the machine's own is not touched");
    let other = scene.session("build").await;
    assert!(say(&other, &format!("cat {name} 2>&1 || echo nothing")).await.contains("nothing"));
}

#[tokio::test]
async fn a_command_is_not_told_the_id_of_its_session() {
    // It was the name of the session's `/tmp`, which stands in the list of mounts.
    let scene = SandboxScene::new(&[], &[]).await;
    let session = scene.session("build").await;
    let body = prompt(&format!("JSONTOOL:bash:{}\nSAY:done", command("cat /proc/self/mountinfo; env")));
    scene.client().post(&format!("/session/{session}/message"), &body).await.ok();
    let told = scene.result(&session).await["output"].as_str().unwrap().to_owned();
    assert!(told.contains("/temporary/") && told.contains("PATH="), "{told}");
    assert!(!told.contains(&session), "{told}");
}

#[tokio::test]
async fn a_project_can_confine_further_and_no_less() {
    let write = command("echo x > new.txt");
    let tighter = SandboxScene::new(&[], &[("opencode.json", r#"{"sandbox": "read-only"}"#)]).await;
    assert_ne!(tighter.run("build", &write).await["metadata"]["exit"], 0);
    assert!(!tighter.repo.join("new.txt").exists());

    let looser =
        r#"{"sandbox": {"mode": "off", "readable": ["~/.ssh"]}, "permission": {"outside_sandbox": "allow"}}"#;
    let looser = SandboxScene::new(&[], &[("opencode.json", looser)]).await;
    let kept = looser.run("build", &command(&looser.reading())).await;
    assert!(!kept.to_string().contains(SECRET), "{kept}");
    assert_eq!(looser.run("build", &write).await["metadata"]["exit"], 0);
}

#[tokio::test]
async fn an_agent_that_may_change_nothing_has_commands_that_cannot() {
    let scene = SandboxScene::new(&[], &[("a.txt", "kept\n")]).await;
    let state = scene.run("plan", &command("cat a.txt; echo x >> a.txt; rm a.txt; touch new")).await;
    assert!(state["output"].as_str().unwrap().starts_with("kept\n"), "{state}");
    assert_ne!(state["metadata"]["exit"], 0, "{state}");
    assert_eq!(scene.repo.read("a.txt"), "kept\n");
    assert!(!scene.repo.join("new").exists());
}

#[tokio::test]
async fn a_person_lets_one_command_out() {
    let scene = SandboxScene::new(&[], &[]).await;
    let mut input = command(&scene.reading());
    input["outside_sandbox"] = json!(true);
    let (session, request, shown) = asked(&scene, &input).await;
    assert_eq!(shown["permission"], "outside_sandbox", "{shown}");
    assert_eq!(shown["metadata"]["command"], input["command"], "{shown}");
    assert!(!answer(&scene, &session, &request, "reject").await.to_string().contains(SECRET));
    let (session, request, _) = asked(&scene, &input).await;
    assert_eq!(answer(&scene, &session, &request, "once").await["output"], SECRET);
    // That was one command.
    let kept = scene.run("build", &command(&scene.reading())).await;
    assert!(!kept.to_string().contains(SECRET), "{kept}");
}

#[tokio::test]
async fn a_rule_that_allows_everything_lets_no_command_out() {
    let scene = SandboxScene::new(&[("permission", json!("allow"))], &[]).await;
    let mut input = command(&scene.reading());
    input["outside_sandbox"] = json!(true);
    let (session, request, shown) = asked(&scene, &input).await;
    assert_eq!(shown["permission"], "outside_sandbox", "{shown}");
    assert!(!answer(&scene, &session, &request, "reject").await.to_string().contains(SECRET));
    let named = [("permission", json!({"*": "allow", "outside_sandbox": "allow"}))];
    let scene = SandboxScene::new(&named, &[]).await;
    let mut input = command(&scene.reading());
    input["outside_sandbox"] = json!(true);
    assert_eq!(scene.run("build", &input).await["output"], SECRET);
    // An agent that may change nothing does not leave by a rule.
    let (session, request, shown) = asked_by(&scene, "plan", &input).await;
    assert_eq!(shown["permission"], "outside_sandbox", "{shown}");
    assert!(!answer(&scene, &session, &request, "reject").await.to_string().contains(SECRET));
}

#[tokio::test]
async fn the_network_is_for_the_commands_that_a_rule_names() {
    let service = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = service.local_addr().unwrap().port();
    let reach = format!("import socket; socket.create_connection(('127.0.0.1', {port}))\n");
    let files = [("reach.py", reach.as_str())];
    let rules = json!({"network": {"*": "deny", "python3 *": "allow"}});
    let scene = SandboxScene::new(&[("permission", rules)], &files).await;
    for (line, reached) in [
        ("python3 reach.py", true),
        ("python3 reach.py && python3 reach.py", true),
        ("true && python3 reach.py", false),
        ("env python3 reach.py", false),
        ("bash -c 'python3 reach.py'", false),
    ] {
        let state = scene.run("build", &command(line)).await;
        assert_eq!(state["metadata"]["exit"] == 0, reached, "{line}: {state}");
    }
}

#[tokio::test]
async fn a_rule_about_the_network_holds_without_a_sandbox_too() {
    let service = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = service.local_addr().unwrap().port();
    let reach = format!("import socket; socket.create_connection(('127.0.0.1', {port}))\n");
    let files = [("reach.py", reach.as_str())];
    let rules = json!({"network": {"*": "deny", "python3 *": "allow"}, "outside_sandbox": "allow"});
    for sandbox in ["off", "workspace"] {
        let scene =
            SandboxScene::new(&[("permission", rules.clone()), ("sandbox", json!(sandbox))], &files).await;
        for (line, runs) in [("python3 reach.py", true), ("true && python3 reach.py", false)] {
            for background in [false, true] {
                let input = json!({"command": line, "description": "a test", "outside_sandbox": true,
                    "background": background});
                let state = scene.run("build", &input).await;
                let refused = "Not allowed: a rule is against network on true, python3 reach.py. Find another way or say \
                               that it cannot be done.";
                let expected = if runs {
                    (&json!("completed"), &json!(null))
                } else {
                    (&json!("error"), &json!(refused))
                };
                assert_eq!((&state["status"], &state["error"]), expected, "{sandbox}: {input}: {state}");
            }
        }
    }
}

#[tokio::test]
async fn there_is_no_network_where_it_is_not_allowed() {
    let service = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let line = format!("exec 3<>/dev/tcp/127.0.0.1/{}", service.local_addr().unwrap().port());
    let open = SandboxScene::new(&[], &[]).await;
    assert_eq!(open.run("build", &command(&line)).await["metadata"]["exit"], 0);

    let closed = SandboxScene::new(&[("permission", json!({"network": "ask"}))], &[]).await;
    assert_ne!(closed.run("build", &command(&line)).await["metadata"]["exit"], 0);
    let mut input = command(&line);
    input["network"] = json!(true);
    let (session, request, shown) = asked(&closed, &input).await;
    assert_eq!(shown["permission"], "network", "{shown}");
    assert_eq!(answer(&closed, &session, &request, "once").await["metadata"]["exit"], 0);
}

/// Tells what it can read, and ends: it speaks no protocol.
const SERVER: &str = "cat \"$HOME/.ssh/id\" > told.txt 2>&1; echo done > done.txt";

#[tokio::test]
async fn servers_of_a_project_are_in_it_and_those_of_the_person_are_not() {
    let server = json!({"mcp": {"theirs": {"type": "local", "command": ["sh", "-c", SERVER]}}});
    let check = async |config: &[(&str, Value)], files: &[(&str, &str)], arguments: &[&str], read: bool| {
        let model = ModelServer::start();
        let mut home = Home::new();
        home.set("EVERTURN_LOG", "error");
        let mut own = opencode_config(&model.base_url());
        for (key, value) in config {
            own[*key] = value.clone();
        }
        home.configure(&own);
        let folder =
            home.command(&[]).get_envs().find(|(name, _)| *name == "HOME").unwrap().1.unwrap().to_owned();
        std::fs::create_dir(Path::new(&folder).join(".ssh")).unwrap();
        std::fs::write(Path::new(&folder).join(".ssh/id"), SECRET).unwrap();
        std::fs::create_dir(home.work().join(".git")).unwrap();
        for (name, text) in files {
            std::fs::write(home.work().join(name), text).unwrap();
        }
        let ran = home.run(arguments);
        assert!(home.work().join("done.txt").exists(), "it was not started: {ran:?}");
        let told = std::fs::read_to_string(home.work().join("told.txt")).unwrap();
        assert_eq!(told.contains(SECRET), read, "{arguments:?}: {told}");
    };
    let text = server.to_string();
    let theirs = [("opencode.json", text.as_str())];
    check(&[], &theirs, &["run", "--trust", "SAY:x"], false).await;
    check(&[("mcp", server["mcp"].clone())], &[], &["run", "SAY:x"], true).await;
    check(&[("mcp", server["mcp"].clone())], &[], &["mcp", "list"], true).await;
    let confined = [("mcp", server["mcp"].clone()), ("sandbox", json!({"mcp": true}))];
    check(&confined, &[], &["run", "SAY:x"], false).await;
    check(&confined, &[], &["mcp", "list"], false).await;
}

#[test]
fn where_it_has_a_hole_that_is_said_and_each_command_is_asked_about() {
    let model = ModelServer::start();
    let home = Home::new();
    home.configure(&opencode_config(&model.base_url()));
    // No namespaces, as in most containers: what is left is Landlock and the filter.
    let limits = "echo 0 > /proc/sys/user/max_user_namespaces && exec setpriv --bounding-set=-all \"$@\"";
    let run = |arguments: &[&str]| {
        let plain = home.command(arguments);
        let mut limited = Command::new("unshare");
        limited
            .args(["--map-root-user", "sh", "-c", limits, "sh"])
            .arg(plain.get_program())
            .args(plain.get_args());
        limited.current_dir(home.work()).env_clear();
        limited.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let done = limited.output().unwrap();
        (String::from_utf8(done.stdout).unwrap(), String::from_utf8(done.stderr).unwrap())
    };
    let prompt = format!("JSONTOOL:bash:{}\nSAY:done", command("echo ran > ran.txt"));
    let (_, told) = run(&["run", &prompt]);
    let hole = "the sandbox for commands is not whole on this machine, so each command is asked about, unless a rule of \
                yours allows it: there is no user namespace, no mount namespace, no process namespace, no /proc of its own, no ipc namespace, no network \
                namespace (`everturn doctor` shows why)";
    assert!(told.contains(hole), "{told}");
    assert!(!home.work().join("ran.txt").exists(), "{told}");
    let (said, told) = run(&["run", "--yes", &prompt]);
    assert!(said.ends_with("done\n"), "{said}{told}");
    assert_eq!(std::fs::read_to_string(home.work().join("ran.txt")).unwrap(), "ran\n");
    // There is no wall to leave: who allows everything is told, and not asked for each command.
    std::fs::remove_file(home.work().join("ran.txt")).unwrap();
    let mut open = opencode_config(&model.base_url());
    open["permission"] = json!("allow");
    home.configure(&open);
    let (said, told) = run(&["run", &prompt]);
    assert!(told.contains(hole), "{told}");
    assert_eq!(std::fs::read_to_string(home.work().join("ran.txt")).unwrap(), "ran\n", "{said}{told}");
    let (shown, _) = run(&["doctor"]);
    assert!(shown.contains("commands run in what there is of a sandbox, and each is asked about"), "{shown}");
}

/// The children of a process, ended ones that nobody has waited for among them.
fn children(pid: i32) -> Vec<String> {
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let stats = all.filter_map(|entry| std::fs::read_to_string(entry.path().join("stat")).ok());
    stats
        .filter(|stat| {
            let after = stat.rsplit_once(") ").map_or("", |(_, after)| after);
            after.split(' ').nth(1) == Some(&pid.to_string())
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_that_has_ended_leaves_no_process() {
    // The init of each sandbox stayed as a zombie of the server, which had nothing to do with it.
    for config in [&[][..], &[("sandbox", json!("read-only"))]] {
        let scene = SandboxScene::new(config, &[]).await;
        for _ in 0..3 {
            let state = scene.run("build", &command("echo ran")).await;
            assert_eq!(state["metadata"]["exit"], 0, "{state}");
        }
        let server = scene.server.pid();
        within("the processes of all commands to be gone", async {
            while !children(server).is_empty() {
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
        })
        .await;
    }
}

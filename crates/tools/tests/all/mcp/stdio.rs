//! A scripted server over standard input and output, with every misbehaviour that we could think of.

use std::path::Path;
use std::time::Duration;

use everturn_testkit::within;
use everturn_tools::mcp::{Launch, McpTiming, PromptArgument, PromptInfo, ServerStatus};
use everturn_tools::{Context, Failure};
use serde_json::{Value, json};

use super::{Bench, content, is_alive, quick, scripted};

#[tokio::test]
async fn tools_are_registered_and_called() {
    let bench = Bench::scripted("plain").await;
    assert_eq!(bench.status("s"), ServerStatus::Connected);
    assert_eq!(bench.names(), ["s_die", "s_echo", "s_env", "s_fail", "s_mute", "s_other", "s_slow"]);
    assert_eq!(bench.text("s_echo", json!({"message": "grüße"})).await, "grüße");
    let tool = bench.tool("s_echo");
    assert_eq!(tool.description(), "Does echo");
    assert_eq!(tool.schema(), json!({"type": "object", "properties": {}}));
    let needs = tool.needs(&json!({}), &bench.context().scope).unwrap();
    let need = json!([{"permission": "s_echo", "patterns": ["*"], "always": ["*"], "metadata": {}}]);
    assert_eq!(json!(needs), need);
    let refused = bench.call("s_fail", json!({})).await;
    assert_eq!(refused, Err(Failure::Failed("The MCP server 's' refused the call: will not".to_owned())));
    assert!(matches!(bench.call("s_echo", json!("text")).await, Err(Failure::InvalidInput(_))));
    bench.servers.connection("s").unwrap().ping().await.unwrap();
    bench.servers.close().await;
    assert_eq!((bench.status("s"), bench.names()), (ServerStatus::Disabled, Vec::new()));
}

#[tokio::test]
async fn prompts_are_listed_and_given() {
    let bench = Bench::scripted("plain").await;
    let argument = |name: &str| PromptArgument { name: name.to_owned() };
    let greet = PromptInfo {
        name: "greet".to_owned(),
        description: Some("greets".to_owned()),
        arguments: vec![argument("who"), argument("how")],
    };
    assert_eq!(bench.servers.prompts().await, [("s".to_owned(), greet)]);
    let ask = async |server: &str, arguments: &[(&str, &str)]| {
        let named = arguments.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        bench.servers.prompt(server, "greet", &named).await
    };
    let said = "SAY:hello Ada\nhow: gladly !`echo never >> never` $1".to_owned();
    assert_eq!(ask("s", &[("who", "Ada"), ("how", "gladly")]).await, Some(Ok(said)), "pictures stay behind");
    assert!(ask("s", &[]).await.unwrap().unwrap_err().to_string().contains("who?"));
    assert_eq!(ask("other", &[]).await, None);
}

#[tokio::test]
async fn our_secrets_stay_with_us() {
    let mut server = scripted("plain", None);
    server["environment"] = json!({"CONFIGURED": "yes"});
    let bench = Bench::start([("s", server)]);
    bench.servers.settled().await;
    let environment: Value = serde_json::from_str(&bench.text("s_env", json!({})).await).unwrap();
    assert_eq!(environment["CONFIGURED"], "yes");
    assert_eq!(environment["CARGO_PKG_NAME"], "everturn-tools");
    // Cargo sets both for the tests; this one stands for a key.
    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some());
    assert_eq!(environment.get("CARGO_MANIFEST_DIR"), None);
    let ours = environment.as_object().unwrap().keys().filter(|name| name.starts_with("EVERTURN_"));
    // By which its processes are found when the supervisor was killed.
    assert_eq!(ours.collect::<Vec<_>>(), ["EVERTURN_CALL"]);
}

#[tokio::test]
async fn revisions_are_negotiated() {
    let bench = Bench::scripted("old").await;
    assert_eq!(bench.servers.connection("s").unwrap().peer().revision, "2024-11-05");
    let bench = Bench::scripted("future").await;
    let ServerStatus::Failed(reason) = bench.status("s") else { panic!("{:?}", bench.status("s")) };
    assert!(reason.contains("2099-01-01"), "{reason}");
}

#[tokio::test]
async fn pages_end() {
    let bench = Bench::scripted("pages").await;
    assert_eq!(bench.names(), ["s_t0", "s_t1", "s_t2", "s_t3", "s_t4"]);
    // The same page over and over.
    let bench = Bench::scripted("endless").await;
    assert_eq!(bench.names(), ["s_again"]);
}

#[tokio::test]
async fn names_do_not_collide() {
    let bench = Bench::scripted("names").await;
    let names = bench.names();
    assert_eq!(names.len(), 4, "{names:?}");
    assert_eq!(bench.text("s_a_b", json!({})).await, "did a_b");
    for name in &names {
        assert!(name.len() <= 64, "{name}");
        let did = bench.text(name, json!({})).await;
        assert_eq!(name == "s_a_b", did == "did a_b", "{name} {did}");
    }
    // The same names on another day.
    assert_eq!(Bench::scripted("names").await.names(), names);
}

#[tokio::test]
async fn descriptions_and_schemas_are_bounded() {
    let bench = Bench::scripted("schemas").await;
    assert_eq!(bench.names(), ["s_bare", "s_huge", "s_long", "s_wrong"]);
    let open = json!({"type": "object", "properties": {}, "additionalProperties": true});
    assert_eq!(bench.tool("s_huge").schema(), open);
    assert!(bench.tool("s_huge").description().contains("too long to be listed"));
    assert_eq!(bench.tool("s_wrong").schema(), open);
    assert_eq!(bench.tool("s_bare").description(), "The tool 'bare' of the MCP server 's'.");
    let long = bench.tool("s_long").description().to_owned();
    assert!(long.starts_with("dee") && long.len() < 9000, "{}", long.len());
}

#[tokio::test]
async fn answers_find_their_calls() {
    let bench = Bench::scripted("order").await;
    let (one, two) = tokio::join!(
        bench.text("s_echo", json!({"message": "one"})),
        bench.text("s_echo", json!({"message": "two"}))
    );
    assert_eq!((one.as_str(), two.as_str()), ("one", "two"));
    let bench = Bench::scripted("twice").await;
    assert_eq!(bench.text("s_echo", json!({})).await, "first");
    assert_eq!(bench.text("s_other", json!({})).await, "did other");
    let bench = Bench::scripted("wrong").await;
    assert_eq!(bench.text("s_echo", json!({})).await, "right");
    let bench = Bench::scripted("noise").await;
    assert_eq!(bench.text("s_echo", json!({"message": "through"})).await, "through");
}

#[tokio::test]
async fn what_a_server_asks_is_answered() {
    let bench = Bench::scripted("asking").await;
    let answers: Value = serde_json::from_str(&bench.text("s_echo", json!({})).await).unwrap();
    let directory = bench.directory();
    let (uri, name) =
        (format!("file://{}", directory.display()), directory.file_name().unwrap().to_str().unwrap());
    let expected = json!([
        {"jsonrpc": "2.0", "id": "p1", "result": {}},
        {"jsonrpc": "2.0", "id": "r1", "result": {"roots": [{"uri": uri, "name": name}]}},
        {"jsonrpc": "2.0", "id": "s1", "error": {"code": -32601, "message": "this client does not do that"}},
    ]);
    assert_eq!(answers, expected);
}

#[tokio::test]
async fn a_changed_list_is_listed_again() {
    let bench = Bench::scripted("changing").await;
    assert_eq!(bench.names(), ["s_first"]);
    assert_eq!(bench.text("s_first", json!({})).await, "ok");
    within("the other tool", async {
        while bench.names() != ["s_second"] {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    assert_eq!(bench.text("s_second", json!({})).await, "did second");
}

#[tokio::test]
async fn a_server_that_dies_fails_its_calls_and_comes_back() {
    let bench = Bench::scripted("plain").await;
    let (waiting, dying) = tokio::join!(bench.call("s_mute", json!({})), bench.call("s_die", json!({})));
    let expected = "The call to the MCP server 's' failed: the server ended (exit status: 3); its last words were: \
                    the last words. Do without it, or say what is needed of it.";
    assert_eq!(waiting, Err(Failure::Failed(expected.to_owned())));
    assert_eq!(dying, waiting);
    bench.until("s", |status| *status == ServerStatus::Connected).await;
    assert_eq!(bench.text("s_echo", json!({"message": "again"})).await, "again");
}

#[tokio::test]
async fn a_call_waits_for_a_server_that_is_coming_back() {
    let bench = Bench::scripted("plain").await;
    let echo = bench.tool("s_echo");
    assert!(bench.call("s_die", json!({})).await.is_err());
    // The tool is the one that the model was told about before.
    let output = within("the call", echo.run(json!({"message": "late"}), bench.context())).await.unwrap();
    assert_eq!(output.output, "late");
}

#[tokio::test]
async fn what_a_dead_server_left_behind_ends_too() {
    let trace = tempfile::NamedTempFile::new().unwrap();
    let bench = Bench::start([("s", scripted("orphan", Some(trace.path())))]);
    bench.servers.settled().await;
    let Err(Failure::Failed(text)) = bench.call("s_die", json!({})).await else { panic!("it died") };
    assert!(text.contains("ended (exit status: 3)"), "{text}");
    let orphan = content(trace.path()).await;
    within("the end of the orphan", async {
        while is_alive(&orphan) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_stubborn_server_is_killed() {
    let trace = tempfile::NamedTempFile::new().unwrap();
    let bench = Bench::start([("s", scripted("stubborn", Some(trace.path())))]);
    bench.servers.settled().await;
    let process = content(trace.path()).await;
    assert!(is_alive(&process));
    within("the end of the set", bench.servers.close()).await;
    assert!(!is_alive(&process));
}

#[tokio::test]
async fn what_a_server_detached_ends_with_it() {
    // Only the server's process group was stopped, and a browser that it had started in a session of its own ran on.
    let trace = tempfile::NamedTempFile::new().unwrap();
    let bench = Bench::start([("s", scripted("detached", Some(trace.path())))]);
    bench.servers.settled().await;
    let detached = content(trace.path()).await;
    assert!(is_alive(&detached));
    within("the end of the set", bench.servers.close()).await;
    assert!(!is_alive(&detached));
}

#[tokio::test]
async fn a_server_ends_when_we_are_killed() {
    // One that took no notice of the end of its input ran on for ever, and so did what it had detached.
    for mode in ["stubborn", "detached"] {
        let trace = tempfile::NamedTempFile::new().unwrap();
        let mut ours = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "mcp::stdio::helper_that_runs_a_server", "--ignored", "--nocapture"])
            .env("MCP_MODE", mode)
            .env("MCP_TRACE", trace.path())
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let process = content(trace.path()).await;
        assert!(is_alive(&process));
        ours.kill().unwrap();
        ours.wait().unwrap();
        within("the end of what the server was", async {
            while is_alive(&process) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
    }
}

#[tokio::test]
#[ignore = "a process that another test starts and kills"]
async fn helper_that_runs_a_server() {
    #[expect(clippy::disallowed_methods, reason = "how the test speaks to its helper")]
    let (mode, trace) = (std::env::var("MCP_MODE").unwrap(), std::env::var("MCP_TRACE").unwrap());
    let bench = Bench::start([("s", scripted(&mode, Some(Path::new(&trace))))]);
    bench.servers.settled().await;
    std::future::pending::<()>().await;
}

#[tokio::test]
async fn a_server_that_does_not_start_says_why() {
    let missing = json!({"type": "local", "command": ["/nowhere/at-all"]});
    let bench = Bench::start([("crash", scripted("crash", None)), ("missing", missing)]);
    bench.servers.settled().await;
    let crash = "the server ended (exit status: 7); its last words were: cannot start";
    // One of them may already be tried again when the other has failed.
    let failed = |status: &ServerStatus| matches!(status, ServerStatus::Failed(_));
    assert_eq!(bench.until("crash", failed).await, ServerStatus::Failed(crash.to_owned()));
    let ServerStatus::Failed(reason) = bench.until("missing", failed).await else { panic!("it has failed") };
    assert!(reason.starts_with("could not start \"/nowhere/at-all\""), "{reason}");
    assert_eq!(bench.names(), Vec::<String>::new());
}

#[tokio::test]
async fn a_server_that_never_answers_is_given_up() {
    // Through a shell, which says something long before the time is up.
    let line = "echo not now >&2; exec sleep 1000";
    let server = json!({"type": "local", "command": ["sh", "-c", line]});
    let bench = Bench::timed([("s", server)], McpTiming { connect: Duration::from_secs(1), ..quick() });
    let failed = |status: &ServerStatus| matches!(status, ServerStatus::Failed(_));
    let ServerStatus::Failed(reason) = bench.until("s", failed).await else { panic!("it has failed") };
    assert_eq!(reason, "there was no answer within 1 s; its last words were: not now");
}

/// A flood ends the connection with a reason, and costs no memory to speak of.
async fn check_flood(mode: &str, expected: &str) {
    let before = peak_memory();
    // Long pauses: one flood is enough.
    let pause = Duration::from_secs(600);
    let timing = McpTiming { first_pause: pause, longest_pause: pause, ..quick() };
    let bench = Bench::scripted_timed(mode, timing).await;
    let status = bench.until("s", |status| matches!(status, ServerStatus::Failed(_))).await;
    let ServerStatus::Failed(reason) = status else { panic!("{status:?}") };
    assert!(reason.starts_with(expected), "{reason}");
    let grown = peak_memory().saturating_sub(before);
    assert!(grown < 300 * 1024, "{mode} took {grown} KiB");
}

/// The most memory that this process ever had, in KiB.
fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[tokio::test]
async fn floods_of_garbage_end_the_connection() {
    check_flood("garbage", "the server does not speak the protocol, but writes \"garbage\"").await;
}

#[tokio::test]
async fn a_line_without_an_end_ends_the_connection() {
    check_flood("endless-line", "the server sent a message of more than 16 MiB").await;
}

#[tokio::test]
async fn a_server_may_shout() {
    let bench = Bench::scripted("shouting").await;
    for _ in 0..20 {
        assert_eq!(bench.text("s_echo", json!({"message": "calm"})).await, "calm");
    }
    let Err(Failure::Failed(text)) = bench.call("s_die", json!({})).await else { panic!("it died") };
    assert!(text.len() < 4096 && text.contains("shout"), "{}", text.len());
}

#[tokio::test]
async fn a_server_that_does_not_read_blocks_nobody() {
    let trace = tempfile::NamedTempFile::new().unwrap();
    let (silence, ping) = (Duration::from_millis(500), Duration::from_millis(300));
    let server = scripted("deaf", Some(trace.path()));
    let servers = [("s", server), ("t", scripted("plain", None))];
    let bench = Bench::timed(servers, McpTiming { silence, ping, ..quick() });
    bench.servers.settled().await;
    content(trace.path()).await;
    // More than any pipe holds, and then more than the queue does.
    let large = json!({"message": "x".repeat(4 * 1024 * 1024)});
    let calls = (0..8).map(|_| bench.call("s_echo", large.clone()));
    let others = bench.text("t_echo", json!({"message": "well"}));
    let (outcomes, other) = tokio::join!(futures_util::future::join_all(calls), others);
    assert_eq!(other, "well");
    for outcome in outcomes {
        let Err(Failure::Failed(text)) = outcome else { panic!("nobody read it") };
        assert!(
            text.contains("no answer within 500 ms") || text.contains("does not answer any more"),
            "{text}"
        );
    }
    // It does not answer a ping either, and is started again.
    within("another process", async {
        while content(trace.path()).await.lines().count() < 2 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_call_is_cancelled_at_the_server_too() {
    let trace = tempfile::NamedTempFile::new().unwrap();
    let bench = Bench::start([("s", scripted("plain", Some(trace.path())))]);
    bench.servers.settled().await;
    let (context, mut reports) = Context::new(bench.context().scope);
    let cancel = context.cancel.clone();
    let tool = bench.tool("s_slow");
    let calling = tokio::spawn(async move { tool.run(json!({}), context).await });
    let report = within("progress", reports.recv()).await.unwrap();
    let metadata = json!({"progress": 1.0, "total": 4.0, "message": "working"});
    assert_eq!(Value::Object(report.metadata), metadata);
    cancel.cancel();
    let outcome = within("the end of the call", calling).await.unwrap();
    let expected =
        "The call was cancelled and the MCP server 's' was told so. What it had done by then is not known.";
    assert_eq!(outcome, Err(Failure::Failed(expected.to_owned())));
    assert!(content(trace.path()).await.starts_with("cancelled "));
    // A call that was cancelled before it began did nothing.
    let (context, _reports) = Context::new(bench.context().scope);
    context.cancel.cancel();
    assert_eq!(bench.tool("s_slow").run(json!({}), context).await, Err(Failure::Cancelled));
}

#[tokio::test]
async fn a_silent_call_ends_and_the_server_stays() {
    let trace = tempfile::NamedTempFile::new().unwrap();
    let server = scripted("plain", Some(trace.path()));
    let silence = Duration::from_millis(600);
    let bench = Bench::timed([("s", server)], McpTiming { silence, ..quick() });
    bench.servers.settled().await;
    let Err(Failure::Failed(text)) = bench.call("s_mute", json!({})).await else { panic!("it is mute") };
    assert!(text.contains("told to stop because there was no answer within 600 ms"), "{text}");
    assert!(content(trace.path()).await.starts_with("cancelled "));
    assert_eq!(bench.text("s_echo", json!({"message": "still here"})).await, "still here");
}

#[tokio::test]
async fn a_flood_of_progress_is_thinned() {
    let timing = McpTiming { longest: Duration::from_millis(700), ..quick() };
    let bench = Bench::scripted_timed("spinning", timing).await;
    let (context, mut reports) = Context::new(bench.context().scope);
    let outcome = within("the end", bench.tool("s_slow").run(json!({}), context)).await;
    let Err(Failure::Failed(text)) = outcome else { panic!("it never ends") };
    assert!(text.contains("no answer within 700 ms"), "{text}");
    let mut count = 0;
    while reports.try_recv().is_ok() {
        count += 1;
    }
    assert!((1..=20).contains(&count), "{count} reports");
}

#[tokio::test]
async fn servers_are_switched_and_held() {
    let bench = Bench::scripted("plain").await;
    assert!(bench.servers.set("s", Launch::Off));
    bench.until("s", |status| *status == ServerStatus::Disabled).await;
    assert_eq!(bench.names(), Vec::<String>::new());
    assert!(bench.servers.set("s", Launch::Held("not yet".to_owned())));
    bench.until("s", |status| *status == ServerStatus::Failed("not yet".to_owned())).await;
    assert!(bench.servers.set("s", Launch::Now));
    bench.until("s", |status| *status == ServerStatus::Connected).await;
    assert_eq!(bench.text("s_other", json!({})).await, "did other");
    assert!(!bench.servers.set("nobody", Launch::Now));
}

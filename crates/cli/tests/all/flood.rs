//! Floods: whatever strangers and greedy clients send, whoever has the token is served, and the memory is bounded.

use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use everturn_testkit::{Client, ModelServer, within};
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit, setrlimit};
use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::stage::{Stage, prompt};

/// How long an answer takes at most beside a flood, but for what the machine itself takes: the median of some tries is
/// compared with that of a server that nobody else speaks to. A campaign looks at it, because a test beside others may have
/// to wait for reasons of its own.
const SERVED: Duration = Duration::from_secs(1);

/// How long it may take on a machine that has other things to do.
const PATIENCE: Duration = Duration::from_secs(10);

/// How often it is tried.
const TRIES: usize = 5;

/// What the server takes at most, in bytes.
const PEAK_MEMORY: u64 = 512 * 1024 * 1024;

/// How many files a process has open on most machines.
const USUAL_FILES: u64 = 1024;

/// A server with as many files as usual, and a test with more of them.
async fn stage() -> Stage {
    let own = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: own.maximum, ..own }).unwrap();
    let binary = Path::new(env!("CARGO_BIN_EXE_everturn"));
    let stage = Stage::with(binary, ModelServer::start()).await;
    let limit = Rlimit { current: Some(USUAL_FILES), maximum: Some(USUAL_FILES) };
    prlimit(Pid::from_raw(stage.server.pid()), Resource::Nofile, limit).unwrap();
    stage
}

async fn connect(stage: &Stage) -> TcpStream {
    let address = stage.server.base_url().strip_prefix("http://").unwrap();
    within("a connection", TcpStream::connect(address)).await.unwrap()
}

/// How long it takes to make a session, by the median of some tries, none of which takes forever.
async fn time(client: &Client) -> Duration {
    let mut times = Vec::new();
    for _ in 0..TRIES {
        let begun = Instant::now();
        client.post("/session", &json!({"title": "beside a flood"})).await.ok();
        times.push(begun.elapsed());
        assert!(begun.elapsed() < PATIENCE, "{:?}", begun.elapsed());
    }
    times.sort_unstable();
    times[TRIES / 2]
}

/// Expects that a client with the token is served, on a new connection and on its own, and that the server has not
/// taken more memory than it may.
async fn check(stage: &Stage, client: &Client) {
    let mut log = std::io::stderr();
    let times = [time(client).await, time(&stage.client()).await];
    if std::env::var_os("EVERTURN_TEST_FULL").is_some() {
        let idle = Stage::with(Path::new(env!("CARGO_BIN_EXE_everturn")), ModelServer::start()).await;
        let machine = time(&idle.client()).await;
        writeln!(log, "beside a flood: {times:?}; without: {machine:?}").unwrap();
        assert!(times.iter().all(|time| *time < SERVED + machine), "{times:?}, without a flood {machine:?}");
    }
    let status = std::fs::read_to_string(format!("/proc/{}/status", stage.server.pid())).unwrap();
    let peak =
        status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")).unwrap();
    let peak = peak.parse::<u64>().unwrap() * 1024;
    writeln!(log, "memory: {} MiB", peak / (1024 * 1024)).unwrap();
    assert!(peak < PEAK_MEMORY, "{} MiB", peak / (1024 * 1024));
}

#[tokio::test]
async fn idle_connections_without_a_token_stop_nobody() {
    // 1,100 of them took every file that the server could open.
    let stage = stage().await;
    let client = stage.client();
    client.get("/session").await.ok();
    let mut strangers = Vec::new();
    for _ in 0..1100 {
        strangers.push(connect(&stage).await);
    }
    check(&stage, &client).await;
    // Nor do those that begin a request, and those that guess.
    let mut guesses = JoinSet::new();
    for stranger in &mut strangers {
        // The oldest ones had to leave.
        let _ = stranger.write_all(b"GET /session HTTP/1.1\r\nHost: ").await;
    }
    for _ in 0..100 {
        let mut stream = connect(&stage).await;
        let host = stage.server.base_url().strip_prefix("http://").unwrap();
        let request = format!("GET /session HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer wrong\r\n\r\n");
        guesses.spawn(async move {
            stream.write_all(request.as_bytes()).await.unwrap();
            stream
        });
    }
    check(&stage, &client).await;
    drop(guesses.join_all().await);
}

#[tokio::test]
async fn unfinished_bodies_take_little_memory_and_stop_nobody() {
    // 60 of 31 MiB took 2.2 GB.
    let stage = stage().await;
    let client = stage.client();
    let host = stage.server.base_url().strip_prefix("http://").unwrap().to_owned();
    let authorization = stage.server.auth_header().unwrap();
    let length = 31 * 1024 * 1024;
    let head = format!(
        "POST /session HTTP/1.1\r\nHost: {host}\r\nAuthorization: {authorization}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{{\"title\":\""
    );
    let mut bodies = JoinSet::new();
    for _ in 0..60 {
        let (mut stream, head) = (connect(&stage).await, head.clone());
        bodies.spawn(async move {
            // What the server has no room for it does not read.
            let send = async {
                stream.write_all(head.as_bytes()).await?;
                let piece = vec![b'x'; 1024 * 1024];
                for _ in 0..30 {
                    stream.write_all(&piece).await?;
                }
                Ok::<_, std::io::Error>(())
            };
            let _ = timeout(Duration::from_secs(2), send).await;
            stream
        });
    }
    check(&stage, &client).await;
    let streams = bodies.join_all().await;
    check(&stage, &client).await;
    drop(streams);
}

#[tokio::test]
async fn large_prompts_hold_up_nobody() {
    // One of 80,000 parts held up all writes for 26 seconds, and a title of 31 MiB was stored.
    let stage = stage().await;
    let client = stage.client();
    let id = stage.session("large").await;
    let text = json!({"type": "text", "text": "x"});
    let path = format!("/session/{id}/message");
    let refused = client.post(&path, &json!({"noReply": true, "parts": vec![text.clone(); 80_000]})).await;
    assert_eq!(refused.status, 400, "{}", refused.body);
    // A list takes many times the memory in which it came.
    let lists = json!({"metadata": {"lists": vec![json!([]); 10_000_000]}});
    let refused = client.post("/session", &lists).await;
    assert_eq!(refused.status, 400, "{}", refused.body);
    let title = client.post("/session", &json!({"title": "x".repeat(31 * 1024 * 1024)})).await;
    assert_eq!(title.status, 400, "{}", title.body);
    let (beside, body) = (client.clone(), json!({"noReply": true, "parts": vec![text; 10_000]}));
    let prompting = tokio::spawn(async move { beside.post(&path, &body).await.ok() });
    for _ in 0..3 {
        check(&stage, &client).await;
    }
    prompting.await.unwrap();
    check(&stage, &client).await;
}

#[tokio::test]
async fn large_answers_hold_up_nobody() {
    // Each was built by the threads that serve everybody, as many at once as were asked for, and was there until somebody had
    // read it or the server had ended, which it did much later.
    let mut stage = stage().await;
    let client = stage.client();
    let id = stage.session("large").await;
    let path = format!("/session/{id}/message");
    let text = json!({"type": "text", "text": "word ".repeat(400_000)});
    for _ in 0..6 {
        client.post(&path, &json!({"noReply": true, "parts": [text]})).await.ok();
    }
    client.post(&path, &prompt("SAY:done")).await.ok();
    let host = stage.server.base_url().strip_prefix("http://").unwrap().to_owned();
    let request = format!("/everturn/session/{id}/request");
    let mut readers = Vec::new();
    for path in [&path, &request].repeat(20) {
        let mut stream = connect(&stage).await;
        let head = format!(
            "GET {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Basic b3BlbmNvZGU6dGVzdC1wYXNzd29yZA==\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        readers.push(stream);
    }
    check(&stage, &client).await;
    let begun = Instant::now();
    assert!(stage.server.stop().await.success());
    assert!(begun.elapsed() < PATIENCE, "{:?}", begun.elapsed());
}

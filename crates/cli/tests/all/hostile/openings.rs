//! The ways of opening a repository, and what must hold after each of them.

use std::time::{Duration, Instant};

use everturn_testkit::Client;
use everturn_testkit::http::Method;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::launcher::{LaunchedCommand, MeasuredEnd, MeasuredLauncher};
use super::site::{HostileSite, canary};
use super::{OPENING_MEMORY, OPENING_TIME};

/// A way of opening a repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RepositoryOpening {
    Run,
    Serve,
    SessionList,
    Models,
    McpList,
}

impl RepositoryOpening {
    pub(super) const ALL: [Self; 5] =
        [Self::Run, Self::Serve, Self::SessionList, Self::Models, Self::McpList];
}

/// What a client of the server looks at.
const LOOKED_AT: [&str; 17] = [
    "/config",
    "/agent",
    "/provider",
    "/mcp",
    "/command",
    "/skill",
    "/permission",
    "/question",
    "/session",
    "/session/status",
    "/path",
    "/project",
    "/project/current",
    "/vcs",
    "/experimental/tool/ids",
    "/experimental/resource",
    "/config/providers",
];

/// Opens a repository and says what is wrong.
pub(super) fn open(
    opening: RepositoryOpening,
    site: &HostileSite,
    launcher: &mut MeasuredLauncher,
) -> Vec<String> {
    let mut run = |arguments: &[&str]| launcher.run(site, arguments, OPENING_TIME);
    let (mut complaints, end) = match opening {
        RepositoryOpening::Run => {
            let end = run(&["run", &work(site)]);
            // What leads out of the project is asked for, and nobody is there to be asked.
            let refused =
                end.stdout.ends_with("The user rejected permission to use this specific tool call.\n");
            let answered = end.stdout.ends_with("done\n");
            let said =
                matches!((end.status, refused, answered), (Some(3), true, false) | (Some(0), false, true));
            let wrong = (!said).then(|| format!("not the answer of the person's model: {end:?}"));
            (wrong.into_iter().collect(), end)
        }
        RepositoryOpening::Serve => serve(site, launcher),
        RepositoryOpening::SessionList => (Vec::new(), run(&["session", "list"])),
        RepositoryOpening::Models => (Vec::new(), run(&["models"])),
        RepositoryOpening::McpList => (Vec::new(), run(&["mcp", "list"])),
    };
    if opening != RepositoryOpening::Run && end.status != Some(0) {
        complaints.push(format!("it ended with {:?} after {:?}: {}", end.status, end.elapsed, end.stderr));
    }
    complaints.extend(judge(&end));
    complaints
}

/// A prompt whose model looks at everything, and tries what the person denies.
fn work(site: &HostileSite) -> String {
    let mark = site.mark_line();
    format!(
        "TOOL:glob:**/*\nTOOL:grep:PRIVATE\nJSONTOOL:list:{{}}\nTOOL:bash:{mark}\nTOOL:read:bait.txt\nSAY:done"
    )
}

/// What is wrong with how a command ended and with what it printed.
fn judge(end: &MeasuredEnd) -> Vec<String> {
    let mut complaints = Vec::new();
    if end.peak > OPENING_MEMORY {
        complaints.push(format!("it took {} MiB", end.peak / (1024 * 1024)));
    }
    for text in [&end.stdout, &end.stderr] {
        if text.contains(&canary("")) || text.contains("panicked") {
            complaints.push(format!("it printed {text}"));
        }
        let steering = |letter: &char| letter.is_control() && !matches!(letter, '\n' | '\t');
        if let Some(letter) = text.chars().find(steering) {
            complaints.push(format!("it printed {letter:?} in {text:?}"));
        }
    }
    complaints
}

/// Starts a server in the repository, looks at everything that clients look at and sends a prompt.
fn serve(site: &HostileSite, launcher: &mut MeasuredLauncher) -> (Vec<String>, MeasuredEnd) {
    let command = [env!("CARGO_BIN_EXE_everturn"), "serve", "--hostname", "127.0.0.1", "--port", "0"];
    let server = launcher.launch(site, &command, OPENING_TIME);
    let complaints = match address(site, &server) {
        Some(address) => {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(visit(&address, site))
        }
        None => vec!["the server does not listen".to_owned()],
    };
    let end = launcher.stop(site, &server);
    (complaints, end)
}

/// Where the server listens, once it says so.
fn address(site: &HostileSite, server: &LaunchedCommand) -> Option<String> {
    let begun = Instant::now();
    while begun.elapsed() < OPENING_TIME {
        let said = std::fs::read_to_string(site.stdout()).unwrap_or_default();
        let line = said.split_once('\n').map_or("", |(line, _)| line);
        if let Some((_, address)) = line.split_once("listening on ") {
            return address.split_whitespace().next().map(|address| address.trim_end_matches('/').to_owned());
        }
        rustix::process::test_kill_process(server.pid).ok()?;
        std::thread::sleep(Duration::from_millis(5));
    }
    None
}

async fn visit(address: &str, site: &HostileSite) -> Vec<String> {
    let client = Client::new(address).with_header("authorization", &format!("Bearer {}", canary("token")));
    let mut complaints = Vec::new();
    let made = match request(&client, "/session", Some(json!({}))).await {
        Ok(made) => made,
        Err(why) => return vec![why],
    };
    let id = made["id"].as_str().unwrap_or_default().to_owned();
    let prompt = json!({"parts": [{"type": "text", "text": "SAY:done"}]});
    let message = format!("/session/{id}/message");
    match request(&client, &message, Some(prompt)).await {
        Ok(answer) if answer.to_string().contains("done") => {}
        Ok(answer) => complaints.push(format!("no answer: {answer}")),
        Err(why) => complaints.push(why),
    }
    let own = [message, format!("/session/{id}/diff"), format!("/session/{id}")];
    let folder = format!("/session?directory={}", site.encoded_root());
    for path in LOOKED_AT.into_iter().map(str::to_owned).chain(own).chain([folder]) {
        complaints.extend(request(&client, &path, None).await.err());
    }
    complaints
}

/// Sends a request; an answer that does not come, is no JSON or has a secret in it is an error in words.
async fn request(client: &Client, path: &str, body: Option<Value>) -> Result<Value, String> {
    let method = if body.is_some() { Method::POST } else { Method::GET };
    let sent = timeout(OPENING_TIME / 2, client.try_send(method, path, body.as_ref())).await;
    let reply = sent.map_err(|_| format!("{path}: no answer in time"))?;
    let reply = reply.map_err(|error| format!("{path}: {error:?}"))?;
    let wrong = || format!("{path}: {} {}", reply.status, reply.body);
    match reply.status {
        200 if reply.body.contains(&canary("")) => Err(wrong()),
        200 => serde_json::from_str(&reply.body).map_err(|_| wrong()),
        204 => Ok(Value::Null),
        _ => Err(wrong()),
    }
}

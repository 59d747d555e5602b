//! Many sessions whose models stream at once, over real HTTP: how late a piece of text comes, and whether memory grows.

use std::time::{Duration, Instant, SystemTime};

use everturn_engine::{Prompt, SessionUpdate, Signal};
use everturn_testkit::{ModelServer, Repo, opencode_config};

use everturn_engine::sessions::NewSession;
use everturn_engine::{Config, Configurations, Engine, Options};

const SESSIONS: usize = 200;

/// Milliseconds between two pieces of a session.
const PACE: u64 = 10;

/// What is left out at the beginning: everybody starts then.
const WARM: Duration = Duration::from_secs(5);

pub(crate) async fn measure(seconds: u64) {
    let (model, repo, data) =
        (ModelServer::recorded(), Repo::new(&[("a.txt", "x\n")]), tempfile::tempdir().unwrap());
    let mut options = Options::new(data.path(), repo.path());
    let config =
        Config::from_value(opencode_config(&model.base_url()).as_object().cloned().unwrap()).unwrap();
    options.configurations = Configurations::fixed(config, data.path());
    let engine = Engine::open(options).await.unwrap();
    let location = engine.projects().location(None).await.unwrap();
    let mut updates = engine.bus().listen();
    let listener = tokio::spawn(async move {
        let (began, mut late, mut gaps, mut ended) = (Instant::now(), Vec::new(), 0_usize, 0_usize);
        while ended < SESSIONS {
            match updates.recv().await {
                Ok(SessionUpdate::Live(live)) => match &live.signal {
                    Signal::Delta { text, .. } if began.elapsed() > WARM => late.extend(lateness(text)),
                    Signal::Idle => ended += 1,
                    _ => {}
                },
                Ok(SessionUpdate::Gap) | Err(_) => gaps += 1,
                Ok(SessionUpdate::Committed(_)) => {}
            }
        }
        late.sort_unstable();
        (late, gaps)
    });
    let words = seconds * 1000 / PACE;
    let text = format!("SLOW:{PACE} CLOCK:{words}");
    let mut ids = Vec::new();
    for _ in 0..SESSIONS {
        let new = NewSession { title: Some("crowd".into()), ..NewSession::default() };
        let session = engine.sessions().create(&location, new).await.unwrap();
        engine.inbox().admit(&session.id, Prompt::text(&text)).await.unwrap();
        ids.push(session.id);
    }
    let mut memory = Vec::new();
    let mut ticks = tokio::time::interval(Duration::from_secs(1));
    while ids.iter().any(|id| engine.drains().is_running(id)) {
        ticks.tick().await;
        memory.push(resident());
    }
    let (late, gaps) = listener.await.unwrap();
    let at = |share: f64| {
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a place"
        )]
        let place = (late.len() as f64 * share) as usize;
        late[place.min(late.len() - 1)]
    };
    println!(
        "{SESSIONS} sessions, a piece each {PACE} ms for {seconds} s: {} pieces, {gaps} gaps.",
        late.len()
    );
    println!();
    println!("| | |");
    println!("|---|---:|");
    for (name, share) in [("median", 0.5), ("p99", 0.99), ("latest", 1.0)] {
        println!("| from the model to the bus, {name} | {:.1} ms | ", at(share).as_secs_f64() * 1000.0);
    }
    // Both text and what was saved of it grow with the answer, in every session.
    let warm = usize::try_from(WARM.as_secs()).unwrap().min(memory.len() - 1);
    println!("| memory after {} s | {} MiB |", WARM.as_secs(), memory[warm] / 1024);
    println!("| memory in the end | {} MiB |", memory[memory.len() - 1] / 1024);
    println!("| most memory | {} MiB |", memory.iter().max().unwrap() / 1024);
    println!("| text of all answers | {} MiB |", SESSIONS as u64 * words * 17 / (1024 * 1024));
    println!();
}

/// How long ago the moments are that a piece of text names.
fn lateness(text: &str) -> impl Iterator<Item = Duration> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let sent = text.split_whitespace().filter_map(|word| word.parse().ok());
    sent.map(move |sent| now.saturating_sub(Duration::from_micros(sent)))
}

/// Resident memory in KiB.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

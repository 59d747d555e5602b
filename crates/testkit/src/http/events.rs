//! Collects the events of a stream in the background and waits for the ones a test needs.

use reqwest::header::HeaderMap;
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::deadline::{PATIENCE, within};

/// One event.
#[derive(Debug, Clone, PartialEq)]
pub struct Received {
    /// The `event` field.
    pub event: Option<String>,
    /// The `id` field.
    pub id: Option<String>,
    /// The data as JSON, or as a string where it is not.
    pub data: Value,
    /// The data as they came.
    pub text: String,
}

#[derive(Debug, Default)]
struct EventLog {
    events: Vec<Received>,
    ended: bool,
}

/// A reader that has a place in the stream: each wait goes on behind the event the last one found.
#[derive(Debug)]
pub struct EventReader {
    log: watch::Receiver<EventLog>,
    headers: HeaderMap,
    place: usize,
    task: JoinHandle<()>,
    path: String,
}

impl Drop for EventReader {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl EventReader {
    pub(super) async fn open(request: reqwest::RequestBuilder, path: &str) -> Self {
        let what = format!("the event stream {path}");
        let request = request.header("accept", "text/event-stream");
        let response = within(&what, request.send()).await.unwrap_or_else(|cause| panic!("{what}: {cause}"));
        assert!(response.status().is_success(), "{what}: {}", response.status());
        let headers = response.headers().clone();
        let (sender, log) = watch::channel(EventLog::default());
        let task = tokio::spawn(read(response, sender));
        Self { log, headers, place: 0, task, path: path.to_owned() }
    }

    /// A header of the answer.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// Everything received so far.
    pub fn seen(&self) -> Vec<Received> {
        self.log.borrow().events.clone()
    }

    /// Waits for the next event whose data fulfil `wanted`.
    ///
    /// # Panics
    ///
    /// When it does not come or the stream ends before.
    pub async fn wait_for(&mut self, wanted: impl Fn(&Value) -> bool) -> Value {
        self.wait_for_event(|received| wanted(&received.data)).await.data
    }

    /// Waits for the next event whose data have this `type`.
    ///
    /// # Panics
    ///
    /// When it does not come or the stream ends before.
    pub async fn wait_for_type(&mut self, kind: &str) -> Value {
        self.wait_for(|data| data.get("type").and_then(Value::as_str) == Some(kind)).await
    }

    /// Waits for the next event that fulfils `wanted`, with its fields.
    ///
    /// # Panics
    ///
    /// When it does not come or the stream ends before.
    pub async fn wait_for_event(&mut self, wanted: impl Fn(&Received) -> bool) -> Received {
        let place = self.place;
        let find = |log: &EventLog| {
            let fresh = log.events.iter().enumerate().skip(place);
            fresh
                .into_iter()
                .find(|(_, received)| wanted(received))
                .map(|(index, found)| (index, found.clone()))
        };
        let waited =
            tokio::time::timeout(PATIENCE, self.log.wait_for(|log| log.ended || find(log).is_some())).await;
        let found = waited.ok().and_then(Result::ok).and_then(|log| find(&log));
        match found {
            Some((index, received)) => {
                self.place = index + 1;
                received
            }
            None => panic!("no such event on {}; behind event {place} came {}", self.path, self.list(place)),
        }
    }

    /// Waits until the server ends the stream.
    ///
    /// # Panics
    ///
    /// When it does not.
    pub async fn ended(&mut self) {
        let what = format!("the end of {}", self.path);
        drop(within(&what, self.log.wait_for(|log| log.ended)).await);
    }

    fn list(&self, from: usize) -> String {
        let log = self.log.borrow();
        let lines = log.events.iter().skip(from).map(|received| {
            let text = received.data.to_string();
            format!("\n  {}", text.chars().take(300).collect::<String>())
        });
        let text: String = lines.collect();
        let end = if log.ended { "\n  (the stream has ended)" } else { "" };
        if text.is_empty() { format!("nothing{end}") } else { text + end }
    }
}

async fn read(mut response: reqwest::Response, sender: watch::Sender<EventLog>) {
    let mut pending: Vec<u8> = Vec::new();
    while let Ok(Some(piece)) = response.chunk().await {
        pending.extend(piece.iter().filter(|byte| **byte != b'\r'));
        while let Some(end) = pending.windows(2).position(|pair| pair == b"\n\n") {
            let frame: Vec<u8> = pending.drain(..end + 2).collect();
            if let Some(received) = parse(&String::from_utf8_lossy(&frame)) {
                sender.send_modify(|log| log.events.push(received));
            }
        }
    }
    sender.send_modify(|log| log.ended = true);
}

fn parse(frame: &str) -> Option<Received> {
    let field = |name: &'static str| {
        frame.lines().filter_map(move |line| {
            let value = line.strip_prefix(name)?.strip_prefix(':')?;
            Some(value.strip_prefix(' ').unwrap_or(value).to_owned())
        })
    };
    let lines: Vec<String> = field("data").collect();
    let text = lines.join("\n");
    let data = serde_json::from_str(&text).unwrap_or_else(|_| Value::String(text.clone()));
    (!lines.is_empty()).then(|| Received {
        event: field("event").next_back(),
        id: field("id").next_back(),
        data,
        text,
    })
}

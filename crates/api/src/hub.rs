//! The bus as V1 events, encoded once for everybody.
//!
//! One task listens to the engine's bus, turns every update into the events that V1 clients know and hands them to all
//! streams as ready bytes. The queue is bounded: a stream that falls behind is ended, and its client attaches again and
//! asks for the state, rather than going on with a gap in what it knows.
//!
//! An event of another process that touched a whole session does not bring the session. It is read here, if anybody is
//! attached to see it.
//!
//! Streamed text is not part of the state that a client can ask for, so the hub keeps it and gives it to each new
//! stream: see [`drafts`](crate::drafts).

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use bytes::Bytes;
use everturn_engine::bus::Committed;
use everturn_engine::mint::Mint;
use everturn_engine::sessions::Sessions;
use everturn_engine::{Engine, Error, Live, SessionUpdate, Signal};
use everturn_interop::opencode::v1;
use everturn_model::{EntryId, Millis, PartId, Session, SessionId, Tree};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;

use crate::drafts::{Drafts, NewText};
use crate::wire::event::{CommandExecuted, Delta, Failed, PartUpdated, Payload, SessionOnly, Status};

/// How many events a stream may fall behind.
const CAPACITY: usize = 4096;

/// What the hub hands to streams.
#[derive(Debug, Clone)]
pub(crate) enum HubItem {
    /// An event.
    Event(Arc<EventFrame>),
    /// Something was missed; what follows does not fit what was before.
    Gap,
}

/// An event as bytes.
#[derive(Debug)]
pub(crate) struct EventFrame {
    directory: String,
    project: String,
    payload: String,
    bare: OnceLock<Bytes>,
    wrapped: OnceLock<Bytes>,
}

impl EventFrame {
    /// An event in a place.
    pub(crate) fn new(directory: &str, project: &str, payload: String) -> Self {
        Self {
            directory: directory.to_owned(),
            project: project.to_owned(),
            payload,
            bare: OnceLock::new(),
            wrapped: OnceLock::new(),
        }
    }

    /// Whether it happened in a place. A project has one stream, wherever in it a client is; outside of all projects,
    /// each folder has its own.
    pub(crate) fn is_in(&self, project: &str, directory: &str) -> bool {
        self.directory == directory || (self.project == project && project != "global")
    }

    /// As `/event` sends it.
    pub(crate) fn bare(&self) -> Bytes {
        self.bare.get_or_init(|| frame(&self.payload)).clone()
    }

    /// As `/global/event` sends it.
    pub(crate) fn wrapped(&self) -> Bytes {
        self.wrapped.get_or_init(|| wrap(&self.payload, Some((&self.directory, &self.project)))).clone()
    }
}

/// A payload as a frame of an event stream.
pub(crate) fn frame(payload: &str) -> Bytes {
    Bytes::from(["data: ", payload, "\n\n"].concat())
}

/// A payload as a frame of the global event stream; what the server itself says has no place.
pub(crate) fn wrap(payload: &str, place: Option<(&str, &str)>) -> Bytes {
    let place = place.map_or_else(String::new, |(directory, project)| {
        format!("\"directory\":{},\"project\":{},", Value::from(directory), Value::from(project))
    });
    frame(&format!("{{{place}\"payload\":{payload}}}"))
}

/// An event as JSON, under a new id.
pub(crate) fn payload(mint: &Mint, kind: &str, properties: &impl Serialize) -> String {
    let id = mint.event();
    payload_with(id.as_str(), kind, properties)
}

fn payload_with(id: &str, kind: &str, properties: &impl Serialize) -> String {
    serde_json::to_string(&Payload { id, kind, properties }).unwrap_or_else(|error| {
        tracing::error!(error = error.to_string(), kind, "an event cannot be printed");
        String::from("{}")
    })
}

/// The hub. Its task ends when it is dropped.
#[derive(Debug)]
pub(crate) struct Hub {
    outlet: Arc<Outlet>,
    closing: CancellationToken,
    task: AbortHandle,
}

/// Where events go out. Drafts change and events are sent under one lock, so a new stream gets each piece of text
/// exactly once: in a draft, or as an event.
#[derive(Debug)]
struct Outlet {
    frames: broadcast::Sender<HubItem>,
    drafts: Mutex<Drafts>,
}

impl Outlet {
    fn lock(&self) -> MutexGuard<'_, Drafts> {
        self.drafts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Hub {
    /// Listens to an engine from now on.
    pub(crate) fn start(engine: &Engine, closing: CancellationToken) -> Arc<Self> {
        let (frames, _) = broadcast::channel(CAPACITY);
        let updates = engine.bus().listen();
        let encoder = Encoder { mint: engine.mint().clone(), busy: HashSet::new() };
        let outlet = Arc::new(Outlet { frames, drafts: Mutex::default() });
        let sessions = engine.sessions().clone();
        let task = tokio::spawn(listen(updates, sessions, encoder, Arc::clone(&outlet))).abort_handle();
        Arc::new(Self { outlet, closing, task })
    }

    /// The text that is streaming, and a queue of what happens from now on.
    pub(crate) fn subscribe(&self, mint: &Mint) -> (Vec<EventFrame>, broadcast::Receiver<HubItem>) {
        let drafts = self.outlet.lock();
        (drafts.frames(mint), self.outlet.frames.subscribe())
    }

    /// Ends all streams when cancelled.
    pub(crate) fn closing(&self) -> &CancellationToken {
        &self.closing
    }
}

async fn listen(
    mut updates: broadcast::Receiver<SessionUpdate>,
    sessions: Sessions,
    mut encoder: Encoder,
    outlet: Arc<Outlet>,
) {
    begin(&sessions, &outlet).await;
    let mut read = ChangedSession::default();
    loop {
        let whole = match updates.recv().await {
            Ok(update) => {
                let shown = outlet.frames.receiver_count() > 0;
                match read.of(&sessions, &update, shown, updates.len()).await {
                    Ok(rows) => take(&update, rows, &mut encoder, &outlet),
                    Err(error) => {
                        tracing::warn!(
                            error = error.to_string(),
                            "a session that was changed cannot be shown"
                        );
                        false
                    }
                }
            }
            Err(RecvError::Lagged(missed)) => {
                tracing::warn!(missed, "the event hub fell behind; clients attach again");
                false
            }
            Err(RecvError::Closed) => return,
        };
        if !whole {
            encoder.busy.clear();
            drop(outlet.frames.send(HubItem::Gap));
            begin(&sessions, &outlet).await;
        }
    }
}

/// A session that another process has changed as a whole.
#[derive(Default)]
struct ChangedSession(Option<ReadSession>);

/// A session as it was read.
struct ReadSession {
    tree: Tree,
    /// For so many updates it is not too old: they had come before it was read.
    updates: usize,
}

impl ChangedSession {
    /// The rows that an update lacks; none when it has them, or nobody sees it. `queued` updates wait behind it.
    async fn of(
        &mut self,
        sessions: &Sessions,
        update: &SessionUpdate,
        shown: bool,
        queued: usize,
    ) -> Result<Option<&Tree>, Error> {
        let before = self.0.take().filter(|read| read.updates > 0);
        self.0 = before.map(|read| ReadSession { updates: read.updates - 1, ..read });
        let SessionUpdate::Committed(committed) = update else { return Ok(None) };
        if !shown || !is_incomplete(committed) {
            return Ok(None);
        }
        let id = &committed.record.session;
        if self.0.as_ref().is_none_or(|read| read.tree.session.id != *id) {
            let tree = match sessions.tree(id).await {
                // Deleted since: what is left of it is its row.
                Err(Error::NoSession(_)) => Tree::new(committed.tree.session.clone()),
                tree => tree?,
            };
            self.0 = Some(ReadSession { tree, updates: queued });
        }
        Ok(self.0.as_ref().map(|read| &read.tree))
    }
}

/// Whether rows are missing that clients are to be shown.
fn is_incomplete(committed: &Committed) -> bool {
    committed.lacks_rows() && v1::shows_whole_session(&committed.record.event)
}

/// Starts over with the text that other processes stream.
async fn begin(sessions: &Sessions, outlet: &Outlet) {
    // What began before somebody listened is told of only by the store.
    let open = sessions.streaming_parts().await.unwrap_or_else(|error| {
        tracing::warn!(error = error.to_string(), "text that other processes stream lacks its beginning");
        Vec::new()
    });
    outlet.lock().begin(open);
}

/// Takes in an update, with the rows that it does not bring; false when something is missing before it.
fn take(update: &SessionUpdate, rows: Option<&Tree>, encoder: &mut Encoder, outlet: &Outlet) -> bool {
    let frames = &outlet.frames;
    let changes = encoder.follow(update);
    let mut drafts = outlet.lock();
    let send = |frame| drop(frames.send(HubItem::Event(Arc::new(frame))));
    // Printing costs; nobody may be listening.
    let shown = changes && frames.receiver_count() > 0;
    match update {
        SessionUpdate::Committed(committed) => match drafts.commit(committed, &encoder.mint) {
            Some(frame) => send(frame),
            // Somebody has come since.
            None if shown && rows.is_none() && is_incomplete(committed) => return false,
            None if shown => encoder.committed(committed, rows.unwrap_or(&committed.tree), send),
            None => {}
        },
        SessionUpdate::Live(live) => {
            if let Signal::Delta { entry, part, offset, text } = &live.signal {
                let message = drafts.message(part).unwrap_or(entry).clone();
                match drafts.add(part, *offset, text) {
                    NewText::Hole => return false,
                    NewText::Text(fresh) if shown && !fresh.is_empty() => {
                        send(encoder.delta(live, &message, part, fresh));
                    }
                    NewText::Text(_) => {}
                }
                return true;
            }
            drafts.signal(live);
            if shown {
                encoder.signal(live, send);
            }
        }
        SessionUpdate::Gap => return false,
    }
    true
}

struct Encoder {
    mint: Mint,
    busy: HashSet<SessionId>,
}

impl Encoder {
    /// Whether an update says something new: a session that is busy may say so again.
    fn follow(&mut self, update: &SessionUpdate) -> bool {
        let SessionUpdate::Live(live) = update else { return true };
        match live.signal {
            Signal::Busy => self.busy.insert(live.session.clone()),
            Signal::Retry { .. } | Signal::Idle | Signal::Purged { .. } => {
                self.busy.remove(&live.session);
                true
            }
            _ => true,
        }
    }

    fn committed(&self, committed: &Committed, rows: &Tree, send: impl Fn(EventFrame)) {
        let session = &committed.tree.session;
        let events = v1::events(committed.before.as_ref(), &committed.record, rows);
        for (index, event) in events.iter().enumerate() {
            // The first goes by the id in the log.
            let payload = if index == 0 {
                payload_with(committed.record.id.as_str(), event.kind, &event.properties)
            } else {
                payload(&self.mint, event.kind, &event.properties)
            };
            send(EventFrame::new(&session.directory, &session.project, payload));
        }
    }

    fn delta(&self, live: &Live, message: &EntryId, part: &PartId, text: &str) -> EventFrame {
        let (session, message, part) = (live.session.as_str(), message.as_str(), part.as_str());
        let delta = Delta { session, message, part, field: "text", delta: text };
        EventFrame::new(&live.directory, &live.project, payload(&self.mint, "message.part.delta", &delta))
    }

    fn signal(&self, live: &Live, send: impl Fn(EventFrame)) {
        let session = live.session.as_str();
        let mint = &self.mint;
        let send = |payload| send(EventFrame::new(&live.directory, &live.project, payload));
        match &live.signal {
            Signal::Busy | Signal::Retry { .. } => {
                send(payload(mint, "session.status", &Status { session, status: (&live.signal).into() }));
            }
            Signal::Idle => {
                send(payload(mint, "session.status", &Status { session, status: (&live.signal).into() }));
                send(payload(mint, "session.idle", &SessionOnly { session }));
            }
            // Only what is new of it is shown, which the drafts know.
            Signal::Delta { .. } => {}
            Signal::Progress { message, part } => {
                let part = v1::part(&live.session, message, part, None);
                send(payload(mint, "message.part.updated", &PartUpdated { session, part, time: mint.now() }));
            }
            Signal::Failed { error } => {
                send(payload(mint, "session.error", &Failed { session, error: v1::FaultView(error) }));
            }
            Signal::Purged { created, updated } => {
                send(payload(mint, "session.deleted", &purged(live, *created, *updated)));
            }
            Signal::CommandDone { name, arguments, message } => {
                let executed = CommandExecuted { name, session, arguments, message };
                send(payload(mint, "command.executed", &executed));
            }
            Signal::FileEdited { file } => send(payload(mint, "file.edited", &json!({"file": file}))),
        }
    }
}

/// What is still known of a session that was deleted for good: clients find it by its id. What they expect besides and
/// nobody knows any more is empty.
fn purged(live: &Live, created: Millis, updated: Millis) -> Value {
    let mut gone = Session::new(live.session.clone(), &live.project, &live.directory, "", "", created);
    gone.time.updated = updated;
    let mut info = v1::session_info(&gone);
    if let Some(fields) = info.as_object_mut() {
        fields.entry("slug").or_insert_with(|| "".into());
    }
    json!({"sessionID": live.session, "info": info})
}

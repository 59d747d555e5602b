//! Terminals that clients look at and type into.
//!
//! A terminal is a program on a real pseudo-terminal. What it prints goes to a buffer of bounded size that every client
//! reads at its own pace, from any place that is still there: one that lost its connection goes on where it was, and
//! one that is too slow is told so and let go. No client can hold up the program.
//!
//! Programs are started like those of [`crate::process`]: a supervisor stays until all of them have ended, and
//! terminals end with the value that holds them.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use tokio::sync::broadcast;

use self::terminal::Terminal;
use crate::process::Launcher;

mod replay;
mod terminal;

pub use replay::{PtyAttachment, PtyChunk, ReplayFrom};

/// The most terminals at a time, those included whose program has ended.
const MOST: usize = 64;
/// How many events a listener may be behind.
const EVENTS: usize = 256;

/// Why something could not be done with a terminal.
#[derive(Debug, thiserror::Error)]
pub enum PtyError {
    /// There is no terminal of this name.
    #[error("there is no terminal {0}")]
    NotFound(String),
    /// The name is taken.
    #[error("there is already a terminal {0}")]
    Exists(String),
    /// The program could not be started.
    #[error("cannot start {command} in {}: {source}", cwd.display())]
    Start {
        /// The program.
        command: String,
        /// Where it should run.
        cwd: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// There are as many terminals as there may be.
    #[error("there are {0} terminals, and more are not allowed: close one first")]
    TooMany(usize),
    /// The program has ended.
    #[error("the program of terminal {0} has ended")]
    Ended(String),
    /// The program takes nothing that is typed, and much is waiting already.
    #[error("the program of terminal {0} does not read its input: what was typed is dropped")]
    NotReading(String),
    /// More at once than ever waits for a program.
    #[error("at most {most} bytes can be typed into terminal {id} at once: send them in pieces")]
    TooLarge {
        /// The terminal.
        id: String,
        /// As many bytes may be typed at once.
        most: usize,
    },
}

/// The size of a terminal in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PtySize {
    /// Lines.
    pub rows: u16,
    /// Characters on each line.
    pub cols: u16,
}

impl Default for PtySize {
    fn default() -> Self {
        Self { rows: 24, cols: 80 }
    }
}

/// A terminal to open.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NewPty {
    /// The program.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// The folder it runs in.
    pub cwd: PathBuf,
    /// What people call it; the program's name unless given.
    pub title: Option<String>,
    /// Variables that it gets besides ours.
    pub env: Vec<(String, String)>,
    /// Its size.
    pub size: PtySize,
}

/// Whether the program of a terminal runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PtyStatus {
    /// It runs.
    Running,
    /// It has ended.
    Exited,
}

/// What is known of a terminal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PtyInfo {
    /// Its name.
    pub id: String,
    /// What people call it.
    pub title: String,
    /// The program.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// The folder it was started in.
    pub cwd: PathBuf,
    /// Whether it runs.
    pub status: PtyStatus,
    /// The process that holds it together.
    pub pid: i32,
    /// How the program ended, as a shell says it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
}

/// What happened to a terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PtyEvent {
    /// It was opened.
    Created(PtyInfo),
    /// Its title or its size was changed.
    Updated(PtyInfo),
    /// Its program ended.
    Exited(PtyInfo),
    /// It is gone.
    Deleted(String),
}

/// The terminals that there are, and the names of those that are being opened.
#[derive(Debug, Default)]
struct PtyTable {
    open: BTreeMap<String, Arc<Terminal>>,
    opening: BTreeSet<String>,
}

/// The place of a terminal that is being opened; nobody else gets it, and it is free again when this is dropped.
#[derive(Debug)]
struct PtyReservation<'a> {
    ptys: &'a Ptys,
    /// Nothing once the terminal is there.
    id: Option<String>,
}

impl PtyReservation<'_> {
    fn fill(mut self, terminal: Terminal) {
        let mut table = self.ptys.lock();
        if let Some(id) = self.id.take() {
            table.opening.remove(&id);
            table.open.insert(id, Arc::new(terminal));
        }
    }
}

impl Drop for PtyReservation<'_> {
    fn drop(&mut self) {
        if let Some(id) = &self.id {
            self.ptys.lock().opening.remove(id);
        }
    }
}

/// Terminals by their names; clones share them. They are closed when the last clone is dropped.
#[derive(Debug, Clone)]
pub struct Ptys {
    launcher: Launcher,
    table: Arc<Mutex<PtyTable>>,
    events: broadcast::Sender<PtyEvent>,
}

impl Ptys {
    /// No terminals yet.
    #[must_use]
    pub fn new(launcher: Launcher) -> Self {
        Self { launcher, table: Arc::default(), events: broadcast::channel(EVENTS).0 }
    }

    /// What happens from now on.
    #[must_use]
    pub fn events(&self) -> broadcast::Receiver<PtyEvent> {
        self.events.subscribe()
    }

    /// Opens a terminal. Its name comes from the caller, who has names that no other has.
    ///
    /// # Errors
    /// When the name is taken, the program cannot be started or there are too many terminals.
    pub async fn create(&self, id: String, create: NewPty) -> Result<PtyInfo, PtyError> {
        // Taken before the start, which takes a while: two calls must not open one name, or one too many.
        let place = self.take_place(&id)?;
        let terminal = Terminal::start(&self.launcher, id, create, self.events.clone()).await?;
        let info = terminal.info();
        place.fill(terminal);
        self.events.send(PtyEvent::Created(info.clone())).ok();
        Ok(info)
    }

    /// The terminals, by name.
    #[must_use]
    pub fn list(&self) -> Vec<PtyInfo> {
        self.lock().open.values().map(|terminal| terminal.info()).collect()
    }

    /// One terminal.
    ///
    /// # Errors
    /// When there is none of this name.
    pub fn get(&self, id: &str) -> Result<PtyInfo, PtyError> {
        Ok(self.find(id)?.info())
    }

    /// Changes a terminal's title or size.
    ///
    /// # Errors
    /// When there is none of this name.
    pub fn update(
        &self,
        id: &str,
        title: Option<String>,
        size: Option<PtySize>,
    ) -> Result<PtyInfo, PtyError> {
        let info = self.find(id)?.update(title, size);
        self.events.send(PtyEvent::Updated(info.clone())).ok();
        Ok(info)
    }

    /// Types something.
    ///
    /// # Errors
    /// When there is no such terminal, its program has ended, it does not read, or this is too much at once.
    pub fn write(&self, id: &str, input: &[u8]) -> Result<(), PtyError> {
        self.find(id)?.write(input)
    }

    /// Looks at what the program prints and has printed.
    ///
    /// # Errors
    /// When there is no terminal of this name.
    pub fn attach(&self, id: &str, from: ReplayFrom) -> Result<PtyAttachment, PtyError> {
        Ok(self.find(id)?.attach(from))
    }

    /// Closes a terminal, and returns when nothing that was started in it runs any more.
    ///
    /// # Errors
    /// When there is none of this name.
    pub async fn close(&self, id: &str) -> Result<(), PtyError> {
        let terminal = self.find(id)?;
        terminal.close().await;
        if self.lock().open.remove(id).is_some() {
            self.events.send(PtyEvent::Deleted(id.to_owned())).ok();
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, PtyTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self, id: &str) -> Result<Arc<Terminal>, PtyError> {
        self.lock().open.get(id).map(Arc::clone).ok_or_else(|| PtyError::NotFound(id.to_owned()))
    }

    /// Takes the place of one more terminal; one whose program has ended makes room.
    fn take_place(&self, id: &str) -> Result<PtyReservation<'_>, PtyError> {
        let mut table = self.lock();
        if table.open.contains_key(id) || table.opening.contains(id) {
            return Err(PtyError::Exists(id.to_owned()));
        }
        if table.open.len() + table.opening.len() >= MOST {
            let mut infos = table.open.values().map(|terminal| terminal.info());
            let ended = infos.find(|info| info.status == PtyStatus::Exited).ok_or(PtyError::TooMany(MOST))?;
            table.open.remove(&ended.id);
            self.events.send(PtyEvent::Deleted(ended.id)).ok();
        }
        table.opening.insert(id.to_owned());
        Ok(PtyReservation { ptys: self, id: Some(id.to_owned()) })
    }
}

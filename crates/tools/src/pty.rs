//! Terminals that clients look at and type into.
//!
//! A terminal is a program on a real pseudo-terminal. What it prints goes to a buffer of bounded size that every client
//! reads at its own pace, from any place that is still there: one that lost its connection goes on where it was, and
//! one that is too slow is told so and let go. No client can hold up the program.
//!
//! Programs are started like those of [`crate::process`]: a warden stays until all of them have ended, and terminals end
//! with the value that holds them.

use std::{
    collections::BTreeMap,
    io,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use serde::{Deserialize, Serialize};
use tokio::sync::broadcast;

use self::terminal::Terminal;
use crate::process::Launcher;

mod replay;
mod terminal;

pub use replay::{Attachment, Chunk, From};

/// The most terminals at a time, those included whose program has ended.
const MOST: usize = 64;
/// How many events a listener may be behind.
const EVENTS: usize = 256;

/// Why something could not be done with a terminal.
#[derive(Debug, thiserror::Error)]
pub enum Error {
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
}

/// The size of a terminal in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Size {
    /// Lines.
    pub rows: u16,
    /// Characters on each line.
    pub cols: u16,
}

impl Default for Size {
    fn default() -> Self {
        Self { rows: 24, cols: 80 }
    }
}

/// A terminal to open.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Create {
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
    pub size: Size,
}

/// Whether the program of a terminal runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// It runs.
    Running,
    /// It has ended.
    Exited,
}

/// What is known of a terminal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Info {
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
    pub status: Status,
    /// The process that holds it together.
    pub pid: i32,
    /// How the program ended, as a shell says it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
}

/// What happened to a terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// It was opened.
    Created(Info),
    /// Its title or its size was changed.
    Updated(Info),
    /// Its program ended.
    Exited(Info),
    /// It is gone.
    Deleted(String),
}

/// Terminals by their names; clones share them. They are closed when the last clone is dropped.
#[derive(Clone, Debug)]
pub struct Ptys {
    launcher: Launcher,
    terminals: Arc<Mutex<BTreeMap<String, Arc<Terminal>>>>,
    events: broadcast::Sender<Event>,
}

impl Ptys {
    /// No terminals yet.
    #[must_use]
    pub fn new(launcher: Launcher) -> Self {
        Self { launcher, terminals: Arc::default(), events: broadcast::channel(EVENTS).0 }
    }

    /// What happens from now on.
    #[must_use]
    pub fn events(&self) -> broadcast::Receiver<Event> {
        self.events.subscribe()
    }

    /// Opens a terminal. Its name comes from the caller, who has names that no other has.
    ///
    /// # Errors
    /// When the name is taken, the program cannot be started or there are too many terminals.
    pub async fn create(&self, id: String, create: Create) -> Result<Info, Error> {
        self.make_room(&id)?;
        let terminal = Terminal::start(&self.launcher, id.clone(), create, self.events.clone()).await?;
        let info = terminal.info();
        self.make_room(&id)?;
        self.lock().insert(id, Arc::new(terminal));
        self.events.send(Event::Created(info.clone())).ok();
        Ok(info)
    }

    /// The terminals, by name.
    #[must_use]
    pub fn list(&self) -> Vec<Info> {
        self.lock().values().map(|terminal| terminal.info()).collect()
    }

    /// One terminal.
    ///
    /// # Errors
    /// When there is none of this name.
    pub fn get(&self, id: &str) -> Result<Info, Error> {
        Ok(self.find(id)?.info())
    }

    /// Changes a terminal's title or size.
    ///
    /// # Errors
    /// When there is none of this name.
    pub fn update(&self, id: &str, title: Option<String>, size: Option<Size>) -> Result<Info, Error> {
        let info = self.find(id)?.update(title, size);
        self.events.send(Event::Updated(info.clone())).ok();
        Ok(info)
    }

    /// Types something.
    ///
    /// # Errors
    /// When there is no such terminal, its program has ended, or it does not read.
    pub fn write(&self, id: &str, input: &[u8]) -> Result<(), Error> {
        self.find(id)?.write(input)
    }

    /// Looks at what the program prints and has printed.
    ///
    /// # Errors
    /// When there is no terminal of this name.
    pub fn attach(&self, id: &str, from: From) -> Result<Attachment, Error> {
        Ok(self.find(id)?.attach(from))
    }

    /// Closes a terminal, and returns when nothing that was started in it runs any more.
    ///
    /// # Errors
    /// When there is none of this name.
    pub async fn close(&self, id: &str) -> Result<(), Error> {
        let terminal = self.find(id)?;
        terminal.close().await;
        if self.lock().remove(id).is_some() {
            self.events.send(Event::Deleted(id.to_owned())).ok();
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Terminal>>> {
        self.terminals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self, id: &str) -> Result<Arc<Terminal>, Error> {
        self.lock().get(id).map(Arc::clone).ok_or_else(|| Error::NotFound(id.to_owned()))
    }

    /// Makes sure that one more terminal may be opened; one whose program has ended makes room.
    fn make_room(&self, id: &str) -> Result<(), Error> {
        let mut terminals = self.lock();
        if terminals.contains_key(id) {
            return Err(Error::Exists(id.to_owned()));
        }
        if terminals.len() < MOST {
            return Ok(());
        }
        let ended =
            terminals.values().map(|terminal| terminal.info()).find(|info| info.status == Status::Exited);
        let ended = ended.ok_or(Error::TooMany(MOST))?;
        terminals.remove(&ended.id);
        self.events.send(Event::Deleted(ended.id)).ok();
        Ok(())
    }
}

//! What we and a supervisor say to each other: one JSON value on each line, over one socket.
//!
//! The order to run comes first, by the socket and not by arguments, so that a program which looks for its own name
//! among the processes (`pkill -f`) does not find its supervisor. The socket closing is the order to stop.
//!
//! Before the first order stand two bytes. With the first one travels the program's input where it has one, because the
//! supervisor's own is the socket; with the second the record of what tools make.

use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};
use std::{io, slice};

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

use super::sandbox::SandboxPolicy;
#[cfg(target_os = "linux")]
use super::sandbox::guard::Guard;
use super::sandbox::report::{DisplacedName, LostNames};
#[cfg(target_os = "linux")]
use super::sandbox::settled::SurveyedProjects;

/// Gives the supervisor something open, or says that there is none. The socket must be a new one.
pub(super) fn give(socket: impl AsFd, given: Option<BorrowedFd<'_>>) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if let Some(given) = &given
        && !control.push(SendAncillaryMessage::ScmRights(slice::from_ref(given)))
    {
        return Err(io::Error::other("there is no room for a descriptor"));
    }
    sendmsg(socket, &[IoSlice::new(b"\n")], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// What the supervisor was given next, if anything was.
#[cfg(target_os = "linux")]
pub(super) fn take(socket: impl AsFd) -> io::Result<Option<std::os::fd::OwnedFd>> {
    use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let mut room = [io::IoSliceMut::new(&mut byte)];
    rustix::io::retry_on_intr(|| recvmsg(&socket, &mut room, &mut control, RecvFlags::CMSG_CLOEXEC))?;
    Ok(control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut given) => given.next(),
        _ => None,
    }))
}

/// The first order, and what was read after it; nothing if there is none. For a supervisor that has no event loop yet.
#[cfg(target_os = "linux")]
pub(super) fn take_order(
    mut socket: &std::os::unix::net::UnixStream,
) -> io::Result<Option<(SupervisorOrder, Vec<u8>)>> {
    use std::io::Read as _;
    let mut received = Vec::new();
    let mut block = vec![0; 16 * 1024];
    loop {
        let fresh = received.len();
        let count = socket.read(&mut block)?;
        if count == 0 {
            return Ok(None);
        }
        received.extend_from_slice(block.get(..count).unwrap_or_default());
        let end = received.iter().skip(fresh).position(|byte| *byte == b'\n');
        if let Some(end) = end {
            let rest = received.split_off(fresh + end + 1);
            return Ok(Some((serde_json::from_slice(&received)?, rest)));
        }
    }
}

/// What we tell the supervisor.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum SupervisorOrder {
    /// The first order: what to run.
    Run(Box<RunOrder>),
    /// Stop everything: ask, and kill what is left after the grace.
    Stop,
}

/// A program and how it is treated.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct RunOrder {
    /// The program's name, looked up in `PATH`, or its path.
    pub(super) program: String,
    /// Its arguments.
    pub(super) args: Vec<String>,
    /// How long processes may take to stop by themselves, in milliseconds.
    pub(super) grace: u64,
    /// How long processes that the program leaves behind may take to end before they are asked to, in milliseconds.
    pub(super) linger: u64,
    /// Whether the program has the terminal that is the supervisor's standard output.
    pub(super) terminal: bool,
    /// What it may see, change and reach, if not everything.
    pub(super) sandbox: Option<SandboxPolicy>,
    /// The projects of the sandbox as they are.
    #[cfg(target_os = "linux")]
    pub(super) projects: SurveyedProjects,
}

/// What the supervisor tells us.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum SupervisorReport {
    /// The program runs.
    Started,
    /// The program could not be started: the number of the system's error.
    Failed(i32),
    /// The program was not started, because its sandbox could not be made: why.
    Refused(String),
    /// The program was not started, because something is not where it was when the project was looked at: what.
    Moved(String),
    /// The program ended by itself; others that it started may still run.
    Exited(i32),
    /// A signal ended the program.
    Killed(i32),
    /// The sandbox is made but for these names, which must be looked at in the end. Only the supervisor hears it.
    #[cfg(target_os = "linux")]
    Guarded(Vec<Guard>),
    /// What the program wrote is gone with it, where that is so. Only the supervisor hears it.
    Lost(LostNames),
    /// Nothing is left in the sandbox. Only the supervisor hears it.
    Alone,
    /// Nothing runs any more. What was made is looked through.
    Over,
    /// Nothing runs any more, and that is done.
    Gone {
        /// Whether there was something to stop when the program had ended.
        stopped: bool,
        /// How many processes could not be stopped: they belong to someone else, or the system holds them.
        left: usize,
        /// What the program had left at protected names, and what became of it.
        displaced: Vec<DisplacedName>,
        /// What it wrote and is gone with it.
        lost: LostNames,
    },
}

/// One side's end of the socket.
#[derive(Debug)]
pub(super) struct ControlSocket {
    socket: UnixStream,
    received: Vec<u8>,
}

impl ControlSocket {
    pub(super) fn new(socket: UnixStream) -> Self {
        Self::continued(socket, Vec::new())
    }

    /// A socket of which something has been read already.
    pub(super) fn continued(socket: UnixStream, received: Vec<u8>) -> Self {
        Self { socket, received }
    }

    /// What the other side says next; nothing once it is gone. It may be dropped and asked again.
    pub(super) async fn next<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        loop {
            if let Some(end) = self.received.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.received.drain(..=end).collect();
                return Ok(Some(serde_json::from_slice(&line)?));
            }
            match self.socket.read_buf(&mut self.received).await {
                Ok(0) => return Ok(None),
                Ok(_) => {}
                // The other side was killed with something unread.
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(None),
                Err(error) => return Err(error),
            }
        }
    }

    /// Says something. A listener that is gone is not an error: reading says so.
    pub(super) async fn say(&mut self, word: &impl Serialize) -> io::Result<()> {
        let mut line = serde_json::to_vec(word)?;
        line.push(b'\n');
        match self.socket.write_all(&line).await {
            Err(error)
                if matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset) =>
            {
                Ok(())
            }
            other => other,
        }
    }
}

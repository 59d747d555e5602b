//! Who is at the other end of a connection to this process, as far as this machine can tell.
//!
//! A program that an agent started may have read the token, and must still not decide in place of the person. The system
//! knows which process holds the other end of a local connection: its socket is in the table of connections, under a
//! number that is among the open files of whoever has it. What cannot be told is not guessed: a socket whose process has
//! ended, or that nobody shows any more, is [`PeerProcess::Gone`].
//!
//! # Layout
//!
//! - `table`: the system's table of connections, and the processes that hold each
//! - `caller`: who has made a connection, by the process that has it
//! - `diagnosis`: one connection, asked for by its two ends

use std::net::SocketAddr;

#[cfg(target_os = "linux")]
mod caller;
#[cfg(target_os = "linux")]
mod diagnosis;
#[cfg(target_os = "linux")]
mod table;

/// Who is at the other end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PeerProcess {
    /// A process of this machine that was not started here, or one of another account.
    Person,
    /// A process of this machine that has ended, or has let go of the connection.
    Gone,
    /// A process that was started for an agent: a command, a job, an MCP server, a terminal, or one of their children.
    Agent,
}

/// Who is at the other end of the connection from `peer`; without an address, the most suspicious one of all that are
/// connected now. Another machine, or a proxy, counts as a person.
///
/// It looks at the open files of every process, so it is for the few requests that need it.
#[must_use]
pub fn find(peer: Option<SocketAddr>) -> PeerProcess {
    #[cfg(target_os = "linux")]
    return table::find(peer);
    #[cfg(not(target_os = "linux"))]
    {
        let _ = peer;
        PeerProcess::Person
    }
}

/// Who has made a connection, where that can be told without a look at processes: nothing while programs run that were
/// started for an agent, or did here a moment ago. It is quick.
///
/// `peer` is the other end and `local` ours. Other than for [`find`], a program in a terminal is a person's.
#[must_use]
pub fn caller_at_once(peer: SocketAddr, local: SocketAddr) -> Option<PeerProcess> {
    #[cfg(target_os = "linux")]
    return caller::find_at_once(peer, local);
    #[cfg(not(target_os = "linux"))]
    {
        let _ = (peer, local);
        Some(PeerProcess::Person)
    }
}

/// Who has made a connection: a program that was started for an agent, by this or another process of ours, is a command, a
/// job, an MCP server or one of their children.
///
/// `peer` is the other end and `local` ours. Other than for [`find`], a program in a terminal is a person's.
#[must_use]
pub fn caller(peer: SocketAddr, local: SocketAddr) -> PeerProcess {
    callers(&[(peer, local)]).pop().unwrap_or(PeerProcess::Gone)
}

/// The same for many connections, which takes hardly longer than for one: the open files of every process are looked at once
/// for all of them.
#[must_use]
pub fn callers(connections: &[(SocketAddr, SocketAddr)]) -> Vec<PeerProcess> {
    #[cfg(target_os = "linux")]
    return caller::find(connections);
    #[cfg(not(target_os = "linux"))]
    return vec![PeerProcess::Person; connections.len()];
}

/// Whether no program runs that was started for an agent, by this or another process of ours, nor did here a moment ago. It is
/// quick.
#[must_use]
pub fn is_quiet() -> bool {
    #[cfg(target_os = "linux")]
    return caller::is_quiet();
    #[cfg(not(target_os = "linux"))]
    true
}

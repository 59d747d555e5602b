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
//! - `caller`: whether a connection that was just made comes from a program of an agent
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

/// Whether any program runs that was started for an agent, by this or another process of ours, terminals aside, or ran here a
/// moment ago. It is quick.
#[must_use]
pub fn agents_run_programs() -> bool {
    #[cfg(target_os = "linux")]
    return crate::process::had_programs_lately() || !crate::process::supervisors_for_agents().is_empty();
    #[cfg(not(target_os = "linux"))]
    false
}

/// Whether a connection comes from a program that was started for an agent, by this or another process of ours: a command,
/// a job, an MCP server or one of their children, but not what runs in a terminal. One that such a program may have made and
/// left again counts as well. What cannot be told is no such connection.
///
/// `peer` is the other end and `local` ours. It looks at programs of agents only, so it is for every connection that is made
/// while there are any.
#[must_use]
pub fn is_of_an_agent(peer: SocketAddr, local: SocketAddr) -> bool {
    #[cfg(target_os = "linux")]
    return caller::is_of_an_agent(peer, local);
    #[cfg(not(target_os = "linux"))]
    {
        let _ = (peer, local);
        false
    }
}

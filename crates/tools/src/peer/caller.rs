//! Whether a connection that was just made comes from a program of an agent.
//!
//! The other end is asked for by name, and only the open files of such programs are looked at, not those of every process.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::net::SocketAddr;

use super::{PeerProcess, diagnosis, table};
use crate::process::{ancestry, below, is_hiding, supervisors_for_agents, threads};

/// How often it is looked again where processes come and go meanwhile: one can hand its connection to another and end.
const LOOKS: usize = 3;

/// What the open files of some processes tell of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SocketSight {
    /// One of them has it.
    Held,
    /// None of them has it.
    Absent,
    /// Not all of them can be looked at.
    Hidden,
}

pub(super) fn is_of_an_agent(peer: SocketAddr, local: SocketAddr) -> bool {
    let canonical = |address: SocketAddr| match address.ip().to_canonical() {
        ip if ip == address.ip() => address,
        ip => SocketAddr::new(ip, address.port()),
    };
    let (peer, local) = (canonical(peer), canonical(local));
    for _ in 0..LOOKS {
        let Some(number) = number_of(peer, local) else { return is_here(peer, local) };
        // Nobody waits for an answer any more: it was sent in passing.
        if number == 0 {
            return true;
        }
        let (newest, processes) = (newest_process(), programs());
        let is_settled = || newest == newest_process() || processes == programs();
        match look(&processes, number) {
            SocketSight::Held => return true,
            SocketSight::Absent if is_settled() && number_of(peer, local) == Some(number) => return false,
            SocketSight::Absent => {}
            SocketSight::Hidden => break,
        }
    }
    is_held_by_an_agent(peer, local)
}

/// Every process of an agent's programs.
fn programs() -> BTreeSet<i32> {
    below(&supervisors_for_agents()).into_iter().collect()
}

/// The last process that was started. While it is the same, nothing has come to be.
fn newest_process() -> Option<String> {
    let load = fs::read_to_string("/proc/loadavg").ok()?;
    load.split_ascii_whitespace().next_back().map(str::to_owned)
}

/// Finds whoever has the other end among all processes.
fn is_held_by_an_agent(peer: SocketAddr, local: SocketAddr) -> bool {
    let holders = number_of(peer, local).map(table::holders_of).unwrap_or_default();
    if holders.is_empty() {
        return table::find(Some(peer)) != PeerProcess::Person;
    }
    let supervisors = supervisors_for_agents();
    let is_below = |process: &i32| {
        ancestry(*process).is_none_or(|above| above.iter().any(|process| supervisors.contains(process)))
    };
    holders.iter().any(is_below)
}

/// The number of the socket at the other end, zero if no process has it any more; nothing if it is not on this machine.
fn number_of(peer: SocketAddr, local: SocketAddr) -> Option<u64> {
    match diagnosis::number_of(peer, local) {
        Ok(Some(number)) => Some(number),
        // A system that knows nothing of such questions knows nothing of our own end either.
        Ok(None) if matches!(diagnosis::number_of(local, peer), Ok(Some(_))) => None,
        Ok(None) | Err(_) => table::number_of(peer, local),
    }
}

/// Whether an address is one of this machine, as far as the connection itself tells.
fn is_here(peer: SocketAddr, local: SocketAddr) -> bool {
    peer.ip().is_loopback() || local.ip().is_loopback() || peer.ip() == local.ip()
}

fn look(processes: &BTreeSet<i32>, number: u64) -> SocketSight {
    let wanted = format!("socket:[{number}]");
    let mut sight = SocketSight::Absent;
    for process in processes {
        for thread in threads(*process) {
            match fs::read_dir(thread.join("fd")) {
                Ok(files) => {
                    let mut links = files.flatten().filter_map(|file| fs::read_link(file.path()).ok());
                    if links.any(|link| link.as_os_str() == wanted.as_str()) {
                        return SocketSight::Held;
                    }
                }
                Err(error) if error.kind() == ErrorKind::PermissionDenied && is_hiding(*process) => {
                    sight = SocketSight::Hidden;
                }
                Err(_) => {}
            }
        }
    }
    sight
}

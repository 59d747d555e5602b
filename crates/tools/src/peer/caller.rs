//! Who has made a connection: a program of an agent, somebody else, or somebody who has left.
//!
//! The other end is asked for by name, and only the open files of such programs are looked at, not those of every process.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::Path;

use super::{PeerProcess, diagnosis, table};
use crate::process::{
    adopted_children, ancestry, below, had_programs_lately, is_hiding, supervisors_for_agents, threads,
};

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

pub(super) fn find_at_once(peer: SocketAddr, local: SocketAddr) -> Option<PeerProcess> {
    if had_programs_lately() || !supervisors_for_agents().is_empty() {
        return None;
    }
    // Only now: whoever has the other end after that had it when there was no such program.
    let (peer, local) = (canonical(peer), canonical(local));
    Some(match diagnosis::number_of(peer, local) {
        Ok(Some(1..)) => PeerProcess::Person,
        Ok(None) if !table::is_here(peer) => PeerProcess::Person,
        Ok(_) | Err(_) => PeerProcess::Gone,
    })
}

pub(super) fn find(peer: SocketAddr, local: SocketAddr) -> PeerProcess {
    let (peer, local) = (canonical(peer), canonical(local));
    for _ in 0..LOOKS {
        let number = match number_of(peer, local) {
            Some(number @ 1..) => number,
            None if !table::is_here(peer) => return PeerProcess::Person,
            // Nobody waits for an answer any more: it was sent in passing.
            None | Some(0) => return PeerProcess::Gone,
        };
        let (newest, processes) = (newest_process(), programs());
        let is_settled = || newest == newest_process() || processes == programs();
        match look(&processes, number) {
            SocketSight::Held => return PeerProcess::Agent,
            SocketSight::Absent if is_settled() && number_of(peer, local) == Some(number) => {
                return PeerProcess::Person;
            }
            SocketSight::Absent => {}
            SocketSight::Hidden => break,
        }
    }
    find_holder(peer, local)
}

fn canonical(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        ip if ip == address.ip() => address,
        ip => SocketAddr::new(ip, address.port()),
    }
}

/// Every process of an agent's programs, those included whose supervisor was killed.
fn programs() -> BTreeSet<i32> {
    let mut found: BTreeSet<i32> = below(&supervisors_for_agents()).into_iter().collect();
    // Only now: what a supervisor leaves that is killed meanwhile comes to us.
    for _ in 0..LOOKS {
        let adopted = adopted_children();
        found.extend(below(&adopted).into_iter().chain(adopted.iter().copied()));
        if adopted == adopted_children() {
            break;
        }
    }
    found
}

/// The last process that was started. While it is the same, nothing has come to be.
fn newest_process() -> Option<String> {
    let load = fs::read_to_string("/proc/loadavg").ok()?;
    load.split_ascii_whitespace().next_back().map(str::to_owned)
}

/// Finds whoever has the other end among all processes.
fn find_holder(peer: SocketAddr, local: SocketAddr) -> PeerProcess {
    let holders = number_of(peer, local).map(table::holders_of).unwrap_or_default();
    if holders.is_empty() {
        // Whoever hides among such programs is taken for one of them.
        let found = table::find(Some(peer));
        return if found == PeerProcess::Person { found } else { PeerProcess::Agent };
    }
    let above_programs = [supervisors_for_agents(), adopted_children()].concat();
    let is_below = |above: Vec<i32>| above.iter().any(|process| above_programs.contains(process));
    // One that has ended tells nothing: a client that starts a program is two processes for a moment.
    let living = holders.iter().filter_map(|process| ancestry(*process)).map(is_below);
    match living.max() {
        Some(true) => PeerProcess::Agent,
        Some(false) => PeerProcess::Person,
        None => PeerProcess::Gone,
    }
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

fn look(processes: &BTreeSet<i32>, number: u64) -> SocketSight {
    let wanted = format!("socket:[{number}]");
    let mut sight = SocketSight::Absent;
    for process in processes {
        for thread in threads(*process) {
            match fs::read_dir(thread.join("fd")) {
                Ok(files) => {
                    let mut links =
                        files.flatten().filter_map(|file| fs::read_link(file.path()).ok()).peekable();
                    // One that is ending shows no files any more before it has let go of them.
                    if links.peek().is_none() && !has_ended(&thread) {
                        sight = SocketSight::Hidden;
                    }
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

/// Whether nothing is left of a thread, by its folder, but what its parent wants to know.
fn has_ended(thread: &Path) -> bool {
    let Ok(stat) = fs::read(thread.join("stat")) else { return true };
    // The name is in parentheses and may hold anything, parentheses too.
    let mut after = stat.rsplit(|byte| *byte == b')').next().into_iter().flatten();
    matches!(after.find(|byte| **byte != b' '), Some(b'Z' | b'X'))
}

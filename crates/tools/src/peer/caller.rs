//! Who has made a connection: a program of an agent, somebody else, or somebody who has left.
//!
//! Somebody is a person only if a process was found that has the other end and surely comes from no agent. That no program of
//! an agent was seen with it is not enough: while one looks, they hand it to each other, or leave it for a while where no
//! process has it.

use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::Path;

use rustix::process::getpid;

use super::{PeerProcess, diagnosis, table};
use crate::process::{
    adopted_children, ancestry, below, had_programs_lately, is_below_a_program, is_hiding, started_programs,
    supervisors_for_agents, threads,
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

/// Whether no program of an agent runs, nor did here a moment ago.
pub(super) fn is_quiet() -> bool {
    !had_programs_lately() && supervisors_for_agents().is_empty() && adopted_children().is_empty()
}

pub(super) fn find_at_once(peer: SocketAddr, local: SocketAddr) -> Option<PeerProcess> {
    if !is_quiet() {
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

/// Who has made each of these connections, by their other end and ours. All are looked up together, so that many take hardly
/// longer than one.
pub(super) fn find(connections: &[(SocketAddr, SocketAddr)]) -> Vec<PeerProcess> {
    let ends: Vec<_> =
        connections.iter().map(|(peer, local)| (canonical(*peer), canonical(*local))).collect();
    let mut found: Vec<Option<PeerProcess>> = vec![None; ends.len()];
    for _ in 0..LOOKS {
        let is_open = |(_, found): &(&_, &mut Option<PeerProcess>)| found.is_none();
        let open: Vec<_> = ends.iter().zip(&mut found).filter(is_open).collect();
        if open.is_empty() {
            break;
        }
        let numbers: Vec<Option<u64>> =
            open.iter().map(|((peer, local), _)| number_of(*peer, *local)).collect();
        let wanted: HashSet<u64> = numbers.iter().flatten().copied().filter(|number| *number > 0).collect();
        let mut supervisors = supervisors_for_agents();
        let holders = table::holders(&wanted);
        // Again: one that was killed meanwhile may still be above what it watched over.
        supervisors.extend(supervisors_for_agents());
        for (((peer, _), found), number) in open.into_iter().zip(numbers) {
            *found = match number {
                Some(number @ 1..) => judge(holders.get(&number).map_or(&[], Vec::as_slice), &supervisors),
                None if !table::is_here(*peer) => Some(PeerProcess::Person),
                // Nobody waits for an answer any more: it was sent in passing.
                None | Some(0) => Some(PeerProcess::Gone),
            };
        }
    }
    ends.iter()
        .zip(found)
        .map(|((peer, local), found)| found.unwrap_or_else(|| unseen(*peer, *local)))
        .collect()
}

fn canonical(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        ip if ip == address.ip() => address,
        ip => SocketAddr::new(ip, address.port()),
    }
}

/// Whose connection it is, by the processes that have it; nothing if that is not sure.
fn judge(holders: &[i32], supervisors: &[i32]) -> Option<PeerProcess> {
    // The client is in this very process. A child that has a copy is about to become a program, and loses it then.
    if holders.contains(&getpid().as_raw_pid()) {
        return Some(PeerProcess::Person);
    }
    let is_program = |above: Vec<i32>| {
        is_below_a_program(&above) || above.iter().any(|process| supervisors.contains(process))
    };
    // One that has ended tells nothing: a client that starts a program is two processes for a moment.
    let living = holders.iter().filter_map(|process| ancestry(*process)).map(is_program);
    living.max().map(|is_program| if is_program { PeerProcess::Agent } else { PeerProcess::Person })
}

/// Whose connection it is that no process was ever seen with.
fn unseen(peer: SocketAddr, local: SocketAddr) -> PeerProcess {
    let found = table::find(Some(peer));
    match number_of(peer, local) {
        Some(1..) if found != PeerProcess::Person => PeerProcess::Agent,
        _ => found,
    }
}

/// Whose connection it is that no process shows which may be looked at, although it has the account of this one.
pub(super) fn find_hidden(number: u64) -> PeerProcess {
    for _ in 0..LOOKS {
        let programs = programs();
        // What comes and goes meanwhile can have had it all the time.
        if look(&programs, number) != SocketSight::Absent || self::programs() != programs {
            return PeerProcess::Gone;
        }
    }
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut processes = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let own = getpid().as_raw_pid();
    let hides = |process: i32| {
        let files = fs::read_dir(format!("/proc/{process}/fd"));
        let is_hidden =
            files.is_err_and(|error| error.kind() == ErrorKind::PermissionDenied) && is_hiding(process);
        // What we are just starting hides for a moment, before it is known as a program.
        is_hidden
            && ancestry(process).is_some_and(|above| !is_below_a_program(&above) && !above.contains(&own))
    };
    // Those of agents were looked at. What tunnels use, such as sshd, hides as well.
    if processes.any(hides) { PeerProcess::Person } else { PeerProcess::Gone }
}

/// Every process of an agent's programs, those included whose supervisor was killed.
fn programs() -> BTreeSet<i32> {
    let mut roots = supervisors_for_agents();
    // Only now: what a supervisor leaves that is killed meanwhile comes to us.
    roots.extend(started_programs());
    roots.extend(adopted_children());
    below(&roots).into_iter().chain(roots.iter().copied()).collect()
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

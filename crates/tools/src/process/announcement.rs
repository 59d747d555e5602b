//! How supervisors make themselves known to every process of ours on this machine, not only to the one that started them.
//!
//! Each holds a lock on a file that has no name, and the system lists locks with their holders. So one short file tells
//! whether anything runs for an agent at all, nothing is left behind by a supervisor that was killed, and no program can
//! take the lock from its supervisor.

use std::collections::HashSet;
use std::fs;
use std::os::fd::OwnedFd;
use std::sync::LazyLock;

use rustix::fs::{FlockOperation, MemfdFlags, flock, fstat, major, memfd_create, minor};
use rustix::io;
use rustix::process::getpid;

use super::process_tree::{Process, ancestry, children};
use super::supervisor::{ARGUMENT, NAME};

/// Makes this process known as a supervisor, for as long as what comes back is open.
pub(super) fn announce() -> io::Result<OwnedFd> {
    let file = unnamed_file()?;
    flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    Ok(file)
}

fn unnamed_file() -> io::Result<OwnedFd> {
    // Some systems want the first, and older kernels know only the second.
    memfd_create(NAME, MemfdFlags::CLOEXEC | MemfdFlags::NOEXEC_SEAL)
        .or_else(|_| memfd_create(NAME, MemfdFlags::CLOEXEC))
}

/// The supervisors of programs that were started for an agent, here or by another process of ours: not those of terminals,
/// which people open. If we run below one ourselves, it and the others of the same process are left out: we are a program
/// of that agent's, and so are they.
pub(crate) fn supervisors_for_agents() -> Vec<i32> {
    let found = announced().unwrap_or_else(|| children(getpid().as_raw_pid()));
    let mut supervisors: Vec<Process> =
        found.into_iter().filter(|pid| is_supervisor(*pid)).filter_map(Process::of).collect();
    let own = getpid().as_raw_pid();
    if supervisors.iter().any(|supervisor| supervisor.parent() != own) {
        let above: HashSet<i32> = ancestry(own).into_iter().flatten().collect();
        let of_ours: HashSet<i32> = supervisors
            .iter()
            .filter(|supervisor| above.contains(&supervisor.pid()))
            .map(|supervisor| supervisor.parent())
            .collect();
        supervisors.retain(|supervisor| !of_ours.contains(&supervisor.parent()));
    }
    supervisors
        .iter()
        .filter(|supervisor| !supervisor.has_terminal())
        .map(|supervisor| supervisor.pid())
        .collect()
}

/// Who holds a lock on a file that has no name; nothing if the system does not tell.
fn announced() -> Option<Vec<i32>> {
    static PLACE: LazyLock<Option<String>> = LazyLock::new(|| {
        let device = fstat(unnamed_file().ok()?).ok()?.st_dev;
        Some(format!("{:02x}:{:02x}:", major(device), minor(device)))
    });
    let place = PLACE.as_deref()?;
    Some(fs::read_to_string("/proc/locks").ok()?.lines().filter_map(|line| holder(line, place)).collect())
}

/// The holder in a line of the list, if the lock is on a file of that device.
fn holder(line: &str, place: &str) -> Option<i32> {
    let mut fields = line.split_ascii_whitespace().skip(1);
    let (kind, _, _, pid, file) =
        (fields.next()?, fields.next()?, fields.next()?, fields.next()?, fields.next()?);
    (kind == "FLOCK" && file.starts_with(place)).then(|| pid.parse().ok())?
}

/// Whether a process is a supervisor of ours, as its command line says: other programs lock such files as well.
pub(super) fn is_supervisor(pid: i32) -> bool {
    let expected = format!("{NAME}\0{ARGUMENT}\0").into_bytes();
    fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line == expected)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_locks_is_understood() {
        let check =
            |line: &str, expected: Option<i32>| assert_eq!(holder(line, "00:01:"), expected, "{line}");
        check("4: FLOCK  ADVISORY  WRITE 5208 00:01:1089 0 EOF", Some(5208));
        check("4: FLOCK  ADVISORY  WRITE 5208 fe:00:1089 0 EOF", None);
        check("4: POSIX  ADVISORY  WRITE 5208 00:01:1089 0 EOF", None);
        // Somebody who waits for a lock.
        check("5: -> FLOCK  ADVISORY  WRITE 5177 00:01:1089 0 EOF", None);
        check("4: FLOCK  ADVISORY", None);
        check("", None);
    }

    #[test]
    fn a_lock_is_listed_while_it_is_held() {
        let own = getpid().as_raw_pid();
        let held = announce().unwrap();
        assert!(announced().unwrap().contains(&own));
        // Holding one does not make a supervisor.
        assert!(!is_supervisor(own));
        drop(held);
        assert!(!announced().unwrap().contains(&own));
    }
}

//! Who a program in the sandbox is: the same account as outside, without its rights over the machine.

use std::fs;
use std::io;

use rustix::process::{Pid, getegid, geteuid};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities, set_no_new_privs,
};

/// What a program of root's keeps, of the rights over its own namespace: without them it could not work on files of
/// other accounts, which people who run everything as root have.
const KEPT_BY_ROOT: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::SETUID)
    .union(CapabilitySet::SETGID);

/// Tells the system which accounts a child's new user namespace knows: all, where we have the right to say so, and
/// otherwise our own. Each has the number that it has outside.
pub(super) fn map_accounts(child: Pid) -> io::Result<()> {
    let write = |file: &str, text: String| fs::write(format!("/proc/{child}/{file}"), text);
    let rights = capabilities(None)?.effective;
    if rights.contains(CapabilitySet::SETUID | CapabilitySet::SETGID | CapabilitySet::SETFCAP) {
        write("uid_map", same("/proc/self/uid_map")?)?;
        write("gid_map", same("/proc/self/gid_map")?)
    } else {
        let (user, group) = (geteuid().as_raw(), getegid().as_raw());
        write("uid_map", format!("{user} {user} 1\n"))?;
        // Without it, a group that is denied something could be left.
        write("setgroups", "deny".to_owned())?;
        write("gid_map", format!("{group} {group} 1\n"))
    }
}

/// The map by which a new namespace knows the accounts that we know, by the same numbers.
fn same(own: &str) -> io::Result<String> {
    let lines = fs::read_to_string(own)?;
    let ranges = lines.lines().filter_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let (inside, _, count) = (words.next()?, words.next()?, words.next()?);
        Some(format!("{inside} {inside} {count}\n"))
    });
    Ok(ranges.collect())
}

/// Gives up every right that the program must not have, for good.
pub(super) fn give_up_rights() -> io::Result<()> {
    let mut sets = capabilities(None)?;
    let kept = if geteuid().is_root() { KEPT_BY_ROOT & sets.permitted } else { CapabilitySet::empty() };
    if sets.effective.contains(CapabilitySet::SETPCAP) {
        for right in CapabilitySet::all().iter().filter(|right| !kept.contains(*right)) {
            match remove_capability_from_bounding_set(right) {
                // The system is older than the right.
                Ok(()) | Err(rustix::io::Errno::INVAL) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    clear_ambient_capability_set()?;
    sets = CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() };
    set_capabilities(None, sets)?;
    set_no_new_privs(true)?;
    Ok(())
}

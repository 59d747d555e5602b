//! The second wall around files: Landlock allows what the policy lists and nothing else.
//!
//! Where there are mounts of our own, what is not listed is not there in the first place, and this says once more what
//! can be changed. Where there are none, it is the only wall, and cannot protect what lies in something writable.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags, fstat, open};
use rustix::io::Errno;

use super::kernel::{LandlockScope, landlock_allow, landlock_enforce, landlock_rules, landlock_version};
use super::mounts::DEVICES;
use super::policy::SandboxPolicy;
use super::report::SandboxPart;

const EXECUTE: u64 = 1;
const WRITE_FILE: u64 = 1 << 1;
const READ_FILE: u64 = 1 << 2;
const READ_DIR: u64 = 1 << 3;
const TRUNCATE: u64 = 1 << 14;
const IOCTL_DEVICE: u64 = 1 << 15;
/// What can be asked of a file that is no folder.
const OF_FILES: u64 = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEVICE;
const READING: u64 = EXECUTE | READ_FILE | READ_DIR;

const SCOPE_ABSTRACT_SOCKETS: u64 = 1;
const SCOPE_SIGNALS: u64 = 1 << 1;

/// Everything about files that a version governs.
fn governed(version: u32) -> u64 {
    match version {
        // What a version does not know must not be asked of it: moving between folders, cutting, device controls.
        1 => (1 << 13) - 1,
        2 => (1 << 14) - 1,
        3 | 4 => (1 << 15) - 1,
        _ => (1 << 16) - 1,
    }
}

/// Puts this process under the policy, for good.
pub(super) fn enforce(policy: &SandboxPolicy) -> io::Result<()> {
    let version = landlock_version()?;
    let all = governed(version);
    let (length, scoped) = match version {
        ..4 => (8, 0),
        4 | 5 => (16, 0),
        _ if policy.has(SandboxPart::Processes) => (24, SCOPE_ABSTRACT_SOCKETS),
        _ => (24, SCOPE_ABSTRACT_SOCKETS | SCOPE_SIGNALS),
    };
    let rules = landlock_rules(&LandlockScope { files: all, network: 0, scoped }, length)?;
    let allow = |path: &Path, access: u64| allow(rules.as_fd(), path, access & all);
    if policy.has(SandboxPart::Mounts) {
        allow(Path::new("/"), READING)?;
        allow(Path::new("/tmp"), all)?;
        allow(Path::new("/var/tmp"), all)?;
        allow(Path::new("/run"), all)?;
        // Mounts say what of it can be changed: what is its own, and null and the terminal.
        allow(Path::new("/proc"), READING | WRITE_FILE | TRUNCATE)?;
        allow(Path::new("/dev"), all)?;
    } else {
        for path in policy.readable.iter().filter(|path| !policy.hidden.contains(path)) {
            allow(path, READING)?;
        }
        allow(Path::new("/proc"), READING)?;
        for device in DEVICES {
            allow(&Path::new("/dev").join(device), all)?;
        }
    }
    let scratch = policy.scratch.iter().filter(|_| policy.has(SandboxPart::Mounts));
    for path in policy.writable.iter().chain(&policy.temporary).chain(scratch) {
        allow(path, all)?;
    }
    landlock_enforce(rules.as_fd())
}

/// Allows something at a path. What is not there needs no permission.
fn allow(rules: BorrowedFd<'_>, path: &Path, access: u64) -> io::Result<()> {
    let place = match open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()) {
        Ok(place) => place,
        Err(Errno::NOENT | Errno::NOTDIR | Errno::ACCESS) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    let folder = FileType::from_raw_mode(fstat(&place)?.st_mode).is_dir();
    landlock_allow(rules, if folder { access } else { access & OF_FILES }, place.as_fd())
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use rustix::thread::set_no_new_privs;

    use super::*;

    #[test]
    fn beside_mounts_it_says_once_more_what_can_be_changed() {
        // They hold whatever it says, so it is tried without them. It is for one thread.
        let project = tempfile::tempdir().unwrap();
        let policy = SandboxPolicy {
            writable: vec![project.path().to_owned()],
            parts: [SandboxPart::Mounts].into(),
            ..SandboxPolicy::default()
        };
        // What only root could change otherwise. Nothing is written to it.
        let machine = Path::new("/etc/passwd");
        let made = project.path().join("made");
        let tried = move || {
            set_no_new_privs(true).unwrap();
            enforce(&policy).unwrap();
            let changed = File::options().append(true).open(machine).is_ok();
            [changed, File::open(machine).is_ok(), File::create(made).is_ok()]
        };
        assert_eq!(std::thread::spawn(tried).join().unwrap(), [false, true, true]);
    }
}

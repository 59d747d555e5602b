//! Finding out what there is for a sandbox, by doing each of it in a child: what settings and versions say is not what
//! a container or a security module then allows.

use std::fs;
use std::io::{self, Read as _, Write as _, stdout};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::path::Path;

use rustix::net::{AddressFamily, SocketType, socket};
use rustix::process::{Signal, WaitOptions, getpid, kill_process, set_parent_process_death_signal, waitpid};
use rustix::thread::set_no_new_privs;

use super::kernel::{
    close_others, fork, landlock_version, make_this_read_only, raise_loopback, unshare_nothing,
};
use super::policy::SandboxPolicy;
use super::report::{SandboxPart, SandboxReport};
use super::stage::{Stage, attach, copy, new_mount};
use super::{identity, landlock, seccomp};

/// Finds out, and prints the report for whoever started us.
pub(in crate::process) fn run() -> io::Result<()> {
    let report = serde_json::to_vec(&report())?;
    stdout().write_all(&report)
}

fn report() -> SandboxReport {
    let mut report = SandboxReport { landlock: landlock_version().unwrap_or_default(), ..Default::default() };
    let mut base = libc::CLONE_NEWUSER;
    for part in SandboxPart::ALL {
        if let Err(error) = attempt(part, base) {
            report.refused.insert(part, error.raw_os_error().unwrap_or(libc::EIO));
            if part == SandboxPart::User {
                // Root may make the others without it.
                base = 0;
            }
        }
    }
    report
}

/// Does one of the things in a child, with the namespaces that it needs and those in `base`.
fn attempt(part: SandboxPart, base: libc::c_int) -> io::Result<()> {
    let namespaces = match part {
        SandboxPart::User => base,
        SandboxPart::Mounts => base | libc::CLONE_NEWNS,
        SandboxPart::Processes => base | libc::CLONE_NEWPID,
        SandboxPart::Proc => base | libc::CLONE_NEWPID | libc::CLONE_NEWNS,
        SandboxPart::Ipc => base | libc::CLONE_NEWIPC,
        SandboxPart::Network => base | libc::CLONE_NEWNET,
        SandboxPart::Landlock | SandboxPart::Seccomp => 0,
    };
    let (mut ours, mut theirs) = UnixStream::pair()?;
    let child = fork(namespaces, || {
        let done = wait_for_word(&mut theirs).and_then(|()| try_out(part));
        // Every number of an error is smaller than that of an exit status can be.
        done.map_or_else(
            |error| error.raw_os_error().unwrap_or(libc::EIO).try_into().unwrap_or(u8::MAX),
            |()| 0,
        )
    })?;
    let mapped = if namespaces & libc::CLONE_NEWUSER == 0 { Ok(()) } else { identity::map_accounts(child) };
    let told = mapped.and_then(|()| ours.write_all(b"\n"));
    if told.is_err() {
        // Nobody will ever say a word to it.
        kill_process(child, Signal::KILL).ok();
    }
    let status = waitpid(Some(child), WaitOptions::empty())?.and_then(|(_, status)| status.exit_status());
    told?;
    match status {
        Some(0) => Ok(()),
        Some(number) => Err(io::Error::from_raw_os_error(number)),
        None => Err(io::Error::from_raw_os_error(libc::EIO)),
    }
}

/// What the child does first: it waits until its accounts are mapped, and does not outlive who does that.
fn wait_for_word(theirs: &mut UnixStream) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // It has a copy of the other end as well: as long as that is open, there is no end to what it waits for.
    close_others(&[theirs.as_fd()])?;
    theirs.read_exact(&mut [0])
}

/// What a part is for, tried out.
fn try_out(part: SandboxPart) -> io::Result<()> {
    let refused = || io::Error::from_raw_os_error(libc::EOPNOTSUPP);
    match part {
        // What is left is whether there are rights inside, which the others show.
        SandboxPart::User | SandboxPart::Ipc => Ok(()),
        SandboxPart::Mounts => {
            let folder = fs::File::open("/")?.into();
            let stage = Stage::on(&folder)?;
            attach(copy(Path::new("/dev/null"))?, stage.file(Path::new("/null"))?)?;
            Ok(make_this_read_only(stage.root.as_fd())?)
        }
        SandboxPart::Processes if getpid().is_init() => Ok(()),
        SandboxPart::Processes => Err(refused()),
        SandboxPart::Proc => Ok(new_mount("proc", &[]).map(drop)?),
        SandboxPart::Network => raise_loopback(socket(AddressFamily::INET, SocketType::DGRAM, None)?),
        SandboxPart::Landlock => {
            set_no_new_privs(true)?;
            landlock::enforce(&SandboxPolicy::default())?;
            if fs::read_dir("/").is_ok() { Err(refused()) } else { Ok(()) }
        }
        SandboxPart::Seccomp => {
            set_no_new_privs(true)?;
            seccomp::enforce()?;
            if unshare_nothing().is_ok() { Err(refused()) } else { Ok(()) }
        }
    }
}

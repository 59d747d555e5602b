//! System calls that neither the standard library nor rustix offers, each behind a safe function.

#![expect(unsafe_code, reason = "these calls have no safe interface in the crates that we use")]

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use rustix::process::Pid;

/// The exit status of a child whose work panicked.
const PANICKED: i32 = 101;

/// What a call returned, or its error.
fn checked(result: libc::c_long) -> io::Result<libc::c_long> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Starts a child in new namespaces (flags `CLONE_NEW*`, or 0). It does `work`, exits with the status that this gives
/// and never comes back into the caller's code. Only for a process with one thread.
pub(super) fn fork(namespaces: libc::c_int, work: impl FnOnce() -> u8) -> io::Result<Pid> {
    // Another thread could hold a lock, which nobody would ever release in the child.
    if fs::read_dir("/proc/self/task")?.count() != 1 {
        return Err(io::Error::other("a process with several threads cannot fork"));
    }
    let none: libc::c_ulong = 0;
    let flags = libc::c_long::from(namespaces | libc::SIGCHLD);
    // SAFETY: without CLONE_VM the child has memory of its own, and no stack means a copy of ours. There is no other
    // thread, as was just seen.
    let child = checked(unsafe { libc::syscall(libc::SYS_clone, flags, none, none, none, none) })?;
    if child == 0 {
        let status = catch_unwind(AssertUnwindSafe(work)).map_or(PANICKED, i32::from);
        // SAFETY: it ends the process, and runs nothing of what the parent had registered for its own end.
        unsafe { libc::_exit(status) }
    }
    let child = i32::try_from(child).ok().and_then(Pid::from_raw);
    child.ok_or_else(|| io::Error::other("the system gave a child without a number"))
}

/// Closes every descriptor above the standard streams except some. Only for a forked child, whose inherited values are
/// never dropped.
pub(super) fn close_others(keep: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut keep: Vec<u32> = keep.iter().filter_map(|fd| u32::try_from(fd.as_raw_fd()).ok()).collect();
    keep.sort_unstable();
    let mut first = 3;
    for fd in keep.into_iter().filter(|fd| *fd >= 3) {
        if fd > first {
            close_range(first, fd - 1, 0)?;
        }
        first = fd + 1;
    }
    close_range(first, u32::MAX, 0)
}

/// Lets no descriptor but the standard streams reach the next program.
pub(super) fn close_on_exec() -> io::Result<()> {
    close_range(3, u32::MAX, libc::CLOSE_RANGE_CLOEXEC)
}

fn close_range(first: u32, last: u32, flags: libc::c_uint) -> io::Result<()> {
    // SAFETY: the call takes numbers only. Whoever asks for closing holds nothing that would be closed again.
    checked(unsafe { libc::syscall(libc::SYS_close_range, first, last, flags) }).map(drop)
}

/// Whether signals reach this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SignalDelivery {
    /// None but KILL and STOP do.
    Blocked,
    /// All of them do.
    Open,
}

/// Says whether signals reach this process.
pub(super) fn set_signals(delivery: SignalDelivery) -> io::Result<()> {
    let mut set = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: sigfillset and sigemptyset write the whole set before it is read.
    let result = unsafe {
        match delivery {
            SignalDelivery::Blocked => libc::sigfillset(set.as_mut_ptr()),
            SignalDelivery::Open => libc::sigemptyset(set.as_mut_ptr()),
        };
        libc::sigprocmask(libc::SIG_SETMASK, set.as_ptr(), ptr::null_mut())
    };
    checked(result.into()).map(drop)
}

/// Makes a mount and all that lie below it read-only.
pub(super) fn make_read_only(tree: BorrowedFd<'_>) -> io::Result<()> {
    set_mount(tree, libc::AT_EMPTY_PATH | libc::AT_RECURSIVE)
}

/// Makes a mount read-only, and none of those below it.
pub(super) fn make_this_read_only(mount: BorrowedFd<'_>) -> io::Result<()> {
    set_mount(mount, libc::AT_EMPTY_PATH)
}

fn set_mount(mount: BorrowedFd<'_>, flags: libc::c_int) -> io::Result<()> {
    let attributes =
        libc::mount_attr { attr_set: libc::MOUNT_ATTR_RDONLY, attr_clr: 0, propagation: 0, userns_fd: 0 };
    // SAFETY: the path is an empty string with its end, and the structure is as long as is said.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            flags,
            ptr::from_ref(&attributes),
            size_of::<libc::mount_attr>(),
        )
    };
    checked(result).map(drop)
}

/// Brings up the loopback interface of this network namespace.
pub(super) fn raise_loopback(socket: impl AsFd) -> io::Result<()> {
    // SAFETY: a structure of numbers for which zero is a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
        *to = libc::c_char::from_ne_bytes([*from]);
    }
    request.ifr_ifru.ifru_flags = libc::c_short::try_from(libc::IFF_UP).map_err(io::Error::other)?;
    // SAFETY: SIOCSIFFLAGS reads an ifreq, which this is.
    let result =
        unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), libc::SIOCSIFFLAGS as _, &raw const request) };
    checked(result.into()).map(drop)
}

/// What Landlock may govern, in its own bits.
#[derive(Debug, Default)]
#[repr(C)]
pub(super) struct LandlockScope {
    pub(super) files: u64,
    pub(super) network: u64,
    pub(super) scoped: u64,
}

/// Which version of Landlock the system has.
pub(super) fn landlock_version() -> io::Result<u32> {
    const VERSION: libc::c_uint = 1;
    // SAFETY: with this flag the call reads no memory.
    let version = checked(unsafe {
        libc::syscall(libc::SYS_landlock_create_ruleset, ptr::null::<u8>(), 0_usize, VERSION)
    })?;
    u32::try_from(version).map_err(io::Error::other)
}

/// A new set of rules, of which `length` bytes of the scope are known to the system.
pub(super) fn landlock_rules(scope: &LandlockScope, length: usize) -> io::Result<OwnedFd> {
    let length = length.min(size_of::<LandlockScope>());
    // SAFETY: the structure is at least as long as is said.
    let rules = checked(unsafe {
        libc::syscall(libc::SYS_landlock_create_ruleset, ptr::from_ref(scope), length, 0)
    })?;
    let rules = i32::try_from(rules).map_err(io::Error::other)?;
    // SAFETY: the call has just made this descriptor, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(rules) })
}

/// Allows something to be done to a file, or below a folder.
pub(super) fn landlock_allow(rules: BorrowedFd<'_>, access: u64, place: BorrowedFd<'_>) -> io::Result<()> {
    const BENEATH: libc::c_uint = 1;
    #[repr(C, packed)]
    struct BeneathRule {
        access: u64,
        place: i32,
    }
    let rule = BeneathRule { access, place: place.as_raw_fd() };
    // SAFETY: the system reads one such structure for a rule of this kind.
    checked(unsafe {
        libc::syscall(libc::SYS_landlock_add_rule, rules.as_raw_fd(), BENEATH, &raw const rule, 0)
    })
    .map(drop)
}

/// Puts this process and its descendants under the rules, for good.
pub(super) fn landlock_enforce(rules: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: the call takes numbers only.
    checked(unsafe { libc::syscall(libc::SYS_landlock_restrict_self, rules.as_raw_fd(), 0) }).map(drop)
}

/// Filters the system calls of this process and its descendants, for good.
pub(super) fn filter_calls(program: &[libc::sock_filter]) -> io::Result<()> {
    let program = libc::sock_fprog {
        len: libc::c_ushort::try_from(program.len()).map_err(io::Error::other)?,
        filter: program.as_ptr().cast_mut(),
    };
    // SAFETY: the system copies as many instructions as are said to be there, and writes nothing.
    checked(unsafe {
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, ptr::from_ref(&program))
    })
    .map(drop)
}

/// Asks for nothing, in a call that the filter refuses: for finding out whether it does.
pub(super) fn unshare_nothing() -> io::Result<()> {
    // SAFETY: without a flag the call does nothing.
    checked(unsafe { libc::unshare(0) }.into()).map(drop)
}

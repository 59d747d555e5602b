//! System calls that a program in the sandbox has no use for, and that would weaken the other walls.
//!
//! It is a list of what is refused, because programs use far more calls than anybody foresees. Calls that a C library
//! can do without are answered as by a system that does not know them, so that it uses what it used before.

use std::io;

use libc::{c_long, sock_filter};
use rustix::process::geteuid;

use super::kernel::filter_calls;

/// The programs that the filter is for. Those of other kinds (32 bits) have other numbers for their calls and would
/// walk past it: they are killed.
const ARCHITECTURE: Option<u32> = if cfg!(target_arch = "x86_64") {
    Some(0xc000_003e)
} else if cfg!(target_arch = "aarch64") {
    Some(0xc000_00b7)
} else {
    None
};

/// On x86-64, calls from this number on are the same ones under other numbers.
const OTHER_NUMBERS: u32 = 0x4000_0000;

const NR: u32 = 0;
const ARCH: u32 = 4;
const ARGUMENTS: u32 = 16;

/// Flags of `clone` that make namespaces, which is how a program without rights gets rights over new ones.
const NEW_NAMESPACES: u32 = 0x7e02_0000;

/// What refuses a call, and how.
const REFUSED: &[(c_long, i32)] = &[
    (libc::SYS_acct, libc::EPERM),
    (libc::SYS_add_key, libc::EPERM),
    (libc::SYS_bpf, libc::EPERM),
    (libc::SYS_clock_settime, libc::EPERM),
    // Its flags are in memory, where a filter cannot look.
    (libc::SYS_clone3, libc::ENOSYS),
    (libc::SYS_delete_module, libc::EPERM),
    (libc::SYS_finit_module, libc::EPERM),
    (libc::SYS_fsconfig, libc::EPERM),
    (libc::SYS_fsmount, libc::EPERM),
    (libc::SYS_fsopen, libc::EPERM),
    (libc::SYS_fspick, libc::EPERM),
    (libc::SYS_init_module, libc::EPERM),
    // It does what other calls do, past this filter.
    (libc::SYS_io_uring_enter, libc::ENOSYS),
    (libc::SYS_io_uring_register, libc::ENOSYS),
    (libc::SYS_io_uring_setup, libc::ENOSYS),
    (libc::SYS_kexec_file_load, libc::EPERM),
    (libc::SYS_kexec_load, libc::EPERM),
    (libc::SYS_keyctl, libc::EPERM),
    (libc::SYS_mount, libc::EPERM),
    (libc::SYS_mount_setattr, libc::EPERM),
    (libc::SYS_move_mount, libc::EPERM),
    (libc::SYS_open_by_handle_at, libc::EPERM),
    (libc::SYS_open_tree, libc::EPERM),
    // Its mode is in memory as well.
    (libc::SYS_openat2, libc::ENOSYS),
    (libc::SYS_perf_event_open, libc::EPERM),
    (libc::SYS_pivot_root, libc::EPERM),
    (libc::SYS_quotactl, libc::EPERM),
    (libc::SYS_reboot, libc::EPERM),
    (libc::SYS_request_key, libc::EPERM),
    (libc::SYS_setns, libc::EPERM),
    (libc::SYS_settimeofday, libc::EPERM),
    (libc::SYS_swapoff, libc::EPERM),
    (libc::SYS_swapon, libc::EPERM),
    (libc::SYS_syslog, libc::EPERM),
    (libc::SYS_umount2, libc::EPERM),
    (libc::SYS_unshare, libc::EPERM),
    (libc::SYS_userfaultfd, libc::EPERM),
    (libc::SYS_vhangup, libc::EPERM),
];

/// Kinds of sockets that a program may have. Those to the virtual machine's host (`AF_VSOCK`) belong to no namespace.
const SOCKETS: [i32; 4] = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];

/// Ways to type into the terminal as if a person did.
const TYPING: [u32; 2] = [0x5412, 0x541c];

/// Bits of a mode by which whoever starts a program gets the account or the group that it belongs to.
const SET_ACCOUNT: u32 = libc::S_ISUID;
const SET_GROUP: u32 = libc::S_ISGID;

/// Calls that change the mode of something, with the place of the mode among their arguments.
const CHANGING: &[(c_long, u32)] = &[
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_chmod, 1),
    (libc::SYS_fchmod, 1),
    (libc::SYS_fchmodat, 2),
    // `fchmodat2`, which has this number everywhere.
    (452, 2),
];

/// Calls that make a file, with the places of the flags, if there are any, and of the mode.
const MAKING: &[(c_long, Option<u32>, u32)] = &[
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_creat, None, 1),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_mknod, None, 1),
    (libc::SYS_mknodat, None, 2),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_open, Some(1), 2),
    (libc::SYS_openat, Some(2), 3),
];

/// Flags with which opening a file makes one. Without them the mode can be anything.
const MAKE: i32 = libc::O_CREAT | libc::O_TMPFILE & !libc::O_DIRECTORY;

/// Filters the calls of this process, for good.
pub(super) fn enforce() -> io::Result<()> {
    filter_calls(&program(geteuid().is_root())?)
}

/// The filter as the system runs it.
///
/// A program that gives its group to whoever starts it is no more than the person's own, unless the person is root, who can
/// give a file to any group. The filter does not see that something is a folder, which git gives that bit in repositories of
/// several people. So only root cannot give it.
fn program(is_root: bool) -> io::Result<Vec<sock_filter>> {
    let architecture = ARCHITECTURE.ok_or(io::ErrorKind::Unsupported)?;
    let allow = give(libc::SECCOMP_RET_ALLOW);
    let mut program =
        vec![load(ARCH), skip(architecture, 1, 0)?, give(libc::SECCOMP_RET_KILL_PROCESS), load(NR)];
    if cfg!(target_arch = "x86_64") {
        program.push(step(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, 0, 1, OTHER_NUMBERS));
        program.push(refuse(libc::ENOSYS));
    }
    for (call, error) in REFUSED {
        program.extend([skip(number(*call)?, 0, 1)?, refuse(*error)]);
    }
    let mut cases = |call: c_long, case: Vec<sock_filter>| {
        program.push(skip(number(call)?, 0, case.len())?);
        program.extend(case);
        Ok::<_, io::Error>(())
    };
    cases(
        libc::SYS_clone,
        vec![
            load(ARGUMENTS),
            step(libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K, 0, 1, NEW_NAMESPACES),
            refuse(libc::EPERM),
            allow,
        ],
    )?;
    let has =
        |bits: u32, otherwise: u8| step(libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K, 0, otherwise, bits);
    for (call, mode) in CHANGING {
        let bits = if is_root { SET_ACCOUNT | SET_GROUP } else { SET_ACCOUNT };
        cases(*call, vec![load(ARGUMENTS + 8 * mode), has(bits, 1), refuse(libc::EPERM), allow])?;
    }
    for (call, flags, mode) in MAKING {
        let mut case = Vec::new();
        if let Some(flags) = flags {
            case.extend([load(ARGUMENTS + 8 * flags), has(number(MAKE.into())?, 3)]);
        }
        let bits = SET_ACCOUNT | SET_GROUP;
        case.extend([load(ARGUMENTS + 8 * mode), has(bits, 1), refuse(libc::EPERM), allow]);
        cases(*call, case)?;
    }
    let mut typing = vec![load(ARGUMENTS + 8)];
    for request in TYPING {
        typing.extend([skip(request, 0, 1)?, refuse(libc::EPERM)]);
    }
    typing.push(allow);
    cases(libc::SYS_ioctl, typing)?;
    for call in [libc::SYS_socket, libc::SYS_socketpair] {
        let mut sockets = vec![load(ARGUMENTS)];
        for kind in SOCKETS {
            sockets.extend([skip(number(kind.into())?, 0, 1)?, allow]);
        }
        sockets.push(refuse(libc::EAFNOSUPPORT));
        cases(call, sockets)?;
    }
    program.push(allow);
    Ok(program)
}

fn number(value: c_long) -> io::Result<u32> {
    u32::try_from(value).map_err(io::Error::other)
}

/// One instruction. Those of this filter fit into the fields.
fn step(code: u32, if_true: u8, if_false: u8, value: u32) -> sock_filter {
    sock_filter { code: u16::try_from(code).unwrap_or_default(), jt: if_true, jf: if_false, k: value }
}

/// Takes a word of what is known about the call.
fn load(offset: u32) -> sock_filter {
    step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, offset)
}

/// Skips so many instructions if the word is this one, and otherwise so many others.
fn skip(value: u32, if_equal: u8, otherwise: usize) -> io::Result<sock_filter> {
    let otherwise = u8::try_from(otherwise).map_err(io::Error::other)?;
    Ok(step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, if_equal, otherwise, value))
}

fn give(value: u32) -> sock_filter {
    step(libc::BPF_RET | libc::BPF_K, 0, 0, value)
}

fn refuse(error: i32) -> sock_filter {
    give(libc::SECCOMP_RET_ERRNO | u32::try_from(error).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALLOWED: u32 = libc::SECCOMP_RET_ALLOW;

    /// What the filter says of a call, found by doing what the system does with it.
    fn verdict<const COUNT: usize>(arch: u32, call: c_long, arguments: [u32; COUNT]) -> u32 {
        verdict_for(true, arch, call, &arguments)
    }

    fn verdict_for(is_root: bool, arch: u32, call: c_long, arguments: &[u32]) -> u32 {
        let word = |offset: u32| match offset {
            NR => u32::try_from(call).unwrap(),
            ARCH => arch,
            offset => arguments[usize::try_from((offset - ARGUMENTS) / 8).unwrap()],
        };
        let (mut at, mut taken) = (0, 0);
        let program = program(is_root).unwrap();
        loop {
            let sock_filter { code, jt, jf, k } = program[at];
            let holds = match u32::from(code) {
                code if code == libc::BPF_LD | libc::BPF_W | libc::BPF_ABS => {
                    taken = word(k);
                    at += 1;
                    continue;
                }
                code if code == libc::BPF_RET | libc::BPF_K => return k,
                code if code == libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K => taken == k,
                code if code == libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K => taken >= k,
                code if code == libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K => taken & k != 0,
                code => panic!("{code} is not in use"),
            };
            at += 1 + usize::from(if holds { jt } else { jf });
        }
    }

    #[test]
    fn nothing_that_changes_mounts_namespaces_or_the_machine_is_let_through() {
        let Some(arch) = ARCHITECTURE else { return };
        let refused = |error: i32| libc::SECCOMP_RET_ERRNO | u32::try_from(error).unwrap();
        for call in [
            libc::SYS_acct,
            libc::SYS_add_key,
            libc::SYS_bpf,
            libc::SYS_clock_settime,
            libc::SYS_delete_module,
            libc::SYS_finit_module,
            libc::SYS_fsconfig,
            libc::SYS_fsmount,
            libc::SYS_fsopen,
            libc::SYS_fspick,
            libc::SYS_init_module,
            libc::SYS_kexec_file_load,
            libc::SYS_kexec_load,
            libc::SYS_mount,
            libc::SYS_mount_setattr,
            libc::SYS_move_mount,
            libc::SYS_open_by_handle_at,
            libc::SYS_open_tree,
            libc::SYS_perf_event_open,
            libc::SYS_pivot_root,
            libc::SYS_quotactl,
            libc::SYS_reboot,
            libc::SYS_request_key,
            libc::SYS_setns,
            libc::SYS_settimeofday,
            libc::SYS_swapoff,
            libc::SYS_swapon,
            libc::SYS_umount2,
            libc::SYS_unshare,
            libc::SYS_userfaultfd,
        ] {
            assert_eq!(verdict(arch, call, [0, 0]), refused(libc::EPERM), "{call}");
        }
        for call in [libc::SYS_io_uring_enter, libc::SYS_io_uring_register] {
            assert_eq!(verdict(arch, call, [0, 0]), refused(libc::ENOSYS), "{call}");
        }
    }

    #[test]
    fn calls_are_refused_by_number_and_argument() {
        let Some(arch) = ARCHITECTURE else { return };
        let refused = |error: i32| libc::SECCOMP_RET_ERRNO | u32::try_from(error).unwrap();
        let flag = |flag: i32| u32::try_from(flag).unwrap();
        for (call, arguments, expected) in [
            (libc::SYS_read, [0, 0], ALLOWED),
            (libc::SYS_execve, [0, 0], ALLOWED),
            (libc::SYS_ptrace, [0, 0], ALLOWED),
            (libc::SYS_unshare, [0, 0], refused(libc::EPERM)),
            (libc::SYS_keyctl, [0, 0], refused(libc::EPERM)),
            (libc::SYS_clone3, [0, 0], refused(libc::ENOSYS)),
            (libc::SYS_openat2, [0, 0], refused(libc::ENOSYS)),
            (libc::SYS_io_uring_setup, [0, 0], refused(libc::ENOSYS)),
            (libc::SYS_clone, [flag(libc::CLONE_VM | libc::CLONE_THREAD), 0], ALLOWED),
            (libc::SYS_clone, [flag(libc::CLONE_NEWUSER), 0], refused(libc::EPERM)),
            (libc::SYS_clone, [flag(libc::CLONE_NEWNS | libc::SIGCHLD), 0], refused(libc::EPERM)),
            (libc::SYS_ioctl, [0, 0x5413], ALLOWED),
            (libc::SYS_ioctl, [0, 0x5412], refused(libc::EPERM)),
            (libc::SYS_ioctl, [0, 0x541c], refused(libc::EPERM)),
            (libc::SYS_socket, [flag(libc::AF_UNIX), 0], ALLOWED),
            (libc::SYS_socket, [flag(libc::AF_INET6), 0], ALLOWED),
            (libc::SYS_socket, [flag(libc::AF_VSOCK), 0], refused(libc::EAFNOSUPPORT)),
            (libc::SYS_socketpair, [flag(libc::AF_UNIX), 0], ALLOWED),
            (libc::SYS_socketpair, [flag(libc::AF_ALG), 0], refused(libc::EAFNOSUPPORT)),
        ] {
            assert_eq!(verdict(arch, call, arguments), expected, "{call} {arguments:?}");
        }
        assert_eq!(verdict(0x4000_0003, libc::SYS_read, [0, 0]), libc::SECCOMP_RET_KILL_PROCESS);
        if cfg!(target_arch = "x86_64") {
            let other = libc::SYS_read | c_long::from(OTHER_NUMBERS);
            assert_eq!(verdict(arch, other, [0, 0]), refused(libc::ENOSYS));
        }
    }

    #[test]
    fn no_program_is_made_that_runs_as_somebody_else() {
        let Some(arch) = ARCHITECTURE else { return };
        let refused = libc::SECCOMP_RET_ERRNO | u32::try_from(libc::EPERM).unwrap();
        let check = |call: c_long, arguments: &[u32], for_root: u32, for_others: u32| {
            let found = [true, false].map(|is_root| verdict_for(is_root, arch, call, arguments));
            assert_eq!(found, [for_root, for_others], "{call} {arguments:?}");
        };
        for (call, at) in CHANGING {
            let with = |mode: u32| [vec![0; usize::try_from(*at).unwrap()], vec![mode]].concat();
            check(*call, &with(0o1777), ALLOWED, ALLOWED);
            check(*call, &with(0o4755), refused, refused);
            check(*call, &with(0o2755), refused, ALLOWED);
        }
        let make = u32::try_from(libc::O_CREAT | libc::O_WRONLY).unwrap();
        let unnamed = u32::try_from(libc::O_TMPFILE).unwrap();
        let folder = u32::try_from(libc::O_DIRECTORY).unwrap();
        for (call, flags, at) in MAKING {
            let with = |flag: u32, mode: u32| {
                let place = |at: u32| match Some(at) == *flags {
                    true => flag,
                    false => 0,
                };
                (0..*at).map(place).chain([mode]).collect::<Vec<u32>>()
            };
            for flag in [make, unnamed] {
                check(*call, &with(flag, 0o644), ALLOWED, ALLOWED);
                check(*call, &with(flag, 0o4755), refused, refused);
                check(*call, &with(flag, 0o2755), refused, refused);
            }
            if flags.is_some() {
                check(*call, &with(folder, 0o6755), ALLOWED, ALLOWED);
            }
        }
    }
}

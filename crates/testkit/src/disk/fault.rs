//! Calls that fail on purpose.

use std::collections::HashMap;

use rusqlite::ffi;

/// How a call fails, and with that which calls count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DiskFaultKind {
    /// The device reports an error. Counts reads, writes, syncs, truncations, openings and questions for the size.
    Eio,
    /// The disk is full and nothing is written. Counts writes.
    Full,
    /// Half of the bytes are written, then the device reports an error. Counts writes.
    ShortWrite,
    /// A sync fails and makes nothing durable. Counts syncs.
    FsyncFailed,
}

impl DiskFaultKind {
    /// All kinds, for tests that go through them.
    pub const ALL: [Self; 4] = [Self::Eio, Self::Full, Self::ShortWrite, Self::FsyncFailed];

    fn counts(self, call: DiskCall) -> bool {
        match self {
            Self::Eio => true,
            Self::Full | Self::ShortWrite => call == DiskCall::Write,
            Self::FsyncFailed => call == DiskCall::Sync,
        }
    }
}

/// A call that shall fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskFault {
    /// How it fails.
    pub kind: DiskFaultKind,
    /// Which of the calls that count for this kind, from now on; the next one is 1.
    pub at: u64,
    /// Only this call fails. Otherwise each later one fails too.
    pub once: bool,
}

/// The calls that can fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DiskCall {
    Open,
    Read,
    Write,
    Truncate,
    Sync,
    Size,
}

impl DiskCall {
    /// The code that the unix VFS gives for a device error.
    fn error(self) -> i32 {
        match self {
            Self::Open => ffi::SQLITE_CANTOPEN,
            Self::Read => ffi::SQLITE_IOERR_READ,
            Self::Write => ffi::SQLITE_IOERR_WRITE,
            Self::Truncate => ffi::SQLITE_IOERR_TRUNCATE,
            Self::Sync => ffi::SQLITE_IOERR_FSYNC,
            Self::Size => ffi::SQLITE_IOERR_FSTAT,
        }
    }
}

/// What becomes of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CallVerdict {
    Pass,
    /// Do nothing and return this code.
    Fail(i32),
    /// Write half, then return this code.
    Halve(i32),
}

#[derive(Debug)]
struct ArmedFault {
    fault: DiskFault,
    seen: u64,
}

/// The faults that are waiting, and the calls so far.
#[derive(Debug, Default)]
pub(super) struct Faults {
    armed: Vec<ArmedFault>,
    fired: bool,
    calls: HashMap<DiskFaultKind, u64>,
}

impl Faults {
    pub(super) fn arm(&mut self, fault: DiskFault) {
        self.armed.push(ArmedFault { fault, seen: 0 });
        self.fired = false;
    }

    pub(super) fn heal(&mut self) {
        self.armed.clear();
    }

    pub(super) fn fired(&self) -> bool {
        self.fired
    }

    pub(super) fn calls(&self, kind: DiskFaultKind) -> u64 {
        self.calls.get(&kind).copied().unwrap_or(0)
    }

    pub(super) fn reset_calls(&mut self) {
        self.calls.clear();
    }

    /// Counts the call, for every fault that is waiting, and says what becomes of it.
    pub(super) fn judge(&mut self, call: DiskCall) -> CallVerdict {
        for kind in DiskFaultKind::ALL.into_iter().filter(|kind| kind.counts(call)) {
            *self.calls.entry(kind).or_default() += 1;
        }
        let mut verdict = CallVerdict::Pass;
        for ArmedFault { fault, seen } in self.armed.iter_mut().filter(|armed| armed.fault.kind.counts(call))
        {
            *seen += 1;
            let due = if fault.once { *seen == fault.at } else { *seen >= fault.at };
            if due && verdict == CallVerdict::Pass {
                verdict = match fault.kind {
                    DiskFaultKind::Eio | DiskFaultKind::FsyncFailed => CallVerdict::Fail(call.error()),
                    DiskFaultKind::Full => CallVerdict::Fail(ffi::SQLITE_FULL),
                    DiskFaultKind::ShortWrite => CallVerdict::Halve(call.error()),
                };
            }
        }
        self.fired |= verdict != CallVerdict::Pass;
        verdict
    }
}

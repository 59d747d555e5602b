//! The calls that are about an open file.
//!
//! SQLite gives one piece of memory for a file. It begins with our [`VfsFile`]; behind it is the file of the VFS below.

use std::ffi::{c_int, c_void};
use std::{ptr, slice};

use rusqlite::ffi;

use crate::disk::SharedDisk;
use crate::disk::fault::{CallVerdict, DiskCall};
use crate::disk::trace::{DiskStep, Inode};

/// What a disk may promise here. Promises that an image does not keep, such as that writes are atomic or in order, are
/// left out: SQLite would save syncs and rely on them.
const PROMISES: c_int =
    ffi::SQLITE_IOCAP_POWERSAFE_OVERWRITE | ffi::SQLITE_IOCAP_SUBPAGE_READ | ffi::SQLITE_IOCAP_IMMUTABLE;

/// Our part of an open file.
#[repr(C)]
pub(super) struct VfsFile {
    /// SQLite reads this; it has to be the first field.
    base: ffi::sqlite3_file,
    shared: &'static SharedDisk,
    /// None if it is not recorded.
    inode: Option<Inode>,
    /// The next sync is one of the folder too.
    syncs_folder: bool,
}

impl VfsFile {
    /// Fills our part, as a file that is not open, and gives the place for the file of the VFS below.
    ///
    /// # Safety
    ///
    /// `file` must have room for our part and the one below.
    pub(super) unsafe fn prepare(
        file: *mut ffi::sqlite3_file,
        shared: &'static SharedDisk,
    ) -> *mut ffi::sqlite3_file {
        let base = ffi::sqlite3_file { pMethods: ptr::null() };
        // SAFETY: there is room, and SQLite aligns it for pointers.
        unsafe { file.cast::<Self>().write(Self { base, shared, inode: None, syncs_folder: false }) };
        let real = real(file);
        // SAFETY: as above. The VFS below need not set this if it fails.
        unsafe { (*real).pMethods = ptr::null() };
        real
    }

    /// Opens our part if the VFS below has opened its own.
    ///
    /// # Safety
    ///
    /// `file` must have been prepared, and the VFS below asked to open it.
    pub(super) unsafe fn finish(file: *mut ffi::sqlite3_file, inode: Option<Inode>, syncs_folder: bool) {
        // SAFETY: the VFS below has set its methods, or they are null since `prepare`.
        let Some(methods) = (unsafe { (*real(file)).pMethods.as_ref() }) else { return };
        // SAFETY: it was prepared, so our part is there.
        let own = unsafe { own(file) };
        own.inode = inode;
        own.syncs_folder = syncs_folder;
        let shared_memory = methods.iVersion >= 2 && methods.xShmMap.is_some();
        own.base.pMethods = if shared_memory { &WITH_SHARED_MEMORY } else { &PLAIN };
    }

    /// Does to the file below what `act` does, and notes the step if it succeeded.
    fn noted(&self, act: impl FnOnce() -> c_int, step: impl FnOnce(Inode) -> DiskStep) -> c_int {
        let Some((inode, mut trace)) = self.inode.zip(self.shared.recorder()) else { return act() };
        let code = act();
        if code == ffi::SQLITE_OK {
            trace.record(step(inode));
        }
        code
    }
}

fn real(file: *mut ffi::sqlite3_file) -> *mut ffi::sqlite3_file {
    file.cast::<VfsFile>().wrapping_add(1).cast()
}

/// Our part of a file.
///
/// # Safety
///
/// The file must have been prepared, and no other reference to our part be in use. SQLite never makes two calls for one
/// open file at a time.
unsafe fn own<'a>(file: *mut ffi::sqlite3_file) -> &'a mut VfsFile {
    // SAFETY: as promised by the caller.
    unsafe { &mut *file.cast::<VfsFile>() }
}

const fn methods(version: c_int) -> ffi::sqlite3_io_methods {
    ffi::sqlite3_io_methods {
        iVersion: version,
        xClose: Some(close),
        xRead: Some(read),
        xWrite: Some(write),
        xTruncate: Some(truncate),
        xSync: Some(sync),
        xFileSize: Some(file_size),
        xLock: Some(lock),
        xUnlock: Some(unlock),
        xCheckReservedLock: Some(check_reserved_lock),
        xFileControl: Some(file_control),
        xSectorSize: Some(sector_size),
        xDeviceCharacteristics: Some(device_characteristics),
        xShmMap: Some(shm_map),
        xShmLock: Some(shm_lock),
        xShmBarrier: Some(shm_barrier),
        xShmUnmap: Some(shm_unmap),
        xFetch: None,
        xUnfetch: None,
    }
}

static PLAIN: ffi::sqlite3_io_methods = methods(1);

/// Version 3 would add memory-mapped reads, which nobody could see or fail.
static WITH_SHARED_MEMORY: ffi::sqlite3_io_methods = methods(2);

/// Calls the same method of the file below, or gives `$missing` if it has none.
macro_rules! forward {
    ($file:expr, $method:ident ( $($argument:expr),* ), $missing:expr) => {{
        let real = real($file);
        // SAFETY: our methods are set only when the file below is open, and the arguments are what SQLite gave us for
        // the same method, or fewer bytes of them.
        unsafe { (*(*real).pMethods).$method.map_or($missing, |method| method(real, $($argument),*)) }
    }};
}

/// A method that only passes its arguments on.
macro_rules! passed_on {
    ($name:ident, $method:ident ( $($argument:ident: $kind:ty),* ) $(-> $result:ty)?, $missing:expr) => {
        unsafe extern "C" fn $name(file: *mut ffi::sqlite3_file, $($argument: $kind),*) $(-> $result)? {
            forward!(file, $method($($argument),*), $missing)
        }
    };
}

passed_on!(close, xClose() -> c_int, ffi::SQLITE_OK);
passed_on!(lock, xLock(level: c_int) -> c_int, ffi::SQLITE_IOERR_LOCK);
passed_on!(unlock, xUnlock(level: c_int) -> c_int, ffi::SQLITE_IOERR_UNLOCK);
passed_on!(
    check_reserved_lock,
    xCheckReservedLock(out: *mut c_int) -> c_int,
    ffi::SQLITE_IOERR_CHECKRESERVEDLOCK
);
passed_on!(sector_size, xSectorSize() -> c_int, 0);
passed_on!(
    shm_map,
    xShmMap(page: c_int, size: c_int, extend: c_int, out: *mut *mut c_void) -> c_int,
    ffi::SQLITE_IOERR_SHMMAP
);
passed_on!(shm_lock, xShmLock(offset: c_int, count: c_int, flags: c_int) -> c_int, ffi::SQLITE_IOERR_SHMLOCK);
passed_on!(shm_barrier, xShmBarrier(), ());
passed_on!(shm_unmap, xShmUnmap(delete: c_int) -> c_int, ffi::SQLITE_OK);

unsafe extern "C" fn read(
    file: *mut ffi::sqlite3_file,
    out: *mut c_void,
    amount: c_int,
    offset: i64,
) -> c_int {
    // SAFETY: SQLite calls with an open file of ours.
    match unsafe { own(file) }.shared.judge(DiskCall::Read) {
        CallVerdict::Pass => forward!(file, xRead(out, amount, offset), ffi::SQLITE_IOERR_READ),
        CallVerdict::Fail(code) | CallVerdict::Halve(code) => code,
    }
}

unsafe extern "C" fn write(
    file: *mut ffi::sqlite3_file,
    bytes: *const c_void,
    amount: c_int,
    offset: i64,
) -> c_int {
    // SAFETY: SQLite calls with an open file of ours.
    let own = unsafe { own(file) };
    let (amount, after) = match own.shared.judge(DiskCall::Write) {
        CallVerdict::Pass => (amount, ffi::SQLITE_OK),
        CallVerdict::Halve(code) => (amount / 2, code),
        CallVerdict::Fail(code) => return code,
    };
    let step = |inode| {
        // SAFETY: SQLite gives at least as many bytes, and they stay during this call.
        let bytes = unsafe { slice::from_raw_parts(bytes.cast::<u8>(), number(amount.into())) };
        DiskStep::Write { inode, offset: number(offset), bytes: bytes.into() }
    };
    let code = own.noted(|| forward!(file, xWrite(bytes, amount, offset), ffi::SQLITE_IOERR_WRITE), step);
    if code == ffi::SQLITE_OK { after } else { code }
}

unsafe extern "C" fn truncate(file: *mut ffi::sqlite3_file, size: i64) -> c_int {
    // SAFETY: SQLite calls with an open file of ours.
    let own = unsafe { own(file) };
    if let CallVerdict::Fail(code) | CallVerdict::Halve(code) = own.shared.judge(DiskCall::Truncate) {
        return code;
    }
    own.noted(
        || forward!(file, xTruncate(size), ffi::SQLITE_IOERR_TRUNCATE),
        |inode| DiskStep::Truncate { inode, size: number(size) },
    )
}

unsafe extern "C" fn sync(file: *mut ffi::sqlite3_file, flags: c_int) -> c_int {
    // SAFETY: SQLite calls with an open file of ours.
    let own = unsafe { own(file) };
    if let CallVerdict::Fail(code) | CallVerdict::Halve(code) = own.shared.judge(DiskCall::Sync) {
        return code;
    }
    let folder = own.syncs_folder;
    let code = own.noted(
        || forward!(file, xSync(flags), ffi::SQLITE_IOERR_FSYNC),
        |inode| DiskStep::Sync { inode, folder },
    );
    if code == ffi::SQLITE_OK {
        own.syncs_folder = false;
    }
    code
}

unsafe extern "C" fn file_size(file: *mut ffi::sqlite3_file, out: *mut i64) -> c_int {
    // SAFETY: SQLite calls with an open file of ours.
    match unsafe { own(file) }.shared.judge(DiskCall::Size) {
        CallVerdict::Pass => forward!(file, xFileSize(out), ffi::SQLITE_IOERR_FSTAT),
        CallVerdict::Fail(code) | CallVerdict::Halve(code) => code,
    }
}

unsafe extern "C" fn file_control(
    file: *mut ffi::sqlite3_file,
    operation: c_int,
    argument: *mut c_void,
) -> c_int {
    match operation {
        // These would let files grow without a write, or be read without a read. SQLite takes them as hints.
        ffi::SQLITE_FCNTL_CHUNK_SIZE | ffi::SQLITE_FCNTL_SIZE_HINT | ffi::SQLITE_FCNTL_MMAP_SIZE => {
            ffi::SQLITE_NOTFOUND
        }
        _ => forward!(file, xFileControl(operation, argument), ffi::SQLITE_NOTFOUND),
    }
}

unsafe extern "C" fn device_characteristics(file: *mut ffi::sqlite3_file) -> c_int {
    forward!(file, xDeviceCharacteristics(), 0) & PROMISES
}

/// A size or an offset, which SQLite never has below zero.
fn number(value: i64) -> usize {
    usize::try_from(value).unwrap_or(0)
}

//! The VFS: registration, and the calls that are about names. Those about open files are in `file`.
//!
//! Everything goes on to SQLite's own VFS. The structs that SQLite gets to see are never freed, so no order of dropping
//! disks and connections can leave it with a pointer to nothing.

#![allow(unsafe_code, reason = "SQLite takes a VFS only as C structs and functions")]

mod file;

use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;
use std::sync::atomic::Ordering;

use rusqlite::ffi;

use super::fault::{CallVerdict, DiskCall};
use super::trace::Inode;
use super::{SharedDisk, lock};
use file::VfsFile;

/// What `pAppData` of our VFS points to.
struct UnderlyingVfs {
    /// SQLite's own VFS.
    real: *mut ffi::sqlite3_vfs,
    shared: &'static SharedDisk,
}

/// A registered VFS; its name is free again when this is dropped.
#[derive(Debug)]
pub(super) struct VfsRegistration {
    name: CString,
    vfs: *mut ffi::sqlite3_vfs,
    shared: &'static SharedDisk,
}

// SAFETY: the pointer is only handed to SQLite, which guards its list of VFSs with a mutex.
unsafe impl Send for VfsRegistration {}
// SAFETY: as above; nothing is changed through a shared reference.
unsafe impl Sync for VfsRegistration {}

impl VfsRegistration {
    pub(super) fn new(name: &str, shared: SharedDisk) -> Self {
        let name = CString::new(name).expect("a name without a zero byte");
        // SAFETY: the name is a C string; null stands for the default VFS. Both calls initialise SQLite if need be.
        let (taken, real) =
            unsafe { (ffi::sqlite3_vfs_find(name.as_ptr()), ffi::sqlite3_vfs_find(ptr::null())) };
        assert!(taken.is_null(), "there is a VFS named {name:?} already");
        // SAFETY: what SQLite finds is a VFS that stays registered, as nobody removes the default one.
        let below = unsafe { real.as_ref() }.expect("SQLite has a default VFS");
        let header = c_int::try_from(size_of::<VfsFile>()).expect("a small struct");
        let shared: &'static SharedDisk = Box::leak(Box::new(shared));
        let app_data = Box::leak(Box::new(UnderlyingVfs { real, shared }));
        // The VFS keeps a pointer to its name as long as it lives, so it gets one that is never freed either.
        let kept: &'static CStr = Box::leak(name.clone().into_boxed_c_str());
        let vfs = Box::leak(Box::new(ffi::sqlite3_vfs {
            // Version 3 would only add the replacing of system calls.
            iVersion: 2,
            szOsFile: header + below.szOsFile,
            mxPathname: below.mxPathname,
            pNext: ptr::null_mut(),
            zName: kept.as_ptr(),
            pAppData: ptr::from_mut(app_data).cast(),
            xOpen: Some(open),
            xDelete: Some(delete),
            xAccess: Some(access),
            xFullPathname: Some(full_pathname),
            xDlOpen: Some(dl_open),
            xDlError: Some(dl_error),
            xDlSym: Some(dl_sym),
            xDlClose: Some(dl_close),
            xRandomness: Some(randomness),
            xSleep: Some(sleep),
            xCurrentTime: Some(current_time),
            xGetLastError: Some(get_last_error),
            xCurrentTimeInt64: Some(current_time_int64),
            xSetSystemCall: None,
            xGetSystemCall: None,
            xNextSystemCall: None,
        }));
        let vfs = ptr::from_mut(vfs);
        // SAFETY: the struct is complete and lives forever.
        let code = unsafe { ffi::sqlite3_vfs_register(vfs, 0) };
        assert_eq!(code, ffi::SQLITE_OK, "SQLite takes the VFS {name:?}");
        Self { name, vfs, shared }
    }

    pub(super) fn name(&self) -> &str {
        self.name.to_str().unwrap_or_default()
    }

    pub(super) fn shared(&self) -> &'static SharedDisk {
        self.shared
    }
}

impl Drop for VfsRegistration {
    fn drop(&mut self) {
        // SAFETY: it was registered in `new` and lives forever. Connections that are open keep their own pointer.
        unsafe { ffi::sqlite3_vfs_unregister(self.vfs) };
        self.shared.recording.store(false, Ordering::Release);
        *lock(&self.shared.trace) = super::Trace::default();
    }
}

/// Our own data behind a VFS that SQLite calls.
///
/// # Safety
///
/// The VFS must be one that [`VfsRegistration::new`] made.
unsafe fn below(vfs: *mut ffi::sqlite3_vfs) -> &'static UnderlyingVfs {
    // SAFETY: `new` put a leaked `UnderlyingVfs` there, and nobody changes it.
    unsafe { &*(*vfs).pAppData.cast::<UnderlyingVfs>() }
}

/// Calls the same method of the VFS below, or gives `$missing` if it has none.
macro_rules! forward {
    ($vfs:expr, $method:ident ( $($argument:expr),* ), $missing:expr) => {{
        // SAFETY: SQLite calls a method only with a VFS it belongs to, so it is ours.
        let real = unsafe { below($vfs) }.real;
        // SAFETY: the VFS below is valid, and the arguments are what SQLite gave us for the same method.
        unsafe { (*real).$method.map_or($missing, |method| method(real, $($argument),*)) }
    }};
}

/// A method that only passes its arguments on.
macro_rules! passed_on {
    ($name:ident, $method:ident ( $($argument:ident: $kind:ty),* ) $(-> $result:ty)?, $missing:expr) => {
        unsafe extern "C" fn $name(vfs: *mut ffi::sqlite3_vfs, $($argument: $kind),*) $(-> $result)? {
            forward!(vfs, $method($($argument),*), $missing)
        }
    };
}

type Symbol = Option<unsafe extern "C" fn(*mut ffi::sqlite3_vfs, *mut c_void, *const c_char)>;

passed_on!(
    access,
    xAccess(name: *const c_char, flags: c_int, out: *mut c_int) -> c_int,
    ffi::SQLITE_IOERR_ACCESS
);
passed_on!(
    full_pathname,
    xFullPathname(name: *const c_char, size: c_int, out: *mut c_char) -> c_int,
    ffi::SQLITE_CANTOPEN
);
passed_on!(dl_open, xDlOpen(name: *const c_char) -> *mut c_void, ptr::null_mut());
passed_on!(dl_error, xDlError(size: c_int, out: *mut c_char), ());
passed_on!(dl_sym, xDlSym(library: *mut c_void, symbol: *const c_char) -> Symbol, None);
passed_on!(dl_close, xDlClose(library: *mut c_void), ());
passed_on!(randomness, xRandomness(size: c_int, out: *mut c_char) -> c_int, 0);
passed_on!(sleep, xSleep(microseconds: c_int) -> c_int, 0);
passed_on!(current_time, xCurrentTime(out: *mut f64) -> c_int, ffi::SQLITE_ERROR);
passed_on!(get_last_error, xGetLastError(size: c_int, out: *mut c_char) -> c_int, 0);
passed_on!(current_time_int64, xCurrentTimeInt64(out: *mut ffi::sqlite3_int64) -> c_int, ffi::SQLITE_ERROR);

/// The path that SQLite names; none for a temporary file without a name.
///
/// # Safety
///
/// The pointer must be null or a C string that lives as long as the result.
unsafe fn path_of<'a>(name: *const c_char) -> Option<&'a Path> {
    // SAFETY: as promised by the caller.
    let name = (!name.is_null()).then(|| unsafe { CStr::from_ptr(name) })?;
    Some(Path::new(OsStr::from_bytes(name.to_bytes())))
}

unsafe extern "C" fn open(
    vfs: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    // SAFETY: SQLite calls with our VFS.
    let UnderlyingVfs { shared, .. } = unsafe { below(vfs) };
    // SAFETY: SQLite gives room of `szOsFile` bytes; the first of them are ours. Without methods, SQLite takes the file
    // as not open if we return early.
    let real = unsafe { VfsFile::prepare(file, shared) };
    if let CallVerdict::Fail(code) | CallVerdict::Halve(code) = shared.judge(DiskCall::Open) {
        return code;
    }
    // Files that go away when they are closed cannot outlive a power loss.
    let kept = flags & ffi::SQLITE_OPEN_DELETEONCLOSE == 0;
    // SAFETY: the name is null or a C string, and stays during this call.
    let path = unsafe { path_of(name) }.filter(|_| kept);
    let Some((path, mut trace)) = path.zip(shared.recorder()) else {
        let code = forward!(vfs, xOpen(name, real, flags, out_flags), ffi::SQLITE_CANTOPEN);
        // SAFETY: the file was prepared above, and the VFS below has seen it.
        unsafe { VfsFile::finish(file, None, false) };
        return code;
    };
    let Some(own) = trace.name_of(path) else {
        // Two files of one name could not be told apart.
        return ffi::SQLITE_CANTOPEN;
    };
    let inode: Option<Inode> = path.exists().then(|| trace.look_up(own.clone(), || content(path)));
    let code = forward!(vfs, xOpen(name, real, flags, out_flags), ffi::SQLITE_CANTOPEN);
    let opened = code == ffi::SQLITE_OK;
    let inode = if opened { inode.or_else(|| Some(trace.create(own))) } else { None };
    // SQLite's VFS syncs the folder with the first sync of such a file, and relies on it.
    let journals = ffi::SQLITE_OPEN_SUPER_JOURNAL | ffi::SQLITE_OPEN_MAIN_JOURNAL | ffi::SQLITE_OPEN_WAL;
    let syncs_folder = flags & ffi::SQLITE_OPEN_CREATE != 0 && flags & journals != 0;
    // SAFETY: as above.
    unsafe { VfsFile::finish(file, inode, syncs_folder) };
    code
}

unsafe extern "C" fn delete(vfs: *mut ffi::sqlite3_vfs, name: *const c_char, sync_folder: c_int) -> c_int {
    // SAFETY: SQLite calls with our VFS.
    let UnderlyingVfs { shared, .. } = unsafe { below(vfs) };
    // SAFETY: the name is a C string, and stays during this call.
    let path = unsafe { path_of(name) };
    let recorder = path.zip(shared.recorder());
    let named = recorder.and_then(|(path, mut trace)| trace.name_of(path).map(|own| (path, trace, own)));
    let Some((path, mut trace, own)) = named else {
        return forward!(vfs, xDelete(name, sync_folder), ffi::SQLITE_IOERR_DELETE);
    };
    if path.exists() {
        // A file from before the trace, deleted without being opened, is in the images before this step.
        trace.look_up(own.clone(), || content(path));
    }
    let code = forward!(vfs, xDelete(name, sync_folder), ffi::SQLITE_IOERR_DELETE);
    if code == ffi::SQLITE_OK {
        trace.delete(&own, sync_folder & 1 != 0);
    }
    code
}

/// Only for files that the trace does not know: closing a file takes away all locks that this process has on it.
fn content(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap_or_default()
}

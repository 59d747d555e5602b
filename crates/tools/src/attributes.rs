//! What a file has besides its content, its owner and its mode: access control lists, labels, and notes of programs.
//!
//! They belong to the file and not to its content, so they are kept when that is replaced. What vouches for the
//! content, such as a capability or a signature, is not: the system itself takes it away from a file that is written
//! to.

use std::ffi::CString;
use std::os::fd::AsFd;

use rustix::fs::XattrFlags;

/// The most bytes of attributes that are kept.
const BYTES_MAX: usize = 1024 * 1024;

/// The attributes of a file by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Attributes(Vec<(CString, Vec<u8>)>);

impl Attributes {
    /// Those of an open file; none where the file system knows of none.
    pub(crate) fn of(file: impl AsFd) -> Self {
        let file = file.as_fd();
        let names = rustix::fs::flistxattr_query(file).unwrap_or_default();
        let mut list = vec![0; names];
        let size = rustix::fs::flistxattr(file, list.as_mut_slice()).unwrap_or_default();
        let mut room = BYTES_MAX;
        let names =
            list.get(..size).unwrap_or_default().split(|byte| *byte == 0).filter(|name| is_kept(name));
        let found = names.filter_map(|name| {
            let name = CString::new(name).ok()?;
            let mut value = vec![0; rustix::fs::fgetxattr_query(file, &name).ok()?];
            room = room.checked_sub(value.len())?;
            let size = rustix::fs::fgetxattr(file, &name, value.as_mut_slice()).ok()?;
            value.truncate(size);
            Some((name, value))
        });
        Self(found.collect())
    }

    /// Gives them to another file, as far as the system lets us.
    pub(crate) fn put(&self, file: impl AsFd) {
        for (name, value) in &self.0 {
            if let Err(error) = rustix::fs::fsetxattr(file.as_fd(), name, value, XattrFlags::empty()) {
                tracing::warn!(?name, %error, "an attribute of a file was not kept");
            }
        }
    }
}

fn is_kept(name: &[u8]) -> bool {
    name.starts_with(b"user.") || [&b"system.posix_acl_access"[..], b"security.selinux"].contains(&name)
}

//! Giving what is put aside a content of its own.
//!
//! A file may have another name besides the one that was put aside, and the person may take it back: what is written
//! through the other name later must not be in it.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, fchmod, fstat, openat, renameat, statat, unlinkat};

use super::access::open_folder;
use super::put_aside_name::ASIDE;

/// How many files and folders of what is put aside get a content of their own, how deep they may lie, and how long each may
/// be.
const MOST: usize = 1000;
const DEEPEST: usize = 32;
const LONGEST: i64 = 16 * 1024 * 1024;

/// Gives a file, and those in a folder, a content of their own, as far as they have other names. What cannot be told or is
/// too much stays as it is.
pub(super) fn break_links(folder: impl AsFd, name: &OsStr) {
    let mut room = MOST;
    break_in(folder, name, DEEPEST, &mut room);
}

fn break_in(folder: impl AsFd, name: &OsStr, depth: usize, room: &mut usize) {
    let Some(rest) = room.checked_sub(1) else { return };
    *room = rest;
    let Ok(this) = statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW) else { return };
    let kind = FileType::from_raw_mode(this.st_mode);
    if kind.is_file() && this.st_nlink > 1 && this.st_size <= LONGEST {
        // It keeps its other names if there is no room on the disk.
        replace(&folder, name).ok();
    } else if let (true, Some(depth)) = (kind.is_dir(), depth.checked_sub(1)) {
        let Ok(inner) = open_folder(&folder, Path::new(name)) else { return };
        let Ok(entries) = Dir::read_from(&inner) else { return };
        let names = entries.flatten().map(|entry| entry.file_name().to_bytes().to_vec());
        for name in names.filter(|name| !matches!(name.as_slice(), b"." | b"..")) {
            break_in(&inner, OsStr::from_bytes(&name), depth, room);
        }
    }
}

/// Puts a copy of a file in its place.
fn replace(folder: impl AsFd, name: &OsStr) -> io::Result<()> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let from = openat(&folder, name, flags | OFlags::RDONLY, Mode::empty())?;
    let made = OsString::from(format!(".{:016x}{ASIDE}", RandomState::new().hash_one(0)));
    let create = flags | OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
    let to = openat(&folder, &made, create, Mode::RUSR | Mode::WUSR)?;
    let filled = fill(from, to).and_then(|()| Ok(renameat(&folder, &made, &folder, name)?));
    if filled.is_err() {
        unlinkat(&folder, &made, AtFlags::empty())?;
    }
    filled
}

fn fill(from: OwnedFd, to: OwnedFd) -> io::Result<()> {
    let rights = Mode::from_raw_mode(fstat(&from)?.st_mode) & (Mode::RWXU | Mode::RWXG | Mode::RWXO);
    fchmod(&to, rights)?;
    io::copy(&mut File::from(from), &mut File::from(to)).map(drop)
}

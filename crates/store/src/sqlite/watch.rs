//! Whether anybody writes to the database file, as the system tells it.
//!
//! Every commit writes to the write-ahead log beside the file. It may be deleted and made again, so its folder is watched.
//! Only processes of one machine can share a database in a folder, so the system hears of all of them. Where it cannot
//! tell, the feed asks from time to time instead.

#[cfg(target_os = "linux")]
pub(super) use linux::FileWatch;

#[cfg(target_os = "linux")]
mod linux {
    use std::ffi::OsString;
    use std::mem::MaybeUninit;
    use std::os::fd::OwnedFd;
    use std::os::unix::ffi::OsStrExt as _;
    use std::path::Path;

    use rustix::fs::inotify::{self, CreateFlags, Reader, WatchFlags};
    use tokio::io::unix::AsyncFd;

    /// Room for a few dozen notices.
    const NOTICES: usize = 4096;

    /// Watches the write-ahead log of a database.
    #[derive(Debug)]
    pub(crate) struct FileWatch {
        notices: AsyncFd<OwnedFd>,
        log: OsString,
    }

    impl FileWatch {
        /// Watches from now on; none when the system has no room for it.
        pub(crate) fn begin(file: &Path) -> Option<Self> {
            Self::try_begin(file)
                .inspect_err(|error| {
                    let error = error.to_string();
                    tracing::debug!(
                        error,
                        "the system does not tell of writes; the file is asked often instead"
                    );
                })
                .ok()
        }

        fn try_begin(file: &Path) -> std::io::Result<Self> {
            // SQLite follows links, and puts the log beside what they lead to.
            let file = file.canonicalize()?;
            let (Some(folder), Some(name)) = (file.parent(), file.file_name()) else {
                return Err(std::io::ErrorKind::InvalidInput.into());
            };
            let notices = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
            inotify::add_watch(&notices, folder, WatchFlags::MODIFY)?;
            let mut log = name.to_owned();
            log.push("-wal");
            #[expect(
                deprecated,
                reason = "what replaces it is unsafe, and an owned descriptor is what it asks for"
            )]
            let notices = AsyncFd::new(notices)?;
            Ok(Self { notices, log })
        }

        /// Waits until somebody has written to the log since this was last asked.
        pub(crate) async fn stirred(&self) {
            loop {
                // A runtime that ends lets nobody wait for anything.
                let Ok(mut ready) = self.notices.readable().await else {
                    return std::future::pending().await;
                };
                let stirred = self.take_notices();
                ready.clear_ready();
                if stirred {
                    return;
                }
            }
        }

        /// Takes all notices that are there. True when one is about the log, or some were lost.
        pub(crate) fn take_notices(&self) -> bool {
            let mut room = [MaybeUninit::uninit(); NOTICES];
            let mut notices = Reader::new(self.notices.get_ref(), &mut room);
            let mut stirred = false;
            // It ends with the error that says that there are no more.
            while let Ok(notice) = notices.next() {
                stirred |= notice.file_name().is_none_or(|name| name.to_bytes() == self.log.as_bytes());
            }
            stirred
        }
    }
}

#[cfg(not(target_os = "linux"))]
pub(super) use elsewhere::NoFileWatch as FileWatch;

#[cfg(not(target_os = "linux"))]
mod elsewhere {
    use std::path::Path;

    /// No system but Linux tells of every write.
    #[derive(Debug)]
    pub(crate) enum NoFileWatch {}

    impl NoFileWatch {
        pub(crate) fn begin(_file: &Path) -> Option<Self> {
            None
        }

        #[expect(clippy::unused_async, reason = "the other one has to wait")]
        pub(crate) async fn stirred(&self) {
            match *self {}
        }
    }
}

#[cfg(target_os = "linux")]
#[cfg(test)]
mod tests;

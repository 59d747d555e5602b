//! Whether anybody writes to the database file, as the system tells it.
//!
//! Every commit writes to the write-ahead log beside the file. It may be deleted and made again, so its folder is watched.
//! Only processes of one machine can share a database in a folder, so the system hears of all of them. Where it cannot
//! tell, the feed asks from time to time instead.

#[cfg(target_os = "linux")]
pub(super) use linux::FileWatch;

#[cfg(target_os = "linux")]
mod linux {
    use std::mem::MaybeUninit;
    use std::os::fd::OwnedFd;
    use std::path::{Path, PathBuf};

    use rustix::fs::inotify::{self, CreateFlags, Reader, WatchFlags};
    use tokio::io::unix::AsyncFd;

    /// Room for a few dozen notices.
    const NOTICES: usize = 4096;

    /// Watches the folder of a database.
    #[derive(Debug)]
    pub(crate) struct FileWatch {
        notices: AsyncFd<OwnedFd>,
        folder: PathBuf,
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
            let Some(folder) = file.parent() else { return Err(std::io::ErrorKind::InvalidInput.into()) };
            let notices = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
            watch_once(&notices, folder)?;
            #[expect(
                deprecated,
                reason = "what replaces it is unsafe, and an owned descriptor is what it asks for"
            )]
            let notices = AsyncFd::new(notices)?;
            Ok(Self { notices, folder: folder.to_owned() })
        }

        /// Waits until somebody has written beside the database since this was last asked.
        pub(crate) async fn stirred(&self) {
            loop {
                // A runtime that ends lets nobody wait for anything.
                let Ok(mut ready) = self.notices.readable().await else {
                    return std::future::pending().await;
                };
                ready.clear_ready();
                if self.take_notices() {
                    return;
                }
            }
        }

        /// Takes the notices that are there and waits for the next one. A write between the two has none: whoever is told
        /// that there was one asks afterwards, and finds both.
        pub(crate) fn take_notices(&self) -> bool {
            let mut room = [MaybeUninit::uninit(); NOTICES];
            let mut notices = Reader::new(self.notices.get_ref(), &mut room);
            let mut stirred = false;
            // It ends with the error that says that there are no more.
            while notices.next().is_ok() {
                stirred = true;
            }
            if stirred && let Err(error) = watch_once(self.notices.get_ref(), &self.folder) {
                // The file is asked from time to time nevertheless.
                tracing::debug!(error = error.to_string(), "the system tells of no more writes");
            }
            stirred
        }
    }

    /// Asks for a notice of the next write in a folder. Own writes make notices as well, each at a price, and one is enough
    /// until it was read.
    fn watch_once(notices: &OwnedFd, folder: &Path) -> std::io::Result<()> {
        inotify::add_watch(notices, folder, WatchFlags::MODIFY | WatchFlags::ONESHOT)?;
        Ok(())
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

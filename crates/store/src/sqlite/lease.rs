//! Leases: which process runs a session.
//!
//! Each process holds a lock on a file of its own for as long as it lives. The kernel drops the lock when the process
//! dies, however it dies, so whoever finds the lock free knows that the owner is gone and may take its sessions over
//! at once.

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use everturn_model::SessionId;
use rusqlite::{Connection, OptionalExtension as _, params};

use crate::Error;
use crate::append::Lease;

/// This process, as leases know it.
#[derive(Debug, Clone)]
pub(super) struct Owner(Arc<Claim>);

#[derive(Debug)]
struct Claim {
    name: String,
    folder: PathBuf,
    path: PathBuf,
    // Held for its lock.
    _file: File,
}

impl Drop for Claim {
    fn drop(&mut self) {
        // Only tidiness: a file without a lock means the same.
        drop(std::fs::remove_file(&self.path));
    }
}

impl Owner {
    pub(super) fn claim(folder: &Path, name: &str) -> Result<Self, Error> {
        let folder = folder.join("owners");
        std::fs::create_dir_all(&folder).map_err(|source| Error::Io { path: folder.clone(), source })?;
        let path = folder.join(name);
        let io = |source| Error::Io { path: path.clone(), source };
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(&path).map_err(io)?;
        file.lock().map_err(io)?;
        Ok(Self(Arc::new(Claim { name: name.to_owned(), folder, path, _file: file })))
    }

    pub(super) fn name(&self) -> &str {
        &self.0.name
    }

    /// True when the process of that name is surely gone.
    pub(super) fn is_dead(&self, name: &str) -> bool {
        let path = self.0.folder.join(name);
        match OpenOptions::new().write(true).open(&path) {
            Err(error) => error.kind() == std::io::ErrorKind::NotFound,
            Ok(file) => {
                let dead = file.try_lock().is_ok();
                if dead {
                    drop(std::fs::remove_file(&path));
                }
                dead
            }
        }
    }
}

/// Takes a session that is free, ours, or a dead process's.
pub(super) fn acquire(connection: &Connection, session: &SessionId, owner: &Owner) -> Result<Lease, Error> {
    let row = connection
        .prepare_cached("SELECT owner, epoch FROM session WHERE id = ?1")?
        .query_row([session.as_str()], |row| Ok((row.get::<_, Option<String>>(0)?, row.get::<_, u64>(1)?)))
        .optional()?;
    let Some((holder, epoch)) = row else { return Err(Error::NoSession(session.clone())) };
    match holder {
        Some(name) if name == owner.name() => {
            return Ok(Lease { session: session.clone(), owner: name, epoch });
        }
        Some(name) if !owner.is_dead(&name) => {
            return Err(Error::Busy { session: session.clone(), owner: name });
        }
        _ => {}
    }
    connection
        .prepare_cached("UPDATE session SET owner = ?2, epoch = epoch + 1 WHERE id = ?1")?
        .execute(params![session.as_str(), owner.name()])?;
    Ok(Lease { session: session.clone(), owner: owner.name().to_owned(), epoch: epoch + 1 })
}

/// Gives a session back, if it is still ours.
pub(super) fn release(connection: &Connection, lease: &Lease) -> Result<(), Error> {
    connection
        .prepare_cached("UPDATE session SET owner = NULL WHERE id = ?1 AND owner = ?2 AND epoch = ?3")?
        .execute(params![lease.session.as_str(), lease.owner, lease.epoch])?;
    Ok(())
}

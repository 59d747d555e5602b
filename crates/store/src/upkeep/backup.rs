//! Backups, and restoring them.
//!
//! A backup is always one SQLite file, whichever engine it comes from. On SQLite it is a copy of the database. From and
//! to other engines it goes by the log: a private store is opened on the file, and one store is poured into the other,
//! session by session: log, blobs, then rows rebuilt from the log. So a backup of a server can be read on a laptop,
//! and the other way round.

use std::path::Path;

use everturn_model::SessionId;
use serde_json::json;

use super::audit::Audit;
use super::instance_rows::InstanceRows;
use super::stored_session;
use crate::options::{Durability, Options, StorePlace};
use crate::payload::Hash;
use crate::row::{LogRow, SessionRow};
use crate::sqlite::copy;
use crate::store::ask;
use crate::{Error, Store};

/// How many session ids are read at once.
const PAGE: usize = 256;

/// A session that comes from another store.
#[derive(Debug)]
pub(crate) struct RestoredSession {
    pub(crate) id: SessionId,
    /// Its row as it was, for the case that its log cannot be folded.
    pub(crate) session: Option<SessionRow>,
    pub(crate) log: Vec<LogRow>,
}

impl Store {
    /// Writes all that the store holds into a new file while others go on writing: on SQLite as of one moment, from a
    /// server each session as of one moment. The file is a database of its own, and only its owner may read it.
    ///
    /// # Errors
    /// `Occupied` when the file is there already; or when the disk refuses. Nothing half is left behind.
    pub async fn backup(&self, target: &Path) -> Result<(), Error> {
        if ask!(self, engine => engine.back_up(target).await)? {
            return Ok(());
        }
        self.dump(target).await
    }

    /// Makes a store of a backup, in a place that has none yet, and opens it. Nobody runs its sessions.
    ///
    /// # Errors
    /// `Occupied` when there is a store already; `NotOurs`, `Newer` or `Damaged` when the file is not a backup that can
    /// be used. Nothing is changed then.
    pub async fn restore(from: &Path, options: Options) -> Result<Self, Error> {
        let store = match options.place.clone() {
            StorePlace::Folder(folder) => {
                let source = from.to_owned();
                let restore = move || copy::restore(&source, &folder);
                tokio::task::spawn_blocking(restore).await.map_err(|_| Error::Closed)??;
                Self::open(options).await?
            }
            StorePlace::Server(_) => {
                let store = Self::open(options).await?;
                store.load(from).await?;
                store
            }
        };
        let (_, now) = ask!(store, engine => engine.fold_version().await)?;
        let audit = Audit::new(now, "restore", json!({ "from": from.display().to_string() }));
        ask!(store, engine => engine.put_audit(audit).await)?;
        Ok(store)
    }

    /// Writes a backup from the logs, whichever engine this is. Sessions that are written to meanwhile are in it as
    /// they were when their turn came.
    ///
    /// # Errors
    /// As [`backup`](Self::backup).
    pub async fn dump(&self, target: &Path) -> Result<(), Error> {
        let io = |source| Error::io(target, source);
        if std::fs::exists(target).map_err(io)? {
            return Err(Error::Occupied(target.display().to_string()));
        }
        let folder = match target.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let work = tempfile::Builder::new().prefix(".everturn-").tempdir_in(folder).map_err(io)?;
        let file = Self::open(private(work.path())).await?;
        pour(self, &file).await?;
        ask!(file, engine => engine.back_up(target).await).map(drop)
    }

    /// Fills a store that is empty from a backup, by the logs, whichever engine this is.
    ///
    /// # Errors
    /// `Occupied` when the store is not empty, and as [`restore`](Self::restore). When the disk or the server fails on the
    /// way, the store may hold a part of the backup: begin again with an empty one.
    pub async fn load(&self, from: &Path) -> Result<(), Error> {
        if !self.ids(None, 1).await?.is_empty() || self.instance_rows().await? != InstanceRows::default() {
            return Err(Error::Occupied(self.place()));
        }
        let work = tempfile::tempdir().map_err(|source| Error::io(from, source))?;
        let (source, folder) = (from.to_owned(), work.path().to_owned());
        let check = move || copy::private(&source, &folder);
        tokio::task::spawn_blocking(check).await.map_err(|_| Error::Closed)??;
        let file = Self::open(private(work.path())).await?;
        pour(&file, self).await
    }

    async fn load_session(&self, loaded: RestoredSession) -> Result<(), Error> {
        ask!(self, engine => engine.load_session(loaded).await)
    }
}

/// How a store is opened that only lives as long as a copy takes.
fn private(folder: &Path) -> Options {
    Options { durability: Durability::Process, ..Options::folder(folder, "own_copy") }
}

/// Copies everything of one store into another that is empty.
async fn pour(from: &Store, to: &Store) -> Result<(), Error> {
    // Taken first: a session that is deleted meanwhile then has no tombstone in the copy, and no rows either.
    let mut instance_rows = from.instance_rows().await?;
    let mut after = None;
    loop {
        let page = from.ids(after, PAGE).await?;
        let Some(last) = page.last() else { break };
        after = Some(last.key);
        for session in page {
            pour_session(from, to, session.id).await?;
        }
    }
    let set_aside = to.instance_rows().await?;
    for aside in &set_aside.aside {
        // What the copy found out by itself, unless it was known before.
        if instance_rows.aside.iter().all(|known| known.session != aside.session) {
            instance_rows.aside.push(aside.clone());
        }
    }
    instance_rows.aside.sort_by(|one, two| one.session.cmp(&two.session));
    if to.swap_instance_rows(set_aside, instance_rows).await? {
        Ok(())
    } else {
        Err(Error::Occupied(to.place()))
    }
}

async fn pour_session(from: &Store, to: &Store, id: SessionId) -> Result<(), Error> {
    // Deleted since the list was read.
    let Some(stored) = from.stored(&id).await? else { return Ok(()) };
    to.load_session(RestoredSession { id: id.clone(), session: stored.session, log: stored.log }).await?;
    for hash in stored.uses {
        // What is missing or damaged shows when the log is folded.
        if let Ok(Some(bytes)) = stored_session::fetch(from, hash).await?
            && Hash::of(&bytes) == hash
        {
            to.put_blob(&id, bytes).await?;
        }
    }
    match to.rebuild_session(&id).await {
        Err(error @ Error::Broken { .. }) => {
            let (_, now) = ask!(to, engine => engine.fold_version().await)?;
            to.set_aside(&id, &error.to_string(), now).await
        }
        done => done.map(drop),
    }
}

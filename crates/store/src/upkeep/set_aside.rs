//! Sessions that are set aside: nothing is written to them until they are whole again, and all others go on.

use everturn_model::{Millis, SessionId};

use crate::store::ask;
use crate::{Error, Store};

/// A session that was set aside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetAside {
    /// The session.
    pub session: SessionId,
    /// When.
    pub time: Millis,
    /// What is wrong with it.
    pub reason: String,
}

impl Store {
    /// Sets a session aside: appends to it are refused with the reason until it is rebuilt or taken back. Reads go on
    /// as far as they can.
    ///
    /// # Errors
    /// When the session is missing, or the disk refuses.
    pub async fn set_aside(&self, id: &SessionId, reason: &str, time: Millis) -> Result<(), Error> {
        let aside = SetAside { session: id.clone(), time, reason: reason.to_owned() };
        ask!(self, engine => engine.set_aside(aside).await)
    }

    /// The sessions that are set aside, by id.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn set_aside_list(&self) -> Result<Vec<SetAside>, Error> {
        ask!(self, engine => engine.set_aside_list().await)
    }

    /// Takes a session back as it is; false when it was not set aside.
    ///
    /// # Errors
    /// When the disk refuses.
    pub async fn take_back(&self, id: &SessionId) -> Result<bool, Error> {
        ask!(self, engine => engine.take_back(id).await)
    }
}

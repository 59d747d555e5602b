//! Rows that belong to no session: projects, approvals, tombstones, sessions that are set aside, the audit.

use everturn_model::Millis;

use super::audit::Audit;
use super::set_aside::SetAside;
use super::trash::Tombstone;
use crate::store::ask;
use crate::{Error, Store};

/// All of them, at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct InstanceRows {
    /// Projects by id, each with its object.
    pub(crate) projects: Vec<(String, String)>,
    pub(crate) approvals: Vec<Approval>,
    pub(crate) tombstones: Vec<Tombstone>,
    pub(crate) aside: Vec<SetAside>,
    /// The oldest first.
    pub(crate) audits: Vec<Audit>,
}

/// What a person allowed from now on in a folder of a project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Approval {
    pub(crate) project: String,
    pub(crate) folder: String,
    pub(crate) permission: String,
    pub(crate) pattern: String,
    pub(crate) time: Millis,
}

impl Store {
    pub(crate) async fn instance_rows(&self) -> Result<InstanceRows, Error> {
        ask!(self, engine => engine.instance_rows().await)
    }

    /// Replaces all of them, if they are still the same.
    pub(crate) async fn swap_instance_rows(
        &self,
        before: InstanceRows,
        after: InstanceRows,
    ) -> Result<bool, Error> {
        ask!(self, engine => engine.swap_instance_rows(before, after).await)
    }
}

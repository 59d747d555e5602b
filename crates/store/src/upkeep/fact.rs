//! Facts that belong to no session: projects, approvals, tombstones, what is set aside, the audit.

use everturn_model::Millis;

use super::aside::SetAside;
use super::audit::Audit;
use super::trash::Tombstone;
use crate::store::ask;
use crate::{Error, Store};

/// All of them, at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    /// Projects by id, each with its object.
    pub(crate) projects: Vec<(String, String)>,
    pub(crate) approvals: Vec<Approval>,
    pub(crate) tombstones: Vec<Tombstone>,
    pub(crate) aside: Vec<SetAside>,
    /// The oldest first.
    pub(crate) audits: Vec<Audit>,
}

/// What a person allowed from now on in a project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Approval {
    pub(crate) project: String,
    pub(crate) permission: String,
    pub(crate) pattern: String,
    pub(crate) time: Millis,
}

impl Store {
    pub(crate) async fn facts(&self) -> Result<Facts, Error> {
        ask!(self, engine => engine.facts().await)
    }

    /// Replaces all facts, if they are still those.
    pub(crate) async fn swap_facts(&self, before: Facts, after: Facts) -> Result<bool, Error> {
        ask!(self, engine => engine.swap_facts(before, after).await)
    }
}

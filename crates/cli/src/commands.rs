//! The commands, one file each.

pub(crate) mod auth;
pub(crate) mod backup;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod import;
pub(crate) mod inspect;
pub(crate) mod mcp;
pub(crate) mod models;
pub(crate) mod run;
pub(crate) mod scrub;
pub(crate) mod serve;
pub(crate) mod session;
pub(crate) mod stats;
pub(crate) mod trash;
pub(crate) mod trust;

//! The commands, one file each.

pub(crate) mod demo;
pub(crate) mod import;
pub(crate) mod inspect;
pub(crate) mod run;
pub(crate) mod serve;
pub(crate) mod session;

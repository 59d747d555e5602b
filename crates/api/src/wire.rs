//! Shapes of requests and answers that have no other home.
//!
//! # Layout
//! - `event`: events of the moment
//! - `session`: new sessions and changes of sessions
//! - `prompt`: prompts
//! - `request`: permission requests, questions and their answers
//! - `provider`: providers and models
//! - `secret`: what is never shown

pub(crate) mod event;
pub(crate) mod prompt;
pub(crate) mod provider;
pub(crate) mod request;
pub(crate) mod secret;
pub(crate) mod session;

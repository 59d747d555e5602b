//! What tests need around the code they test. A dev-dependency only, never part of the product.
//!
//! Everything here is real where it can be: real HTTP, real git, the real binary. Waiting is always for something
//! observable and bounded by [`deadline::PATIENCE`]; a wait that runs out fails the test and says what was missing.
//! Helpers panic instead of returning errors: a test that cannot be set up has failed.
//!
//! # Layout
//!
//! * [`model_server`]: a scripted model that speaks Chat Completions over HTTP
//! * [`repo`]: a temporary git repository with one commit
//! * [`fixtures`]: paths into the workspace folder `fixtures/`
//! * [`config`]: the `opencode.json` that points at a model server
//! * [`process`]: the real `everturn` binary as a child that can be killed and restarted
//! * [`postgres`]: a real PostgreSQL server, private or shared by all tests
//! * [`proxy`]: a network between a PostgreSQL client and its server that can be cut
//! * [`http`]: a small JSON client and a reader of event streams
//! * [`disk`]: a simulated disk for SQLite that loses power and fails
//! * [`damage`]: a store's database that cannot be read in one place
//! * [`refusal`]: a store's database that takes no event of one type, or no owner
//! * [`hostile`]: the lines of a hostile model, and the canaries that they are after
//! * [`hostile_provider`]: providers that hang, drip, or break off every answer
//! * [`request_rules`]: what a request to a model must be, by the rules of the services
//! * [`folder`]: all that is in a folder
//! * [`shared_program`]: a program that every user of the machine can start
//! * [`deadline`]: bounded waiting

#![expect(clippy::expect_used, clippy::panic, reason = "a test that cannot go on shall fail at once")]

pub mod config;
pub mod damage;
pub mod deadline;
pub mod disk;
pub mod fixtures;
pub mod folder;
pub mod hostile;
pub mod hostile_provider;
pub mod http;
pub mod model_server;
pub mod postgres;
pub mod process;
pub mod proxy;
pub mod refusal;
pub mod repo;
pub mod request_rules;
pub mod shared_program;

pub use config::opencode_config;
pub use deadline::within;
pub use hostile_provider::HostileProvider;
pub use http::{Client, EventReader};
pub use model_server::ModelServer;
pub use postgres::{Postgres, TestDatabase};
pub use process::EverturnServer;
pub use proxy::Proxy;
pub use refusal::Refusal;
pub use repo::Repo;
pub use shared_program::SharedProgram;

//! Random operations on two stores of one place, beside a model that is only logs and a few names.
//!
//! The model of a session is its log; what its tree is follows by folding that, in memory. Whatever is done (histories,
//! forks, trash, leases, takeovers, restarts, repeats, appends that must be refused), the stores have to answer as the
//! model does, and in the end logs, rows, lists, requests and task lists have to agree with it.
//!
//! Sequences share a database, with sessions of their own, because opening one costs more than a sequence does. After a
//! failure the next sequence gets a fresh one, so that shrinking is not misled by what the failure left behind.

mod ops;
mod reference;
mod world;

use std::cell::RefCell;

use proptest::collection::vec;
use proptest::test_runner::{Config, TestRunner};

use crate::place::Kind;
use ops::{Op, op};
use world::World;

/// How many sequences share a database.
const SHARED: u32 = 100;

mod sqlite {
    #[test]
    fn stores_do_what_the_model_does() {
        super::check(crate::place::Kind::Sqlite, 200);
    }
}

mod postgres {
    #[test]
    fn stores_do_what_the_model_does() {
        super::check(crate::place::Kind::Postgres, 40);
    }
}

/// How many sequences: as many as `PROPTEST_CASES` says, else the usual. A server is slower, so fewer are usual there.
fn cases(usual: u32) -> u32 {
    // Proptest has read it into its configuration already; that it was set is all that is asked here.
    if std::env::var_os("PROPTEST_CASES").is_some() { Config::default().cases } else { usual }
}

fn check(kind: Kind, usual: u32) {
    // A sequence that failed is printed whole; it becomes a test by hand.
    let config = Config {
        cases: cases(usual),
        failure_persistence: None,
        max_shrink_iters: 2000,
        ..Config::default()
    };
    // Opened before anything is tried: a place that is not there is no sequence that fails.
    let shared: RefCell<Option<World>> = RefCell::new(Some(World::new(kind)));
    let mut runner = TestRunner::new(config);
    let result = runner.run(&vec(op(), 1..50), |ops: Vec<Op>| {
        // Taken out, and put back only when nothing went wrong.
        let world = shared.borrow_mut().take().filter(|world| world.sequences() < SHARED);
        let mut world = world.unwrap_or_else(|| World::new(kind));
        world.run(&ops);
        shared.replace(Some(world));
        Ok(())
    });
    if let Err(error) = result {
        panic!("{error}\n{runner}");
    }
}

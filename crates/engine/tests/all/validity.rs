//! Whatever happened in a session, the next request is one that every service takes.
//!
//! Random operations on real sessions: prompts with and without tools to models of all four protocols, interrupts, failures,
//! answers that are cut off, rejections, restarts in the middle, reverts, messages taken out, the end of the path put
//! anywhere in the tree. Then each protocol is asked once more, and all requests so far are held against the
//! rules of their services.

mod operations;

use std::collections::BTreeSet;

use everturn_model::tree::Tree;
use everturn_testkit::request_rules;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::Config;
use serde_json::Value;

use crate::bench::Bench;
use crate::replay::polyglot;
use operations::{PROVIDERS, SessionOperation, operation, say};

/// How many sessions are tried.
fn cases() -> u32 {
    if std::env::var_os("EVERTURN_TEST_FULL").is_some_and(|value| value == "1") { 300 } else { 10 }
}

/// What only the model understands that said it.
fn secrets(text: &str) -> BTreeSet<&str> {
    let fits = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-');
    let words = text.split(|letter: char| !fits(letter));
    words.filter(|word| ["sig-", "enc-", "rs_resp"].iter().any(|begin| word.starts_with(begin))).collect()
}

/// Expects that nothing goes to a model that only another one understands.
fn check_secrets(tree: &Tree, provider: &str, model: &str, request: &Value) -> Result<(), TestCaseError> {
    let own = tree.nodes().iter().filter(|node| {
        let said = node.entry.body.assistant().and_then(|assistant| assistant.model.as_ref());
        said.is_some_and(|said| said.provider == provider && said.model == model)
    });
    let own: Vec<String> = own.map(|node| serde_json::to_string(node).unwrap()).collect();
    let sent = request.to_string();
    // Results are entries of their own; their calls are in the answer.
    let is_own = |word: &&str| own.iter().any(|said| said.contains(word.trim_start_matches("enc-")));
    let foreign: Vec<&str> = secrets(&sent).into_iter().filter(|word| !is_own(word)).collect();
    prop_assert_eq!(foreign, Vec::<&str>::new(), "foreign words went to {}/{}: {}", provider, model, sent);
    Ok(())
}

async fn check(operations: &[SessionOperation]) -> Result<(), TestCaseError> {
    let mut bench: Bench = polyglot().await;
    for (number, operation) in operations.iter().enumerate() {
        operation.apply(&mut bench, number).await;
    }
    for provider in PROVIDERS {
        let asked = bench.model.prompts().len();
        say(&bench, provider, "one", "SAY:checked").await;
        let tree = bench.engine.sessions().tree(&bench.session.id).await.unwrap();
        let requests = bench.model.prompts();
        prop_assert!(requests.len() > asked, "{} is not asked", provider);
        check_secrets(&tree, provider, "one", requests.last().unwrap())?;
        prop_assert!(!tree.session.open, "the session does not come to rest");
    }
    let faults: Vec<_> = bench.model.arrivals().iter().flat_map(request_rules::broken).collect();
    prop_assert_eq!(&faults, &Vec::<String>::new());
    Ok(())
}

proptest! {
    #![proptest_config(Config { cases: cases(), max_shrink_iters: 60, max_shrink_time: 60_000, ..Config::default() })]

    #[test]
    fn the_next_request_is_valid_whatever_happened(operations in vec(operation(), 1..9)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(check(&operations))?;
    }
}

//! The catalogue of models through its public face.

mod lookup;
mod overlay;
mod script;
mod table;

use everturn_llm::catalogue::{LookupError, ProviderInfo};

/// A question that is answered by a list of environment variables.
pub(crate) fn set(variables: &[&str]) -> impl Fn(&ProviderInfo) -> bool {
    let variables: Vec<String> = variables.iter().map(|name| (*name).to_owned()).collect();
    move |provider| provider.is_usable(&|name| variables.iter().any(|known| known == name))
}

/// A list of names as errors have it.
pub(crate) fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn errors_say_what_to_do() {
    let check = |error: LookupError, expected: &str| assert_eq!(error.to_string(), expected);
    check(
        LookupError::Unknown { name: "gtp".into(), nearest: names(&["a/gpt"]) },
        "there is no model \"gtp\", did you mean a/gpt? `everturn models --all` lists what there is",
    );
    check(
        LookupError::Unknown { name: "gtp".into(), nearest: Vec::new() },
        "there is no model \"gtp\"; `everturn models --all` lists what there is",
    );
    check(
        LookupError::Variant { model: "a/b".into(), variant: "x".into(), known: names(&["low", "high"]) },
        "a/b has no variant \"x\": it has low, high",
    );
    check(
        LookupError::Ambiguous {
            name: "b".into(),
            candidates: names(&["1/b", "2/b", "3/b", "4/b", "5/b", "6/b"]),
        },
        "\"b\" may be any of 1/b, 2/b, 3/b, 4/b, 5/b and 1 more: write the whole name",
    );
    check(
        LookupError::NoKey {
            name: "b".into(),
            candidates: names(&["a/b"]),
            variables: names(&["A_KEY", "C_KEY"]),
        },
        "\"b\" is offered as a/b, but there is no key for any of them: set A_KEY or C_KEY or configure a provider",
    );
}

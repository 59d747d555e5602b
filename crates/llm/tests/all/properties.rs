//! What holds for any input at all.

mod answers;
mod arguments;
mod history;

use proptest::prelude::*;

/// `bytes` in pieces of these sizes, as often as it takes.
fn cut<'b>(bytes: &'b [u8], sizes: &[usize]) -> Vec<&'b [u8]> {
    let mut pieces = Vec::new();
    let mut rest = bytes;
    for size in sizes.iter().copied().cycle() {
        if rest.is_empty() {
            break;
        }
        let (piece, after) = rest.split_at(size.min(rest.len()));
        pieces.push(piece);
        rest = after;
    }
    pieces
}

/// Sizes of pieces: small ones, so that every place gets its cut, and an empty one now and then.
fn sizes() -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(0..20_usize, 1..8).prop_map(|mut sizes| {
        sizes.push(1);
        sizes
    })
}

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases) }
}

//! Work on long lists, spread over the processor's cores.
//!
//! A fork reads, makes and writes thousands of rows for one person who waits. Turning rows into JSON and back is most
//! of it, and no row needs another.

use std::num::NonZero;
use std::panic::resume_unwind;
use std::sync::OnceLock;
use std::thread;

/// How many items make it worth while to start a thread.
const WORTH: usize = 256;

/// How many threads are used at most: what is left to gain is little, and others work too.
const THREADS: usize = 4;

/// Does the same to each item; the results are in the order of the items. Of several errors, the first one is given.
///
/// # Errors
/// When the work on an item fails.
pub(crate) fn map<T: Sync, R: Send, E: Send>(
    items: &[T],
    work: impl Fn(&T) -> Result<R, E> + Sync,
) -> Result<Vec<R>, E> {
    let share = items.len().div_ceil(if items.len() > WORTH { threads() } else { 1 }).max(WORTH);
    let work = |items: &[T]| items.iter().map(&work).collect::<Result<Vec<R>, E>>();
    let Some((own, rest)) = items.split_at_checked(share) else { return work(items) };
    thread::scope(|scope| {
        let others: Vec<_> = rest.chunks(share).map(|share| scope.spawn(|| work(share))).collect();
        let mut results = work(own)?;
        results.reserve(rest.len());
        for other in others {
            results.extend(other.join().unwrap_or_else(|panic| resume_unwind(panic))?);
        }
        Ok(results)
    })
}

/// Does two things at once when they are worth a thread. `size` is how many items the first one works on.
pub(crate) fn both<A: Send, B>(
    size: usize,
    first: impl FnOnce() -> A + Send,
    second: impl FnOnce() -> B,
) -> (A, B) {
    if size <= WORTH || threads() == 1 {
        return (first(), second());
    }
    thread::scope(|scope| {
        let first = scope.spawn(first);
        let second = second();
        (first.join().unwrap_or_else(|panic| resume_unwind(panic)), second)
    })
}

/// How many threads work at once. Asking the system takes longer than most lists.
fn threads() -> usize {
    static FOUND: OnceLock<usize> = OnceLock::new();
    *FOUND.get_or_init(|| thread::available_parallelism().map_or(1, NonZero::get).min(THREADS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_stand_in_the_order_of_the_items_however_many_there_are() {
        for count in [0, 1, WORTH - 1, WORTH, WORTH + 1, 5 * WORTH * THREADS + 3] {
            let items: Vec<usize> = (0..count).collect();
            let doubled = map(&items, |item| Ok::<_, ()>(item * 2));
            assert_eq!(doubled, Ok(items.iter().map(|item| item * 2).collect()));
        }
    }

    #[test]
    fn two_things_are_both_done() {
        for size in [0, WORTH + 1] {
            assert_eq!(both(size, || size, || "second"), (size, "second"));
        }
    }

    #[test]
    fn the_first_error_is_given() {
        let items: Vec<usize> = (0..4 * WORTH).collect();
        let refused = map(&items, |item| if item % WORTH == 7 { Err(*item) } else { Ok(()) });
        assert_eq!(refused, Err(7));
    }
}

//! The system's allocator, with a count of what is in use.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicIsize, Ordering};

#[global_allocator]
static COUNTED: Counted = Counted;

/// Whether anybody wants to know: counting would slow down what is timed.
static COUNTING: AtomicBool = AtomicBool::new(false);
static USED: AtomicIsize = AtomicIsize::new(0);
static PEAK: AtomicIsize = AtomicIsize::new(0);

struct Counted;

// SAFETY: everything is left to the system's allocator.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size().cast_signed());
        // SAFETY: the caller keeps the same promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-layout.size().cast_signed());
        // SAFETY: the caller keeps the same promises.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size.cast_signed() - layout.size().cast_signed());
        // SAFETY: the caller keeps the same promises.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

fn count(change: isize) {
    if COUNTING.load(Ordering::Relaxed) {
        let used = USED.fetch_add(change, Ordering::Relaxed) + change;
        PEAK.fetch_max(used, Ordering::Relaxed);
    }
}

/// How many bytes were in use at most while something was done, beyond those in use before.
pub(crate) fn peak(work: impl FnOnce()) -> isize {
    USED.store(0, Ordering::Relaxed);
    PEAK.store(0, Ordering::Relaxed);
    COUNTING.store(true, Ordering::Relaxed);
    work();
    COUNTING.store(false, Ordering::Relaxed);
    PEAK.load(Ordering::Relaxed)
}

//! A small source of chance (splitmix64): the same seed gives the same image on every machine, without a dependency.

/// Numbers that follow from a seed.
#[derive(Debug)]
pub(super) struct Chance {
    state: u64,
}

impl Chance {
    pub(super) fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// One of `options`.
    pub(super) fn pick<T: Copy>(&mut self, options: &[T]) -> T {
        let count = options.len() as u64;
        let chosen = usize::try_from(self.next() % count.max(1)).expect("below the length of a slice");
        *options.get(chosen).expect("something to pick from")
    }

    /// True in `percent` of a hundred cases.
    pub(super) fn happens(&mut self, percent: u64) -> bool {
        self.next() % 100 < percent
    }
}

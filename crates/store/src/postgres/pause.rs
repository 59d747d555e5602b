//! Pauses between tries: longer each time, and never the same for two processes.

use std::time::Duration;

const FIRST: Duration = Duration::from_millis(20);
const LONGEST: Duration = Duration::from_secs(2);

/// The next pause.
#[derive(Debug, Default)]
pub(super) struct Pause(u32);

impl Pause {
    /// The pause after so many tries.
    pub(super) fn after(tries: u32) -> Self {
        Self(tries)
    }

    pub(super) async fn wait(&mut self) {
        let longest = FIRST.saturating_mul(1 << self.0.min(10)).min(LONGEST);
        self.0 = self.0.saturating_add(1);
        let mut random = [0; 1];
        // Without random numbers the pauses are only less different.
        let part =
            getrandom::fill(&mut random).map_or(0.5, |()| f64::from(u8::from_le_bytes(random)) / 255.0);
        tokio::time::sleep(longest.mul_f64(0.5 + part / 2.0)).await;
    }
}

//! A turn's place among those that stream.

use super::Turn;
use crate::turn_places::TurnPlace;

impl Turn<'_> {
    /// Waits for a place; none when somebody stopped the session meanwhile, or the process is ending. Before that nothing is
    /// the provider's fault: the clocks of the answer start after it.
    pub(super) async fn place(&self) -> Option<TurnPlace> {
        tokio::select! {
            biased;
            () = self.cancel.cancelled() => None,
            () = self.services.lifecycle.closing() => None,
            place = self.services.places.take() => place,
        }
    }
}

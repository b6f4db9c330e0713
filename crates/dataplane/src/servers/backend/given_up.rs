//! Writes whose time was up on this connection: their replies are still to come.

use super::{Backend, Part};
use crate::wire::doubt::Doubt;

impl Backend {
    /// This part was given up, and was a write that is counted: when its reply comes, it is known by this name. When the connection ends
    /// before, nobody hears of it.
    #[cold]
    pub(crate) fn note_doubt(&mut self, part: &Part, doubt: Doubt) {
        self.pipeline.note_doubt(part, doubt);
    }
}

//! What the threads that read clients have in common.

/// Reads per socket and turn: who sends more than this waits for the next turn, so that nobody starves.
pub(crate) const READS_PER_TURN: usize = 4;

/// Readiness events taken per turn; the others wait in the kernel.
pub(crate) const EVENTS_PER_TURN: usize = 1024;

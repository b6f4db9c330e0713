//! What a client's `stats` asks of the thread that answers it (`stats.rs`).

use weir_dataplane::StatsTopic;

/// A client's question.
pub(crate) struct Question {
    /// The loop that the client is connected to.
    pub(crate) from: usize,
    /// The request, as that loop's dataplane names it.
    pub(crate) request: usize,
    pub(crate) topic: StatsTopic,
}

/// Questions that may wait; a loop answers with an error beyond that.
pub(crate) const QUESTIONS_MAX: usize = 256;

/// What a client is told when statistics cannot be had.
pub(crate) const BUSY: &[u8] = b"SERVER_ERROR stats busy\r\n";

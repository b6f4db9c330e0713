//! Replies of servers that were written anew.

use weir_protocol::{Reply, ValueSpan};

/// A reply with the tokens that the client sees.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Tagged {
    pub(crate) reply: Reply,
    pub(crate) bytes: Vec<u8>,
    /// Where the values of a retrieval lie in `bytes`.
    pub(crate) values: Vec<ValueSpan>,
}

impl Tagged {
    /// A reply whose last line is what it was and where it was, as counted from the end.
    pub(crate) fn new(reply: Reply, former_len: usize, bytes: Vec<u8>, values: Vec<ValueSpan>) -> Self {
        let moved = |at: usize| if at == 0 { 0 } else { bytes.len() - (former_len - at) };
        let reply = Reply {
            len: moved(reply.len),
            answer_len: moved(reply.answer_len),
            last_line: moved(reply.last_line),
            status: reply.status,
        };
        Self { reply, bytes, values }
    }
}

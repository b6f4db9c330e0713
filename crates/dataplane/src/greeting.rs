//! The first exchange on a connection to a server: a question of the proxy's own, before anything that a client has said.
//!
//! ```text
//!   connected ──version──▶ VERSION …                       it serves us: what waits is sent
//!                        ▶ CLIENT_ERROR unauthenticated    it wants a login: the connection ends, the server is down for that reason
//!                        ▶ something else, or too much     it is no memcached
//! ```
//!
//! A memcached with ASCII authentication (`-Y`) takes the first `set` on a connection for a login, whatever its key is, and whoever sent it
//! (protocol.txt, "Authentication"). The connection is shared by many clients: one of them could log all others in. So nothing of a
//! client is sent before the server has answered this question as a server answers whom it serves.

use crate::version::Version;

/// One connection's.
#[derive(Debug, Default)]
pub(crate) struct Greeting {
    sent: usize,
    reply: Vec<u8>,
}

/// What a server has said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Greeted {
    /// Not everything yet.
    NotYet,
    Welcome,
    LoginWanted,
    Nonsense,
}

const QUESTION: &[u8] = b"version\r\n";

/// No memcached says more.
const REPLY_BYTES_MAX: usize = 256;

impl Greeting {
    /// What is still to be sent.
    pub(crate) fn output(&self) -> &'static [u8] {
        &QUESTION[self.sent..]
    }

    pub(crate) fn handle_written(&mut self, count: usize) {
        self.sent = (self.sent + count).min(QUESTION.len());
    }

    pub(crate) fn handle_bytes(&mut self, bytes: &[u8]) -> Greeted {
        let taken = bytes.len().min(REPLY_BYTES_MAX + 1 - self.reply.len());
        self.reply.extend_from_slice(&bytes[..taken]);
        match self.reply.iter().position(|&byte| byte == b'\n') {
            None if self.reply.len() > REPLY_BYTES_MAX => Greeted::Nonsense,
            None => Greeted::NotYet,
            // Nothing else was asked.
            Some(end) if end + 1 < self.reply.len() => Greeted::Nonsense,
            Some(_) if self.reply.starts_with(b"CLIENT_ERROR unauthenticated") => Greeted::LoginWanted,
            // Servers that do not know the question say `ERROR`.
            Some(_) if self.reply.starts_with(b"VERSION") || self.reply.starts_with(b"ERROR") => {
                Greeted::Welcome
            }
            Some(_) => Greeted::Nonsense,
        }
    }

    /// The version that it named.
    pub(crate) fn version(&self) -> Option<Version> {
        Version::of_reply(&self.reply)
    }

    /// What came, for whoever looks for the trouble.
    pub(crate) fn reply(&self) -> String {
        String::from_utf8_lossy(&self.reply[..self.reply.len().min(60)]).trim_end().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_may_come_in_pieces_and_must_be_one_line() {
        for (reply, greeted) in [
            ("VERSION 1.6.18\r\n", Greeted::Welcome),
            ("ERROR\r\n", Greeted::Welcome),
            ("CLIENT_ERROR unauthenticated\r\n", Greeted::LoginWanted),
            ("VERSION 1.6.18\r\nEND\r\n", Greeted::Nonsense),
            ("HTTP/1.1 400 Bad Request\r\n", Greeted::Nonsense),
        ] {
            assert_eq!(Greeting::default().handle_bytes(reply.as_bytes()), greeted, "{reply}");
            let mut bytewise = Greeting::default();
            let mut last = Greeted::NotYet;
            for byte in reply.bytes() {
                if last == Greeted::Nonsense {
                    break;
                }
                last = bytewise.handle_bytes(&[byte]);
            }
            assert_eq!(last, greeted, "{reply}");
        }
        assert_eq!(Greeting::default().handle_bytes(&[b'x'; 1000]), Greeted::Nonsense, "it is bounded");
    }
}

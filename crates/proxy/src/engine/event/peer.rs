//! Who has a socket at an event loop, and by which token its readiness is reported.

use mio::Token;
use weir_dataplane::{SessionId, Slot};

/// Somebody who is read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::engine) enum Peer {
    Server(Slot),
    Client(SessionId),
}

/// Servers and clients share the numbers behind the waker's: there may be any number of either.
pub(super) fn token(peer: Peer) -> Token {
    match peer {
        Peer::Server(server) => Token(1 + 2 * server.index()),
        Peer::Client(id) => Token(2 + 2 * id.index()),
    }
}

pub(super) fn peer(token: Token) -> Peer {
    let index = token.0 - 1;
    if index.is_multiple_of(2) {
        Peer::Server(Slot::from_index(index / 2))
    } else {
        Peer::Client(SessionId::from_index(index / 2))
    }
}

//! What the driver is asked to do.

use crate::{
    StatsTopic,
    wire::ids::{RequestKey, SessionId, Slot},
};

/// What the driver is asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Begin to connect to this server; then call [`Dataplane::handle_server_connected`](crate::Dataplane::handle_server_connected) or
    /// [`Dataplane::handle_server_disconnected`](crate::Dataplane::handle_server_disconnected).
    Connect(Slot),
    /// Drop the connection to this server, without telling.
    Disconnect(Slot),
    /// Close this client's connection and call [`Dataplane::handle_client_closed`](crate::Dataplane::handle_client_closed).
    Close(SessionId),
    /// Read from this client again: [`Dataplane::wants_read`](crate::Dataplane::wants_read) had been false.
    Resume(SessionId),
    /// A client asks for statistics: answer by [`Dataplane::handle_stats`](crate::Dataplane::handle_stats) with this request's number.
    Stats {
        /// Names the request.
        request: RequestKey,
        /// What is asked for.
        topic: StatsTopic,
    },
}

impl Event {
    /// The client that it is about, if the driver is to do something with that client's connection.
    #[inline]
    pub(crate) const fn of_client(&self) -> Option<SessionId> {
        match self {
            Self::Close(id) | Self::Resume(id) => Some(*id),
            Self::Connect(_) | Self::Disconnect(_) | Self::Stats { .. } => None,
        }
    }
}

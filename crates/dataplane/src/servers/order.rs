//! What the driver is to do with connections to servers.

/// Something that the driver is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Begin to connect to the server of this slot.
    Connect(usize),
    /// Drop the connection in this slot, without telling.
    Disconnect(usize),
}

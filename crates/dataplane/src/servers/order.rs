//! What the driver is to do with connections to servers.

use crate::wire::ids::Slot;

/// Something that the driver is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Begin to connect to the server of this slot.
    Connect(Slot),
    /// Drop the connection in this slot, without telling.
    Disconnect(Slot),
}

//! What becomes of requests and servers without a reply, reported upwards as values, in the order in which it happened.

pub(crate) use crate::servers::pipeline::LostMessages;
use crate::{
    servers::part::Part,
    wire::fault::Fault,
    wire::ids::{RequestKey, Slot},
    wire::version::Version,
};
use weir_timing::Distribution;

/// Something that whoever asked servers has to know.
#[derive(Debug)]
pub(crate) enum Happened {
    /// A connection begins in this slot, which is timed for the server of that slot.
    Begun(Slot),
    /// The slot does not belong to its former server any more.
    Freed(Slot),
    /// These times belong to the server of this slot.
    Times(Slot, Box<Distribution>),
    /// A connection was made, or could not be.
    Tried,
    /// A connection to a server was closed, refused or broken, or its name has other addresses.
    MayBeEmpty(Slot),
    /// A server has reported its version.
    Version(Slot, Version),
    /// The largest value that any server stores, in bytes.
    ItemSize(usize),
    /// A part of a request got no answer.
    Lost(Box<Lost>),
    /// A connection is gone. `own`: the slot of its server itself.
    Ended { server: Slot, own: Slot, lost: LostMessages, ending: Ending },
}

/// A part of a request that got no answer.
#[derive(Debug)]
pub(crate) struct Lost {
    pub(crate) request: RequestKey,
    pub(crate) part: Part,
    /// Its keys, each after its length, where it may be asked for again.
    pub(crate) keys: Box<[u8]>,
    pub(crate) server: Slot,
    pub(crate) fault: Fault,
    pub(crate) retry: Retry,
}

/// How a part that was lost may be asked for again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Retry {
    /// It may not be asked again: its time is up.
    Never,
    /// Of another server.
    Elsewhere,
    /// Of another, or of the same in a message of its own: it has only shared one with the trouble.
    ElsewhereOrAlone,
}

/// How a connection to a server came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The server closed it, so it carries out nothing more of what was sent.
    ByServer,
    /// Nobody knows what the server still has of it.
    Otherwise,
}

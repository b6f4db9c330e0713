//! What a client will get.

use crate::clients::outbox::Outbox;

/// What the client will get.
#[derive(Debug, Default)]
pub(crate) enum Answer {
    #[default]
    None,
    Fixed(&'static [u8]),
    Owned(Vec<u8>),
    /// Large, or of large parts.
    Pieces(Box<Outbox>),
}

impl Answer {
    #[inline(always)]
    pub(crate) fn as_slice(&self) -> &[u8] {
        match self {
            Self::None => &[],
            Self::Fixed(bytes) => bytes,
            Self::Owned(bytes) => bytes,
            Self::Pieces(outbox) => outbox.as_slice(),
        }
    }

    /// Appends it to a client's bytes, behind those that came before.
    #[cold]
    pub(crate) fn append_to(self, out: &mut Outbox) {
        match self {
            Self::Pieces(parked) => out.append_all(*parked),
            parked => out.append(parked.as_slice().len(), |out| out.extend_from_slice(parked.as_slice())),
        }
    }
}

//! The transport of a connection, whether it is encrypted or not.

use crate::connections::{
    sockets::Stream,
    tls::session::Session,
    transport::{Arrived, Ended, Stamps, Transport},
};

/// A connection as a loop reads and writes it.
#[derive(Debug)]
pub(crate) enum Line<'a> {
    /// Bytes go as they are.
    Plain(&'a Stream),
    /// They go in records of this session.
    Tls(&'a Stream, &'a mut Session),
}

impl<'a> Line<'a> {
    #[inline]
    pub(crate) fn new(stream: &'a Stream, tls: Option<&'a mut Session>) -> Self {
        match tls {
            None => Self::Plain(stream),
            Some(session) => Self::Tls(stream, session),
        }
    }

    /// Whether the last write ended although the kernel takes more: it is to go on in the next turn.
    #[inline]
    pub(crate) fn has_rest(&self) -> bool {
        match self {
            Self::Plain(_) => false,
            Self::Tls(_, session) => session.has_rest(),
        }
    }

    /// Hands messages to a server, each of which ends at one of `ends`, in their order.
    #[inline]
    pub(crate) fn write_messages<E: Iterator<Item = usize>>(
        &mut self,
        bytes: &[u8],
        ends: impl FnOnce() -> E,
    ) -> Result<usize, Ended> {
        match self {
            Self::Plain(stream) => stream.write(bytes),
            Self::Tls(stream, session) => write_records(session, stream, bytes, ends()),
        }
    }
}

#[inline(never)]
fn write_records(
    session: &mut Session,
    stream: &Stream,
    bytes: &[u8],
    mut ends: impl Iterator<Item = usize>,
) -> Result<usize, Ended> {
    session.write_messages(stream, bytes, &mut ends)
}

impl Transport for Line<'_> {
    #[inline]
    fn read(&mut self, scratch: &mut [u8], stamps: Option<&mut Stamps>) -> Arrived {
        match self {
            Self::Plain(stream) => stream.read(scratch, stamps),
            Self::Tls(stream, session) => session.read(stream, scratch, stamps),
        }
    }

    #[inline]
    fn write(&mut self, bytes: &[u8]) -> Result<usize, Ended> {
        match self {
            Self::Plain(stream) => stream.write(bytes),
            Self::Tls(stream, session) => session.write(stream, bytes),
        }
    }

    #[inline]
    fn has_buffered(&self) -> bool {
        match self {
            Self::Plain(_) => false,
            Self::Tls(_, session) => session.has_buffered(),
        }
    }

    #[inline]
    fn wants_write(&self) -> bool {
        match self {
            Self::Plain(_) => false,
            Self::Tls(_, session) => session.has_something_to_say(),
        }
    }
}

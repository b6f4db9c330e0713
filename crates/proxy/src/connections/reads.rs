//! How one thread reads: into one buffer that all its sockets share.
//!
//! [`Reads`] owns the buffer. It is asked to read once of a socket, and answers what came; the bytes are there until the next read.

use crate::{
    connections::{
        sockets::Stream,
        transport::{Arrived, Stamps, Transport},
    },
    process::clock::Clock,
};
use nix::sys::time::TimeSpec;
use weir_timing::Instant;

/// Bytes per read. A turn's requests of one busy client fit; larger values take several reads.
const READ_BYTES: usize = 256 << 10;

/// How one thread reads: into a buffer that all its sockets share, and of clients with the kernel's stamps while requests are traced.
pub(crate) struct Reads {
    scratch: Vec<u8>,
    stamps: Option<Stamps>,
}

impl Reads {
    pub(crate) fn new(is_traced: bool) -> Self {
        let stamps = || Stamps::new(nix::cmsg_space!(TimeSpec));
        Self { scratch: vec![0; READ_BYTES], stamps: is_traced.then(stamps) }
    }

    /// A client has connected, of which is read from now on.
    pub(crate) fn begin_client(&self, stream: &Stream) {
        stream.send_at_once();
        if self.stamps.is_some() {
            stream.keep_stamps();
        }
    }

    /// Reads once of a client.
    #[inline]
    pub(crate) fn read_client(&mut self, transport: &mut impl Transport) -> Arrived {
        transport.read(&mut self.scratch, self.stamps.as_mut())
    }

    /// Reads once.
    #[inline]
    pub(crate) fn read(&mut self, transport: &mut impl Transport) -> Arrived {
        transport.read(&mut self.scratch, None)
    }

    /// What the last read brought, which had this many bytes.
    #[inline]
    pub(crate) fn bytes(&self, count: usize) -> &[u8] {
        &self.scratch[..count]
    }

    /// Whether a read that brought this many bytes was short: the kernel has no more.
    #[inline]
    pub(crate) fn is_short(&self, count: usize) -> bool {
        count < self.scratch.len()
    }

    /// If requests are traced: when the kernel received what was read of a client just now, where it said so.
    #[inline]
    pub(crate) fn arrival(&self, clock: Clock, now: Instant) -> Option<Option<Instant>> {
        let stamps = self.stamps.as_ref()?;
        let arrived = stamps.received_unix_ns().and_then(|then| clock.at_unix(then));
        Some(arrived.map(|arrived| arrived.min(now)))
    }
}

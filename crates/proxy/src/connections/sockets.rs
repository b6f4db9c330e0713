//! Sockets as the event loop uses them: readiness is told once, at the edge, so reading stops at a short read and writing at
//! a short write.
//!
//! Reading and writing ask the kernel directly (rustix): the C library's calls are points where a thread can be cancelled, and in a
//! process with several threads each of them pays for that with two atomic operations, which is 1 to 2 % of a request.

use crate::process::clock::Clock;
use mio::{
    Interest, Registry, Token,
    event::Source,
    net::{TcpStream, UnixStream},
};
use nix::{
    errno::Errno,
    sys::{
        socket::{ControlMessageOwned, MsgFlags, RecvMsg, recvmsg, setsockopt, sockopt},
        time::{TimeSpec, TimeValLike as _},
    },
};
use rustix::net::{RecvFlags, SendFlags, Shutdown};
use std::{
    io::{self, ErrorKind, IoSliceMut},
    os::fd::{AsFd, AsRawFd as _, BorrowedFd},
};
use weir_timing::Instant;

/// A connection, by TCP or by a socket in the file system.
#[derive(Debug)]
pub(crate) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// Does the same with either.
macro_rules! with {
    ($self:expr, $stream:ident => $result:expr) => {
        match $self {
            Stream::Tcp($stream) => $result,
            Stream::Unix($stream) => $result,
        }
    };
}

impl Stream {
    /// What is written is gathered before; waiting for more would only add delay.
    pub(crate) fn send_at_once(&self) {
        if let Self::Tcp(stream) = self {
            let _ = stream.set_nodelay(true);
        }
    }

    /// When it is closed, what the kernel has not sent is dropped, and the peer told so (a reset).
    pub(crate) fn drop_unsent(&self) {
        if let Self::Tcp(stream) = self {
            let _ = rustix::net::sockopt::set_socket_linger(stream, Some(std::time::Duration::ZERO));
        }
    }

    /// Whether a connection that was begun is established: `None` while that is open.
    pub(crate) fn connected(&self) -> Option<bool> {
        if !matches!(with!(self, stream => stream.take_error()), Ok(None)) {
            return Some(false);
        }
        match with!(self, stream => stream.peer_addr().map(|_| ())) {
            Ok(()) => Some(true),
            Err(error) if error.kind() == ErrorKind::NotConnected => None,
            Err(_) => Some(false),
        }
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        with!(self, stream => stream.as_fd())
    }
}

impl Source for Stream {
    fn register(&mut self, registry: &Registry, token: Token, interests: Interest) -> io::Result<()> {
        with!(self, stream => stream.register(registry, token, interests))
    }

    fn reregister(&mut self, registry: &Registry, token: Token, interests: Interest) -> io::Result<()> {
        with!(self, stream => stream.reregister(registry, token, interests))
    }

    fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        with!(self, stream => stream.deregister(registry))
    }
}

/// What one read brought.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Arrived {
    /// So many bytes.
    Bytes(usize),
    /// Nothing now.
    Nothing,
    /// The peer will send no more.
    End,
    /// The peer has closed the connection, and reads nothing more of it.
    Reset,
    /// The connection is broken. Nobody knows what the peer still has of it.
    Broken,
}

/// Reads once.
fn read(stream: &Stream, scratch: &mut [u8]) -> Arrived {
    use rustix::io::Errno;
    loop {
        return match rustix::net::recv(stream, &mut *scratch, RecvFlags::empty()) {
            Ok((_, 0)) => Arrived::End,
            Ok((_, count)) => Arrived::Bytes(count),
            Err(Errno::INTR) => continue,
            Err(Errno::AGAIN | Errno::NOTCONN) => Arrived::Nothing,
            Err(Errno::CONNRESET) => Arrived::Reset,
            Err(_) => Arrived::Broken,
        };
    }
}

/// Bytes per read. A turn's requests of one busy client fit; larger values take several reads.
const READ_BYTES: usize = 256 << 10;

/// How one thread reads: into a buffer that all its sockets share, and of clients with the kernel's stamps while requests are traced.
#[derive(Default)]
pub(crate) struct Reads {
    scratch: Vec<u8>,
    stamps: Option<Stamps>,
}

/// Asks the kernel when it received what is read. It tells by TCP; a socket in the file system has no such time.
struct Stamps {
    control: Vec<u8>,
    /// When it received the last bytes of the last read, in nanoseconds since 1970.
    received_unix_ns: Option<u64>,
}

impl Reads {
    pub(crate) fn new(is_traced: bool) -> Self {
        let stamps = || Stamps { control: nix::cmsg_space!(TimeSpec), received_unix_ns: None };
        Self { scratch: vec![0; READ_BYTES], stamps: is_traced.then(stamps) }
    }

    /// A client has connected, of which is read from now on.
    pub(crate) fn begin_client(&self, stream: &Stream) {
        stream.send_at_once();
        if let (Some(_), Stream::Tcp(stream)) = (&self.stamps, stream) {
            // Without it there are no stamps, as every row shows.
            let _ = setsockopt(stream, sockopt::ReceiveTimestampns, &true);
        }
    }

    /// Reads once of a client.
    #[inline]
    pub(crate) fn read_client(&mut self, stream: &Stream) -> Arrived {
        match &mut self.stamps {
            None => self.read(stream),
            Some(stamps) => stamps.read(stream, &mut self.scratch),
        }
    }

    /// Reads once.
    #[inline]
    pub(crate) fn read(&mut self, stream: &Stream) -> Arrived {
        read(stream, &mut self.scratch)
    }

    /// What the last read brought, which was so many bytes.
    #[inline]
    pub(crate) fn bytes(&self, count: usize) -> &[u8] {
        &self.scratch[..count]
    }

    /// Whether a read that brought so many bytes was short: the kernel has no more.
    #[inline]
    pub(crate) fn is_short(&self, count: usize) -> bool {
        count < self.scratch.len()
    }

    /// If requests are traced: when the kernel received what was read of a client just now, where it told.
    #[inline]
    pub(crate) fn arrival(&self, clock: Clock, now: Instant) -> Option<Option<Instant>> {
        let stamps = self.stamps.as_ref()?;
        let arrived = stamps.received_unix_ns.and_then(|then| clock.at_unix(then));
        Some(arrived.map(|arrived| arrived.min(now)))
    }
}

impl Stamps {
    fn read(&mut self, stream: &Stream, scratch: &mut [u8]) -> Arrived {
        self.received_unix_ns = None;
        let Stream::Tcp(tcp) = stream else { return read(stream, scratch) };
        loop {
            let mut parts = [IoSliceMut::new(scratch)];
            let received =
                recvmsg::<()>(tcp.as_raw_fd(), &mut parts, Some(&mut self.control), MsgFlags::empty());
            return match received {
                Ok(message) if message.bytes == 0 => Arrived::End,
                Ok(message) => {
                    self.received_unix_ns = stamp_of(&message);
                    Arrived::Bytes(message.bytes)
                }
                Err(Errno::EINTR) => continue,
                Err(Errno::EAGAIN | Errno::ENOTCONN) => Arrived::Nothing,
                Err(_) => Arrived::Broken,
            };
        }
    }
}

fn stamp_of(message: &RecvMsg<'_, '_, ()>) -> Option<u64> {
    message.cmsgs().ok()?.find_map(|it| match it {
        ControlMessageOwned::ScmTimestampns(stamp) => u64::try_from(stamp.num_nanoseconds()).ok(),
        _ => None,
    })
}

/// Closes the connection of a client that cannot be served, and says so in memcached's words.
pub(crate) fn refuse(stream: Stream) {
    // One short line always fits a new socket's buffer.
    let _ = write(&stream, b"ERROR Too many open connections\r\n");
    let _ = rustix::net::shutdown(&stream, Shutdown::Write);
    // What the client has sent already would make the kernel reset the connection, and the client could lose the line.
    let mut scratch = [0; 1024];
    let _ = read(&stream, &mut scratch);
    drop(stream);
}

/// Why no more can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The peer has closed the connection, and reads nothing more of it.
    ByPeer,
    /// The connection is broken. Nobody knows what the peer still has of it.
    Otherwise,
}

/// Hands bytes to the kernel: how many it took, or `None` if the connection is over.
pub(crate) fn write(stream: &Stream, bytes: &[u8]) -> Option<usize> {
    try_write(stream, bytes).ok()
}

/// The same, and why it is over.
pub(crate) fn try_write(stream: &Stream, bytes: &[u8]) -> Result<usize, Ended> {
    use rustix::io::Errno;
    loop {
        return match rustix::net::send(stream, bytes, SendFlags::NOSIGNAL) {
            Ok(count) => Ok(count),
            Err(Errno::INTR) => continue,
            Err(Errno::AGAIN) => Ok(0),
            Err(Errno::CONNRESET | Errno::PIPE) => Err(Ended::ByPeer),
            Err(_) => Err(Ended::Otherwise),
        };
    }
}

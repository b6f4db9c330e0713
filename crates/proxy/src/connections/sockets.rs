//! Sockets as the event loop uses them: readiness is reported once, at the edge, so reading stops at a short read and writing at
//! a short write.
//!
//! Reading and writing ask the kernel directly (rustix). The C library's calls are points where a thread can be cancelled. In a process
//! with several threads each call pays for that with two atomic operations, which is 1 to 2 % of a request.

use crate::connections::transport::{Arrived, Ended, Over, Stamps, Transport};
use mio::{
    Interest, Registry, Token,
    event::Source,
    net::{TcpStream, UnixStream},
};
use nix::{
    errno::Errno,
    sys::{
        socket::{ControlMessageOwned, MsgFlags, RecvMsg, recvmsg, setsockopt, sockopt},
        time::TimeValLike as _,
    },
};
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown};
use std::{
    io::{self, ErrorKind, IoSlice, IoSliceMut},
    net::IpAddr,
    os::fd::{AsFd, AsRawFd as _, BorrowedFd},
};

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

    /// From now on the kernel keeps when it receives something, where it can.
    pub(crate) fn keep_stamps(&self) {
        if let Self::Tcp(stream) = self {
            // Without it there are no stamps, as every row shows.
            let _ = setsockopt(stream, sockopt::ReceiveTimestampns, &true);
        }
    }

    /// When it is closed, what the kernel has not sent is dropped, and the peer gets a reset.
    pub(crate) fn drop_unsent(&self) {
        if let Self::Tcp(stream) = self {
            let _ = rustix::net::sockopt::set_socket_linger(stream, Some(std::time::Duration::ZERO));
        }
    }

    /// The address of its peer; `None` where it has none, or is gone.
    pub(crate) fn address(&self) -> Option<IpAddr> {
        match self {
            Self::Tcp(stream) => Some(stream.peer_addr().ok()?.ip()),
            Self::Unix(_) => None,
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

/// Reads once.
fn read(stream: &Stream, scratch: &mut [u8]) -> Arrived {
    use rustix::io::Errno;
    loop {
        return match rustix::net::recv(stream, &mut *scratch, RecvFlags::empty()) {
            Ok((_, 0)) => Arrived::Over(Over::End),
            Ok((_, count)) => Arrived::Bytes(count),
            Err(Errno::INTR) => continue,
            Err(Errno::AGAIN | Errno::NOTCONN) => Arrived::Nothing,
            Err(Errno::CONNRESET) => Arrived::Over(Over::Reset),
            Err(_) => Arrived::Over(Over::Broken),
        };
    }
}

/// Reads once, and asks the kernel when it received that.
fn read_stamped(stream: &TcpStream, scratch: &mut [u8], stamps: &mut Stamps) -> Arrived {
    loop {
        let mut parts = [IoSliceMut::new(scratch)];
        let received = recvmsg::<()>(stream.as_raw_fd(), &mut parts, Some(stamps.begin()), MsgFlags::empty());
        let (arrived, stamp) = match received {
            Ok(message) if message.bytes == 0 => (Arrived::Over(Over::End), None),
            Ok(message) => (Arrived::Bytes(message.bytes), stamp_of(&message)),
            Err(Errno::EINTR) => continue,
            Err(Errno::EAGAIN | Errno::ENOTCONN) => (Arrived::Nothing, None),
            Err(_) => (Arrived::Over(Over::Broken), None),
        };
        stamps.note(stamp);
        return arrived;
    }
}

fn stamp_of(message: &RecvMsg<'_, '_, ()>) -> Option<u64> {
    message.cmsgs().ok()?.find_map(|it| match it {
        ControlMessageOwned::ScmTimestampns(stamp) => u64::try_from(stamp.num_nanoseconds()).ok(),
        _ => None,
    })
}

/// Bytes go as they are, and nothing is kept.
impl Transport for &Stream {
    #[inline]
    fn read(&mut self, scratch: &mut [u8], stamps: Option<&mut Stamps>) -> Arrived {
        match (stamps, self) {
            (None, stream) => read(stream, scratch),
            (Some(stamps), Stream::Tcp(stream)) => read_stamped(stream, scratch, stamps),
            (Some(stamps), stream) => {
                stamps.begin();
                read(stream, scratch)
            }
        }
    }

    #[inline]
    fn write(&mut self, bytes: &[u8]) -> Result<usize, Ended> {
        try_write(self, bytes)
    }

    #[inline]
    fn has_buffered(&self) -> bool {
        false
    }

    #[inline]
    fn wants_write(&self) -> bool {
        false
    }
}

/// Closes the connection of a client that cannot be served, and says so in memcached's words.
pub(crate) fn refuse(stream: Stream) {
    // One short line always fits a new socket's buffer.
    let _ = write(&stream, b"ERROR Too many open connections\r\n");
    end_sending(&stream);
    drop(stream);
}

/// Nothing more is sent, and what the client has sent already is dropped: closed over it, the kernel would reset the connection, and the
/// client could lose the last line that was sent to it.
pub(crate) fn end_sending(stream: &Stream) {
    let _ = rustix::net::shutdown(stream, Shutdown::Write);
    let mut scratch = [0; 1024];
    let _ = read(stream, &mut scratch);
}

/// Hands bytes to the kernel: how many it took, or `None` if the connection is over.
pub(crate) fn write(stream: &Stream, bytes: &[u8]) -> Option<usize> {
    try_write(stream, bytes).ok()
}

/// The same, and why it is over.
pub(crate) fn try_write(stream: &Stream, bytes: &[u8]) -> Result<usize, Ended> {
    taken(|| rustix::net::send(stream, bytes, SendFlags::NOSIGNAL))
}

/// The same for several pieces, with one call.
pub(crate) fn write_pieces(stream: &Stream, pieces: &[IoSlice<'_>]) -> Result<usize, Ended> {
    let send =
        || rustix::net::sendmsg(stream, pieces, &mut SendAncillaryBuffer::default(), SendFlags::NOSIGNAL);
    taken(send)
}

/// How many bytes the kernel took.
#[inline]
fn taken(send: impl Fn() -> rustix::io::Result<usize>) -> Result<usize, Ended> {
    use rustix::io::Errno;
    loop {
        return match send() {
            Ok(count) => Ok(count),
            Err(Errno::INTR) => continue,
            Err(Errno::AGAIN) => Ok(0),
            Err(Errno::CONNRESET | Errno::PIPE) => Err(Ended::ByPeer),
            Err(_) => Err(Ended::Otherwise),
        };
    }
}

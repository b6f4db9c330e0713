//! Sockets as the event loop uses them: readiness is told once, at the edge, so reading stops at a short read and writing at
//! a short write.

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
use std::{
    io::{self, ErrorKind, IoSliceMut, Read, Write},
    os::fd::AsRawFd as _,
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

// By shared reference: several threads may write to a client.

impl Read for &Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        with!(self, stream => (&*stream).read(buffer))
    }
}

impl Write for &Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        with!(self, stream => (&*stream).write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        with!(self, stream => (&*stream).flush())
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
    /// The connection is broken.
    Broken,
}

/// Reads once.
pub(crate) fn read(mut stream: &Stream, scratch: &mut [u8]) -> Arrived {
    loop {
        return match stream.read(scratch) {
            Ok(0) => Arrived::End,
            Ok(count) => Arrived::Bytes(count),
            Err(error) => match error.kind() {
                ErrorKind::Interrupted => continue,
                ErrorKind::WouldBlock | ErrorKind::NotConnected => Arrived::Nothing,
                _ => Arrived::Broken,
            },
        };
    }
}

/// Reads, and asks the kernel when it received what is read. It tells by TCP; a socket in the file system has no such time.
pub(crate) struct StampedReads {
    control: Vec<u8>,
}

impl StampedReads {
    pub(crate) fn new() -> Self {
        Self { control: nix::cmsg_space!(TimeSpec) }
    }

    /// What is read of this stream from now on is stamped, where that can be.
    pub(crate) fn begin(stream: &Stream) {
        if let Stream::Tcp(stream) = stream {
            // Without it there are no stamps, as every row shows.
            let _ = setsockopt(stream, sockopt::ReceiveTimestampns, &true);
        }
    }

    /// [`read`], and when the kernel received the last bytes of it, as nanoseconds since 1970.
    pub(crate) fn read(&mut self, stream: &Stream, scratch: &mut [u8]) -> (Arrived, Option<u64>) {
        let Stream::Tcp(tcp) = stream else { return (read(stream, scratch), None) };
        loop {
            let mut parts = [IoSliceMut::new(scratch)];
            let received =
                recvmsg::<()>(tcp.as_raw_fd(), &mut parts, Some(&mut self.control), MsgFlags::empty());
            return match received {
                Ok(message) if message.bytes == 0 => (Arrived::End, None),
                Ok(message) => (Arrived::Bytes(message.bytes), stamp_of(&message)),
                Err(Errno::EINTR) => continue,
                Err(Errno::EAGAIN | Errno::ENOTCONN) => (Arrived::Nothing, None),
                Err(_) => (Arrived::Broken, None),
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

/// Hands bytes to the kernel: how many it took, or `None` if the connection is broken.
pub(crate) fn write(mut stream: &Stream, bytes: &[u8]) -> Option<usize> {
    loop {
        return match stream.write(bytes) {
            Ok(count) => Some(count),
            Err(error) => match error.kind() {
                ErrorKind::Interrupted => continue,
                ErrorKind::WouldBlock => Some(0),
                _ => None,
            },
        };
    }
}

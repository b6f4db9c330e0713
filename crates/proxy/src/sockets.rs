//! Sockets as the event loop uses them: readiness is told once, at the edge, so reading stops at a short read and writing at
//! a short write.

use mio::net::TcpStream;
use std::io::{ErrorKind, Read, Write};

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
pub(crate) fn read(mut stream: impl Read, scratch: &mut [u8]) -> Arrived {
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

/// Hands bytes to the kernel: how many it took, or `None` if the connection is broken.
pub(crate) fn write(mut stream: impl Write, bytes: &[u8]) -> Option<usize> {
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

/// Whether a connection that was begun is established: `None` while that is open.
pub(crate) fn connected(stream: &TcpStream) -> Option<bool> {
    if !matches!(stream.take_error(), Ok(None)) {
        return Some(false);
    }
    match stream.peer_addr() {
        Ok(_) => Some(true),
        Err(error) if error.kind() == ErrorKind::NotConnected => None,
        Err(_) => Some(false),
    }
}

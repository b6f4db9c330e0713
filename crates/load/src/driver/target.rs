//! Where connections go.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use mio::net::TcpStream;

/// A target by its name and its addresses.
#[derive(Debug)]
pub(crate) struct Target {
    name: Arc<str>,
    addresses: Vec<SocketAddr>,
}

impl Target {
    /// The target `HOST:PORT`.
    pub(crate) fn resolve(name: &str) -> io::Result<Target> {
        Ok(Target { name: name.into(), addresses: name.to_socket_addrs()?.collect() })
    }

    /// The target as it was given.
    pub(crate) fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// A connection to the first address that accepts one: `localhost` has two, and often one is served. Its socket does
    /// not block.
    pub(crate) fn open(&self, timeout: Duration) -> io::Result<(TcpStream, SocketAddr)> {
        let mut refused = io::Error::from(io::ErrorKind::AddrNotAvailable);
        for &address in &self.addresses {
            match std::net::TcpStream::connect_timeout(&address, timeout) {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    stream.set_nonblocking(true)?;
                    return Ok((TcpStream::from_std(stream), address));
                }
                Err(error) => refused = error,
            }
        }
        Err(refused)
    }
}

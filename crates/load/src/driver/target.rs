//! Where connections go.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use super::socket::{Socket, Terms};

/// A target by its name and its addresses.
#[derive(Debug)]
pub(crate) struct Target {
    name: Arc<str>,
    addresses: Vec<SocketAddr>,
    /// What is spoken to it, if that is TLS.
    terms: Option<Terms>,
}

impl Target {
    /// The target `HOST:PORT`.
    pub(crate) fn resolve(name: &str) -> io::Result<Target> {
        Ok(Target { name: name.into(), addresses: name.to_socket_addrs()?.collect(), terms: None })
    }

    /// This is spoken to it.
    pub(crate) fn speaking(self, terms: Option<Terms>) -> Target {
        Target { terms, ..self }
    }

    /// What is spoken to it, if that is TLS.
    pub(crate) fn terms(&self) -> Option<&Terms> {
        self.terms.as_ref()
    }

    /// The target as it was given.
    pub(crate) fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// A connection to the first address that accepts one: `localhost` has two, and often one is served. Its socket does
    /// not block, and its handshake is done.
    pub(crate) fn open(&self, timeout: Duration) -> io::Result<(Socket, SocketAddr)> {
        let mut refused = io::Error::from(io::ErrorKind::AddrNotAvailable);
        for &address in &self.addresses {
            match std::net::TcpStream::connect_timeout(&address, timeout) {
                Ok(stream) => {
                    return Ok((Socket::over(stream, self.terms(), timeout)?, address));
                }
                Err(error) => refused = error,
            }
        }
        Err(refused)
    }
}

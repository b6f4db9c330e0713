//! Where connections go.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use mio::net::{TcpStream, UnixStream};
use socket2::{Domain, SockAddr, Type};

use super::socket::{Socket, Terms};
use crate::config::SOCKET_SCHEME;

/// A target by its name and its addresses.
#[derive(Debug)]
pub(crate) struct Target {
    name: Arc<str>,
    addresses: Vec<Address>,
    /// What is spoken to it, if that is TLS.
    terms: Option<Terms>,
}

/// Where one connection goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Address {
    /// A port.
    Tcp(SocketAddr),
    /// A socket in the file system.
    Unix(PathBuf),
}

impl Target {
    /// The target `HOST:PORT`, or `unix:/PATH`.
    pub(crate) fn resolve(name: &str) -> io::Result<Target> {
        let addresses = match name.strip_prefix(SOCKET_SCHEME) {
            Some(path) => vec![Address::Unix(path.into())],
            None => name.to_socket_addrs()?.map(Address::Tcp).collect(),
        };
        Ok(Target { name: name.into(), addresses, terms: None })
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
    pub(crate) fn open(&self, timeout: Duration) -> io::Result<(Socket, Address)> {
        let mut refused = io::Error::from(io::ErrorKind::AddrNotAvailable);
        for address in &self.addresses {
            let opened = match address {
                Address::Tcp(address) => std::net::TcpStream::connect_timeout(address, timeout)
                    .and_then(|stream| Socket::over(stream, self.terms(), timeout)),
                Address::Unix(path) => connect_unix(path, timeout).map(Socket::Unix),
            };
            match opened {
                Ok(socket) => return Ok((socket, address.clone())),
                Err(error) => refused = error,
            }
        }
        Err(refused)
    }
}

impl Address {
    /// Begins to connect, without blocking.
    pub(crate) fn connect(&self, terms: Option<&Terms>) -> io::Result<Socket> {
        match self {
            Address::Tcp(address) => Socket::connecting(TcpStream::connect(*address)?, terms),
            Address::Unix(path) => UnixStream::connect(path).map(Socket::Unix),
        }
    }
}

/// A connection to a socket in the file system. Where as many as there is room for wait to be accepted, the kernel waits for
/// `timeout` at most (unix(7), `SO_SNDTIMEO`): a process that hangs holds nobody up for longer.
fn connect_unix(path: &Path, timeout: Duration) -> io::Result<UnixStream> {
    let socket = socket2::Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_write_timeout(Some(timeout.max(TIMEOUT_MIN)))?;
    socket.connect(&SockAddr::unix(path)?).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => io::Error::new(
            io::ErrorKind::TimedOut,
            "nothing accepted it in time: as many connections as may wait there do",
        ),
        _ => error,
    })?;
    socket.set_write_timeout(None)?;
    socket.set_nonblocking(true)?;
    Ok(UnixStream::from_std(OwnedFd::from(socket).into()))
}

/// No time at all would mean to wait without end.
const TIMEOUT_MIN: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn a_target_is_a_port_or_a_socket() {
        let addresses = |name: &str| Target::resolve(name).expect("it can be read").addresses;
        assert_eq!(addresses("127.0.0.1:7"), [Address::Tcp(SocketAddr::from(([127, 0, 0, 1], 7)))]);
        assert_eq!(addresses("unix:/run/weir.sock"), [Address::Unix("/run/weir.sock".into())]);
    }

    #[test]
    fn a_process_that_accepts_nobody_holds_nobody_up() {
        let name = format!("weir-load-target-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let listener = UnixListener::bind(&path).expect("the folder can be written to");
        let target = Target::resolve(&format!("unix:{}", path.display())).expect("it can be read");
        let mut waiting = Vec::new();
        let error = loop {
            match target.open(Duration::ZERO) {
                Ok((socket, _)) => waiting.push(socket),
                Err(error) => break error,
            }
        };
        std::fs::remove_file(&path).expect("it is there");
        drop(listener);
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(!waiting.is_empty());
    }
}

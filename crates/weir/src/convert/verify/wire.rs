//! One connection to a proxy or a server, with a deadline for each exchange.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use weir_routing::Endpoint;

/// The longest line of a reply, in bytes: one that tells of a key and an error.
const LINE_MAX: usize = 2048;

/// The longest value that is taken, in bytes: far more than was stored.
const VALUE_MAX: usize = 1024;

/// A connection. Every error names the peer.
pub(super) struct Wire {
    stream: Stream,
    peer: String,
    timeout: Duration,
    deadline: Instant,
    unread: Vec<u8>,
}

enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Wire {
    /// Connects to `endpoint`, which each exchange may take this long.
    pub(super) fn connect(endpoint: &Endpoint, timeout: Duration) -> Result<Self, String> {
        let peer = endpoint.to_string();
        let stream = Stream::connect(endpoint, timeout)
            .map_err(|error| format!("cannot connect to {peer}: {error}"))?;
        Ok(Self { stream, peer, timeout, deadline: now() + timeout, unread: Vec::new() })
    }

    /// Begins an exchange.
    pub(super) fn send(&mut self, request: &[u8]) -> Result<(), String> {
        self.deadline = now() + self.timeout;
        let sent = self.left().and_then(|left| self.stream.write_all(request, left));
        sent.map_err(|error| self.broken(&error))
    }

    /// The next line of a reply, without its end.
    pub(super) fn line(&mut self) -> Result<String, String> {
        let end = loop {
            match self.unread.windows(2).position(|pair| pair == b"\r\n") {
                Some(end) => break end,
                None if self.unread.len() > LINE_MAX => {
                    return Err(format!("{} answers with a line of more than {LINE_MAX} bytes", self.peer));
                }
                None => self.receive()?,
            }
        };
        let line = String::from_utf8_lossy(&self.unread[..end]).into_owned();
        self.unread.drain(..end + 2);
        Ok(line)
    }

    /// The keys and values that answer a `get`.
    pub(super) fn values(&mut self) -> Result<Vec<(String, Vec<u8>)>, String> {
        let mut values = Vec::new();
        loop {
            let line = self.line()?;
            if line == "END" {
                return Ok(values);
            }
            let words: Vec<_> = line.split(' ').collect();
            let length = words.get(3).and_then(|length| length.parse::<usize>().ok());
            match (words.as_slice(), length) {
                (["VALUE", key, ..], Some(length)) if length <= VALUE_MAX => {
                    let value = self.exactly(length + 2)?;
                    values.push(((*key).to_owned(), value[..length].to_vec()));
                }
                _ => return Err(format!("{} answers a get with {line:?}", self.peer)),
            }
        }
    }

    fn exactly(&mut self, count: usize) -> Result<Vec<u8>, String> {
        while self.unread.len() < count {
            self.receive()?;
        }
        Ok(self.unread.drain(..count).collect())
    }

    fn receive(&mut self) -> Result<(), String> {
        let mut room = [0; 4096];
        let read = self.left().and_then(|left| self.stream.read(&mut room, left));
        match read {
            Ok(0) => Err(format!("{} closed the connection", self.peer)),
            Ok(count) => {
                self.unread.extend_from_slice(&room[..count]);
                Ok(())
            }
            Err(error) => Err(self.broken(&error)),
        }
    }

    fn left(&self) -> io::Result<Duration> {
        let left = self.deadline.saturating_duration_since(now());
        if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
    }

    fn broken(&self, error: &io::Error) -> String {
        match error.kind() {
            io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => {
                format!("{} has not answered within {:?}", self.peer, self.timeout)
            }
            _ => format!("the connection to {} broke: {error}", self.peer),
        }
    }
}

impl Stream {
    fn connect(endpoint: &Endpoint, timeout: Duration) -> io::Result<Self> {
        let (host, port) = match endpoint {
            Endpoint::Unix { path } => return UnixStream::connect(path).map(Self::Unix),
            Endpoint::Tcp { host, port } => (host.as_str(), *port),
        };
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        for address in (host, port).to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, timeout) {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    return Ok(Self::Tcp(stream));
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn write_all(&mut self, bytes: &[u8], left: Duration) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.set_write_timeout(Some(left)).and_then(|()| stream.write_all(bytes)),
            Self::Unix(stream) => stream.set_write_timeout(Some(left)).and_then(|()| stream.write_all(bytes)),
        }
    }

    fn read(&mut self, room: &mut [u8], left: Duration) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.set_read_timeout(Some(left)).and_then(|()| stream.read(room)),
            Self::Unix(stream) => stream.set_read_timeout(Some(left)).and_then(|()| stream.read(room)),
        }
    }
}

fn now() -> Instant {
    #[expect(clippy::disallowed_methods, reason = "a command that talks to servers has deadlines")]
    Instant::now()
}

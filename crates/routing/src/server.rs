//! One server: where it is, what it is called, and what it weighs (`weight`).

pub(crate) mod weight;

use std::fmt;
use std::net::Ipv6Addr;
use std::num::NonZeroU16;
use std::str::FromStr;

use self::weight::{Weight, WeightError};

/// memcached's registered port. Ketama labels leave it out.
const DEFAULT_PORT: u16 = 11_211;

/// The longest host and the longest name, in bytes: as long as a host name may be. They stand in replies and metrics.
const NAME_MAX: usize = 255;

/// The longest path of a socket, in bytes: what `sockaddr_un` of unix(7) has room for before its final zero.
const PATH_MAX: usize = 107;

/// One memcached server of a pool.
///
/// As text: `HOST:PORT` or `unix:/PATH` (or `/PATH`), then `:WEIGHT` if it is not 1, then a space and a name if it has one
/// (the form of twemproxy's configuration). An IPv6 address stands in brackets.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Server {
    /// What the server is called in records and metrics: its address as it was given, unless it was given a name.
    pub name: String,
    /// Where it is.
    pub endpoint: Endpoint,
    /// Share of the keys relative to the other servers.
    pub weight: Weight,
}

/// Where a server can be connected to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Endpoint {
    /// By TCP.
    Tcp {
        /// Host name or address, an IPv6 address without brackets.
        host: String,
        /// Port.
        port: u16,
    },
    /// By a socket in the file system.
    Unix {
        /// Its absolute path.
        path: String,
    },
}

impl fmt::Display for Endpoint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port } => formatter.pad(&address(host, *port)),
            Self::Unix { path } => write!(formatter, "{UNIX}{path}"),
        }
    }
}

/// What a socket's path may stand behind.
const UNIX: &str = "unix:";

/// Why a text is no server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ServerError {
    /// There is no colon that could begin a port.
    #[error("server {0:?} has no port: write host:port")]
    NoPort(String),
    /// What follows the last colon is no port.
    #[error("server {0:?} has no valid port: write host:port with a port from 1 to 65535")]
    InvalidPort(String),
    /// Nothing stands before the port, or something that can be no host.
    #[error(
        "server {0:?} has no valid host: write host:port without spaces, the host at most {NAME_MAX} bytes long"
    )]
    InvalidHost(String),
    /// An IPv6 address whose end cannot be distinguished from the port, or brackets around something else.
    #[error("server {0:?} has no valid IPv6 address: write [address]:port")]
    InvalidIpv6(String),
    /// A path that no socket can have, or that could not be distinguished from what stands around it.
    #[error(
        "server {0:?} has no valid path: write unix:/path without spaces, commas and colons, at most {PATH_MAX} bytes long"
    )]
    InvalidPath(String),
    /// What follows the port is no weight.
    #[error("server {server:?}: {error}")]
    InvalidWeight {
        /// As it was given.
        server: String,
        /// Why.
        error: WeightError,
    },
    /// What follows the space is no name.
    #[error(
        "server {0:?} has no valid name: write host:port name, the name at most {NAME_MAX} bytes long, without spaces \
         or commas"
    )]
    InvalidName(String),
}

impl Server {
    /// A server of weight 1 that is called by its address.
    pub fn new(host: impl Into<String>, port: u16) -> Self {
        Self::at(Endpoint::Tcp { host: host.into(), port })
    }

    /// A server of weight 1 that is called by its address.
    pub fn at(endpoint: Endpoint) -> Self {
        Self { name: endpoint.to_string(), endpoint, weight: Weight::ONE }
    }

    /// Where the server is, as `host:port`, `[address]:port` or `unix:/path`.
    pub fn address(&self) -> String {
        self.endpoint.to_string()
    }

    /// The same server with a weight.
    #[must_use]
    pub fn with_weight(self, weight: Weight) -> Self {
        Self { weight, ..self }
    }

    /// The same server under a name of its own.
    #[must_use]
    pub fn with_name(self, name: impl Into<String>) -> Self {
        Self { name: name.into(), ..self }
    }

    /// Whether the server was given a name that is not its address.
    pub fn is_named(&self) -> bool {
        self.name != self.address()
    }

    /// What stands for this server on libmemcached's and twemproxy's rings. That is its name if it was given one, so that a server can move
    /// to another machine and keep its keys. Otherwise it is `host:port`, or `host` alone for memcached's own port.
    pub(crate) fn label(&self) -> String {
        match &self.endpoint {
            _ if self.is_named() => self.name.clone(),
            Endpoint::Tcp { host, port: DEFAULT_PORT } => host.clone(),
            Endpoint::Tcp { .. } => self.full_label(),
            Endpoint::Unix { path } => path.clone(),
        }
    }

    /// The same, with the port always. libmemcached gives memcached's own to a socket.
    pub(crate) fn full_label(&self) -> String {
        match &self.endpoint {
            _ if self.is_named() => self.name.clone(),
            Endpoint::Tcp { host, port } => format!("{host}:{port}"),
            Endpoint::Unix { path } => format!("{path}:{DEFAULT_PORT}"),
        }
    }

    /// The host, or the path of the socket.
    pub(crate) fn host(&self) -> &str {
        match &self.endpoint {
            Endpoint::Tcp { host, .. } => host,
            Endpoint::Unix { path } => path,
        }
    }
}

impl fmt::Display for Server {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(&self.name)
    }
}

impl FromStr for Server {
    type Err = ServerError;

    fn from_str(text: &str) -> Result<Self, ServerError> {
        let (place, name) = text.split_once(' ').map_or((text, None), |(place, name)| (place, Some(name)));
        let (endpoint, weight) = split_weight(place).map_err(|error| error(text.to_owned()))?;
        let mut server = Self::at(endpoint);
        if let Some(weight) = weight {
            let invalid = |error| ServerError::InvalidWeight { server: text.to_owned(), error };
            server.weight = weight.parse().map_err(invalid)?;
        }
        if let Some(name) = name {
            if name.is_empty() || name.len() > NAME_MAX || name.contains(forbidden) {
                return Err(ServerError::InvalidName(text.to_owned()));
            }
            server.name = name.to_owned();
        }
        Ok(server)
    }
}

/// Makes an error of a server as it was given.
type Reason = fn(String) -> ServerError;

/// Where a server is, and the text of its weight.
fn split_weight(place: &str) -> Result<(Endpoint, Option<&str>), Reason> {
    if let Some(path) = place.strip_prefix(UNIX).or_else(|| place.starts_with('/').then_some(place)) {
        let (path, weight) = path.split_once(':').map_or((path, None), |(path, weight)| (path, Some(weight)));
        let is_path = path.len() > 1 && path.len() <= PATH_MAX && path.starts_with('/');
        if !is_path || path.contains(forbidden) {
            return Err(ServerError::InvalidPath);
        }
        return Ok((Endpoint::Unix { path: path.to_owned() }, weight));
    }
    let (host, after) = split_host(place)?;
    let (port, weight) = after.split_once(':').map_or((after, None), |(port, weight)| (port, Some(weight)));
    let port = parse_port(port).ok_or(ServerError::InvalidPort as Reason)?;
    Ok((Endpoint::Tcp { host: host.to_owned(), port }, weight))
}

/// The host, and what follows the colon behind it.
fn split_host(place: &str) -> Result<(&str, &str), Reason> {
    if let Some(rest) = place.strip_prefix('[') {
        let (address, after) = rest.split_once("]:").ok_or(ServerError::InvalidIpv6 as Reason)?;
        let valid = address.parse::<Ipv6Addr>().is_ok();
        return if valid { Ok((address, after)) } else { Err(ServerError::InvalidIpv6) };
    }
    let (host, after) = place.split_once(':').ok_or(ServerError::NoPort as Reason)?;
    if host.ends_with(']') || after.matches(':').count() > 1 {
        return Err(ServerError::InvalidIpv6);
    }
    if host.is_empty() || host.len() > NAME_MAX || host.contains(|c| forbidden(c) || c == '/') {
        return Err(ServerError::InvalidHost);
    }
    Ok((host, after))
}

fn forbidden(c: char) -> bool {
    c.is_whitespace() || c.is_control() || c == ','
}

fn address(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// Digits only: the standard parser would take a sign as well.
fn parse_port(text: &str) -> Option<u16> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse::<NonZeroU16>().ok()).flatten().map(NonZeroU16::get)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_split_and_put_together() {
        let check = |text: &str, host: &str, port: u16| {
            let server: Server = text.parse().unwrap();
            let endpoint = Endpoint::Tcp { host: host.to_owned(), port };
            assert_eq!((&server.endpoint, server.weight), (&endpoint, Weight::ONE));
            assert_eq!((server.name.as_str(), server.address().as_str()), (text, text));
        };
        check("127.0.0.1:21211", "127.0.0.1", 21211);
        check("cache-7.example:11211", "cache-7.example", 11211);
        check("[::1]:11211", "::1", 11211);
    }

    #[test]
    fn weight_and_name_may_follow() {
        let check = |text: &str, address: &str, weight: &str, name: &str| {
            let server: Server = text.parse().unwrap();
            assert_eq!((server.address().as_str(), server.name.as_str()), (address, name), "{text}");
            assert_eq!(server.weight.to_string(), weight, "{text}");
        };
        check("10.0.0.1:11211:3", "10.0.0.1:11211", "3", "10.0.0.1:11211");
        check("10.0.0.1:11211:0.5 red", "10.0.0.1:11211", "0.5", "red");
        check("10.0.0.1:11211 red:1", "10.0.0.1:11211", "1", "red:1");
        check("[::1]:11211:2 red", "[::1]:11211", "2", "red");
        check("unix:/run/m.sock", "unix:/run/m.sock", "1", "unix:/run/m.sock");
        check("/run/m.sock:3", "unix:/run/m.sock", "3", "unix:/run/m.sock");
        check("/run/m.sock:3 red", "unix:/run/m.sock", "3", "red");
    }

    #[test]
    fn what_is_no_address_is_refused_with_a_reason() {
        let check = |text: &str, expected: fn(String) -> ServerError| {
            assert_eq!(text.parse::<Server>(), Err(expected(text.to_owned())));
        };
        check("", ServerError::NoPort);
        check("localhost", ServerError::NoPort);
        check("a b:1", ServerError::NoPort);
        for text in ["localhost:", "localhost:0", "localhost:65536", "localhost:+80", "localhost:x"] {
            check(text, ServerError::InvalidPort);
        }
        for text in [":11211", "a\tb:1", "a/b:1", "a,b:1", "a\n:1"] {
            check(text, ServerError::InvalidHost);
        }
        for text in ["::1:11211", "[::1:11211", "::1]:11211", "[host]:11211", "[]:1", "[::1]11211"] {
            check(text, ServerError::InvalidIpv6);
        }
        check(&format!("{}:1", "a".repeat(256)), ServerError::InvalidHost);
        check(&format!("a:1 {}", "b".repeat(256)), ServerError::InvalidName);
        for text in ["unix:", "unix:run/m.sock", "/", "unix:/a,b", "unix:/a\tb"] {
            check(text, ServerError::InvalidPath);
        }
        check(&format!("/{}", "a".repeat(107)), ServerError::InvalidPath);
        for text in ["a:1 ", "a:1 b c", "a:1 b,c", "a:1  b"] {
            check(text, ServerError::InvalidName);
        }
        let error = "a:1:0".parse::<Server>().unwrap_err().to_string();
        assert!(error.starts_with("server \"a:1:0\": weight \"0\" is no number above 0"), "{error}");
        let error = "localhost".parse::<Server>().unwrap_err().to_string();
        assert_eq!(error, "server \"localhost\" has no port: write host:port");
    }

    #[test]
    fn labels_leave_out_memcached_s_own_port_and_prefer_a_given_name() {
        assert_eq!(Server::new("10.0.1.1", 11211).label(), "10.0.1.1");
        assert_eq!(Server::new("10.0.1.1", 11212).label(), "10.0.1.1:11212");
        assert_eq!(Server::new("10.0.1.1", 11211).full_label(), "10.0.1.1:11211");
        let named = Server::new("10.0.1.1", 11212).with_name("red");
        assert_eq!(named.label(), "red");
        let socket: Server = "unix:/run/m.sock".parse().unwrap();
        assert_eq!(
            (socket.label().as_str(), socket.full_label().as_str()),
            ("/run/m.sock", "/run/m.sock:11211")
        );
        assert_eq!(socket.with_name("red").label(), "red");
    }
}

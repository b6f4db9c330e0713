use std::fmt;
use std::net::Ipv6Addr;
use std::num::NonZeroU16;
use std::str::FromStr;

/// memcached's registered port. Ketama labels leave it out.
const DEFAULT_PORT: u16 = 11_211;

/// One memcached server of a pool.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Server {
    /// What the server is called in records and metrics: `host:port` as it was given, unless it was given a name.
    pub name: String,
    /// Host name or address, an IPv6 address without brackets.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// Share of the keys relative to the other servers; at least 1.
    pub weight: u32,
}

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
    #[error("server {0:?} has no valid host: write host:port without spaces")]
    InvalidHost(String),
    /// An IPv6 address whose end cannot be told from the port, or brackets around something else.
    #[error("server {0:?} has no valid IPv6 address: write [address]:port")]
    InvalidIpv6(String),
}

impl Server {
    /// A server of weight 1 that is called by its address.
    pub fn new(host: impl Into<String>, port: u16) -> Self {
        let host = host.into();
        Self { name: address(&host, port), host, port, weight: 1 }
    }

    /// Where the server is, as `host:port` or `[address]:port`.
    pub fn address(&self) -> String {
        address(&self.host, self.port)
    }

    /// What stands for this server on a ketama ring: its name if it was given one, so that a server can move to
    /// another machine and keep its keys; otherwise `host:port`, or `host` alone for memcached's own port.
    pub(crate) fn label(&self) -> String {
        if self.name != self.address() {
            self.name.clone()
        } else if self.port == DEFAULT_PORT {
            self.host.clone()
        } else {
            format!("{}:{}", self.host, self.port)
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
        let (host, port) = text.rsplit_once(':').ok_or_else(|| ServerError::NoPort(text.to_owned()))?;
        let port = parse_port(port).ok_or_else(|| ServerError::InvalidPort(text.to_owned()))?;
        if host.starts_with('[') || host.ends_with(']') || host.contains(':') {
            let address = host
                .strip_prefix('[')
                .and_then(|rest| rest.strip_suffix(']'))
                .filter(|address| address.parse::<Ipv6Addr>().is_ok())
                .ok_or_else(|| ServerError::InvalidIpv6(text.to_owned()))?;
            return Ok(Self::new(address, port));
        }
        if host.is_empty() || host.contains(|c: char| c.is_whitespace() || c.is_control() || "/,".contains(c))
        {
            return Err(ServerError::InvalidHost(text.to_owned()));
        }
        Ok(Self::new(host, port))
    }
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
    fn addresses_are_taken_apart_and_put_together() {
        let check = |text: &str, host: &str, port: u16| {
            let server: Server = text.parse().unwrap();
            assert_eq!((server.host.as_str(), server.port, server.weight), (host, port, 1));
            assert_eq!((server.name.as_str(), server.address().as_str()), (text, text));
        };
        check("127.0.0.1:21211", "127.0.0.1", 21211);
        check("cache-7.example:11211", "cache-7.example", 11211);
        check("[::1]:11211", "::1", 11211);
    }

    #[test]
    fn what_is_no_address_is_refused_with_a_reason() {
        let check = |text: &str, expected: fn(String) -> ServerError| {
            assert_eq!(text.parse::<Server>(), Err(expected(text.to_owned())));
        };
        check("", ServerError::NoPort);
        check("localhost", ServerError::NoPort);
        for text in ["localhost:", "localhost:0", "localhost:65536", "localhost:+80", "localhost:x"] {
            check(text, ServerError::InvalidPort);
        }
        for text in [":11211", "a b:1", "a/b:1", "a,b:1", "a\n:1"] {
            check(text, ServerError::InvalidHost);
        }
        for text in ["::1:11211", "[::1:11211", "::1]:11211", "[host]:11211", "[]:1"] {
            check(text, ServerError::InvalidIpv6);
        }
        let error = "localhost".parse::<Server>().unwrap_err().to_string();
        assert_eq!(error, "server \"localhost\" has no port: write host:port");
    }

    #[test]
    fn labels_leave_out_memcached_s_own_port_and_prefer_a_given_name() {
        assert_eq!(Server::new("10.0.1.1", 11211).label(), "10.0.1.1");
        assert_eq!(Server::new("10.0.1.1", 11212).label(), "10.0.1.1:11212");
        let named = Server { name: "red".into(), ..Server::new("10.0.1.1", 11212) };
        assert_eq!(named.label(), "red");
    }
}

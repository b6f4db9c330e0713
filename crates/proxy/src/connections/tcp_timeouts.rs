//! What the kernel watches where nothing comes: whether the machine at the other end is still there.
//!
//! A machine that is gone, or a path that swallows everything, ends no connection by itself. Two settings of TCP do, later than the
//! dataplane finds it out where requests wait (its second opinions), but also where none do:
//!
//! - *keepalive*: after so long without a byte the kernel asks the other machine; when it has not answered three times, the connection
//!   ends. For clients and servers.
//! - *user timeout*: when what was sent is not acknowledged for so long. For servers. A frozen process's kernel acknowledges what it
//!   has room for; when it has none left, Linux ends the connection after this time, too. So this end says nothing about what the
//!   server will still carry out: [`crate::connections::sockets`] tells it as broken, and not as closed by the server.
//!
//! A socket in the file system has neither.

use crate::connections::sockets::Stream;
use rustix::net::sockopt;
use std::{io, os::fd::AsFd, time::Duration};

/// How long the kernel waits for the machine at the other end. Zero: as long as the kernel does by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TcpTimeouts {
    /// How long nothing may come before the kernel asks whether the other machine is still there.
    keepalive: Duration,
    /// How long what was sent to a server may stay unacknowledged.
    user_timeout: Duration,
}

/// Questions without an answer until a connection ends.
const PROBES: u32 = 3;

/// Between two of these questions lies a sixth of the time before the first one, in whole seconds.
const PROBE_SHARE: u32 = 6;

impl TcpTimeouts {
    pub(crate) const fn new(keepalive: Duration, user_timeout: Duration) -> Self {
        Self { keepalive, user_timeout }
    }

    /// What is said of a listener holds for every connection that it accepts.
    pub(crate) fn guard_clients(self, listener: impl AsFd) -> io::Result<()> {
        self.keep_alive(listener.as_fd())
    }

    /// Without it the connection works all the same.
    pub(crate) fn guard_server(self, stream: &Stream) {
        if let Stream::Tcp(stream) = stream {
            let _ = self.keep_alive(stream);
            if !self.user_timeout.is_zero() {
                let millis = u32::try_from(self.user_timeout.as_millis()).unwrap_or(u32::MAX);
                let _ = sockopt::set_tcp_user_timeout(stream, millis.max(1));
            }
        }
    }

    fn keep_alive(self, socket: impl AsFd + Copy) -> io::Result<()> {
        if self.keepalive.is_zero() {
            return Ok(());
        }
        sockopt::set_socket_keepalive(socket, true)?;
        sockopt::set_tcp_keepidle(socket, in_seconds(self.keepalive))?;
        sockopt::set_tcp_keepintvl(socket, in_seconds(self.keepalive / PROBE_SHARE))?;
        Ok(sockopt::set_tcp_keepcnt(socket, PROBES)?)
    }
}

/// The kernel counts whole seconds, 1 to 32,767.
fn in_seconds(time: Duration) -> Duration {
    Duration::from_secs(time.as_secs().clamp(1, 32_767))
}

#[cfg(test)]
mod tests {
    use super::*;
    use mio::net::{TcpListener, TcpStream};

    #[test]
    fn both_ends_are_watched() {
        let timeouts =
            TcpTimeouts { keepalive: Duration::from_secs(12), user_timeout: Duration::from_millis(700) };
        let listener = TcpListener::bind("127.0.0.1:0".parse().expect("an address")).expect("a port is free");
        timeouts.guard_clients(&listener).expect("Linux knows it");
        let stream = TcpStream::connect(listener.local_addr().expect("it listens")).expect("it listens");
        let stream = Stream::Tcp(stream);
        timeouts.guard_server(&stream);
        let accepted = loop {
            if let Ok((accepted, _)) = listener.accept() {
                break accepted;
            }
        };
        for socket in [stream.as_fd(), accepted.as_fd()] {
            assert_eq!(sockopt::socket_keepalive(socket), Ok(true));
            assert_eq!(sockopt::tcp_keepidle(socket), Ok(Duration::from_secs(12)));
            assert_eq!(sockopt::tcp_keepintvl(socket), Ok(Duration::from_secs(2)));
        }
        assert_eq!(sockopt::tcp_user_timeout(stream.as_fd()), Ok(700));
        assert_eq!(sockopt::tcp_user_timeout(accepted.as_fd()), Ok(0));
    }
}

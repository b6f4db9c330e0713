//! Ports that the service manager holds open, and hands over at the start (socket activation of systemd).
//!
//! ```text
//!   weir.socket: listens ──descriptors 3, 4, … and LISTEN_FDS──▶ Ports: clients, admin ──▶ accepted from
//!        │ connections wait here while no proxy runs
//! ```
//!
//! The protocol is that of sd_listen_fds(3), and the crate `listenfd` speaks it. A port belongs to the setting that has its address.
//! What belongs to none is an error: a proxy that listened elsewhere would leave the clients of that port waiting for ever. What is not
//! handed over is opened by the proxy itself.

use crate::{
    config::listeners::{LISTENERS_MAX, Listen, ListenPlace},
    process::error::RunError,
};
use listenfd::ListenFd;
use nix::sys::socket::{getsockopt, sockopt::AcceptConn};
use std::{
    env,
    fmt::{self, Display},
    io::{self, ErrorKind},
    net::{SocketAddr, TcpListener},
    os::{fd::AsFd, unix::net::UnixListener},
};

/// Ports that were handed over.
#[derive(Debug, Default)]
pub(crate) struct Ports {
    /// One for each place where clients connect; `None`: the proxy opens it.
    clients: Vec<Option<Port>>,
    admin: Option<TcpListener>,
}

/// One of them. It does not block.
#[derive(Debug)]
pub(crate) enum Port {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// More are not looked at: a proxy has no more ports, the admin port among them.
const PORTS_MAX: usize = LISTENERS_MAX + 1;

impl Ports {
    /// What was handed over for these addresses. Variables of the environment are read and removed, so nothing may run beside it.
    pub(crate) fn inherited(places: &[ListenPlace], admin: Option<SocketAddr>) -> Result<Self, RunError> {
        let variable = |name| env::var(name).ok();
        let pid = variable("LISTEN_PID");
        let handed = Handed::of(
            variable("LISTEN_FDS").as_deref(),
            variable("LISTEN_FDS_FIRST_FD").as_deref(),
            pid.as_deref(),
            std::process::id(),
        );
        match handed {
            Handed::Nothing => Ok(Self::default()),
            Handed::TooMuch => Err(RunError::Inherited {
                what: format!("more than {PORTS_MAX} sockets, and a proxy has no more ports"),
            }),
            Handed::Some => {
                let mut sockets = ListenFd::from_env();
                let ports = (0..sockets.len()).map(|place| take(&mut sockets, place));
                let ports = ports.collect::<io::Result<Vec<_>>>().map_err(|error| RunError::Inherited {
                    what: format!(
                        "what is no port ({error}): only stream sockets that listen are (ListenStream=, without Accept=yes)"
                    ),
                })?;
                Self::of(ports, places, admin)
            }
        }
    }

    fn of(mut ports: Vec<Port>, places: &[ListenPlace], admin: Option<SocketAddr>) -> Result<Self, RunError> {
        let handed = ports.iter().map(ToString::to_string).collect::<Vec<_>>().join(" and ");
        let mut take = |listen: &Listen| {
            ports.iter().position(|port| port.is_at(listen)).map(|number| ports.remove(number))
        };
        let clients = places.iter().map(|place| take(&place.at)).collect();
        let at_admin = |port: &Port| admin.is_some_and(|admin| port.is_at(&Listen::Tcp(admin)));
        let admin_port = ports.iter().position(at_admin).map(|place| ports.remove(place));
        if let Some(stray) = ports.first() {
            let listen: Vec<_> = places.iter().map(|place| place.at.to_string()).collect();
            let listen = listen.join(", ");
            let admin = admin.map_or_else(|| "not given".to_owned(), |admin| admin.to_string());
            return Err(RunError::Inherited {
                what: format!(
                    "{handed}, and {stray} is neither --listen ({listen}) nor --admin ({admin}): give the same address there and in the \
                     socket unit (ListenStream=), once"
                ),
            });
        }
        let admin = admin_port.and_then(|port| match port {
            Port::Tcp(listener) => Some(listener),
            Port::Unix(_) => None,
        });
        Ok(Self { clients, admin })
    }

    /// Those of clients, as many as there are places at most and in their order, and the admin port.
    pub(crate) fn into_both(self) -> (Vec<Option<Port>>, Option<TcpListener>) {
        (self.clients, self.admin)
    }

    /// Where they are, for the log; none if nothing was handed over.
    pub(crate) fn addresses(&self) -> Vec<String> {
        let admin = self.admin.as_ref().and_then(|listener| listener.local_addr().ok());
        let clients = self.clients.iter().flatten().map(ToString::to_string);
        clients.chain(admin.map(|address| address.to_string())).collect()
    }
}

impl Port {
    fn is_at(&self, listen: &Listen) -> bool {
        match (self, listen) {
            (Self::Tcp(listener), Listen::Tcp(address)) => {
                listener.local_addr().is_ok_and(|found| found == *address)
            }
            (Self::Unix(listener), Listen::Unix { path, .. }) => {
                listener.local_addr().is_ok_and(|found| found.as_pathname() == Some(path.as_path()))
            }
            _ => false,
        }
    }
}

impl Display for Port {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(listener) => match listener.local_addr() {
                Ok(address) => write!(formatter, "{address}"),
                Err(_) => write!(formatter, "a port"),
            },
            Self::Unix(listener) => {
                let address = listener.local_addr().ok();
                match address.as_ref().and_then(|address| address.as_pathname()) {
                    Some(path) => write!(formatter, "unix:{}", path.display()),
                    None => write!(formatter, "a socket without a path"),
                }
            }
        }
    }
}

/// What the environment says of sockets that were handed over.
#[derive(Debug, PartialEq, Eq)]
enum Handed {
    /// There are none, or they are another process's.
    Nothing,
    /// More than anybody would mean: each would be remembered.
    TooMuch,
    Some,
}

impl Handed {
    fn of(count: Option<&str>, first: Option<&str>, pid: Option<&str>, own: u32) -> Self {
        if pid.and_then(|pid| pid.parse().ok()) != Some(own) {
            return Self::Nothing;
        }
        // The crate counts with i32.
        let Some(count) = count.and_then(|count| count.parse::<i128>().ok()).filter(|&count| count > 0)
        else {
            return Self::Nothing;
        };
        let first = first.and_then(|first| first.parse().ok()).unwrap_or(3i128);
        let is_usual = count <= PORTS_MAX as i128 && (0..i128::from(i32::MAX) - count).contains(&first);
        if is_usual { Self::Some } else { Self::TooMuch }
    }
}

/// The socket with this number.
fn take(sockets: &mut ListenFd, place: usize) -> io::Result<Port> {
    let port = match sockets.take_unix_listener(place) {
        Ok(Some(listener)) => Port::Unix(listener),
        // The second error says what it is not.
        _ => {
            let taken = sockets.take_tcp_listener(place)?;
            Port::Tcp(taken.ok_or_else(|| io::Error::new(ErrorKind::InvalidInput, "it was taken before"))?)
        }
    };
    match &port {
        Port::Tcp(listener) => check(listener).and_then(|()| listener.set_nonblocking(true)),
        Port::Unix(listener) => check(listener).and_then(|()| listener.set_nonblocking(true)),
    }?;
    Ok(port)
}

fn check(listener: &impl AsFd) -> io::Result<()> {
    if getsockopt(listener, AcceptConn)? {
        return Ok(());
    }
    Err(io::Error::new(ErrorKind::InvalidInput, "a socket that does not listen"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn tcp() -> (Port, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = listener.local_addr().expect("it has one");
        (Port::Tcp(listener), address)
    }

    /// A socket in the file system, which is removed at once: its address stays.
    fn unix(name: &str) -> (Port, Listen) {
        let path = env::temp_dir().join(format!("weir-inherited-{}-{name}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let listener = UnixListener::bind(&path).expect("it can be made");
        std::fs::remove_file(&path).expect("it is there");
        (Port::Unix(listener), Listen::Unix { path, mode: 0o660 })
    }

    fn places(at: &[Listen]) -> Vec<ListenPlace> {
        let place =
            |at: &Listen| ListenPlace { at: at.clone(), speaks_tls: false, wants_login: false, pool: None };
        at.iter().map(place).collect()
    }

    #[test]
    fn a_port_belongs_to_the_setting_with_its_address() {
        let ((one, listen), (other, admin)) = (tcp(), tcp());
        let at = places(&[Listen::Tcp(listen)]);
        let ports = Ports::of(vec![other, one], &at, Some(admin)).expect("both are asked for");
        assert_eq!(ports.addresses(), [listen.to_string(), admin.to_string()]);
        let (port, listen) = unix("alone");
        let at = places(&[Listen::Tcp(admin), listen]);
        let ports = Ports::of(vec![port], &at, None).expect("it is asked for");
        assert!(matches!(ports.clients[..], [None, Some(Port::Unix(_))]) && ports.admin.is_none());
        let (port, admin) = tcp();
        let listen = Listen::Unix { path: Path::new("/run/weir.sock").to_owned(), mode: 0 };
        let at = places(&[listen]);
        let ports = Ports::of(vec![port], &at, Some(admin)).expect("the proxy opens the other itself");
        assert!(matches!(ports.clients[..], [None]) && ports.admin.is_some());
        assert_eq!(Ports::of(Vec::new(), &at, None).expect("nothing").addresses(), [""; 0]);
    }

    #[test]
    fn a_port_that_nobody_asked_for_is_an_error_that_names_all() {
        let ((one, listen), (other, stray)) = (tcp(), tcp());
        let at = places(&[Listen::Tcp(listen)]);
        let error = Ports::of(vec![one, other], &at, None).map(|_| ()).expect_err("a stray");
        let expected = format!(
            "the service manager handed over {listen} and {stray}, and {stray} is neither --listen ({listen}) nor --admin (not given): "
        );
        assert!(error.to_string().starts_with(&expected), "{error}");
        let ((port, _), (_, listen)) = (unix("one"), unix("other"));
        let error = Ports::of(vec![port], &places(&[listen]), None).map(|_| ()).expect_err("another path");
        assert!(error.to_string().contains("-one is neither --listen (unix:/"), "{error}");
    }

    #[test]
    fn what_is_meant_for_another_process_or_by_nobody_is_left() {
        use Handed as H;
        let check = |count, first, pid| Handed::of(count, first, pid, 7);
        assert_eq!(check(Some("1"), None, Some("7")), H::Some);
        assert_eq!(check(Some("1"), Some("3"), Some("7")), H::Some);
        for (count, pid) in [
            (Some("1"), Some("8")),
            (Some("1"), None),
            (Some("1"), Some("")),
            (None, Some("7")),
            (Some("0"), Some("7")),
            (Some("-1"), Some("7")),
            (Some("many"), Some("7")),
        ] {
            assert_eq!(check(count, None, pid), H::Nothing, "{count:?} {pid:?}");
        }
        assert_eq!(check(Some("66"), None, Some("7")), H::TooMuch);
        assert_eq!(check(Some("99999999999999999999"), None, Some("7")), H::TooMuch);
        assert_eq!(check(Some("2"), Some("2147483646"), Some("7")), H::TooMuch);
        assert_eq!(check(Some("1"), Some("-1"), Some("7")), H::TooMuch);
    }

    #[test]
    fn a_socket_that_does_not_listen_is_no_port() {
        let (one, _other) = std::os::unix::net::UnixStream::pair().expect("descriptors are free");
        assert!(check(&one).is_err());
        assert!(check(&TcpListener::bind("127.0.0.1:0").expect("a port is free")).is_ok());
    }
}

//! What a service manager such as systemd gets to know: that the proxy serves, what it does, that it goes on, and that it stops.
//!
//! ```text
//!   starting ──READY=1──▶ serving ──STOPPING=1──▶ stopping ──▶ ended
//!                          │   ▲ STATUS=…, WATCHDOG=1
//!               RELOADING=1▼   │READY=1
//!                        reloading
//! ```
//!
//! The protocol is that of sd_notify(3): datagrams with lines `NAME=value` to the socket that the variable `NOTIFY_SOCKET` names. Where
//! there is none, nothing is sent. [`ServiceManager`] owns the socket. What cannot be sent is lost: whoever started the proxy hears of it
//! (`failed`), and the proxy goes on. Nobody who serves clients sends anything here, because a service manager that hangs makes a sender
//! wait, for [`WAIT_MAX`] at most.

use crate::process::clock;
use std::{
    env,
    ffi::OsStr,
    fmt,
    io::{self, ErrorKind},
    os::{
        linux::net::SocketAddrExt as _,
        unix::{
            ffi::OsStrExt as _,
            net::{SocketAddr, UnixDatagram},
        },
    },
    process,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

/// How long a datagram may wait for room in the service manager's queue.
const WAIT_MAX: Duration = Duration::from_secs(1);

/// The longest status in bytes. systemd drops datagrams of more than 4,096.
const STATUS_BYTES_MAX: usize = 1000;

/// The shortest time between two looks at threads, whatever the service manager asks for.
const WATCHDOG_MIN: Duration = Duration::from_millis(40);

/// Reaches the service manager, if there is one.
#[derive(Clone, Default)]
pub(crate) struct ServiceManager(Option<Arc<Connected>>);

struct Connected {
    socket: UnixDatagram,
    address: SocketAddr,
    /// The last datagram was lost.
    is_failing: AtomicBool,
    /// That the proxy serves was lost: it is to be sent again.
    owes_ready: AtomicBool,
    /// Nothing but an end comes any more.
    is_stopping: AtomicBool,
    failed: Failed,
}

/// Is given the reason when something cannot be sent, and not again before something could.
type Failed = Box<dyn Fn(String) + Send + Sync>;

impl ServiceManager {
    /// The one that the environment names.
    pub(crate) fn from_env(failed: impl Fn(String) + Send + Sync + 'static) -> Self {
        Self::new(env::var_os("NOTIFY_SOCKET").as_deref(), failed)
    }

    fn new(address: Option<&OsStr>, failed: impl Fn(String) + Send + Sync + 'static) -> Self {
        let Some(address) = address.filter(|it| !it.is_empty()) else { return Self(None) };
        let opened = parse(address).and_then(|address| Ok((open()?, address)));
        match opened {
            Ok((socket, address)) => Self(Some(Arc::new(Connected {
                socket,
                address,
                is_failing: AtomicBool::new(false),
                owes_ready: AtomicBool::new(false),
                is_stopping: AtomicBool::new(false),
                failed: Box::new(failed),
            }))),
            Err(error) => {
                failed(format!("NOTIFY_SOCKET={}: {error}", address.display()));
                Self(None)
            }
        }
    }

    pub(crate) fn is_there(&self) -> bool {
        self.0.is_some()
    }

    /// Clients can connect.
    pub(crate) fn ready(&self, status: &str) {
        self.send_ready(format_args!("READY=1\nSTATUS={}", one_line(status)));
    }

    /// Whether [`ServiceManager::ready`] is to be said again: a service of which it is lost never comes up, or reloads for ever.
    pub(crate) fn owes_ready(&self) -> bool {
        self.0.as_ref().is_some_and(|it| it.owes_ready.load(Ordering::SeqCst))
    }

    /// What the proxy does now, in one line.
    pub(crate) fn status(&self, status: &str) {
        self.send(format_args!("STATUS={}", one_line(status)));
    }

    /// All threads that serve go on.
    pub(crate) fn alive(&self) {
        self.send("WATCHDOG=1");
    }

    /// The configuration is being read again, until what is returned is dropped.
    pub(crate) fn reloading(&self) -> Reloading {
        // A reload does not call a stop off.
        let service_manager = Self(self.0.clone().filter(|it| !it.is_stopping.load(Ordering::SeqCst)));
        service_manager.send(format_args!("RELOADING=1\nMONOTONIC_USEC={}", clock::monotonic_us()));
        Reloading(service_manager)
    }

    /// The proxy is about to stop.
    pub(crate) fn stopping(&self, status: &str) {
        if let Some(connected) = &self.0 {
            connected.is_stopping.store(true, Ordering::SeqCst);
        }
        self.send(format_args!("STOPPING=1\nSTATUS={}", one_line(status)));
    }

    fn send_ready(&self, lines: impl fmt::Display) {
        let is_lost = !self.send(lines);
        if let Some(connected) = &self.0 {
            connected.owes_ready.store(is_lost, Ordering::SeqCst);
        }
    }

    /// Whether that could be sent.
    fn send(&self, lines: impl fmt::Display) -> bool {
        let Some(connected) = &self.0 else { return false };
        match connected.send(lines.to_string().as_bytes()) {
            Ok(()) => {
                connected.is_failing.store(false, Ordering::Relaxed);
                true
            }
            Err(error) => {
                if !connected.is_failing.swap(true, Ordering::Relaxed) {
                    (connected.failed)(error.to_string());
                }
                false
            }
        }
    }
}

impl Connected {
    fn send(&self, datagram: &[u8]) -> io::Result<()> {
        // To the address, and not connected: a service manager that starts itself anew makes a new socket there.
        for _ in 0..TRIES {
            match self.socket.send_to_addr(datagram, &self.address) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    return Err(io::Error::new(ErrorKind::TimedOut, "it takes no datagrams"));
                }
                other => return other.map(drop),
            }
        }
        Err(ErrorKind::Interrupted.into())
    }
}

/// Signals may end a wait; more than a few while one datagram is sent are not meant for this process.
const TRIES: usize = 4;

/// The configuration is being read again.
pub(crate) struct Reloading(ServiceManager);

impl Drop for Reloading {
    fn drop(&mut self) {
        self.0.send_ready("READY=1");
    }
}

fn open() -> io::Result<UnixDatagram> {
    let socket = UnixDatagram::unbound()?;
    socket.set_write_timeout(Some(WAIT_MAX))?;
    Ok(socket)
}

fn parse(address: &OsStr) -> io::Result<SocketAddr> {
    match address.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name),
        [b'/', ..] => SocketAddr::from_pathname(address),
        _ => Err(io::Error::new(ErrorKind::InvalidInput, "neither a path nor a name behind @")),
    }
}

/// What a line can hold: names of servers and paths may have anything in them.
fn one_line(status: &str) -> String {
    let end = (0..=status.len().min(STATUS_BYTES_MAX)).rev().find(|&end| status.is_char_boundary(end));
    let shown = &status[..end.unwrap_or_default()];
    shown.chars().map(|letter| if letter.is_control() { '?' } else { letter }).collect()
}

/// Within which time the service manager wants to hear that the proxy goes on; `None` if it does not.
pub(crate) fn watchdog_from_env() -> Option<Duration> {
    let read = |name| env::var(name).ok();
    watchdog(read("WATCHDOG_USEC").as_deref(), read("WATCHDOG_PID").as_deref(), process::id())
}

fn watchdog(micros: Option<&str>, pid: Option<&str>, own: u32) -> Option<Duration> {
    let is_meant = pid.is_none_or(|pid| pid.parse() == Ok(own));
    let micros = micros?.parse().ok().filter(|&micros| micros > 0 && is_meant)?;
    Some(Duration::from_micros(micros).max(WATCHDOG_MIN))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{path::PathBuf, sync::mpsc};

    /// A service manager that listens there; `None`: it has none.
    fn listening(name: &str) -> (UnixDatagram, PathBuf) {
        let path = env::temp_dir().join(format!("weir-notify-{}-{name}", process::id()));
        let _ = std::fs::remove_file(&path);
        let socket = UnixDatagram::bind(&path).expect("it can be made");
        socket.set_read_timeout(Some(Duration::from_secs(30))).expect("a time");
        (socket, path)
    }

    fn received(socket: &UnixDatagram) -> String {
        let mut buffer = [0; 8192];
        let count = socket.recv(&mut buffer).expect("it comes");
        String::from_utf8(buffer[..count].to_vec()).expect("text")
    }

    #[test]
    fn each_state_has_its_lines_and_a_reload_ends_as_ready() {
        let (socket, path) = listening("states");
        let manager = ServiceManager::new(Some(path.as_os_str()), |reason| panic!("{reason}"));
        assert!(manager.is_there());
        manager.ready("listening on 127.0.0.1:1");
        assert_eq!(received(&socket), "READY=1\nSTATUS=listening on 127.0.0.1:1");
        let reloading = manager.reloading();
        let lines = received(&socket);
        let micros = lines.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").expect("systemd wants both lines");
        assert!((1..=clock::monotonic_us()).contains(&micros.parse().expect("a number")));
        drop(reloading);
        assert_eq!(received(&socket), "READY=1");
        manager.alive();
        assert_eq!(received(&socket), "WATCHDOG=1");
        manager.stopping("SIGTERM");
        assert_eq!(received(&socket), "STOPPING=1\nSTATUS=SIGTERM");
        drop(manager.reloading());
        manager.status("draining");
        assert_eq!(received(&socket), "STATUS=draining", "a reload does not call a stop off");
        std::fs::remove_file(path).expect("it is there");
    }

    #[test]
    fn a_status_is_one_line_that_systemd_takes() {
        assert_eq!(one_line("unix:/a\nREADY=1\u{7f}"), "unix:/a?READY=1?");
        let long = "é".repeat(STATUS_BYTES_MAX);
        assert_eq!(one_line(&long).len(), STATUS_BYTES_MAX);
        assert_eq!(one_line(&format!("x{long}")).len(), STATUS_BYTES_MAX - 1);
    }

    #[test]
    fn what_cannot_be_sent_is_said_once_until_something_could() {
        let (socket, path) = listening("away");
        let (sender, said) = mpsc::channel();
        let manager = ServiceManager::new(Some(path.as_os_str()), move |reason| {
            sender.send(reason).expect("the test hears");
        });
        drop(socket);
        std::fs::remove_file(&path).expect("it is there");
        manager.alive();
        manager.alive();
        assert_eq!(said.try_iter().count(), 1);
        let (socket, path) = listening("away");
        manager.alive();
        assert_eq!(received(&socket), "WATCHDOG=1", "it is found again");
        drop(socket);
        std::fs::remove_file(path).expect("it is there");
        manager.alive();
        assert_eq!(said.try_iter().count(), 1);
    }

    #[test]
    fn that_it_is_ready_is_owed_until_it_could_be_sent() {
        let (socket, path) = listening("owed");
        let manager = ServiceManager::new(Some(path.as_os_str()), drop);
        manager.ready("");
        assert!(!manager.owes_ready());
        let reloading = manager.reloading();
        drop(socket);
        std::fs::remove_file(&path).expect("it is there");
        drop(reloading);
        assert!(manager.owes_ready(), "the end of a reload was lost");
        let (socket, path) = listening("owed");
        manager.alive();
        assert!(manager.owes_ready(), "something else could be sent");
        manager.ready("listening");
        assert!(!manager.owes_ready() && !ServiceManager::default().owes_ready());
        assert_eq!(
            (received(&socket), received(&socket)),
            ("WATCHDOG=1".into(), "READY=1\nSTATUS=listening".into())
        );
        std::fs::remove_file(path).expect("it is there");
    }

    #[test]
    fn addresses_that_lead_nowhere_are_named_and_the_proxy_goes_on_without() {
        let long = format!("/{}", "x".repeat(200));
        for address in ["run/notify", "vsock:2:1", "@", long.as_str()] {
            let (sender, said) = mpsc::channel();
            let manager = ServiceManager::new(Some(OsStr::new(address)), move |reason| {
                sender.send(reason).expect("the test hears");
            });
            manager.ready("");
            let said: Vec<_> = said.try_iter().collect();
            assert_eq!(said.len(), 1, "{address}: {said:?}");
        }
        for address in [None, Some(OsStr::new(""))] {
            assert!(!ServiceManager::new(address, |reason| panic!("{reason}")).is_there());
        }
    }

    #[test]
    fn a_watchdog_is_for_the_process_that_it_names() {
        let check = |micros, pid| watchdog(micros, pid, 7).map(|time| time.as_micros());
        assert_eq!(check(Some("30000000"), Some("7")), Some(30_000_000));
        assert_eq!(check(Some("30000000"), None), Some(30_000_000));
        assert_eq!(check(Some("30000000"), Some("8")), None);
        assert_eq!(check(Some("1"), Some("7")), Some(WATCHDOG_MIN.as_micros()));
        for micros in [None, Some(""), Some("0"), Some("-1"), Some("soon"), Some("99999999999999999999")] {
            assert_eq!(check(micros, None), None, "{micros:?}");
        }
    }
}

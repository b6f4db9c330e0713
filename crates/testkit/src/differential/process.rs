//! The processes of a [`World`](super::World).

use super::{
    client::{Client, QUESTION, ReadTimeout, STORE_ANSWER},
    complaints::Complaints,
};
use std::{
    fs,
    io::{self, ErrorKind},
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU16, Ordering},
    time::Duration,
};

/// Why the processes could not be started.
#[derive(Debug)]
pub struct StartError {
    what: &'static str,
    cause: io::Error,
}

impl std::fmt::Display for StartError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} cannot be started: {} (memcached and setpriv are needed)", self.what, self.cause)
    }
}

impl std::error::Error for StartError {}

/// A process that ends with this value, and by the kernel's hand if we are killed before that.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) address: SocketAddr,
    child: Child,
    complaints: Complaints,
}

impl Process {
    fn spawn(program: &Path, arguments: &[&str], address: SocketAddr) -> io::Result<Self> {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL"]).arg(program).args(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let complaints = Complaints::of(child.stderr.take().ok_or(ErrorKind::BrokenPipe)?);
        Ok(Self { address, child, complaints })
    }

    /// How it ended and what it said last, if it has ended.
    pub(super) fn end(&mut self) -> Option<String> {
        let status = self.child.try_wait().ok()??;
        Some(format!("{status}; its last words: {}", self.complaints.last().escape_debug()))
    }

    /// Stops it as a debugger would: the kernel takes its clients' bytes, and nobody reads them.
    #[expect(
        clippy::disallowed_methods,
        reason = "a test's driver waits for a process to be stopped, within a bound"
    )]
    pub(super) fn freeze(&self) -> io::Result<()> {
        let id = self.child.id().to_string();
        let status = Command::new("sh").args(["-c", "kill -STOP $0", &id]).status()?;
        if !status.success() {
            return Err(io::Error::other(format!("kill -STOP: {status}")));
        }
        // Its threads stop one by one, soon after.
        for _ in 0..START_TIMEOUT.as_millis() {
            if all_threads_are_stopped(&id)? {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Err(ErrorKind::TimedOut.into())
    }
}

fn all_threads_are_stopped(id: &str) -> io::Result<bool> {
    for thread in fs::read_dir(format!("/proc/{id}/task"))? {
        let state = fs::read_to_string(thread?.path().join("stat"))?;
        // Behind the name, which may hold anything.
        if !state.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T')) {
            return Ok(false);
        }
    }
    Ok(true)
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Ports may be taken between looking and listening; then others are tried.
const START_ATTEMPTS: usize = 20;

/// A process that takes longer to begin does not.
const START_TIMEOUT: Duration = Duration::from_secs(20);

/// memcached as Weir speaks for one: nobody may flush it, nobody may shut it down. It has more memory than it is given to keep, so
/// that it evicts nothing. Only its one worker touches items: another thread that holds one at that moment changes what a `decr` leaves
/// behind (see [`Normal::without_padding`](super::Normal::without_padding)).
pub(super) fn start_memcached() -> Result<Process, StartError> {
    start("memcached", |address| {
        let port = address.port().to_string();
        let arguments = [
            "-l",
            "127.0.0.1",
            "-p",
            &port,
            "-U",
            "0",
            "-t",
            "1",
            "-B",
            "ascii",
            "-m",
            "1024",
            "-o",
            "no_lru_maintainer,no_lru_crawler,no_slab_reassign,no_hashexpand",
            "-F",
            "-u",
            "root",
        ];
        let mut process = Process::spawn(Path::new("memcached"), &arguments, address)?;
        let mut client = connect_to(&mut process)?;
        client.finish(&[b"stats\r\n", STORE_ANSWER, QUESTION].concat())?;
        let stats = client.read_to_end()?.bytes;
        let ours = format!("STAT pid {}\r\n", process.child.id());
        if stats.starts_with(ours.as_bytes()) { Ok(process) } else { Err(ErrorKind::AddrInUse.into()) }
    })
}

/// How Weir is started.
#[derive(Clone, Debug)]
pub struct Weir {
    /// The program.
    pub binary: PathBuf,
    /// Flags of `weir proxy` beyond those that say where it listens and what it stands in front of.
    pub flags: Vec<&'static str>,
}

pub(super) fn start_weir(weir: &Weir, server: SocketAddr) -> Result<Process, StartError> {
    start("weir proxy", |address| {
        let (listen, server) = (address.to_string(), server.to_string());
        let mut arguments = vec!["proxy", "--listen", &listen, "--server", &server, "--timeout", "30s"];
        arguments.extend(&weir.flags);
        let process = Process::spawn(&weir.binary, &arguments, address)?;
        // It says when it listens; a line that says something else is its reason not to.
        let line = process.complaints.first_line(START_TIMEOUT);
        if line.contains("listening on") {
            Ok(process)
        } else {
            Err(io::Error::other(format!("instead of listening it said {line:?}")))
        }
    })
}

fn start(
    what: &'static str,
    attempt: impl Fn(SocketAddr) -> io::Result<Process>,
) -> Result<Process, StartError> {
    let mut cause = io::Error::other("no attempt was made");
    for port in free_ports().take(START_ATTEMPTS) {
        match attempt(SocketAddr::from((Ipv4Addr::LOCALHOST, port))) {
            Ok(started) => return Ok(started),
            Err(error) => cause = error,
        }
    }
    Err(StartError { what, cause })
}

/// Connects to a process that was just started. There is no other sign that it listens.
#[expect(
    clippy::disallowed_methods,
    reason = "a test's driver waits for a process to begin to listen, within a bound"
)]
fn connect_to(process: &mut Process) -> io::Result<Client> {
    for _ in 0..5_000 {
        match Client::connect(process.address, &ReadTimeout::new(START_TIMEOUT)) {
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => {}
            other => return other,
        }
        if let Some(status) = process.child.try_wait()? {
            return Err(io::Error::other(format!("it ended at once: {status}")));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Err(ErrorKind::TimedOut.into())
}

/// Ports that nobody listens on, below those that the kernel gives to clients, which could take one in between.
fn free_ports() -> impl Iterator<Item = u16> {
    let first = 20_000 + u16::try_from(std::process::id() % 8_000).expect("below 8,000");
    let next = FIRST_FREE.fetch_add(40, Ordering::Relaxed) % 4_000;
    (first + next..32_768)
        .chain(20_000..first)
        .filter(|&port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok())
}

/// Tests of one process look at different ports first.
static FIRST_FREE: AtomicU16 = AtomicU16::new(0);

//! One client's connection to one subject.

use super::{
    normalise::normalise,
    subject::{Hang, Transcript},
};
use std::{
    cell::Cell,
    io::{self, ErrorKind, Read as _, Write as _},
    net::{Shutdown, SocketAddr, TcpStream},
    rc::Rc,
    time::Duration,
};

/// Asked at the end. It occurs in no stream, and its answer in no other.
pub(super) const QUESTION: &[u8] = b"get weir-differential-end\r\n";
const ANSWER: &[u8] = b"VALUE weir-differential-end 0 16\r\nall was answered\r\nEND\r\n";
/// Makes a server know the answer.
pub(super) const STORE_ANSWER: &[u8] = b"set weir-differential-end 0 0 16\r\nall was answered\r\n";

/// How long the clients of one subject wait for it. They share this: when one of them has waited in vain, what the others can
/// still get has arrived already.
#[derive(Clone, Debug)]
pub(super) struct ReadTimeout(Rc<Cell<Duration>>);

/// What is left of it once one of them has waited in vain.
const LITTLE: Duration = Duration::from_millis(50);
/// A subject that does not take bytes for so long may be waiting for us to read.
const WRITE_TIMEOUT: Duration = Duration::from_millis(200);
/// An answer that is longer has no end: no stream asks for so much.
const ANSWERS_BYTES_MAX: usize = 512 << 20;

impl ReadTimeout {
    pub(super) fn new(full: Duration) -> Self {
        Self(Rc::new(Cell::new(full)))
    }
}

pub(super) struct Client {
    socket: TcpStream,
    timeout: ReadTimeout,
    answered: Vec<u8>,
    cas: Vec<u64>,
    /// The subject closed.
    closed: bool,
    /// It closed in a way that makes the kernel forget what it had not delivered.
    reset: bool,
    hung: bool,
}

impl Client {
    pub(super) fn connect(address: SocketAddr, timeout: &ReadTimeout) -> io::Result<Self> {
        let socket = TcpStream::connect_timeout(&address, timeout.0.get())?;
        socket.set_nodelay(true)?;
        socket.set_write_timeout(Some(WRITE_TIMEOUT))?;
        Ok(Self {
            socket,
            timeout: timeout.clone(),
            answered: Vec::new(),
            cas: Vec::new(),
            closed: false,
            reset: false,
            hung: false,
        })
    }

    /// Sends, and reads what is in the way of sending. That the subject has closed is no error; one that neither takes nor
    /// gives anything hangs.
    pub(super) fn write(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        let mut waited = Duration::ZERO;
        while !bytes.is_empty() && !self.is_over() {
            match self.socket.write(bytes) {
                Ok(count) => {
                    bytes = &bytes[count..];
                    waited = Duration::ZERO;
                }
                Err(error) if is_timeout(&error) => {
                    let before = self.answered.len();
                    while !self.is_over() && self.read_within(Duration::from_millis(1))? {}
                    waited =
                        if self.answered.len() > before { Duration::ZERO } else { waited + WRITE_TIMEOUT };
                    if waited >= self.timeout.0.get() {
                        self.hang();
                    }
                }
                Err(error) if is_closed(&error) => {
                    self.reset = true;
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn is_over(&self) -> bool {
        self.closed || self.hung
    }

    fn hang(&mut self) {
        self.hung = true;
        self.timeout.0.set(LITTLE);
    }

    /// Reads once; whether anything came, an end included.
    fn read_within(&mut self, limit: Duration) -> io::Result<bool> {
        let mut buffer = [0; 16 << 10];
        self.socket.set_read_timeout(Some(limit))?;
        match self.socket.read(&mut buffer) {
            Ok(0) => self.closed = true,
            Ok(count) => self.answered.extend_from_slice(&buffer[..count]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if is_timeout(&error) => return Ok(false),
            Err(error) if is_closed(&error) => (self.closed, self.reset) = (true, true),
            Err(error) => return Err(error),
        }
        if self.answered.len() > ANSWERS_BYTES_MAX {
            self.hang();
        }
        Ok(true)
    }

    /// Reads once, as long as the subject is given to answer.
    fn read(&mut self) -> io::Result<()> {
        if !self.read_within(self.timeout.0.get())? {
            self.hang();
        }
        Ok(())
    }

    /// Reads until the question was answered, and keeps the answers before it.
    pub(super) fn read_to_answer(&mut self) -> io::Result<()> {
        while !self.answered.ends_with(ANSWER) && !self.is_over() {
            self.read()?;
        }
        if self.answered.ends_with(ANSWER) {
            self.answered.truncate(self.answered.len() - ANSWER.len());
        }
        self.cas = normalise(&self.answered).cas;
        Ok(())
    }

    /// The cas tokens of the phases that were answered.
    pub(super) fn tokens(&self) -> &[u64] {
        &self.cas
    }

    /// Sends the last bytes, and says that they are.
    pub(super) fn finish(&mut self, tail: &[u8]) -> io::Result<()> {
        self.write(tail)?;
        match self.socket.shutdown(Shutdown::Write) {
            Err(error) if !is_closed(&error) => Err(error),
            _ => Ok(()),
        }
    }

    /// Reads until the subject closes.
    pub(super) fn read_to_end(mut self) -> io::Result<Transcript> {
        while !self.is_over() {
            self.read()?;
        }
        let complete = self.answered.ends_with(ANSWER);
        if complete {
            self.answered.truncate(self.answered.len() - ANSWER.len());
        }
        let hung = self.hung.then(Hang::default);
        Ok(Transcript { bytes: self.answered, complete, reset: self.reset, hung, died: None })
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

fn is_closed(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset | ErrorKind::NotConnected)
}

//! One client's connection to one subject.

use super::{normalise::normalise, subject::Transcript};
use std::{
    io::{self, ErrorKind, Read as _, Write as _},
    net::{Shutdown, SocketAddr, TcpStream},
    time::Duration,
};

/// Asked at the end. It occurs in no stream, and its answer in no other.
pub(super) const QUESTION: &[u8] = b"get weir-differential-end\r\n";
const ANSWER: &[u8] = b"VALUE weir-differential-end 0 16\r\nall was answered\r\nEND\r\n";
/// Makes a server know the answer.
pub(super) const STORE_ANSWER: &[u8] = b"set weir-differential-end 0 0 16\r\nall was answered\r\n";

/// A subject that is silent for so long hangs.
const PATIENCE: Duration = Duration::from_secs(2);
/// A subject that does not take bytes for so long may be waiting for us to read.
const WRITE_PATIENCE: Duration = Duration::from_millis(200);

pub(super) struct Client {
    socket: TcpStream,
    answered: Vec<u8>,
    cas: Vec<u64>,
    /// The subject closed.
    closed: bool,
    hung: bool,
}

impl Client {
    pub(super) fn connect(address: SocketAddr) -> io::Result<Self> {
        let socket = TcpStream::connect(address)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        socket.set_write_timeout(Some(WRITE_PATIENCE))?;
        Ok(Self { socket, answered: Vec::new(), cas: Vec::new(), closed: false, hung: false })
    }

    /// Sends, and reads what is in the way of sending. That the subject has closed is no error.
    pub(super) fn write(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() && !self.closed && !self.hung {
            match self.socket.write(bytes) {
                Ok(count) => bytes = &bytes[count..],
                Err(error) if is_timeout(&error) => self.read_what_waits()?,
                Err(error) if is_closed(&error) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn read_what_waits(&mut self) -> io::Result<()> {
        self.read_once()?;
        self.socket.set_read_timeout(Some(Duration::from_millis(1)))?;
        while !self.closed && !self.hung {
            self.read_once()?;
        }
        self.hung = false;
        self.socket.set_read_timeout(Some(PATIENCE))
    }

    /// Reads once; says in `closed` and `hung` what came instead.
    fn read_once(&mut self) -> io::Result<()> {
        let mut buffer = [0; 16 << 10];
        match self.socket.read(&mut buffer) {
            Ok(0) => self.closed = true,
            Ok(count) => self.answered.extend_from_slice(&buffer[..count]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if is_timeout(&error) => self.hung = true,
            Err(error) if is_closed(&error) => self.closed = true,
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Reads until the question was answered, and keeps the answers before it.
    pub(super) fn read_to_answer(&mut self) -> io::Result<()> {
        while !self.answered.ends_with(ANSWER) && !self.closed && !self.hung {
            self.read_once()?;
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
        while !self.closed && !self.hung {
            self.read_once()?;
        }
        let complete = self.answered.ends_with(ANSWER);
        if complete {
            self.answered.truncate(self.answered.len() - ANSWER.len());
        }
        Ok(Transcript { bytes: self.answered, complete, hung: self.hung, died: false })
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

fn is_closed(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset | ErrorKind::NotConnected)
}

//! Accepts clients and hands them to the event loops in turn, so that even few clients are spread evenly.

use crate::{
    config::Listen,
    event_loop::{LoopHandle, Message},
    listener::Listener,
    tcp_timeouts::TcpTimeouts,
};
use mio::{Events, Poll, Token};
use std::{
    io::{self, ErrorKind},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

const LISTENER: Token = Token(0);
const WAKER: Token = Token(1);

/// Pause after the process ran out of descriptors: accepting at once would only fail again.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_millis(100);

pub(crate) struct Acceptor {
    poll: Poll,
    listener: Listener,
    loops: Vec<LoopHandle>,
    next: usize,
    stop: Arc<AtomicBool>,
}

/// Ends an acceptor.
pub(crate) struct AcceptorHandle {
    waker: mio::Waker,
    stop: Arc<AtomicBool>,
}

impl AcceptorHandle {
    pub(crate) fn stop(&self) -> io::Result<()> {
        self.stop.store(true, Ordering::Release);
        self.waker.wake()
    }
}

impl Acceptor {
    /// Listens; nothing is accepted before [`Acceptor::run`].
    pub(crate) fn bind(
        listen: &Listen,
        tcp: TcpTimeouts,
        loops: Vec<LoopHandle>,
    ) -> io::Result<(Self, AcceptorHandle)> {
        let poll = Poll::new()?;
        let mut listener = Listener::bind(listen)?;
        listener.keep_alive(tcp)?;
        listener.register(poll.registry(), LISTENER)?;
        let stop = Arc::new(AtomicBool::new(false));
        let waker = mio::Waker::new(poll.registry(), WAKER)?;
        let handle = AcceptorHandle { waker, stop: Arc::clone(&stop) };
        Ok((Self { poll, listener, loops, next: 0, stop }, handle))
    }

    pub(crate) fn run(mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(8);
        let mut pause = None;
        while !self.stop.load(Ordering::Acquire) {
            match self.poll.poll(&mut events, pause) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                other => other?,
            }
            pause = if self.accept_all() { None } else { Some(PAUSE_AFTER_FAILURE) };
        }
        Ok(())
    }

    /// Accepts all that wait; `false` if that had to stop early.
    fn accept_all(&mut self) -> bool {
        loop {
            match self.listener.accept() {
                Ok(stream) => {
                    let handle = &self.loops[self.next];
                    self.next = (self.next + 1) % self.loops.len();
                    // A loop that has ended cannot serve; dropping the connection closes it.
                    let _ = handle.send(Message::Accept(stream));
                }
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock => return true,
                    ErrorKind::Interrupted | ErrorKind::ConnectionAborted => {}
                    _ => return false,
                },
            }
        }
    }
}

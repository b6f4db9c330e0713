//! Accepts clients and hands them to the event loops in turn, so that even few clients are spread evenly.

use crate::event_loop::{LoopHandle, Message};
use mio::{Events, Interest, Poll, Token, net::TcpListener};
use std::{
    io::{self, ErrorKind},
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

const LISTENER: Token = Token(0);
const WAKER: Token = Token(1);

/// Connections that wait in the kernel to be accepted.
const BACKLOG: i32 = 1024;

/// Pause after the process ran out of descriptors: accepting at once would only fail again.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_millis(100);

pub(crate) struct Acceptor {
    poll: Poll,
    listener: TcpListener,
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
    pub(crate) fn bind(address: SocketAddr, loops: Vec<LoopHandle>) -> io::Result<(Self, AcceptorHandle)> {
        let poll = Poll::new()?;
        let mut listener = listen(address)?;
        poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
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
                Ok((stream, _)) => {
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

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = socket2::Socket::new(
        socket2::Domain::for_address(address),
        socket2::Type::STREAM,
        Some(socket2::Protocol::TCP),
    )?;
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(TcpListener::from_std(socket.into()))
}

//! Accepts clients and hands them to the event loops in turn, so that even few clients are spread evenly.
//!
//! Whoever cannot be served is told so in memcached's words, and the connection is closed: because as many clients are connected as may
//! be, or because the process has no descriptor for one more. For the answer to the latter a descriptor is held ([`Reserve`]): it is
//! closed, the client takes its place, is answered and closed, and it is held again.

use crate::{
    config::Listen,
    connections::{
        client_limit::{Admitted, Refused},
        descriptors::{Descriptors, TELL_EVERY_NS},
        listener::Listener,
        reserve::{Reserve, is_out_of_descriptors},
        sockets,
        tcp_timeouts::TcpTimeouts,
    },
    mailbox::{LoopHandle, Message},
    notices::notice::{Notice, Tell},
    process::clock::Clock,
};
use mio::{Events, Poll, Token};
use std::{
    io::{self, ErrorKind},
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use weir_timing::Instant;

const LISTENER: Token = Token(0);
const WAKER: Token = Token(1);

/// Pause after a failure: accepting at once would only fail again.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_millis(100);

/// What an [`Acceptor`] is made of.
pub(crate) struct AcceptorConfig<'a> {
    pub(crate) listen: &'a Listen,
    pub(crate) tcp: TcpTimeouts,
    pub(crate) loops: Vec<LoopHandle>,
    pub(crate) descriptors: Arc<Descriptors>,
    /// Held for the answer to a client for which there is no descriptor.
    pub(crate) spare: Reserve,
    pub(crate) clock: Clock,
    pub(crate) tell: Tell,
}

pub(crate) struct Acceptor {
    poll: Poll,
    listener: Listener,
    loops: Vec<LoopHandle>,
    next: usize,
    descriptors: Arc<Descriptors>,
    spare: Reserve,
    /// Clients that were refused and of whom no loop was told.
    uncounted: Refused,
    /// The same of the operator.
    untold: Refused,
    tell_at: Instant,
    clock: Clock,
    tell: Tell,
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
    pub(crate) fn bind(config: AcceptorConfig<'_>) -> io::Result<(Self, AcceptorHandle)> {
        let AcceptorConfig { listen, tcp, loops, descriptors, spare, clock, tell } = config;
        let poll = Poll::new()?;
        let mut listener = Listener::bind(listen)?;
        listener.keep_alive(tcp)?;
        listener.register(poll.registry(), LISTENER)?;
        let stop = Arc::new(AtomicBool::new(false));
        let waker = mio::Waker::new(poll.registry(), WAKER)?;
        let handle = AcceptorHandle { waker, stop: Arc::clone(&stop) };
        let acceptor = Self {
            poll,
            listener,
            loops,
            next: 0,
            descriptors,
            spare,
            uncounted: Refused::default(),
            untold: Refused::default(),
            tell_at: Instant::ZERO,
            clock,
            tell,
            stop,
        };
        Ok((acceptor, handle))
    }

    /// Where clients connect by TCP, if they do.
    pub(crate) fn address(&self) -> io::Result<Option<SocketAddr>> {
        self.listener.address()
    }

    pub(crate) fn run(mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(8);
        let mut pause = None;
        while !self.stop.load(Ordering::Acquire) {
            match self.poll.poll(&mut events, pause) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                other => other?,
            }
            self.descriptors.look();
            let has_failed = !self.accept_all();
            self.count_refused();
            pause =
                [has_failed.then_some(PAUSE_AFTER_FAILURE), self.tell_refused()].into_iter().flatten().min();
        }
        Ok(())
    }

    /// Accepts all that wait; `false` if that had to stop early.
    fn accept_all(&mut self) -> bool {
        loop {
            match self.listener.accept() {
                Ok(stream) => self.take(stream),
                Err(error) if is_out_of_descriptors(&error) => match self.refuse_next() {
                    Ok(()) => {}
                    Err(error) if error.kind() == ErrorKind::WouldBlock => return true,
                    Err(_) => return false,
                },
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock => return true,
                    ErrorKind::Interrupted | ErrorKind::ConnectionAborted => {}
                    _ => return false,
                },
            }
        }
    }

    /// A client has connected.
    fn take(&mut self, stream: sockets::Stream) {
        if !self.descriptors.may_let_in() {
            self.uncounted.no_descriptor += 1;
            sockets::refuse(stream);
            return self.descriptors.note_closed();
        }
        let Some(place) = self.descriptors.clients().enter() else {
            self.uncounted.too_many += 1;
            return sockets::refuse(stream);
        };
        let handle = &self.loops[self.next];
        self.next = (self.next + 1) % self.loops.len();
        // A loop that has ended cannot serve; dropping the connection closes it.
        let _ = handle.send(Message::Accept(Admitted::new(stream, place)));
    }

    /// Answers the next client, for which there is no descriptor but the one that is held for this.
    #[cold]
    fn refuse_next(&mut self) -> io::Result<()> {
        self.spare.let_go();
        let accepted = self.listener.accept();
        if let Ok(stream) = accepted {
            self.uncounted.no_descriptor += 1;
            sockets::refuse(stream);
            self.spare.refill();
            return Ok(());
        }
        self.spare.refill();
        accepted.map(drop)
    }

    /// A loop counts what it is told of, so that windows have it, too.
    fn count_refused(&mut self) {
        let Refused { too_many, no_descriptor } = self.uncounted;
        // A loop with much to do is told later.
        if too_many + no_descriptor > 0 && self.loops[self.next].try_send(Message::Refused(self.uncounted)) {
            self.untold.too_many += too_many;
            self.untold.no_descriptor += no_descriptor;
            self.uncounted = Refused::default();
        }
    }

    /// Tells the operator, if that was not done a moment ago; else returns when it is to be done.
    fn tell_refused(&mut self) -> Option<Duration> {
        if self.untold == Refused::default() && self.uncounted == Refused::default() {
            return None;
        }
        let now = self.clock.now();
        if now < self.tell_at || self.untold == Refused::default() {
            let patience = self.tell_at.saturating_since(now);
            return Some(Duration::from_nanos(patience).max(PAUSE_AFTER_FAILURE));
        }
        let refused = std::mem::take(&mut self.untold);
        let clients_max = self.descriptors.clients().most();
        (self.tell)(Notice::ClientsRefused {
            too_many: refused.too_many,
            no_descriptor: refused.no_descriptor,
            clients_max,
        });
        self.tell_at = now.plus(TELL_EVERY_NS);
        None
    }
}

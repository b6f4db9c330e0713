//! Accepts clients and hands them to the event loops in turn, so that even few clients are spread evenly.
//!
//! Whoever cannot be served gets an error in memcached's words, and the connection is closed: because as many clients are connected as may
//! be, or because the process has no descriptor for one more. For the answer to the latter a descriptor is held ([`Reserve`]): it is
//! closed, the client takes its place, is answered and closed, and it is held again.

use crate::{
    Config,
    connections::{
        client_limit::{Admitted, Refused},
        descriptors::{
            Descriptors, TELL_EVERY_NS,
            reserve::{Reserve, is_out_of_descriptors},
        },
        inherited::Port,
        listener::Listener,
        sockets,
        tls::Inbound,
    },
    mailbox::{LoopHandle, Message},
    notices::notice::Tell,
    process::clock::Clock,
};
use mio::{Events, Poll, Token};
use std::{
    io::{self, ErrorKind},
    mem,
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

pub(crate) struct Acceptor {
    poll: Poll,
    listener: Listener,
    /// What is spoken there, if that is TLS.
    inbound: Option<Arc<Inbound>>,
    loops: Vec<LoopHandle>,
    next: usize,
    descriptors: Arc<Descriptors>,
    spare: Reserve,
    /// Clients that were refused and which no loop has counted yet.
    uncounted: Refused,
    /// The same of the operator.
    unreported: Refused,
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
    /// Listens, at `port` if that was handed over; nothing is accepted before [`Acceptor::run`]. The listener is the last descriptor that
    /// it opens. `spare` is held for the answer to a client for which there is no descriptor.
    pub(crate) fn bind(
        config: &Config,
        port: Option<Port>,
        loops: Vec<LoopHandle>,
        descriptors: Arc<Descriptors>,
        spare: Reserve,
        clock: Clock,
        tell: Tell,
    ) -> io::Result<(Self, AcceptorHandle)> {
        let poll = Poll::new()?;
        let waker = mio::Waker::new(poll.registry(), WAKER)?;
        let mut listener = match port {
            Some(port) => Listener::of(port),
            None => Listener::bind(&config.listen, config.settings.listen_backlog)?,
        };
        listener.keep_alive(config.tcp())?;
        listener.register(poll.registry(), LISTENER)?;
        let stop = Arc::new(AtomicBool::new(false));
        let handle = AcceptorHandle { waker, stop: Arc::clone(&stop) };
        let acceptor = Self {
            poll,
            listener,
            inbound: config.inbound().cloned(),
            loops,
            next: 0,
            descriptors,
            spare,
            uncounted: Refused::default(),
            unreported: Refused::default(),
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
        if !self.descriptors.refill() {
            self.uncounted.note_no_descriptor();
            self.refuse(stream);
            return self.descriptors.note_closed();
        }
        let Some(place) = self.descriptors.clients().enter() else {
            self.uncounted.note_too_many();
            return self.refuse(stream);
        };
        let tls = self.inbound.as_ref().map(|inbound| inbound.begin());
        if matches!(tls, Some(None)) {
            return self.uncounted.note_no_handshake();
        }
        let handle = &self.loops[self.next];
        self.next = (self.next + 1) % self.loops.len();
        // A loop that has ended cannot serve; dropping the connection closes it.
        let _ = handle.send(Message::Accept(Admitted::new(stream, place).with_tls(tls.flatten())));
    }

    /// Who waits for a handshake could not read the words.
    fn refuse(&self, stream: sockets::Stream) {
        if self.inbound.is_none() {
            sockets::refuse(stream);
        }
    }

    /// Answers the next client, for which there is no descriptor but the one that is held for this.
    #[cold]
    fn refuse_next(&mut self) -> io::Result<()> {
        self.spare.let_go();
        let accepted = self.listener.accept();
        if let Ok(stream) = accepted {
            self.uncounted.note_no_descriptor();
            self.refuse(stream);
            self.spare.refill();
            return Ok(());
        }
        self.spare.refill();
        accepted.map(drop)
    }

    /// A loop counts what it hears of, so that windows have it, too.
    fn count_refused(&mut self) {
        // A loop with much to do hears of it later.
        if !self.uncounted.is_none() && self.loops[self.next].try_send(Message::Refused(self.uncounted)) {
            self.unreported += mem::take(&mut self.uncounted);
        }
    }

    /// Tells the operator, if that was not done a moment ago; else returns when it is to be done.
    fn tell_refused(&mut self) -> Option<Duration> {
        if self.unreported.is_none() && self.uncounted.is_none() {
            return None;
        }
        let now = self.clock.now();
        if now < self.tell_at || self.unreported.is_none() {
            let rest = self.tell_at.saturating_since(now);
            return Some(Duration::from_nanos(rest).max(PAUSE_AFTER_FAILURE));
        }
        let refused = mem::take(&mut self.unreported);
        (self.tell)(refused.notice(self.descriptors.clients().most()));
        self.tell_at = now.plus(TELL_EVERY_NS);
        None
    }
}

//! What other threads ask of a thread that serves, and the box that they put it into; and the question that it asks of others.
//!
//! ```text
//!   acceptor, reloader, reports, watchdog ── Message ──▶ mailbox ──▶ read between two turns
//!                                         └─ wake-up ──▶ poll ends its wait
//!   a client's stats ── Question ──▶ the thread that may wait for all others (admin/stats.rs)
//! ```
//!
//! [`LoopHandle`] owns the way in. It is asked to send or to wake, and answers whether the thread is still there. The box is bounded:
//! whoever sends to a full one waits, or gets an error from [`LoopHandle::try_send`].

use crate::{
    config::logins::Logins,
    connections::{
        client_limit::{Admitted, Refused},
        names::AddressBook,
        tls::Outbounds,
    },
};
use mio::{Poll, Token};
use std::{
    convert::Infallible,
    io,
    sync::{
        Arc,
        atomic::AtomicBool,
        mpsc::{Receiver, Sender, SyncSender, TrySendError, sync_channel},
    },
};
use weir_dataplane::{Report, RequestKey, StatsTopic, TopKeys};
use weir_routing::Table;

/// What other threads ask of a loop.
pub(crate) enum Message {
    /// Serve this client.
    Accept(Admitted),
    /// Count these clients, that were refused.
    Refused(Refused),
    /// Tell what was measured.
    Report(Sender<Report>),
    /// Tell which keys are asked for most.
    TopKeys(Sender<TopKeys>),
    /// The answer to a client's `stats`.
    Stats {
        /// The request, as the dataplane named it.
        request: RequestKey,
        /// What the client gets.
        text: Vec<u8>,
    },
    /// From now on keys go where this table says, and servers are where this book says.
    Table(Routing),
    /// Some names of servers have other addresses.
    Addresses(Arc<AddressBook>),
    /// Set this, so that whoever asks knows that you go on.
    Ping(Arc<AtomicBool>),
    /// Answer what was taken, then end.
    Drain,
}

/// What requests go by from some moment on.
#[derive(Clone, Debug)]
pub(crate) struct Routing {
    table: Arc<Table>,
    book: Arc<AddressBook>,
    outbounds: Arc<Outbounds>,
    timeout_ns: u64,
    logins: Logins,
    /// Nothing is sent: it is dropped with the last of these.
    _taken: Sender<Infallible>,
}

impl Routing {
    /// `taken` is closed when nobody has still to go by this.
    pub(crate) fn new(
        table: Arc<Table>,
        book: Arc<AddressBook>,
        outbounds: Arc<Outbounds>,
        timeout_ns: u64,
        taken: Sender<Infallible>,
    ) -> Self {
        Self { table, book, outbounds, timeout_ns, logins: Logins::default(), _taken: taken }
    }

    /// Who may log in, and how the proxy does.
    pub(crate) fn with_logins(self, logins: Logins) -> Self {
        Self { logins, ..self }
    }

    pub(crate) fn logins(&self) -> &Logins {
        &self.logins
    }

    pub(crate) fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// Where the servers are.
    pub(crate) fn book(&self) -> &Arc<AddressBook> {
        &self.book
    }

    /// What each server is spoken to in.
    pub(crate) fn outbounds(&self) -> &Arc<Outbounds> {
        &self.outbounds
    }

    /// How long a server may take.
    pub(crate) fn timeout_ns(&self) -> u64 {
        self.timeout_ns
    }

    /// Some names have other addresses, before anybody has gone by this.
    pub(crate) fn set_book(&mut self, book: Arc<AddressBook>) {
        self.book = book;
    }
}

/// Reaches a loop from other threads.
#[derive(Clone, Debug)]
pub(crate) struct LoopHandle {
    mailbox: SyncSender<Message>,
    waker: Arc<mio::Waker>,
}

impl LoopHandle {
    /// A mailbox for a thread that waits on `poll`.
    pub(crate) fn new(poll: &Poll) -> io::Result<(Self, Receiver<Message>)> {
        let waker = Arc::new(mio::Waker::new(poll.registry(), WAKER)?);
        let (mailbox, receiver) = sync_channel(MAILBOX_LEN);
        Ok((Self { mailbox, waker }, receiver))
    }

    /// Waits while the mailbox is full; fails if the loop has ended.
    pub(crate) fn send(&self, message: Message) -> io::Result<()> {
        self.mailbox.send(message).map_err(|_| io::Error::other("the event loop has ended"))?;
        self.wake()
    }

    /// The same without waiting: whether it was sent.
    pub(crate) fn try_send(&self, message: Message) -> bool {
        self.mailbox.try_send(message).is_ok() && self.wake().is_ok()
    }

    /// The same of a message that is not to be lost: it comes back where the mailbox is full. What cannot reach a loop that has ended is
    /// dropped.
    pub(crate) fn offer(&self, message: Message) -> Option<Message> {
        match self.mailbox.try_send(message) {
            Ok(()) => {
                let _ = self.wake();
                None
            }
            Err(TrySendError::Full(message)) => Some(message),
            Err(TrySendError::Disconnected(_)) => None,
        }
    }

    /// Ends the loop's wait, if it waits.
    pub(crate) fn wake(&self) -> io::Result<()> {
        self.waker.wake()
    }
}

/// Messages that may wait for one loop; senders wait beyond that.
const MAILBOX_LEN: usize = 1024;

/// The token of the waker: sockets have those behind it.
pub(crate) const WAKER: Token = Token(0);

// ── the other way ──────────────────────────────────────────────────────────────────────────────────────────────────────────

/// A client's question.
pub(crate) struct Question {
    /// The loop that the client is connected to.
    pub(crate) from: usize,
    /// The request, as that loop's dataplane names it.
    pub(crate) request: RequestKey,
    pub(crate) topic: StatsTopic,
}

/// Questions that may wait; a loop answers with an error beyond that.
pub(crate) const QUESTIONS_MAX: usize = 256;

/// What a client gets when statistics cannot be had.
pub(crate) const BUSY: &[u8] = b"SERVER_ERROR stats busy\r\n";

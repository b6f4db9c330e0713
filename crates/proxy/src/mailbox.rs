//! What other threads ask of a thread that serves, and the box that they put it into.
//!
//! ```text
//!   acceptor, reloader, reports ── Message ──▶ mailbox ──▶ read between two turns
//!                               └─ wake-up ──▶ poll ends its wait
//! ```
//!
//! [`LoopHandle`] owns the way in. It is asked to send or to wake, and answers whether the thread is still there. The box is bounded:
//! whoever sends to a full one waits, or is told so by [`LoopHandle::try_send`].

use crate::connections::{
    client_limit::{Admitted, Refused},
    names::AddressBook,
};
use mio::{Poll, Token};
use std::{
    convert::Infallible,
    io,
    sync::{
        Arc,
        mpsc::{Receiver, Sender, SyncSender, sync_channel},
    },
};
use weir_dataplane::Report;
use weir_routing::Table;

/// What other threads ask of a loop.
pub(crate) enum Message {
    /// Serve this client.
    Accept(Admitted),
    /// Count these clients, that were refused.
    Refused(Refused),
    /// Tell what was measured.
    Report(Sender<Report>),
    /// The answer to a client's `stats`.
    Stats {
        /// The request, as the dataplane named it.
        request: usize,
        /// What the client gets.
        text: Vec<u8>,
    },
    /// From now on keys go where this table says, and servers are where this book says.
    Table(Routing),
    /// Some names of servers have other addresses.
    Addresses(Arc<AddressBook>),
    /// Answer what was taken, then end.
    Drain,
}

/// What requests go by from some moment on.
#[derive(Clone, Debug)]
pub(crate) struct Routing {
    pub(crate) table: Arc<Table>,
    pub(crate) book: Arc<AddressBook>,
    pub(crate) timeout_ns: u64,
    /// Nothing is sent: whoever goes by the table drops it.
    pub(crate) taken: Sender<Infallible>,
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

    /// Ends the loop's wait, if it waits.
    pub(crate) fn wake(&self) -> io::Result<()> {
        self.waker.wake()
    }
}

/// Messages that may wait for one loop; senders wait beyond that.
const MAILBOX_LEN: usize = 1024;

/// The token of the waker: sockets have those behind it.
pub(crate) const WAKER: Token = Token(0);

//! What the network thread and the workers know of the queues of an engine: where a request goes, not how many there are.

use crate::engine::threaded::{attention::Attention, request::Job};
use crate::{connections::names::AddressBook, mailbox::Routing};
use std::{
    io,
    sync::{Arc, atomic::AtomicUsize},
};
use weir_dataplane::Report;
use weir_timing::Instant;

/// The queues of an engine, and the threads that take from them.
pub(crate) trait Queues: Send + Sync {
    /// Puts a request at the end of the queue where it belongs; gives it back if too many wait there.
    #[expect(clippy::result_large_err, reason = "what is given back is the request itself, moved once")]
    fn push(&self, job: Job, by: By) -> Result<(), Job>;

    /// A request that was taken out by [`Queues::expire`] is answered.
    fn finish(&self, job: &Job);

    /// When [`Queues::expire`] must be called at the latest.
    fn alarm(&self) -> Option<Instant>;

    /// Takes out the requests whose time is up, if it is time to look for any. They are not served any more, only answered.
    fn expire(&self, now: Instant) -> Vec<Job>;

    /// To be called every few milliseconds: whether threads wait for processors.
    fn look(&self, is_contended: bool, now: Instant);

    /// Every request that is taken from now on is served by this. Gives back what has no place to wait any more.
    fn take_routing(&self, routing: Routing, shared: &Arc<Shared>) -> Vec<Job>;

    /// Some names of servers have other addresses.
    fn take_addresses(&self, book: &Arc<AddressBook>);

    /// All workers are to end, whatever they do.
    fn end(&self) -> io::Result<()>;

    /// How many writes had to wait for another so far.
    fn key_waits(&self) -> u64;

    /// Adds what is known of the queues.
    fn report(&self, report: &mut Report);
}

/// What all threads of an engine share.
pub(crate) struct Shared {
    pub(super) queues: Box<dyn Queues>,
    pub(super) attention: Attention,
    /// The longest value that is taken, as the workers learn it from the servers.
    pub(super) value_bytes_max: AtomicUsize,
}

/// Who puts a request into a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    /// A worker must be called for it.
    Network,
    /// A worker of the queue with this number. If it belongs there the worker takes one itself right after. The network thread must
    /// know when its time is up.
    Worker(usize),
}

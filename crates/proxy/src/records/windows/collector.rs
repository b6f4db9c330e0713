//! Adds up what the threads hand over, second by second.

use crate::process::clock::Clock;
use crate::records::windows::{
    Part, Queue, Shared,
    window::{Sum, Window},
};
use std::{
    collections::{BTreeMap, VecDeque},
    io,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
        mpsc::{Receiver, RecvTimeoutError},
    },
    time::Duration,
};
use weir_timing::Instant;

/// How long after its end a window is waited for if no thread has said that something happened in it: one may be about to say so.
const GRACE_NS: u64 = 10_000_000;

/// How long after its end a window is waited for at most. What comes later is added to the next one.
const WAIT_MAX_NS: u64 = 3 * WINDOW_NS;

const WINDOW_NS: u64 = 1_000_000_000;

/// How often threads that have still to hand over are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// The last windows.
#[derive(Default)]
pub(crate) struct Ring {
    windows: Mutex<(VecDeque<Arc<Window>>, usize)>,
    /// Parts that came after their window was closed, and were added to the next.
    parts_late: AtomicU64,
    /// Parts that were dropped because too many waited.
    parts_lost: AtomicU64,
}

/// Windows that are kept: two minutes, several times what a scraper waits between two visits.
const WINDOWS_MAX: usize = 120;

/// Memory of the windows that are kept, in bytes; with many servers the oldest go earlier.
const WINDOWS_BYTES_MAX: usize = 32 << 20;

impl Ring {
    /// Parts that came after their window was closed, and were added to the next.
    pub(crate) fn parts_late(&self) -> u64 {
        self.parts_late.load(Ordering::Relaxed)
    }

    /// Parts that were dropped because too many waited.
    pub(crate) fn parts_lost(&self) -> u64 {
        self.parts_lost.load(Ordering::Relaxed)
    }

    /// The windows from index `since` on, oldest first.
    pub(crate) fn since(&self, since: u64) -> Vec<Arc<Window>> {
        let windows = self.windows.lock().unwrap_or_else(PoisonError::into_inner);
        windows.0.iter().filter(|window| window.index() >= since).cloned().collect()
    }

    fn push(&self, window: Arc<Window>) {
        let mut guard = self.windows.lock().unwrap_or_else(PoisonError::into_inner);
        let (windows, bytes) = &mut *guard;
        *bytes += window.bytes();
        windows.push_back(window);
        while windows.len() > WINDOWS_MAX || (*bytes > WINDOWS_BYTES_MAX && windows.len() > 1) {
            *bytes -= windows.pop_front().map_or(0, |window| window.bytes());
        }
    }
}

/// Takes each window that is over.
pub(crate) type Taker = Box<dyn FnMut(&Arc<Window>) + Send>;

/// The thread that collects.
pub(crate) struct Collector {
    parts: Receiver<Part>,
    shared: Arc<Shared>,
    queues: Vec<Arc<dyn Queue>>,
    ring: Arc<Ring>,
    clock: Clock,
    /// Takes each window; a slow disk must not hold it up.
    tell: Taker,
    /// The window that is closed next.
    next: u64,
    pending: BTreeMap<u64, Sum>,
    sum_before: Sum,
}

impl Collector {
    pub(crate) fn new(
        parts: Receiver<Part>,
        shared: Arc<Shared>,
        queues: Vec<Arc<dyn Queue>>,
        ring: Arc<Ring>,
        clock: Clock,
        tell: Taker,
    ) -> Self {
        let sum_before = Sum::begin(&queues);
        Self { parts, shared, queues, ring, clock, tell, next: 0, pending: BTreeMap::new(), sum_before }
    }

    /// Collects until all threads have ended.
    pub(crate) fn run(mut self) -> io::Result<()> {
        loop {
            let ends = Instant::from_nanos((self.next + 1).saturating_mul(WINDOW_NS));
            if !self.receive_until(ends) {
                break;
            }
            self.look_at_queues();
            let goes_on = self.receive_until(ends.plus(GRACE_NS));
            let late = ends.plus(WAIT_MAX_NS);
            while self.shared.is_awaited(self.next) && self.clock.now() < late {
                match self.parts.recv_timeout(LOOK_EVERY) {
                    Ok(part) => self.take(part),
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => break,
                }
            }
            // Whoever has moved on has handed over before.
            while let Ok(part) = self.parts.try_recv() {
                self.take(part);
            }
            self.close(WINDOW_NS);
            if !goes_on {
                break;
            }
        }
        self.end();
        Ok(())
    }

    /// Returns whether there are threads left.
    fn receive_until(&mut self, until: Instant) -> bool {
        loop {
            let now = self.clock.now();
            if now >= until {
                return true;
            }
            match self.parts.recv_timeout(Duration::from_nanos(until.saturating_since(now))) {
                Ok(part) => self.take(part),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return false,
            }
        }
    }

    fn take(&mut self, part: Part) {
        let mut index = part.window.index;
        if index < self.next {
            self.ring.parts_late.fetch_add(1, Ordering::Relaxed);
            index = self.next;
        }
        self.pending.entry(index).or_default().add(part.thread, part.window);
    }

    fn look_at_queues(&mut self) {
        let sum = self.pending.entry(self.next).or_default();
        sum.queues = self.queues.iter().map(|queue| queue.report_at_end(self.next)).collect();
        sum.crews = self.queues.iter().map(|queue| queue.crew()).collect();
    }

    fn close(&mut self, length_ns: u64) {
        let sum = self.pending.remove(&self.next).unwrap_or_default();
        let names = self.shared.names();
        let window = sum.close(self.next, length_ns, &mut self.sum_before, &names, &self.queues);
        let window = Arc::new(window);
        self.ring.parts_lost.store(self.shared.lost.load(Ordering::Relaxed), Ordering::Relaxed);
        (self.tell)(&window);
        self.ring.push(window);
        self.next += 1;
    }

    /// The last window is shorter.
    fn end(&mut self) {
        let now = self.clock.now().as_nanos();
        let last = self.pending.keys().next_back().copied().unwrap_or(self.next);
        while self.next <= last {
            self.look_at_queues();
            self.close(now.saturating_sub(self.next * WINDOW_NS).clamp(1, WINDOW_NS));
        }
    }
}

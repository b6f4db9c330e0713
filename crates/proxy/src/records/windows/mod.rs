//! One-second windows of the whole proxy.
//!
//! ```text
//!   loop 0 ──▶ Outlet ──┐                        ┌──▶ Ring: the last two minutes ──▶ GET /windows
//!   loop 1 ──▶ Outlet ──┼──▶ collector: adds up ─┤
//!   network ─▶ Outlet ──┘    and waits for who   └──▶ --windows FILE (records)
//!   queues ── asked ────────▶ is not done yet
//! ```
//!
//! Each thread measures for itself and hands over what a second brought when the second is over. A thread in whose second nothing
//! happened hands over nothing and is not woken: it has said that its window is empty. No thread that serves ever waits here: what the
//! collector cannot take is dropped and counted.

pub(crate) mod collector;
pub(crate) mod window;

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicU64, Ordering},
    mpsc::{Receiver, SyncSender, sync_channel},
};
use weir_dataplane::{Dataplane, LoopWindow};
use weir_timing::QueueReport;

/// What one thread measured in one second.
pub(crate) struct Part {
    thread: usize,
    window: LoopWindow,
}

/// Where threads get their outlets.
#[derive(Clone)]
pub(crate) struct Hub {
    parts: SyncSender<Part>,
    shared: Arc<Shared>,
}

/// What the threads and the collector share.
pub(crate) struct Shared {
    threads: Mutex<Vec<Thread>>,
    /// Parts that the collector could not take.
    lost: AtomicU64,
}

#[derive(Clone)]
struct Thread {
    name: Arc<str>,
    /// The window that the thread will hand over when it is over; [`NO_WINDOW`] while nothing has happened in it.
    open: Arc<AtomicU64>,
}

const NO_WINDOW: u64 = u64::MAX;

/// A queue that is not any thread's own.
pub(crate) trait Queue: Send + Sync {
    /// Its name in records and metrics.
    fn name(&self) -> String;
    /// The queue as it was at the end of window `index`.
    fn report_at_end(&self, index: u64) -> QueueReport;
    /// How many of its workers may serve at once, now (`--crew adaptive` changes it).
    fn crew(&self) -> u64;
}

impl Hub {
    /// A hub for about this many threads, and where the collector takes what they hand over.
    pub(crate) fn new(threads: usize) -> (Self, Receiver<Part>, Arc<Shared>) {
        // Two seconds of every thread: the collector takes them within milliseconds.
        let (parts, receiver) = sync_channel(2 * threads + 16);
        let shared = Arc::new(Shared { threads: Mutex::default(), lost: AtomicU64::new(0) });
        (Self { parts, shared: Arc::clone(&shared) }, receiver, shared)
    }

    /// An outlet for a thread's dataplane, which will keep its windows from now on.
    pub(crate) fn add_thread(&self, name: &str, dataplane: &mut Dataplane) -> Outlet {
        dataplane.keep_windows();
        let open = Arc::new(AtomicU64::new(NO_WINDOW));
        let mut threads = self.shared.threads();
        threads.push(Thread { name: name.into(), open: Arc::clone(&open) });
        Outlet {
            thread: threads.len() - 1,
            parts: self.parts.clone(),
            shared: Arc::clone(&self.shared),
            open,
            reported: NO_WINDOW,
        }
    }
}

impl Shared {
    fn threads(&self) -> std::sync::MutexGuard<'_, Vec<Thread>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether some thread has still to hand over window `index`, or an earlier one.
    fn is_awaited(&self, index: u64) -> bool {
        self.threads().iter().any(|thread| thread.open.load(Ordering::Acquire) <= index)
    }

    fn names(&self) -> Vec<Arc<str>> {
        self.threads().iter().map(|thread| Arc::clone(&thread.name)).collect()
    }
}

/// One thread's way to the collector.
pub(crate) struct Outlet {
    thread: usize,
    parts: SyncSender<Part>,
    shared: Arc<Shared>,
    open: Arc<AtomicU64>,
    /// What `open` says.
    reported: u64,
}

impl Outlet {
    /// To be called at the end of every turn.
    /// `complete` adds what the dataplane does not know.
    #[inline]
    pub(crate) fn hand_over(&mut self, dataplane: &mut Dataplane, complete: impl FnMut(&mut LoopWindow)) {
        let open = dataplane.used_window().unwrap_or(NO_WINDOW);
        if open != self.reported || dataplane.has_window() {
            self.hand_over_ended(dataplane, complete);
        }
    }

    #[cold]
    fn hand_over_ended(&mut self, dataplane: &mut Dataplane, mut complete: impl FnMut(&mut LoopWindow)) {
        while let Some(mut window) = dataplane.poll_window() {
            complete(&mut window);
            if self.parts.try_send(Part { thread: self.thread, window }).is_err() {
                self.shared.lost.fetch_add(1, Ordering::Relaxed);
            }
        }
        // After what was handed over, so that who sees this has got that.
        self.reported = dataplane.used_window().unwrap_or(NO_WINDOW);
        self.open.store(self.reported, Ordering::Release);
    }

    /// To be called when the thread ends: its last window is shorter.
    pub(crate) fn finish(&mut self, dataplane: &mut Dataplane, complete: impl FnMut(&mut LoopWindow)) {
        dataplane.end_window();
        self.hand_over_ended(dataplane, complete);
    }
}

impl Drop for Outlet {
    fn drop(&mut self) {
        // Nobody waits for a thread that is gone.
        self.open.store(NO_WINDOW, Ordering::Release);
    }
}

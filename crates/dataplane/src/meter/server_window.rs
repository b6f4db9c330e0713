//! What is reported of a server with each second.

use std::sync::Arc;
use weir_timing::{Distribution, QueueReport};

/// One second of one server, as one dataplane sees it. The fields are those of [`ServerReport`](crate::ServerReport).
#[derive(Clone, Debug)]
pub struct ServerWindow {
    /// Its name.
    pub server: Arc<str>,
    /// `up`, `down`, `connecting` or `idle`.
    pub state: &'static str,
    /// Messages that were queued for it.
    pub requests: u64,
    /// Error replies that it gave, and messages that got none.
    pub errors: u64,
    /// Messages that got no reply in time.
    pub timeouts: u64,
    /// Messages that waited to be handed to the kernel; cut at the window's end.
    pub queued: QueueReport,
    /// Messages that waited for their reply; cut at the window's end.
    pub in_flight: QueueReport,
    /// From the last byte of a message handed to the kernel to its reply complete, nanoseconds.
    pub time: Distribution,
}

impl ServerWindow {
    /// The server in a second in which nothing happened after this one.
    #[must_use]
    pub fn quiet(&self) -> Self {
        let quiet = |queue: &QueueReport| QueueReport { length: queue.length, ..QueueReport::default() };
        Self {
            server: Arc::clone(&self.server),
            state: self.state,
            requests: 0,
            errors: 0,
            timeouts: 0,
            queued: quiet(&self.queued),
            in_flight: quiet(&self.in_flight),
            time: Distribution::new(),
        }
    }

    /// The same without the times.
    #[must_use]
    pub fn without_times(self) -> Self {
        Self { time: Distribution::new(), ..self }
    }

    /// Adds what another dataplane of the same proxy saw of the same server.
    pub fn merge(&mut self, other: &Self) {
        self.state = worse_state(self.state, other.state);
        self.requests += other.requests;
        self.errors += other.errors;
        self.timeouts += other.timeouts;
        self.queued += other.queued;
        self.in_flight += other.in_flight;
        self.time.merge(&other.time);
    }
}

impl ServerWindow {
    /// Adds what went over another connection to the same server, whose times are counted already.
    pub(crate) fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.errors += other.errors;
        self.timeouts += other.timeouts;
        self.queued += other.queued;
        self.in_flight += other.in_flight;
    }
}

/// The state of a server that two loops see differently.
pub(crate) fn worse_state(one: &'static str, other: &'static str) -> &'static str {
    if badness(other) > badness(one) { other } else { one }
}

fn badness(state: &str) -> u8 {
    match state {
        // Nobody has needed it from there yet.
        "idle" => 0,
        "up" => 1,
        "connecting" => 2,
        _ => 3,
    }
}

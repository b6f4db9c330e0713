//! One client as the network thread sees it: its bytes are cut into requests, and these are offered to its turn.

use crate::engine::threaded::{client::Client, request::Request};
use std::sync::Arc;
use weir_dataplane::{Arrivals, Budget, Charge, Doing, Input, Intake};
use weir_protocol::{Limits, Parsed, Request as Parts};
use weir_timing::Instant;

#[derive(Debug)]
pub(crate) struct Session {
    pub(super) client: Arc<Client>,
    /// What it sends becomes requests.
    pub(super) intake: Intake,
    /// What the bytes that wait count against the limit on all buffers.
    charge: Charge,
    /// The connection is gone; the session stays until its requests are done, so that its number is not used again before.
    pub(super) gone: bool,
    /// How many sessions had been accepted with it.
    number: u64,
    /// When the kernel received what was read, if that is asked for.
    arrivals: Arrivals,
    /// Requests that there was no room for.
    pub(super) turned_away: u64,
    /// Requests that are answered by ending the connection, and by nothing else.
    pub(super) quits: u64,
}

impl Session {
    pub(crate) fn new(
        client: Arc<Client>,
        number: u64,
        limits: Limits,
        budget: &Arc<Budget>,
        now: Instant,
    ) -> Self {
        Self {
            client,
            intake: Intake::new(limits, now),
            charge: budget.charge(0),
            gone: false,
            number,
            arrivals: Arrivals::default(),
            turned_away: 0,
            quits: 0,
        }
    }

    pub(crate) fn wants_read(&self) -> bool {
        self.intake.wants_read() && !self.gone
    }

    /// The bytes that are about to be handed in with the same `now` were received by the kernel at `arrived`.
    pub(crate) fn note_arrival(&mut self, now: Instant, arrived: Option<Instant>) {
        self.arrivals.note(self.intake.since(), now, arrived);
    }

    /// What the client is doing, as far as it may take too long. `None`: nothing of it can be overdue.
    pub(crate) fn doing(&self) -> Option<Doing> {
        if self.gone {
            return None;
        }
        let (is_free, unread_since) = self.client.owed();
        Some(Doing {
            idle_since: self.intake.idle_since().filter(|_| is_free),
            locked_since: None,
            request: self.intake.arriving(),
            unread_since,
            slow_since: unread_since,
        })
    }

    /// Bytes were read. Calls `offer` with each complete request; it returns whether no more should be offered now.
    pub(crate) fn handle_bytes(&mut self, bytes: &[u8], now: Instant, offer: impl FnMut(Request) -> bool) {
        let input = self.intake.read(bytes, now);
        self.consume(input, now, offer);
    }

    /// Offers what may be offered of the bytes that were kept.
    pub(crate) fn resume(&mut self, now: Instant, offer: impl FnMut(Request) -> bool) {
        self.intake.resume();
        let input = self.intake.reread();
        self.consume(input, now, offer);
    }

    fn consume(&mut self, input: Input<'_>, now: Instant, mut offer: impl FnMut(Request) -> bool) {
        let rest = input.rest();
        while !self.intake.is_paused() && self.intake.skip(&rest, now) {
            let bytes = rest.bytes();
            let parsed = self.intake.look(&rest, |bytes| {
                let is_admitted = self.charge.budget().admits(bytes);
                self.turned_away += u64::from(!is_admitted);
                is_admitted
            });
            if let Parsed::Incomplete { .. } = parsed {
                break;
            }
            let since = self.intake.take(&rest, &parsed, now);
            if let Parsed::Request { request: Parts::Quit, .. } = parsed {
                self.quits += 1;
                self.intake.close();
            } else if let Some(mut request) = Request::new(&parsed, bytes, since, now) {
                request.taken.client = self.number;
                request.taken.arrived = self.arrivals.of(since);
                if offer(request) {
                    self.intake.pause();
                }
            }
        }
        let left = rest.bytes().len();
        if self.intake.keep(input, left) {
            self.intake.give_all_memory_back();
        }
        self.recharge();
    }

    fn recharge(&mut self) {
        let capacity = self.intake.capacity();
        let bytes = if capacity > CHARGED_BYTES_MIN { capacity } else { 0 };
        if bytes != self.charge.bytes() {
            self.charge.set(bytes);
        }
    }
}

/// Shorter beginnings of requests are not counted: they are no larger than what an idle session may cost.
const CHARGED_BYTES_MIN: usize = 4 << 10;

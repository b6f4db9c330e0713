//! The end of a connection that is to be replaced, or dropped, without losing a request.
//!
//! While a connection is renewed nothing new is begun on it. What was begun is finished and answered; what waits goes out on the next one.

use super::{Backend, Part};
use crate::servers::happened::LostErrands;
use weir_timing::Instant;

impl Backend {
    /// How many of `parts` the server knows of, at least by their first byte.
    pub(super) fn begun(&self) -> usize {
        let partly = self.parts.get(self.sent).is_some_and(|part| part.start() < self.out_start);
        if partly { self.last_of_message(self.sent) + 1 } else { self.sent }
    }

    /// How many bytes of those that wait belong to a message whose beginning was sent.
    pub(super) fn begun_bytes(&self) -> usize {
        let end = self.parts.range(self.sent..self.begun()).next_back().map_or(self.out_start, Part::end);
        usize::try_from(end - self.out_start).expect("a message is no longer than the bytes that wait")
    }

    /// As [`Backend::settled_at`], of what was begun only.
    pub(crate) fn begun_settled_at(&self) -> Option<Instant> {
        latest_deadline(self.parts.range(..self.begun()))
    }

    /// At the latest when nothing waits for a reply any more; `None` while a request does. A reply for which nobody waits, to what
    /// replicas are told behind a request's back, is given the time that it would have had.
    pub(crate) fn settled_at(&self) -> Option<Instant> {
        latest_deadline(self.parts.iter())
    }

    /// The connection is replaced: what was begun on it is over, what waits stays. Returns what that means for the journal.
    pub(crate) fn renew(&mut self, now: Instant) -> LostErrands {
        let (begun, bytes) = (self.begun(), self.begun_bytes());
        let lost = self.errands_among(begun);
        let mut noted = 0;
        for part in self.parts.drain(..begun) {
            if part.is_load() {
                self.tally.note_over(true, now);
            }
            for _ in 0..part.key_count() {
                noted += 1 + usize::from(self.keys.as_slice()[noted]);
            }
        }
        self.keys.advance(noted);
        self.out.advance(bytes);
        self.out_start += bytes as u64;
        self.sent = 0;
        self.dequeued = self.dequeued.saturating_sub(begun);
        self.unexpired = self.unexpired.saturating_sub(begun);
        self.looked_at = self.looked_at.saturating_sub(begun);
        self.cursor = Default::default();
        self.scanner.reset();
        self.input = Vec::new();
        self.skip = 0;
        self.link.replace();
        self.in_step = Default::default();
        lost
    }
}

/// When the last of these parts is given up, if no request waits for any of them.
fn latest_deadline<'a>(parts: impl Iterator<Item = &'a Part> + Clone) -> Option<Instant> {
    let awaited = parts.clone().any(|part| part.request().is_some());
    (!awaited).then(|| parts.map(Part::deadline).max().unwrap_or(Instant::ZERO))
}

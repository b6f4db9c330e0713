//! Reads whose server says nothing, while there is time to ask another one.
//!
//! A connection on which nothing has come for half of the timeout, though something waits for it, may have come to its end. A read that
//! has used up half of its time there is asked of the next replica, once (`failover.rs`). Its part stays where it is, so that the reply
//! is thrown away if it comes, and its deadline still counts as one that was missed. A server that answers anything, however late, keeps
//! its reads: it is only slow, and another one would have to do the same work again.

use super::{Backend, NEVER, Part, RequestKey};
use weir_protocol::Expected;
use weir_timing::Instant;

impl Backend {
    /// When the first read that was not looked at may be asked elsewhere, if the server says nothing until then.
    pub(crate) fn reads_late_at(&self, timeout_ns: u64) -> Option<Instant> {
        if !self.has_copies {
            return None;
        }
        let part = self.parts.get(self.looked_at)?;
        Some(half_time(part.deadline(), timeout_ns).max(self.progress.0.plus(timeout_ns / 2)))
    }

    /// The reads that have used up half of their time, if the server has said nothing for as long: where each stands, whose it is, and
    /// its keys, each after its length. They are looked at no more.
    #[cold]
    pub(crate) fn late_reads(
        &mut self,
        now: Instant,
        timeout_ns: u64,
    ) -> Vec<(usize, RequestKey, Part, Box<[u8]>)> {
        let mut late = Vec::new();
        let mut keys = self.keys.as_slice();
        for (place, part) in self.parts.iter().enumerate() {
            let mut len = 0;
            (0..part.key_count()).for_each(|_| len += 1 + usize::from(keys[len]));
            let (own, rest) = keys.split_at(len);
            keys = rest;
            if place < self.looked_at {
                continue;
            }
            if half_time(part.deadline(), timeout_ns) > now {
                break;
            }
            self.looked_at = place + 1;
            let reads =
                matches!(part.expected(), Expected::Retrieval | Expected::Meta | Expected::MetaThenNoop);
            if let Some(request) = part.request().filter(|_| reads) {
                late.push((place, request, *part, own.into()));
            }
        }
        late
    }

    /// The read in this place was asked of another server. It is still counted when its time is up.
    pub(crate) fn note_moved(&mut self, place: usize) {
        self.parts[place].note_moved();
    }

    /// The earlier of when something is late and when something may be asked elsewhere.
    pub(super) fn soonest_of(&self, late: Option<Instant>, timeout_ns: u64) -> Instant {
        let late = late.unwrap_or(NEVER);
        self.reads_late_at(timeout_ns).map_or(late, |at| at.min(late))
    }
}

/// When half of the time before a deadline is used up.
pub(super) fn half_time(deadline: Instant, timeout_ns: u64) -> Instant {
    Instant::from_nanos(deadline.as_nanos().saturating_sub(timeout_ns / 2))
}

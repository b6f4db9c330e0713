//! Whether a server answers, and how fast: what its replies and its silence say.
//!
//! [`Health`] owns how many requests in a row were late, since when, and how long answers took of late. It learns of late requests, of
//! answers and of what they took; it answers whether the server is silent. What follows from that is decided in `mark_down.rs` and in
//! `second_opinion.rs`.

use weir_timing::Instant;

/// What is known of how a server answers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Health {
    /// Requests that were late since it was last heard of.
    late_in_a_row: u32,
    /// When the first of them was found late.
    late_since: Instant,
    /// How long it took to answer of late, nanoseconds; 0 before the first reply.
    smoothed_ns: u64,
}

impl Default for Health {
    fn default() -> Self {
        Self { late_in_a_row: 0, late_since: Instant::ZERO, smoothed_ns: 0 }
    }
}

impl Health {
    /// This many requests were late. Returns how many that are since anything was heard.
    pub(super) fn note_late(&mut self, count: usize, now: Instant) -> u32 {
        if self.late_in_a_row == 0 {
            self.late_since = now;
        }
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        self.late_in_a_row = self.late_in_a_row.saturating_add(count);
        self.late_in_a_row
    }

    /// Something came from the server, or it is connected anew.
    #[inline]
    pub(super) const fn note_heard(&mut self) {
        self.late_in_a_row = 0;
    }

    /// From now on it is known whether anything comes: until then it counts as silent.
    pub(super) fn listen(&mut self) {
        self.late_in_a_row = self.late_in_a_row.max(1);
    }

    #[inline]
    pub(super) const fn late_in_a_row(&self) -> u32 {
        self.late_in_a_row
    }

    /// Whether it has said nothing for a whole timeout after a request was late.
    #[inline]
    pub(super) fn is_silent(&self, timeout_ns: u64, now: Instant) -> bool {
        self.late_in_a_row > 0 && self.late_since.plus(timeout_ns) <= now
    }

    /// It took so long to answer, or to be given up. An eighth counts, as in TCP's smoothed round-trip time (RFC 6298).
    #[inline]
    pub(super) fn observe(&mut self, nanos: u64) {
        self.smoothed_ns = if self.smoothed_ns == 0 { nanos } else { self.smoothed_ns / 8 * 7 + nanos / 8 };
    }

    /// How long it took to answer of late, nanoseconds; 0 before the first reply.
    #[inline]
    pub(super) const fn smoothed_ns(&self) -> u64 {
        self.smoothed_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    #[test]
    fn it_is_silent_a_timeout_after_the_first_late_request_until_it_is_heard() {
        let mut health = Health::default();
        assert!(!health.is_silent(100, at(1000)));
        assert_eq!(health.note_late(2, at(10)), 2);
        assert_eq!(health.note_late(3, at(90)), 5, "those are in a row");
        assert!(!health.is_silent(100, at(109)) && health.is_silent(100, at(110)));
        health.note_heard();
        assert!(!health.is_silent(100, at(110)));
        assert_eq!(health.note_late(usize::MAX, at(200)), u32::MAX);
        assert_eq!(health.note_late(1, at(200)), u32::MAX);
    }

    #[test]
    fn whoever_is_listened_to_counts_as_silent_until_something_comes() {
        let mut health = Health::default();
        health.listen();
        assert_eq!(health.late_in_a_row(), 1);
        health.note_late(4, at(1));
        health.listen();
        assert_eq!(health.late_in_a_row(), 5);
    }

    #[test]
    fn an_eighth_of_each_answer_counts() {
        let mut health = Health::default();
        health.observe(800);
        assert_eq!(health.smoothed_ns(), 800, "the first counts in full");
        health.observe(1600);
        assert_eq!(health.smoothed_ns(), 900);
    }
}

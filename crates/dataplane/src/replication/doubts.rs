//! Writes that got no answer, and may still be carried out: how many of one count there are.
//!
//! ```text
//!   doubted        doubted   answered late            nothing new for a minute
//!      1              2          1                            0, whatever is still open
//!   ───┴──────────────┴──────────┴────────────────────────────┴───▶
//!      ╰─────────────────────── one window ───────────────────╯
//! ```
//!
//! A window begins with a doubt where there is none, and ends a minute after the last one. A write that is never answered is feared until
//! then. One that is answered late is feared no more from that moment on, if it belongs to the open window; an older one counts for nothing.

use std::sync::atomic::{AtomicU64, Ordering};
use weir_timing::Instant;

/// How long it is feared that a write is carried out which got no answer. A server that hangs longer than this and then goes on is one that
/// the quarantine (`--quarantine`, 2 s) does not cover either.
pub(super) const UNSURE_NS: u64 = 60_000_000_000;

/// The doubts of one count, all in one word: until when they matter, the number of the window, and how many are open.
#[derive(Debug, Default)]
pub(super) struct Doubts(AtomicU64);

#[derive(Clone, Copy)]
struct State {
    /// In units of [`UNIT_BITS`].
    until: u64,
    window: u16,
    open: u16,
}

/// Time is counted in units of 2^20 ns, about a millisecond, of which 40 bits are 36 years.
const UNIT_BITS: u32 = 20;
const UNTIL_MAX: u64 = (1 << 40) - 1;

/// The width of the other two numbers. Where more are open than fit, these end with the window.
const NUMBER_BITS: u32 = 12;
const NUMBER_MAX: u16 = (1 << NUMBER_BITS) - 1;

impl State {
    fn of(word: u64) -> Self {
        let number = |word: u64| (word & u64::from(NUMBER_MAX)) as u16;
        Self { until: word >> (2 * NUMBER_BITS), window: number(word >> NUMBER_BITS), open: number(word) }
    }

    fn word(self) -> u64 {
        self.until << (2 * NUMBER_BITS) | u64::from(self.window) << NUMBER_BITS | u64::from(self.open)
    }

    const fn is_over(self, now: Instant) -> bool {
        self.until <= now.as_nanos() >> UNIT_BITS
    }
}

impl Doubts {
    /// A write got no answer. Returns the number of the window, for [`Doubts::end`].
    pub(super) fn begin(&self, now: Instant) -> u16 {
        let until = ((now.as_nanos().saturating_add(UNSURE_NS) >> UNIT_BITS) + 1).min(UNTIL_MAX);
        let mut window = 0;
        let begun = |word| {
            let before = State::of(word);
            let state = if before.is_over(now) {
                State { until, window: before.window.wrapping_add(1) & NUMBER_MAX, open: 1 }
            } else {
                let open = (before.open + 1).min(NUMBER_MAX);
                State { until: until.max(before.until), open, ..before }
            };
            window = state.window;
            Some(state.word())
        };
        _ = self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, begun);
        window
    }

    /// One that got no answer in this window has one after all.
    pub(super) fn end(&self, window: u16) {
        let ended = |word| {
            let state = State::of(word);
            let counts = state.window == window && (1..NUMBER_MAX).contains(&state.open);
            counts.then(|| State { open: state.open - 1, ..state }.word())
        };
        _ = self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, ended);
    }

    /// Whether there is none that matters.
    pub(super) fn is_none(&self, now: Instant) -> bool {
        let state = State::of(self.0.load(Ordering::SeqCst));
        state.open == 0 || state.is_over(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Instant = Instant::from_nanos(1_000);
    /// Times are rounded up by so much.
    const UNIT_NS: u64 = 1 << UNIT_BITS;

    #[test]
    fn who_is_never_answered_is_feared_for_a_while_after_the_last_one() {
        let doubts = Doubts::default();
        assert!(doubts.is_none(NOW));
        doubts.begin(NOW);
        assert!(!doubts.is_none(NOW.plus(UNSURE_NS - 1)));
        doubts.begin(NOW.plus(UNSURE_NS / 2));
        assert!(!doubts.is_none(NOW.plus(UNSURE_NS / 2 + UNSURE_NS - 1)));
        assert!(doubts.is_none(NOW.plus(UNSURE_NS / 2 + UNSURE_NS + UNIT_NS)));
    }

    #[test]
    fn all_that_are_open_must_be_answered() {
        let doubts = Doubts::default();
        let (first, second) = (doubts.begin(NOW), doubts.begin(NOW));
        doubts.end(first);
        assert!(!doubts.is_none(NOW), "one is open");
        doubts.end(second);
        assert!(doubts.is_none(NOW));
        let third = doubts.begin(NOW);
        assert!(!doubts.is_none(NOW));
        doubts.end(third);
        assert!(doubts.is_none(NOW));
    }

    #[test]
    fn who_is_answered_in_a_later_window_does_not_count_there() {
        let doubts = Doubts::default();
        let old = doubts.begin(NOW);
        let later = NOW.plus(UNSURE_NS + UNIT_NS);
        let new = doubts.begin(later);
        doubts.end(old);
        assert!(!doubts.is_none(later), "the new one is open");
        doubts.end(new);
        assert!(doubts.is_none(later));
    }

    #[test]
    fn where_more_are_open_than_are_counted_they_end_with_the_window() {
        let doubts = Doubts::default();
        let window = doubts.begin(NOW);
        (0..NUMBER_MAX).for_each(|_| _ = doubts.begin(NOW));
        (0..=NUMBER_MAX).for_each(|_| doubts.end(window));
        assert!(!doubts.is_none(NOW));
        assert!(doubts.is_none(NOW.plus(UNSURE_NS + UNIT_NS)));
    }
}

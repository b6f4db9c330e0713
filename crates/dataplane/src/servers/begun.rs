//! From when a request's deadline runs.
//!
//! ```text
//!   created ──── waits behind its own client's earlier requests ────▶ turn ──── queue, server ────▶ deadline = turn + timeout
//!           └── at a server that has let a deadline pass, and said nothing for a timeout since ──▶ deadline = created + timeout
//! ```
//!
//! A driver that serves one request of a session at a time lets those behind it wait. That is the client's own order, and no server's
//! fault: their deadlines run from their turn on. Only where a server is silent already, a request that has waited for a whole `timeout`
//! behind others does not wait for it again. Else a pipeline to a frozen server would cost a `timeout` for each request.
//!
//! So it is with a write that waits for its key (`replication/key_lock.rs`): that is no server's fault either.
//!
//! It is asked when a part is given its deadline. In an event loop's own sessions both moments are the same, but for such writes.

use weir_timing::Instant;

/// When a request was created, and when it was its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Begun {
    created: Instant,
    turn: Instant,
}

impl Begun {
    /// It has waited behind nothing.
    #[inline]
    pub(crate) const fn at(created: Instant) -> Self {
        Self { created, turn: created }
    }

    /// It was its turn then.
    #[inline]
    pub(crate) fn in_turn(created: Instant, turn: Instant) -> Self {
        Self { created, turn: turn.max(created) }
    }

    /// The deadline at a server, which `is_silent` or not.
    #[inline]
    pub(crate) fn deadline(self, timeout_ns: u64, is_silent: bool) -> Instant {
        let from = if is_silent { self.created } else { self.turn };
        from.plus(timeout_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_behind_ones_own_counts_only_where_the_server_is_silent() {
        let [created, turn] = [10, 500].map(Instant::from_nanos);
        let begun = Begun::in_turn(created, turn);
        assert_eq!(begun.deadline(100, false), turn.plus(100));
        assert_eq!(begun.deadline(100, true), created.plus(100));
        assert_eq!(Begun::at(created).deadline(100, false), created.plus(100));
        assert_eq!(Begun::in_turn(turn, created), Begun::at(turn), "it was its turn before");
    }
}

//! Servers that may have come back empty: what they miss is asked of another copy.
//!
//! A memcached that was killed and started anew holds nothing. The other servers of its keys hold them, but a miss at the decider counted as
//! a miss. From outside a restart looks like any other end of a connection, so each end makes the server *doubted*. So do a refused
//! connection and a name that gets other addresses:
//!
//! ```text
//!   trusted ──a connection ended or was refused──▶ doubted ──16,384 questions in a row found nothing elsewhere──▶ trusted
//!                                                    │ ▲
//!                                                    └─┘ a question found something: counted anew
//! ```
//!
//! What a read misses at a doubted server is asked of another that may be read: one that is not doubted, or else the one that became
//! doubted first. Whoever was emptied last knows least. So what the decider misses is asked only of one that is doubted less. What is found
//! is the answer. It is put back where it was missing (`repair.rs`), if each key is written by one dataplane alone and clients may not
//! flush. Nothing else is different: a doubted server decides as before, and no request but a miss costs more.
//!
//! All dataplanes of a process share the doubt (`freshness.rs`). It is read without a lock.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// After this number of questions in a row that found nothing, a server is trusted again. Of what it is asked for then, less than one key
/// in some thousands is one that another server has; and a load that mostly misses has paid for no more questions than these.
pub(crate) const IN_VAIN_MAX: u32 = 16_384;

/// What is doubted of one server.
#[derive(Debug, Default)]
pub(crate) struct Doubt {
    /// The number of its last end among all servers', from 1; none if it is trusted.
    since: AtomicU64,
    /// Questions in a row that found nothing.
    in_vain: AtomicU32,
}

impl Doubt {
    /// It may have come back empty: the end of a connection with this number says so. Returns whether it had been trusted.
    pub(crate) fn begin(&self, number: u64) -> bool {
        self.in_vain.store(0, Ordering::Relaxed);
        self.since.swap(number, Ordering::Relaxed) == 0
    }

    /// 0 if it is trusted; more for who was emptied later.
    #[inline]
    pub(crate) fn rank(&self) -> u64 {
        self.since.load(Ordering::Relaxed)
    }

    /// Of this many keys that it missed, others had `found`. Returns whether it is trusted again.
    pub(crate) fn learn(&self, asked: u32, found: u32) -> bool {
        if found > 0 {
            self.in_vain.store(0, Ordering::Relaxed);
            return false;
        }
        let before = self.in_vain.fetch_add(asked, Ordering::Relaxed);
        before.saturating_add(asked) >= IN_VAIN_MAX && self.since.swap(0, Ordering::Relaxed) != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_trusted_again_when_questions_find_nothing_for_long() {
        let doubt = Doubt::default();
        assert!(!doubt.learn(IN_VAIN_MAX, 0), "it was trusted");
        assert!(doubt.begin(7));
        assert!(!doubt.begin(9), "it was doubted");
        assert_eq!(doubt.rank(), 9);
        assert!(!doubt.learn(IN_VAIN_MAX - 1, 0));
        assert!(!doubt.learn(5, 1), "something was found");
        assert!(!doubt.learn(IN_VAIN_MAX - 1, 0));
        assert_eq!(doubt.rank(), 9);
        assert!(doubt.learn(1, 0));
        assert_eq!(doubt.rank(), 0);
        assert!(!doubt.learn(1, 0), "once is enough");
    }
}

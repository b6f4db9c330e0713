//! How much memory all buffers of a process may take together, and what happens when they take more.
//!
//! ```text
//!   0 ────────────── half ───────────── three quarters ───────────── limit
//!     nothing         │ a client with     │ replies for such a        │ replies above 4 KiB are refused for everybody,
//!                     │ unread replies    │ client are refused; who   │ and so are values above 64 KiB
//!                     │ is not read       │ took little of them for   │
//!                     │                   │ half a second is closed   │
//! ```
//!
//! Every dataplane counts what it holds itself, in plain numbers, and tells the others once per turn ([`Held::publish`]). So what is held
//! may pass the limit by what one turn of each loop brings, which is bounded by the reads of a turn. What it gave back after that is
//! reported at the end of the turn ([`Held::tell`]): the next turn may be far. Before anything is refused, what the others hold is looked
//! at anew; and while clients are not read because of it, that is looked at every 125 ms ([`SCARCE_LOOK_NS`]). What is counted is the
//! memory that buffers keep, not the bytes in them. Buffers that are no larger than those of an idle client are not counted.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// What all dataplanes of a process may hold together.
#[derive(Debug)]
pub struct Budget {
    limit: usize,
    held: AtomicUsize,
}

/// Memory that somebody outside of a dataplane holds, until this is dropped.
#[derive(Debug)]
pub struct Charge {
    budget: Arc<Budget>,
    bytes: usize,
}

impl Budget {
    /// A budget of which nothing is used.
    pub fn new(limit_bytes: usize) -> Arc<Self> {
        Arc::new(Self { limit: limit_bytes, held: AtomicUsize::new(0) })
    }

    /// What is held now, in bytes.
    pub fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    /// Whether this many bytes more are within the limit.
    pub fn admits(&self, bytes: usize) -> bool {
        self.held().saturating_add(bytes) <= self.limit
    }

    /// Whether clients that leave replies unread should not be read.
    pub fn is_pressed(&self) -> bool {
        self.held() > self.limit / 2
    }

    /// How much of what `own` holds must go, so that there is room for others again; everybody gives up his share of that.
    pub fn excess_of(&self, own: usize) -> usize {
        let held = self.held();
        let excess = held.saturating_sub(three_quarters(self.limit)) as u128;
        (excess * own as u128 / held.max(1) as u128) as usize
    }

    /// Counts memory that is held until the charge is dropped.
    pub fn charge(self: &Arc<Self>, bytes: usize) -> Charge {
        self.held.fetch_add(bytes, Ordering::Relaxed);
        Charge { budget: Arc::clone(self), bytes }
    }
}

impl Charge {
    /// The memory has another size now.
    pub fn set(&mut self, bytes: usize) {
        if bytes >= self.bytes {
            self.budget.held.fetch_add(bytes - self.bytes, Ordering::Relaxed);
        } else {
            self.budget.held.fetch_sub(self.bytes - bytes, Ordering::Relaxed);
        }
        self.bytes = bytes;
    }

    /// What it counts against.
    pub fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    /// What was counted last, in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.set(0);
    }
}

/// One dataplane's share of the budget.
#[derive(Debug)]
pub(crate) struct Held {
    charge: Charge,
    /// What sessions hold.
    sessions: usize,
    /// What connections to servers hold, as of the beginning of the turn.
    servers: usize,
    /// What everybody else held when this was reported last.
    others: usize,
}

impl Held {
    pub(crate) fn new(budget: &Arc<Budget>) -> Self {
        Self { charge: budget.charge(0), sessions: 0, servers: 0, others: budget.held() }
    }

    pub(crate) fn budget(&self) -> &Arc<Budget> {
        &self.charge.budget
    }

    fn limit(&self) -> usize {
        self.charge.budget.limit
    }

    fn total(&self) -> usize {
        self.sessions + self.servers + self.others
    }

    /// The same, by what the others hold at this moment: they may have given back since they were looked at.
    #[cold]
    fn total_now(&self) -> usize {
        let others = self.charge.budget.held().saturating_sub(self.charge.bytes);
        self.sessions + self.servers + others
    }

    fn is_within(&self, bytes: usize, limit: usize) -> bool {
        self.total().saturating_add(bytes) <= limit || self.total_now().saturating_add(bytes) <= limit
    }

    pub(crate) fn is_pressed(&self) -> bool {
        !self.is_within(0, self.limit() / 2)
    }

    /// Whether clients that leave replies unread should not be read once so much more is held. Looks at what the others hold now: they may have
    /// taken or given back since the turn began.
    #[inline]
    pub(crate) fn would_be_pressed(&self, bytes: usize) -> bool {
        self.total_now().saturating_add(bytes) > self.limit() / 2
    }

    /// How much this dataplane must give up.
    pub(crate) fn excess(&self) -> usize {
        self.charge.budget.excess_of(self.sessions + self.servers)
    }

    /// Whether this many bytes more may be held, for a client that reads what it gets or for one that does not.
    pub(crate) fn admits(&self, bytes: usize, is_unread: bool) -> bool {
        let limit = if is_unread { three_quarters(self.limit()) } else { self.limit() };
        self.is_within(bytes, limit)
    }

    /// Whether this many bytes more of a reply of several megabytes may be held.
    pub(crate) fn admits_bulky(&self, bytes: usize) -> bool {
        self.is_within(bytes, self.limit() / BULKY_SHARE)
    }

    /// What sessions and connections to servers hold, counted anew.
    pub(crate) fn set(&mut self, sessions: usize, servers: usize) {
        (self.sessions, self.servers) = (sessions, servers);
    }

    /// A session holds so much, and held so much `before`.
    #[inline]
    pub(crate) fn recharge(&mut self, before: usize, now: usize) {
        self.sessions = self.sessions + now - before;
    }

    /// From now on the limit is one for all that share this budget.
    pub(crate) fn share(&mut self, budget: &Arc<Budget>) {
        *self = Self { sessions: self.sessions, ..Self::new(budget) };
    }

    /// Whether clients that take nothing of their replies are to be looked for.
    pub(crate) fn is_scarce(&self) -> bool {
        self.total() > three_quarters(self.limit())
    }

    /// Once per turn: tells the others, and learns what they hold. Returns whether that is much.
    #[inline]
    pub(crate) fn publish(&mut self, servers: usize) -> bool {
        self.servers = servers;
        self.tell();
        self.others = self.charge.budget.held().saturating_sub(self.charge.bytes);
        self.total() > self.limit() / 2
    }

    /// Tells the others what is held now, if that has changed.
    pub(crate) fn tell(&mut self) {
        let own = self.sessions + self.servers;
        if own != self.charge.bytes {
            self.charge.set(own);
        }
    }
}

/// Replies of several megabytes may make use of a fifth: more of them are not gathered for clients that may not read them.
const BULKY_SHARE: usize = 5;

fn three_quarters(limit: usize) -> usize {
    limit / 4 * 3
}

/// Who makes no progress with his replies for so long is closed while memory is scarce. Nanoseconds.
pub(crate) const SCARCE_UNREAD_NS: u64 = 500_000_000;

/// How often such clients are looked for. Nanoseconds.
pub const SCARCE_LOOK_NS: u64 = SCARCE_UNREAD_NS / 4;

/// Replies that are no longer than this are never refused to a client that reads them.
pub(crate) const SMALL_REPLY_BYTES: usize = 4 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dataplanes_that_share_a_budget_see_what_the_others_hold() {
        let budget = Budget::new(1000);
        let (mut one, mut other) = (Held::new(&budget), Held::new(&budget));
        one.recharge(0, 400);
        one.publish(200);
        assert_eq!((budget.held(), one.total(), one.is_pressed()), (600, 600, true));
        assert!(!other.is_pressed(), "it has not been reported yet");
        other.publish(0);
        assert!(other.is_pressed());
        assert!(other.admits(400, false) && !other.admits(401, false));
        assert!(other.admits(150, true) && !other.admits(151, true));
        let outside = budget.charge(100);
        one.recharge(400, 0);
        one.publish(0);
        assert_eq!((budget.held(), one.total()), (100, 100));
        drop((outside, one));
        assert_eq!(budget.held(), 0);
    }
}

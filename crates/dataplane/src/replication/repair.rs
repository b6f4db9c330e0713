//! Read repair: a copy that a read found missing is put back, where that is wanted (`--read-repair on`). It is also put back where its
//! server may have come back empty (`emptied.rs`). In that case another than the decider may be the one to believe.
//!
//! ```text
//!   get ─▶ another replica: miss ─▶ decider: has it ─▶ the client is answered
//!                                                   ╲
//!                                                    ▶ the key's owner ──mg──▶ decider ──▶ ms … ME (add) ──▶ the other replicas
//! ```
//!
//! The value that the read saw is not sent: a write may have come since. The owner of the key asks the decider anew, and nobody waits for
//! that. It begins only while no write of the key is under way, so that every replica has answered all earlier ones, or is known to lack
//! them. What the decider says counts only if no write of the key has begun meanwhile and the decider may still be read. Then the copies go
//! out on the connections on which all later writes of the key will go. So at no replica can a copy come behind a newer write; and what is
//! there already stays, because it is an `add`.
//!
//! A copy that is sent and not confirmed is like any write that was not: its key is in the journal. It has the flags of the item
//! and at most the rest of its time to live, because servers count whole seconds.
//!
//! [`Repairs`] owns how many are under way and which writes forbid them; it answers whether one may begin, and whether a write has come in between.
//! What is sent for one is in `write/put_back.rs`. Of each loop's repairs no more are under way than [`UNDER_WAY_MAX`].

use crate::{wire::hash::hash, wire::ids::LoopId};

/// Repairs that one dataplane has asked for and that are not done. Each keeps a key, and when the decider has answered a value, in
/// memory; more would make a restarted server's misses a second load.
const UNDER_WAY_MAX: usize = 64;

/// The number of classes into which keys fall. Of a class that is written to nothing is repaired, so there are many more of them than
/// writes at the same time; they take 16 KiB.
const CLASSES: usize = 1024;

/// The class of a write that began before writes were counted.
const UNCOUNTED: usize = usize::MAX;

/// What a dataplane knows of its repairs, and of the writes that forbid them.
#[derive(Debug, Default)]
pub(super) struct Repairs {
    under_way: usize,
    /// One for each class; none where nothing was repaired yet.
    writes: Box<[Writes]>,
    /// Writes that had begun before there were any, and that not all replicas have answered.
    uncounted: usize,
}

/// The replicated writes of one class of keys.
#[derive(Clone, Copy, Debug, Default)]
struct Writes {
    begun: u64,
    /// How many of them not all replicas have answered, or failed to.
    unfinished: u32,
}

/// What is remembered of a repair while servers are asked.
#[derive(Debug)]
pub(super) struct Repair {
    /// The class of its key, and how many writes had begun there before the decider was asked.
    class: usize,
    begun: u64,
    /// The loop that has asked for it, if that is another one.
    home: Option<LoopId>,
}

impl Repairs {
    pub(super) fn new(is_wanted: bool) -> Self {
        let classes = if is_wanted { CLASSES } else { 0 };
        let writes = vec![Writes::default(); classes].into_boxed_slice();
        Self { under_way: 0, writes, uncounted: 0 }
    }

    /// Writes are counted from now on. Returns whether all that are under way are.
    fn count_writes(&mut self) -> bool {
        if self.writes.is_empty() {
            self.writes = vec![Writes::default(); CLASSES].into_boxed_slice();
        }
        self.uncounted == 0
    }

    /// A write goes to the replicas of this key. Returns its class, for [`Repairs::end_write`].
    pub(super) fn begin_write(&mut self, name: &[u8]) -> usize {
        if self.writes.is_empty() {
            self.uncounted += 1;
            return UNCOUNTED;
        }
        let class = class_of(name);
        self.writes[class].begun += 1;
        self.writes[class].unfinished += 1;
        class
    }

    /// No replica owes such a write a reply any more.
    pub(super) fn end_write(&mut self, class: usize) {
        match self.writes.get_mut(class) {
            Some(writes) => writes.unfinished -= 1,
            None => self.uncounted -= 1,
        }
    }

    /// One more is wanted by this dataplane, unless too many are under way.
    pub(super) fn admit_one(&mut self) -> bool {
        let is_admitted = self.under_way < UNDER_WAY_MAX;
        self.under_way += usize::from(is_admitted);
        is_admitted
    }

    /// The copies of this key may be put back, if no write of its class is under way. `home`: the loop that has asked for it, if that is another.
    pub(super) fn begin(&mut self, name: &[u8], home: Option<LoopId>) -> Option<Repair> {
        let class = class_of(name);
        let is_counted = self.count_writes();
        let &Writes { begun, unfinished } = self.writes.get(class)?;
        (is_counted && unfinished == 0).then_some(Repair { class, begun, home })
    }

    /// One that this dataplane had asked for is done.
    pub(super) fn note_done(&mut self) {
        self.under_way -= 1;
    }

    pub(super) fn is_quiet(&self) -> bool {
        self.under_way == 0 && self.uncounted == 0 && self.writes.iter().all(|writes| writes.unfinished == 0)
    }

    /// Whether a write of its class has begun since.
    pub(super) fn is_outdated(&self, repair: &Repair) -> bool {
        self.writes[repair.class].begun != repair.begun
    }
}

impl Repair {
    /// The loop that has asked for it, if that is another one.
    pub(super) const fn home(&self) -> Option<LoopId> {
        self.home
    }
}

fn class_of(name: &[u8]) -> usize {
    usize::try_from(hash(name) % CLASSES as u64).expect("a class")
}

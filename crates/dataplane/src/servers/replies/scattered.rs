//! The reply to several gets that share a message, from the first value on that is not of the first get's keys.
//!
//! ```text
//!   get a    ╮                       VALUE b    kept: `c` may still come
//!   get b c  ├─ get a b c d          VALUE d    the whole reply to `get d`
//!   get d    ╯                       END        `get a` has got nothing, `get b c` what was kept
//! ```
//!
//! A key that several parts want is asked for once (`pipeline/line.rs`), and its value is the answer to all of them. Replies to such messages
//! are read here from their beginning:
//!
//! ```text
//!   get a    ╮                       VALUE a    the whole reply to `get a`; kept for `get b a`
//!   get b a  ├─ get a b              VALUE b    `get b a` is answered with both, in its own order
//!   get a    ╯                                  the third was answered with the first
//! ```
//!
//! A server may leave keys out, and may answer in any order. So a value is looked for among all keys of the message: first behind the one
//! that came last, where it is if the server keeps the order. What belongs to a part that lacks other values is kept here until these come
//! or the reply ends. It is asked whose a value is, and answers what is to be done with it.

use crate::{servers::part::Part, servers::twins::Twins, wire::ids::RequestKey};
use std::{collections::VecDeque, mem};
use weir_protocol::{Reply, ReplyScanner, ValueSpan, Violation, Whose};

/// What is known of such a reply.
#[derive(Debug, Default)]
pub(super) struct Scattered {
    /// How many parts the message has; 0 while there is no such reply.
    parts: usize,
    /// How many of them have left their places since the reply ended.
    ended: usize,
    /// Behind the key whose value came last.
    place: Place,
    /// The key of the value that is coming.
    owner: Option<Place>,
    /// How many twins the message has.
    twin_count: usize,
    /// Of a value that was taken, whose key has twins: where that stands, and from which twin on to look for its next one.
    twins: Option<(usize, usize)>,
    kept: Vec<Kept>,
    kept_bytes: usize,
    /// Empty ones, whose memory is used again.
    pool: Vec<Kept>,
}

/// At most this many are kept to be used again, with at most this much memory each, in bytes.
const POOL_MAX: usize = 16;
const POOL_BYTES_MAX: usize = 4 << 10;

/// A key of the message.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    part: usize,
    /// Its number among the keys of the part.
    ordinal: u32,
    /// Where it stands, in bytes of the noted keys.
    at: usize,
}

/// Values of a part that lacks others.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    part: usize,
    bytes: Vec<u8>,
    /// Where in `bytes` they lie, and their numbers among the keys of the part.
    values: Vec<ValueSpan>,
    ordinals: Vec<u32>,
}

/// What becomes of a value.
#[derive(Debug)]
pub(crate) enum Sorted {
    /// It was kept, or nobody waits for it any more.
    Kept,
    /// It is the only one of this part.
    Only(Part),
    /// It was the last one of this part that was missing.
    Last(Part, Kept),
    /// There is no room for it: the part in this place gets no answer from this reply.
    TooLarge(usize, Part),
}

impl Sorted {
    /// The request that it concerns.
    pub(crate) fn request(&self) -> Option<RequestKey> {
        match self {
            Self::Kept => None,
            Self::Only(part) | Self::Last(part, _) | Self::TooLarge(_, part) => part.request(),
        }
    }
}

impl Scattered {
    pub(super) fn is_under_way(&self) -> bool {
        self.parts > 0
    }

    /// The message has this many parts and twins. Of the first part's keys `ordinal` were looked at, up to byte `at`.
    pub(super) fn begin(&mut self, (parts, twins): (usize, usize), ordinal: u32, at: usize) {
        (self.parts, self.twin_count) = (parts, twins);
        self.place = Place { part: 0, ordinal, at };
    }

    /// No part of the message is left, or the connection is lost.
    pub(super) fn end(&mut self) {
        if self.is_under_way() {
            let (mut kept, pool) = (mem::take(&mut self.kept), mem::take(&mut self.pool));
            kept.clear();
            *self = Self { kept, pool, ..Self::default() };
        }
    }

    /// What memory it takes, in bytes, but for the little that is used again.
    pub(super) fn held_bytes(&self) -> usize {
        self.kept_bytes
    }

    /// What was kept was delivered: its memory is used again.
    pub(super) fn recycle(&mut self, mut kept: Kept) {
        if self.pool.len() < POOL_MAX && kept.bytes.capacity() <= POOL_BYTES_MAX {
            kept.clear();
            self.pool.push(kept);
        }
    }

    /// Frees what is kept to be used again.
    pub(super) fn give_memory_back(&mut self) {
        self.pool = Vec::new();
        if self.kept.is_empty() {
            self.kept = Vec::new();
        }
    }

    /// Looks for one value at the front of `bytes`, or for the line that ends the reply.
    pub(super) fn scan(
        &mut self,
        scanner: &mut ReplyScanner,
        bytes: &[u8],
        (parts, keys, twins): (&VecDeque<Part>, &[u8], &Twins),
    ) -> Result<Option<Reply>, Violation> {
        let mut foreign = None;
        let reply = scanner.scan_joined(bytes, |found| {
            self.owner = self.find(found, parts, keys, twins);
            if self.owner.is_some() {
                return Whose::HeadsLast;
            }
            foreign = Some(Violation::UnexpectedLine(format!("VALUE {}", String::from_utf8_lossy(found))));
            Whose::Others
        })?;
        foreign.map_or(Ok(reply), Err)
    }

    /// The key of the message that is `found`, if no value of it has come.
    fn find(&mut self, found: &[u8], parts: &VecDeque<Part>, keys: &[u8], twins: &Twins) -> Option<Place> {
        let begin = self.place;
        let (mut place, mut is_around) = (begin, false);
        while !(is_around && place.at >= begin.at) {
            if place.part == self.parts {
                (place, is_around) = (Place::default(), true);
                continue;
            }
            if place.ordinal == parts[place.part].key_count() {
                (place.part, place.ordinal) = (place.part + 1, 0);
                continue;
            }
            let here = place;
            let key = &keys[here.at + 1..][..usize::from(keys[here.at])];
            (place.at, place.ordinal) = (here.at + 1 + key.len(), here.ordinal + 1);
            if key == found
                && self.is_asked(here, &parts[here.part], twins)
                && !self.has_come(here, &parts[here.part])
            {
                self.place = place;
                return Some(here);
            }
        }
        None
    }

    /// Whether the message asks for the key here, and not in front of it.
    fn is_asked(&self, place: Place, part: &Part, twins: &Twins) -> bool {
        !part.has_twins() || !twins.has((place.part, place.ordinal), self.twin_count)
    }

    fn has_come(&self, place: Place, part: &Part) -> bool {
        let kept = || self.kept.iter().find(|kept| kept.part == place.part);
        part.is_answered() || kept().is_some_and(|kept| kept.ordinals.contains(&place.ordinal))
    }

    /// Takes the value that was found last, or, at the beginning, those of the first part that came before it; `ordinals` are their
    /// numbers among its keys.
    pub(super) fn take(
        &mut self,
        parts: &mut VecDeque<Part>,
        (bytes, values): (&[u8], &[ValueSpan]),
        ordinals: &[u32],
        kept_max: usize,
    ) -> Sorted {
        let owner = self.owner.take();
        self.twins = owner.filter(|owner| parts[owner.part].has_twins()).map(|it| (it.at, 0));
        self.give(parts, owner, (bytes, values), ordinals, kept_max)
    }

    /// The value that was taken last is that of other parts, too, which want the same key: gives it to the next of these.
    pub(super) fn take_for_twin(
        &mut self,
        parts: &mut VecDeque<Part>,
        twins: &Twins,
        value: (&[u8], &[ValueSpan]),
        kept_max: usize,
    ) -> Option<Sorted> {
        let (asked_at, from) = self.twins.take()?;
        let (number, twin) = twins.find(asked_at, from, self.twin_count)?;
        self.twins = Some((asked_at, number + 1));
        let (part, ordinal) = twin.place();
        Some(self.give(parts, Some(Place { part, ordinal, at: asked_at }), value, &[], kept_max))
    }

    /// Gives values to the part whose key this is, or to the first part.
    fn give(
        &mut self,
        parts: &mut VecDeque<Part>,
        owner: Option<Place>,
        (bytes, values): (&[u8], &[ValueSpan]),
        ordinals: &[u32],
        kept_max: usize,
    ) -> Sorted {
        let (index, ordinals) = owner.map_or((0, ordinals), |owner| (owner.part, &[]));
        let part = &mut parts[index];
        if part.request().is_none() || values.is_empty() {
            return Sorted::Kept;
        }
        if part.key_count() == 1 {
            let taken = *part;
            part.note_answered();
            return Sorted::Only(taken);
        }
        if self.kept_bytes + bytes.len() > kept_max {
            let failed = *part;
            // Others of its values are still to come, and are thrown away.
            part.take_request();
            drop(self.take_kept(index));
            return Sorted::TooLarge(index, failed);
        }
        let kept = self.kept_of(index);
        let start = kept.bytes.len();
        kept.bytes.extend_from_slice(bytes);
        kept.values.extend(values.iter().map(|value| moved(value, start)));
        kept.ordinals.extend_from_slice(ordinals);
        kept.ordinals.extend(owner.map(|owner| owner.ordinal));
        let has_all = kept.ordinals.len() == part.key_count() as usize;
        self.kept_bytes += bytes.len();
        if !has_all {
            return Sorted::Kept;
        }
        let taken = *part;
        part.note_answered();
        Sorted::Last(taken, self.take_kept(index).expect("it was put there"))
    }

    fn kept_of(&mut self, part: usize) -> &mut Kept {
        let known = self.kept.iter().position(|kept| kept.part == part);
        let index = known.unwrap_or_else(|| {
            let empty = self.pool.pop().unwrap_or_default();
            self.kept.push(Kept { part, ..empty });
            self.kept.len() - 1
        });
        &mut self.kept[index]
    }

    fn take_kept(&mut self, part: usize) -> Option<Kept> {
        let index = self.kept.iter().position(|kept| kept.part == part)?;
        let mut kept = self.kept.swap_remove(index);
        self.kept_bytes -= kept.bytes.len();
        if !kept.ordinals.is_sorted() {
            let mut sorted = self.pool.pop().unwrap_or_default();
            kept.write_in_order(&mut sorted);
            self.recycle(mem::replace(&mut kept, sorted));
        }
        Some(kept)
    }

    /// The value that is coming is thrown away, and with it what was kept for the parts that want it. That is the first one while values
    /// come in order.
    pub(super) fn throw_away(&mut self, parts: &VecDeque<Part>, twins: &Twins) -> Vec<usize> {
        let owner = self.owner.take();
        let mut wanted = vec![owner.map_or(0, |owner| owner.part)];
        if let Some(owner) = owner.filter(|owner| parts[owner.part].has_twins()) {
            let mut from = 0;
            while let Some((number, twin)) = twins.find(owner.at, from, self.twin_count) {
                wanted.push(twin.place().0);
                from = number + 1;
            }
        }
        wanted.iter().for_each(|part| drop(self.take_kept(*part)));
        wanted
    }

    /// The reply has ended, and the next part leaves its place: what was kept for it.
    pub(super) fn end_part(&mut self) -> Option<Kept> {
        let part = self.ended;
        self.ended += usize::from(self.is_under_way());
        self.take_kept(part)
    }
}

impl Kept {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Where in the bytes the values lie.
    pub(crate) fn values(&self) -> &[ValueSpan] {
        &self.values
    }

    /// Their numbers among the keys of the part.
    pub(super) fn ordinals(&self) -> &[u32] {
        &self.ordinals
    }

    /// Puts the values into `sorted`, in the order of the keys.
    fn write_in_order(&self, sorted: &mut Self) {
        sorted.part = self.part;
        // Each is the one with the least number above the last: there are few.
        let mut last = None;
        while let Some((&ordinal, value)) = self
            .ordinals
            .iter()
            .zip(&self.values)
            .filter(|(ordinal, _)| last.is_none_or(|last| **ordinal > last))
            .min_by_key(|(ordinal, _)| **ordinal)
        {
            sorted.values.push(moved_to(value, sorted.bytes.len()));
            sorted.bytes.extend_from_slice(&self.bytes[value.block.clone()]);
            sorted.ordinals.push(ordinal);
            last = Some(ordinal);
        }
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.values.clear();
        self.ordinals.clear();
    }
}

/// The value where this many bytes stand before those in which it was found.
fn moved(value: &ValueSpan, by: usize) -> ValueSpan {
    let moved = |range: &std::ops::Range<usize>| range.start + by..range.end + by;
    ValueSpan { block: moved(&value.block), key: moved(&value.key), data: moved(&value.data), ..*value }
}

/// The value where its block begins at `start`.
fn moved_to(value: &ValueSpan, start: usize) -> ValueSpan {
    let from = value.block.start;
    let moved = |range: &std::ops::Range<usize>| range.start - from + start..range.end - from + start;
    ValueSpan { block: moved(&value.block), key: moved(&value.key), data: moved(&value.data), ..*value }
}

//! The reply to several gets that share a message, from the first value on that is not of the first get's keys.
//!
//! ```text
//!   get a    ╮                       VALUE b    kept: `c` may still come
//!   get b c  ├─ get a b c d          VALUE d    the whole reply to `get d`
//!   get d    ╯                       END        `get a` has got nothing, `get b c` what was kept
//! ```
//!
//! A server may leave keys out, and may answer in any order. So a value is looked for among all keys of the message: first behind the one
//! that came last, where it is if the server keeps the order. What belongs to a part that lacks other values is kept here until these come
//! or the reply ends. It is asked whose a value is, and answers what is to be done with it.

use crate::{servers::part::Part, wire::ids::RequestKey};
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
    kept: Vec<Kept>,
    kept_bytes: usize,
}

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
    /// There is no room for it: this part of this request fails.
    TooLarge(RequestKey, Part),
}

impl Scattered {
    pub(super) fn is_under_way(&self) -> bool {
        self.parts > 0
    }

    /// A value came that belongs to none of the first part's keys, of which this many were looked at.
    pub(super) fn begin(&mut self, parts: usize, ordinal: u32, at: usize) {
        self.parts = parts;
        self.place = Place { part: 0, ordinal, at };
    }

    /// No part of the message is left, or the connection is lost.
    pub(super) fn end(&mut self) {
        if self.is_under_way() {
            *self = Self::default();
        }
    }

    /// What memory it takes, in bytes.
    pub(super) fn held_bytes(&self) -> usize {
        self.kept_bytes
    }

    /// Looks for one value at the front of `bytes`, or for the line that ends the reply.
    pub(super) fn scan(
        &mut self,
        scanner: &mut ReplyScanner,
        bytes: &[u8],
        parts: &VecDeque<Part>,
        keys: &[u8],
    ) -> Result<Option<Reply>, Violation> {
        let mut foreign = None;
        let reply = scanner.scan_joined(bytes, |found| {
            self.owner = self.find(found, parts, keys);
            if self.owner.is_some() {
                return Whose::HeadsLast;
            }
            foreign = Some(Violation::UnexpectedLine(format!("VALUE {}", String::from_utf8_lossy(found))));
            Whose::Others
        })?;
        foreign.map_or(Ok(reply), Err)
    }

    /// The key of the message that is `found`, if no value of it has come.
    fn find(&mut self, found: &[u8], parts: &VecDeque<Part>, keys: &[u8]) -> Option<Place> {
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
            if key == found && !self.has_come(here, &parts[here.part]) {
                self.place = place;
                return Some(here);
            }
        }
        None
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
        let (index, ordinals) = owner.map_or((0, ordinals), |owner| (owner.part, &[]));
        let part = &mut parts[index];
        let Some(request) = part.request().filter(|_| !values.is_empty()) else { return Sorted::Kept };
        if part.key_count() == 1 {
            let taken = *part;
            part.note_answered();
            return Sorted::Only(taken);
        }
        if self.kept_bytes + bytes.len() > kept_max {
            let failed = *part;
            part.take_request();
            drop(self.take_kept(index));
            return Sorted::TooLarge(request, failed);
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
            self.kept.push(Kept { part, ..Kept::default() });
            self.kept.len() - 1
        });
        &mut self.kept[index]
    }

    fn take_kept(&mut self, part: usize) -> Option<Kept> {
        let index = self.kept.iter().position(|kept| kept.part == part)?;
        let kept = self.kept.swap_remove(index);
        self.kept_bytes -= kept.bytes.len();
        Some(kept.in_order())
    }

    /// The value that is coming is thrown away, and with it what was kept for its part. That is the first one while values come in order.
    pub(super) fn throw_away(&mut self) -> usize {
        let part = self.owner.take().map_or(0, |owner| owner.part);
        drop(self.take_kept(part));
        part
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

    /// The values in the order of the keys.
    fn in_order(mut self) -> Self {
        if self.ordinals.is_sorted() {
            return self;
        }
        let mut order: Vec<_> = mem::take(&mut self.ordinals).into_iter().zip(&self.values).collect();
        order.sort_unstable_by_key(|(ordinal, _)| *ordinal);
        let mut sorted = Self { part: self.part, ..Self::default() };
        for (ordinal, value) in order {
            sorted.values.push(moved_to(value, sorted.bytes.len()));
            sorted.bytes.extend_from_slice(&self.bytes[value.block.clone()]);
            sorted.ordinals.push(ordinal);
        }
        sorted
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

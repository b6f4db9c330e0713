//! Messages that do not go to the end of the queue. Some go ahead of the gets that wait. A get that is asked for again stands beside the
//! same question of another client. A read by `mg` shares the message of an equal one that waits (`reads.rs`).

use super::{BEGUN, Pipeline, line::LINE_END, line::tag_of, reads::BEHIND_MAX, reads::is_same_question};
use crate::{
    servers::part::{NewPart, Part, Purpose, Sharing},
    servers::twins::Twin,
    wire::ids::RequestKey,
    wire::names::Names,
};
use weir_protocol::Expected;
use weir_timing::Instant;

/// A longer message does not go ahead of others: its bytes would have to be moved, and theirs.
const AHEAD_BYTES_MAX: u64 = 4 << 10;

/// Where the keys of a part lie is found by walking those of all parts before it. With more parts than these that is not done.
const WALKED_MAX: usize = 1 << 10;

/// No more parts stand beside the first one of a message: all are answered in one go.
const BESIDE_MAX: usize = 255;

impl Pipeline {
    /// Where the message that was composed last, which has this one key, may go ahead of the gets in front of it: none of them was taken
    /// by the driver, and none that `is_own` asks for the same key.
    #[inline]
    pub(in crate::servers) fn place_ahead(
        &self,
        key: &[u8],
        is_own: impl Fn(RequestKey) -> bool,
    ) -> Option<usize> {
        let last = self.parts.len().checked_sub(1)?;
        let first = last.checked_sub(self.line.parts())?;
        let is_open = first >= self.dequeued && last > 0 && self.parts[last - 1].may_be_joined();
        let is_short = self.parts[last].end() - self.parts[last].start() <= AHEAD_BYTES_MAX;
        if !is_open || !is_short || self.line.parts() == 0 {
            return None;
        }
        let keys = self.keys.as_slice();
        let noted = &keys[..keys.len() - self.last_key_bytes];
        let stays = self.line.find(key, noted).is_some() && self.is_asked_by(key, noted, first, is_own);
        (!stays).then_some(first)
    }

    /// Whether a request that `is_own` asks for the key in the parts from `first` on, which are those of the line; `noted`: all keys up to
    /// theirs.
    #[cold]
    fn is_asked_by(
        &self,
        key: &[u8],
        noted: &[u8],
        first: usize,
        is_own: impl Fn(RequestKey) -> bool,
    ) -> bool {
        let mut keys = Names(&noted[noted.len() - self.line.key_bytes()..]);
        self.parts.range(first..first + self.line.parts()).any(|part| {
            let own = keys.by_ref().take(part.key_count() as usize);
            // All are taken from `keys`, whatever is found.
            let has_key = own.filter(|name| *name == key).count() > 0;
            has_key && part.request().is_some_and(&is_own)
        })
    }

    /// The message that was composed last goes to this place, ahead of the line.
    pub(in crate::servers) fn go_ahead(&mut self, place: usize) {
        let mut part = self.parts.pop_back().expect(BEGUN);
        let (start, len) = (self.line.start(), part.end() - part.start());
        let composed = |bytes| usize::try_from(bytes).expect("it is composed in memory");
        rotate_last(self.out.end(), composed(part.end() - start), composed(len));
        rotate_last(self.keys.end(), self.line.key_bytes() + self.last_key_bytes, self.last_key_bytes);
        for part in self.parts.range_mut(place..) {
            part.move_behind(len);
        }
        self.line.move_behind(len);
        part.set_start(start);
        part.set_end(start + len);
        self.parts.insert(place, part);
    }

    /// The place behind a get that waits in a message of its own, was asked for again as often, and asks for the same keys, each after its
    /// length. None where many share that message, nor where it takes long to look: then each asks by itself.
    #[cold]
    pub(in crate::servers) fn place_beside(&self, keys: &[u8], tries: u8) -> Option<usize> {
        if self.parts.len() > WALKED_MAX {
            return None;
        }
        let same = |part: &Part, own: &[u8]| {
            part.tries() == tries && part.expected() == Expected::Retrieval && own == keys
        };
        let waiting = self.parts_with_keys().enumerate().skip(self.dequeued);
        let (found, _) = waiting.filter(|(_, (part, own))| same(part, own)).last()?;
        (found - self.first_of_message(found) < BESIDE_MAX).then_some(found + 1)
    }

    /// The first part of the message in which this part stands.
    #[cold]
    fn first_of_message(&self, part: usize) -> usize {
        let mut first = part;
        while self.parts[first].is_joined() {
            first -= 1;
        }
        first
    }

    /// Puts a part behind the one in front of this place: in its message, with its keys, for another request.
    #[cold]
    pub(in crate::servers) fn insert_beside(
        &mut self,
        place: usize,
        part: NewPart,
        deadline: Instant,
        now: Instant,
    ) {
        let before = self.parts[place - 1];
        let (mut at, mut own) = (0, 0);
        for (_, keys) in self.parts_with_keys().take(place) {
            own = keys.len();
            at += own;
        }
        let first = self.first_of_message(place - 1);
        self.parts[place - 1].note_twins();
        self.note_twins_beside(first, place);
        let end = before.end() - LINE_END.len() as u64;
        let mut part = Part::new(part, Purpose::Request, end, deadline, now);
        part.set_end(before.end());
        part.set_sharing(Sharing::Beside);
        part.set_tries(before.tries());
        part.note_twins();
        (0..before.key_count()).for_each(|_| part.count_key());
        self.parts.insert(place, part);
        let taken = self.keys.end().len() - self.keys.len();
        let (own, at) = (taken + at - own..taken + at, taken + at);
        let keys = self.keys.end();
        let same = keys[own].to_vec();
        keys.splice(at..at, same);
    }

    /// All keys of the part that comes to this place are asked for by the first part of its message, which has the same.
    fn note_twins_beside(&mut self, first: usize, place: usize) {
        let small = |number| u32::try_from(number).expect("parts and keys are counted by this type");
        let before: u32 = self.parts.range(..=first).map(Part::twin_count).sum();
        let first_key = self.parts_with_keys().take(first).map(|(_, keys)| keys.len()).sum::<usize>();
        let count = self.parts[first].key_count();
        let mut asked_at = 0;
        for ordinal in 0..count {
            let twin = Twin { asked_at: small(asked_at), part: small(place - first), ordinal };
            self.twins.insert((before + ordinal) as usize, twin);
            asked_at += 1 + usize::from(self.keys.as_slice()[first_key + asked_at]);
        }
        self.parts[first].count_twins(count);
    }

    /// Others may share the message that was composed last, a read of this key. It stands in this place, or at the end.
    pub(in crate::servers) fn note_read(&mut self, key: &[u8], place: Option<usize>) {
        let place = place.unwrap_or(self.parts.len() - 1);
        self.reads.note(self.parts[place].start(), tag_of(key));
    }

    /// The message that was composed last is a read of this key. The place behind one that waits and asks the same, if it may be shared:
    /// nothing that `is_own` stands behind that with the same key, or writes, and not too much else.
    pub(in crate::servers) fn place_of_same(
        &self,
        key: &[u8],
        is_own: impl Fn(RequestKey) -> bool,
    ) -> Option<usize> {
        let tag = tag_of(key);
        let last = self.parts.len().checked_sub(1)?;
        self.reads.of(tag).find_map(|read| {
            let first = self.parts.partition_point(|part| part.start() < read.start());
            let waits = first >= self.dequeued && first < last && self.parts[first].start() == read.start();
            let place = first + read.parts();
            let is_near = place + BEHIND_MAX >= last;
            let may = waits && is_near && self.asks_same(first, last);
            (may && !self.has_own_behind(place, (key, tag), &is_own)).then_some(place)
        })
    }

    /// Whether two messages that wait are the same question, whatever their opaques.
    fn asks_same(&self, one: usize, other: usize) -> bool {
        let message = |part: &Part| {
            let at = |at: u64| usize::try_from(at - self.out_start).expect("it waits in memory");
            &self.out.as_slice()[at(part.start())..at(part.end())]
        };
        is_same_question(message(&self.parts[one]), message(&self.parts[other]))
    }

    /// Whether a request that `is_own` stands from this place on, but for the last part, with this key, or may change items; or may do so, for
    /// all that is known.
    #[cold]
    fn has_own_behind(
        &self,
        place: usize,
        (key, tag): (&[u8], u16),
        is_own: impl Fn(RequestKey) -> bool,
    ) -> bool {
        let last = self.parts.len() - 1;
        let own = |part: &&Part| part.request().is_some_and(&is_own);
        let (mut gets, mut others) = (false, false);
        for part in self.parts.range(place..last).filter(own) {
            match part.expected() {
                Expected::Retrieval => gets = true,
                expected if expected.is_meta() => {
                    others |= self.reads.tag_at(part.start()).is_none_or(|other| other == tag);
                }
                _ => others = true,
            }
        }
        let gets_it = |(part, names): (&Part, &[u8])| {
            part.request().is_some_and(&is_own)
                && part.expected() == Expected::Retrieval
                && Names(names).any(|name| name == key)
        };
        others || gets && (last > WALKED_MAX || self.parts_with_keys().take(last).skip(place).any(gets_it))
    }

    /// The message that was composed last is left out: its part shares the one in front of this place.
    pub(in crate::servers) fn share_message(&mut self, place: usize) {
        let before = self.parts[place - 1];
        let mut part = self.parts.pop_back().expect(BEGUN);
        let len = usize::try_from(part.end() - part.start()).expect("it is composed in memory");
        let message = self.out.end();
        message.truncate(message.len() - len);
        let keys = self.keys.end();
        keys.truncate(keys.len() - self.last_key_bytes);
        self.last_key_bytes = 0;
        part.forget_keys();
        part.set_start(before.start());
        part.set_end(before.end());
        part.set_sharing(Sharing::Beside);
        self.parts.insert(place, part);
        self.reads.note_sharer(before.start());
    }
}

/// Of the last `len` bytes the last `count` come first.
fn rotate_last(bytes: &mut [u8], len: usize, count: usize) {
    let start = bytes.len() - len;
    bytes[start..].rotate_right(count);
}

//! The messages on one connection to a server: their order, their bytes, and how far they have gone.
//!
//! ```text
//!          begin, end_message       dequeue                note_written                reply
//!   request ────────▶ queued ─────────────────▶ leaving ──────────────▶ in flight ──────────▶ done: take_head
//!                     │  parts[dequeued..]       parts[sent..dequeued]  │  parts[..sent]
//!                     └───────────── deadline: the part is abandoned ───┴▶ stays in its place, its reply is thrown away
//! ```
//!
//! Replies come in the order of the messages, so the head of the parts owns the next reply. A part whose request has been answered already
//! (its time was up) keeps its place and loses its request: that is why a late reply cannot reach anybody.
//!
//! [`Pipeline`] owns the parts, the bytes that are not with the kernel yet, and the keys that replies are checked against. It is given
//! messages, and learns what was written and answered. It answers what is to be written, whose the next reply is, and what of it is lost
//! when the connection is. Several gets may stand in one message (`line.rs`), and several equal reads by `mg` (`reads.rs`). When a part is late is not its affair (`deadlines.rs`).

mod line;
mod places;
mod reads;
#[cfg(test)]
mod tests;

use crate::{
    config::Config,
    memory::buffer::{ByteQueue, beyond_idle_of},
    servers::in_step::QUESTIONS_AT_ONCE_MAX,
    servers::part::{NewPart, Part, Purpose, Repeated, Sharing},
    servers::twins::{Twin, Twins},
    wire::doubt::Doubt,
    wire::ids::RequestKey,
    wire::key::Echo,
    wire::names::Names,
};
use line::{AskedKey, LINE_END, Line, VERB, is_plain};
use reads::Reads;
use std::collections::VecDeque;
use weir_protocol::{Expected, Retrieval};
use weir_timing::Instant;

/// What waits for one connection, and what is in flight on it.
#[derive(Debug, Default)]
pub(super) struct Pipeline {
    parts: VecDeque<Part>,
    /// How many of `parts` are completely handed to the kernel.
    sent: usize,
    /// How many of `parts` were taken from the queue by the driver.
    dequeued: usize,
    /// What is to be written.
    out: ByteQueue,
    /// Where in the stream to the server it begins.
    out_start: u64,
    /// The keys of `parts`, each after its length, against which replies are checked.
    keys: ByteQueue,
    /// How many bytes of them are those of the last part.
    last_key_bytes: usize,
    /// Which of them stand once in a message for several parts.
    twins: Twins,
    /// The last message to which others may be joined. It is open while it stands at the end, and nothing of it was taken.
    line: Line,
    /// Messages that equal ones may share.
    reads: Reads,
}

/// What of a connection's parts concerns the journal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LostMessages {
    deletes: usize,
    flush: bool,
    writes: bool,
}

impl LostMessages {
    /// Deletes that were not confirmed.
    pub(crate) const fn deletes(self) -> usize {
        self.deletes
    }

    /// Whether a flush was not.
    pub(crate) const fn has_flush(self) -> bool {
        self.flush
    }

    /// Whether there are writes of which the server has at least a part, and that it has not answered.
    pub(crate) const fn has_writes(self) -> bool {
        self.writes
    }
}

/// Gets with more keys than this have their own message: they keep a server busy for longer, and gain little.
pub(super) const PART_KEYS_MAX: usize = 32;

const BEGUN: &str = "a message was begun";

impl Pipeline {
    // ── a message is composed ──────────────────────────────────────────────────────────────────────────────────────────────

    /// Begins a message: its bytes are appended to [`Pipeline::message`] and its keys by [`Pipeline::push_key`], and then it is finished.
    #[inline(always)]
    pub(super) fn begin(&mut self, part: NewPart, purpose: Purpose, deadline: Instant, now: Instant) {
        let start = self.out_end();
        self.last_key_bytes = 0;
        self.parts.push_back(Part::new(part, purpose, start, deadline, now));
    }

    /// The bytes of the message that was begun last.
    #[inline]
    pub(super) fn message(&mut self) -> &mut Vec<u8> {
        self.out.end()
    }

    #[inline]
    pub(super) fn end_message(&mut self) {
        let end = self.out_end();
        self.last_mut().set_end(end);
    }

    /// Makes room for another part in the last message, if that is a `get` to which it may be joined. Returns whether it is.
    #[inline]
    pub(super) fn open_line(&mut self) -> bool {
        let joins = self.has_open_line();
        if joins {
            let message = self.out.end();
            message.truncate(message.len() - LINE_END.len());
            self.end_message();
        }
        joins
    }

    /// The part that was begun last is a retrieval, whose keys follow. `joins`: it stands in the message of the one before.
    #[inline]
    pub(super) fn begin_retrieval(&mut self, retrieval: Retrieval<'_>, may_be_joined: bool, joins: bool) {
        let part = self.last_mut();
        part.set_sharing(match (may_be_joined, joins) {
            (false, _) => Sharing::Alone,
            (true, false) => Sharing::MayBeJoined,
            (true, true) => Sharing::Joined,
        });
        let start = part.start();
        if joins {
            self.line.begin_part();
        } else {
            self.line.begin(start);
            retrieval.write_head(self.message());
        }
    }

    /// All keys of the retrieval are there. Returns whether they stand in the message of another.
    #[inline]
    pub(super) fn end_retrieval(&mut self) -> bool {
        self.out.end().extend_from_slice(LINE_END);
        self.end_message();
        self.parts.back().is_some_and(Part::is_joined)
    }

    /// Adds a key to the message that was begun last: to its bytes, unless it stands there, and to what its reply is checked against.
    #[inline(always)]
    pub(super) fn push_key(&mut self, key: &[u8]) {
        let is_asked = self.parts.back().is_some_and(Part::may_be_joined) && self.note_in_line(key);
        if !is_asked {
            push_word(self.out.end(), key);
        }
        self.note_key(key);
    }

    /// Who repeats the key in the reply to the meta message that was begun last.
    pub(super) fn expect_echo(&mut self, echo: &Echo) {
        let repeated = match echo {
            Echo::Nobody => return,
            Echo::Server { key, base64 } => {
                self.note_key(key);
                Repeated::ByServer { base64: *base64 }
            }
            Echo::Proxy(spelling) => {
                spelling.parts().iter().for_each(|part| self.note_key(part));
                Repeated::ByProxy
            }
        };
        self.last_mut().set_repeated(repeated);
    }

    #[inline(always)]
    fn note_key(&mut self, key: &[u8]) {
        let keys = self.keys.end();
        keys.push(u8::try_from(key.len()).expect("the parser admits no key above 250 bytes"));
        keys.extend_from_slice(key);
        self.last_key_bytes += 1 + key.len();
        self.last_mut().count_key();
    }

    /// Whether the last message may be made longer.
    #[inline(always)]
    fn has_open_line(&self) -> bool {
        let is_open = self.parts.len() > self.dequeued && self.parts.back().is_some_and(Part::may_be_joined);
        is_open && self.line.has_room(self.out_end())
    }

    /// A key is about to be noted for the last part. Returns whether its message has it already. If it must not stand among those of other
    /// parts, the part becomes a message of its own.
    #[inline]
    fn note_in_line(&mut self, key: &[u8]) -> bool {
        let keys = self.keys.as_slice();
        let asked = self.line.find(key, keys);
        let is_twice = || Names(&keys[keys.len() - self.last_key_bytes..]).any(|own| own == key);
        if asked.is_some() && is_twice() || !is_plain(key) {
            self.set_aside();
            return false;
        }
        self.line.note(key, asked.is_none());
        if let Some(asked) = asked {
            self.note_twin(asked);
        }
        asked.is_some()
    }

    /// A key of the last part is this one of its message.
    #[cold]
    fn note_twin(&mut self, asked: AskedKey) {
        let first = self.parts.len() - self.line.parts();
        let part = u32::try_from(self.line.parts() - 1).expect("a line has few parts");
        let ordinal = self.last_mut().key_count();
        self.twins.push(Twin { asked_at: asked.at.into(), part, ordinal });
        self.parts[first].count_twins(1);
        self.parts[first + usize::from(asked.part)].note_twins();
        self.last_mut().note_twins();
    }

    /// The last part, as far as it is composed, becomes a message of its own, if it is not, to which nothing is joined.
    #[cold]
    fn set_aside(&mut self) {
        let (count, out_start) = (self.parts.len(), self.out_start);
        let part = self.last_mut();
        let was_joined = part.is_joined();
        part.set_sharing(Sharing::Alone);
        if !was_joined {
            return;
        }
        self.forget_twins();
        let part = self.last_mut();
        let end = part.start();
        let start = end + LINE_END.len() as u64;
        part.set_start(start);
        self.parts[count - 2].set_end(start);
        let begin = usize::try_from(end - out_start).expect("it is composed in memory");
        let composed = self.out.len() - begin;
        let message = self.out.end();
        message.truncate(message.len() - composed);
        message.extend_from_slice(LINE_END);
        message.extend_from_slice(VERB);
        let keys = self.keys.as_slice();
        Names(&keys[keys.len() - self.last_key_bytes..]).for_each(|key| push_word(message, key));
    }

    /// The last part stands in the line no more.
    fn forget_twins(&mut self) {
        let (first, part) = (self.parts.len() - self.line.parts(), self.line.parts() - 1);
        let part = u32::try_from(part).expect("a line has few parts");
        let own = self.twins.take_last_part(part, self.parts[first].twin_count());
        self.parts[first].uncount_twins(own);
    }

    #[inline]
    fn last_mut(&mut self) -> &mut Part {
        self.parts.back_mut().expect(BEGUN)
    }

    /// The message that was finished last is known by `mark`, which is none of a split multi-get's numbers.
    pub(super) fn mark_last(&mut self, mark: u32) {
        self.last_mut().set_index(mark);
    }

    /// The message that was begun last asks again for a part of another one, which was tried so often.
    pub(super) fn note_try(&mut self, tries: u8) {
        self.last_mut().set_tries(tries);
    }

    // ── it leaves ──────────────────────────────────────────────────────────────────────────────────────────────────────────

    #[inline]
    fn out_end(&self) -> u64 {
        self.out_start + self.out.len() as u64
    }

    /// What is to be written; `only_begun`: only what belongs to a message whose beginning was.
    #[inline]
    pub(super) fn output(&self, only_begun: bool) -> &[u8] {
        let out = self.out.as_slice();
        if only_begun { &out[..self.begun_bytes()] } else { out }
    }

    /// Where in what is to be written each message ends, in their order.
    pub(super) fn message_ends(&self) -> impl Iterator<Item = usize> {
        let is_last = |at: &usize| !self.parts.get(at + 1).is_some_and(Part::is_joined);
        let end = |at: usize| self.parts[at].end() - self.out_start;
        let ends = (self.sent..self.parts.len()).filter(is_last).map(end);
        let left_behind = Some(self.left_behind()).filter(|end| *end > 0);
        left_behind.into_iter().chain(ends.map(|end| usize::try_from(end).expect("it is composed in memory")))
    }

    /// How many bytes that wait are the rest of a message whose part is gone: a server that refuses a value says so before it has all of it.
    fn left_behind(&self) -> usize {
        let next = self.parts.get(self.sent).map_or_else(|| self.out_end(), Part::start);
        usize::try_from(next.saturating_sub(self.out_start)).expect("it waits in memory")
    }

    #[inline]
    pub(super) fn has_output(&self, only_begun: bool) -> bool {
        !self.out.is_empty() && !self.output(only_begun).is_empty()
    }

    /// Everything that is to be written is being taken by the driver; calls `taken` for each request that leaves the queue, with how many
    /// left it before: as long was the queue when it entered. Returns how many leave.
    #[inline]
    pub(super) fn dequeue(&mut self, only_begun: bool, mut taken: impl FnMut(RequestKey, u64)) -> u64 {
        let taken_now = if only_begun { self.begun().max(self.dequeued) } else { self.parts.len() };
        let mut count = 0;
        for part in self.parts.range(self.dequeued..taken_now) {
            if let Some(request) = part.request() {
                taken(request, count);
            }
            count += u64::from(part.is_load());
        }
        self.dequeued = taken_now;
        self.reads.clear();
        count
    }

    /// If the head is long and has not left in full: whether its beginning has.
    #[inline]
    pub(super) fn long_head_leaving(&self) -> Option<bool> {
        let head = self.parts.front().filter(|head| self.sent == 0 && head.is_long())?;
        Some(head.start() < self.out_start)
    }

    /// `count` bytes were handed to the kernel; calls `forwarded` for each request whose message is complete there.
    #[inline]
    pub(super) fn note_written(&mut self, count: usize, now: Instant, mut forwarded: impl FnMut(RequestKey)) {
        self.out.advance(count);
        self.out_start += count as u64;
        while self.sent < self.parts.len() {
            let last = self.last_of_message(self.sent);
            if self.parts[last].end() > self.out_start {
                break;
            }
            for part in self.sent..=last {
                let part = &mut self.parts[part];
                part.note_sent(now);
                if let Some(request) = part.request() {
                    forwarded(request);
                }
            }
            self.sent = last + 1;
        }
    }

    /// The last part of the message in which this part stands.
    #[inline]
    fn last_of_message(&self, part: usize) -> usize {
        let mut last = part;
        while self.parts.get(last + 1).is_some_and(Part::is_joined) {
            last += 1;
        }
        last
    }

    /// How many of the parts the server knows of, at least by their first byte.
    fn begun(&self) -> usize {
        let partly = self.parts.get(self.sent).is_some_and(|part| part.start() < self.out_start);
        if partly { self.last_of_message(self.sent) + 1 } else { self.sent }
    }

    /// How many bytes of those that wait belong to a message whose beginning was sent: all in front of the next one. Its part may be gone
    /// ([`Pipeline::left_behind`]).
    #[cold]
    fn begun_bytes(&self) -> usize {
        let end = self.parts.get(self.begun()).map_or_else(|| self.out_end(), Part::start);
        usize::try_from(end - self.out_start).expect("a message is no longer than the bytes that wait")
    }

    // ── its reply comes ────────────────────────────────────────────────────────────────────────────────────────────────────

    /// The part that owns the next reply, if it has been sent at least in part.
    #[inline]
    pub(super) fn head(&self) -> Option<&Part> {
        self.parts.front().filter(|part| part.start() < self.out_start)
    }

    /// Whether the head is long and leaving.
    #[inline]
    pub(super) fn is_head_leaving(&self) -> bool {
        self.head().is_some_and(Part::is_long)
    }

    /// Whether the reply to the head goes on with that to the part behind it.
    #[inline]
    pub(super) fn is_head_followed(&self) -> bool {
        self.parts.get(1).is_some_and(Part::is_joined)
    }

    /// Whether the head stands in the message of the part that was before it.
    #[inline]
    pub(super) fn is_within_message(&self) -> bool {
        self.parts.front().is_some_and(Part::is_joined)
    }

    /// How many keys of the head's message are asked for by another part of it.
    #[inline]
    pub(super) fn twins_at_head(&self) -> usize {
        self.parts.front().map_or(0, |head| head.twin_count() as usize)
    }

    /// How many questions tell by their answers whether the reply comes next, behind those to earlier questions, that a request is owed which
    /// was given up (`in_step.rs`). The first answers are taken for those to the earlier questions; the last must not fit. `None` if no such
    /// request comes next; `QUESTIONS_AT_ONCE_MAX` where more would be needed.
    pub(super) fn questions_that_tell(&self) -> Option<usize> {
        let asked = self.parts.iter().take_while(|part| part.purpose() == Purpose::Step).count();
        let next = self.parts.get(asked)?;
        (next.is_load() && next.request().is_none()).then_some((asked + 1).min(QUESTIONS_AT_ONCE_MAX))
    }

    /// How many parts share the message of the head, with it.
    pub(super) fn sharer_count(&self) -> usize {
        1 + self.last_of_message(0)
    }

    /// Takes the part whose reply is complete. Its keys were taken.
    #[inline]
    pub(super) fn take_head(&mut self) -> Part {
        let part = self.parts.pop_front().expect("a reply was scanned for the head");
        self.sent = self.sent.saturating_sub(1);
        self.dequeued = self.dequeued.saturating_sub(1);
        self.twins.drop_first(part.twin_count());
        part
    }

    /// The keys of all parts, each after its length.
    #[inline]
    pub(super) fn keys(&self) -> &[u8] {
        self.keys.as_slice()
    }

    /// This many bytes of the keys are the head's that was answered.
    #[inline]
    pub(super) fn take_keys(&mut self, len: usize) {
        self.keys.advance(len);
    }

    /// The keys of the head, each after its length.
    pub(super) fn keys_of_head(&self) -> &[u8] {
        let keys = self.keys.as_slice();
        &keys[..len_of(keys, self.parts[0].key_count())]
    }

    /// The head's reply cannot be read: takes the requests of those parts that have done nothing but to share a message with another, or
    /// did. `taken` is called for each, with its keys.
    pub(super) fn take_sharers(&mut self, mut taken: impl FnMut(Part, &[u8])) {
        let mut keys = self.keys.as_slice();
        for index in 0..self.parts.len() {
            let is_followed = self.parts.get(index + 1).is_some_and(Part::is_joined);
            let part = &mut self.parts[index];
            let (own, rest) = keys.split_at(len_of(keys, part.key_count()));
            keys = rest;
            let shares = part.is_joined() || is_followed || part.tries() == 1 && index > 0;
            // Of those that share an `mg` the trouble is everyone's own.
            if shares && part.expected() == Expected::Retrieval && part.request().is_some() {
                taken(*part, own);
                part.take_request();
            }
        }
    }

    // ── the parts ──────────────────────────────────────────────────────────────────────────────────────────────────────────

    /// All parts, in their order.
    #[inline]
    pub(super) const fn parts(&self) -> &VecDeque<Part> {
        &self.parts
    }

    /// The same to change who waits for them.
    #[inline]
    pub(super) const fn parts_mut(&mut self) -> &mut VecDeque<Part> {
        &mut self.parts
    }

    /// The same, and the twins of all.
    pub(super) fn parts_and_twins(&mut self) -> (&mut VecDeque<Part>, &Twins) {
        (&mut self.parts, &self.twins)
    }

    /// Keys that stand once in a message for several parts.
    pub(super) fn twins(&self) -> &Twins {
        &self.twins
    }

    /// Each part, with its keys, each after its length.
    pub(super) fn parts_with_keys(&self) -> impl Iterator<Item = (&Part, &[u8])> {
        let mut keys = self.keys.as_slice();
        self.parts.iter().map(move |part| {
            let (own, rest) = keys.split_at(len_of(keys, part.key_count()));
            keys = rest;
            (part, own)
        })
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Nothing waits, and nothing is kept: for tests.
    pub(super) fn is_quiet(&self) -> bool {
        self.parts.is_empty() && self.out.is_empty() && self.keys.is_empty()
    }

    /// How many of the parts were taken from the queue by the driver.
    pub(super) const fn dequeued(&self) -> usize {
        self.dequeued
    }

    /// Whether no message may be added.
    #[inline]
    pub(super) fn is_full(&self, config: &Config) -> bool {
        self.parts.len() >= config.server_requests_max || self.out.len() >= config.server_buffer_bytes_max
    }

    /// How many bytes wait for the connection.
    pub(super) fn waiting_bytes(&self) -> usize {
        self.out.len()
    }

    /// Whether something was sent that could undo a later write on another connection. What was given up where keys have replicas
    /// cannot: its key is in the journal.
    pub(super) fn may_undo(&self, has_copies: bool) -> bool {
        let may = |part: &Part| part.request().is_some() || !has_copies && !part.is_answered();
        self.parts.iter().any(|part| part.is_load() && may(part))
    }

    /// Whether a reply to something that was given up is still to come.
    pub(super) fn has_given_up(&self) -> bool {
        self.parts.iter().any(Part::is_given_up)
    }

    /// This part was given up, and was a write. Where the server knows nothing of it yet, its place may change; then that is not noted.
    #[cold]
    pub(super) fn note_doubt(&mut self, part: &Part, doubt: Doubt) {
        let begun = self.begun();
        let place = self.parts.partition_point(|it| it.start() < part.start());
        if let Some(it) = self.parts.get_mut(place).filter(|it| place < begun && it.is_same_message(part)) {
            it.note_doubt(doubt);
        }
    }

    /// Whether a message with this mark waits, or waits for its reply.
    pub(super) fn has_part_marked(&self, mark: u32) -> bool {
        self.parts.iter().any(|part| part.index() == mark)
    }

    // ── the connection ends ────────────────────────────────────────────────────────────────────────────────────────────────

    /// At the latest when nothing waits for a reply any more; `None` while a request does. Replicas are also sent messages whose replies
    /// nobody waits for. Each of those replies is given the time that it would have had.
    pub(super) fn settled_at(&self) -> Option<Instant> {
        latest_deadline(self.parts.iter())
    }

    /// The same of what was begun only.
    pub(super) fn begun_settled_at(&self) -> Option<Instant> {
        latest_deadline(self.parts.range(..self.begun()))
    }

    /// What the journal has at stake if everything is lost with the connection.
    pub(super) fn lost_messages(&self) -> LostMessages {
        self.messages_among(self.parts.len())
    }

    fn messages_among(&self, count: usize) -> LostMessages {
        let mut lost = LostMessages::default();
        for part in self.parts.range(..count) {
            match part.purpose() {
                Purpose::Delete => lost.deletes += 1,
                Purpose::Flush => lost.flush = true,
                Purpose::Barrier | Purpose::Step | Purpose::Mark => {}
                Purpose::Request => {
                    lost.writes |= part.expected() != Expected::Retrieval && part.start() < self.out_start;
                }
            }
        }
        lost
    }

    /// The connection is replaced: what was begun on it is over, and reported to `over`; what waits stays. Returns how many parts that are,
    /// and what it means for the journal.
    pub(super) fn drop_begun(&mut self, mut over: impl FnMut(&Part)) -> (usize, LostMessages) {
        let (begun, bytes) = (self.begun(), self.begun_bytes());
        let lost = self.messages_among(begun);
        let mut noted = 0;
        for part in self.parts.drain(..begun) {
            over(&part);
            self.twins.drop_first(part.twin_count());
            noted += len_of(&self.keys.as_slice()[noted..], part.key_count());
        }
        self.keys.advance(noted);
        self.out.advance(bytes);
        self.out_start += bytes as u64;
        self.sent = 0;
        self.dequeued = self.dequeued.saturating_sub(begun);
        (begun, lost)
    }

    /// The connection is gone, with everything on it.
    pub(super) fn clear(&mut self) {
        self.parts.clear();
        (self.sent, self.dequeued) = (0, 0);
        self.out.clear();
        self.out_start = 0;
        self.keys.clear();
        self.twins.clear();
        self.reads.clear();
    }

    // ── memory ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

    /// The memory that its buffers keep, in bytes.
    #[inline]
    pub(super) fn held_bytes(&self) -> usize {
        beyond_idle_of([self.out.capacity(), self.keys.capacity(), self.twins.capacity()])
    }

    /// Frees the buffers that are empty.
    pub(super) fn give_memory_back(&mut self) {
        self.out.give_back();
        self.keys.give_back();
        self.twins.give_back();
        if self.parts.is_empty() {
            self.line.give_back();
            self.reads.give_back();
        }
    }
}

/// Appends a space and the word.
#[inline(always)]
fn push_word(out: &mut Vec<u8>, word: &[u8]) {
    out.push(b' ');
    out.extend_from_slice(word);
}

/// How many bytes the first keys take, each after its length.
#[inline]
fn len_of(keys: &[u8], count: u32) -> usize {
    (0..count).fold(0, |len, _| len + 1 + usize::from(keys[len]))
}

/// When the last of these parts is given up, if no request waits for any of them.
fn latest_deadline<'a>(parts: impl Iterator<Item = &'a Part> + Clone) -> Option<Instant> {
    let awaited = parts.clone().any(|part| part.request().is_some());
    (!awaited).then(|| parts.map(Part::deadline).max().unwrap_or(Instant::ZERO))
}

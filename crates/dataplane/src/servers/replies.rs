//! What has come of the next reply of a server, and whose its values are.
//!
//! [`Replies`] owns the beginning of a reply that is not complete, the scanner's place in it, and how far its values were compared with the
//! keys that were asked for. It is given bytes, and the pipeline whose head the reply is for. It answers whether the reply is complete,
//! whether it is the one that was asked for, and which values it has. Values that come in another order than the gets that share their message
//! are kept in `scattered.rs`.

mod scattered;

use crate::{
    memory::buffer::{beyond_idle, give_back},
    servers::part::Repeated,
    servers::pipeline::Pipeline,
    wire::ids::RequestKey,
    wire::key::{self, Spelling, WireKey},
    wire::names::Names,
    wire::tagged::Tagged,
};
use scattered::Scattered;
pub(crate) use scattered::{Kept, Sorted};
use std::mem;
use weir_protocol::{Expected, Reply, ReplyScanner, Status, ValueSpan, Violation, Whose};

/// The reply that is coming on one connection.
#[derive(Debug, Default)]
pub(super) struct Replies {
    scanner: ReplyScanner,
    /// The beginning of a reply that is not complete.
    input: Vec<u8>,
    /// How many bytes are still to come of a value that is thrown away.
    skip: usize,
    /// Positions, among the keys of the part, of the values in the reply that was checked last.
    ordinals: Vec<u32>,
    cursor: Cursor,
    scattered: Scattered,
    /// What the proxy puts into the reply that was checked last, where it repeats the key.
    spelling: Spelling,
}

/// How far the keys of the head are compared with the values that have come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Cursor {
    /// In bytes of the noted keys.
    at: usize,
    ordinal: u32,
}

impl Replies {
    // ── bytes ──────────────────────────────────────────────────────────────────────────────────────────────────────────────

    /// Takes the beginning of the reply, to be given back by [`Replies::keep`].
    #[inline]
    pub(super) fn take_input(&mut self) -> Vec<u8> {
        mem::take(&mut self.input)
    }

    #[inline]
    pub(super) fn keep(&mut self, input: Vec<u8>) {
        self.input = input;
    }

    #[inline]
    pub(super) const fn input_len(&self) -> usize {
        self.input.len()
    }

    /// How many bytes of the reply there must be before looking at it again can find more.
    #[inline]
    pub(super) fn needed(&self) -> usize {
        self.scanner.needed()
    }

    /// This many bytes came. Returns how many of them are a value's that is thrown away, and whether that is complete with them.
    #[inline]
    pub(super) fn skip(&mut self, len: usize) -> (usize, bool) {
        let skipped = self.skip.min(len);
        self.skip -= skipped;
        (skipped, skipped > 0 && self.skip == 0)
    }

    /// Whether some of the head's reply has come.
    #[inline]
    pub(super) fn has_begun(&self) -> bool {
        !self.input.is_empty() || self.scattered.is_under_way()
    }

    /// Whether a reply is coming, if only to be thrown away.
    pub(super) fn is_coming(&self) -> bool {
        self.skip > 0 || self.has_begun()
    }

    /// Nothing has come: for tests.
    pub(super) fn is_quiet(&self) -> bool {
        self.input.is_empty()
    }

    /// Nobody waits for the reply to the head: the values that have come of it are forgotten.
    pub(super) fn drop_values(&mut self) {
        let (needed, len) = (self.scanner.needed(), self.input.len());
        if needed > len + 1 {
            // That is the end of a value; of a line nobody knows where it ends.
            self.skip = needed - len;
            self.input = Vec::new();
        } else {
            self.input.drain(..self.scanner.position());
        }
        self.scanner.reset();
    }

    /// What has come of the reply is forgotten, and so will be what is still to come of the value at its end. Returns the requests that
    /// waited for that, and which part of each.
    pub(super) fn throw_away(&mut self, pipeline: &mut Pipeline) -> Vec<(RequestKey, u32)> {
        self.drop_values();
        let is_meta = pipeline.head().is_some_and(|head| head.expected().is_meta());
        let parts = if is_meta {
            (0..pipeline.sharer_count()).collect()
        } else {
            self.scattered.throw_away(pipeline.parts(), pipeline.twins())
        };
        let failed = parts.into_iter().filter_map(|part| {
            let part = pipeline.parts_mut().get_mut(part)?;
            Some((part.take_request()?, part.index()))
        });
        failed.collect()
    }

    /// Another connection is made: nothing has come on that.
    pub(super) fn reset(&mut self) {
        self.cursor = Cursor::default();
        self.scattered.end();
        self.scanner.reset();
        self.input = Vec::new();
        self.skip = 0;
    }

    // ── a reply to one part ────────────────────────────────────────────────────────────────────────────────────────────────

    /// Looks at the front of `bytes` for a complete reply.
    #[inline]
    pub(super) fn scan(&mut self, expected: Expected, bytes: &[u8]) -> Result<Option<Reply>, Violation> {
        self.scanner.scan(expected, bytes)
    }

    /// Where the values lie in the reply that was scanned last.
    #[inline]
    pub(super) fn values(&self) -> &[ValueSpan] {
        self.scanner.values()
    }

    /// Positions, among the keys of the part, of the values in the reply that was checked last.
    #[inline]
    pub(super) fn ordinals(&self) -> &[u32] {
        &self.ordinals
    }

    /// The reply that is delivered next has these values.
    pub(super) fn take_ordinals_of(&mut self, kept: &Kept) {
        self.ordinals.clear();
        self.ordinals.extend_from_slice(kept.ordinals());
    }

    /// The reply that was checked last, with the key as its client wrote it.
    pub(super) fn spell(&self, reply: Reply, bytes: &[u8]) -> Option<Tagged> {
        self.spelling.put_into(reply, bytes)
    }

    /// The values of a complete reply must be those of the head's keys, in their order; some may be missing. A meta reply that repeats a key
    /// must repeat the right one; if it does not, that is noted as `trouble`. Takes the keys.
    #[inline]
    pub(super) fn check_keys(
        &mut self,
        pipeline: &mut Pipeline,
        reply: &[u8],
        trouble: &mut Option<Violation>,
    ) -> Result<(), Violation> {
        let part = pipeline.parts().front().expect("a reply was scanned for the head");
        self.ordinals.clear();
        if part.expected().is_meta() {
            if part.repeated() != Repeated::Nothing {
                self.look_at_echo(pipeline, reply, trouble);
            }
            return Ok(());
        }
        let (key_count, keys) = (part.key_count(), pipeline.keys());
        for value in self.scanner.values() {
            let found = &reply[value.key.clone()];
            if self.cursor.find(found, keys, key_count, &mut self.ordinals) == Whose::Others {
                let line = String::from_utf8_lossy(found).into_owned();
                return Err(Violation::UnexpectedLine(format!("VALUE {line}")));
            }
        }
        self.take_keys_of_head(pipeline);
        Ok(())
    }

    /// The reply to the head repeats a key, or the proxy is to repeat it.
    #[cold]
    fn look_at_echo(&mut self, pipeline: &mut Pipeline, reply: &[u8], trouble: &mut Option<Violation>) {
        let repeated = pipeline.parts()[0].repeated();
        let mut noted = Names(pipeline.keys());
        let key = noted.next().unwrap_or_default();
        if let Repeated::ByServer { base64 } = repeated {
            if let Some(line) = foreign_echo(WireKey { bytes: key, base64 }, reply) {
                pipeline.parts_mut()[0].set_repeated(Repeated::Wrong);
                *trouble = Some(Violation::UnexpectedLine(line));
            }
        } else {
            self.spelling = Spelling::of(key, noted.next().unwrap_or_default());
        }
        self.take_keys_of_head(pipeline);
    }

    /// Takes the head's keys from those that are noted.
    #[inline(always)]
    pub(super) fn take_keys_of_head(&mut self, pipeline: &mut Pipeline) {
        let Cursor { mut at, ordinal } = mem::take(&mut self.cursor);
        let keys = pipeline.keys();
        for _ in ordinal..pipeline.parts()[0].key_count() {
            at += 1 + usize::from(keys[at]);
        }
        pipeline.take_keys(at);
    }

    // ── a reply to several parts ───────────────────────────────────────────────────────────────────────────────────────────

    /// Looks at the front of `bytes` for the reply to the head, whose message others share. Returns `true` with a reply that has all values
    /// of the head. Returns `false` with what else is to be taken by [`Replies::take_values`], or ends the message.
    #[inline(never)]
    pub(super) fn scan_joined(
        &mut self,
        pipeline: &Pipeline,
        bytes: &[u8],
    ) -> Result<Option<(Reply, bool)>, Violation> {
        let Self { ordinals, cursor, scanner, scattered, .. } = self;
        let (parts, keys) = (pipeline.parts(), pipeline.keys());
        if pipeline.twins_at_head() > 0 && !scattered.is_under_way() {
            ordinals.clear();
            scattered.begin((pipeline.sharer_count(), pipeline.twins_at_head()), 0, 0);
        }
        if scattered.is_under_way() {
            let found = scattered.scan(scanner, bytes, (parts, keys, pipeline.twins()))?;
            return Ok(found.map(|reply| (reply, false)));
        }
        let key_count = parts[0].key_count();
        if *cursor == Cursor::default() {
            ordinals.clear();
        }
        let found = scanner.scan_joined(bytes, |found| cursor.find(found, keys, key_count, ordinals))?;
        let Some(reply) = found else { return Ok(None) };
        let has_all = reply.status == Status::Values && ordinals.len() == key_count as usize;
        Ok(Some((reply, has_all)))
    }

    /// Values in the reply to a message of several parts, the first of which has not got all of its own: whose they are, and whether these
    /// are all of it. No more than `kept_max` bytes are kept for parts that lack some.
    pub(super) fn take_values(&mut self, pipeline: &mut Pipeline, bytes: &[u8], kept_max: usize) -> Sorted {
        let Self { cursor, ordinals, scanner, scattered, .. } = self;
        if !scattered.is_under_way() {
            scattered.begin((pipeline.sharer_count(), 0), cursor.ordinal, cursor.at);
        }
        let taken = scattered.take(pipeline.parts_mut(), (bytes, scanner.values()), ordinals, kept_max);
        self.note_only(&taken);
        taken
    }

    /// The values that were taken last may be those of other parts, too, which ask for the same key: what becomes of them for the next of
    /// these.
    pub(super) fn take_for_twin(
        &mut self,
        pipeline: &mut Pipeline,
        bytes: &[u8],
        kept_max: usize,
    ) -> Option<Sorted> {
        let Self { scanner, scattered, .. } = self;
        let (parts, twins) = pipeline.parts_and_twins();
        let taken = scattered.take_for_twin(parts, twins, (bytes, scanner.values()), kept_max)?;
        self.note_only(&taken);
        Some(taken)
    }

    /// If it is the only value of a part, the reply that is delivered next has that.
    fn note_only(&mut self, taken: &Sorted) {
        if matches!(taken, Sorted::Only(_)) {
            self.ordinals.clear();
            self.ordinals.push(0);
        }
    }

    /// Whether values of a message have come, and none of its parts has left its place since.
    pub(super) fn is_scattered(&self) -> bool {
        self.scattered.is_under_way()
    }

    /// The reply to a message of several parts has ended, and the head leaves: what was kept for it. [`Replies::note_left`] must follow.
    pub(super) fn end_part(&mut self, pipeline: &mut Pipeline) -> Option<Kept> {
        let kept = self.scattered.end_part();
        self.ordinals.clear();
        self.scanner.reset();
        self.take_keys_of_head(pipeline);
        kept
    }

    /// The head has left. `is_last`: it was the last one of its message.
    pub(super) fn note_left(&mut self, is_last: bool) {
        if is_last {
            self.scattered.end();
        }
    }

    // ── memory ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

    /// The memory that its buffers keep, in bytes.
    #[inline]
    pub(super) fn held_bytes(&self) -> usize {
        beyond_idle(self.input.capacity()) + self.scattered.held_bytes() + self.scanner.held_bytes()
    }

    /// What was kept for a part was delivered.
    pub(super) fn recycle(&mut self, kept: Kept) {
        self.scattered.recycle(kept);
    }

    /// Frees the buffers that are empty.
    pub(super) fn give_memory_back(&mut self) {
        give_back(&mut self.input);
        self.scattered.give_memory_back();
        self.scanner.give_memory_back();
    }
}

impl Cursor {
    /// Whose the value of the key `found` is, whose positions among the keys of the head are noted in `ordinals`.
    #[inline]
    fn find(&mut self, found: &[u8], keys: &[u8], key_count: u32, ordinals: &mut Vec<u32>) -> Whose {
        while self.ordinal < key_count {
            let key = &keys[self.at + 1..self.at + 1 + usize::from(keys[self.at])];
            self.at += 1 + key.len();
            self.ordinal += 1;
            if key == found {
                ordinals.push(self.ordinal - 1);
                let has_all = ordinals.len() == key_count as usize;
                return if has_all { Whose::HeadsLast } else { Whose::Heads };
            }
        }
        Whose::Others
    }
}

/// The line of a reply that repeats another key than the one that was asked for. It is no answer to that request; the replies behind it are
/// as good as before, because its own was framed as it should be.
fn foreign_echo(key: WireKey<'_>, reply: &[u8]) -> Option<String> {
    let line = reply.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let mut words = line.split(|&byte| byte == b' ');
    let echo = match words.next() {
        Some(b"ME") => words.next(),
        Some(b"CLIENT_ERROR" | b"SERVER_ERROR") => None,
        _ => words.find_map(|word| word.strip_prefix(b"k")),
    }?;
    (!key::is_same(echo, key)).then(|| String::from_utf8_lossy(&line[..line.len().min(60)]).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::servers::{
        begun::Begun,
        part::{NewPart, Purpose},
    };
    use weir_protocol::{Retrieval, RetrievalVerb};
    use weir_timing::Instant;

    /// Gets of these keys, in one message that has left.
    fn asked(gets: &[&[&str]]) -> Pipeline {
        let mut pipeline = Pipeline::default();
        for (request, keys) in gets.iter().enumerate() {
            let part =
                NewPart::of(RequestKey::from_index(request), Expected::Retrieval, Begun::at(Instant::ZERO));
            let joins = pipeline.open_line();
            pipeline.begin(part, Purpose::Request, Instant::ZERO, Instant::ZERO);
            let text = keys.join(" ");
            let retrieval = Retrieval::of(RetrievalVerb::Get, text.as_bytes(), keys.len());
            pipeline.begin_retrieval(retrieval, true, joins);
            retrieval.keys().for_each(|key| pipeline.push_key(key));
            pipeline.end_retrieval();
        }
        pipeline.dequeue(false, |_, _| ());
        pipeline.note_written(pipeline.output(false).len(), Instant::ZERO, |_| ());
        pipeline
    }

    fn checked(keys: &[&str], reply: &[u8]) -> Result<Vec<u32>, Violation> {
        let (mut pipeline, mut replies) = (asked(&[keys]), Replies::default());
        replies.scan(Expected::Retrieval, reply)?.expect("it is complete");
        replies.check_keys(&mut pipeline, reply, &mut None)?;
        assert!(pipeline.keys().is_empty(), "the keys went with the reply");
        Ok(replies.ordinals().to_vec())
    }

    #[test]
    fn values_are_those_of_the_keys_that_were_asked_for_in_their_order() {
        let reply = b"VALUE a 0 1\r\n1\r\nVALUE c 0 1\r\n3\r\nEND\r\n";
        assert_eq!(checked(&["a", "b", "c"], reply), Ok(vec![0, 2]));
        assert_eq!(checked(&["a"], b"END\r\n"), Ok(vec![]));
        assert!(checked(&["c", "a"], reply).is_err(), "they are in another order");
        assert!(checked(&["a", "b"], reply).is_err(), "nobody asked for the last");
    }

    #[test]
    fn a_value_that_is_thrown_away_is_not_kept_and_what_is_behind_it_is() {
        let (mut pipeline, mut replies) = (asked(&[&["a"]]), Replies::default());
        let beginning = b"VALUE a 0 1000\r\nxxx";
        assert_eq!(replies.scan(Expected::Retrieval, beginning), Ok(None));
        replies.keep(beginning.to_vec());
        let to_come = replies.needed() - beginning.len();
        assert_eq!(replies.throw_away(&mut pipeline), [(RequestKey::from_index(0), 0)]);
        assert_eq!((replies.input_len(), replies.is_coming(), replies.has_begun()), (0, true, false));
        assert_eq!(replies.skip(10), (10, false));
        assert_eq!(replies.skip(to_come), (to_come - 10, true));
        assert_eq!(replies.skip(5), (0, false));
        assert!(!replies.is_coming() && pipeline.parts()[0].request().is_none());
    }

    #[test]
    fn another_connection_begins_with_nothing_of_the_reply_before() {
        let (mut pipeline, mut replies) = (asked(&[&["a"], &["b"]]), Replies::default());
        let value = b"VALUE b 0 1\r\n2\r\n";
        let found = replies.scan_joined(&pipeline, value).expect("it was asked for");
        assert!(found.is_some() && matches!(replies.take_values(&mut pipeline, b"", 100), Sorted::Kept));
        assert!(replies.is_scattered() && replies.has_begun());
        replies.reset();
        assert!(!replies.is_scattered() && !replies.has_begun());
    }
}

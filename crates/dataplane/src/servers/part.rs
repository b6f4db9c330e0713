//! What one request wants of one server: its place in the pipeline, and what is done with its reply.
//!
//! [`Part`] owns who waits for the reply, which bytes of the stream to the server are its message, and by when the reply is wanted. It
//! learns what becomes of the request; it answers to whom the reply belongs, and whether it matters when it comes.
//!
//! ```text
//!                   ╭──the whole reply has come──▶ Answered: the reply to the message goes on
//!   Request ────────┼──another server is asked───▶ Moved ──time is up──▶ Nobody
//!                   ╰──time is up, or it failed──────────────────────▶ Nobody ──it was a write, which is counted──▶ Doubted
//! ```
//!
//! A part stays in its place until its reply has come, whoever waits: that is why a late reply cannot reach anybody else.

use crate::{servers::begun::Begun, wire::doubt::Doubt, wire::ids::RequestKey};
use weir_protocol::Expected;
use weir_timing::Instant;

/// What one request wants of one server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    asker: Asker,
    expected: Expected,
    purpose: Purpose,
    /// Whether this reply decides the answer; a follower's only tells whether it worked.
    decides: bool,
    /// Which part of a split multi-get it is.
    index: u32,
    /// How many keys of it lie in the queue of keys.
    key_count: u32,
    repeated: Repeated,
    sharing: Sharing,
    /// Whether a key of it may be wanted by another part of its message, too.
    has_twins: bool,
    /// How many keys are asked for by another part of its message, if it is the first one there (`pipeline/twins.rs`).
    twins: u32,
    /// How often it was asked for again in a message of its own.
    tries: u8,
    /// Where in the stream to the server its bytes begin and end. Of parts of one message only the last knows where that ends.
    start: u64,
    end: u64,
    deadline: Instant,
    /// When its last byte was handed to the kernel.
    sent: Instant,
}

/// What a part is to be, before it has a place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewPart {
    /// `None` if nobody waits for the reply.
    request: Option<RequestKey>,
    expected: Expected,
    decides: bool,
    index: u32,
    created: Begun,
}

/// Who waits for a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asker {
    Request(RequestKey),
    /// Nobody any more, or from the beginning.
    Nobody,
    /// It was a read, and another server was asked for it (`deadlines.rs`). Its deadline still counts.
    Moved,
    /// Its request got all of its reply, and the reply to the message goes on.
    Answered,
    /// Nobody any more: it was a write, which may be carried out as long as its reply has not come (`wire/doubt.rs`).
    Doubted(Doubt),
}

/// Whether a part shares its message with others (`pipeline/line.rs`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sharing {
    /// Its message is its own.
    Alone,
    /// It begins a message, and the next `get` may be put into that.
    MayBeJoined,
    /// It stands in the message of the part before it, and the next one may as well.
    Joined,
    /// It stands in the message of the part before it, which asks the same. Nothing else is joined to that.
    Beside,
}

/// Why a message is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A client asked for it.
    Request,
    /// To make the server forget a key that it missed.
    Delete,
    /// To make it forget everything.
    Flush,
    /// To learn that it answers again, and has carried out all that came before.
    Barrier,
    /// To learn whether its replies are in step.
    Step,
    /// To mark an item as stale again, which was not asked for to be fetched anew.
    Mark,
}

/// The key in the reply to a meta message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repeated {
    /// It has none.
    Nothing,
    /// The server repeats it.
    ByServer { base64: bool },
    /// The proxy puts it there.
    ByProxy,
    /// The server has repeated another one.
    Wrong,
}

/// What was given up when the time of a part was up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GivenUp {
    /// This request's wish.
    Request(RequestKey),
    /// What another server was asked for already.
    Moved,
}

/// Longer messages than this have time to leave as long as they make progress: any socket takes as much at once.
const LONG_MESSAGE_BYTES: u64 = 64 << 10;

impl NewPart {
    /// What this request wants, whose deadline runs from `created` on: a part that does not decide the answer, and the only one.
    #[inline(always)]
    pub(crate) const fn of(request: RequestKey, expected: Expected, created: Begun) -> Self {
        Self { request: Some(request), expected, decides: false, index: 0, created }
    }

    /// What nobody waits for.
    pub(super) const fn of_nobody(expected: Expected, created: Begun) -> Self {
        Self { request: None, expected, decides: false, index: 0, created }
    }

    /// The same as a part whose reply decides the answer, or not.
    #[inline(always)]
    pub(crate) const fn deciding(self, decides: bool) -> Self {
        Self { decides, ..self }
    }

    /// The same as this part of several.
    #[inline(always)]
    pub(crate) const fn at(self, index: u32) -> Self {
        Self { index, ..self }
    }

    /// Whether somebody waits for the reply.
    #[inline(always)]
    pub(super) const fn is_awaited(&self) -> bool {
        self.request.is_some()
    }

    /// From when its deadline runs.
    #[inline(always)]
    pub(super) const fn created(&self) -> Begun {
        self.created
    }
}

impl Part {
    /// A part whose message begins at `start`. Nothing of it is composed.
    #[inline(always)]
    pub(super) fn new(new: NewPart, purpose: Purpose, start: u64, deadline: Instant, now: Instant) -> Self {
        Self {
            asker: new.request.map_or(Asker::Nobody, Asker::Request),
            expected: new.expected,
            purpose,
            decides: new.decides,
            index: new.index,
            key_count: 0,
            repeated: Repeated::Nothing,
            sharing: Sharing::Alone,
            has_twins: false,
            twins: 0,
            tries: 0,
            start,
            end: start,
            deadline,
            sent: now,
        }
    }

    // ── who waits ──────────────────────────────────────────────────────────────────────────────────────────────────────────

    /// The request that waits for this reply; `None` once it has timed out, was answered or asks elsewhere.
    #[inline]
    pub(crate) const fn request(&self) -> Option<RequestKey> {
        match self.asker {
            Asker::Request(request) => Some(request),
            Asker::Nobody | Asker::Moved | Asker::Answered | Asker::Doubted(_) => None,
        }
    }

    /// Whether it matters when its reply comes.
    #[inline]
    pub(super) const fn is_awaited(&self) -> bool {
        matches!(self.asker, Asker::Request(_) | Asker::Moved)
    }

    /// Its request got all of its reply, and the reply to the message goes on.
    #[inline]
    pub(crate) const fn is_answered(&self) -> bool {
        matches!(self.asker, Asker::Answered)
    }

    /// Whether the reply is to something that was given up.
    pub(super) fn is_given_up(&self) -> bool {
        self.is_load() && matches!(self.asker, Asker::Nobody | Asker::Moved | Asker::Doubted(_))
    }

    /// Its request waits no more. Returns that, if one did.
    pub(super) fn take_request(&mut self) -> Option<RequestKey> {
        let request = self.request()?;
        self.asker = Asker::Nobody;
        Some(request)
    }

    /// Its time is up.
    pub(super) fn give_up(&mut self) -> Option<GivenUp> {
        let given_up = match self.asker {
            Asker::Request(request) => GivenUp::Request(request),
            Asker::Moved => GivenUp::Moved,
            Asker::Nobody | Asker::Answered | Asker::Doubted(_) => return None,
        };
        self.asker = Asker::Nobody;
        Some(given_up)
    }

    /// It was given up, and was this write. Nothing else may still come of it than its reply.
    pub(super) fn note_doubt(&mut self, doubt: Doubt) {
        if self.asker == Asker::Nobody && self.is_load() {
            self.asker = Asker::Doubted(doubt);
        }
    }

    /// The write that it was, where that is counted.
    #[inline]
    pub(crate) const fn doubt(&self) -> Option<Doubt> {
        match self.asker {
            Asker::Doubted(doubt) => Some(doubt),
            _ => None,
        }
    }

    /// Another server was asked for it.
    pub(super) const fn note_moved(&mut self) {
        self.asker = Asker::Moved;
    }

    /// Its request got all of its reply.
    pub(super) const fn note_answered(&mut self) {
        self.asker = Asker::Answered;
    }

    // ── what it is ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    #[inline]
    pub(crate) const fn expected(&self) -> Expected {
        self.expected
    }

    #[inline]
    pub(crate) const fn purpose(&self) -> Purpose {
        self.purpose
    }

    /// Whether it counts as load: the proxy's own questions do not.
    #[inline]
    pub(super) fn is_load(&self) -> bool {
        self.purpose == Purpose::Request
    }

    /// Whether this reply decides the answer; a follower's only tells whether it worked.
    #[inline]
    pub(crate) const fn decides(&self) -> bool {
        self.decides
    }

    /// Which part of a split multi-get it is, or its mark (`bulk.rs`).
    #[inline]
    pub(crate) const fn index(&self) -> u32 {
        self.index
    }

    pub(super) const fn set_index(&mut self, index: u32) {
        self.index = index;
    }

    /// How often it was asked for again in a message of its own.
    pub(crate) const fn tries(&self) -> u8 {
        self.tries
    }

    pub(super) const fn set_tries(&mut self, tries: u8) {
        self.tries = tries;
    }

    /// How many keys of it are noted.
    #[inline]
    pub(super) const fn key_count(&self) -> u32 {
        self.key_count
    }

    /// A key of it was noted.
    #[inline]
    pub(super) const fn count_key(&mut self) {
        self.key_count += 1;
    }

    /// Its message is another's, which knows the keys.
    pub(super) const fn forget_keys(&mut self) {
        (self.key_count, self.repeated) = (0, Repeated::Nothing);
    }

    /// What is to be done about its key in the reply.
    #[inline]
    pub(crate) const fn repeated(&self) -> Repeated {
        self.repeated
    }

    #[inline]
    pub(super) const fn set_repeated(&mut self, repeated: Repeated) {
        self.repeated = repeated;
    }

    // ── its message ────────────────────────────────────────────────────────────────────────────────────────────────────────

    /// Whether it stands in the message of the part before it.
    #[inline]
    pub(super) fn is_joined(&self) -> bool {
        matches!(self.sharing, Sharing::Joined | Sharing::Beside)
    }

    /// Whether the next `get` may be put into its message.
    #[inline]
    pub(super) fn may_be_joined(&self) -> bool {
        matches!(self.sharing, Sharing::MayBeJoined | Sharing::Joined)
    }

    #[inline]
    pub(super) const fn set_sharing(&mut self, sharing: Sharing) {
        self.sharing = sharing;
    }

    /// Whether a key of it may be wanted by another part of its message, too.
    #[inline]
    pub(crate) const fn has_twins(&self) -> bool {
        self.has_twins
    }

    #[inline]
    pub(super) const fn note_twins(&mut self) {
        self.has_twins = true;
    }

    /// How many keys of its message are asked for by another part of it, if this is the first.
    #[inline]
    pub(super) const fn twin_count(&self) -> u32 {
        self.twins
    }

    /// Its message, of which it is the first part, has this many more.
    pub(super) const fn count_twins(&mut self, count: u32) {
        self.has_twins = true;
        self.twins += count;
    }

    /// The message has this many less.
    pub(super) const fn uncount_twins(&mut self, count: u32) {
        self.twins -= count;
    }

    /// Its bytes stand so much further behind.
    #[inline]
    pub(super) const fn move_behind(&mut self, bytes: u64) {
        self.start += bytes;
        self.end += bytes;
    }

    /// Where in the stream to the server its bytes begin.
    #[inline]
    pub(super) const fn start(&self) -> u64 {
        self.start
    }

    /// Whether its bytes are those of this one.
    pub(super) const fn is_same_message(&self, other: &Self) -> bool {
        self.start == other.start && self.end == other.end
    }

    /// Where they end.
    #[inline]
    pub(super) const fn end(&self) -> u64 {
        self.end
    }

    #[inline]
    pub(super) const fn set_start(&mut self, start: u64) {
        self.start = start;
    }

    #[inline]
    pub(super) const fn set_end(&mut self, end: u64) {
        self.end = end;
    }

    /// Whether the message may take long to leave.
    #[inline]
    pub(super) const fn is_long(&self) -> bool {
        self.end - self.start > LONG_MESSAGE_BYTES
    }

    // ── time ───────────────────────────────────────────────────────────────────────────────────────────────────────────────

    #[inline]
    pub(super) const fn deadline(&self) -> Instant {
        self.deadline
    }

    /// When its last byte was handed to the kernel.
    #[inline]
    pub(crate) const fn sent(&self) -> Instant {
        self.sent
    }

    #[inline]
    pub(super) const fn note_sent(&mut self, now: Instant) {
        self.sent = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASKED: RequestKey = RequestKey::from_index(7);

    fn part(request: Option<RequestKey>, purpose: Purpose) -> Part {
        let created = Begun::at(Instant::ZERO);
        let new = NewPart { request, expected: Expected::Retrieval, decides: true, index: 3, created };
        Part::new(new, purpose, 10, Instant::from_nanos(100), Instant::ZERO)
    }

    #[test]
    fn time_is_up_once() {
        let mut asked = part(Some(ASKED), Purpose::Request);
        assert!(asked.is_awaited() && !asked.is_given_up());
        assert_eq!(asked.give_up(), Some(GivenUp::Request(ASKED)));
        assert_eq!((asked.give_up(), asked.request()), (None, None));
        assert!(!asked.is_awaited() && asked.is_given_up());
    }

    #[test]
    fn a_write_that_was_given_up_is_known_by_its_place() {
        let doubt = Doubt::new(5, 1);
        let mut write = part(Some(ASKED), Purpose::Request);
        write.note_doubt(doubt);
        assert_eq!((write.doubt(), write.request()), (None, Some(ASKED)), "somebody waits for it");
        write.give_up();
        write.note_doubt(doubt);
        assert_eq!((write.doubt(), write.request(), write.give_up()), (Some(doubt), None, None));
        assert!(write.is_given_up() && !write.is_awaited());
    }

    #[test]
    fn what_was_asked_elsewhere_still_counts_as_late() {
        let mut moved = part(Some(ASKED), Purpose::Request);
        moved.note_moved();
        assert_eq!(moved.request(), None);
        assert!(moved.is_awaited());
        assert_eq!(moved.give_up(), Some(GivenUp::Moved));
        assert!(!moved.is_awaited());
    }

    #[test]
    fn what_was_answered_was_not_given_up() {
        let mut answered = part(Some(ASKED), Purpose::Request);
        answered.note_answered();
        assert_eq!((answered.give_up(), answered.take_request()), (None, None));
        assert!(answered.is_answered() && !answered.is_given_up());
    }

    #[test]
    fn the_proxys_own_questions_are_no_load() {
        let own = part(None, Purpose::Barrier);
        assert!(!own.is_load() && !own.is_given_up() && !own.is_awaited());
    }
}

//! Messages that several parts share, and the replies to them (`pipeline/line.rs`, `pipeline/reads.rs`).

use super::{Backend, Kept, Part, Sorted};
use crate::wire::ids::RequestKey;
use weir_protocol::{Reply, Violation};

impl Backend {
    /// The message that was composed last, a read of this key by `mg`, is left out if an equal one waits, and shares that
    /// (`pipeline/reads.rs`). Returns whether it does. Otherwise it goes ahead, as in [`Backend::let_ahead`], and others may share it.
    pub(crate) fn share_read(&mut self, key: &[u8], is_own: impl Fn(RequestKey) -> bool) -> bool {
        let may_insert = |place: &usize| self.deadlines.may_insert(*place);
        if let Some(place) = self.pipeline.place_of_same(key, &is_own).filter(may_insert) {
            self.pipeline.share_message(place);
            self.deadlines.note_inserted(self.pipeline.parts(), place);
            return true;
        }
        let place = self.let_ahead(key, is_own);
        self.pipeline.note_read(key, place);
        false
    }

    /// The message that was composed last, which has this one key, goes ahead of the gets that wait in front of it, if nobody can tell in
    /// which order they come. So later gets can still be joined to those (`pipeline/line.rs`). `is_own`: whether a request comes from the
    /// same client. Returns its place, if it does.
    #[inline]
    pub(crate) fn let_ahead(&mut self, key: &[u8], is_own: impl Fn(RequestKey) -> bool) -> Option<usize> {
        let may_insert = |place: &usize| !self.has_copies && self.deadlines.may_insert(*place);
        let place = self.pipeline.place_ahead(key, is_own).filter(may_insert)?;
        self.pipeline.go_ahead(place);
        self.deadlines.note_inserted(self.pipeline.parts(), place);
        Some(place)
    }

    /// Whether the reply to the head goes on with that to the part behind it.
    #[inline]
    pub(crate) fn is_head_followed(&self) -> bool {
        self.pipeline.is_head_followed()
    }

    /// Whether the head stands in the message of the part that was before it.
    #[inline]
    pub(crate) fn is_within_message(&self) -> bool {
        self.pipeline.is_within_message()
    }

    /// Looks at the front of `bytes` for the reply to the head, whose message others share. Returns `true` with a reply that has all values
    /// of the head. Returns `false` with what else is to be taken by [`Backend::take_values`], or ends the message.
    #[inline]
    pub(crate) fn scan_joined(&mut self, bytes: &[u8]) -> Result<Option<(Reply, bool)>, Violation> {
        self.replies.scan_joined(&self.pipeline, bytes)
    }

    /// Takes the head, which has got all its values, and whose message others share.
    #[inline(always)]
    pub(crate) fn complete_joined(&mut self) -> Part {
        self.replies.take_keys_of_head(&mut self.pipeline);
        self.take_head()
    }

    /// Values in the reply to a message of several parts, the first of which has not got all of its own: whose they are, and whether these
    /// are all of it. No more than `kept_max` bytes are kept for parts that lack some.
    pub(crate) fn take_values(&mut self, bytes: &[u8], kept_max: usize) -> Sorted {
        self.link.note_answered();
        self.replies.take_values(&mut self.pipeline, bytes, kept_max)
    }

    /// The values that were taken last may be those of other parts, too, which ask for the same key: what becomes of them for the next of
    /// these.
    pub(crate) fn take_for_twin(&mut self, bytes: &[u8], kept_max: usize) -> Option<Sorted> {
        self.replies.take_for_twin(&mut self.pipeline, bytes, kept_max)
    }

    /// Whether values of a message have come, and none of its parts has left its place since.
    pub(crate) fn is_scattered(&self) -> bool {
        self.replies.is_scattered()
    }

    /// The reply to a message of several parts has ended: takes the next one, with what was kept for it.
    pub(crate) fn end_part(&mut self) -> (Part, Option<Kept>) {
        let kept = self.replies.end_part(&mut self.pipeline);
        let part = self.take_head();
        self.replies.note_left(!self.pipeline.is_within_message());
        (part, kept)
    }

    /// What was kept for a part was delivered.
    pub(crate) fn recycle(&mut self, kept: Kept) {
        self.replies.recycle(kept);
    }

    /// The keys of the part in this place, each after its length.
    #[cold]
    pub(crate) fn keys_at(&self, place: usize) -> Box<[u8]> {
        self.pipeline.parts_with_keys().nth(place).map_or_else(Box::default, |(_, keys)| keys.into())
    }

    /// The keys of the head, each after its length.
    pub(crate) fn keys_of_head(&self) -> &[u8] {
        self.pipeline.keys_of_head()
    }
}

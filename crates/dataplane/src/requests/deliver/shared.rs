//! Replies to messages that several gets share: what of them is whose (`pipeline/line.rs`).

use crate::{
    Dataplane, Fault,
    requests::ask_alone::{Sharer, ask_alone},
    servers::backend::{Kept, Part, Taken},
};
use weir_protocol::{Reply, Status, ValueSpan};
use weir_timing::Instant;

impl Dataplane {
    /// Takes values that are not all that the first part of the message wants, or the line that ends the reply to all parts.
    #[inline(never)]
    pub(super) fn deliver_shared(&mut self, server: usize, reply: Reply, bytes: &[u8], now: Instant) {
        if reply.status == Status::Values && self.base.fleet.config.misses_before_the_end() {
            let part = self.base.fleet.servers[server].complete_joined();
            self.deliver_part(server, part, reply, (bytes, None), now);
        } else if reply.status == Status::Values {
            self.deliver_values(server, reply, bytes, now);
        } else if reply.status.is_error() {
            self.separate(server, reply, bytes, now);
        } else {
            self.deliver_end(server, reply, bytes, now);
        }
    }

    fn deliver_values(&mut self, server: usize, reply: Reply, bytes: &[u8], now: Instant) {
        let kept_max = self.base.fleet.config.server_buffer_bytes_max;
        match self.base.fleet.servers[server].take_values(bytes, kept_max) {
            Taken::Kept => {}
            Taken::Only(part) => self.deliver_part(server, part, reply, (bytes, None), now),
            Taken::Last(part, kept) => self.deliver_kept(server, part, &kept, now),
            Taken::TooLarge(request, part) => {
                self.base.meter.counters().server_replies_too_large += 1;
                self.part_failed((request, part.index()), Fault::Buffer, server, now);
            }
        }
    }

    fn deliver_kept(&mut self, server: usize, part: Part, kept: &Kept, now: Instant) {
        let len = kept.bytes().len();
        let reply = Reply { len, answer_len: len, status: Status::Values, last_line: len };
        self.base.fleet.servers[server].take_ordinals_of(kept);
        self.deliver_part(server, part, reply, (kept.bytes(), Some(kept.values())), now);
    }

    /// What no value came for is a miss now.
    fn deliver_end(&mut self, server: usize, reply: Reply, bytes: &[u8], now: Instant) {
        let mut is_first = self.base.fleet.servers[server].is_scattered();
        if !is_first {
            // All that came before the line is that of the first part.
            let part = self.base.fleet.servers[server].complete_joined();
            self.deliver_part(server, part, reply, (bytes, None), now);
        }
        let line = &bytes[reply.last_line..];
        let end = Reply { len: line.len(), answer_len: line.len(), last_line: 0, ..reply };
        while std::mem::take(&mut is_first) || self.base.fleet.servers[server].is_within_message() {
            match self.base.fleet.servers[server].end_part() {
                (part, _) if part.is_answered() => {}
                (part, Some(kept)) => self.deliver_kept(server, part, &kept, now),
                (part, None) => self.deliver_part(server, part, end, (line, None), now),
            }
        }
    }

    /// The reply has ended with an error. Whose it is nobody can tell, so each part that lacks values is asked for again alone; where that
    /// must not be, the error is its answer.
    #[cold]
    fn separate(&mut self, server: usize, reply: Reply, bytes: &[u8], now: Instant) {
        let line = &bytes[reply.last_line..];
        let error = Reply { len: line.len(), answer_len: line.len(), last_line: 0, ..reply };
        let mut is_first = true;
        let mut sharers = Vec::new();
        while std::mem::take(&mut is_first) || self.base.fleet.servers[server].is_within_message() {
            let keys = self.base.fleet.servers[server].keys_of_head().into();
            let (part, _) = self.base.fleet.servers[server].end_part();
            if !part.is_answered() {
                sharers.push(Sharer { part, keys });
            }
        }
        for sharer in sharers {
            if !ask_alone(&mut self.requests.services, &mut self.base, &sharer, server, now) {
                self.deliver_part(server, sharer.part, error, (line, None), now);
            }
        }
    }

    /// As [`Dataplane::deliver`], for a part of a message that others share; `values` if they are not where the scanner has found them.
    #[inline(never)]
    fn deliver_part(
        &mut self,
        server: usize,
        part: Part,
        reply: Reply,
        (bytes, values): (&[u8], Option<&[ValueSpan]>),
        now: Instant,
    ) {
        let Some(key) = part.request() else {
            self.base.meter.counters().server_replies_late += 1;
            return;
        };
        let backend = &mut self.base.fleet.servers[server];
        backend.record(part.sent(), now);
        if backend.has_copies() {
            backend.observe(now.saturating_since(part.sent()));
        }
        self.take_reply(server, (key, part), (reply, bytes, values), now);
    }
}

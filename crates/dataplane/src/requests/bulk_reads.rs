//! Reads that may return much data: over a server's bulk connection, in slices, a few at a time.
//!
//! A reply of megabytes keeps a connection busy, and every reply behind it waits, whoever asked. A client that asks for many and reads none
//! makes servers and proxy work for nothing. How long a reply will be is not known when it is asked for; what the session's last reads
//! brought is. A read that is expected to bring much, or names many keys, is carried out like this:
//!
//! ```text
//!   intake ──▶ alone in its session? ──▶ room (bulk_room.rs)? ──▶ first slice ──▶ its values go to the client ──▶ next slice … ──▶ END
//!              waits for what is in        waits in line           about 1 MiB     ▲ waits while the client leaves much unread
//!              service
//! ```
//!
//! A slice goes over the connection for large values (`servers/bulk.rs`), where only its like waits behind it. Two connections to one
//! server keep no order between them. So such a read begins when nothing else of its session is in service. Nothing else of the session
//! begins before it is answered, except other such reads of one slice each. Where keys have several replicas a slice stays on the one
//! connection, which orders it with the writes of the same keys.
//!
//! Slices are asked for one after the other, so a read may see some keys before and others after a write of somebody else. So may every
//! read of several keys. If a slice fails, the client gets the values before it and then the error.
//!
//! Of a new session nothing is known: its first slice has 16 keys, and only some requests of it are in service until replies
//! have come. Keys that bring nothing are work, too: no slice has more than 4,096.

use crate::{
    Fault, Mutation, SessionId,
    clients::bulk::{Awaits, Slicing},
    clients::session::Session,
    config::Config,
    requests::base::Base,
    requests::bulk_room::{BulkRoom, Expected, Line},
    requests::plan::{Asker, Plan, Planner},
    requests::service::{Kind, Service},
    requests::watched::note_values,
    wire::ids::RequestKey,
};
use std::{collections::HashMap, mem, sync::Arc};
use weir_protocol::{Parsed, Request, Retrieval, RetrievalVerb};
use weir_timing::Instant;

/// A read in service that is carried out with care.
#[derive(Debug)]
struct BulkRead {
    /// Of the slice in service: how many keys, and what is still expected of servers.
    keys: usize,
    expected: Vec<Expected>,
    /// What is to be asked for behind it; `None` if it was never more than one.
    slices: Option<Slices>,
}

/// What is still to be asked for of a read.
#[derive(Clone, Debug)]
pub(crate) struct Slices {
    verb: RetrievalVerb,
    /// The keys with spaces between them, of which those before `at` were asked for.
    keys: Arc<Vec<u8>>,
    at: usize,
    key_count: usize,
    /// When the request was taken. Its stamp says when the slice was, whose deadline runs from then.
    created: Instant,
}

impl Slices {
    fn of(rest: Retrieval<'_>, created: Instant) -> Self {
        // Not key by key: there may be more than a million. And once: they may be megabytes.
        let keys = Arc::new(rest.keys_text().concat());
        Self { verb: rest.verb, keys, at: 0, key_count: rest.key_count(), created }
    }

    /// What is to be asked for next: no more than this many keys.
    pub(crate) fn next(&self, count: usize) -> Retrieval<'_> {
        self.rest().split(count.min(self.key_count)).0
    }

    /// All that is still to be asked for.
    fn rest(&self) -> Retrieval<'_> {
        Retrieval::of(self.verb, &self.keys[self.at..], self.key_count)
    }

    /// The rest when this was asked for.
    fn without(&self, slice: Retrieval<'_>) -> Self {
        let rest = self.rest().split(slice.key_count()).1.keys_text();
        let at = self.keys.len() - rest.iter().map(|text| text.len()).sum::<usize>();
        Self { at, key_count: self.key_count - slice.key_count(), ..self.clone() }
    }
}

/// The reads of one dataplane that are carried out with care.
#[derive(Debug)]
pub(crate) struct BulkReads {
    reads: HashMap<RequestKey, BulkRead>,
    /// What slices in service are expected to bring, and who waits.
    room: BulkRoom,
    /// The table whose servers were connected to a second time.
    generation: Option<u64>,
    /// Some of these connections are being made for the first time.
    is_opening: bool,
}

impl BulkReads {
    pub(crate) fn new(config: &Config) -> Self {
        let room = BulkRoom::new(config.slice_bytes);
        Self { reads: HashMap::new(), room, generation: None, is_opening: false }
    }

    /// Whether a request waits because of reads that bring much: it is one, and there is no room, or its session has one in service.
    #[inline]
    pub(crate) fn waits(
        &mut self,
        base: &mut Base,
        id: SessionId,
        parsed: &Parsed<'_>,
        now: Instant,
    ) -> bool {
        concerns(&base.clients[id], parsed) && self.must_wait(base, id, parsed, now)
    }

    #[cold]
    fn must_wait(&mut self, base: &mut Base, id: SessionId, parsed: &Parsed<'_>, now: Instant) -> bool {
        let Base { clients, fleet, meter, .. } = base;
        let session = &mut clients[id];
        let Some(read) = as_bulk_read(session, parsed).filter(|_| session.bulk.slicing == Slicing::No) else {
            let waits = session.bulk.reads > 0;
            if waits {
                session.bulk.wait_for(Awaits::Reads);
                meter.counters().bulk_read_waits += 1;
            }
            return waits;
        };
        let habits = &session.bulk.habits;
        let is_known = habits.is_known();
        // The values of a slice are the next that the client gets.
        let is_sliced = read.key_count() > habits.keys_per_slice();
        let is_alone = is_sliced || !is_known;
        let count = habits.keys_per_slice();
        let others = session.in_service() - if is_alone { 0 } else { session.bulk.reads };
        if others > 0 && !fleet.config.is_without(Mutation::BulkReadAlone) {
            session.bulk.wait_for(if is_alone { Awaits::All } else { Awaits::Others });
            meter.counters().bulk_read_waits += 1;
            return true;
        }
        // The few keys of a client of which nothing is known most likely bring little, and every connection is looked at in every turn.
        if is_sliced || is_known {
            self.open_connections(base, now);
        }
        let line = self.line_of(base, read.keys().take(count));
        self.waits_in_line(base, id, line)
    }

    /// Where a slice of these keys must wait for room, if it must.
    fn line_of<'a>(&self, base: &Base, slice: impl Iterator<Item = &'a [u8]>) -> Option<Line> {
        if self.is_opening {
            return Some(Line::OfAll);
        }
        self.room.line_of(slice.map(|name| base.fleet.routes.primary(name)))
    }

    /// A session must wait for room in this line, if in any: it has a place there then. Returns whether it must.
    fn waits_in_line(&mut self, base: &mut Base, id: SessionId, line: Option<Line>) -> bool {
        let Some(line) = line else { return false };
        if !mem::replace(&mut base.clients[id].bulk.is_in_line, true) {
            base.meter.counters().bulk_read_waits += 1;
            self.room.wait(id, line);
        }
        true
    }

    /// Connects to every server a second time, once for each table. Reads wait for these connections while they are made, and are sent
    /// over the first ones where that fails.
    fn open_connections(&mut self, base: &mut Base, now: Instant) {
        let fleet = &mut base.fleet;
        let has_none = fleet.routes.is_replicated() || fleet.config.large_value_bytes == usize::MAX;
        if has_none || self.generation == Some(fleet.generation()) {
            return;
        }
        self.generation = Some(fleet.generation());
        fleet.servers.open_all_bulk(now);
        self.is_opening = fleet.servers.is_opening_bulk();
    }

    /// Once per turn: whether connections are still being made.
    pub(crate) fn look(&mut self, base: &Base) {
        if self.is_opening {
            self.is_opening = base.fleet.servers.is_opening_bulk();
        }
    }

    /// The next session that waits for room, if there is some.
    pub(crate) fn next(&mut self, base: &mut Base) -> Option<SessionId> {
        if self.is_opening {
            return None;
        }
        let id = self.room.next()?;
        if base.clients.get(id).is_some() {
            base.clients[id].bulk.is_in_line = false;
        }
        Some(id)
    }

    /// A read that is carried out with care was taken into service. Returns what is asked for first: [`BulkReads::plan`] says of whom.
    #[cold]
    pub(crate) fn begin<'a>(
        &mut self,
        base: &mut Base,
        (key, service): (RequestKey, &mut Service),
        retrieval: Retrieval<'a>,
    ) -> Retrieval<'a> {
        base.meter.counters().bulk_reads += 1;
        let session = &mut base.clients[service.session];
        session.bulk.reads += 1;
        let count = session.bulk.habits.keys_per_slice();
        if retrieval.key_count() <= count {
            self.note_sent((key, service), retrieval, None);
            return retrieval;
        }
        // Nothing is taken from the client before the last slice is there, and it does not wait for what it could send.
        session.intake.pause();
        session.bulk.slicing = Slicing::InService;
        let (slice, rest) = retrieval.split(count);
        let slices = Slices::of(rest, service.clock.created());
        session.bulk.keep_rest(slices.keys.len());
        self.note_sent((key, service), slice, Some(slices));
        base.clients.recharge(service.session);
        slice
    }

    /// The client has taken something of the values that came before. Returns the request, what is still to be asked for, and how many keys of
    /// it now, if there is room.
    #[cold]
    pub(crate) fn go_on(&mut self, base: &mut Base, id: SessionId) -> Option<(RequestKey, Slices, usize)> {
        let Slicing::Ready(key) = base.clients[id].bulk.slicing else { return None };
        let count = base.clients[id].bulk.habits.keys_per_slice();
        let slices = self.reads.get(&key)?.slices.as_ref()?;
        let line = self.line_of(base, slices.rest().keys().take(count));
        if self.waits_in_line(base, id, line) {
            return None;
        }
        base.clients[id].bulk.slicing = Slicing::InService;
        base.meter.counters().bulk_read_slices += 1;
        let slices = self.reads.remove(&key)?.slices?;
        Some((key, slices, count))
    }

    /// The next slice is asked for now.
    pub(crate) fn begin_slice(
        &mut self,
        (key, service): (RequestKey, &mut Service),
        (before, slice): (&Slices, Retrieval<'_>),
        now: Instant,
    ) {
        service.clock.set_created(now);
        service.clock.begin_second_step();
        self.note_sent((key, service), slice, Some(before.without(slice)));
    }

    /// [`BulkReads::plan`] says what is expected of whom.
    fn note_sent(
        &mut self,
        (key, service): (RequestKey, &mut Service),
        slice: Retrieval<'_>,
        slices: Option<Slices>,
    ) {
        service.kind = Kind::Bulk;
        self.reads.insert(key, BulkRead { keys: slice.key_count(), expected: Vec::new(), slices });
    }

    /// The reply to this part of a read has come, or will not.
    pub(crate) fn note_part(&mut self, key: RequestKey, part: u32) {
        let Some(read) = self.reads.get_mut(&key) else { return };
        if let Some(place) = read.expected.iter().position(|expected| expected.part == part) {
            self.room.leave(read.expected.swap_remove(place));
        }
    }

    /// Of whom a slice is asked, or a read that is one slice: over bulk connections.
    pub(crate) fn plan(
        &mut self,
        base: &mut Base,
        planner: &mut Planner,
        (key, id): (RequestKey, SessionId),
        slice: Retrieval<'_>,
    ) -> Plan {
        let asker = Asker::from(&base.clients[id]);
        let mut plan = planner.plan(&mut base.fleet, slice, asker);
        self.expect(base, (key, id), &plan, slice);
        let is_sliced = self.reads.get(&key).is_some_and(|read| read.slices.is_some());
        match &mut plan {
            Plan::One(Ok(server)) => {
                *server = base.fleet.servers.way_of_read(*server);
                if is_sliced {
                    let mut gather = planner.gather();
                    (0..slice.key_count()).for_each(|_| gather.assign(*server));
                    plan = Plan::Parts(gather, None);
                }
            }
            Plan::One(Err(_)) => {}
            Plan::Parts(gather, way) => {
                gather.redirect(|server| base.fleet.servers.way_of_read(server));
                // How long a slice takes says nothing of a whole request.
                way.take_if(|_| is_sliced);
            }
        }
        plan
    }

    /// A slice is asked for as planned.
    fn expect(&mut self, base: &Base, (key, id): (RequestKey, SessionId), plan: &Plan, slice: Retrieval<'_>) {
        let Self { reads, room, .. } = self;
        let Some(read) = reads.get_mut(&key) else { return };
        let bytes_per_key = base.clients[id].bulk.habits.bytes_per_key();
        let mut expect = |part, server, keys: usize| {
            let expected = Expected { part, server, bytes: keys.saturating_mul(bytes_per_key) };
            room.enter(expected);
            read.expected.push(expected);
        };
        match plan {
            Plan::One(Ok(server)) => expect(0, *server, slice.key_count()),
            Plan::One(Err(_)) => {}
            Plan::Parts(gather, _) => {
                gather.asked().for_each(|(part, server)| expect(part, server, gather.keys_of(part) as usize));
            }
        }
    }

    /// A request that went over a bulk connection, or could have, has all that it was waiting for. Returns whether it goes on with another
    /// slice; then its client is given the values of this one.
    #[cold]
    pub(crate) fn come_back(
        &mut self,
        base: &mut Base,
        planner: &mut Planner,
        (key, service): (RequestKey, &mut Service),
        reply_len: Option<usize>,
    ) -> bool {
        let session = &mut base.clients[service.session];
        service.kind = Kind::Nothing;
        let Some(read) = self.reads.get_mut(&key) else {
            session.bulk.writes -= 1;
            return false;
        };
        read.expected.drain(..).for_each(|expected| self.room.leave(expected));
        let gathered = service.gather.as_ref().map(|gather| gather.values_len());
        if let Some(bytes) = reply_len.or(gathered).filter(|_| !service.verdict.is_error()) {
            session.bulk.habits.note_slice(read.keys, bytes);
        }
        let goes_on = read.slices.as_ref().is_some_and(|slices| slices.key_count > 0);
        if goes_on
            && !service.verdict.is_error()
            && !session.is_gone()
            && take_slice(base, planner, (key, service))
        {
            return true;
        }
        let session = &mut base.clients[service.session];
        session.bulk.reads -= 1;
        if let Some(BulkRead { slices: Some(slices), .. }) = self.reads.remove(&key) {
            session.bulk.slicing = Slicing::No;
            session.bulk.keep_rest(0);
            service.clock.set_created(slices.created);
            base.clients.recharge(service.session);
        }
        false
    }

    /// The client of a read that waits for it between two slices is gone.
    #[cold]
    pub(crate) fn drop_sliced(&mut self, slicing: Slicing) {
        if let Slicing::Ready(key) = slicing {
            self.reads.remove(&key);
        }
    }

    /// Whether there is anything to do when a turn ends.
    #[inline]
    pub(crate) fn is_waited_for(&self) -> bool {
        self.room.is_waited_for() || self.is_opening
    }

    /// Nothing waits and nothing is in service: for tests.
    pub(crate) fn is_quiet(&self) -> bool {
        self.room.is_quiet() && self.reads.is_empty()
    }
}

/// Whether this may be a read that is carried out with care, or one that such a read of its session keeps waiting.
#[inline]
fn concerns(session: &Session, parsed: &Parsed<'_>) -> bool {
    session.bulk.reads > 0
        || matches!(parsed, Parsed::Request { request: Request::Retrieval(retrieval), .. }
            if retrieval.key_count() >= session.bulk.habits.keys_min())
}

/// Whether this read is carried out with care.
#[inline]
pub(crate) fn is_bulk_read(session: &Session, retrieval: &Retrieval<'_>) -> bool {
    retrieval.key_count() >= session.bulk.habits.keys_min() && may_be_bulk_read(session, retrieval)
}

#[cold]
fn may_be_bulk_read(session: &Session, retrieval: &Retrieval<'_>) -> bool {
    matches!(retrieval.verb, RetrievalVerb::Get | RetrievalVerb::Gets) && !session.is_lent()
}

fn as_bulk_read<'a>(session: &Session, parsed: &Parsed<'a>) -> Option<Retrieval<'a>> {
    match parsed {
        Parsed::Request { request: Request::Retrieval(retrieval), .. } => {
            is_bulk_read(session, retrieval).then_some(*retrieval)
        }
        _ => None,
    }
}

/// The values of a slice go to the client, whose first request in service this is. Returns whether there was room for them.
fn take_slice(base: &mut Base, planner: &mut Planner, (key, service): (RequestKey, &mut Service)) -> bool {
    let Base { clients, fleet, meter, .. } = base;
    let id = service.session;
    let (session, held) = clients.with_held(id);
    let Some(mut gather) = service.gather.take() else { return false };
    session.replies.gather(mem::take(&mut service.gathered_bytes), 0);
    let len = gather.len();
    let is_too_much = session.replies.buffered_bytes() + len > fleet.config.session_buffer_bytes_max;
    let is_refused = is_too_much || !held.admits(len, session.replies.is_blocked());
    if is_refused {
        meter.counters().session_refusals_full += u64::from(is_too_much);
        meter.counters().buffer_refusals_full += u64::from(!is_too_much);
        service.verdict.fail(Fault::Buffer, &Arc::from(if is_too_much { "client" } else { "proxy" }));
    } else {
        note_values(meter, service.noted.watched(), &gather);
        session.replies.append_part(|out| gather.merge_values_into(out));
        session.bulk.slicing = Slicing::Ready(key);
        if session.replies.output().is_empty() {
            clients.let_go_on(id);
        } else {
            clients.list(id);
        }
    }
    planner.recycle(gather, clients.held().is_pressed());
    clients.recharge(id);
    !is_refused
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn slices_are_what_they_would_be_had_their_keys_been_copied_one_by_one(
            words in proptest::collection::vec(("[!-~]{1,9}", 1_usize..4), 1..60),
            end in 0_usize..3,
            counts in proptest::collection::vec(1_usize..20, 0..12),
        ) {
            let mut text = Vec::new();
            for (key, spaces) in &words {
                text.extend(std::iter::repeat_n(b' ', *spaces));
                text.extend_from_slice(key.as_bytes());
            }
            text.extend(std::iter::repeat_n(b' ', end));
            let all = Retrieval::of(RetrievalVerb::Get, &text, words.len());
            let mut slices = Slices::of(all, Instant::ZERO);
            let mut keys = words.iter().map(|(key, _)| key.as_str());
            for count in counts.into_iter().chain([words.len()]) {
                let slice = slices.next(count);
                let (mut message, mut expected) = (Vec::new(), "get".to_owned());
                slice.write_to(&mut message);
                for key in keys.by_ref().take(count) {
                    expected += " ";
                    expected += key;
                }
                prop_assert_eq!(String::from_utf8(message).unwrap(), expected + "\r\n");
                slices = slices.without(slice);
            }
            prop_assert_eq!((slices.key_count, keys.next()), (0, None));
        }
    }

    #[test]
    fn slices_come_to_all_keys_in_their_order() {
        let text: Vec<u8> = (0..100).flat_map(|number| format!("k{number}  ").into_bytes()).collect();
        let all = Retrieval::of(RetrievalVerb::Gets, &text, 100);
        let (first, rest) = all.split(7);
        assert_eq!((first.key_count(), rest.key_count(), rest.verb), (7, 93, RetrievalVerb::Gets));
        let mut keys: Vec<_> = first.keys().map(<[u8]>::to_vec).collect();
        let mut slices = Slices::of(rest, Instant::ZERO);
        for count in [1, 2, 30, 1000] {
            let slice = slices.next(count);
            assert_eq!(slice.key_count(), slice.keys().count());
            keys.extend(slice.keys().map(<[u8]>::to_vec));
            slices = slices.without(slice);
        }
        assert_eq!(slices.key_count, 0);
        assert_eq!(keys, all.keys().map(<[u8]>::to_vec).collect::<Vec<_>>());
    }
}

//! What clients send is taken into service, while their sessions may have more there.
//!
//! Their bytes are cut into requests by an [`Intake`](intake::Intake), which the threaded engines use as well; here is what this engine adds: whether a
//! session may have more in service, and what its next request must wait for.

pub(crate) mod outbox;
pub(crate) mod patience;
pub(crate) mod sequence;
pub(crate) mod session;

pub(crate) mod intake;

use crate::{
    Dataplane, Event,
    clients::patience::Overdue,
    clients::session::{Session, may_go_on, may_take},
    config::Config,
    memory::budget::{Budget, Held, SCARCE_LOOK_NS},
    meter::Meter,
    replication::fleet::Fleet,
    requests::base::Base,
    requests::bulk_reads::Slicing,
    requests::dispatch::Large,
};
use intake::Input;
use slab::Slab;
use std::collections::VecDeque;
use weir_protocol::Parsed;
use weir_timing::Instant;

/// Names one client connection until [`crate::Dataplane::handle_client_closed`] was called for it and its requests are done; the
/// number is used again after that.
pub type SessionId = usize;

/// The clients of one dataplane.
#[derive(Debug)]
pub(crate) struct Clients {
    pub(crate) sessions: Slab<Session>,
    /// Sessions for which there are bytes to write.
    pub(crate) dirty: VecDeque<SessionId>,
    /// Sessions that were paused and may go on.
    pub(crate) resumable: VecDeque<SessionId>,
    /// When the first client may be overdue; `None` if none can be.
    pub(crate) due: Option<Instant>,
    pub(crate) held: Held,
    /// What the driver was not told yet.
    pub(crate) events: VecDeque<Event>,
}

impl Clients {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            sessions: Slab::new(),
            dirty: VecDeque::new(),
            resumable: VecDeque::new(),
            due: None,
            held: Held::new(&Budget::new(config.buffer_bytes_max)),
            events: VecDeque::new(),
        }
    }
}

impl Dataplane {
    /// Takes what was kept, as far as it may be taken now.
    fn consume_kept(&mut self, id: SessionId, now: Instant) {
        let input = self.base.clients.sessions[id].intake.reread();
        self.consume(id, input, now);
    }

    /// Takes requests from the front of `input` while the session may have more in service, and keeps the rest.
    pub(crate) fn consume(&mut self, id: SessionId, input: Input<'_>, now: Instant) {
        let rest = input.rest();
        loop {
            let Self {
                base:
                    Base {
                        clients: Clients { sessions, held, .. },
                        fleet: Fleet { config, .. },
                        meter: Meter { counters, .. },
                        ..
                    },
                ..
            } = self;
            let session = &mut sessions[id];
            if !session.intake.skip(&rest, now) {
                break;
            }
            // Who has waited for a key was let in before.
            if !may_take(session, config, held) && session.stalled.is_none() {
                self.pause(id, now);
                break;
            }
            let parsed = session.intake.look(&rest, |bytes| {
                let is_admitted = held.admits(bytes, false);
                counters.requests_refused_memory += u64::from(!is_admitted);
                is_admitted
            });
            if let Parsed::Incomplete { .. } = parsed {
                break;
            }
            let waits = self.waits(id, &parsed, now);
            let intake = &mut self.base.clients.sessions[id].intake;
            if waits {
                intake.pause();
                break;
            }
            let first_byte = intake.take(&rest, &parsed, now);
            self.take(id, parsed, first_byte, now);
        }
        let left = rest.bytes().len();
        let intake = &mut self.base.clients.sessions[id].intake;
        if intake.keep(input, left) && self.base.clients.held.is_pressed() {
            intake.give_all_memory_back();
        }
        if intake.is_within_request() {
            self.watch_clients(self.base.fleet.config.patience.request_ns, now);
        }
    }

    /// The session has as much in service as it may, or leaves too much unread.
    fn pause(&mut self, id: SessionId, now: Instant) {
        let session = &mut self.base.clients.sessions[id];
        session.intake.pause();
        self.base.meter.counters.sessions_paused += 1;
        if session.blocked && self.base.clients.held.is_pressed() {
            self.base.meter.counters.sessions_paused_memory += 1;
            self.watch_clients(SCARCE_LOOK_NS, now);
        }
    }

    /// Whether the next request of a session waits for something before it.
    #[inline(always)]
    fn waits(&mut self, id: SessionId, parsed: &Parsed<'_>, now: Instant) -> bool {
        (self.is_spread() && self.waits_for_earlier(id, parsed))
            || (self.base.fleet.servers.may_go_bulk(length_of(parsed)) && self.waits_to_go_bulk(id, parsed))
            || (self.concerns_bulk_reads(id, parsed) && self.waits_for_bulk_reads(id, parsed, now))
            || (!self.base.replication.holds.is_empty() && self.waits_for_key(id, parsed, now))
    }

    /// Takes what was parsed into service, or refuses it.
    // As a call of its own it costs every request forty instructions.
    #[inline(always)]
    pub(crate) fn take(&mut self, id: SessionId, parsed: Parsed<'_>, first_byte: Instant, now: Instant) {
        match parsed {
            Parsed::Request { request, len } => {
                self.base.meter.tracer.request_bytes = len as u64;
                self.dispatch(id, request, first_byte, now);
            }
            Parsed::Refused { refusal, silent, len } => {
                self.base.meter.tracer.request_bytes = len as u64;
                self.refuse(id, refusal, silent, first_byte, now);
            }
            Parsed::TooLarge { refusal, key, base64, silent, erases, len, .. } => {
                self.base.meter.tracer.request_bytes = len as u64;
                let large = Large { key, base64, silent, erases, refusal };
                self.refuse_large(id, large, first_byte, now);
            }
            Parsed::Incomplete { .. } => {}
            Parsed::Hangup { refusal } => {
                if let Some(refusal) = refusal {
                    self.refuse(id, refusal, false, first_byte, now);
                }
                self.hang_up(id);
            }
            Parsed::Foreign { foreign } => self.refuse_foreign(id, &foreign, first_byte, now),
        }
    }

    /// Takes nothing more from this client, and closes its connection when all replies are out.
    pub(crate) fn hang_up(&mut self, id: SessionId) {
        self.base.clients.sessions[id].intake.close();
        self.close_if_settled(id);
    }

    pub(crate) fn resume(&mut self, id: SessionId, now: Instant) {
        let Some(session) = self.base.clients.sessions.get_mut(id).filter(|session| !session.gone) else {
            return;
        };
        if session.hosted.is_some() {
            return self.resume_hosted(id, now);
        }
        if !session.intake.is_paused() {
            return;
        }
        if session.slicing != Slicing::No {
            return self.go_on_with_slices(id, now);
        }
        session.intake.resume();
        session.habits.grow(self.base.fleet.config.session_requests_max);
        self.consume_kept(id, now);
        let session = &self.base.clients.sessions[id];
        if session.intake.is_paused() {
            return;
        }
        if session.intake.is_finished() {
            self.hang_up(id);
        } else {
            self.base.clients.events.push_back(Event::Resume(id));
        }
    }
}

impl Dataplane {
    /// Something of a client's has begun that may take this long and no longer.
    #[inline]
    pub(crate) fn watch_clients(&mut self, limit_ns: u64, now: Instant) {
        if limit_ns > 0 {
            let at = now.plus(limit_ns);
            self.base.clients.due = Some(self.base.clients.due.map_or(at, |due| due.min(at)));
        }
    }

    /// Closes the connections of clients that are overdue, if it is time to look for any.
    pub(crate) fn close_overdue(&mut self, now: Instant) {
        if self.base.clients.due.is_none_or(|due| now < due) {
            return;
        }
        let mut are_paused = false;
        for (id, session) in &self.base.clients.sessions {
            if session.intake.is_paused() && session.blocked {
                // Perhaps because of what all buffers held.
                if may_go_on(session, &self.base.fleet.config, &self.base.clients.held) {
                    self.base.clients.resumable.push_back(id);
                } else {
                    are_paused = true;
                }
            }
        }
        let doing = |(id, session): (usize, &Session)| Some((id, session.doing()?, session.held_bytes()));
        let clients = self.base.clients.sessions.iter().filter_map(doing);
        let found = self.base.fleet.config.patience.look(clients, self.base.clients.held.excess(), now);
        self.base.clients.due = found.next_look;
        if are_paused && self.base.clients.held.is_pressed() {
            self.watch_clients(SCARCE_LOOK_NS, now);
        }
        found.overdue.into_iter().for_each(|(id, why)| self.close_for(id, why));
    }

    fn close_for(&mut self, id: SessionId, why: Overdue) {
        self.base.meter.counters.note_overdue(why);
        self.base.clients.sessions[id].close_asked = true;
        self.base.clients.events.push_back(Event::Close(id));
    }
}

fn length_of(parsed: &Parsed<'_>) -> usize {
    if let Parsed::Request { len, .. } = *parsed { len } else { 0 }
}

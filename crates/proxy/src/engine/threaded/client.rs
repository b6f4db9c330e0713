//! One client's turn: which of its requests is in service, which wait, and what the kernel has not taken yet.
//!
//! ```text
//!            offer                     next                                     next
//!   free ───────────▶ in service ─────────────▶ in service (the next one)  ──────────────▶ free
//!                        │  ▲ written
//!             short write│  │ (network thread)
//!                        ▼  │
//!                       unsent
//! ```
//!
//! The network thread and one worker share it. Whoever writes to the socket holds the lock, so that the edge at which the kernel takes
//! bytes again is not seen by the network thread before there is something to write.

use crate::engine::threaded::{queue::wide::Habits, request::Request};
use crate::{
    connections::{client_limit::Admitted, transport::Transport},
    process::clock::Clock,
};
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use weir_dataplane::{Budget, Charge, Dataplane, SessionId, Unsent};
use weir_timing::Instant;

#[derive(Debug)]
pub(crate) struct Client {
    /// Its number at the network thread.
    id: usize,
    connection: Admitted,
    budget: Arc<Budget>,
    turn: Mutex<Turn>,
}

#[derive(Debug)]
struct Turn {
    /// A request is queued or in service, or its reply is not yet in the kernel.
    busy: bool,
    /// Complete requests behind it.
    waiting: VecDeque<Request>,
    waiting_bytes: usize,
    /// Of those, what is not counted with the requests themselves; and as what it was counted.
    uncharged_bytes: usize,
    charge: Charge,
    unsent: Option<Unsent>,
    /// What its reads bring.
    habits: Habits,
    /// While there is something unsent: when the kernel took something last.
    unread_since: Instant,
    /// The network thread will offer nothing more, and wants to know when all is answered.
    finished: bool,
    /// The network thread does not read because more than this many bytes or too many requests wait, and wants to know when less does.
    paused: Option<usize>,
    /// The connection is broken. What waits is still carried out, and its replies are dropped.
    broken: bool,
}

/// What becomes of a request that was offered.
#[derive(Debug)]
pub(crate) struct Offered {
    /// It is its turn: to be queued.
    pub(super) request: Option<Request>,
    /// Nothing more should be offered until attention is asked for.
    pub(super) is_full: bool,
}

/// What is to be done after a reply.
#[derive(Debug, Default)]
pub(crate) struct Next {
    /// To be queued.
    pub(super) request: Option<Request>,
    /// The network thread must look at this client.
    pub(super) attention: bool,
}

/// An idle session keeps places for as many waiting requests, and no more.
const KEPT_PLACES: usize = 4;

/// What one session's waiting requests may be counted too low: less than an idle session costs.
const CHARGE_STEP_BYTES: usize = 4 << 10;

/// Requests of one session that may wait behind one in service, as in engine event (`session_requests_max`).
const WAITING_MAX: usize = 1024;

impl Client {
    pub(crate) fn new(id: usize, connection: Admitted, budget: &Arc<Budget>) -> Self {
        let turn = Turn {
            busy: false,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            uncharged_bytes: 0,
            charge: budget.charge(0),
            unsent: None,
            habits: Habits::default(),
            unread_since: Instant::ZERO,
            finished: false,
            paused: None,
            broken: false,
        };
        Self { id, connection, budget: Arc::clone(budget), turn: Mutex::new(turn) }
    }

    /// Its number at the network thread.
    pub(crate) fn id(&self) -> usize {
        self.id
    }

    /// What is read.
    #[inline]
    pub(super) fn transport(&self) -> impl Transport {
        self.connection.stream()
    }

    fn turn(&self) -> MutexGuard<'_, Turn> {
        // Whatever is changed under the lock is whole at every step that could panic.
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    // ── the network thread ─────────────────────────────────────────────────────────────────────────────────────────────────

    /// A complete request arrived. It waits if another is in service; more than `bytes_max` bytes should not.
    pub(crate) fn offer(&self, mut request: Request, bytes_max: usize) -> Offered {
        request.charge(&self.budget);
        let mut turn = self.turn();
        if !turn.busy {
            turn.busy = true;
            request.expect(turn.habits);
            return Offered { request: Some(request), is_full: false };
        }
        turn.waiting_bytes += request.bytes();
        turn.uncharged_bytes += request.uncharged_bytes();
        turn.waiting.push_back(request);
        turn.recharge();
        let is_full = turn.waiting.len() >= WAITING_MAX
            || turn.waiting_bytes > bytes_max
            || (turn.unsent.is_some() && self.budget.is_pressed());
        turn.paused = is_full.then_some(bytes_max);
        Offered { request: None, is_full }
    }

    /// Nothing more will be offered. Returns whether all is answered; otherwise attention is asked for when it is.
    pub(crate) fn finish(&self) -> bool {
        let mut turn = self.turn();
        turn.finished = true;
        !turn.busy
    }

    /// Whether nothing more should be offered.
    pub(crate) fn is_full(&self) -> bool {
        self.turn().paused.is_some()
    }

    /// Others may have given memory back since it was full. Returns whether that was all that it waited for.
    pub(crate) fn relax(&self) -> bool {
        let mut turn = self.turn();
        let is_within = |bytes_max| turn.waiting.len() < WAITING_MAX && turn.waiting_bytes <= bytes_max;
        let goes_on = turn.paused.is_some_and(is_within) && !self.budget.is_pressed();
        if goes_on {
            turn.paused = None;
        }
        goes_on
    }

    /// Whether it is owed nothing; and since when it has taken nothing of what is left of a reply.
    pub(crate) fn owed(&self) -> (bool, Option<Instant>) {
        let turn = self.turn();
        (!turn.busy, turn.unsent.is_some().then_some(turn.unread_since))
    }

    /// How much is left of a reply.
    pub(crate) fn unsent_bytes(&self) -> usize {
        self.turn().unsent.as_ref().map_or(0, Unsent::len)
    }

    pub(crate) fn is_broken(&self) -> bool {
        self.turn().broken
    }

    /// The connection is gone, and with it the reply that was being written, if there is one.
    pub(crate) fn break_off(&self, dataplane: &mut Dataplane) -> Next {
        let mut turn = self.turn();
        turn.broken = true;
        turn.finished = true;
        if turn.unsent.take().is_none() {
            return Next::default();
        }
        dataplane.counters_mut().requests_orphaned += 1;
        turn.next()
    }

    /// The kernel may take bytes again: writes what it did not take before.
    pub(crate) fn write_unsent(&self, dataplane: &mut Dataplane, clock: Clock) -> Next {
        let mut turn = self.turn();
        let Some(mut unsent) = turn.unsent.take() else { return Next::default() };
        match self.write_pieces(&mut unsent) {
            Some(count) => {
                dataplane.counters_mut().client_bytes_written += count as u64;
                if !unsent.is_empty() {
                    if count > 0 {
                        turn.unread_since = clock.now();
                    }
                    turn.unsent = Some(unsent);
                    return Next::default();
                }
                dataplane.note_unsent_written(&mut unsent, clock.now());
                turn.next()
            }
            None => {
                dataplane.counters_mut().requests_orphaned += 1;
                turn.broken = true;
                turn.next()
            }
        }
    }

    /// Writes as much as the kernel takes. Returns how much that is; `None` if the connection is gone.
    fn write_pieces(&self, unsent: &mut Unsent) -> Option<usize> {
        let mut written = 0;
        while !unsent.is_empty() {
            let offered = unsent.output().len();
            let count = self.connection.stream().write(unsent.output()).ok()?;
            unsent.advance(count);
            written += count;
            if count < offered {
                break;
            }
        }
        Some(written)
    }

    // ── whoever has served a request ───────────────────────────────────────────────────────────────────────────────────────

    /// Writes the reply that is complete on a lent session, and frees that session. `None`: no reply is complete. The request has read this
    /// many keys.
    pub(crate) fn answer(
        &self,
        dataplane: &mut Dataplane,
        (session, keys): (SessionId, usize),
        clock: Clock,
    ) -> Option<Next> {
        let reply = dataplane.lent_reply(session)?;
        let mut turn = self.turn();
        let offered = reply.len();
        // A failure says nothing of what there is.
        let brings_values = reply.starts_with(b"VALUE ") || reply.starts_with(b"END");
        let keys = if brings_values { keys } else { 0 };
        let written = match reply {
            [] => Some(0),
            _ if turn.broken => None,
            _ => self.connection.stream().write(reply).ok(),
        };
        match written {
            Some(count) => {
                let unsent = dataplane.release_lent(session, count, clock.now());
                turn.habits.note(keys, count + unsent.as_ref().map_or(0, Unsent::len));
                if let Some(mut unsent) = unsent {
                    // Of a large reply one piece after the other is written.
                    let more = if count == offered { self.write_pieces(&mut unsent) } else { Some(0) };
                    dataplane.counters_mut().client_bytes_written += more.unwrap_or(0) as u64;
                    if unsent.is_empty() {
                        dataplane.note_unsent_written(&mut unsent, clock.now());
                        return Some(turn.next());
                    }
                    if more.is_none() {
                        dataplane.counters_mut().requests_orphaned += 1;
                        turn.broken = true;
                        return Some(turn.next());
                    }
                    turn.unsent = Some(unsent);
                    turn.unread_since = clock.now();
                    // The network thread must know when the client has taken nothing for too long.
                    return Some(Next { request: None, attention: true });
                }
            }
            None => {
                dataplane.abandon_lent(session);
                turn.broken = true;
            }
        }
        Some(turn.next())
    }
}

impl Turn {
    /// Counts the requests that wait, whenever they are much more or less than they were.
    fn recharge(&mut self) {
        let (is, was) = (self.uncharged_bytes, self.charge.bytes());
        if is.abs_diff(was) > CHARGE_STEP_BYTES || (is == 0 && was > 0) {
            self.charge.set(is);
        }
    }

    /// A request is wholly answered.
    fn next(&mut self) -> Next {
        let mut request = self.waiting.pop_front();
        if let Some(request) = &mut request {
            request.expect(self.habits);
        }
        self.waiting_bytes -= request.as_ref().map_or(0, Request::bytes);
        self.uncharged_bytes -= request.as_ref().map_or(0, Request::uncharged_bytes);
        self.recharge();
        self.busy = request.is_some();
        if !self.busy && self.waiting.capacity() > KEPT_PLACES {
            self.waiting = VecDeque::new();
        }
        let resumes = self.paused.take_if(|bytes_max| {
            self.waiting.len() <= WAITING_MAX / 2 && self.waiting_bytes <= *bytes_max / 2
        });
        let attention = self.broken || resumes.is_some() || (self.finished && !self.busy);
        Next { request, attention }
    }
}

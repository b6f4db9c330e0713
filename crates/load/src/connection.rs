//! One connection, without its socket: bytes and instants in, requests out.
//!
//! ```text
//!   Source --> poll_requests --> output bytes        handle_sent: when they were handed to the kernel
//!                   |
//!             [ outstanding ]                        oldest first; at most `depth`
//!                   |
//!   Recorder <-- verify <-- handle_bytes <-- input bytes
//! ```
//!
//! When a request is due is the connection's [`Pace`]'s to say. Replies come in request order. After a [`Fault`] from
//! [`Connection::handle_bytes`] the two sides are out of step: the socket is closed and [`Connection::handle_broken`] called,
//! which counts every outstanding request as lost.
//!
//! An answer may ask for another request: a miss for a `set`, a `gets` for its `cas`. Such follow-ups go before the source's
//! next request. A source is asked only when there are none, so that there are never more of them than keys can be outstanding.

mod answer;
mod failure;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use rand::Rng;
use rand::rngs::SmallRng;
use weir_protocol::{Reply, ReplyScanner};
use weir_timing::{Instant, Operation};

use self::failure::{Failure, Name};
use crate::content::{Amount, Command};
use crate::pacing::pace::{Due, Pace};
use crate::recorder::{Outcome, Recorder, Times};
use crate::workload::Workload;
use crate::workload::mix::{Ask, Source};
use crate::workload::replay::{KeyName, Trace, TraceError};
use crate::workload::verify::{Asked, Fault, text};
use crate::workload::versions::count;

/// The state of one connection.
#[derive(Debug)]
pub(crate) struct Connection {
    id: u32,
    target: Arc<str>,
    workload: Arc<Workload>,
    source: Source,
    pace: Pace,
    depth: usize,
    outstanding: VecDeque<Outstanding>,
    /// The keys of the outstanding requests, in their order.
    keys: VecDeque<Asked>,
    /// With a trace: the names of these keys.
    names: VecDeque<KeyName>,
    /// Requests that answers have asked for, oldest first; with a trace, the names of their keys.
    follow_ups: VecDeque<(Ask, u64)>,
    follow_up_names: VecDeque<KeyName>,
    /// The keys of the request that is being composed, and its name where a trace gives one.
    drawn: Vec<u64>,
    name: KeyName,
    /// Keys that the reply at hand did not bring.
    missed: Vec<u64>,
    /// When the connection is opened anew.
    renewal: Option<Renewal>,
    /// Once nothing is issued any more: whether the source had nothing left before.
    ran_dry: Option<bool>,
    scanner: ReplyScanner,
    /// Requests composed so far; also the last request's number.
    issued: u64,
    bytes: Bytes,
    /// How many of the last outstanding requests are not wholly handed to the kernel.
    unsent: usize,
}

/// Bytes of requests since the socket was connected.
#[derive(Debug, Clone, Copy, Default)]
struct Bytes {
    composed: u64,
    /// Of them, those handed to the kernel.
    sent: u64,
}

/// A request whose reply has not come.
#[derive(Debug, Clone, Copy)]
struct Outstanding {
    number: u64,
    ask: Ask,
    operation: Operation,
    /// The version that a write carries.
    version: u64,
    keys: u32,
    /// Where its last byte ends, counted as `composed`.
    end: u64,
    /// When it should have been sent; where nothing was scheduled, when it was composed.
    intended: Instant,
    /// When its last byte was handed to the kernel; until then, when something last happened to it.
    sent_at: Instant,
    /// When its turn came: a call that began then took its first byte, or the last one of what was before it.
    turn_at: Option<Instant>,
}

/// After how many requests a connection is opened anew.
#[derive(Debug)]
struct Renewal {
    every: Amount,
    rng: SmallRng,
    /// Requests that may still be issued.
    left: u64,
}

impl Renewal {
    fn draw(&mut self) {
        self.left = self.every.at(self.rng.random());
    }
}

impl Connection {
    pub(crate) fn new(id: u32, target: Arc<str>, workload: Arc<Workload>) -> Connection {
        Connection {
            id,
            target,
            workload,
            source: Source::Dry,
            pace: Pace::eager(),
            depth: 0,
            outstanding: VecDeque::new(),
            keys: VecDeque::new(),
            names: VecDeque::new(),
            follow_ups: VecDeque::new(),
            follow_up_names: VecDeque::new(),
            drawn: Vec::new(),
            name: KeyName::EMPTY,
            missed: Vec::new(),
            renewal: None,
            ran_dry: None,
            scanner: ReplyScanner::default(),
            issued: 0,
            bytes: Bytes::default(),
            unsent: 0,
        }
    }

    /// Takes requests from `source` from now on, at the given pace, and has at most `depth` of them outstanding.
    pub(crate) fn set_source(&mut self, source: Source, pace: Pace, depth: usize) {
        self.source = source;
        self.pace = pace;
        self.depth = depth;
        self.ran_dry = None;
        self.outstanding.reserve(depth);
    }

    /// When the next request is due. To it go the moments at which requests become due.
    pub(crate) fn pace(&mut self) -> &mut Pace {
        &mut self.pace
    }

    /// From now on the socket is to be replaced after as many requests as are drawn from `every`, again and again.
    pub(crate) fn set_renewal(&mut self, every: Amount, rng: SmallRng) {
        let mut renewal = Renewal { every, rng, left: 0 };
        renewal.draw();
        self.renewal = Some(renewal);
    }

    /// Issues no request any more that is not due yet.
    pub(crate) fn stop(&mut self) {
        self.pace.stop();
        if !self.pace.is_open() {
            self.dry_up();
        }
    }

    /// Issues no request any more, and tells `recorder` of those that were due: they will never be sent. Those for which the source
    /// has nothing left are no arrivals.
    pub(crate) fn abandon(&mut self, recorder: &mut Recorder) {
        let ran_dry = self.ran_dry.unwrap_or_else(|| !self.source_has_more());
        self.ran_dry = Some(ran_dry);
        while let Some(intended) = self.pace.abandon() {
            if ran_dry {
                recorder.take_back_arrival(intended);
            } else {
                recorder.record_unsent(intended);
            }
        }
        self.dry_up();
    }

    /// A request was to be sent at `intended`, when the connection issued nothing any more. Returns whether it is an arrival, which is never
    /// sent: not if the source had nothing left for it.
    pub(crate) fn miss_arrival(&mut self, intended: Instant, recorder: &mut Recorder) -> bool {
        let is_arrival = self.ran_dry != Some(true);
        if is_arrival {
            recorder.record_arrival(intended, 0);
            recorder.record_unsent(intended);
        }
        is_arrival
    }

    fn dry_up(&mut self) {
        self.source = Source::Dry;
        self.follow_ups.clear();
        self.follow_up_names.clear();
    }

    /// Whether nothing is outstanding and nothing will be.
    pub(crate) fn is_done(&self) -> bool {
        let is_over = self.pace.is_over() && self.follow_ups.is_empty();
        self.outstanding.is_empty() && (is_over || !self.has_more())
    }

    /// Whether there is a request to issue.
    pub(crate) fn has_more(&self) -> bool {
        self.source_has_more() || !self.follow_ups.is_empty()
    }

    /// Whether there is a request to issue that no answer has asked for.
    pub(crate) fn source_has_more(&self) -> bool {
        let trace_ended = || self.workload.trace.as_ref().is_none_or(Trace::has_ended);
        !(self.source.is_dry() || matches!(self.source, Source::Replay) && trace_ended())
    }

    /// Why the trace that is replayed ended before its end.
    pub(crate) fn trace_fault(&self) -> Option<TraceError> {
        self.workload.trace.as_ref().and_then(Trace::fault)
    }

    /// Whether the socket has served its number of requests, all are answered, and a new one is needed for the next.
    pub(crate) fn is_spent(&self) -> bool {
        let spent = self.renewal.as_ref().is_some_and(|renewal| renewal.left == 0);
        spent && self.outstanding.is_empty() && self.has_more()
    }

    /// The next bytes will be a new socket's, though nothing is wrong with the last one.
    pub(crate) fn handle_renewed(&mut self) {
        self.begin_anew();
    }

    fn begin_anew(&mut self) {
        self.scanner.reset();
        self.bytes = Bytes::default();
        self.unsent = 0;
        if let Some(renewal) = &mut self.renewal {
            renewal.draw();
        }
    }

    /// Appends the requests that are due to `output`.
    pub(crate) fn poll_requests(&mut self, now: Instant, output: &mut Vec<u8>, recorder: &mut Recorder) {
        while self.outstanding.len() < self.depth {
            if self.renewal.as_ref().is_some_and(|renewal| renewal.left == 0) {
                return;
            }
            let Some(due) = self.next_due(now) else { return };
            self.drawn.clear();
            let Some(ask) = self.next_ask() else {
                // The trace has ended meanwhile.
                if due.late_ns.is_some() {
                    recorder.take_back_arrival(due.intended);
                }
                return;
            };
            if let Some(late_ns) = due.late_ns {
                recorder.record_late(due.intended, late_ns);
            }
            self.compose(ask, due.intended, now, output);
            if let Some(renewal) = &mut self.renewal {
                renewal.left -= 1;
            }
        }
    }

    /// When the next request should have been sent, if one is due. What an answer asked for is due at once.
    fn next_due(&mut self, now: Instant) -> Option<Due> {
        if self.follow_ups.is_empty() && self.has_more() {
            self.pace.take(now)
        } else {
            Some(Due { intended: now, late_ns: None })
        }
    }

    /// Clients whose request was answered or lost think, unless the answer has asked for more.
    fn think(&mut self, now: Instant) {
        let busy = self.outstanding.len() + self.follow_ups.len();
        self.pace.think(now, self.depth.saturating_sub(busy));
    }

    /// The next request, its keys put into `drawn` and, with a trace, into `name`.
    fn next_ask(&mut self) -> Option<Ask> {
        if let Some((ask, key)) = self.follow_ups.pop_front() {
            self.drawn.push(key);
            if let Some(name) = self.follow_up_names.pop_front() {
                self.name = name;
            }
            return Some(ask);
        }
        if let (Source::Replay, Some(trace)) = (&self.source, &self.workload.trace) {
            let ask = trace.next(&mut self.name)?;
            self.drawn.push(self.name.hash());
            return Some(ask);
        }
        self.source.next(&mut self.drawn)
    }

    fn compose(&mut self, mut ask: Ask, intended: Instant, now: Instant, output: &mut Vec<u8>) {
        let versions = &self.workload.versions;
        let mut version = 0;
        if ask.command.is_write() || ask.command.is_arithmetic() {
            // What a number begins with counts for nothing.
            let counted = !(ask.command.has_value() && self.workload.is_number(self.drawn[0]));
            version = if counted { versions.issue(self.drawn[0]) } else { 0 };
            if matches!(ask.command, Command::Append | Command::Prepend)
                && count(version).is_multiple_of(PIECES_MAX)
            {
                ask.command = Command::Set;
            }
        }
        let start = output.len();
        let name = self.workload.trace.is_some().then_some(&self.name);
        self.workload.append_request(&ask, &self.drawn, name, version, output);
        self.issued += 1;
        self.bytes.composed += (output.len() - start) as u64;
        let floor =
            |key| if ask.command.is_read() && versions.has_floors() { versions.floor(key) } else { 0 };
        self.keys.extend(self.drawn.iter().map(|&key| Asked { key, floor: floor(key) }));
        self.names.extend(name);
        self.unsent += 1;
        self.outstanding.push_back(Outstanding {
            number: self.issued,
            ask,
            operation: ask.command.operation(self.drawn.len()),
            version,
            keys: self.drawn.len() as u32,
            end: self.bytes.composed,
            intended,
            sent_at: now,
            turn_at: None,
        });
    }

    /// The next `bytes` of the requests were handed to the kernel by a call that began at `began`.
    pub(crate) fn handle_sent(&mut self, bytes: usize, began: Instant) {
        self.bytes.sent += bytes as u64;
        let first = self.outstanding.len() - self.unsent;
        for request in self.outstanding.range_mut(first..) {
            request.sent_at = began;
            request.turn_at.get_or_insert(began);
            if request.end > self.bytes.sent {
                break;
            }
            self.unsent -= 1;
        }
    }

    /// Takes all whole replies from the front of `buffer`, which were read at `now`, and returns their length. The rest
    /// must come again, with more behind it.
    pub(crate) fn handle_bytes(
        &mut self,
        buffer: &[u8],
        now: Instant,
        recorder: &mut Recorder,
    ) -> Result<usize, Fault> {
        let mut taken = 0;
        while taken < buffer.len() {
            let rest = &buffer[taken..];
            let Some(request) = self.outstanding.front().copied() else {
                return Err(Fault::Unasked { bytes: text(&rest[..rest.len().min(60)]) });
            };
            let Some(reply) = self.scanner.scan(request.ask.command.expected(), rest)? else { break };
            self.settle(request, reply, rest, now, recorder);
            if self.outstanding.len() == self.depth {
                self.pace.freed(now);
            }
            self.forget_oldest();
            self.think(now);
            self.unsent = self.unsent.min(self.outstanding.len());
            taken += reply.len;
        }
        Ok(taken)
    }

    fn forget_oldest(&mut self) {
        if let Some(request) = self.outstanding.pop_front() {
            self.keys.drain(..request.keys as usize);
            self.names.pop_front();
        }
    }

    /// Verifies and records the reply to the oldest outstanding request, and notes what it asks for.
    fn settle(
        &mut self,
        request: Outstanding,
        reply: Reply,
        buffer: &[u8],
        now: Instant,
        recorder: &mut Recorder,
    ) {
        let times = self.times(request, now);
        let mut outcome =
            Outcome { keys: request.keys, is_follow_up: request.ask.is_follow_up, ..Outcome::default() };
        if reply.status.is_error() {
            self.lose_write(request);
            outcome.error = true;
            recorder.record_error_text(buffer[reply.last_line..reply.len].trim_ascii_end());
            recorder.record_answer(times, request.operation, outcome, true);
            return;
        }
        self.missed.clear();
        match self.verify(request, reply, buffer) {
            Ok(found) => {
                outcome.hits = found.hits;
                outcome.misses = found.misses;
                if found.foreign > 0 {
                    recorder.record_foreign_values(found.foreign);
                }
                recorder.record_answer(times, request.operation, outcome, true);
                self.follow_up(request);
            }
            Err(fault) => {
                recorder.record_failure(times.belongs_to, &self.failure(request, &fault));
                recorder.record_answer(times, request.operation, outcome, false);
            }
        }
    }

    /// What the recorder learns of a request that ended at `now`. In an open loop a request belongs to the moment at which it
    /// should have been sent, and its response time counts from there.
    fn times(&self, request: Outstanding, now: Instant) -> Times {
        let from_send_ns = now.saturating_since(request.sent_at);
        if self.pace.is_open() {
            let response_time_ns = now.saturating_since(request.intended);
            let from_send_ns = Some(from_send_ns);
            Times { belongs_to: request.intended, completed: now, response_time_ns, from_send_ns }
        } else {
            Times { belongs_to: now, completed: now, response_time_ns: from_send_ns, from_send_ns: None }
        }
    }

    /// Whether the oldest outstanding request has waited for longer than `timeout` since its turn came. A server that takes its bytes
    /// one by one does not put that off.
    pub(crate) fn is_overdue(&self, now: Instant, timeout: Duration) -> bool {
        self.outstanding.front().is_some_and(|request| {
            let since = request.turn_at.unwrap_or(request.sent_at);
            u128::from(now.saturating_since(since)) > timeout.as_nanos()
        })
    }

    /// The socket is gone because of `fault`: every outstanding request is lost and counted as a failure, and a
    /// connection that broke with none outstanding is one failure. The next bytes will be a new socket's.
    pub(crate) fn handle_broken(&mut self, fault: &Fault, now: Instant, recorder: &mut Recorder) {
        if self.outstanding.is_empty() {
            recorder.record_failure(now, &format_args!("{}: {fault}", self.name()));
        }
        while let Some(request) = self.outstanding.front().copied() {
            recorder.record_failure(self.times(request, now).belongs_to, &self.failure(request, fault));
            self.lose_write(request);
            self.forget_oldest();
        }
        self.think(now);
        self.begin_anew();
    }

    fn failure<'a>(&'a self, request: Outstanding, fault: &'a Fault) -> Failure<'a> {
        Failure { connection: self, request, fault }
    }

    fn name(&self) -> Name<'_> {
        Name(self)
    }
}

/// Every so-manieth write of a key that would append or prepend sets it instead, so that values do not grow without end.
const PIECES_MAX: u64 = 16;

#[cfg(test)]
mod cache;
#[cfg(test)]
mod content_tests;
#[cfg(test)]
mod cost;
#[cfg(test)]
mod tests;

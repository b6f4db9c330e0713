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
//! When a request is due is the connection's [`Pace`]'s to say. Replies come in request order. After a [`Fault`] from [`Connection::handle_bytes`] the two sides are out of step: the
//! socket is closed and [`Connection::handle_broken`] called, which counts every outstanding request as lost.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use weir_protocol::{Reply, ReplyScanner, Status};
use weir_timing::{Instant, Operation, Outcome};

use crate::mix::Source;
use crate::pace::Pace;
use crate::recorder::{Recorder, Times};
use crate::verify::{Fault, Found, text, verify_values};
use crate::workload::{Workload, expected};

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
    keys: VecDeque<u64>,
    /// The keys of the request that is being composed.
    drawn: Vec<u64>,
    scanner: ReplyScanner,
    /// Requests composed so far; also the last request's number.
    issued: u64,
    /// Bytes composed, and of these bytes handed to the kernel, since the socket was connected.
    composed: u64,
    sent: u64,
    /// How many of the last outstanding requests are not wholly handed to the kernel.
    unsent: usize,
}

/// A request whose reply has not come.
#[derive(Debug, Clone, Copy)]
struct Outstanding {
    number: u64,
    operation: Operation,
    keys: u32,
    /// Where its last byte ends, counted as `composed`.
    end: u64,
    /// When it should have been sent; where nothing was scheduled, when it was composed.
    intended: Instant,
    /// When its last byte was handed to the kernel; until then, when something last happened to it.
    sent_at: Instant,
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
            drawn: Vec::new(),
            scanner: ReplyScanner::default(),
            issued: 0,
            composed: 0,
            sent: 0,
            unsent: 0,
        }
    }

    /// Takes requests from `source` from now on, at the given pace, and has at most `depth` of them outstanding.
    pub(crate) fn set_source(&mut self, source: Source, pace: Pace, depth: usize) {
        self.source = source;
        self.pace = pace;
        self.depth = depth;
        self.outstanding.reserve(depth);
    }

    /// When the next request is due. To it go the moments at which requests become due.
    pub(crate) fn pace(&mut self) -> &mut Pace {
        &mut self.pace
    }

    /// Issues no request any more that is not due yet.
    pub(crate) fn stop(&mut self) {
        self.pace.stop();
        if !self.pace.is_open() {
            self.source = Source::Dry;
        }
    }

    /// Whether nothing is outstanding and nothing will be.
    pub(crate) fn is_done(&self) -> bool {
        self.outstanding.is_empty() && (self.source.is_dry() || self.pace.is_over())
    }

    /// Appends the requests that are due to `output`.
    pub(crate) fn poll_requests(&mut self, now: Instant, output: &mut Vec<u8>, recorder: &mut Recorder) {
        while self.outstanding.len() < self.depth && !self.source.is_dry() {
            let Some(due) = self.pace.take(now) else { return };
            if let Some(late_ns) = due.late_ns {
                recorder.record_late(due.intended, late_ns);
            }
            self.drawn.clear();
            let Some(operation) = self.source.next(&mut self.drawn) else { return };
            let start = output.len();
            self.workload.append_request(operation, &self.drawn, output);
            self.issued += 1;
            self.composed += (output.len() - start) as u64;
            self.keys.extend(&self.drawn);
            self.unsent += 1;
            self.outstanding.push_back(Outstanding {
                number: self.issued,
                operation,
                keys: self.drawn.len() as u32,
                end: self.composed,
                intended: due.intended,
                sent_at: now,
            });
        }
    }

    /// The next `bytes` of the requests were handed to the kernel by a call that began at `began`.
    pub(crate) fn handle_sent(&mut self, bytes: usize, began: Instant) {
        self.sent += bytes as u64;
        let first = self.outstanding.len() - self.unsent;
        for request in self.outstanding.range_mut(first..) {
            request.sent_at = began;
            if request.end > self.sent {
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
            let Some(reply) = self.scanner.scan(expected(request.operation), rest)? else { break };
            self.settle(request, reply, rest, now, recorder);
            if self.outstanding.len() == self.depth {
                self.pace.freed(now);
            }
            self.pace.think(now);
            self.outstanding.pop_front();
            self.keys.drain(..request.keys as usize);
            self.unsent = self.unsent.min(self.outstanding.len());
            taken += reply.len;
        }
        Ok(taken)
    }

    /// Verifies and records the reply to the oldest outstanding request.
    fn settle(
        &self,
        request: Outstanding,
        reply: Reply,
        buffer: &[u8],
        now: Instant,
        recorder: &mut Recorder,
    ) {
        let times = self.times(request, now);
        let mut outcome = Outcome { keys: request.keys, ..Outcome::default() };
        if reply.status.is_error() {
            outcome.error = true;
            recorder.record_error_text(buffer[reply.last_line..reply.len].trim_ascii_end());
            recorder.record_answer(times, request.operation, outcome, true);
            return;
        }
        match self.verify(request, reply, buffer) {
            Ok(found) => {
                outcome.hits = found.hits;
                outcome.misses = found.misses;
                if found.foreign > 0 {
                    recorder.record_foreign_values(found.foreign);
                }
                recorder.record_answer(times, request.operation, outcome, true);
            }
            Err(fault) => {
                recorder.record_failure(times.belongs_to, &self.failure(request, &fault));
                recorder.record_answer(times, request.operation, outcome, false);
            }
        }
    }

    /// What the recorder is told of a request that ended at `now`. In an open loop a request belongs to the moment at which it
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

    fn verify(&self, request: Outstanding, reply: Reply, buffer: &[u8]) -> Result<Found, Fault> {
        match reply.status {
            Status::End => {
                let asked = self.keys.range(..request.keys as usize).copied();
                verify_values(&self.workload, asked, self.scanner.values(), buffer)
            }
            Status::Stored => Ok(Found::default()),
            _ => Err(Fault::Unfit { reply: text(buffer[reply.last_line..reply.len].trim_ascii_end()) }),
        }
    }

    /// Whether the oldest outstanding request has waited for longer than `timeout`.
    pub(crate) fn is_overdue(&self, now: Instant, timeout: Duration) -> bool {
        self.outstanding
            .front()
            .is_some_and(|request| u128::from(now.saturating_since(request.sent_at)) > timeout.as_nanos())
    }

    /// The socket is gone because of `fault`: every outstanding request is lost and counted as a failure, and a
    /// connection that broke with none outstanding is one failure. The next bytes will be a new socket's.
    pub(crate) fn handle_broken(&mut self, fault: &Fault, now: Instant, recorder: &mut Recorder) {
        if self.outstanding.is_empty() {
            recorder.record_failure(now, &format_args!("{}: {fault}", self.name()));
        }
        while let Some(request) = self.outstanding.pop_front() {
            recorder.record_failure(self.times(request, now).belongs_to, &self.failure(request, fault));
            self.pace.think(now);
            self.keys.drain(..request.keys as usize);
        }
        self.scanner.reset();
        self.composed = 0;
        self.sent = 0;
        self.unsent = 0;
    }

    fn failure<'a>(&'a self, request: Outstanding, fault: &'a Fault) -> Failure<'a> {
        Failure { connection: self, request, fault }
    }

    fn name(&self) -> Name<'_> {
        Name(self)
    }
}

/// How a connection is named to the user.
struct Name<'a>(&'a Connection);

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "connection {} to {}", self.0.id, self.0.target)
    }
}

/// A failed request, as it is told to the user. Valid while the request is the oldest, because its keys are looked up.
struct Failure<'a> {
    connection: &'a Connection,
    request: Outstanding,
    fault: &'a Fault,
}

impl fmt::Display for Failure<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Failure { connection, request, fault } = self;
        write!(f, "{}, request {}: {}", connection.name(), request.number, request.operation.name())?;
        let keys = request.keys as usize;
        for &key in connection.keys.range(..keys.min(KEYS_NAMED_MAX)) {
            let mut name = Vec::new();
            connection.workload.keyspace.append(key, &mut name);
            write!(f, " {}", name.escape_ascii())?;
        }
        if keys > KEYS_NAMED_MAX {
            write!(f, " and {} more keys", keys - KEYS_NAMED_MAX)?;
        }
        write!(f, ": {fault}")
    }
}

const KEYS_NAMED_MAX: usize = 3;

#[cfg(test)]
mod tests;

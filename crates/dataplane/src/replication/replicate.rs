//! A write whose key has several replicas.
//!
//! ```text
//!   unconditional:  all that are not marked down ─────────────────────────────▶ answered, when as many have done it as the policy asks
//!   conditional:    the decider ──refuses──▶ answered, nobody else hears of it
//!                               ──does it──▶ the others follow (`follow.rs`) ──▶ answered
//!                                   what they are sent is told by its reply, or by what it says it holds
//!                               ──is lost──▶ answered by an error; the others forget the key
//! ```
//!
//! Whoever was not told, or of whom nobody knows what it did, is in the journal before the client is answered: it is not read before it
//! has forgotten the key. Whoever refused what another did is told to forget the key, and stays readable. A request may be answered before all its replicas have answered; then its service stays
//! until they have, so that what fails later is journalled, too.

use crate::{
    Dataplane, Fault, ReplicasRequired, WritePolicy,
    replication::follow::meta::ITEM_PART,
    replication::follow::{Follow, may_have_changed},
    replication::key_lock::KeyLock,
    replication::token::Judged,
    requests::answer::Answer,
    requests::services::Services,
    requests::writes::let_go_on,
    routes::Routes,
    servers::backend::{Backend, NewPart, RequestKey},
    servers::begun::Begun,
    servers::message::write_message,
    wire::key::WireKey,
    wire::write::Write,
};
use std::sync::Arc;
use weir_protocol::{Expected, Reply, Status};
use weir_timing::Instant;

/// What is known of a write to several replicas until all of them have answered.
#[derive(Debug)]
pub(crate) struct Replicated {
    key: Box<[u8]>,
    base64: bool,
    /// As they were when the write came. As long as they are kept, no number becomes another server's.
    routes: Arc<Routes>,
    /// One for each replica, the first in the key's order first.
    pub(crate) copies: Vec<Copy>,
    /// The server whose reply is the answer, if it gives one.
    pub(crate) decider: usize,
    policy: WritePolicy,
    /// How many must have done it.
    needed: usize,
    pub(crate) step: Step,
    /// What the others are told once it is decided.
    pub(crate) follow: Follow,
    /// Until others may write to its key.
    lock: Option<KeyLock>,
    /// The best reply so far, and the rank of who gave it.
    reply: Option<(usize, Vec<u8>)>,
    failure: Option<Failure>,
    /// Nobody knows whether the decider did it.
    is_undecided: bool,
    is_answered: bool,
    /// What its key has in common with others (`repair.rs`).
    class: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The decider was asked, nobody else.
    Deciding,
    /// It may have done it, and is to say what it holds now; then the others are told that.
    Copying,
    /// All that are to be told were.
    Told,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Copy {
    pub(crate) server: usize,
    pub(crate) state: CopyState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CopyState {
    /// Nothing was sent there.
    Untold,
    /// It was sent the write.
    Asked,
    /// It was sent a delete.
    Forgetting,
    /// It did what was asked, or holds nothing.
    Done,
    /// It answered with an error.
    Refused,
    /// So it did, and it has forgotten the key since.
    Cleared,
    /// The key is in its journal.
    Missed,
}

/// The first thing that went wrong.
#[derive(Debug)]
enum Failure {
    Fault(Fault, usize),
    Line(Vec<u8>, Status),
}

impl Replicated {
    /// What no client has asked for: nobody is told what comes of it.
    pub(crate) fn internal(
        name: &[u8],
        routes: &Arc<Routes>,
        copies: Vec<Copy>,
        (decider, follow): (usize, Follow),
    ) -> Self {
        Self {
            key: name.into(),
            base64: false,
            routes: Arc::clone(routes),
            copies,
            decider,
            policy: WritePolicy::Async,
            needed: 0,
            step: Step::Deciding,
            follow,
            lock: None,
            reply: None,
            failure: None,
            is_undecided: false,
            is_answered: true,
            class: 0,
        }
    }

    /// Whether the key's servers are still those that they were.
    pub(crate) fn goes_by(&self, routes: &Arc<Routes>) -> bool {
        Arc::ptr_eq(&self.routes, routes)
    }

    pub(crate) fn key(&self) -> WireKey<'_> {
        WireKey { bytes: &self.key, base64: self.base64 }
    }

    pub(crate) fn rank_of(&self, server: usize) -> usize {
        self.copies.iter().position(|copy| copy.server == server).expect("it was asked, so it is a replica")
    }

    fn count(&self, state: CopyState) -> usize {
        self.copies.iter().filter(|copy| copy.state == state).count()
    }

    /// A reply may become the answer: the decider's before others', and a lower rank's before a higher's.
    fn offer(&mut self, rank: usize, bytes: &[u8]) {
        let place = |rank: usize| (self.copies[rank].server != self.decider, rank);
        if self.reply.as_ref().is_none_or(|(best, _)| place(rank) < place(*best)) {
            self.reply = Some((rank, bytes.to_vec()));
        }
    }

    /// Whether the decider answered with an error what it may have done all the same, and the others forget the key.
    fn is_refused_by_decider(&self) -> bool {
        let decider = self.copies[self.rank_of(self.decider)].state;
        self.follow.is_conditional() && self.step == Step::Told && decider == CopyState::Refused
    }

    /// The reply that was chosen so far.
    pub(crate) fn reply(&self) -> &[u8] {
        self.reply.as_ref().map_or(&[], |(_, bytes)| bytes)
    }

    /// Whether the client can be answered, and if so, whether with success.
    fn verdict(&self, outstanding: usize) -> Option<bool> {
        let (done, failed) = (self.count(CopyState::Done), self.failure.is_some());
        match self.policy {
            _ if self.is_undecided || self.is_refused_by_decider() => Some(false),
            _ if self.step == Step::Deciding => (outstanding == 0).then_some(!failed),
            WritePolicy::All => (outstanding == 0).then_some(!failed),
            // Whoever refused what others did may still hold the old value.
            WritePolicy::Quorum if done >= self.needed && self.count(CopyState::Forgetting) > 0 => None,
            WritePolicy::Quorum | WritePolicy::First if done >= self.needed => Some(true),
            WritePolicy::Quorum | WritePolicy::First => (done + outstanding < self.needed).then_some(false),
            WritePolicy::Async => match self.copies[self.rank_of(self.decider)].state {
                CopyState::Done => Some(true),
                CopyState::Refused | CopyState::Forgetting | CopyState::Cleared | CopyState::Missed => {
                    Some(false)
                }
                CopyState::Untold | CopyState::Asked => None,
            },
        }
    }
}

impl Dataplane {
    /// Sends a write to the replicas of its key, or refuses it before anybody has heard of it.
    pub(crate) fn replicate(
        &mut self,
        key: RequestKey,
        name: &[u8],
        replicas: &[u16],
        (write, follow): (Write<'_>, Follow),
        now: Instant,
    ) {
        let decider = match self.admit_write(replicas, write.is_conditional) {
            Ok(decider) => decider,
            Err((fault, server)) => {
                self.note_refusal(key, fault, server);
                return self.finish_if_nothing_is_outstanding(key, now);
            }
        };
        let mut text = Vec::new();
        let request = match self.judge_token(decider, write, &mut text) {
            Judged::Ask(request) => request,
            Judged::Exists(answer) => return self.refuse_token(key, answer, now),
        };
        let copies = replicas
            .iter()
            .map(|&server| Copy { server: usize::from(server), state: CopyState::Untold })
            .collect();
        let mut replicated = Box::new(Replicated {
            key: write.key.bytes.into(),
            base64: write.key.base64,
            routes: Arc::clone(&self.base.fleet.routes),
            copies,
            decider,
            policy: self.base.fleet.config.write_policy,
            needed: self.needed(replicas.len()),
            step: if write.is_conditional { Step::Deciding } else { Step::Told },
            follow,
            lock: write.is_conditional.then(|| self.base.replication.lock(name)),
            reply: None,
            failure: None,
            is_undecided: false,
            is_answered: false,
            class: self.base.replication.repairs.begin_write(name),
        });
        for rank in 0..replicas.len() {
            let server = replicated.copies[rank].server;
            if write.is_conditional && server != decider {
                continue;
            }
            replicated.copies[rank].state =
                if self.base.fleet.servers[server].admit(&self.base.fleet.config).is_ok() {
                    self.send(key, server, write.expected, server == decider, now, |backend| {
                        write_message(request, write.expected, backend);
                    });
                    CopyState::Asked
                } else {
                    self.skip_copy(&replicated, server)
                };
        }
        if write.is_conditional && matches!(replicated.follow, Follow::Copy) {
            self.ask_for_item(key, decider, write.key, now);
        }
        let service = &mut self.requests.services[key];
        service.is_decided_alone = write.is_conditional;
        if service.is_decided_alone {
            self.base.clients[service.session].begin_deciding();
        }
        service.write = Some(replicated);
    }

    /// How many replicas must have done a write.
    fn needed(&self, replicas: usize) -> usize {
        match self.base.fleet.config.write_policy {
            WritePolicy::Quorum => replicas / 2 + 1,
            WritePolicy::All | WritePolicy::First | WritePolicy::Async => 1,
        }
    }

    /// Whether a write can be begun, and who decides it.
    fn admit_write(&self, replicas: &[u16], is_conditional: bool) -> Result<usize, (Fault, usize)> {
        let mut live = 0;
        let mut down = None;
        for server in replicas.iter().map(|&server| usize::from(server)) {
            match self.base.fleet.servers[server].admit(&self.base.fleet.config) {
                Ok(()) => live += 1,
                Err(Fault::Down) => down = down.or(Some((Fault::Down, server))),
                // Nobody has heard of it yet, so nothing differs if it ends here.
                Err(fault) => return Err((fault, server)),
            }
        }
        let required = match (self.base.fleet.config.write_policy, self.base.fleet.config.replicas_required) {
            (WritePolicy::All, ReplicasRequired::AllConfigured) => replicas.len(),
            _ => self.needed(replicas.len()),
        };
        if let Some(down) = down.filter(|_| live < required) {
            return Err(down);
        }
        match self.base.fleet.readers().first(replicas) {
            Ok(decider) => Ok(decider),
            Err(refusal) if is_conditional => Err(refusal),
            // Nothing is read to carry it out.
            Err(_) => {
                let mut servers = replicas.iter().map(|&server| usize::from(server));
                let live = servers
                    .find(|&server| self.base.fleet.servers[server].admit(&self.base.fleet.config).is_ok());
                Ok(live.expect("as many as are required were counted"))
            }
        }
    }

    /// A replica is marked down, and will not hear of the write.
    pub(crate) fn skip_copy(&mut self, write: &Replicated, server: usize) -> CopyState {
        self.base.meter.counters().copies_skipped += 1;
        self.base.fleet.replicas.miss(server, write.key(), &mut self.base.fleet.servers);
        CopyState::Missed
    }

    /// A replica answered.
    pub(crate) fn copy_replied(
        &mut self,
        (key, part): (RequestKey, u32),
        server: usize,
        (reply, bytes): (Reply, &[u8]),
        now: Instant,
    ) {
        let Some(mut write) = self.requests.services[key].write.take() else { return };
        if matches!(write.follow, Follow::Repair(_)) {
            return self.repair_replied(key, write, (server, reply, bytes), now);
        }
        let (rank, answer) = (write.rank_of(server), &bytes[..reply.answer_len]);
        let state = write.copies[rank].state;
        if reply.status.is_error() {
            self.base.fleet.servers[server].count_error();
        }
        if part == ITEM_PART {
            self.copy_item(key, &mut write, (reply, bytes), now);
        } else if write.step == Step::Deciding {
            self.note_decision(&mut write, rank, reply, bytes);
            if may_have_changed(reply.status) {
                self.tell_followers(key, &mut write, reply.status, now);
            }
        } else if state == CopyState::Forgetting {
            // What a server takes for no key it holds nothing of.
            let has_forgotten = reply.status != Status::ServerError;
            write.copies[rank].state = match has_forgotten {
                true if write.follow.is_conditional() => CopyState::Done,
                true => CopyState::Cleared,
                false => self.miss_copy(&write, server),
            };
        } else if write.follow.is_conditional() && server != write.decider {
            write.copies[rank].state =
                self.compare_follower(key, &mut write, server, (reply.status, answer), now);
        } else {
            self.note_decision(&mut write, rank, reply, bytes);
        }
        self.advance_write(key, write, now);
    }

    fn note_decision(&mut self, write: &mut Replicated, rank: usize, reply: Reply, bytes: &[u8]) {
        let answer = &bytes[..reply.answer_len];
        if reply.status.is_error() {
            let line = bytes[reply.last_line..reply.answer_len].to_vec();
            write.failure.get_or_insert(Failure::Line(line, reply.status));
            write.copies[rank].state = CopyState::Refused;
        } else {
            write.copies[rank].state = CopyState::Done;
            write.offer(rank, answer);
        }
    }

    /// A replica gave no answer; nobody knows what it did, unless it was not sent anything.
    pub(crate) fn copy_failed(
        &mut self,
        (key, part): (RequestKey, u32),
        fault: Fault,
        server: usize,
        now: Instant,
    ) {
        let Some(mut write) = self.requests.services[key].write.take() else { return };
        if matches!(write.follow, Follow::Repair(_)) {
            return self.repair_failed(key, write, (fault, server));
        }
        if part == ITEM_PART {
            self.lose_item(key, &mut write, now);
            return self.advance_write(key, write, now);
        }
        let rank = write.rank_of(server);
        write.failure.get_or_insert(Failure::Fault(fault, server));
        let is_deciding = write.step == Step::Deciding;
        if is_deciding && matches!(fault, Fault::Connect | Fault::Unauthenticated) {
            // It never left.
            write.copies[rank].state = CopyState::Untold;
        } else {
            write.copies[rank].state = self.miss_copy(&write, server);
            if is_deciding {
                write.is_undecided = true;
                self.tell_to_forget(key, &mut write, now);
            }
        }
        self.advance_write(key, write, now);
    }

    /// A replica lacks the write, or may.
    pub(crate) fn miss_copy(&mut self, write: &Replicated, server: usize) -> CopyState {
        self.base.fleet.replicas.miss(server, write.key(), &mut self.base.fleet.servers);
        CopyState::Missed
    }

    /// What follows from what is known by now.
    fn advance_write(&mut self, key: RequestKey, mut write: Box<Replicated>, now: Instant) {
        self.end_disagreement(key, &mut write, now);
        let outstanding = self.requests.services[key].outstanding as usize;
        let verdict = if write.is_answered { None } else { write.verdict(outstanding) };
        if let Some(is_success) = verdict {
            write.is_answered = true;
            // Followers that have not answered are still compared with it.
            self.requests.services[key].answer =
                Answer::Owned(if outstanding > 0 && write.follow.is_conditional() {
                    write.reply().to_vec()
                } else {
                    write.reply.take().map_or(Vec::new(), |(_, bytes)| bytes)
                });
            if !is_success {
                self.fail_write(key, &mut write);
            }
        }
        if let Some(lock) = write.lock.take_if(|_| write.step == Step::Told || outstanding == 0) {
            let next = self.base.replication.release(lock);
            let_go_on(&mut self.base, next);
        }
        if outstanding > 0 {
            self.requests.services[key].write = Some(write);
        } else {
            self.base.replication.repairs.end_write(write.class);
        }
        if verdict.is_some() {
            self.finish(key, None, now);
        } else if outstanding == 0 && self.requests.services[key].lingers {
            self.requests.services.remove(key);
        }
    }

    fn fail_write(&mut self, key: RequestKey, write: &mut Replicated) {
        match write.failure.take() {
            Some(Failure::Fault(fault, server)) => self.fail(key, fault, server),
            Some(Failure::Line(line, status)) => self.fail_with_line((key, 0), &line, status),
            // Too few were up to be told.
            None => {
                let missed = write.copies.iter().find(|copy| copy.state == CopyState::Missed);
                self.fail(key, Fault::Down, missed.map_or(write.decider, |copy| copy.server));
            }
        }
    }

    /// Replicas that refused what another did forget the key. Who refused did nothing, so where nobody did it all agree.
    fn end_disagreement(&mut self, key: RequestKey, write: &mut Replicated, now: Instant) {
        let is_done_somewhere = write.count(CopyState::Done) > 0;
        let is_wanted = is_done_somewhere && self.base.fleet.config.ends_disagreement();
        if !is_wanted || write.step != Step::Told || write.follow.is_conditional() {
            return;
        }
        for rank in 0..write.copies.len() {
            if write.copies[rank].state == CopyState::Refused {
                write.copies[rank].state = self.forget(key, write, rank, now);
            }
        }
    }

    /// Another message of a write, after the first.
    pub(crate) fn send_to_copy(
        &mut self,
        key: RequestKey,
        (server, expected): (usize, Expected),
        now: Instant,
        compose: impl FnOnce(&mut Backend),
    ) -> Result<(), Fault> {
        self.send_part_to_copy(key, (server, expected, 0), now, compose)
    }

    /// The same, with the number of its part.
    pub(crate) fn send_part_to_copy(
        &mut self,
        key: RequestKey,
        (server, expected, index): (usize, Expected, u32),
        now: Instant,
        compose: impl FnOnce(&mut Backend),
    ) -> Result<(), Fault> {
        let backend = &mut self.base.fleet.servers[server];
        backend.admit(&self.base.fleet.config)?;
        let service = &mut self.requests.services[key];
        service.following = true;
        // Both steps share the request's deadline. Where the first has used it up, nobody waits for the second, which has its own.
        let created = service.begun();
        let is_late = created.deadline(self.base.fleet.config.timeout_ns, false) <= now;
        let created = if is_late { Begun::at(now) } else { created };
        let part = NewPart { request: Some(key), expected, decides: false, index, created };
        backend.begin_message(part, &self.base.fleet.config, now);
        compose(backend);
        backend.finish_message();
        service.outstanding += 1;
        Ok(())
    }

    /// A follower that cannot be told because too much waits for it already.
    pub(crate) fn refuse_copy(&mut self, write: &mut Replicated, fault: Fault, server: usize) -> CopyState {
        if fault == Fault::Down && self.base.fleet.config.replicas_required == ReplicasRequired::Live {
            return self.skip_copy(write, server);
        }
        self.base.meter.counters().server_refusals_full += u64::from(fault == Fault::Full);
        self.base.fleet.servers[server].count_error();
        write.failure.get_or_insert(Failure::Fault(fault, server));
        self.miss_copy(write, server)
    }
}

/// A request is answered, and forgotten when no replica owes it anything.
pub(crate) fn retire(services: &mut Services, key: RequestKey) {
    if services[key].outstanding == 0 {
        services.remove(key);
    } else {
        services[key].lingers = true;
    }
}

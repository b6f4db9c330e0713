//! A write whose key has several replicas.
//!
//! ```text
//!   unconditional:  all that are not marked down ─────────────────────────────▶ answered, when as many have done it as the policy asks
//!   conditional:    the decider ──refuses──▶ answered, nobody else hears of it
//!                               ──does it──▶ the others follow (`write/followers.rs`) ──▶ answered
//!                                   what they are sent follows from its reply, or from what it says it holds
//!                               ──is lost──▶ answered by an error; all forget the key, unless the write never left
//! ```
//!
//! A copy that missed the write, or of which nobody knows what it did, is in the journal before the client is answered. It is not read
//! before it has forgotten the key. One that refused what another did is made to forget the key, and stays readable. A request may be
//! answered before all its replicas have answered; then its service stays until they have, so that what fails later is journalled, too.
//!
//! [`Replicated`] is one write: what is known of each copy, and what follows from it. It learns what replicas reply and which are lost. It
//! answers what the client gets, and when ([`Answered`]); it sends by the [`Courier`] of the step. `write/put_back.rs` has what is
//! different where nothing is written, but copies are put back.

mod copies;
mod followers;
mod put_back;

use crate::{
    Mutation, ReplicasRequired, WritePolicy,
    replication::courier::Courier,
    replication::fleet::Fleet,
    replication::follow::meta::ITEM_PART,
    replication::follow::{Follow, kept_bytes_of, may_have_changed},
    replication::key_lock::{KeyLock, KeyLocks},
    replication::repair::{Repair, Repairs},
    replication::token::Judged,
    replication::write::copies::{Copies, CopyState, Rank},
    routes::Routes,
    servers::message::write_message,
    wire::fault::Fault,
    wire::ids::Slot,
    wire::key::WireKey,
    wire::write::Write,
};
use std::{borrow::Cow, sync::Arc};
use weir_protocol::{Reply, Status};

/// What is known of a write to several replicas until all of them have answered.
#[derive(Debug)]
pub(crate) struct Replicated {
    key: Box<[u8]>,
    base64: bool,
    /// As they were when the write came. As long as they are kept, no number becomes another server's.
    routes: Arc<Routes>,
    copies: Copies,
    /// The server whose reply is the answer, if it gives one.
    decider: Slot,
    policy: WritePolicy,
    /// How many must have done it.
    needed: usize,
    step: Step,
    /// What the others are sent once it is decided.
    follow: Follow,
    /// Until others may write to its key.
    lock: Option<KeyLock>,
    /// The best reply so far, and the rank of who gave it.
    reply: Option<(Rank, Vec<u8>)>,
    failure: Option<Failure>,
    /// Nobody knows whether the decider did it.
    is_undecided: bool,
    is_answered: bool,
    /// What its key has in common with others (`repair.rs`).
    class: usize,
    /// Replies of replicas that are still to come.
    owed: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// The decider was asked, nobody else.
    Deciding,
    /// It may have done it, and is to say what it holds now; then the others are sent that.
    Copying,
    /// All that are to be sent the outcome were.
    Sent,
}

/// Why a write failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// This server gave no answer.
    Fault(Fault, Slot),
    /// A server answered with this line.
    Line(Vec<u8>, Status),
}

/// What the client gets.
#[derive(Debug)]
pub(crate) enum Answered {
    /// This reply.
    Done(Vec<u8>),
    /// The failure; this reply is the best that came.
    Failed(Vec<u8>, Failure),
}

/// Why no replica heard of a write.
#[derive(Debug)]
pub(crate) enum Declined {
    /// This server cannot take it.
    Refused(Fault, Slot),
    /// It has a token of another server than the one that decides; this is the answer.
    Exists(Cow<'static, [u8]>),
}

impl Replicated {
    /// Sends a write to the replicas of its key, or refuses it before anybody has heard of it.
    pub(super) fn begin(
        (name, replicas): (&[u8], &[Slot]),
        (write, kept_bytes_max): (Write<'_>, usize),
        (locks, repairs): (&mut KeyLocks, &mut Repairs),
        courier: &mut Courier<'_>,
    ) -> Result<Box<Self>, Declined> {
        let decider = admit_write(courier.fleet, replicas, write.is_conditional)
            .map_err(|(fault, server)| Declined::Refused(fault, server))?;
        let mut text = Vec::new();
        let judged = match courier.fleet.replicas.tag(decider) {
            Some(tag) if write.is_conditional => tag.judge(write.request, &mut text),
            _ => Judged::Ask(write.request),
        };
        let request = match judged {
            Judged::Ask(request) => request,
            Judged::Exists(answer) => {
                courier.counters.tokens_outdated += 1;
                return Err(Declined::Exists(answer));
            }
        };
        let config = &courier.fleet.config;
        let follow = match write.is_conditional {
            false => Follow::Never,
            true if kept_bytes_of(&write.request) > kept_bytes_max => {
                courier.counters.follow_refusals_memory += 1;
                Follow::Forget
            }
            true => config.follow(write.request),
        };
        let mut replicated = Box::new(Self {
            key: write.key.bytes.into(),
            base64: write.key.base64,
            routes: Arc::clone(&courier.fleet.routes),
            copies: Copies::unsent(replicas),
            decider,
            policy: config.write_policy,
            needed: needed(config.write_policy, replicas.len()),
            step: if write.is_conditional { Step::Deciding } else { Step::Sent },
            follow,
            lock: write.is_conditional.then(|| locks.lock(name)),
            reply: None,
            failure: None,
            is_undecided: false,
            is_answered: false,
            class: repairs.begin_write(name),
            owed: 0,
        });
        for rank in replicated.copies.ranks() {
            let server = replicated.copies[rank].server();
            if write.is_conditional && server != decider {
                continue;
            }
            replicated.copies[rank].state = if courier.fleet.servers.admit(server).is_ok() {
                courier.send_first((server, write.expected), (server == decider, 0), |backend| {
                    write_message(request, write.expected, backend);
                });
                CopyState::Asked
            } else {
                replicated.skip(server, courier)
            };
        }
        if write.is_conditional && matches!(replicated.follow, Follow::Copy) {
            replicated.ask_for_item(write.key, courier);
        }
        replicated.owed = courier.sent();
        Ok(replicated)
    }

    /// How many replies of replicas are still to come.
    #[inline]
    pub(crate) const fn owed(&self) -> u32 {
        self.owed
    }

    /// How much memory is kept of it for those that follow, if that counts.
    #[inline]
    pub(crate) fn kept_bytes(&self) -> usize {
        self.follow.kept_bytes()
    }

    /// A replica answered.
    pub(super) fn take_reply(
        &mut self,
        (server, part): (Slot, u32),
        (reply, bytes): (Reply, &[u8]),
        repairs: &Repairs,
        courier: &mut Courier<'_>,
    ) {
        self.owed -= 1;
        if let Follow::Repair(_) = self.follow {
            return self.take_repair_reply(server, (reply, bytes), repairs, courier);
        }
        let (rank, answer) = (self.copies.rank_of(server), &bytes[..reply.answer_len]);
        let state = self.copies[rank].state;
        if reply.status.is_error() {
            courier.fleet.servers[server].count_error();
        }
        if part == ITEM_PART {
            self.copy_item((reply, bytes), courier);
        } else if self.step == Step::Deciding {
            self.note_decision(rank, reply, bytes);
            if may_have_changed(reply.status) {
                self.tell_followers(reply.status, courier);
            }
        } else if state == CopyState::Forgetting {
            // What a server takes for no key it holds nothing of.
            let has_forgotten = reply.status != Status::ServerError;
            self.copies[rank].state = match has_forgotten {
                true if self.follow.is_conditional() => CopyState::Done,
                true => CopyState::Cleared,
                false => self.miss(server, courier),
            };
        } else if self.follow.is_conditional() && server != self.decider {
            self.copies[rank].state = self.compare_follower(rank, (reply.status, answer), courier);
        } else {
            self.note_decision(rank, reply, bytes);
        }
    }

    fn note_decision(&mut self, rank: Rank, reply: Reply, bytes: &[u8]) {
        let answer = &bytes[..reply.answer_len];
        if reply.status.is_error() {
            let line = bytes[reply.last_line..reply.answer_len].to_vec();
            self.failure.get_or_insert(Failure::Line(line, reply.status));
            self.copies[rank].state = CopyState::Refused;
        } else {
            self.copies[rank].state = CopyState::Done;
            self.offer(rank, answer);
        }
    }

    /// A replica gave no answer; nobody knows what it did, unless it was not sent anything.
    pub(super) fn take_loss(&mut self, (server, part): (Slot, u32), fault: Fault, courier: &mut Courier<'_>) {
        self.owed -= 1;
        if let Follow::Repair(_) = self.follow {
            return self.take_repair_loss(server, fault, courier);
        }
        if part == ITEM_PART {
            return self.lose_item(courier);
        }
        let rank = self.copies.rank_of(server);
        self.failure.get_or_insert(Failure::Fault(fault, server));
        let is_deciding = self.step == Step::Deciding;
        if is_deciding && matches!(fault, Fault::Connect | Fault::Unauthenticated) {
            // It never left.
            self.copies[rank].state = CopyState::Unsent;
        } else {
            self.copies[rank].state = self.miss(server, courier);
            if is_deciding {
                self.is_undecided = true;
                self.tell_to_forget(courier);
            }
        }
    }

    /// What follows from what is known by now: what the client gets, if it can be answered; and the lock of the key, if it ends.
    pub(super) fn advance(&mut self, courier: &mut Courier<'_>) -> (Option<Answered>, Option<KeyLock>) {
        self.end_disagreement(courier);
        self.owed += courier.sent();
        let verdict = if self.is_answered { None } else { self.verdict() };
        let answered = verdict.map(|is_success| {
            self.is_answered = true;
            // Followers that have not answered are still compared with it.
            let reply = if self.owed > 0 && self.follow.is_conditional() {
                self.reply().to_vec()
            } else {
                self.reply.take().map_or(Vec::new(), |(_, bytes)| bytes)
            };
            if is_success { Answered::Done(reply) } else { Answered::Failed(reply, self.take_failure()) }
        });
        let is_over = self.step == Step::Sent || self.owed == 0;
        (answered, self.lock.take_if(|_| is_over))
    }

    fn take_failure(&mut self) -> Failure {
        self.failure.take().unwrap_or_else(|| {
            // Too few were up.
            let missed = self.copies.first(CopyState::Missed);
            Failure::Fault(Fault::Down, missed.unwrap_or(self.decider))
        })
    }

    /// No replica owes it anything any more: ends what was noted of it for repairs. Returns the repair that it was, if it was one.
    pub(super) fn end(&mut self, repairs: &mut Repairs) -> Option<Repair> {
        if let Follow::Repair(repair) = std::mem::take(&mut self.follow) {
            return Some(repair);
        }
        repairs.end_write(self.class);
        None
    }

    /// Replicas that refused what another did forget the key. Who refused did nothing, so where nobody did it all agree.
    fn end_disagreement(&mut self, courier: &mut Courier<'_>) {
        let is_done_somewhere = self.copies.count(CopyState::Done) > 0;
        let is_wanted = is_done_somewhere && !courier.fleet.config.is_without(Mutation::Disagreement);
        if !is_wanted || self.step != Step::Sent || self.follow.is_conditional() {
            return;
        }
        for rank in self.copies.ranks() {
            if self.copies[rank].state == CopyState::Refused {
                self.copies[rank].state = self.forget(rank, courier);
            }
        }
    }

    // ── copies that miss it ────────────────────────────────────────────────────────────────────────────────────────────────

    /// A replica is marked down, and will not hear of the write.
    fn skip(&self, server: Slot, courier: &mut Courier<'_>) -> CopyState {
        courier.counters.copies_skipped += 1;
        self.miss(server, courier)
    }

    /// A replica lacks the write, or may.
    fn miss(&self, server: Slot, courier: &mut Courier<'_>) -> CopyState {
        let Fleet { replicas, servers, .. } = courier.fleet;
        replicas.miss(server, self.key(), servers);
        CopyState::Missed
    }

    /// A follower that cannot be sent it because too much waits for it already.
    fn refuse(&mut self, server: Slot, fault: Fault, courier: &mut Courier<'_>) -> CopyState {
        if fault == Fault::Down && courier.fleet.config.replicas_required == ReplicasRequired::Live {
            return self.skip(server, courier);
        }
        courier.counters.server_refusals_full += u64::from(fault == Fault::Full);
        courier.fleet.servers[server].count_error();
        self.failure.get_or_insert(Failure::Fault(fault, server));
        self.miss(server, courier)
    }

    // ── what is known ──────────────────────────────────────────────────────────────────────────────────────────────────────

    fn key(&self) -> WireKey<'_> {
        WireKey { bytes: &self.key, base64: self.base64 }
    }

    /// A reply may become the answer: the decider's before others', and a lower rank's before a higher's.
    fn offer(&mut self, rank: Rank, bytes: &[u8]) {
        let place = |rank: Rank| (self.copies[rank].server() != self.decider, rank);
        if self.reply.as_ref().is_none_or(|(best, _)| place(rank) < place(*best)) {
            self.reply = Some((rank, bytes.to_vec()));
        }
    }

    /// Whether the decider answered with an error what it may have done all the same, and the others forget the key.
    fn is_refused_by_decider(&self) -> bool {
        let decider = self.copies[self.copies.rank_of(self.decider)].state;
        self.follow.is_conditional() && self.step == Step::Sent && decider == CopyState::Refused
    }

    /// The reply that was chosen so far.
    fn reply(&self) -> &[u8] {
        self.reply.as_ref().map_or(&[], |(_, bytes)| bytes)
    }

    /// Whether the client can be answered, and if so, whether with success.
    fn verdict(&self) -> Option<bool> {
        let outstanding = self.owed as usize;
        let (done, failed) = (self.copies.count(CopyState::Done), self.failure.is_some());
        match self.policy {
            _ if self.is_undecided || self.is_refused_by_decider() => Some(false),
            _ if self.step == Step::Deciding => (outstanding == 0).then_some(!failed),
            WritePolicy::All => (outstanding == 0).then_some(!failed),
            // Whoever refused what others did may still hold the old value.
            WritePolicy::Quorum if done >= self.needed && self.copies.count(CopyState::Forgetting) > 0 => {
                None
            }
            WritePolicy::Quorum | WritePolicy::First if done >= self.needed => Some(true),
            WritePolicy::Quorum | WritePolicy::First => (done + outstanding < self.needed).then_some(false),
            WritePolicy::Async => match self.copies[self.copies.rank_of(self.decider)].state {
                CopyState::Done => Some(true),
                CopyState::Refused | CopyState::Forgetting | CopyState::Cleared | CopyState::Missed => {
                    Some(false)
                }
                CopyState::Unsent | CopyState::Asked => None,
            },
        }
    }
}

/// How many replicas must have done a write.
fn needed(policy: WritePolicy, replicas: usize) -> usize {
    match policy {
        WritePolicy::Quorum => replicas / 2 + 1,
        WritePolicy::All | WritePolicy::First | WritePolicy::Async => 1,
    }
}

/// Whether a write can be begun, and who decides it.
fn admit_write(fleet: &Fleet, replicas: &[Slot], is_conditional: bool) -> Result<Slot, (Fault, Slot)> {
    let mut live = 0;
    let mut down = None;
    for server in replicas.iter().copied() {
        match fleet.servers.admit(server) {
            Ok(()) => live += 1,
            Err(Fault::Down) => down = down.or(Some((Fault::Down, server))),
            // Nobody has heard of it yet, so nothing differs if it ends here.
            Err(fault) => return Err((fault, server)),
        }
    }
    let required = match (fleet.config.write_policy, fleet.config.replicas_required) {
        (WritePolicy::All, ReplicasRequired::AllConfigured) => replicas.len(),
        (policy, _) => needed(policy, replicas.len()),
    };
    if let Some(down) = down.filter(|_| live < required) {
        return Err(down);
    }
    match fleet.readers().first(replicas) {
        Ok(decider) => Ok(decider),
        Err(refusal) if is_conditional => Err(refusal),
        // Nothing is read to carry it out.
        Err(_) => {
            let mut servers = replicas.iter().copied();
            let live = servers.find(|&server| fleet.servers.admit(server).is_ok());
            Ok(live.expect("as many as are required were counted"))
        }
    }
}

//! Keys that several servers hold: who decides a write, what the others hear of it, and which of them may be read.
//!
//! ```text
//!   replication ─▶ write ─▶ courier ─▶ fleet ─▶ readers, replica ─▶ freshness ─▶ emptied, key_writes ─▶ doubts
//!       │            └─▶ follow, item, token         └─▶ journal, token
//!       └─▶ key_lock, repair ─▶ mailbox ─▶ owner
//! ```
//!
//! [`Replication`] owns the locks of keys, what goes to other loops, and which repairs are under way. It learns which writes begin, and
//! what replicas reply. It answers what clients get, and who may go on. It knows requests and sessions by number alone.

pub(crate) mod courier;
mod doubts;
pub(crate) mod emptied;
pub(crate) mod fleet;
mod follow;
pub(crate) mod freshness;
pub(crate) mod item;
pub(crate) mod journal;
pub(crate) mod key_lock;
pub(crate) mod key_writes;
pub(crate) mod leases;
pub(crate) mod mailbox;
pub(crate) mod owner;
pub(crate) mod readers;
mod repair;
pub(crate) mod replica;
pub(crate) mod token;
pub(crate) mod write;

use crate::{
    config::Config,
    config::policy::ReadRepair,
    meter::counters::Counters,
    replication::courier::{Courier, Ticket},
    replication::fleet::Fleet,
    replication::follow::MESSAGE_BYTES_MAX,
    replication::key_lock::{Freed, KeyLock, KeyLocks, Overdue, Stalled},
    replication::mailbox::{Came, Mail, Mailbox, Outcome, Sender, Waited, WriteByMail},
    replication::repair::Repairs,
    replication::write::{Answered, Declined, Replicated},
    routes::Routes,
    servers::begun::Begun,
    wire::fault::Fault,
    wire::ids::{LoopId, RequestKey, SessionId, Slot},
    wire::write::Write,
    wire::written::written_key,
};
use weir_protocol::{Parsed, Reply};
use weir_routing::REPLICAS_MAX;
use weir_timing::Instant;

/// What one dataplane knows of writes to keys that several servers hold.
#[derive(Debug)]
pub(crate) struct Replication {
    counters: Counters,
    locks: KeyLocks,
    /// Copies that are being put back.
    repairs: Repairs,
    /// What goes to other loops and comes from them; none where there is one loop.
    mailbox: Option<Box<Mailbox>>,
}

impl Replication {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            counters: Counters::default(),
            locks: KeyLocks::default(),
            repairs: Repairs::new(config.read_repair == ReadRepair::On),
            mailbox: None,
        }
    }
    pub(crate) const fn counters(&self) -> &Counters {
        &self.counters
    }

    // ── key locks ──────────────────────────────────────────────────────────────────────────────────────────────────────────

    /// Whether any key is locked, or somebody waits for one.
    #[inline]
    pub(crate) fn has_locks(&self) -> bool {
        !self.locks.is_empty()
    }

    /// Whether anybody waits for a key.
    #[inline]
    pub(crate) fn has_waiting(&self) -> bool {
        self.locks.has_waiting()
    }

    /// When there is something to do for those that wait for keys: a write that another loop has read can begin at once, or somebody's time
    /// is up.
    #[cold]
    pub(crate) fn due(&self) -> Option<Instant> {
        self.locks.due()
    }

    /// Whether a session's next request has to wait, because it writes to a key that is locked. `stalled` is what the session remembers
    /// of it; `until`: when the time of one that has not waited before is up.
    #[cold]
    pub(crate) fn waits_for_key(
        &mut self,
        session: SessionId,
        parsed: &Parsed<'_>,
        (stalled, until): (&mut Option<Box<Stalled>>, Option<Instant>),
        now: Instant,
    ) -> bool {
        let Some(key) = written_key(parsed) else { return false };
        let is_new = stalled.is_none();
        let waits = self.locks.waits(session, key, (stalled, until), now);
        self.counters.writes_held += u64::from(waits && is_new);
        waits
    }

    /// A session that had waited for a key has begun its write, or is gone. Returns the session that may go on, if one may.
    pub(crate) fn leave_line(&mut self, stalled: &Stalled) -> Option<SessionId> {
        self.locks.leave(stalled)
    }

    /// A write that came by mail, whose time is up at `until`, comes back if it may begin.
    pub(crate) fn admit_mail(&mut self, mail: WriteByMail, until: Option<Instant>) -> Option<WriteByMail> {
        let admitted = self.locks.admit_mail(mail, until);
        self.counters.writes_held += u64::from(admitted.is_none());
        admitted
    }

    /// One whose time is up in its key's line, if there is one. When the write of mail is answered, [`Replication::next_after`] is to be
    /// asked.
    pub(crate) fn next_overdue(&mut self, now: Instant) -> Option<Overdue> {
        self.locks.next_overdue(now)
    }

    /// A key that was freed for mail. When that has begun, [`Replication::next_after`] is to be asked.
    pub(crate) fn next_ready_mail(&mut self) -> Option<Freed> {
        self.locks.next_ready()
    }

    /// The session that may go on because nobody locks the key, if one may.
    pub(crate) fn next_after(&mut self, freed: &Freed) -> Option<SessionId> {
        self.locks.next(freed.key())
    }

    // ── mail ───────────────────────────────────────────────────────────────────────────────────────────────────────────────

    /// There are other dataplanes beside this one. `session`: the number of the one to which belongs what is served for them.
    pub(crate) fn open_mailbox(&mut self, config: &Config, session: SessionId) {
        self.mailbox = Some(Box::new(Mailbox::new(config, session)));
    }

    /// Whether there are.
    #[inline]
    pub(crate) const fn has_mailbox(&self) -> bool {
        self.mailbox.is_some()
    }

    /// This write of another dataplane is served next. Returns the session to which it belongs.
    pub(crate) fn serve_mail(&mut self, mail: &WriteByMail, now: Instant) -> SessionId {
        let mailbox = self.mail();
        mailbox.note_serving(mail, now);
        mailbox.session()
    }

    /// What the one that is being served has waited for its key.
    pub(crate) fn mail_waited(&self) -> Waited {
        self.mailbox.as_ref().map_or(Waited::Nothing, |mailbox| mailbox.waited())
    }

    /// Mail for another dataplane of the same proxy, and the number of its loop.
    pub(crate) fn poll_mail(&mut self) -> Option<(LoopId, Mail)> {
        self.mailbox.as_mut()?.poll()
    }

    /// Mail has come.
    pub(crate) fn take_mail(&mut self, mail: Mail) -> Came {
        self.mail().take(mail)
    }

    /// Who owns this key, if it has replicas and another loop does.
    pub(crate) fn other_owner(&self, routes: &Routes, name: &[u8]) -> Option<LoopId> {
        let mailbox = self.mailbox.as_ref()?;
        if !routes.is_replicated() || !routes.replicates(name) {
            return None;
        }
        mailbox.other_owner(name)
    }

    /// Whether much is under way to this owner.
    pub(crate) fn is_crowded(&self, owner: LoopId) -> bool {
        self.mailbox.as_ref().is_some_and(|mailbox| mailbox.is_crowded(owner))
    }

    /// Sends a write to the owner of its key, unless too much is under way there. `times`: when its first byte was read, and when it was
    /// complete.
    pub(crate) fn mail_write(
        &mut self,
        owner: LoopId,
        (request, message): (RequestKey, Vec<u8>),
        times: (Instant, Instant),
    ) -> Result<(), Fault> {
        let sent = self.mail().send_write(owner, (request, message), times);
        self.counters.mail_refusals_full += u64::from(sent.is_err());
        self.counters.requests_mailed += u64::from(sent.is_ok());
        sent
    }

    /// What was served for another loop is done.
    pub(crate) fn mail_outcome(&mut self, sender: Sender, outcome: Outcome) {
        self.mail().reply(sender, outcome);
    }

    fn mail(&mut self) -> &mut Mailbox {
        self.mailbox.as_mut().expect("who has no mailbox knows no other owner, and gets no mail")
    }

    // ── writes ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

    /// Sends a write to the replicas of its key, or says why none of them heard of it. `kept_bytes_max`: how much may be kept of it until one
    /// has decided it.
    pub(crate) fn begin_write(
        &mut self,
        fleet: &mut Fleet,
        ticket: Ticket,
        (name, replicas): (&[u8], &[Slot]),
        (write, kept_bytes_max): (Write<'_>, usize),
        now: Instant,
    ) -> Result<Box<Replicated>, Declined> {
        let Self { counters, locks, repairs, .. } = self;
        let mut courier = Courier::new(fleet, counters, ticket, now);
        Replicated::begin((name, replicas), (write, kept_bytes_max), (locks, repairs), &mut courier)
    }

    /// A replica answered a part of a write.
    pub(crate) fn take_reply(
        &mut self,
        fleet: &mut Fleet,
        (write, ticket): (&mut Replicated, Ticket),
        from: (Slot, u32),
        (reply, bytes): (Reply, &[u8]),
        now: Instant,
    ) -> Advanced {
        let mut courier = Courier::new(fleet, &mut self.counters, ticket, now);
        write.take_reply(from, (reply, bytes), &self.repairs, &mut courier);
        let (answered, lock) = write.advance(&mut courier);
        let has_sent = courier.sent() > 0;
        self.go_on(write, (answered, lock), has_sent)
    }

    /// A replica gave no answer to a part of a write.
    pub(crate) fn take_loss(
        &mut self,
        fleet: &mut Fleet,
        (write, ticket): (&mut Replicated, Ticket),
        from: (Slot, u32),
        fault: Fault,
        now: Instant,
    ) -> Advanced {
        let mut courier = Courier::new(fleet, &mut self.counters, ticket, now);
        write.take_loss(from, fault, &mut courier);
        let (answered, lock) = write.advance(&mut courier);
        let has_sent = courier.sent() > 0;
        self.go_on(write, (answered, lock), has_sent)
    }

    fn go_on(
        &mut self,
        write: &mut Replicated,
        (answered, lock): (Option<Answered>, Option<KeyLock>),
        has_sent: bool,
    ) -> Advanced {
        let next = lock.and_then(|lock| self.locks.release(lock));
        if write.owed() == 0
            && let Some(repair) = write.end(&mut self.repairs)
        {
            self.end_repair_for(repair.home());
        }
        Advanced { answered, next, has_sent }
    }

    // ── repairs ────────────────────────────────────────────────────────────────────────────────────────────────────────────

    /// A copy of this key was found missing, with a value so long where it was not. Returns whether it is to be put back here: it may be that
    /// another loop is asked to, or that nobody is.
    pub(crate) fn wants_repair(&mut self, routes: &Routes, name: &[u8], value_len: usize) -> bool {
        if value_len > MESSAGE_BYTES_MAX || !self.repairs.admit_one() {
            self.counters.repairs_dropped += 1;
            return false;
        }
        let owner = self.other_owner(routes, name);
        if let Some(owner) = owner {
            self.mail().send_repair(owner, name);
        }
        owner.is_none()
    }

    /// The owner of a key asks its decider for what the others are to have. `home`: the loop that wants that, if it is another one; `number`: a
    /// number for the request.
    pub(crate) fn begin_repair(
        &mut self,
        fleet: &mut Fleet,
        (name, home): (&[u8], Option<LoopId>),
        number: impl FnOnce() -> RequestKey,
        now: Instant,
    ) -> Option<(RequestKey, Box<Replicated>)> {
        let repair = self.repairs.begin(name, home);
        let mut replicas = [Slot::FIRST; REPLICAS_MAX];
        let count = fleet.routes.replicas_of(name, &mut replicas);
        let replicas = &replicas[..count];
        let (Some(repair), Some(source)) = (repair, fleet.readers().source(replicas)) else {
            self.counters.repairs_dropped += 1;
            self.end_repair_for(home);
            return None;
        };
        let request = number();
        let ticket = Ticket::new(request, Begun::at(now));
        let mut courier = Courier::new(fleet, &mut self.counters, ticket, now);
        Some((request, Replicated::begin_repair((name, replicas), source, repair, &mut courier)))
    }

    fn end_repair_for(&mut self, home: Option<LoopId>) {
        match home {
            Some(home) => self.mail().send_repaired(home),
            None => self.repairs.note_done(),
        }
    }

    /// A repair that this dataplane had asked another for is done, or could not be.
    pub(crate) fn end_repair(&mut self) {
        self.repairs.note_done();
    }

    /// Whether no write and no repair is under way, no key is locked, and no mail waits: for tests.
    pub(crate) fn is_quiet(&self) -> bool {
        self.locks.is_empty()
            && self.repairs.is_quiet()
            && self.mailbox.as_ref().is_none_or(|mailbox| mailbox.is_quiet())
    }
}

/// What has come of a reply, or of a loss.
#[derive(Debug)]
#[must_use]
pub(crate) struct Advanced {
    answered: Option<Answered>,
    next: Option<SessionId>,
    has_sent: bool,
}

impl Advanced {
    /// What the client gets, if it can be answered now.
    pub(crate) fn take_answer(&mut self) -> Option<Answered> {
        self.answered.take()
    }

    /// The session that may go on, because the key is free, if one waits.
    pub(crate) const fn next(&self) -> Option<SessionId> {
        self.next
    }

    /// Whether replicas were sent more.
    pub(crate) const fn has_sent(&self) -> bool {
        self.has_sent
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replication::freshness::Freshness;
    use crate::wire::ids::slot;
    use std::sync::Arc;
    use weir_protocol::{Limits, Request, RequestParser, Status};
    use weir_routing::{Placement, Router, Server};

    const NOW: Instant = Instant::ZERO;
    const WAITING: SessionId = SessionId::from_index(9);
    const ADD: &[u8] = b"add k 0 0 1\r\nx\r\n";

    /// Three servers that hold every key and are connected, and those of the key `k` in its order.
    fn fleet() -> (Replication, Fleet, [Slot; 3]) {
        let config = Config::default();
        let servers = ["a", "b", "c"].map(|host| Server::new(host, 1)).to_vec();
        let table =
            Arc::new(Router::new(servers, Placement::Modulo, 3).expect("three servers are a pool").into());
        let mut fleet = Fleet::new(config.clone(), &table, Arc::<Freshness>::default());
        fleet.offer(table);
        fleet.take_coming_table(NOW);
        fleet.prepare();
        (0..3).for_each(|it| fleet.servers.handle_connected(slot(it), NOW));
        let mut replicas = [Slot::FIRST; REPLICAS_MAX];
        assert_eq!(fleet.routes.replicas_of(b"k", &mut replicas), 3);
        (Replication::new(&config), fleet, [replicas[0], replicas[1], replicas[2]])
    }

    fn parse(bytes: &[u8]) -> Parsed<'_> {
        RequestParser::new(Limits::default()).parse(bytes)
    }

    fn request(bytes: &[u8]) -> Request<'_> {
        let Parsed::Request { request, .. } = parse(bytes) else { panic!("{bytes:?} is no request") };
        request
    }

    fn ticket() -> Ticket {
        Ticket::new(RequestKey::from_index(7), Begun::at(NOW))
    }

    fn begin(replication: &mut Replication, fleet: &mut Fleet, replicas: &[Slot]) -> Box<Replicated> {
        let write = Write::classic(request(ADD));
        let begun = replication.begin_write(fleet, ticket(), (b"k", replicas), (write, usize::MAX), NOW);
        begun.expect("all are connected")
    }

    fn line(status: Status, bytes: &[u8]) -> (Reply, &[u8]) {
        (Reply { len: bytes.len(), answer_len: bytes.len(), last_line: 0, status }, bytes)
    }

    #[test]
    fn a_key_is_locked_until_the_others_are_sent_what_its_decider_did() {
        let (mut replication, mut fleet, replicas) = fleet();
        let mut write = begin(&mut replication, &mut fleet, &replicas);
        assert_eq!(write.owed(), 1, "the decider alone is asked");
        let mut stalled = None;
        assert!(replication.waits_for_key(WAITING, &parse(ADD), (&mut stalled, None), NOW));
        for (rank, server) in replicas.into_iter().enumerate() {
            let reply = line(Status::Stored, b"STORED\r\n");
            let mut advanced =
                replication.take_reply(&mut fleet, (&mut write, ticket()), (server, 0), reply, NOW);
            let answer = advanced.take_answer();
            assert_eq!((advanced.has_sent(), advanced.next()), (rank == 0, (rank == 0).then_some(WAITING)));
            assert_eq!((answer.is_some(), write.owed()), (rank == 2, [2, 1, 0][rank]));
        }
        assert!(!replication.waits_for_key(WAITING, &parse(ADD), (&mut stalled, None), NOW));
        assert_eq!(replication.leave_line(&stalled.expect("it had waited")), None);
        assert!(replication.is_quiet());
    }

    #[test]
    fn what_the_decider_refuses_nobody_else_hears_of() {
        let (mut replication, mut fleet, replicas) = fleet();
        let mut write = begin(&mut replication, &mut fleet, &replicas);
        let (server, reply) = (replicas[0], line(Status::NotStored, b"NOT_STORED\r\n"));
        let mut advanced =
            replication.take_reply(&mut fleet, (&mut write, ticket()), (server, 0), reply, NOW);
        let Some(Answered::Done(reply)) = advanced.take_answer() else { panic!("it is decided") };
        assert_eq!((reply.as_slice(), advanced.has_sent(), write.owed()), (&b"NOT_STORED\r\n"[..], false, 0));
        assert!(replication.is_quiet());
    }

    #[test]
    fn where_the_decider_is_lost_the_others_forget_the_key() {
        let (mut replication, mut fleet, replicas) = fleet();
        let mut write = begin(&mut replication, &mut fleet, &replicas);
        let server = replicas[0];
        let mut advanced =
            replication.take_loss(&mut fleet, (&mut write, ticket()), (server, 0), Fault::Timeout, NOW);
        let Some(Answered::Failed(_, why)) = advanced.take_answer() else { panic!("nobody knows") };
        assert!(matches!(why, write::Failure::Fault(Fault::Timeout, it) if it == server), "{why:?}");
        assert_eq!((advanced.has_sent(), write.owed()), (true, 2));
        assert_eq!((replication.counters().replicas_invalidated, fleet.replicas.missed(server)), (2, 1));
        assert!(!replication.has_locks(), "the others have been sent it");
    }

    #[test]
    fn no_copy_is_put_back_while_a_write_of_its_key_is_under_way() {
        let (mut replication, mut fleet, replicas) = fleet();
        let mut write = begin(&mut replication, &mut fleet, &replicas);
        let ask = |replication: &mut Replication, fleet: &mut Fleet| {
            assert!(replication.wants_repair(&fleet.routes, b"k", 1));
            replication.begin_repair(fleet, (b"k", None), || RequestKey::from_index(8), NOW)
        };
        assert!(ask(&mut replication, &mut fleet).is_none());
        assert_eq!(replication.counters().repairs_dropped, 1);
        let (server, reply) = (replicas[0], line(Status::NotStored, b"NOT_STORED\r\n"));
        let _ = replication.take_reply(&mut fleet, (&mut write, ticket()), (server, 0), reply, NOW);
        let (_, mut repair) = ask(&mut replication, &mut fleet).expect("no write is under way");
        assert!(!replication.is_quiet());
        let (ticket, reply) =
            (Ticket::new(RequestKey::from_index(8), Begun::at(NOW)), line(Status::MetaMiss, b"EN\r\n"));
        let advanced = replication.take_reply(&mut fleet, (&mut repair, ticket), (server, 0), reply, NOW);
        assert!(!advanced.has_sent() && repair.owed() == 0 && replication.is_quiet());
    }
}

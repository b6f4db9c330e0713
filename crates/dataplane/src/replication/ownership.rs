//! One order per key over several loops: every key that has replicas is written by one loop, its owner.
//!
//! Two loops that wrote the same key would reach two replicas in different orders, each over connections of its own, and the replicas
//! would differ. So a write of such a key that another loop has read goes to the owner's dataplane as mail, is served there as if it had
//! come from a client, and the reply goes back as mail:
//!
//! ```text
//!   client ─▶ loop 0: take ─▶ write ─┬─ it is the owner ─▶ servers
//!                                    └─ poll_mail ─▶ loop 1: handle_mail ─▶ write ─▶ servers
//!   client ◀─ loop 0: handle_mail ◀──────────────── poll_mail ◀─ finish ◀──────────────┘
//! ```
//!
//! The owner is a matter of the key and the number of loops alone, not of the table: while two loops go by different tables for a
//! moment, a key that has replicas in both still has one owner. The request stays in service at the loop that read it, which counts
//! and records it, once; its stamps between `enqueued` and `received` are the owner's. The deadline runs from `created`, wherever the
//! request is. Reads, and writes of keys with one server, are mailed to nobody.
//!
//! What is under way to one owner is bounded, in requests and in bytes; each has one reply, so the way back is bounded as well.

use crate::{
    Config, Dataplane, Fault, SessionId, Taken, replication::key_lock::Stalled,
    replication::replicate::retire, requests::answer::Answer, requests::dispatch::Context,
    servers::backend::RequestKey, wire::hash::hash, wire::kept::parse_whole, wire::write::Write,
    wire::written::written_key,
};
use std::{collections::VecDeque, mem};
use weir_protocol::{Limits, Parsed, Refusal};
use weir_timing::{Instant, Stamps};

/// Something that one dataplane of a proxy tells another: to be handed to [`Dataplane::handle_mail`] of the one that
/// [`Dataplane::poll_mail`] has named, in the order in which it was handed out.
#[derive(Debug)]
pub struct Mail(Content);

#[derive(Debug)]
enum Content {
    /// Serve this write.
    Request {
        /// Who is to be answered.
        sender: Sender,
        message: Vec<u8>,
        first_byte: Instant,
        created: Instant,
    },
    /// What came of one.
    Reply(Box<Outcome>),
    /// Put back what copies of this key are missing (`repair.rs`).
    Repair {
        /// The number of the loop that has found one missing.
        home: usize,
        name: Box<[u8]>,
    },
    /// That was done, or could not be.
    Repaired,
}

/// Whose request it is that came by mail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sender {
    /// The number of the loop that has read it.
    home: usize,
    /// Its number there.
    request: RequestKey,
    /// How many bytes it takes up of what may be under way.
    bytes: usize,
}

/// A write that another loop has read.
#[derive(Debug)]
pub(crate) struct WriteByMail {
    sender: Sender,
    message: Vec<u8>,
    first_byte: Instant,
    created: Instant,
    limits: Limits,
}

impl WriteByMail {
    /// The key that it writes to, as it is placed.
    pub(crate) fn written_key(&self) -> Option<Box<[u8]>> {
        written_key(&parse_whole(&self.message, self.limits))
    }
}

#[derive(Debug)]
struct Outcome {
    sender: Sender,
    owner: usize,
    reply: Vec<u8>,
    stamps: Stamps,
    first_sent: bool,
    error: bool,
    /// A server is to blame for the error, and why, unless it said so itself.
    blame: Option<Option<Fault>>,
}

/// The mail of one dataplane among several.
#[derive(Debug)]
pub(crate) struct Post {
    /// The number of its loop, and how many there are.
    index: usize,
    loops: usize,
    /// What is served for others belongs to this session, which is no client's.
    session: usize,
    outgoing: VecDeque<(usize, Mail)>,
    /// What is under way to each owner.
    under_way: Vec<UnderWay>,
}

#[derive(Clone, Copy, Debug, Default)]
struct UnderWay {
    requests: usize,
    bytes: usize,
}

impl Dataplane {
    /// Mail for another dataplane of the same proxy, and the number of its loop.
    pub fn poll_mail(&mut self) -> Option<(usize, Mail)> {
        self.base.replication.post.as_mut()?.outgoing.pop_front()
    }

    /// Mail has come; `now` is not earlier than the instant at which it was handed out.
    pub fn handle_mail(&mut self, mail: Mail, now: Instant) {
        match mail.0 {
            Content::Request { sender, message, first_byte, created } => {
                self.base.memory_is_used(now);
                let mail = WriteByMail {
                    sender,
                    message,
                    first_byte,
                    created,
                    limits: self.base.fleet.config.limits,
                };
                if let Some(mail) = self.base.replication.admit_mail(mail) {
                    self.serve_mail(mail, now);
                }
            }
            Content::Reply(outcome) => self.take_outcome(*outcome, now),
            Content::Repair { home, name } => self.begin_repair(&name, Some(home), now),
            Content::Repaired => self.base.replication.repairs.finish_one(),
        }
    }

    /// The mail of a dataplane that has others beside it.
    pub(crate) fn open_post(&mut self, now: Instant) {
        if !self.base.fleet.config.has_owners() {
            return;
        }
        let Config { loop_index: index, loop_count: loops, .. } = self.base.fleet.config;
        self.base.replication.post = Some(Box::new(Post {
            index,
            loops,
            session: self.base.clients.lend(now),
            outgoing: VecDeque::new(),
            under_way: vec![UnderWay::default(); loops],
        }));
    }

    /// Who owns this key, if it has replicas and another loop does.
    pub(crate) fn other_owner(&self, name: &[u8]) -> Option<usize> {
        let post = self.base.replication.post.as_ref()?;
        if !self.base.fleet.routes.is_replicated() || !self.base.fleet.routes.replicates(name) {
            return None;
        }
        let owner = owner_of(name, post.loops);
        (owner != post.index).then_some(owner)
    }

    /// Sends a write to the owner of its key. The client is told `refusal`, if there is one, whatever comes of it.
    pub(crate) fn mail_write(
        &mut self,
        (owner, name): (usize, &[u8]),
        write: Write<'_>,
        refusal: Option<Refusal>,
        context: Context,
    ) {
        let request = self.begin(write.operation, 1, write.silent, context);
        let service = &mut self.requests.services[request];
        if let Some(refusal) = refusal {
            service.refuse(refusal);
        }
        let mut message = Vec::new();
        write.request.write_to(&mut message);
        let post = self.base.replication.post.as_mut().expect("who has no post knows no other owner");
        let sender = Sender { home: post.index, request, bytes: message.len() };
        if !post.under_way[owner].admit(sender.bytes, &self.base.fleet.config) {
            self.base.meter.counters().mail_refusals_full += 1;
            service
                .fail(Fault::Queue, self.base.fleet.servers.slots.name(self.base.fleet.routes.primary(name)));
            return self.finish(request, None, context.now);
        }
        service.outstanding = 1;
        self.base.meter.counters().requests_mailed += 1;
        let Context { first_byte, now: created, .. } = context;
        post.outgoing.push_back((owner, Mail(Content::Request { sender, message, first_byte, created })));
    }

    /// Asks the owner of a key to put copies of it back. It answers by [`Dataplane::mail_repaired`].
    pub(crate) fn mail_repair(&mut self, owner: usize, name: &[u8]) {
        let post = self.base.replication.post.as_mut().expect("who has no post knows no other owner");
        post.outgoing.push_back((owner, Mail(Content::Repair { home: post.index, name: name.into() })));
    }

    /// What another loop wanted to be put back is, or cannot be.
    pub(crate) fn mail_repaired(&mut self, home: usize) {
        let post = self.base.replication.post.as_mut().expect("mail is answered where there is a post");
        post.outgoing.push_back((home, Mail(Content::Repaired)));
    }

    /// Whether a session's next request has to wait, because it writes to a key that is locked.
    pub(crate) fn waits_for_key(&mut self, id: SessionId, parsed: &Parsed<'_>, now: Instant) -> bool {
        let stalled = &mut self.base.clients[id].stalled;
        self.base.replication.waits_for_key(id, parsed, stalled, now)
    }

    /// A session that had waited for a key has begun its write, or is gone.
    pub(crate) fn leave_line(&mut self, id: SessionId, stalled: &Stalled) {
        let next = self.base.replication.leave_line(id, stalled);
        self.let_go_on(next);
    }

    /// A session may go on, if one waits.
    pub(crate) fn let_go_on(&mut self, next: Option<SessionId>) {
        next.into_iter().for_each(|id| self.base.clients.let_go_on(id));
    }

    /// Once per turn: begins writes that came by mail and whose keys are free.
    pub(crate) fn serve_ready_mail(&mut self, now: Instant) {
        while let Some(mut freed) = self.base.replication.next_ready_mail() {
            if let Some(mail) = freed.take_mail() {
                self.serve_mail(*mail, now);
            }
            let next = self.base.replication.next_after(&freed);
            self.let_go_on(next);
        }
    }

    /// Begins a write that another loop has read.
    pub(crate) fn serve_mail(&mut self, mail: WriteByMail, now: Instant) {
        let WriteByMail { sender, message, first_byte, created, .. } = mail;
        self.serve_for(
            sender,
            &message,
            Taken { first_byte, created, enqueued: created, dequeued: now, ..Taken::default() },
        );
    }

    /// Serves a write for another loop.
    fn serve_for(&mut self, sender: Sender, message: &[u8], taken: Taken) {
        let id = self.base.replication.post.as_ref().expect("mail comes where there is a post").session;
        let session = &mut self.base.clients[id];
        session.hand_in(taken, Some(sender));
        let context = Context {
            session: id,
            first_byte: taken.first_byte,
            now: taken.dequeued,
            request_bytes: message.len(),
        };
        match parse_whole(message, self.base.fleet.config.limits) {
            Parsed::Request { request, .. } => self.carry_out(request, context),
            // It was a request when it was sent: the two loops would have to disagree about the protocol.
            _ => self.answer_locally(Answer::Fixed(Refusal::BadCommandLine.reply()), false, true, context),
        }
    }

    /// What was served for another loop is done.
    pub(crate) fn answer_by_mail(&mut self, key: RequestKey, sender: Sender, reply: Option<&[u8]>) {
        let service = &mut self.requests.services[key];
        self.base.clients[service.session].end_requests(1);
        let blame = service.has_failed().then(|| service.fault());
        let reply = match (service.failure_line(), reply, mem::take(&mut service.answer)) {
            (Some(line), ..) => line,
            (None, Some(reply), _) => reply.to_vec(),
            (None, None, Answer::Owned(reply)) => reply,
            (None, None, kept) => kept.as_slice().to_vec(),
        };
        let post = self.base.replication.post.as_mut().expect("mail is answered where there is a post");
        let outcome = Outcome {
            sender,
            owner: post.index,
            reply,
            stamps: service.stamps,
            first_sent: service.first_sent,
            error: service.error,
            blame,
        };
        retire(&mut self.requests.services, key);
        post.outgoing.push_back((sender.home, Mail(Content::Reply(Box::new(outcome)))));
    }

    /// The owner has answered.
    fn take_outcome(&mut self, outcome: Outcome, now: Instant) {
        let Outcome { sender, owner, reply, stamps, first_sent, error, blame } = outcome;
        self.base.replication.post.as_mut().expect("a reply comes to who has sent mail").under_way[owner]
            .leave(sender.bytes);
        let service = &mut self.requests.services[sender.request];
        service.outstanding = 0;
        (service.stamps, service.first_sent) = (stamps, first_sent);
        service.error |= error;
        service.answer = Answer::Owned(reply);
        self.conclude(sender.request, blame, None, now);
    }

    /// Whether nothing that was mailed, in either direction, waits for anything: for tests.
    pub(crate) fn post_is_quiet(&self) -> bool {
        self.base.replication.post.as_ref().is_none_or(|post| {
            post.outgoing.is_empty() && post.under_way.iter().all(|it| it.requests == 0 && it.bytes == 0)
        })
    }
}

impl UnderWay {
    fn admit(&mut self, bytes: usize, config: &Config) -> bool {
        let fits = self.requests < config.mail_requests_max && self.bytes < config.mail_bytes_max;
        if fits {
            self.requests += 1;
            self.bytes += bytes;
        }
        fits
    }

    fn leave(&mut self, bytes: usize) {
        self.requests -= 1;
        self.bytes -= bytes;
    }
}

/// Which of so many loops owns a key, where it has replicas.
pub fn owner_of(name: &[u8], loops: usize) -> usize {
    // The upper bits of the product are as even as the hash (Lemire, "Fast random integer generation in an interval", 2019).
    let place = (u128::from(hash(name)) * loops as u128) >> 64;
    usize::try_from(place).expect("a place among the loops")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_owners_in_equal_shares() {
        for loops in [2, 3, 7] {
            let mut counts = vec![0; loops];
            for number in 0..10_000 {
                counts[owner_of(format!("key:{number}").as_bytes(), loops)] += 1;
            }
            let share = 10_000 / loops;
            assert!(
                counts.iter().all(|&count| count > share * 9 / 10 && count < share * 11 / 10),
                "{counts:?}"
            );
        }
    }

    #[test]
    fn what_is_under_way_is_bounded_in_requests_and_bytes() {
        let config = Config { mail_requests_max: 2, mail_bytes_max: 100, ..Config::default() };
        let mut under_way = UnderWay::default();
        assert!(under_way.admit(10, &config) && under_way.admit(10, &config));
        assert!(!under_way.admit(10, &config));
        under_way.leave(10);
        assert!(under_way.admit(200, &config), "one large value is always taken");
        under_way.leave(10);
        assert!(!under_way.admit(1, &config));
    }
}

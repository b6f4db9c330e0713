//! What one dataplane of a proxy tells another: writes of keys that the other owns (`owner.rs`), what came of them, and copies to be put back.
//!
//! A write is served by the owner as if it had come from a client, and the reply goes back as mail:
//!
//! ```text
//!   client ─▶ loop 0: take ─▶ write ─┬─ it is the owner ─▶ servers
//!                                    └─ poll_mail ─▶ loop 1: handle_mail ─▶ write ─▶ servers
//!   client ◀─ loop 0: handle_mail ◀──────────────── poll_mail ◀─ finish ◀──────────────┘
//! ```
//!
//! The request stays in service at the loop that read it, which counts and records it, once; its stamps between `enqueued` and
//! `received` are the owner's. The deadline runs from `created`, wherever the request is, but for a write that has
//! waited in its key's line (`servers/begun.rs`).
//!
//! [`Mailbox`] owns what goes out and what is under way. It is given writes, replies and mail that has come, and answers what that mail brings
//! ([`Came`]). What is under way to one owner is bounded, in requests and in bytes; each has one reply, so the way back is bounded as well.

use crate::{
    Config, Fault,
    replication::owner::owner_of,
    servers::CROWD_PART,
    wire::ids::{LoopId, RequestKey, SessionId},
    wire::kept::parse_whole,
    wire::written::written_key,
};
use std::collections::VecDeque;
use weir_protocol::{Limits, Parsed};
use weir_timing::{Instant, Stamps};

/// Something that one dataplane of a proxy tells another: to be handed to [`Dataplane::handle_mail`](crate::Dataplane::handle_mail) of the one that
/// [`Dataplane::poll_mail`](crate::Dataplane::poll_mail) has named, in the order in which it was handed out.
#[derive(Debug)]
pub struct Mail(Content);

#[derive(Debug)]
enum Content {
    /// Serve this write.
    Write { sender: Sender, message: Vec<u8>, first_byte: Instant, created: Instant },
    /// What came of one.
    Reply { sender: Sender, owner: LoopId, outcome: Box<Outcome> },
    /// Put back what copies of this key are missing (`repair.rs`).
    Repair {
        /// The number of the loop that has found one missing.
        home: LoopId,
        name: Box<[u8]>,
    },
    /// That was done, or could not be.
    Repaired,
}

impl Mail {
    /// How many bytes of a request or a reply it carries.
    pub fn bytes(&self) -> usize {
        match &self.0 {
            Content::Write { message, .. } => message.len(),
            Content::Reply { outcome, .. } => outcome.reply.len(),
            Content::Repair { name, .. } => name.len(),
            Content::Repaired => 0,
        }
    }
}

/// What mail brings.
#[derive(Debug)]
pub(crate) enum Came {
    /// A write that another loop has read.
    Write(WriteByMail),
    /// What came of the request with this number.
    Reply(RequestKey, Box<Outcome>),
    /// Another loop has found a copy of this key missing.
    Repair { home: LoopId, name: Box<[u8]> },
    /// A repair that this loop has asked for is done, or could not be.
    Repaired,
}

/// Whose request it is that came by mail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sender {
    /// The number of the loop that has read it.
    home: LoopId,
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
    waits: Waits,
}

/// Whether a write has waited for its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waits {
    No,
    /// Until then at most, if its time counts.
    Until(Option<Instant>),
}

/// What a write that is served for another loop has waited for its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waited {
    Nothing,
    InTime,
    /// Until its time was up.
    TooLong,
}

impl WriteByMail {
    /// The key that it writes to, as it is placed.
    pub(super) fn written_key(&self) -> Option<Box<[u8]>> {
        written_key(&self.parsed())
    }

    /// What it is.
    pub(crate) fn parsed(&self) -> Parsed<'_> {
        parse_whole(&self.message, self.limits)
    }

    /// How long it is.
    pub(crate) const fn len(&self) -> usize {
        self.message.len()
    }

    /// Who is to be answered.
    pub(crate) const fn sender(&self) -> Sender {
        self.sender
    }

    /// It waits for its key, until then at most.
    pub(super) const fn wait(&mut self, until: Option<Instant>) {
        self.waits = Waits::Until(until);
    }

    /// What it has waited for that.
    fn waited(&self, now: Instant) -> Waited {
        match self.waits {
            Waits::No => Waited::Nothing,
            Waits::Until(Some(until)) if until <= now => Waited::TooLong,
            Waits::Until(_) => Waited::InTime,
        }
    }

    /// When its first byte was read, and when it was complete.
    pub(crate) const fn times(&self) -> (Instant, Instant) {
        (self.first_byte, self.created)
    }
}

/// What came of a write.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) reply: Vec<u8>,
    pub(crate) stamps: Stamps,
    pub(crate) first_sent: bool,
    /// How it went, in a word, if it is an error.
    pub(crate) error: Option<&'static str>,
    /// A server is to blame for the error, and why, unless it said so itself.
    pub(crate) blame: Option<Option<Fault>>,
}

/// The mail of one dataplane among several.
#[derive(Debug)]
pub(crate) struct Mailbox {
    /// The number of its loop, and how many there are.
    index: LoopId,
    loops: usize,
    /// What is served for others belongs to the session with this number, which is no client's.
    session: SessionId,
    /// What the write that is being served for another loop has waited for its key.
    waited: Waited,
    limits: Limits,
    outgoing: VecDeque<(LoopId, Mail)>,
    /// What is under way to each owner, and may be.
    under_way: Vec<UnderWay>,
    most: UnderWay,
}

#[derive(Clone, Copy, Debug, Default)]
struct UnderWay {
    requests: usize,
    bytes: usize,
}

impl Mailbox {
    pub(super) fn new(config: &Config, session: SessionId) -> Self {
        Self {
            index: config.loop_index,
            loops: config.loop_count,
            session,
            waited: Waited::Nothing,
            // The longest value is not looked at: the loop that has read a write did so.
            limits: config.limits,
            outgoing: VecDeque::new(),
            under_way: vec![UnderWay::default(); config.loop_count],
            most: UnderWay { requests: config.mail_requests_max, bytes: config.mail_bytes_max },
        }
    }

    /// The session to which what is served for others belongs.
    pub(super) const fn session(&self) -> SessionId {
        self.session
    }

    /// This write is served next.
    pub(super) fn note_serving(&mut self, mail: &WriteByMail, now: Instant) {
        self.waited = mail.waited(now);
    }

    /// What the one that is being served has waited for its key.
    pub(super) const fn waited(&self) -> Waited {
        self.waited
    }

    /// Who owns this key, if another loop does.
    pub(super) fn other_owner(&self, name: &[u8]) -> Option<LoopId> {
        let owner = owner_of(name, self.loops);
        (owner != self.index).then_some(owner)
    }

    /// Mail for another dataplane, and the number of its loop.
    pub(super) fn poll(&mut self) -> Option<(LoopId, Mail)> {
        self.outgoing.pop_front()
    }

    /// Whether much is under way to this owner.
    pub(super) fn is_crowded(&self, owner: LoopId) -> bool {
        self.under_way[owner.index()].bytes >= self.most.bytes / CROWD_PART
    }

    /// Sends a write to the owner of its key, unless too much is under way there. `times`: when its first byte was read, and when it was
    /// complete.
    pub(super) fn send_write(
        &mut self,
        owner: LoopId,
        (request, message): (RequestKey, Vec<u8>),
        (first_byte, created): (Instant, Instant),
    ) -> Result<(), Fault> {
        let sender = Sender { home: self.index, request, bytes: message.len() };
        if !self.under_way[owner.index()].admit(sender.bytes, self.most) {
            return Err(Fault::Queue);
        }
        self.push(owner, Content::Write { sender, message, first_byte, created });
        Ok(())
    }

    /// What was served for another loop is done.
    pub(super) fn reply(&mut self, sender: Sender, outcome: Outcome) {
        self.push(sender.home, Content::Reply { sender, owner: self.index, outcome: Box::new(outcome) });
    }

    /// Asks the owner of a key to put copies of it back.
    pub(super) fn send_repair(&mut self, owner: LoopId, name: &[u8]) {
        self.push(owner, Content::Repair { home: self.index, name: name.into() });
    }

    /// What another loop wanted to be put back is, or cannot be.
    pub(super) fn send_repaired(&mut self, home: LoopId) {
        self.push(home, Content::Repaired);
    }

    fn push(&mut self, to: LoopId, content: Content) {
        self.outgoing.push_back((to, Mail(content)));
    }

    /// Mail has come.
    pub(super) fn take(&mut self, mail: Mail) -> Came {
        match mail.0 {
            Content::Write { sender, message, first_byte, created } => {
                let (limits, waits) = (self.limits, Waits::No);
                Came::Write(WriteByMail { sender, message, first_byte, created, limits, waits })
            }
            Content::Reply { sender, owner, outcome } => {
                self.under_way[owner.index()].leave(sender.bytes);
                Came::Reply(sender.request, outcome)
            }
            Content::Repair { home, name } => Came::Repair { home, name },
            Content::Repaired => Came::Repaired,
        }
    }

    /// Whether nothing that was mailed, in either direction, waits for anything.
    pub(super) fn is_quiet(&self) -> bool {
        self.outgoing.is_empty() && self.under_way.iter().all(|it| it.requests == 0 && it.bytes == 0)
    }
}

impl UnderWay {
    fn admit(&mut self, bytes: usize, most: Self) -> bool {
        let fits = self.requests < most.requests && self.bytes < most.bytes;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_under_way_is_bounded_in_requests_and_bytes() {
        let most = UnderWay { requests: 2, bytes: 100 };
        let mut under_way = UnderWay::default();
        assert!(under_way.admit(10, most) && under_way.admit(10, most));
        assert!(!under_way.admit(10, most));
        under_way.leave(10);
        assert!(under_way.admit(200, most), "one large value is always taken");
        under_way.leave(10);
        assert!(!under_way.admit(1, most));
    }

    #[test]
    fn a_write_makes_room_again_when_its_reply_has_come() {
        let config = |index| Config {
            loop_index: LoopId::from_index(index),
            loop_count: 2,
            mail_requests_max: 1,
            ..Config::default()
        };
        let mailbox = |index| Mailbox::new(&config(index), SessionId::from_index(0));
        let (mut home, mut owner) = (mailbox(0), mailbox(1));
        let (read, complete) = (Instant::from_nanos(3), Instant::from_nanos(4));
        let write = || (RequestKey::from_index(7), b"set k 0 0 1\r\nx\r\n".to_vec());
        assert_eq!(home.send_write(LoopId::from_index(1), write(), (read, complete)), Ok(()));
        assert_eq!(home.send_write(LoopId::from_index(1), write(), (read, complete)), Err(Fault::Queue));
        let (to, mail) = home.poll().expect("a write");
        let Came::Write(write_by_mail) = owner.take(mail) else { panic!("it is a write") };
        assert_eq!((to.index(), write_by_mail.times()), (1, (read, complete)));
        assert_eq!(write_by_mail.written_key().as_deref(), Some(&b"k"[..]));
        let stamps = Stamps::at(complete);
        let reply = b"STORED\r\n".to_vec();
        let outcome = Outcome { reply, stamps, first_sent: true, error: None, blame: None };
        owner.reply(write_by_mail.sender(), outcome);
        let (to, mail) = owner.poll().expect("a reply");
        assert!(!home.is_quiet() && owner.is_quiet());
        let Came::Reply(request, outcome) = home.take(mail) else { panic!("it is a reply") };
        assert_eq!((to.index(), request.index(), outcome.reply.as_slice()), (0, 7, &b"STORED\r\n"[..]));
        assert!(home.is_quiet());
        assert_eq!(home.send_write(LoopId::from_index(1), write(), (read, complete)), Ok(()));
    }
}

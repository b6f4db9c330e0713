//! Read repair: a copy that a read found missing is put back, where that is wanted (`--read-repair on`), and where the server may have come
//! back empty (`emptied.rs`); then the one to believe is another than the decider.
//!
//! ```text
//!   get ─▶ another replica: miss ─▶ decider: has it ─▶ the client is answered
//!                                                   ╲
//!                                                    ▶ the key's owner ──mg──▶ decider ──▶ ms … ME (add) ──▶ the other replicas
//! ```
//!
//! The value that the read saw is not sent: a write may have come since. The owner of the key asks the decider anew, and nobody waits for
//! that. It begins only while no write of the key is under way, so that every replica has answered all earlier ones, or is known to
//! lack them; and what the decider says is of use only if no write of the key has begun meanwhile and the decider may still be read. Then
//! the copies go out on the connections on which all later writes of the key will go. So at no replica can a copy come behind a
//! newer write; and what is there already stays, because it is an `add`.
//!
//! A copy that is sent and not confirmed is like any write that was not: its key is in the journal. It has the flags of the item
//! and at most the rest of its time to live, because servers count whole seconds.
//!
//! Of each loop's repairs no more are under way than [`UNDER_WAY_MAX`].

use crate::{
    Dataplane, Fault,
    replication::fleet::Fleet,
    replication::follow::{Follow, MESSAGE_BYTES_MAX},
    replication::replicate::{Copy, CopyState, Replicated, Step},
    requests::Requests,
    requests::again::Found,
    requests::base::Base,
    servers::backend::{Backend, NewPart, RequestKey},
    servers::begun::Begun,
    wire::hash::hash,
    wire::key::{Echo, WireKey},
};
use std::io::Write as _;
use weir_protocol::{Expected, Reply, Status};
use weir_routing::REPLICAS_MAX;
use weir_timing::{Instant, Stamps};

/// Repairs that one dataplane has asked for and that are not done. Each keeps a key, and when the decider has answered a value, in
/// memory; more would make a restarted server's misses a second load.
const UNDER_WAY_MAX: usize = 64;

/// Into so many classes keys fall. Of a class that is written to nothing is repaired, so there are many more of them than
/// writes at the same time; they take 16 KiB.
const CLASSES: usize = 1024;

/// The class of a write that began before writes were counted.
const UNCOUNTED: usize = usize::MAX;

/// memcached takes a longer time to live for a date.
const RELATIVE_TTL_MAX_S: u32 = 60 * 60 * 24 * 30;

/// What a dataplane knows of its repairs, and of the writes that forbid them.
#[derive(Debug, Default)]
pub(crate) struct Repairs {
    under_way: usize,
    /// One for each class; none where nothing was repaired yet.
    writes: Box<[Writes]>,
    /// Writes that had begun before there were any, and that not all replicas have answered.
    uncounted: usize,
}

/// The replicated writes of one class of keys.
#[derive(Clone, Copy, Debug, Default)]
struct Writes {
    begun: u64,
    /// How many of them not all replicas have answered, or failed to.
    unfinished: u32,
}

/// What is remembered of a repair while servers are asked.
#[derive(Debug)]
pub(crate) struct Repair {
    /// The class of its key, and how many writes had begun there before the decider was asked.
    class: usize,
    begun: u64,
    /// The loop that has asked for it, if that is another one.
    home: Option<usize>,
}

impl Repairs {
    pub(crate) fn new(is_wanted: bool) -> Self {
        let classes = if is_wanted { CLASSES } else { 0 };
        let writes = vec![Writes::default(); classes].into_boxed_slice();
        Self { under_way: 0, writes, uncounted: 0 }
    }

    /// Writes are counted from now on. Returns whether all that are under way are.
    fn count_writes(&mut self) -> bool {
        if self.writes.is_empty() {
            self.writes = vec![Writes::default(); CLASSES].into_boxed_slice();
        }
        self.uncounted == 0
    }

    /// A write goes to the replicas of this key. Returns its class, for [`Repairs::end_write`].
    pub(crate) fn begin_write(&mut self, name: &[u8]) -> usize {
        if self.writes.is_empty() {
            self.uncounted += 1;
            return UNCOUNTED;
        }
        let class = class_of(name);
        self.writes[class].begun += 1;
        self.writes[class].unfinished += 1;
        class
    }

    /// No replica owes such a write a reply any more.
    pub(crate) fn end_write(&mut self, class: usize) {
        match self.writes.get_mut(class) {
            Some(writes) => writes.unfinished -= 1,
            None => self.uncounted -= 1,
        }
    }

    /// One that this dataplane had asked for is done.
    pub(crate) fn finish_one(&mut self) {
        self.under_way -= 1;
    }

    pub(crate) fn is_quiet(&self) -> bool {
        self.under_way == 0 && self.uncounted == 0 && self.writes.iter().all(|writes| writes.unfinished == 0)
    }

    /// Whether a write of its class has begun since.
    fn is_outdated(&self, repair: &Repair) -> bool {
        self.writes[repair.class].begun != repair.begun
    }
}

impl Dataplane {
    /// A read has all its parts: what one server lacked and another had is put back.
    #[cold]
    pub(crate) fn repair_missing(&mut self, key: RequestKey, now: Instant) {
        let Some(mut gather) = self.requests.services[key].gather.take() else { return };
        gather.again.for_each_found(|Found { name, block_len }| {
            if block_len > MESSAGE_BYTES_MAX || self.base.replication.repairs.under_way == UNDER_WAY_MAX {
                self.base.meter.counters().repairs_dropped += 1;
            } else {
                self.ask_for_repair(name, now);
            }
        });
        self.requests.services[key].gather = Some(gather);
    }

    /// What a doubted server lacks and another has is put back.
    pub(crate) fn put_back_missed(&mut self, name: &[u8], now: Instant) {
        if self.base.replication.repairs.under_way == UNDER_WAY_MAX {
            self.base.meter.counters().repairs_dropped += 1;
        } else {
            self.ask_for_repair(name, now);
        }
    }

    fn ask_for_repair(&mut self, name: &[u8], now: Instant) {
        self.base.replication.repairs.under_way += 1;
        match self.other_owner(name) {
            Some(owner) => self.base.replication.mail().send_repair(owner, name),
            None => self.begin_repair(name, None, now),
        }
    }

    /// The owner of a key asks its decider for what the others are to have.
    pub(crate) fn begin_repair(&mut self, name: &[u8], home: Option<usize>, now: Instant) {
        let class = class_of(name);
        let is_counted = self.base.replication.repairs.count_writes();
        let (Some(decider), Some(&Writes { begun, unfinished: 0 }), true) =
            (self.repairer(name), self.base.replication.repairs.writes.get(class), is_counted)
        else {
            self.base.meter.counters().repairs_dropped += 1;
            return self.finish_repair(home);
        };
        let mut replicas = [0; REPLICAS_MAX];
        let count = self.base.fleet.routes.replicas_of(name, &mut replicas);
        let copies = replicas[..count].iter();
        let copies =
            copies.map(|&server| Copy { server: usize::from(server), state: CopyState::Untold }).collect();
        let repair = Follow::Repair(Repair { class, begun, home });
        let write = Replicated::internal(name, &self.base.fleet.routes, copies, (decider, repair));
        let key = self.requests.services.add();
        self.requests.services[key].stamps = Stamps::at(now);
        self.requests.services[key].write = Some(Box::new(write));
        self.send_for_repair((key, decider), now, |backend| {
            // With the key in its reply, so that it is seen to be the reply to this.
            let message = backend.message();
            message.extend_from_slice(b"mg ");
            message.extend_from_slice(name);
            message.extend_from_slice(b" k v f t\r\n");
            backend.expect_echo(&Echo::Server { key: name.into(), base64: false });
        });
    }

    /// Whom to believe of a key of which another replica can be written to: the decider, unless it may have come back empty and another has
    /// not, or earlier.
    fn repairer(&self, name: &[u8]) -> Option<usize> {
        let mut replicas = [0; REPLICAS_MAX];
        let count = self.base.fleet.routes.replicas_of(name, &mut replicas);
        let servers = || replicas[..count].iter().map(|&server| usize::from(server));
        let readable = || servers().filter(|&server| self.base.fleet.readers().is_readable(server));
        let source = readable().min_by_key(|&server| self.base.fleet.replicas.doubt_rank(server))?;
        (readable().count() > 1).then_some(source)
    }

    /// A server answered a message of a repair.
    pub(crate) fn repair_replied(
        &mut self,
        key: RequestKey,
        mut write: Box<Replicated>,
        (server, reply, bytes): (usize, Reply, &[u8]),
        now: Instant,
    ) {
        let rank = write.rank_of(server);
        write.copies[rank].state = CopyState::Done;
        if write.step == Step::Deciding {
            write.step = Step::Told;
            match reply.status {
                Status::MetaValue => self.put_back(key, &mut write, &bytes[..reply.answer_len], now),
                // It is gone meanwhile.
                Status::MetaMiss => {}
                _ => self.base.meter.counters().repairs_failed += 1,
            }
        } else if server != write.decider {
            // It may hold something by now, and keeps it.
            self.base.meter.counters().reads_repaired += u64::from(reply.status == Status::MetaDone);
            self.base.meter.counters().repairs_failed += u64::from(reply.status.is_error());
        }
        self.advance_repair(key, write);
    }

    /// A server gave no answer to a message of a repair.
    pub(crate) fn repair_failed(
        &mut self,
        key: RequestKey,
        mut write: Box<Replicated>,
        (fault, server): (Fault, usize),
    ) {
        self.base.meter.counters().repairs_failed += 1;
        let rank = write.rank_of(server);
        // The decider was asked nothing that another replica could lack; and who was not connected to was sent nothing.
        let may_have_changed = server != write.decider && fault != Fault::Connect;
        write.copies[rank].state =
            if may_have_changed { self.miss_copy(&write, server) } else { CopyState::Untold };
        self.advance_repair(key, write);
    }

    /// The decider has said what it holds.
    fn put_back(&mut self, key: RequestKey, write: &mut Replicated, bytes: &[u8], now: Instant) {
        let Follow::Repair(repair) = &write.follow else { return };
        let is_current = !self.base.replication.repairs.is_outdated(repair)
            && write.goes_by(&self.base.fleet.routes)
            && self.base.fleet.readers().is_readable(write.decider);
        let Some(item) = Item::parse(bytes) else {
            self.base.meter.counters().repairs_failed += 1;
            return;
        };
        if !is_current || item.value.len() > MESSAGE_BYTES_MAX {
            self.base.meter.counters().repairs_dropped += 1;
            return;
        }
        if item.has_won {
            // Who asks first for an item that is marked as stale is to fetch it anew. That is to be a client.
            self.send_for_repair((key, write.decider), now, |backend| {
                let message = backend.message();
                message.extend_from_slice(b"md ");
                message.extend_from_slice(write.key().bytes);
                message.extend_from_slice(b" I\r\n");
            });
        }
        let mut message = Vec::new();
        if item.is_marked || !item.write_add(write.key().bytes, &mut message) {
            self.base.meter.counters().repairs_dropped += 1;
            return;
        }
        for rank in 0..write.copies.len() {
            let Copy { server, state } = write.copies[rank];
            if state == CopyState::Untold && self.base.fleet.readers().is_readable(server) {
                write.copies[rank].state = CopyState::Asked;
                self.send_for_repair((key, server), now, |backend| {
                    backend.message().extend_from_slice(&message);
                });
            }
        }
    }

    fn send_for_repair(
        &mut self,
        (key, server): (RequestKey, usize),
        now: Instant,
        compose: impl FnOnce(&mut Backend),
    ) {
        let Self {
            base: Base { fleet: Fleet { servers: backends, config, .. }, .. },
            requests: Requests { services, .. },
            ..
        } = self;
        let backend = &mut backends[server];
        let (request, expected) = (Some(key), Expected::Meta);
        let part = NewPart { request, expected, decides: false, index: 0, created: Begun::at(now) };
        backend.begin_message(part, config, now);
        compose(backend);
        backend.finish_message();
        services[key].outstanding += 1;
    }

    fn advance_repair(&mut self, key: RequestKey, write: Box<Replicated>) {
        if self.requests.services[key].outstanding > 0 {
            self.requests.services[key].write = Some(write);
            return;
        }
        self.requests.services.remove(key);
        if let Follow::Repair(Repair { home, .. }) = write.follow {
            self.finish_repair(home);
        }
    }

    fn finish_repair(&mut self, home: Option<usize>) {
        match home {
            Some(home) => self.base.replication.mail().send_repaired(home),
            None => self.base.replication.repairs.finish_one(),
        }
    }
}

/// What a decider holds, as it answers to `mg KEY k v f t`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Item<'a> {
    pub(crate) value: &'a [u8],
    /// A number, as the server wrote it.
    flags: &'a [u8],
    /// Seconds; none if it lives for ever.
    ttl_s: Option<u32>,
    /// It is marked as stale, or is there for somebody who fetches it.
    pub(crate) is_marked: bool,
    /// Asking for it has made us the one who is to fetch it anew.
    pub(crate) has_won: bool,
}

impl<'a> Item<'a> {
    pub(crate) fn parse(reply: &'a [u8]) -> Option<Self> {
        let line_len = reply.iter().position(|&byte| byte == b'\n')?;
        let mut words = reply[..line_len].trim_ascii_end().split(|&byte| byte == b' ').skip(1);
        let number = |digits: &[u8]| std::str::from_utf8(digits).ok()?.parse::<u32>().ok();
        let len = usize::try_from(number(words.next()?)?).ok()?;
        let mut item = Self { value: reply[line_len + 1..].get(..len)?, ..Self::default() };
        let mut has_ttl = false;
        for word in words {
            match word {
                [b'f', flags @ ..] => _ = number(flags).map(|_| item.flags = flags),
                b"t-1" => has_ttl = true,
                [b't', ttl @ ..] => (item.ttl_s, has_ttl) = (Some(number(ttl)?), true),
                b"W" => (item.is_marked, item.has_won) = (true, true),
                b"X" | b"Z" => item.is_marked = true,
                _ => {}
            }
        }
        (has_ttl && !item.flags.is_empty()).then_some(item)
    }

    /// Appends what makes another server hold the same, if it holds nothing. `false`: it would be gone at once.
    fn write_add(&self, key: &[u8], out: &mut Vec<u8>) -> bool {
        self.write(WireKey { bytes: key, base64: false }, " ME", out)
    }

    /// The same, whatever the other server holds.
    pub(crate) fn write_set(&self, key: WireKey<'_>, out: &mut Vec<u8>) -> bool {
        self.write(key, "", out)
    }

    fn write(&self, key: WireKey<'_>, mode: &str, out: &mut Vec<u8>) -> bool {
        out.extend_from_slice(b"ms ");
        out.extend_from_slice(&key.spelling());
        let base64 = if key.base64 { " b" } else { "" };
        write!(out, " {}{base64}{mode} F", self.value.len()).expect("writing to a vector cannot fail");
        out.extend_from_slice(self.flags);
        if let Some(ttl_s) = self.ttl_s {
            // The second that has begun may be over there when this arrives.
            let rest_s = ttl_s.saturating_sub(1).min(RELATIVE_TTL_MAX_S);
            if rest_s == 0 {
                return false;
            }
            write!(out, " T{rest_s}").expect("writing to a vector cannot fail");
        }
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(self.value);
        out.extend_from_slice(b"\r\n");
        true
    }
}

fn class_of(name: &[u8]) -> usize {
    usize::try_from(hash(name) % CLASSES as u64).expect("a class")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(reply: &str) -> Option<String> {
        let item = Item::parse(reply.as_bytes()).expect("an item");
        let mut out = Vec::new();
        item.write_add(b"k", &mut out).then(|| String::from_utf8(out).expect("text"))
    }

    #[test]
    fn a_copy_has_the_flags_and_less_than_the_rest_of_the_time() {
        assert_eq!(add("VA 2 kk f7 t-1\r\nab\r\n").as_deref(), Some("ms k 2 ME F7\r\nab\r\n"));
        assert_eq!(add("VA 0 kk f0 t60\r\n\r\n").as_deref(), Some("ms k 0 ME F0 T59\r\n\r\n"));
        // A longer time would be taken for a date, in 1970.
        assert_eq!(add("VA 1 kk f0 t9000000\r\nx\r\n").as_deref(), Some("ms k 1 ME F0 T2592000\r\nx\r\n"));
        assert_eq!([add("VA 1 kk f0 t1\r\nx\r\n"), add("VA 1 kk f0 t0\r\nx\r\n")], [None, None]);
    }

    #[test]
    fn what_is_marked_is_seen() {
        let marks = |reply: &str| {
            let item = Item::parse(reply.as_bytes()).expect("an item");
            (item.is_marked, item.has_won)
        };
        assert_eq!(marks("VA 1 kk f0 t-1\r\nX\r\n"), (false, false));
        assert_eq!(marks("VA 1 kk f0 t-1 W X\r\nx\r\n"), (true, true));
        assert_eq!(marks("VA 1 kk f0 t-1 X Z\r\nx\r\n"), (true, false));
        assert_eq!(marks("VA 0 kk f0 t30 Z\r\n\r\n"), (true, false));
    }

    #[test]
    fn what_is_no_item_is_none() {
        for reply in
            ["VA 5 kk f0 t1\r\nab\r\n", "VA 1 kk f0\r\nx\r\n", "VA 1 kk t1\r\nx\r\n", "VA", "VA x\r\n"]
        {
            assert_eq!(Item::parse(reply.as_bytes()), None, "{reply:?}");
        }
        assert_eq!(Item::parse(b"VA 1 kk fx t1\r\nx\r\n"), None);
        assert_eq!(Item::parse(b"VA 1 kk f1 tx\r\nx\r\n"), None);
    }
}

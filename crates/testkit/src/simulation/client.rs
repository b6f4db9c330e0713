//! One client: what it has asked, and what it makes of the replies.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use rand::Rng;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use weir_dataplane::SessionId;
use weir_routing::Table;

use super::beliefs::{Belief, Item, Servers};
use super::history::{History, Moment, WriteId};
use super::link::Link;
use super::replies::{self, Read as Found};
use super::script::{self, Asked, Expected, STATISTICS, TOO_LARGE};
use super::tables;
use super::tokens::{Stake, Tokens};

/// The reply that the dataplane puts in the place of one for which there is no room.
const NO_ROOM: &[u8] = b"SERVER_ERROR buffer-full client\r\n";

/// What a server says that answers oddly.
const OUT_OF_MEMORY: &str = "SERVER_ERROR out of memory writing get response\r\n";

/// How a client goes.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// It says `quit`.
    Quit,
    /// It sends no more, and reads all its replies.
    Finish,
    /// It is gone in the middle of something.
    Vanish,
}

/// What arrives at the proxy from a client.
#[derive(Clone, Debug)]
pub(super) enum Arrival {
    Bytes(Vec<u8>),
    Finished,
    Vanished,
}

#[derive(Debug)]
pub(super) struct Client {
    pub(super) number: usize,
    /// The loop that it is connected to.
    pub(super) home: usize,
    /// Its connection at the proxy, while there is one.
    pub(super) session: Option<SessionId>,
    pub(super) ending: Ending,
    /// Its number in the rows of sampled requests, once it is connected.
    pub(super) row_number: Option<u64>,
    /// Its connection has ended, one way or the other.
    pub(super) gone: bool,
    /// Requests that it will still send.
    pub(super) remaining: usize,
    pub(super) link: Link,
    /// What has arrived and was not read, because the proxy did not want to.
    pub(super) unread: VecDeque<Arrival>,
    pub(super) tokens: Tokens,
    pub(super) tally: Tally,
    pending: VecDeque<Pending>,
    /// Of each key of its own, and of each server that was its primary.
    beliefs: BTreeMap<(Vec<u8>, usize), Belief>,
    pub(super) nature: Nature,
    /// When the last conditional write of each of its own keys was answered.
    decided: BTreeMap<Vec<u8>, Moment>,
    versions: u64,
    opaques: u64,
    sent_bytes: u64,
    read_bytes: u64,
    /// How much of the proxy's output for it was seen already.
    seen: usize,
    /// What was seen of a reply that is not complete.
    partial: Vec<u8>,
}

/// What a client must expect of the world that it is in.
#[derive(Copy, Clone, Debug)]
pub(super) struct Nature {
    /// Servers may forget items at any time.
    pub(super) forgetful: bool,
    /// They may answer gets with errors, and with values that nobody asked for.
    pub(super) odd: bool,
    /// Keys have several replicas.
    pub(super) replicated: bool,
    /// Servers may be down, and then another replica is asked.
    pub(super) fails_over: bool,
    /// A key may be missed because its server did not answer.
    pub(super) degrades: bool,
    /// Values may come before the error of a later slice.
    pub(super) slices: bool,
    /// It cannot know which server was asked, or what the others were sent: only whether a value belongs to its key.
    pub(super) blind: bool,
    /// All clients write few keys at the same time.
    pub(super) races: bool,
    /// All clients read the keys that all write, more often than they write them.
    pub(super) rereads: bool,
    /// Its reads may be quiet: what shows that they have said nothing is never refused, nor left unread.
    pub(super) hushes: bool,
    /// Clients read by `mg`.
    pub(super) reads_by_meta: bool,
    /// They often read the same so.
    pub(super) repeats: bool,
    /// What is acknowledged is never followed by what was before it.
    pub(super) ordered: bool,
    /// All servers of a key hold the same once a write of it is acknowledged, whoever has decided it.
    pub(super) agrees: bool,
}

/// Whose answer a read is.
#[derive(Copy, Clone, Debug)]
enum From {
    Primary,
    /// Any replica's, but a miss is the primary's.
    PrimaryIfMissed,
    /// Any replica's.
    Anywhere,
}

/// Counts of one client.
#[derive(Copy, Clone, Debug, Default)]
pub(super) struct Tally {
    pub(super) replies: u64,
    pub(super) failures: u64,
    /// Of them, what may be a miss because no server answered.
    pub(super) degraded: u64,
    /// Replies that a value is too large. What is at its key is erased, which may fail, too.
    pub(super) refusals_large: u64,
    /// By how much the reply that was latest stood in the output later than servers may take, from when the proxy had read the request.
    pub(super) overdue_max_ns: u64,
}

/// A request that is not answered.
#[derive(Clone, Debug)]
struct Pending {
    asked: Asked,
    /// Where in the client's stream it ends.
    end: u64,
    /// What held when the proxy read its last byte.
    read: Option<Read>,
    /// The same as a moment of the history.
    began: Moment,
    /// What it is there, if it writes a shared key.
    write: Option<WriteId>,
    stake: Stake,
}

/// When a request was read, and what held then.
#[derive(Clone, Debug)]
struct Read {
    at_ns: u64,
    /// Until when servers may take.
    due_ns: u64,
    /// By which table it was sent on its way.
    table: Arc<Table>,
}

impl Client {
    pub(super) fn new(
        (number, home): (usize, usize),
        requests: usize,
        nature: Nature,
        rng: &mut SmallRng,
    ) -> Self {
        let endings = [Ending::Quit, Ending::Finish, Ending::Finish, Ending::Vanish];
        Self {
            number,
            home,
            session: None,
            gone: false,
            row_number: None,
            ending: *endings.choose(rng).expect("some endings"),
            remaining: requests,
            link: Link::default(),
            unread: VecDeque::new(),
            tokens: Tokens::default(),
            tally: Tally::default(),
            pending: VecDeque::new(),
            beliefs: BTreeMap::new(),
            nature,
            decided: BTreeMap::new(),
            versions: 0,
            opaques: 0,
            sent_bytes: 0,
            read_bytes: 0,
            seen: 0,
            partial: Vec::new(),
        }
    }

    /// A value that says which key it belongs to and who wrote it when.
    pub(super) fn next_value(&mut self, key: &[u8], rng: &mut SmallRng) -> Vec<u8> {
        self.versions += 1;
        let mut value = key.to_vec();
        value.extend_from_slice(format!(" by {} version {} ", self.number, self.versions).as_bytes());
        let filler = if rng.random_bool(0.1) { rng.random_range(0..2000) } else { rng.random_range(0..40) };
        // Bytes that look like replies must do no harm.
        value.extend(b"\r\nEND\r\nVALUE own 0 5\r\nSTORED\r\n".iter().cycle().take(filler));
        value
    }

    /// A word that no other request has.
    pub(super) fn next_opaque(&mut self) -> String {
        self.opaques += 1;
        format!("O{}.{}", self.number, self.opaques)
    }

    /// It asks; the bytes go on their way.
    pub(super) fn ask(&mut self, mut asked: Asked, history: &mut History) {
        if matches!(asked.expected, Expected::Read { is_quiet: true, .. }) {
            let noop = asked.bytes.split_off(asked.bytes.len() - b"mn\r\n".len());
            self.ask_one(asked, history);
            asked = script::exactly(noop, b"MN\r\n".to_vec());
        }
        self.ask_one(asked, history);
    }

    fn ask_one(&mut self, asked: Asked, history: &mut History) {
        self.sent_bytes += asked.bytes.len() as u64;
        let write = asked.shared.as_ref().map(|it| {
            let is_decided = it.is_conditional && self.nature.replicated;
            history.issue((self.number, is_decided), &it.key, it.value.clone())
        });
        let stake = match &asked.expected {
            Expected::Values { keys, .. } => self.tokens.reads(keys),
            Expected::Fitting { key } => self.tokens.changes(key, None),
            Expected::FittingCas { key, token, .. } => self.tokens.changes(key, Some(*token)),
            _ => Stake::default(),
        };
        self.pending.push_back(Pending { asked, end: self.sent_bytes, read: None, began: 0, write, stake });
    }

    /// The proxy has read `count` more of its bytes.
    pub(super) fn note_read(
        &mut self,
        count: usize,
        (now_ns, due_ns, table): (u64, u64, &Arc<Table>),
        history: &mut History,
    ) {
        self.read_bytes += count as u64;
        for pending in self.pending.iter_mut().rev().take_while(|pending| pending.read.is_none()) {
            if pending.end <= self.read_bytes {
                pending.read = Some(Read { at_ns: now_ns, due_ns, table: Arc::clone(table) });
                pending.began = history.moment();
                pending.write.iter().for_each(|write| history.begin(write));
            }
        }
    }

    /// Looks at what stands in the proxy's output for it.
    pub(super) fn see(&mut self, output: &[u8], now_ns: u64, history: &mut History) -> Result<(), String> {
        self.partial.extend_from_slice(&output[self.seen..]);
        self.seen = output.len();
        while !self.partial.is_empty() {
            self.settle_silent();
            let Some(pending) = self.pending.front() else {
                let reply = String::from_utf8_lossy(&self.partial).into_owned();
                return Err(format!("nobody asked for {reply:?}"));
            };
            // A value that is too large may be refused before it was read.
            let may_be_early = matches!(pending.asked.expected, Expected::Exactly(_)).then_some(now_ns);
            let due_ns = pending.read.as_ref().map(|read| read.due_ns);
            let Some(due_ns) = due_ns.or(may_be_early) else {
                return Err(format!("{:?} is answered before it was read", pending.asked));
            };
            let (asked, table, began) = (pending.asked.clone(), pending.table(), pending.began);
            let (write, stake) = (pending.write.clone(), pending.stake.clone());
            let Some(taken) = self
                .check((&asked, &stake), table.as_deref(), (&*history, began))
                .map_err(|error| format!("{error} (to {asked:?})"))?
            else {
                return Ok(());
            };
            if let Some(write) = write {
                history.end(&write, has_written(&asked, &self.partial));
            }
            if let Expected::Fitting { key } | Expected::FittingCas { key, .. } = &asked.expected {
                self.decided.insert(key.clone(), history.moment());
            }
            self.partial.drain(..taken);
            self.pending.pop_front();
            self.tally.replies += 1;
            self.tally.overdue_max_ns = self.tally.overdue_max_ns.max(now_ns.saturating_sub(due_ns));
        }
        Ok(())
    }

    /// `count` bytes of the output are on their way to it.
    pub(super) fn note_written(&mut self, count: usize) {
        self.seen -= count;
    }

    /// The proxy closes its connection: nothing may be owed, except what it had not taken when it began to drain at
    /// `drained_ns`. What was read and waits because the session is `paused` has not been taken either. Returns whether
    /// it has taken a `quit`.
    pub(super) fn check_closed(&mut self, drained_ns: Option<u64>, paused: bool) -> Result<bool, String> {
        self.settle_silent();
        // A mistake that memcached answers with two lines is two requests to the proxy; it may have taken the first.
        let lines = matches!(self.pending.front(), Some(Pending { asked, .. }) if asked.is_mistake());
        let is_half = drained_ns.is_some() && lines && self.partial.ends_with(b"\r\n");
        if !self.partial.is_empty() && !is_half {
            return Err("the connection ends in the middle of a reply".to_owned());
        }
        let untaken = |pending: &Pending| {
            drained_ns.is_some_and(|drained_ns| {
                paused || pending.read.as_ref().is_none_or(|read| read.at_ns >= drained_ns)
            })
        };
        match self.pending.front() {
            Some(owed) if untaken(owed) => Ok(false),
            Some(Pending { asked: Asked { expected: Expected::Closed, .. }, .. }) => Ok(true),
            None if self.ending == Ending::Finish || drained_ns.is_some() => Ok(false),
            owed => Err(format!("the connection ends, owed is {owed:?}")),
        }
    }

    /// Requests that wanted no reply may have been carried out, or not.
    fn settle_silent(&mut self) {
        while self.pending.front().is_some_and(|pending| pending.asked.noreply)
            && let Some(pending) = self.pending.pop_front()
        {
            // Nothing contradicts a doubt.
            let _ = self.fail(&pending.asked, pending.table().as_deref());
        }
    }

    /// Compares the front of what was seen with what was asked; returns the length of the reply once it is complete.
    fn check(
        &mut self,
        (asked, stake): (&Asked, &Stake),
        table: Option<&Table>,
        history: (&History, Moment),
    ) -> Result<Option<usize>, String> {
        if let Expected::Exactly(answer) = &asked.expected {
            return self.check_lines(answer);
        }
        if let Expected::Read { key, opaque, is_quiet } = &asked.expected {
            return self.check_read(asked, (key, opaque, *is_quiet), table, history);
        }
        let Some(line) = replies::line(&self.partial).map(<[u8]>::to_vec) else { return Ok(None) };
        // What makes an item where there is none misses only where its server did not answer.
        let is_degraded = line == b"EN\r\n" && asked.bytes.starts_with(b"mg ") && self.nature.degrades;
        if is_degraded || line.starts_with(b"SERVER_ERROR ") {
            if !is_degraded {
                check_failure(&line, self.nature.odd)?;
            }
            self.tally.failures += 1;
            self.tally.degraded += u64::from(is_degraded);
            self.fail(asked, table)?;
            return Ok(Some(line.len()));
        }
        match &asked.expected {
            Expected::Values { keys, with_cas } => {
                let cut_short = replies::cut_short(&self.partial).filter(|_| self.nature.slices);
                if let Some((line, length)) = cut_short {
                    check_failure(line, self.nature.odd)?;
                    self.tally.failures += 1;
                    self.fail(asked, table)?;
                    return Ok(Some(length));
                }
                let Some((values, length)) = replies::values(&self.partial)? else { return Ok(None) };
                let is_plain = asked.bytes.starts_with(b"get ");
                // What `mg` with `N` has made is at the decider alone, and that may be another server's turn meanwhile.
                let is_made = |key: &Vec<u8>| kind_of(key) == Some(&b'v');
                let from = match (is_plain && self.nature.replicated, keys.len()) {
                    _ if self.nature.replicated && keys.iter().any(is_made) => From::Anywhere,
                    (true, _) if self.nature.fails_over => From::Anywhere,
                    // What a follower does not have is asked of the primary, unless the client writes meanwhile.
                    (true, 2..) if self.pending.len() > 1 => From::Anywhere,
                    (true, 2..) => From::PrimaryIfMissed,
                    _ => From::Primary,
                };
                self.check_values(keys, table, (with_cas.then_some(stake), from), values, history)?;
                return Ok(Some(length));
            }
            Expected::Fitting { key } => {
                self.learn(key, table, |belief| belief.learn_reply(&asked.bytes, &line))?;
                self.settle_token(key, stake, &line)?;
            }
            Expected::FittingCas { key, stored, .. } => {
                if !self.may_be_answered_without_asking(stake, &line)? {
                    self.learn(key, table, |belief| belief.learn_cas(stored.clone(), Some(&line)))?;
                }
                self.settle_token(key, stake, &line)?;
            }
            Expected::OneOf(lines) if lines.iter().any(|expected| expected.as_bytes() == line) => {}
            _ => return Err(format!("found {:?}", String::from_utf8_lossy(&line))),
        }
        Ok(Some(line.len()))
    }

    /// The same for the answer to an `mg`.
    fn check_read(
        &mut self,
        asked: &Asked,
        (key, opaque, is_quiet): (&[u8], &str, bool),
        table: Option<&Table>,
        history: (&History, Moment),
    ) -> Result<Option<usize>, String> {
        let Some((read, length)) = replies::read(&self.partial, key, opaque, is_quiet)? else {
            return Ok(None);
        };
        let values = match read {
            Found::Hit(value) => vec![value],
            Found::Miss => Vec::new(),
            Found::Failure(line) => {
                check_failure(&line, self.nature.odd)?;
                self.tally.failures += 1;
                self.fail(asked, table)?;
                return Ok(Some(length));
            }
        };
        let is_made = kind_of(key) == Some(&b'v');
        let from = if self.nature.replicated && is_made { From::Anywhere } else { From::Primary };
        self.check_values(&[key.to_vec()], table, (None, from), values, history)?;
        Ok(Some(length))
    }

    /// Nothing that was acknowledged after the token was read is lost.
    fn settle_token(&mut self, key: &[u8], stake: &Stake, line: &[u8]) -> Result<(), String> {
        if self.nature.ordered { self.tokens.settle(key, stake, line) } else { Ok(()) }
    }

    /// Whether a `cas` was perhaps answered for its token alone, so that the answer says nothing of the item.
    fn may_be_answered_without_asking(&self, stake: &Stake, line: &[u8]) -> Result<bool, String> {
        if !self.nature.replicated || self.nature.blind {
            return Ok(false);
        }
        let says_so = line == b"EXISTS\r\n";
        if stake.compares_nameless() && !says_so {
            return Err(format!("a token of no server was answered {:?}", String::from_utf8_lossy(line)));
        }
        Ok(says_so && (self.nature.fails_over || stake.compares_nameless()))
    }

    /// Each line of `answer` is there, or a failure: of a server if it had to be asked, or for want of room.
    fn check_lines(&mut self, answer: &[u8]) -> Result<Option<usize>, String> {
        let (mut at, mut failures) = (0, 0);
        for expected in answer.split_inclusive(|byte| *byte == b'\n') {
            let Some(line) = replies::line(&self.partial[at..]) else { return Ok(None) };
            if line == NO_ROOM && answer == STATISTICS {
                self.tally.failures += 1;
                return Ok(Some(line.len()));
            }
            if line != expected {
                let asks_servers = [&b"END\r\n"[..], b"NOT_FOUND\r\n"].contains(&expected);
                // A value that is too large erases the old one, in its turn. Its client hears instead if its time was up before that.
                let is_late = expected == TOO_LARGE && line.starts_with(b"SERVER_ERROR timeout ");
                let may_fail = is_late || asks_servers && check_failure(line, self.nature.odd).is_ok();
                if line != NO_ROOM && !may_fail {
                    let [expected, found] = [expected, line].map(String::from_utf8_lossy);
                    return Err(format!("expected {expected:?}, found {found:?}"));
                }
                failures += 1;
            }
            at += line.len();
        }
        self.tally.failures += failures;
        self.tally.refusals_large += u64::from(answer.starts_with(b"SERVER_ERROR object too large"));
        Ok(Some(at))
    }

    /// Values come in the order of the keys; each belongs to its key, and to a version that may be there.
    fn check_values(
        &mut self,
        keys: &[Vec<u8>],
        table: Option<&Table>,
        (stake, from): (Option<&Stake>, From),
        values: Vec<replies::Value>,
        (history, began): (&History, Moment),
    ) -> Result<(), String> {
        let mut values = values.into_iter().peekable();
        for (place, key) in keys.iter().enumerate() {
            let value = values.next_if(|value| value.key == *key);
            if let Some(value) = &value {
                if value.cas.is_some() != stake.is_some() {
                    return Err(format!("{value:?} has a cas token, or has none, wrongly"));
                }
                if let (Some(cas), Some(stake)) = (value.cas, stake) {
                    self.tokens.learn(key, cas, stake, place);
                }
            }
            if key.starts_with(b"own") {
                let decider_is_known = !self.may_miss_decision(key, began);
                let found = value.map(|value| (value.data, value.flags));
                self.learn_item(key, table.filter(|_| decider_is_known), found, from)?;
            } else if let Some(value) = value {
                if !history.is_issued(key, &value.data) {
                    return Err(format!("nobody has written {value:?}"));
                }
                if self.writes_later(key, &value.data) {
                    return Err(format!("it reads {value:?}, which it has sent behind that"));
                }
                if self.nature.ordered {
                    history.check(key, &value.data, (Some(self.number), began))?;
                }
            }
        }
        match values.next() {
            Some(value) => Err(format!("{value:?} was not asked for, or not here")),
            None => Ok(()),
        }
    }

    /// Whether the client itself has sent this value behind the request that is being answered.
    fn writes_later(&self, key: &[u8], value: &[u8]) -> bool {
        let mut behind = self.pending.iter().skip(1).filter_map(|pending| pending.asked.shared.as_ref());
        behind.any(|write| write.key == key && write.value.as_deref() == Some(value))
    }

    /// Whether another server may have become the decider between a conditional write and a read that the client sent before it was
    /// answered: then the read is too early to see it.
    fn may_miss_decision(&self, key: &[u8], began: Moment) -> bool {
        let is_settled = self.decided.get(key).is_none_or(|answered| *answered < began);
        self.nature.replicated && self.nature.fails_over && !is_settled
    }

    /// A read of one of its own keys has `found` this.
    fn learn_item(
        &mut self,
        key: &[u8],
        table: Option<&Table>,
        found: Item,
        from: From,
    ) -> Result<(), String> {
        if found.is_none() && self.nature.degrades {
            return Ok(());
        }
        if let Some((value, _)) = &found
            && !belongs_to(value, key)
        {
            return Err(format!("{:?} is no value of this key", String::from_utf8_lossy(value)));
        }
        self.learn(key, table, |belief| match from {
            From::PrimaryIfMissed if found.is_none() => belief.learn_item(found),
            From::Anywhere | From::PrimaryIfMissed => belief.learn_item_anywhere(&found),
            From::Primary => belief.learn_item(found),
        })
    }

    /// The request failed.
    fn fail(&mut self, asked: &Asked, table: Option<&Table>) -> Result<(), String> {
        match &asked.expected {
            Expected::Fitting { key } => self.learn(key, table, |belief| {
                belief.doubt(&asked.bytes);
                Ok(())
            }),
            Expected::FittingCas { key, stored, .. } => {
                self.learn(key, table, |belief| belief.learn_cas(stored.clone(), None))
            }
            _ => Ok(()),
        }
    }

    /// What was learned about a key, at the server that was its primary when the request was sent on its way.
    fn learn(
        &mut self,
        key: &[u8],
        table: Option<&Table>,
        learn: impl FnOnce(&mut Belief) -> Result<(), String>,
    ) -> Result<(), String> {
        let Some(table) = table.filter(|_| !self.nature.blind) else { return Ok(()) };
        let servers = Servers {
            forgetful: self.nature.forgetful,
            replicated: self.nature.replicated,
            fail_over: self.nature.replicated && self.nature.fails_over,
            agree: self.nature.agrees,
        };
        let place = (key.to_vec(), tables::places(table, key)[0]);
        learn(self.beliefs.entry(place).or_insert_with(|| Belief::new(key, servers)))
    }
}

impl Pending {
    fn table(&self) -> Option<Arc<Table>> {
        self.read.as_ref().map(|read| Arc::clone(&read.table))
    }
}

/// Whether a write to a shared key has left there what it was to leave.
fn has_written(asked: &Asked, reply: &[u8]) -> bool {
    let is_gone = asked.bytes.starts_with(b"delete ") && reply.starts_with(b"NOT_FOUND\r\n");
    is_gone || reply.starts_with(b"STORED\r\n") || reply.starts_with(b"DELETED\r\n")
}

/// Texts begin with their key, whatever is appended or prepended; numbers are numbers; what was made where it was missed is empty.
fn belongs_to(value: &[u8], key: &[u8]) -> bool {
    match kind_of(key) {
        Some(b'n') => value.iter().all(|byte| byte.is_ascii_digit() || *byte == b' '),
        Some(b'v') if value.is_empty() => true,
        _ => value.starts_with(key),
    }
}

/// What is done to a key of one's own (`script.rs`).
fn kind_of(key: &[u8]) -> Option<&u8> {
    key.rsplit(|byte| *byte == b'-').next().and_then(|kind| kind.first())
}

/// A failure names a stage and a server. `protocol` would mean that the proxy misunderstood a server that did nothing
/// wrong; an `odd` one does.
fn check_failure(line: &[u8], odd: bool) -> Result<(), String> {
    const STAGES: [&str; 8] =
        ["connect", "down", "unauthenticated", "stale", "queue-full", "timeout", "closed", "buffer-full"];
    let text = String::from_utf8_lossy(line);
    if text == "SERVER_ERROR out of memory storing object\r\n" {
        return Ok(());
    }
    if odd && (text.starts_with("SERVER_ERROR protocol ") || text == OUT_OF_MEMORY) {
        return Ok(());
    }
    match text.trim_end().split(' ').collect::<Vec<_>>()[..] {
        ["SERVER_ERROR", stage, server] if STAGES.contains(&stage) && !server.is_empty() => Ok(()),
        _ => Err(format!("{text:?} is no failure of a server")),
    }
}

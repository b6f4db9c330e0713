//! One memcached server with its troubles.

use std::collections::VecDeque;

use rand::Rng;
use rand::rngs::SmallRng;
use rand::seq::{IndexedRandom, SliceRandom};

use super::{link::Link, scenario::VALUE_BYTES_MAX};
use crate::memcached::{Connection, Memcached};

/// What can befall a server.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// It reads nothing and answers nothing for this long; the kernel still accepts connections.
    Freeze(u64),
    /// It closes its connection, and can be connected to again.
    Close,
    /// The same in the middle of its next answer.
    CloseWithin,
    /// It closes its connection and refuses others for this long.
    Refuse(u64),
    /// Its packets and those to it are lost for this long: connections are neither made nor refused, and bytes wait.
    Vanish(u64),
    /// It answers this much later, for this long.
    Late { extra_ns: u64, length_ns: u64 },
    /// It closes its connection and forgets everything.
    Restart,
    /// It forgets everything, as if all of it had been evicted.
    Evict,
    /// One of its connections breaks without its doing: the proxy hears of it, and the server, when it comes to it, carries out what
    /// had reached it.
    Break,
    /// The path of one of its connections swallows all bytes, or those of the replies, for good. New connections pass.
    Swallow(Dead),
    /// One of its threads hangs for this long, and with it a connection.
    Stick(u64),
    /// It has no memory for values for this long, and forgets those that are to be replaced.
    Full(u64),
    /// The same, but it keeps what is to be replaced.
    Refusing(u64),
    /// It closes its connections, and wants a login on those that are made for this long (memcached -Y).
    WantLogin(u64),
    /// It answers gets oddly for this long.
    Odd(Oddity, u64),
}

/// How a server answers a `get` that it could have answered otherwise.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Oddity {
    /// The values come in another order than they were asked for.
    Disorder,
    /// An error stands in the place of the values from some on.
    Error,
    /// A value stands among them that nobody asked for.
    Foreign,
}

/// One connection of a loop of the proxy to a server.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Wire {
    pub(super) server: usize,
    /// The loop, and which of its connections.
    pub(super) line: Line,
    /// Number of the attempt to make that one.
    pub(super) attempt: u64,
}

/// A loop has one connection to a server for its requests, and at times others: for reads that bring much, and to see whether the server
/// answers there.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    /// The loop.
    pub(super) home: usize,
    /// 0: the one for its requests.
    pub(super) place: usize,
}

/// How many connections a loop may have to a server: its first one, a second one, and another to see of each whether it is dead.
pub(super) const LINES: usize = 4;

#[derive(Debug)]
pub(super) struct SimulatedServer {
    pub(super) memcached: Memcached,
    /// What each loop has of it.
    ways: Vec<[Way; LINES]>,
    /// The connections that it has, those included that the proxy has dropped and that it has not read to their end.
    sockets: Vec<Socket>,
    frozen_until_ns: u64,
    refuses_until_ns: u64,
    vanished_until_ns: u64,
    late_until_ns: u64,
    extra_ns: u64,
    closes_within: bool,
    full_until_ns: u64,
    login_until_ns: u64,
    odd: Option<(Oddity, u64)>,
    /// It closes a connection at `stats settings`, as another proxy does.
    knows_no_settings: bool,
    /// The connections that it has closed for that.
    closed: Vec<Wire>,
}

/// The way between a loop and a server.
#[derive(Debug, Default)]
struct Way {
    /// Number of the latest attempt to connect. The proxy hears nothing any more of an earlier one.
    attempt: u64,
    to_server: Link,
    to_proxy: Link,
    dead: Dead,
}

/// What a way has come to swallow; the next connection has a way of its own.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Dead {
    #[default]
    Nothing,
    /// What the server says.
    Replies,
    Everything,
}

/// A connection as the server sees it.
#[derive(Debug)]
struct Socket {
    wire: Wire,
    /// Nobody has logged in on it.
    wants_login: bool,
    /// The beginning of a line that such a connection has brought.
    unread: Vec<u8>,
    /// What it has brought, while that may still be the proxy's own questions.
    opening: Vec<u8>,
    connection: Connection,
    /// What has arrived and is not read.
    inbox: VecDeque<Vec<u8>>,
    /// When it forgets what it has not read.
    until_ns: u64,
    /// It is not read before.
    stuck_until_ns: u64,
}

impl Fault {
    /// `timeout_ns`: how long the proxy waits for a server. `breaks`: connections may break by themselves. `dies`: the paths of
    /// connections may die.
    pub(super) fn random(
        timeout_ns: u64,
        (breaks, dies, greets): (bool, bool, bool),
        rng: &mut SmallRng,
    ) -> Self {
        if breaks && rng.random_bool(0.2) {
            return Self::Break;
        }
        if dies && rng.random_bool(0.3) {
            let dead = *[Dead::Replies, Dead::Everything].choose(rng).expect("two ways");
            let stuck_ns = rng.random_range(timeout_ns * 2..=timeout_ns * 8);
            return if rng.random_bool(0.4) { Self::Swallow(dead) } else { Self::Stick(stuck_ns) };
        }
        let length_ns = rng.random_range(1..=timeout_ns * 3);
        if breaks && rng.random_bool(0.1) {
            return Self::Refusing(length_ns);
        }
        if greets && rng.random_bool(0.1) {
            return Self::WantLogin(length_ns);
        }
        let extra_ns = rng.random_range(1..=timeout_ns * 2);
        *[
            Self::Freeze(length_ns),
            Self::Freeze(length_ns),
            Self::Close,
            Self::CloseWithin,
            Self::CloseWithin,
            Self::Refuse(length_ns),
            Self::Vanish(length_ns),
            Self::Late { extra_ns, length_ns },
            Self::Restart,
            Self::Evict,
            Self::Full(length_ns),
        ]
        .choose(rng)
        .expect("some faults")
    }
}

impl Socket {
    /// Whether these bytes complete a question at which another proxy closes its connection.
    fn closes_at(&mut self, bytes: &[u8]) -> bool {
        if self.opening.len() > OPENING_BYTES_MAX {
            return false;
        }
        self.opening.extend_from_slice(bytes);
        [b"stats settings\r\n".as_slice(), b"version\r\nstats settings\r\n"]
            .contains(&self.opening.as_slice())
    }
}

/// The proxy's own questions are no longer together.
const OPENING_BYTES_MAX: usize = 40;

/// A server that wants a login takes the first `set` for one, as memcached does, and answers nothing else.
fn answer_stranger(unread: &mut Vec<u8>, answer: &mut Vec<u8>) {
    while let Some(end) = unread.iter().position(|byte| *byte == b'\n') {
        let line: Vec<u8> = unread.drain(..=end).collect();
        assert!(!line.starts_with(b"set "), "a client's set has logged in a connection that others share");
        answer.extend_from_slice(b"CLIENT_ERROR unauthenticated\r\n");
    }
}

impl Fault {
    /// The server answers gets oddly, and does what it is asked to do.
    pub(super) fn odd(timeout_ns: u64, rng: &mut SmallRng) -> Self {
        let oddity = *[Oddity::Disorder, Oddity::Error, Oddity::Foreign].choose(rng).expect("some oddities");
        Self::Odd(oddity, rng.random_range(1..=timeout_ns * 3))
    }
}

impl SimulatedServer {
    pub(super) fn new(loops: usize) -> Self {
        Self {
            memcached: Memcached::default().with_item_size(VALUE_BYTES_MAX),
            ways: (0..loops).map(|_| Default::default()).collect(),
            sockets: Vec::new(),
            frozen_until_ns: 0,
            refuses_until_ns: 0,
            vanished_until_ns: 0,
            late_until_ns: 0,
            extra_ns: 0,
            closes_within: false,
            full_until_ns: 0,
            login_until_ns: 0,
            odd: None,
            knows_no_settings: false,
            closed: Vec::new(),
        }
    }

    /// The same; whether it leaves out values whose token the proxy names.
    pub(super) fn with_conditional_gets(self, is_conditional: bool) -> Self {
        Self { memcached: self.memcached.with_conditional_gets(is_conditional), ..self }
    }

    /// The same, as another proxy that closes its connections at `stats settings`.
    pub(super) fn without_settings(self) -> Self {
        Self { knows_no_settings: true, ..self }
    }

    /// The connections that it has closed at a question since this was called last.
    pub(super) fn take_closed(&mut self) -> Vec<Wire> {
        std::mem::take(&mut self.closed)
    }

    /// Something befalls it. Returns the connections that it closes.
    pub(super) fn befall(&mut self, fault: Fault, now_ns: u64) -> Vec<Wire> {
        match fault {
            Fault::Freeze(length_ns) => self.frozen_until_ns = self.frozen_until_ns.max(now_ns + length_ns),
            Fault::Refuse(length_ns) => self.refuses_until_ns = self.refuses_until_ns.max(now_ns + length_ns),
            Fault::Vanish(length_ns) => {
                self.vanished_until_ns = self.vanished_until_ns.max(now_ns + length_ns);
                self.frozen_until_ns = self.frozen_until_ns.max(now_ns + length_ns);
            }
            Fault::Late { extra_ns, length_ns } => {
                self.late_until_ns = now_ns + length_ns;
                self.extra_ns = extra_ns;
            }
            Fault::Close | Fault::Break | Fault::Swallow(_) | Fault::Stick(_) => {}
            Fault::Full(length_ns) | Fault::Refusing(length_ns) => {
                self.full_until_ns = self.full_until_ns.max(now_ns + length_ns);
                self.memcached.set_keeps_refused(matches!(fault, Fault::Refusing(_)));
            }
            Fault::WantLogin(length_ns) => self.login_until_ns = self.login_until_ns.max(now_ns + length_ns),
            Fault::Odd(oddity, length_ns) => self.odd = Some((oddity, now_ns + length_ns)),
            Fault::CloseWithin => self.closes_within = true,
            Fault::Restart | Fault::Evict => self.memcached.clear(),
        }
        if matches!(fault, Fault::Close | Fault::Refuse(_) | Fault::Restart | Fault::WantLogin(_)) {
            self.sockets.drain(..).map(|socket| socket.wire).collect()
        } else {
            Vec::new()
        }
    }

    /// The proxy connects; `None` if nothing comes of it, not even a refusal.
    pub(super) fn accepts(&self, now_ns: u64) -> Option<bool> {
        (now_ns >= self.vanished_until_ns).then_some(now_ns >= self.refuses_until_ns)
    }

    /// This connection is established.
    pub(super) fn accept(&mut self, wire: Wire, now_ns: u64) {
        self.sockets.push(Socket {
            wire,
            wants_login: now_ns < self.login_until_ns,
            unread: Vec::new(),
            opening: Vec::new(),
            connection: Connection::default(),
            inbox: VecDeque::new(),
            until_ns: u64::MAX,
            stuck_until_ns: 0,
        });
    }

    fn way(&mut self, line: Line) -> &mut Way {
        &mut self.ways[line.home][line.place]
    }

    /// The latest attempt to make a connection.
    pub(super) fn attempt(&self, line: Line) -> u64 {
        self.ways[line.home][line.place].attempt
    }

    /// Whether there was no later attempt to make that connection.
    pub(super) fn is_latest(&self, wire: Wire) -> bool {
        self.attempt(wire.line) == wire.attempt
    }

    /// A loop has dropped its connection, or begins another. The server reads what was on the way to it when it comes to it, if that is
    /// before `until_ns`.
    pub(super) fn forget(&mut self, line: Line, until_ns: u64) {
        for socket in self.sockets.iter_mut().filter(|socket| socket.wire.line == line) {
            socket.until_ns = socket.until_ns.min(until_ns);
        }
        let attempt = self.attempt(line) + 1;
        *self.way(line) = Way { attempt, ..Way::default() };
    }

    pub(super) fn way_there(&mut self, line: Line) -> &mut Link {
        &mut self.way(line).to_server
    }

    pub(super) fn way_back(&mut self, line: Line) -> &mut Link {
        &mut self.way(line).to_proxy
    }

    /// What the latest connection of this line swallows.
    pub(super) fn dead(&self, line: Line) -> Dead {
        self.ways[line.home][line.place].dead
    }

    /// From now on it swallows this, until it is replaced.
    pub(super) fn die(&mut self, line: Line, dead: Dead) {
        self.way(line).dead = dead;
    }

    /// The thread that has this connection hangs until then.
    pub(super) fn stick(&mut self, wire: Wire, until_ns: u64) {
        let mine = self.sockets.iter_mut().filter(|socket| socket.wire == wire);
        mine.for_each(|socket| socket.stuck_until_ns = until_ns);
    }

    /// Bytes arrive; they are read by [`Self::work`]. Returns whether it still has that connection.
    pub(super) fn receive(&mut self, wire: Wire, bytes: Vec<u8>) -> bool {
        let socket = self.sockets.iter_mut().find(|socket| socket.wire == wire);
        socket.map(|socket| socket.inbox.push_back(bytes)).is_some()
    }

    /// Reads what has arrived, one piece of any connection after the other, and answers each. The time at which to try again if it is
    /// frozen.
    pub(super) fn work(&mut self, now_ns: u64, rng: &mut SmallRng) -> Result<Vec<(Wire, Vec<u8>)>, u64> {
        if now_ns < self.frozen_until_ns {
            return Err(self.frozen_until_ns);
        }
        self.memcached.set_full(now_ns < self.full_until_ns);
        self.sockets.retain(|socket| now_ns < socket.until_ns);
        let mut answers: Vec<(Wire, Vec<u8>)> = Vec::new();
        loop {
            let is_waiting = |it: &usize| {
                let socket = &self.sockets[*it];
                socket.stuck_until_ns <= now_ns && !socket.inbox.is_empty()
            };
            let waiting: Vec<_> = (0..self.sockets.len()).filter(is_waiting).collect();
            let next = if waiting.len() > 1 { waiting.choose(rng) } else { waiting.first() };
            let Some(&next) = next else { return Ok(answers) };
            let socket = &mut self.sockets[next];
            let bytes = socket.inbox.pop_front().expect("something waits there");
            let place = answers.iter().position(|(wire, _)| *wire == socket.wire).unwrap_or_else(|| {
                answers.push((socket.wire, Vec::new()));
                answers.len() - 1
            });
            if socket.wants_login {
                socket.unread.extend_from_slice(&bytes);
                answer_stranger(&mut socket.unread, &mut answers[place].1);
                continue;
            }
            if self.knows_no_settings && socket.closes_at(&bytes) {
                self.closed.push(socket.wire);
                self.sockets.remove(next);
                continue;
            }
            let answer = &mut answers[place].1;
            let begin = answer.len();
            self.memcached.handle_bytes(&mut socket.connection, &bytes, answer);
            if let Some((oddity, until_ns)) = self.odd
                && now_ns < until_ns
            {
                let odd = oddity.befall(&answer[begin..], rng);
                answer.splice(begin.., odd);
            }
        }
    }

    /// Whether it closes this connection in the middle of this answer.
    pub(super) fn closes_within(&mut self, wire: Wire, answer: &[u8]) -> bool {
        let closes = self.closes_within && answer.len() > 1;
        if closes {
            self.closes_within = false;
            self.sockets.retain(|socket| socket.wire != wire);
        }
        closes
    }

    /// How much later than usual it answers.
    pub(super) fn lateness_ns(&self, now_ns: u64) -> u64 {
        if now_ns < self.late_until_ns { self.extra_ns } else { 0 }
    }
}

impl Oddity {
    /// What becomes of replies: of those to `get` only, for they change nothing.
    fn befall(self, mut replies: &[u8], rng: &mut SmallRng) -> Vec<u8> {
        let (mut odd, mut values) = (Vec::new(), Vec::new());
        while !replies.is_empty() {
            let (len, is_value) = piece(replies);
            let (piece, rest) = replies.split_at(len);
            replies = rest;
            if is_value {
                values.push(piece);
                continue;
            }
            let mut last = piece;
            if !values.is_empty() && rng.random_bool(0.5) {
                match self {
                    Self::Disorder => values.shuffle(rng),
                    Self::Error => {
                        values.truncate(rng.random_range(0..values.len()));
                        last = b"SERVER_ERROR out of memory writing get response\r\n";
                    }
                    Self::Foreign => {
                        values.insert(rng.random_range(0..=values.len()), b"VALUE foreign 0 1\r\nx\r\n");
                    }
                }
            }
            odd.extend(values.drain(..).flatten());
            odd.extend_from_slice(last);
        }
        odd
    }
}

/// Length of the line in front, with the data behind it, and whether it is a value of a `get`: such a line has no token.
fn piece(replies: &[u8]) -> (usize, bool) {
    let end = replies.iter().position(|&byte| byte == b'\n').map_or(replies.len(), |at| at + 1);
    let words: Vec<_> = replies[..end].trim_ascii().split(|&byte| byte == b' ').collect();
    let data = match words[..] {
        [b"VALUE", _, _, data, ..] | [b"VA", data, ..] => std::str::from_utf8(data).ok(),
        _ => None,
    };
    let data = data.and_then(|len| len.parse::<usize>().ok());
    (data.map_or(end, |len| end + len + 2).min(replies.len()), words[0] == b"VALUE" && words.len() == 4)
}

//! A dataplane in steady state: the same clients ask over and over, the servers answer at once, and nothing else happens. For counting
//! what a request costs: the same every time, with nothing of the kernel's, and hardly anything of the driver's own.

use std::sync::Arc;

use weir_dataplane::{Config, Dataplane, Event, Login, SessionId};
use weir_routing::{Placement, Router, Server};
use weir_timing::Instant;

/// What is asked for, over and over.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Load {
    /// Connections.
    pub clients: usize,
    /// Requests that each sends at once, before it waits for all their replies.
    pub depth: usize,
    /// Keys of each get.
    pub keys: usize,
    /// One of this many requests is a `set`; 0: none.
    pub set_every: usize,
    /// Length of each value, in bytes.
    pub value_bytes: usize,
    /// Servers behind the proxy.
    pub servers: usize,
}

/// Different keys.
const KEYS: usize = 1_000;

/// Between a turn and the next, at least: all of a request's stages have a length.
const TURN_NS: u64 = 10_000;

/// It may be that much longer, for hardly two lengths are the same in reality. A power of two.
const VARIATION_NS: u64 = 8_192;

/// A dataplane with its clients and servers.
pub struct Steady {
    dataplane: Dataplane,
    sessions: Vec<SessionId>,
    /// What a client sends at once, for several turns.
    bursts: Vec<Vec<u8>>,
    block: Vec<u8>,
    replies: Vec<u8>,
    turn: usize,
    now_ns: u64,
    lengths: Lengths,
    load: Load,
}

impl Steady {
    /// All are connected, and nothing was asked for yet.
    pub fn new(load: Load) -> Self {
        let servers =
            (1..=load.servers).map(|number| Server::new(format!("127.0.0.1:{number}"), 1)).collect();
        let router = Router::new(servers, Placement::Ketama, 1).expect("servers are a pool");
        let mut dataplane = Dataplane::new(Config::default(), Arc::new(router.into()), Instant::ZERO);
        while let Some(event) = dataplane.poll_event() {
            if let Event::Connect(server) = event {
                dataplane.handle_server_connected(server, Instant::ZERO);
            }
        }
        let accept = |_| dataplane.handle_accept(Login::Wanted, Instant::ZERO).expect("there is room");
        let sessions = (0..load.clients).map(accept).collect();
        let mut block = vec![b'x'; load.value_bytes];
        block.extend_from_slice(b"\r\n");
        let bursts = (0..KEYS / 10).map(|number| burst(load, number)).collect();
        Self {
            dataplane,
            sessions,
            bursts,
            block,
            replies: Vec::new(),
            turn: 0,
            now_ns: 0,
            lengths: Lengths(1),
            load,
        }
    }

    /// Each client asks once, and gets its replies. Returns how many requests that were.
    pub fn turn(&mut self) -> usize {
        for (place, &id) in self.sessions.iter().enumerate() {
            let burst = &self.bursts[(self.turn + place) % self.bursts.len()];
            self.now_ns += self.lengths.next_ns() / 10;
            self.dataplane.handle_client_bytes(id, burst, Instant::from_nanos(self.now_ns));
        }
        self.pass();
        let (mut server, mut now) = (None, self.pass());
        while let Some(next) = self.dataplane.poll_server_output(server, now) {
            let sent = self.dataplane.server_output(next);
            self.replies.clear();
            answer(sent, &self.block, &mut self.replies);
            let count = sent.len();
            now = now.plus(self.lengths.next_ns() / 10);
            self.dataplane.handle_server_written(next, count, now);
            self.now_ns = now.as_nanos() + self.lengths.next_ns();
            self.dataplane.handle_server_bytes(next, &self.replies, Instant::from_nanos(self.now_ns));
            server = Some(next);
        }
        let now = self.pass();
        while let Some(id) = self.dataplane.poll_client_output() {
            let count = self.dataplane.client_output(id).len();
            self.dataplane.handle_client_written(id, count, now);
        }
        assert!(self.dataplane.poll_event().is_none(), "nothing happens in a steady state");
        self.turn += 1;
        self.load.clients * self.load.depth
    }

    /// Some time passes.
    fn pass(&mut self) -> Instant {
        self.now_ns += self.lengths.next_ns();
        let now = Instant::from_nanos(self.now_ns);
        self.dataplane.handle_time(now);
        now
    }

    /// Requests that were taken, and failures.
    pub fn counts(&self) -> (u64, u64) {
        let counters = self.dataplane.report(Instant::from_nanos(self.now_ns)).counters;
        (counters.requests, counters.requests_failed + counters.requests_refused)
    }
}

/// How long stages take: hardly ever the same twice, and the same in every replay.
struct Lengths(u64);

impl Lengths {
    fn next_ns(&mut self) -> u64 {
        // The multiplier of Knuth's MMIX generator; its upper bits are the random ones.
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        TURN_NS + (self.0 >> 32) % VARIATION_NS
    }
}

/// What a client sends at once.
fn burst(load: Load, number: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    for request in 0..load.depth {
        let place = number * 7 + request * load.keys;
        if load.set_every > 0 && (number + request).is_multiple_of(load.set_every) {
            bytes.extend_from_slice(format!("set {} 0 0 {}\r\n", key(place), load.value_bytes).as_bytes());
            bytes.resize(bytes.len() + load.value_bytes, b'x');
            bytes.extend_from_slice(b"\r\n");
        } else {
            bytes.extend_from_slice(b"get");
            for ordinal in 0..load.keys {
                bytes.extend_from_slice(format!(" {}", key(place + ordinal)).as_bytes());
            }
            bytes.extend_from_slice(b"\r\n");
        }
    }
    bytes
}

fn key(place: usize) -> String {
    format!("key:{:012}", place % KEYS)
}

/// What a server that has everything says to these messages.
fn answer(mut messages: &[u8], block: &[u8], replies: &mut Vec<u8>) {
    while let Some(end) = messages.iter().position(|&byte| byte == b'\n') {
        let (line, rest) = messages.split_at(end + 1);
        messages = rest;
        if line.starts_with(b"set ") {
            messages = &messages[block.len()..];
            replies.extend_from_slice(b"STORED\r\n");
            continue;
        }
        let keys = line[..line.len() - 2].split(|&byte| byte == b' ').skip(1);
        for key in keys {
            replies.extend_from_slice(b"VALUE ");
            replies.extend_from_slice(key);
            replies.extend_from_slice(b" 0 ");
            append_number(block.len() - 2, replies);
            replies.extend_from_slice(b"\r\n");
            replies.extend_from_slice(block);
        }
        replies.extend_from_slice(b"END\r\n");
    }
}

fn append_number(number: usize, out: &mut Vec<u8>) {
    if number >= 10 {
        append_number(number / 10, out);
    }
    out.push(b'0' + u8::try_from(number % 10).expect("a digit"));
}

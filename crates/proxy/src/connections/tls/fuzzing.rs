//! What `fuzz/` checks of the seam: a session of ours, a socket, and rustls' own end of the connection, in any course of events.
//!
//! An input is text. Its first line says what there is: `s`: ours is the end towards a server, else towards a client; `2`: TLS 1.2; `a`: ours
//! demands a certificate that the peer has not. Then each byte is an event, some with a number behind them (a digit stands for 0 to 70,000,
//! any other byte for itself):
//!
//! | event | what happens |
//! |---|---|
//! | `w`N | the peer says N bytes |
//! | `f`N, `F` | N bytes of what the peer has encrypted reach us, or all |
//! | `x`N | the next of them is changed |
//! | `p`, `<`…`>` | plain bytes reach us: a request, or those between |
//! | `o`N, `l`N | we say N bytes, in messages of 100 bytes, or in one |
//! | `r` | the peer reads |
//! | `t` | what belongs to no reply is sent |
//! | `c`, `e`, `d` | the peer says that it ends, sends nothing more, is gone |
//!
//! Whatever happens: what is handed over is the beginning of what was said, each byte once and in its order, on either side; what is over
//! stays over; and reading ends. If nothing went wrong, all that was said arrives.

use super::{
    files::Named,
    inbound::Inbound,
    line::Line,
    news::News,
    outbound::{Outbound, Terms},
    session::{Session, Shaken},
};
use crate::connections::{
    sockets::Stream,
    transport::{Arrived, Over, Transport as _},
};
use rustls::{
    ClientConfig, ClientConnection, Connection, ServerConfig, ServerConnection, crypto::ring,
    pki_types::ServerName,
};
use std::{
    io::{Read as _, Write as _},
    net::Shutdown,
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    sync::{Arc, LazyLock},
};
use weir_routing::Endpoint;

/// Runs an input.
///
/// # Panics
///
/// If something arrives that was not said, or does not that was, or reading does not end.
pub fn check(input: &[u8]) {
    let mut parts = input.splitn(2, |byte| *byte == b'\n');
    let (head, script) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let mut world = World::new(Kind {
        towards_server: head.contains(&b's'),
        is_old: head.contains(&b'2'),
        demands: head.contains(&b'a'),
    });
    let mut script = script.iter().copied();
    while let Some(event) = script.next() {
        world.take(event, &mut script);
    }
    world.settle();
}

/// What there is.
#[derive(Clone, Copy)]
struct Kind {
    towards_server: bool,
    is_old: bool,
    demands: bool,
}

/// Both ends of a connection. What each says is one long text, [`text`].
struct World {
    kind: Kind,
    peer: Connection,
    socket: Option<UnixStream>,
    stream: Stream,
    session: Box<Session>,
    scratch: Vec<u8>,
    /// What the peer has encrypted and has not reached us.
    pending: Vec<u8>,
    peer_said: usize,
    we_heard: usize,
    we_said: usize,
    /// Up to where we have tried to say it.
    we_offered: usize,
    peer_heard: usize,
    peer_has_ended: bool,
    /// Something was done that may keep bytes from arriving.
    is_spoilt: bool,
    over: Option<Over>,
    news: usize,
}

/// No more is said by one end.
const SAID_MAX: usize = 1 << 20;

/// More reads than this of one event have no end: what there is fits a few.
const READS_MAX: usize = 1000;

impl World {
    fn new(kind: Kind) -> Self {
        let (socket, ours) = UnixStream::pair().expect("descriptors are free");
        [&socket, &ours].iter().for_each(|end| end.set_nonblocking(true).expect("a socket"));
        let (peer, session) = if kind.towards_server { towards_server(kind) } else { towards_client(kind) };
        Self {
            kind,
            peer,
            socket: Some(socket),
            stream: Stream::Unix(mio::net::UnixStream::from_std(ours)),
            session,
            scratch: vec![0; 128 << 10],
            pending: Vec::new(),
            peer_said: 0,
            we_heard: 0,
            we_said: 0,
            we_offered: 0,
            peer_heard: 0,
            peer_has_ended: false,
            is_spoilt: kind.demands,
            over: None,
            news: 0,
        }
    }

    fn take(&mut self, event: u8, script: &mut impl Iterator<Item = u8>) {
        match event {
            b'w' => self.peer_says(number(script)),
            b'f' => self.forward(number(script)),
            b'F' => self.forward(usize::MAX),
            b'x' => self.spoil(number(script)),
            b'p' => self.plain(b"version\r\n"),
            b'<' => {
                let bytes: Vec<_> = script.take_while(|byte| *byte != b'>').collect();
                self.plain(&bytes);
            }
            b'o' => self.say(number(script), 100),
            b'l' => self.say(number(script), usize::MAX),
            b'r' => self.peer_reads(),
            b't' => self.tend(),
            b'c' => {
                self.peer.send_close_notify();
                self.peer_has_ended = true;
            }
            b'e' => self.leave(|socket| drop(socket.shutdown(Shutdown::Write))),
            b'd' => {
                self.leave(|_| ());
                self.socket = None;
                self.read();
            }
            _ => {}
        }
        self.collect();
    }

    /// What is on its way arrives, if nothing was spoilt.
    fn settle(mut self) {
        for _ in 0..READS_MAX {
            let before = (self.we_heard, self.peer_heard, self.we_said);
            self.say(self.we_offered - self.we_said, usize::MAX);
            self.tend();
            self.peer_reads();
            self.collect();
            self.forward(usize::MAX);
            if self.is_spoilt || self.peer_has_ended || self.over.is_some() {
                return;
            }
            if before == (self.we_heard, self.peer_heard, self.we_said)
                && self.pending.is_empty()
                && !self.is_shaking()
            {
                break;
            }
        }
        if !self.is_spoilt {
            assert!(!self.is_shaking(), "the handshake does not end");
            assert_eq!(
                (self.we_heard, self.peer_heard),
                (self.peer_said, self.we_said),
                "something was lost"
            );
        }
    }

    fn is_shaking(&self) -> bool {
        self.session.is_shaking() || self.peer.is_handshaking()
    }

    // ── the peer ───────────────────────────────────────────────────────────────────────────────────────────────────────────

    fn peer_says(&mut self, count: usize) {
        let end = SAID_MAX.min(self.peer_said + count);
        if let Ok(taken) = self.peer.writer().write(&text(self.peer_said, end)) {
            self.peer_said += taken;
        }
    }

    /// What the peer has encrypted is on its way.
    fn collect(&mut self) {
        while self.peer.wants_write() {
            self.peer.write_tls(&mut self.pending).expect("a vector takes all");
        }
    }

    fn forward(&mut self, count: usize) {
        let bytes: Vec<_> = self.pending[..count.min(self.pending.len())].to_vec();
        let taken = self.put(&bytes);
        self.pending.drain(..taken);
        self.read();
    }

    fn put(&mut self, bytes: &[u8]) -> usize {
        self.socket.as_mut().and_then(|socket| socket.write(bytes).ok()).unwrap_or(0)
    }

    fn spoil(&mut self, change: usize) {
        if let Some(byte) = self.pending.first_mut() {
            *byte ^= (change % 255 + 1) as u8;
            self.is_spoilt = true;
        }
    }

    fn plain(&mut self, bytes: &[u8]) {
        self.is_spoilt |= !bytes.is_empty();
        self.put(bytes);
        self.read();
    }

    /// Nothing of what is on its way comes any more.
    fn leave(&mut self, how: impl Fn(&UnixStream)) {
        self.is_spoilt = true;
        self.socket.iter().for_each(how);
        self.read();
    }

    fn peer_reads(&mut self) {
        // rustls asserts that who has ended meets no error any more.
        if self.peer_has_ended {
            return;
        }
        for _ in 0..READS_MAX {
            let Some(socket) = &mut self.socket else { return };
            let read = self.peer.read_tls(socket);
            if self.peer.process_new_packets().is_err() {
                assert!(self.is_spoilt || self.over.is_some(), "what we sent is no TLS");
                return;
            }
            let mut heard = Vec::new();
            // It ends with an error while the connection is open.
            let _ = self.peer.reader().read_to_end(&mut heard);
            assert!(
                heard == text(self.peer_heard, self.peer_heard + heard.len()),
                "the peer hears what we did not say"
            );
            self.peer_heard += heard.len();
            assert!(self.peer_heard <= self.we_offered, "the peer hears more than we have said");
            match read {
                Ok(count) if count > 0 => {}
                _ => return,
            }
        }
        panic!("the peer reads without end");
    }

    // ── our end ────────────────────────────────────────────────────────────────────────────────────────────────────────────

    /// As a loop reads: until nothing is left.
    fn read(&mut self) {
        if self.kind.towards_server && self.session.is_shaking() && self.over.is_none() {
            match self.session.shake(&self.stream) {
                Shaken::Done | Shaken::Open => {}
                Shaken::Failed(_) => self.over = Some(Over::Broken),
            }
            // What came with the end of the handshake is read when the connection is up; no server says anything before that.
            return;
        }
        for _ in 0..READS_MAX {
            let mut line = Line::new(&self.stream, Some(&mut self.session));
            let arrived = line.read(&mut self.scratch, None);
            let (has_more, wants_write) = (line.has_buffered(), line.wants_write());
            if wants_write {
                self.tend();
            }
            match (arrived, self.over) {
                (Arrived::Over(over), None) => return self.over = Some(over),
                (Arrived::Over(_), Some(_)) => return,
                (Arrived::Bytes(count), None) => self.hear(count),
                (Arrived::Nothing, None) if has_more => {}
                (Arrived::Nothing, None) => return,
                // A session that could not do its handshake is read no more.
                (_, Some(_)) => return assert!(self.kind.towards_server, "something comes behind the end"),
            }
        }
        panic!("it is read without end");
    }

    fn hear(&mut self, count: usize) {
        let expected = text(self.we_heard, self.we_heard + count);
        assert!(self.scratch[..count] == expected, "we hear what the peer did not say");
        self.we_heard += count;
        assert!(self.we_heard <= self.peer_said, "we hear more than the peer has said");
    }

    /// Offers what was offered before and not taken, and this many bytes more.
    fn say(&mut self, count: usize, message: usize) {
        if self.over.is_some() {
            return;
        }
        self.we_offered = self.we_offered.max(SAID_MAX.min(self.we_said + count));
        let bytes = text(self.we_said, self.we_offered);
        let mut line = Line::new(&self.stream, Some(&mut self.session));
        let written = if self.kind.towards_server {
            let ends =
                || (1..).map(|number| bytes.len().min(message.saturating_mul(number))).take(bytes.len() + 1);
            line.write_messages(&bytes, ends)
        } else {
            line.write(&bytes)
        };
        match written {
            Ok(count) => {
                assert!(count <= bytes.len(), "more is written than there was");
                self.we_said += count;
            }
            Err(_) => self.is_spoilt = true,
        }
    }

    fn tend(&mut self) {
        if let Some(news) = self.session.tend(&self.stream).news() {
            self.news += 1;
            assert!(self.news <= 2, "{news:?} comes too late");
            // A peer that says that it ends has ended well, and so is what it says no more.
            self.is_spoilt |= !matches!(news, News::Shaken { .. });
        }
    }
}

/// Bytes of what either end says, from one place to another. No part of it is like another.
fn text(from: usize, to: usize) -> Vec<u8> {
    (from..to).map(|place| ((place as u32).wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

fn number(script: &mut impl Iterator<Item = u8>) -> usize {
    const DIGITS: [usize; 10] = [0, 1, 2, 5, 20, 100, 1000, 5000, 17_000, 70_000];
    match script.next() {
        None => 0,
        Some(digit @ b'0'..=b'9') => DIGITS[usize::from(digit - b'0')],
        Some(other) => usize::from(other),
    }
}

// ── what sessions begin with ───────────────────────────────────────────────────────────────────────────────────────────────

/// A certificate of `localhost` with its key, and the authority that signed it: those of the unit tests.
fn file(name: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src/connections/tls/tests")).join(name)
}

fn version(kind: Kind) -> &'static rustls::SupportedProtocolVersion {
    if kind.is_old { &rustls::version::TLS12 } else { &rustls::version::TLS13 }
}

fn inbound(demands: bool) -> Inbound {
    let (both, ca) = (file("both.pem"), file("ca.pem"));
    let chain = Named::new("tls-cert", &both);
    let authorities = demands.then_some(Named::new("tls-client-ca", &ca));
    Inbound::read(chain, chain, authorities, usize::MAX).expect("the files are good")
}

/// A client of rustls', and our session with it.
fn towards_client(kind: Kind) -> (Connection, Box<Session>) {
    static OPEN: LazyLock<Inbound> = LazyLock::new(|| inbound(false));
    static DEMANDING: LazyLock<Inbound> = LazyLock::new(|| inbound(true));
    let ca = file("ca.pem");
    let authorities = Named::new("ca", &ca).authorities().expect("the file is good");
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[version(kind)])
        .expect("ring has both")
        .with_root_certificates(authorities)
        .with_no_client_auth();
    let name = ServerName::try_from("localhost").expect("it is a name");
    let peer = ClientConnection::new(Arc::new(config), name).expect("the terms are good");
    let session = if kind.demands { DEMANDING.begin(None) } else { OPEN.begin(None) };
    (peer.into(), session.expect("there is a place"))
}

/// A server of rustls', and our session with it.
fn towards_server(kind: Kind) -> (Connection, Box<Session>) {
    static OURS: LazyLock<Outbound> =
        LazyLock::new(|| Outbound::read(Terms::new(file("ca.pem"), None, None)).expect("the file is good"));
    let both = file("both.pem");
    let chain = Named::new("cert", &both);
    // Our end has none to show, so who is to be refused is refused by a name that is not the server's.
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[version(kind)])
        .expect("ring has both")
        .with_no_client_auth()
        .with_single_cert(chain.certificates().expect("it has some"), chain.key().expect("it has one"))
        .expect("they belong together");
    let peer = ServerConnection::new(Arc::new(config)).expect("the terms are good");
    let host = if kind.demands { "cache.test" } else { "localhost" };
    let session = OURS.begin(&Endpoint::Tcp { host: host.into(), port: 1 });
    (peer.into(), session.expect("it has a name"))
}

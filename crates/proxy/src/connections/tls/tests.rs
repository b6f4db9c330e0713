use super::{
    files::Named,
    inbound::Inbound,
    line::Line,
    news::{Failure, News},
    outbound::{Outbound, Terms},
    session::{Session, Shaken},
};
use crate::connections::{
    sockets::Stream,
    transport::{Arrived, Over, Transport as _},
};
use proptest::prelude::*;
use rustls::{ClientConfig, ClientConnection, crypto::ring, pki_types::ServerName};
use std::{
    io::{ErrorKind, Read as _, Write as _},
    net::Shutdown,
    os::unix::net::UnixStream,
    path::Path,
    sync::Arc,
};
use weir_routing::Endpoint;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/connections/tls/tests");

/// A certificate of `localhost` with its key, and the authority that signed it; both are for these tests alone.
fn file(name: &str) -> std::path::PathBuf {
    Path::new(FOLDER).join(name)
}

fn inbound(demands_certificates: bool, handshakes_max: usize) -> Inbound {
    let (both, ca) = (file("both.pem"), file("ca.pem"));
    let chain = Named::new("tls-cert", &both);
    let authorities = demands_certificates.then_some(Named::new("tls-client-ca", &ca));
    Inbound::read(chain, chain, authorities, handshakes_max).expect("the files are good")
}

/// Both ends of a connection: a client of rustls', and a session of ours.
struct Pair {
    client: ClientConnection,
    socket: UnixStream,
    stream: Stream,
    session: Box<Session>,
    scratch: Vec<u8>,
    /// Which byte of all that the client sends is changed, and how.
    wrong: Option<(usize, u8)>,
    sent: usize,
    /// What the session has brought.
    plaintext: Vec<u8>,
    news: Vec<News>,
    /// Whether it was heard since then that the kernel takes bytes.
    takes_bytes: bool,
}

impl Pair {
    fn new(inbound: &Inbound, versions: &[&'static rustls::SupportedProtocolVersion]) -> Self {
        let ca = file("ca.pem");
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(versions)
            .expect("ring has them")
            .with_root_certificates(Named::new("ca", &ca).authorities().expect("it is one"))
            .with_no_client_auth();
        let name = ServerName::try_from("localhost").expect("a name");
        let client = ClientConnection::new(Arc::new(config), name).expect("the configuration is good");
        let (socket, ours) = UnixStream::pair().expect("descriptors are free");
        ours.set_nonblocking(true).expect("a socket");
        socket.set_nonblocking(true).expect("a socket");
        Self {
            client,
            socket,
            stream: Stream::Unix(mio::net::UnixStream::from_std(ours)),
            session: inbound.begin(None).expect("there is a place"),
            scratch: vec![0; 256 << 10],
            wrong: None,
            sent: 0,
            plaintext: Vec::new(),
            news: Vec::new(),
            takes_bytes: false,
        }
    }

    /// Reads as a loop does: until nothing is left. Returns how it ended, if it did.
    fn read(&mut self) -> Option<Over> {
        loop {
            let mut line = Line::new(&self.stream, Some(&mut self.session));
            let arrived = line.read(&mut self.scratch, None);
            let (has_more, wants_write) = (line.has_buffered(), line.wants_write());
            if wants_write {
                let tended = self.session.tend(&self.stream);
                self.takes_bytes |= tended.takes_bytes();
                self.news.extend(tended.news());
            }
            match arrived {
                Arrived::Bytes(count) => self.plaintext.extend_from_slice(&self.scratch[..count]),
                Arrived::Nothing if has_more => {}
                Arrived::Nothing => return None,
                Arrived::Over(over) => return Some(over),
            }
        }
    }

    /// Gives the session what the client has to send, in pieces of this many bytes.
    fn send(&mut self, piece: usize) -> Option<Over> {
        let mut bytes = Vec::new();
        while self.client.wants_write() {
            self.client.write_tls(&mut bytes).expect("a vector takes all");
        }
        if let Some((at, change)) = self.wrong
            && let Some(byte) = at.checked_sub(self.sent).and_then(|at| bytes.get_mut(at))
        {
            *byte ^= change;
        }
        self.sent += bytes.len();
        let mut over = None;
        for piece in bytes.chunks(piece) {
            self.socket.write_all(piece).expect("it is read at once");
            over = over.or(self.read());
        }
        over
    }

    /// Gives the client what the session has sent, and returns what came of that.
    fn receive(&mut self) -> Result<Vec<u8>, rustls::Error> {
        let mut got = Vec::new();
        loop {
            match self.client.read_tls(&mut self.socket) {
                Ok(0) => return Ok(got),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(got),
                Err(error) => panic!("{error}"),
            }
            self.client.process_new_packets()?;
            let _ = self.client.reader().read_to_end(&mut got);
        }
    }

    fn shake(&mut self, piece: usize) {
        while self.session.is_shaking() {
            assert_eq!(self.send(piece), None);
            self.receive().expect("the handshake goes on");
        }
        assert!(!self.client.is_handshaking() || self.client.wants_write());
    }

    fn write(&mut self, bytes: &[u8]) -> usize {
        Line::new(&self.stream, Some(&mut self.session)).write(bytes).expect("the connection is open")
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// Whatever is wrong with what a client sends, and wherever it is cut: what is handed over is the beginning of what was said.
    #[test]
    fn wrong_bytes_end_the_connection_and_nothing_else(
        piece in 1..700_usize,
        at in 0..2600_usize,
        change in 1..=255_u8,
        then in proptest::collection::vec(any::<u8>(), 0..200),
    ) {
        let said = b"get a\r\n".repeat(150);
        let mut pair = Pair::new(&inbound(false, 1), BOTH);
        pair.wrong = Some((at, change));
        let mut over = None;
        for _ in 0..4 {
            over = over.or(pair.send(piece));
            if pair.receive().is_err() {
                break;
            }
        }
        if !pair.client.is_handshaking() {
            // It may have heard of its mistake already.
            let _ = pair.client.writer().write_all(&said);
            over = over.or(pair.send(piece));
            pair.socket.write_all(&then).expect("the kernel takes it");
            over = over.or(pair.read());
        }
        prop_assert!(said.starts_with(&pair.plaintext));
        prop_assert!(over != Some(Over::End) && pair.news.len() <= 2, "{:?} {:?}", over, pair.news);
        if over.is_some() {
            prop_assert_eq!(pair.read(), Some(Over::Broken), "and it stays so");
        }
    }
}

const BOTH: &[&rustls::SupportedProtocolVersion] = &[&rustls::version::TLS13, &rustls::version::TLS12];

#[test]
fn records_may_be_cut_at_every_byte() {
    for version in BOTH {
        let mut pair = Pair::new(&inbound(false, 1), &[version]);
        pair.shake(1);
        assert_eq!(pair.news, [News::Shaken { resumed: false }]);
        pair.client.writer().write_all(b"get a\r\n").expect("it takes all");
        pair.client.writer().write_all(b"get b\r\n").expect("it takes all");
        assert_eq!(pair.send(1), None);
        assert_eq!(pair.plaintext, b"get a\r\nget b\r\n");
        assert_eq!(pair.write(b"END\r\nEND\r\n"), 10);
        assert_eq!(pair.receive().as_deref(), Ok(b"END\r\nEND\r\n".as_slice()));
    }
}

#[test]
fn what_a_read_brings_of_many_records_is_handed_over_whole() {
    let mut pair = Pair::new(&inbound(false, 1), BOTH);
    pair.shake(usize::MAX);
    pair.client.set_buffer_limit(None);
    let sent: Vec<u8> = (0..150_000_u32).map(|it| it as u8).collect();
    pair.client.writer().write_all(&sent).expect("it takes all");
    assert_eq!(pair.send(120_001), None);
    assert!(pair.plaintext == sent, "{} of {} bytes came", pair.plaintext.len(), sent.len());
}

/// A turn read 224 KiB of a client whatever they were: 8,000 changes of keys, with four such reads in each.
#[test]
fn what_only_changes_keys_is_read_in_small_pieces() {
    let mut pair = Pair::new(&inbound(false, 1), &[&rustls::version::TLS13]);
    pair.shake(usize::MAX);
    pair.receive().expect("tickets");
    // As many as a session of rustls' takes without a byte of anybody's between them.
    let changes = |pair: &mut Pair| {
        for _ in 0..32 {
            pair.client.refresh_traffic_keys().expect("this version has them");
        }
        pair.client.writer().write_all(b"x").expect("it takes all");
    };
    let mut bytes = Vec::new();
    while bytes.len() < 128 << 10 {
        changes(&mut pair);
        while pair.client.wants_write() {
            pair.client.write_tls(&mut bytes).expect("a vector takes all");
        }
    }
    pair.socket.write_all(&bytes).expect("so much fits the kernel");
    let mut reads = 0;
    while reads == 0 || Line::new(&pair.stream, Some(&mut pair.session)).has_buffered() {
        let arrived = Line::new(&pair.stream, Some(&mut pair.session)).read(&mut pair.scratch, None);
        assert!(matches!(arrived, Arrived::Bytes(1..1_000) | Arrived::Nothing), "{arrived:?}");
        pair.session.tend(&pair.stream);
        reads += 1;
    }
    assert_eq!(reads, bytes.len().div_ceil(16 << 10));
    assert!(pair.receive().is_ok());
    // Who sends bytes gets more room with each read that they fill.
    pair.client.set_buffer_limit(None);
    pair.client.writer().write_all(&vec![b'y'; 128 << 10]).expect("it takes all");
    let mut bytes = Vec::new();
    while pair.client.wants_write() {
        pair.client.write_tls(&mut bytes).expect("a vector takes all");
    }
    pair.socket.write_all(&bytes).expect("so much fits the kernel");
    let mut sizes = Vec::new();
    loop {
        let mut line = Line::new(&pair.stream, Some(&mut pair.session));
        match (line.read(&mut pair.scratch, None), line.has_buffered()) {
            (Arrived::Bytes(count), _) => sizes.push(count),
            // A record is a little longer than the least room.
            (Arrived::Nothing, true) => sizes.push(0),
            (_, _) => break,
        }
    }
    assert_eq!(sizes.iter().sum::<usize>(), 128 << 10, "{sizes:?}");
    assert!(sizes.len() <= 6, "{sizes:?}");
}

#[test]
fn replies_of_a_turn_are_one_record() {
    let mut pair = Pair::new(&inbound(false, 1), BOTH);
    pair.shake(usize::MAX);
    pair.receive().expect("tickets");
    assert_eq!(pair.write(&b"END\r\n".repeat(100)), 500);
    let mut bytes = [0; 4096];
    let count = pair.socket.read(&mut bytes).expect("it was written");
    let record_bytes = usize::from(u16::from_be_bytes([bytes[3], bytes[4]]));
    assert_eq!((bytes[0], 5 + record_bytes), (0x17, count));
}

#[test]
fn what_the_kernel_does_not_take_counts_as_unwritten_until_it_has() {
    let mut pair = Pair::new(&inbound(false, 1), BOTH);
    pair.shake(usize::MAX);
    let reply: Vec<u8> = (0..3_000_000_u32).map(|it| (it / 7) as u8).collect();
    let (mut written, mut got, mut was_short) = (0, Vec::new(), false);
    while written < reply.len() {
        let count = pair.write(&reply[written..]);
        let has_rest = Line::new(&pair.stream, Some(&mut pair.session)).has_rest();
        was_short |= count < reply.len() - written && !has_rest;
        written += count;
        // Until it is read nothing more is taken, whatever is offered.
        if written < reply.len() && !has_rest {
            assert_eq!(pair.write(&reply[written..]), 0);
        }
        got.extend(pair.receive().expect("all records are right"));
    }
    got.extend(pair.receive().expect("all records are right"));
    assert!(was_short && got == reply, "{} of {} bytes came", got.len(), reply.len());
}

/// A client that reads as fast as its replies are encrypted had all 64 MiB that it may be owed in one turn.
#[test]
fn a_write_ends_after_a_while_although_the_kernel_takes_more() {
    let mut pair = Pair::new(&inbound(false, 1), BOTH);
    pair.shake(usize::MAX);
    let reply = vec![b'x'; 64 << 10];
    let has_rest = |pair: &mut Pair| Line::new(&pair.stream, Some(&mut pair.session)).has_rest();
    for _ in 0..3 {
        for _ in 0..16 {
            assert_eq!(pair.write(&reply), reply.len());
            assert!(!has_rest(&mut pair));
            assert!(pair.receive().is_ok());
        }
        assert_eq!(pair.write(&reply), 0);
        assert!(has_rest(&mut pair), "the kernel would take it");
    }
}

/// Else a client that reads nothing would only have to go on talking, and nobody would know how long it has read nothing.
#[test]
fn that_something_was_read_does_not_mean_that_the_kernel_takes_bytes() {
    let mut pair = Pair::new(&inbound(false, 1), BOTH);
    pair.shake(usize::MAX);
    assert!(pair.takes_bytes, "the handshake is done");
    let reply = vec![b'x'; 3_000_000];
    let written = pair.write(&reply);
    assert!(written < reply.len());
    for _ in 0..3 {
        pair.takes_bytes = false;
        pair.client.writer().write_all(b"version\r\n").expect("it takes all");
        assert_eq!(pair.send(usize::MAX), None);
        assert!(!pair.takes_bytes && pair.session.has_something_to_say());
    }
    pair.receive().expect("all records are right");
    pair.client.writer().write_all(b"version\r\n").expect("it takes all");
    assert_eq!(pair.send(usize::MAX), None);
    assert!(pair.takes_bytes && !pair.session.has_something_to_say());
}

#[test]
fn a_client_that_speaks_no_tls_reads_that() {
    for said in [b"version\r\n".as_slice(), b"\x80", b"GET / HTTP/1.1\r\n\r\n"] {
        let mut pair = Pair::new(&inbound(false, 1), BOTH);
        pair.socket.write_all(said).expect("it is read");
        assert_eq!(pair.read(), Some(Over::Broken));
        assert_eq!(pair.news, [News::Failed(Failure::Plain)]);
        pair.session.close(&pair.stream);
        let mut got = String::new();
        pair.socket.read_to_string(&mut got).expect("it is text, and it ends");
        assert_eq!(got, "ERROR this port speaks TLS\r\n");
    }
}

#[test]
fn an_end_is_said_or_not_and_what_is_broken_is_neither() {
    let ended = |end: fn(&mut Pair)| {
        let mut pair = Pair::new(&inbound(false, 1), BOTH);
        pair.shake(usize::MAX);
        pair.news.clear();
        end(&mut pair);
        let over = pair.send(usize::MAX).or_else(|| pair.read());
        (over, pair.news, pair.plaintext)
    };
    let said = ended(|pair| {
        pair.client.writer().write_all(b"quit\r\n").expect("it takes all");
        pair.client.send_close_notify();
    });
    assert_eq!(said, (Some(Over::End), vec![], b"quit\r\n".to_vec()));
    let cut = ended(|pair| pair.socket.shutdown(Shutdown::Write).expect("it is open"));
    assert_eq!(cut, (Some(Over::End), vec![News::Cut], vec![]));
    let broken = ended(|pair| pair.socket.write_all(&[0x17, 3, 3, 0, 20, 1].repeat(8)).expect("it is read"));
    assert_eq!(broken, (Some(Over::Broken), vec![News::Broken], vec![]));
}

#[test]
fn a_handshake_has_a_place_and_an_end() {
    let inbound = inbound(true, 1);
    let mut pair = Pair::new(&inbound, BOTH);
    assert!(inbound.begin(None).is_none(), "one is under way");
    // The beginning of a message of a megabyte.
    let long = [&[0x16, 3, 1, 0x40, 0, 1, 0x10, 0, 0][..], &[0; 0x3ffc][..]].concat();
    let sent = (0..5).find_map(|_| {
        pair.socket.write_all(&long).expect("it is read");
        pair.read()
    });
    assert_eq!((sent, pair.news.as_slice()), (Some(Over::Broken), &[News::Failed(Failure::Other)][..]));
    drop(pair);
    let (mut pair, mut heard) = (Pair::new(&inbound, BOTH), None);
    let over = (0..4).find_map(|_| {
        let over = pair.send(usize::MAX);
        heard = pair.receive().err().or(heard.take());
        over
    });
    assert_eq!((over, pair.news.as_slice()), (Some(Over::Broken), &[News::Failed(Failure::Certificate)][..]));
    assert_eq!(heard, Some(rustls::Error::AlertReceived(rustls::AlertDescription::CertificateRequired)));
    assert!(inbound.begin(None).is_some());
}

#[test]
fn a_file_that_cannot_be_used_is_named_with_the_reason() {
    let refused = |chain: &str, key: &str| {
        let (chain, key) = (file(chain), file(key));
        let read = Inbound::read(Named::new("tls-cert", &chain), Named::new("tls-key", &key), None, 1);
        let text = read.err().map(|error| error.to_string()).unwrap_or_default();
        text.replace(FOLDER, "")
    };
    assert_eq!(refused("both.pem", "both.pem"), "");
    assert!(refused("none.pem", "both.pem").starts_with("--tls-cert /none.pem: it cannot be read: "));
    assert!(refused("both.pem", "ca.pem").starts_with("--tls-key /ca.pem: it has no private key"));
    assert_eq!(refused("ca.pem", "both.pem"), "--tls-key /both.pem: it is the key of another certificate");
    assert!(refused("../mod.rs", "both.pem").contains("it has no certificate"));
}

/// A client's session of ours and a server's: what rustls' own ends do not show.
#[test]
fn a_server_is_verified_and_what_is_encrypted_for_it_counts_as_sent() {
    let ca = file("ca.pem");
    let outbound = |name| Outbound::read(Terms::new(ca.clone(), None, Outbound::name(name))).expect("good");
    let somewhere = Endpoint::Tcp { host: "192.0.2.1".into(), port: 1 };
    let shake = |name| {
        let inbound = inbound(false, 1);
        let (theirs, ours) = UnixStream::pair().expect("descriptors are free");
        let [theirs, ours] = [theirs, ours].map(|socket| {
            socket.set_nonblocking(true).expect("a socket");
            Stream::Unix(mio::net::UnixStream::from_std(socket))
        });
        let mut server = inbound.begin(None).expect("there is a place");
        let mut client = outbound(name).begin(&somewhere).expect("it has a name");
        let mut scratch = vec![0; 256 << 10];
        let shaken = (0..8).map(|_| {
            let shaken = client.shake(&ours);
            let _ = server.read(&theirs, &mut scratch, None);
            let _ = server.tend(&theirs);
            shaken
        });
        let shaken = shaken.take(8).find(|shaken| *shaken != Shaken::Open);
        (shaken, client, ours, server, theirs)
    };
    let (shaken, mut client, ours, mut server, theirs) = shake("localhost");
    assert_eq!(shaken, Some(Shaken::Done));
    let message = vec![b'x'; 4 << 20];
    let ends = [1000, message.len()];
    let written = client.write_messages(&ours, &message, &mut ends.into_iter()).expect("it is open");
    let parts = (written - 1000) % (16 << 10);
    assert!(written < message.len() && parts == 0, "{written} bytes");
    let (mut scratch, mut got) = (vec![0; 256 << 10], 0);
    while got < written {
        match server.read(&theirs, &mut scratch, None) {
            Arrived::Bytes(count) => got += count,
            Arrived::Nothing => assert_eq!(client.tend(&ours).news(), None),
            Arrived::Over(over) => panic!("{over:?}"),
        }
    }
    assert_eq!(got, written);
    let (shaken, ..) = shake("cache.test");
    let Some(Shaken::Failed(reason)) = shaken else { panic!("{shaken:?}") };
    assert!(reason.starts_with("its certificate does not have its name"), "{reason}");
}

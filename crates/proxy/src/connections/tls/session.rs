//! One connection that speaks TLS: its handshake, its records, its end.
//!
//! ```text
//!   Shaking ── handshake done ──▶ Open ── the peer ends, or breaks a rule ──▶ Over
//!      │ too long, not TLS, no certificate ────────────────────────────────────▲
//!
//!   reading:  kernel ──▶ scratch, behind HEADROOM ──▶ rustls ──▶ scratch, from its beginning
//!   writing:  reply ──▶ rustls: records ──▶ kernel        what the kernel does not take is kept, and nothing more is taken before it has gone
//! ```
//!
//! A [`Session`] owns what rustls knows of a connection, and which of the bytes that it was given are not counted as written yet. It is
//! asked to read and to write through the socket that belongs to it, and tells what became of the connection ([`News`]).
//!
//! What is decrypted is handed over at once: all that a read brings fits into the scratch buffer, because no record gets longer by that. So
//! a client that is not read keeps its bytes in the kernel, as without TLS. What is encrypted and not with the kernel is at most
//! [`CHUNK_BYTES`] and a little.

use crate::connections::{
    sockets::{self, Stream},
    tls::{
        certificate_names::certificate_names,
        handshake_places::HandshakePlace,
        news::{Failure, News},
        records::{RECORD_BYTES_MAX, Records},
    },
    transport::{Arrived, Ended, Over, Stamps, Transport},
};
use rustls::{
    AlertDescription, CertificateError, ClientConnection, Connection, Error, HandshakeKind, ServerConnection,
};
use std::{
    io::{self, ErrorKind, IoSlice, Read as _, Write as _},
    mem,
};

/// More than a record: what rustls keeps of an incomplete one may come out together with what is read now.
const HEADROOM: usize = 32 << 10;

/// What one read may bring of a handshake, and what all of it may: a client's chain of certificates is a few KiB.
const HANDSHAKE_BYTES_MAX: usize = 32 << 10;

/// What one read may bring of an open connection at first, and behind a read that brought less of anybody's bytes than of TLS itself. A record
/// of 27 bytes can make both ends derive new keys, so what a turn reads of a connection must be little until it is known to be worth it.
const ROOM_BYTES_LEAST: usize = 16 << 10;

/// What it may bring where the peer fills its room with bytes.
const ROOM_BYTES_MOST: usize = 64 << 10;

/// What is encrypted before the kernel is asked: four records.
const CHUNK_BYTES: usize = 64 << 10;

/// What is encrypted of one client's replies before it is another turn's. A client on the same machine may read as fast as that goes.
const TURN_BYTES: usize = 1 << 20;

/// The type of the first record of a connection.
const HANDSHAKE_RECORD: u8 = 0x16;

/// What a client reads that does not speak TLS. It always fits a new socket's buffer.
const PLAIN_ANSWER: &[u8] = b"ERROR this port speaks TLS\r\n";

#[derive(Debug)]
pub(crate) struct Session {
    tls: Connection,
    state: State,
    news: Option<News>,
    /// How many of the bytes to be written next are encrypted: not all of that is with the kernel.
    owed: usize,
    /// The last write ended because of [`TURN_BYTES`], and not because the kernel takes no more.
    has_rest: bool,
    /// What was encrypted of replies since that was so, in however many writes.
    since_rest: usize,
    /// Towards a server: the last record ended within a message.
    is_within_message: bool,
    /// The last read filled its room, or something is left of it.
    has_more: bool,
    /// What the next read may bring, from [`ROOM_BYTES_LEAST`] to [`ROOM_BYTES_MOST`].
    room_bytes: usize,
    /// What was wrong with what the peer sent.
    error: Option<Error>,
}

/// What came of sending what belongs to no reply.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Tended {
    news: Option<News>,
    takes_bytes: bool,
}

impl Tended {
    /// What has become of the connection since it was asked last.
    pub(crate) fn news(&self) -> Option<News> {
        self.news
    }

    /// Whether the kernel has taken something, or says that it never will again: who has waited to write is to try. That something was read
    /// says nothing of this.
    pub(crate) fn takes_bytes(&self) -> bool {
        self.takes_bytes
    }
}

/// How far a handshake with a server is.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Shaken {
    Done,
    Open,
    /// For this reason, as an operator reads it.
    Failed(String),
}

#[derive(Debug)]
enum State {
    Shaking { received: usize, _place: Option<HandshakePlace> },
    Open,
    Over(Over),
}

impl Session {
    /// Of a client that has connected.
    pub(super) fn of_client(mut connection: ServerConnection, place: HandshakePlace) -> Self {
        connection.set_buffer_limit(Some(CHUNK_BYTES));
        Self::new(connection.into(), Some(place))
    }

    /// Of a server that is being connected to.
    pub(super) fn of_server(mut connection: ClientConnection) -> Self {
        // A limit of rustls' would cut records where they must not be.
        connection.set_buffer_limit(None);
        Self::new(connection.into(), None)
    }

    fn new(tls: Connection, place: Option<HandshakePlace>) -> Self {
        let state = State::Shaking { received: 0, _place: place };
        Self {
            tls,
            state,
            news: None,
            owed: 0,
            has_rest: false,
            since_rest: 0,
            is_within_message: false,
            has_more: false,
            room_bytes: ROOM_BYTES_LEAST,
            error: None,
        }
    }

    /// Whether the handshake is not done yet.
    #[inline]
    pub(crate) fn is_shaking(&self) -> bool {
        matches!(self.state, State::Shaking { .. })
    }

    /// The names of the certificate that the peer has shown, and that was verified.
    pub(crate) fn certificate_names(&self) -> Vec<String> {
        let shown = self.tls.peer_certificates().and_then(|chain| chain.first());
        shown.map_or_else(Vec::new, certificate_names)
    }

    // ── reading ────────────────────────────────────────────────────────────────────────────────────────────────────────────

    /// Reads once, and decrypts what came.
    // A call of its own: inlined, it would cost connections without TLS the registers that it needs. So here and below.
    #[inline(never)]
    pub(super) fn read(
        &mut self,
        stream: &Stream,
        scratch: &mut [u8],
        stamps: Option<&mut Stamps>,
    ) -> Arrived {
        self.has_more = false;
        if let State::Over(over) = self.state {
            return Arrived::Over(over);
        }
        let room_max = if self.is_shaking() { HANDSHAKE_BYTES_MAX } else { self.room_bytes };
        let end = scratch.len().min(HEADROOM + room_max);
        let Some(room) = scratch.get_mut(HEADROOM..end) else { return Arrived::Nothing };
        let room_bytes = room.len();
        let mut socket = stream;
        let count = match socket.read(room, stamps) {
            Arrived::Bytes(count) => count,
            Arrived::Nothing => return Arrived::Nothing,
            Arrived::Over(over) => return self.end(over),
        };
        self.has_more = count == room_bytes;
        if self.is_plain(room[0]) {
            self.answer_plain(stream);
            return Arrived::Nothing;
        }
        let decrypted = self.decrypt(scratch, HEADROOM + count);
        if decrypted < count / 2 {
            self.room_bytes = ROOM_BYTES_LEAST;
        } else if self.has_more {
            self.room_bytes = ROOM_BYTES_MOST.min(2 * self.room_bytes);
        }
        self.look_at_handshake(count);
        if decrypted > 0 { Arrived::Bytes(decrypted) } else { Arrived::Nothing }
    }

    /// Whether a read would bring something that the kernel does not announce.
    #[inline]
    pub(super) fn has_buffered(&self) -> bool {
        self.has_more
    }

    /// Decrypts what stands in `scratch` from [`HEADROOM`] to `end`, and returns how many bytes stand at its beginning then.
    fn decrypt(&mut self, scratch: &mut [u8], end: usize) -> usize {
        let (mut from, mut to) = (HEADROOM, 0);
        while from < end {
            let mut records = &scratch[from..end];
            match self.tls.read_tls(&mut records) {
                // What comes after the peer's end of the connection is not looked at.
                Ok(0) | Err(_) => break,
                Ok(count) => from += count,
            }
            let processed = self.tls.process_new_packets();
            loop {
                // `from` is at least as far: plaintext is shorter than its record.
                match self.tls.reader().read(&mut scratch[to..from]) {
                    Ok(count) if count > 0 => to += count,
                    _ => break,
                }
            }
            match processed {
                // Nobody who ends a handshake so has said anything.
                Ok(state) if state.peer_has_closed() && self.tls.is_handshaking() => {
                    self.fail(Failure::Alert);
                }
                Ok(state) if state.peer_has_closed() => self.finish(),
                Ok(_) => {}
                Err(error) => {
                    self.fail(Failure::of(&error));
                    self.error = Some(error);
                    break;
                }
            }
        }
        to
    }

    /// The peer has said its last word, perhaps together with the end of its handshake.
    fn finish(&mut self) {
        self.look_at_handshake(0);
        self.become_over(Over::End);
    }

    /// What a read of this many bytes has done for the handshake, while there is one.
    #[inline]
    fn look_at_handshake(&mut self, count: usize) {
        let State::Shaking { received, .. } = &mut self.state else { return };
        *received += count;
        if !self.tls.is_handshaking() {
            let resumed = self.tls.handshake_kind() == Some(HandshakeKind::Resumed);
            self.state = State::Open;
            self.news = Some(News::Shaken { resumed });
        } else if *received > HANDSHAKE_BYTES_MAX {
            self.fail(Failure::Other);
        }
    }

    /// Whether this is the first byte of a client that does not speak TLS.
    fn is_plain(&self, first: u8) -> bool {
        let is_first = matches!(self.state, State::Shaking { received: 0, .. });
        is_first && first != HANDSHAKE_RECORD && matches!(self.tls, Connection::Server(_))
    }

    #[cold]
    fn answer_plain(&mut self, stream: &Stream) {
        let _ = sockets::write(stream, PLAIN_ANSWER);
        self.fail(Failure::Plain);
    }

    /// Nothing more comes from the kernel.
    fn end(&mut self, over: Over) -> Arrived {
        match (&self.state, over) {
            (State::Shaking { .. }, _) => self.fail(Failure::Other),
            (_, Over::End) => {
                self.news = Some(News::Cut);
                self.become_over(over);
            }
            (..) => self.become_over(over),
        }
        self.has_more = false;
        Arrived::Over(if let State::Over(over) = self.state { over } else { over })
    }

    fn fail(&mut self, failure: Failure) {
        self.news = Some(if self.is_shaking() { News::Failed(failure) } else { News::Broken });
        self.become_over(Over::Broken);
    }

    /// The next read says so.
    fn become_over(&mut self, over: Over) {
        self.state = State::Over(over);
        self.has_more = true;
    }

    // ── writing ────────────────────────────────────────────────────────────────────────────────────────────────────────────

    /// Encrypts bytes and hands them to the kernel. Those count as written of which the kernel has everything; so the others are
    /// the first of those that are to be written next. It may end although the kernel takes more ([`Session::has_rest`]).
    #[inline(never)]
    pub(super) fn write(&mut self, stream: &Stream, bytes: &[u8]) -> Result<usize, Ended> {
        self.has_rest = false;
        if self.is_shaking() || !self.flush(stream)? {
            return Ok(0);
        }
        let mut written = mem::take(&mut self.owed).min(bytes.len());
        while written < bytes.len() {
            if self.since_rest >= TURN_BYTES {
                (self.has_rest, self.since_rest) = (true, 0);
                break;
            }
            let chunk = &bytes[written..bytes.len().min(written + CHUNK_BYTES)];
            let taken = self.tls.writer().write(chunk).unwrap_or(0);
            if taken == 0 {
                break;
            }
            self.since_rest += taken;
            if !self.flush(stream)? {
                self.owed = taken;
                break;
            }
            written += taken;
        }
        Ok(written)
    }

    /// Whether the last write is to go on in the next turn, of which the kernel will tell nothing.
    #[inline]
    pub(super) fn has_rest(&self) -> bool {
        self.has_rest
    }

    // ── towards servers ────────────────────────────────────────────────────────────────────────────────────────────────────

    /// Encrypts messages for a server, each of which ends at one of `ends`, and hands them to the kernel. What is encrypted counts as
    /// written: whole records of it may be with the server, which may carry them out.
    pub(super) fn write_messages(
        &mut self,
        stream: &Stream,
        bytes: &[u8],
        ends: &mut dyn Iterator<Item = usize>,
    ) -> Result<usize, Ended> {
        let mut records = Records::new(bytes.len(), ends, self.is_within_message);
        let mut written = 0;
        while !self.is_shaking() && self.flush(stream)? && written < bytes.len() {
            let enough = written + CHUNK_BYTES - RECORD_BYTES_MAX;
            while written < bytes.len().min(enough) {
                let record = &bytes[written..records.end_from(written)];
                self.is_within_message = records.is_within();
                // All of it, or nothing if the connection is over: there is no limit to what waits but this one.
                let taken = self.tls.writer().write(record).unwrap_or(0);
                if taken == 0 {
                    return Ok(written);
                }
                written += taken;
            }
        }
        Ok(written)
    }

    /// Goes on with the handshake, as far as the kernel has what it needs.
    #[cold]
    pub(crate) fn shake(&mut self, stream: &Stream) -> Shaken {
        let mut scratch = vec![0; HEADROOM + HANDSHAKE_BYTES_MAX];
        let _ = self.flush(stream);
        loop {
            match self.read(stream, &mut scratch, None) {
                // A memcached says nothing before it is asked.
                Arrived::Bytes(_) => return Shaken::Failed("it spoke first".to_owned()),
                Arrived::Nothing if self.has_more => {}
                Arrived::Nothing => break,
                Arrived::Over(_) => return Shaken::Failed(self.reason()),
            }
        }
        let _ = self.flush(stream);
        self.news = None;
        if self.is_shaking() { Shaken::Open } else { Shaken::Done }
    }

    /// Why the connection with a server is over, as an operator reads it.
    pub(crate) fn reason(&self) -> String {
        use AlertDescription::{
            AccessDenied, BadCertificate, CertificateRequired, CertificateUnknown, UnknownCA,
        };
        use CertificateError::{
            Expired, NotValidForName, NotValidForNameContext, NotValidYet, UnknownIssuer,
        };
        match &self.error {
            None => "it ended the connection".to_owned(),
            Some(Error::InvalidMessage(_)) if self.tls.protocol_version().is_none() => "it speaks no TLS".to_owned(),
            Some(Error::InvalidCertificate(UnknownIssuer)) => {
                "its certificate is signed by no authority of --server-ca".to_owned()
            }
            Some(Error::InvalidCertificate(NotValidForName | NotValidForNameContext { .. })) => {
                "its certificate does not have its name: name the server as its certificate does, or give --server-name"
                    .to_owned()
            }
            Some(Error::InvalidCertificate(Expired | NotValidYet)) => "its certificate is out of date".to_owned(),
            Some(Error::AlertReceived(
                AccessDenied | BadCertificate | CertificateRequired | CertificateUnknown | UnknownCA,
            )) => "it wants a certificate of the proxy, or another one (--server-cert)".to_owned(),
            Some(error) => error.to_string(),
        }
    }

    /// Whether there is something to send that belongs to no reply, or to tell.
    #[inline(never)]
    pub(super) fn has_something_to_say(&self) -> bool {
        self.news.is_some() || self.tls.wants_write()
    }

    /// Sends what belongs to no reply, as far as the kernel takes it, and reports what came of that.
    #[inline(never)]
    pub(crate) fn tend(&mut self, stream: &Stream) -> Tended {
        let mut has_sent = false;
        // If that fails, a read or a write will say so.
        let is_over = self.flush_noting(stream, || has_sent = true).is_err();
        let news = self.news.take();
        // Before the handshake was done nothing could be written.
        let is_new = matches!(news, Some(News::Shaken { .. }));
        Tended { news, takes_bytes: has_sent || is_over || is_new }
    }

    /// Tells the peer that nothing more comes, if it can take that.
    pub(crate) fn close(&mut self, stream: &Stream) {
        if matches!(self.state, State::Open | State::Over(Over::End)) {
            self.tls.send_close_notify();
        }
        let _ = self.flush(stream);
        if matches!(self.state, State::Over(Over::Broken)) {
            // What the peer has sent already would make the kernel reset the connection, and the peer could lose the reason.
            sockets::end_sending(stream);
        }
    }

    /// Whether the kernel has everything that is encrypted.
    fn flush(&mut self, stream: &Stream) -> Result<bool, Ended> {
        self.flush_noting(stream, || {})
    }

    /// The same; calls `sent` each time that the kernel takes something.
    fn flush_noting(&mut self, stream: &Stream, mut sent: impl FnMut()) -> Result<bool, Ended> {
        while self.tls.wants_write() {
            match self.tls.write_tls(&mut Pieces(stream)) {
                Ok(_) => sent(),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return Err(Ended::ByPeer),
                Err(_) => return Err(Ended::Otherwise),
            }
        }
        Ok(true)
    }
}

/// The socket, as rustls writes to it: several records with one call.
struct Pieces<'a>(&'a Stream);

impl io::Write for Pieces<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        match sockets::write_pieces(self.0, pieces) {
            Ok(0) => Err(ErrorKind::WouldBlock.into()),
            Ok(count) => Ok(count),
            Err(Ended::ByPeer) => Err(ErrorKind::ConnectionReset.into()),
            Err(Ended::Otherwise) => Err(ErrorKind::Other.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

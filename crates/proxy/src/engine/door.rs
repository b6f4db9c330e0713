//! How clients come in, are read, and leave: the same for every engine.
//!
//! ```text
//!   Accept ─▶ admit ─▶ watched ─▶ ready ─▶ read a few times ─▶ bytes to the host
//!                                   ▲            │ more than one turn allows
//!                                   └── unread ◀─┘
//!   Drain  ─▶ each is read once more ─▶ the host lets nobody in ─▶ drain_until
//! ```
//!
//! [`Door`] owns a thread's wait, its mailbox, the buffer that it reads into, and the list of those who are to be read in the next turn. A
//! [`Host`] owns the clients, and what is read beside them. The functions here ask the host whether somebody is to be read, and hand it
//! what came: bytes, ends, messages. What becomes of these is the host's: an event loop gives them to its dataplane, the network thread
//! cuts them into requests for workers.

use crate::{
    connections::{
        client_limit::Admitted,
        names::AddressBook,
        reads::Reads,
        sockets::Stream,
        transport::{Arrived, Over, Transport},
    },
    mailbox::{LoopHandle, Message, Routing, WAKER},
    process::clock::Clock,
};
use mio::{Events, Interest, Poll, Token, event::Event};
use std::{
    io::{self, ErrorKind},
    mem,
    sync::{
        Arc,
        atomic::Ordering,
        mpsc::{Receiver, Sender},
    },
    time::Duration,
};
use weir_dataplane::{Counters, Report, RequestKey, TopKeys};
use weir_timing::Instant;

/// Reads per socket and turn: who sends more than this waits for the next turn, so that nobody starves.
const READS_PER_TURN: usize = 4;

/// Readiness events taken per turn; the others wait in the kernel.
pub(super) const EVENTS_PER_TURN: usize = 1024;

/// Messages taken per turn: each may be a client to be let in, and others may send as fast as they are taken.
const MESSAGES_PER_TURN: usize = 128;

/// Whoever serves those that a door lets in.
pub(super) trait Host {
    /// Who is read: clients, and perhaps servers.
    type Peer: Copy;

    /// The number of a client.
    type Client: Copy;

    fn door(&mut self) -> &mut Door;

    /// Who has this token, and which somebody has.
    fn peer(token: Token) -> Self::Peer;
    fn token(peer: Self::Peer) -> Token;

    /// A client's number as somebody to read.
    fn client(id: Self::Client) -> Self::Peer;
    fn is_client(peer: Self::Peer) -> bool;

    /// This client wants to come in: its number, if it may. It counts from now on.
    fn admit(&mut self, client: &Admitted) -> Option<Self::Client>;

    /// The client that was admitted has this connection.
    fn seat(&mut self, id: Self::Client, client: Admitted);

    /// The client that was admitted could not be watched.
    fn unseat(&mut self, id: Self::Client);

    /// The numbers that clients may have.
    fn client_ids(&self) -> Vec<Self::Client>;

    /// What to read; `None` if it is not to be read now.
    fn transport(&mut self, peer: Self::Peer) -> Option<impl Transport>;

    /// This many bytes were read.
    fn handle_bytes(&mut self, peer: Self::Peer, reads: &Reads, count: usize);

    /// Nothing more will come.
    fn handle_over(&mut self, peer: Self::Peer, how: Over);

    /// The socket takes bytes again: the kernel has said so.
    fn handle_writable(&mut self, peer: Self::Peer);

    /// What the transport has to say that belongs to no reply is to be sent. Whether the socket takes bytes is not known.
    fn tend(&mut self, _peer: Self::Peer) {}

    /// Nobody is let in any more; what was read is answered.
    fn begin_drain(&mut self);

    fn counters(&mut self) -> &mut Counters;
    fn report(&mut self, reply: Sender<Report>);
    fn tell_top_keys(&mut self, reply: &Sender<TopKeys>);
    fn answer_stats(&mut self, request: RequestKey, text: Vec<u8>);
    fn take_routing(&mut self, routing: Routing);
    fn take_addresses(&mut self, book: Arc<AddressBook>);

    /// Somebody has woken the thread, perhaps with no message.
    fn handle_woken(&mut self) {}
}

pub(super) struct Door {
    poll: Poll,
    mailbox: Receiver<Message>,
    /// Wakes this thread.
    own: LoopHandle,
    clock: Clock,
    /// Taken out while it is read into; a box, because that is twice per request.
    reads: Option<Box<Reads>>,
    unread: Unread,
    drain_timeout: Duration,
    drain_until: Option<Instant>,
}

/// Those who had more to read than one turn allows, or may be read again: each once, however often that is said.
#[derive(Default)]
struct Unread {
    tokens: Vec<Token>,
    /// By the numbers of tokens, which are small.
    is_listed: Vec<bool>,
}

impl Unread {
    fn add(&mut self, token: Token) {
        if token.0 >= self.is_listed.len() {
            self.is_listed.resize(token.0 + 1, false);
        }
        if !mem::replace(&mut self.is_listed[token.0], true) {
            self.tokens.push(token);
        }
    }

    /// Whether this one is listed.
    #[inline]
    fn has(&self, token: Token) -> bool {
        !self.tokens.is_empty() && self.is_listed.get(token.0).is_some_and(|&is_listed| is_listed)
    }

    /// All of them. Each is to be struck off before it is read.
    fn take(&mut self) -> Vec<Token> {
        mem::take(&mut self.tokens)
    }

    fn strike_off(&mut self, token: Token) {
        self.is_listed[token.0] = false;
    }
}

impl Door {
    /// A closed door, and the handle by which others reach its thread.
    pub(super) fn new(
        clock: Clock,
        is_traced: bool,
        drain_timeout: Duration,
    ) -> io::Result<(Self, LoopHandle)> {
        let poll = Poll::new()?;
        let (handle, mailbox) = LoopHandle::new(&poll)?;
        let reads = Some(Box::new(Reads::new(is_traced)));
        let unread = Unread::default();
        let own = handle.clone();
        let door = Self { poll, mailbox, own, clock, reads, unread, drain_timeout, drain_until: None };
        Ok((door, handle))
    }

    /// Waits for something to happen, until `deadline` at the latest.
    #[inline]
    pub(super) fn wait(
        &mut self,
        events: &mut Events,
        deadline: Option<Instant>,
        now: Instant,
    ) -> io::Result<()> {
        let timeout = if self.unread.tokens.is_empty() {
            let until = match self.drain_until {
                Some(end) => Some(deadline.map_or(end, |deadline| deadline.min(end))),
                None => deadline,
            };
            until.map(|until| Duration::from_nanos(until.saturating_since(now)))
        } else {
            Some(Duration::ZERO)
        };
        self.poll(events, timeout)
    }

    /// What is ready now.
    pub(super) fn look(&mut self, events: &mut Events) -> io::Result<()> {
        self.poll(events, Some(Duration::ZERO))
    }

    fn poll(&mut self, events: &mut Events, timeout: Option<Duration>) -> io::Result<()> {
        match self.poll.poll(events, timeout) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {
                events.clear();
                Ok(())
            }
            other => other,
        }
    }

    /// From now on it hears when this socket is ready.
    pub(super) fn watch(&self, token: Token, stream: &mut Stream) -> io::Result<()> {
        self.poll.registry().register(stream, token, Interest::READABLE | Interest::WRITABLE)
    }

    /// To be read in the next turn, whether more has come or not.
    pub(super) fn read_later(&mut self, token: Token) {
        self.unread.add(token);
    }

    /// When the time to drain is up; `None` while nobody has said that it is to.
    pub(super) fn drain_until(&self) -> Option<Instant> {
        self.drain_until
    }
}

/// Reads all that is ready, and takes what has come by mail.
pub(super) fn read_ready<H: Host>(host: &mut H, events: &Events) {
    let door = host.door();
    let mut reads = door.reads.take().expect("it is put back below");
    for token in door.unread.take() {
        host.door().unread.strike_off(token);
        // Its readiness, and the end of its stream, may have been reported while it was not read; they are not reported again.
        read_again(host, &mut reads, H::peer(token), true);
    }
    for event in events {
        if event.token() == WAKER {
            take_messages(host, &mut reads);
            host.handle_woken();
        } else {
            handle_readiness(host, &mut reads, event);
        }
    }
    host.door().reads = Some(reads);
}

#[inline]
fn handle_readiness<H: Host>(host: &mut H, reads: &mut Reads, event: &Event) {
    let peer = H::peer(event.token());
    if event.is_writable() || event.is_error() || event.is_write_closed() {
        host.handle_writable(peer);
    }
    let is_to_be_read = event.is_readable() || event.is_read_closed() || event.is_error();
    // Who is listed for the next turn has had his part of this one.
    if is_to_be_read && !host.door().unread.has(event.token()) {
        read(host, reads, peer, event.is_read_closed());
    }
}

/// [`read`] for peers that the kernel has not just named. They are few. The others are read where their readiness is handled, without a call.
#[inline(never)]
fn read_again<H: Host>(host: &mut H, reads: &mut Reads, peer: H::Peer, to_the_end: bool) {
    read(host, reads, peer, to_the_end);
}

#[inline(always)]
fn read<H: Host>(host: &mut H, reads: &mut Reads, peer: H::Peer, to_the_end: bool) {
    for _ in 0..READS_PER_TURN {
        let Some(mut transport) = host.transport(peer) else { return };
        let arrived =
            if H::is_client(peer) { reads.read_client(&mut transport) } else { reads.read(&mut transport) };
        let (has_more, wants_write) = (transport.has_buffered(), transport.wants_write());
        drop(transport);
        if wants_write {
            say(host, peer);
        }
        match arrived {
            Arrived::Bytes(count) => {
                host.handle_bytes(peer, reads, count);
                // A short read means that the kernel has no more; an end of the stream would not be reported again.
                if reads.is_short(count) && !to_the_end && !has_more {
                    return;
                }
            }
            // It was no more than a part of a record.
            Arrived::Nothing if has_more => {}
            Arrived::Nothing => return,
            Arrived::Over(how) => return host.handle_over(peer, how),
        }
    }
    host.door().read_later(H::token(peer));
}

/// The transport has something to say that belongs to no reply: where TLS is spoken.
#[inline(never)]
fn say<H: Host>(host: &mut H, peer: H::Peer) {
    host.tend(peer);
}

fn take_messages<H: Host>(host: &mut H, reads: &mut Reads) {
    for _ in 0..MESSAGES_PER_TURN {
        let Ok(message) = host.door().mailbox.try_recv() else { return };
        match message {
            Message::Accept(client) => let_in(host, reads, client),
            Message::Refused(refused) => refused.count(host.counters()),
            Message::Report(reply) => host.report(reply),
            Message::TopKeys(reply) => host.tell_top_keys(&reply),
            Message::Stats { request, text } => host.answer_stats(request, text),
            Message::Table(routing) => host.take_routing(routing),
            Message::Addresses(book) => host.take_addresses(book),
            Message::Ping(answered) => answered.store(true, Ordering::Release),
            Message::Drain => drain(host, reads),
        }
    }
    // There may be more, of which nobody will say so again. A wake-up fails only where its descriptor is gone.
    let _ = host.door().own.wake();
}

fn let_in<H: Host>(host: &mut H, reads: &Reads, mut client: Admitted) {
    let Some(id) = host.admit(&client) else { return client.refuse() };
    reads.begin_client(client.stream());
    if host.door().watch(H::token(H::client(id)), client.stream_mut()).is_err() {
        return host.unseat(id);
    }
    host.seat(id, client);
}

/// Requests that had reached this machine are still taken.
fn drain<H: Host>(host: &mut H, reads: &mut Reads) {
    for id in host.client_ids() {
        read_again(host, reads, H::client(id), false);
    }
    host.begin_drain();
    let door = host.door();
    let wait_max = u64::try_from(door.drain_timeout.as_nanos()).unwrap_or(u64::MAX);
    door.drain_until.get_or_insert(door.clock.now().plus(wait_max));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connections::{client_limit::ClientLimit, transport::Ended};
    use std::{
        collections::VecDeque,
        io::{Read as _, Write as _},
        os::unix::net::UnixStream,
    };

    /// A socket that brings what the test says. `true`: it keeps more than it gave.
    type Brings = VecDeque<(Arrived, bool)>;

    struct Scripted<'a> {
        brings: &'a mut Brings,
        has_buffered: bool,
        wants_write: bool,
    }

    impl Transport for Scripted<'_> {
        fn read(&mut self, _: &mut [u8], _: Option<&mut crate::connections::transport::Stamps>) -> Arrived {
            let (arrived, keeps) = self.brings.pop_front().unwrap_or((Arrived::Nothing, false));
            self.has_buffered = keeps;
            arrived
        }

        fn write(&mut self, bytes: &[u8]) -> Result<usize, Ended> {
            Ok(bytes.len())
        }

        fn has_buffered(&self) -> bool {
            self.has_buffered
        }

        fn wants_write(&self) -> bool {
            self.wants_write
        }
    }

    /// A host with clients that are scripts, and what it heard.
    struct Fake {
        door: Door,
        handle: LoopHandle,
        clients: Vec<Brings>,
        wants_write: bool,
        puts_off: bool,
        is_full: bool,
        seated: Vec<Admitted>,
        heard: Vec<String>,
        counters: Counters,
    }

    fn host(clients: impl IntoIterator<Item = Brings>) -> Fake {
        let (door, handle) = Door::new(Clock::start(), false, Duration::ZERO).expect("descriptors are free");
        let clients = clients.into_iter().collect();
        Fake {
            door,
            handle,
            clients,
            wants_write: false,
            puts_off: false,
            is_full: false,
            seated: Vec::new(),
            heard: Vec::new(),
            counters: Counters::default(),
        }
    }

    impl Fake {
        /// What it hears in a turn that begins when somebody has woken the thread.
        fn turn(&mut self) -> Vec<String> {
            self.handle.wake().expect("it waits");
            let mut events = Events::with_capacity(EVENTS_PER_TURN);
            let now = self.door.clock.now();
            self.door.wait(&mut events, None, now).expect("it can wait");
            read_ready(self, &events);
            mem::take(&mut self.heard)
        }
    }

    impl Host for Fake {
        type Peer = usize;
        type Client = usize;

        fn door(&mut self) -> &mut Door {
            &mut self.door
        }

        fn peer(token: Token) -> usize {
            token.0 - 1
        }

        fn token(id: usize) -> Token {
            Token(1 + id)
        }

        fn client(id: usize) -> usize {
            id
        }

        fn is_client(_: usize) -> bool {
            true
        }

        fn admit(&mut self, _: &Admitted) -> Option<usize> {
            (!self.is_full).then_some(self.seated.len())
        }

        fn seat(&mut self, id: usize, client: Admitted) {
            self.heard.push(format!("seated {id}"));
            self.seated.push(client);
        }

        fn unseat(&mut self, _: usize) {
            unreachable!("every socket of the tests can be watched")
        }

        fn client_ids(&self) -> Vec<usize> {
            (0..self.clients.len()).collect()
        }

        fn transport(&mut self, id: usize) -> Option<impl Transport> {
            if self.puts_off {
                self.door.read_later(Self::token(id));
                return None;
            }
            let wants_write = self.wants_write;
            let brings = self.clients.get_mut(id)?;
            Some(Scripted { brings, has_buffered: false, wants_write })
        }

        fn handle_bytes(&mut self, id: usize, _: &Reads, count: usize) {
            self.heard.push(format!("{id}: {count} bytes"));
        }

        fn handle_over(&mut self, id: usize, how: Over) {
            self.heard.push(format!("{id}: {how:?}"));
        }

        fn handle_writable(&mut self, id: usize) {
            self.heard.push(format!("{id}: writable"));
        }

        fn tend(&mut self, id: usize) {
            self.heard.push(format!("{id}: tended"));
        }

        fn begin_drain(&mut self) {
            self.heard.push("drain".into());
        }

        fn counters(&mut self) -> &mut Counters {
            &mut self.counters
        }

        fn report(&mut self, _: Sender<Report>) {}
        fn tell_top_keys(&mut self, _: &Sender<TopKeys>) {}
        fn answer_stats(&mut self, _: RequestKey, _: Vec<u8>) {}
        fn take_routing(&mut self, _: Routing) {}
        fn take_addresses(&mut self, _: Arc<AddressBook>) {}
    }

    fn bytes(count: usize) -> (Arrived, bool) {
        (Arrived::Bytes(count), false)
    }

    /// More than any buffer, so a read that fills one is not short.
    const FULL: usize = usize::MAX;

    #[test]
    fn a_short_read_is_the_last_unless_the_transport_keeps_more() {
        let mut host = host([
            VecDeque::from([bytes(5), bytes(6)]),
            VecDeque::from([(Arrived::Bytes(5), true), bytes(6), bytes(7)]),
        ]);
        let mut reads = host.door.reads.take().expect("nobody reads");
        (0..2).for_each(|id| read(&mut host, &mut reads, id, false));
        assert_eq!(host.heard, ["0: 5 bytes", "1: 5 bytes", "1: 6 bytes"]);
    }

    #[test]
    fn who_brings_more_than_a_turn_allows_is_read_in_the_next_and_to_the_end() {
        let over = (Arrived::Over(Over::End), false);
        let mut host = host([(0..READS_PER_TURN).map(|_| bytes(FULL)).chain([bytes(1), over]).collect()]);
        host.door.read_later(Fake::token(0));
        assert_eq!(host.turn(), vec![format!("0: {FULL} bytes"); READS_PER_TURN]);
        assert_eq!(host.turn(), ["0: 1 bytes", "0: End"]);
        assert_eq!(host.turn(), [""; 0]);
    }

    #[test]
    fn who_is_put_off_again_and_again_is_listed_once() {
        let mut host = host([VecDeque::from([bytes(5)])]);
        let mut reads = host.door.reads.take().expect("nobody reads");
        host.puts_off = true;
        for _ in 0..100 {
            read(&mut host, &mut reads, 0, false);
        }
        assert_eq!(host.door.unread.tokens, [Fake::token(0)]);
        (host.puts_off, host.door.reads) = (false, Some(reads));
        assert_eq!(host.turn(), ["0: 5 bytes"]);
        assert_eq!(host.turn(), [""; 0]);
    }

    /// It is listed for the next turn, and the kernel has named it, too.
    #[test]
    fn nobody_is_read_more_often_in_a_turn_than_it_allows() {
        let mut host = host([(0..100).map(|_| bytes(FULL)).collect()]);
        let (mut client, ours) = UnixStream::pair().expect("descriptors are free");
        ours.set_nonblocking(true).expect("a socket");
        let mut stream = Stream::Unix(mio::net::UnixStream::from_std(ours));
        host.door.watch(Fake::token(0), &mut stream).expect("it can be watched");
        host.door.read_later(Fake::token(0));
        for turn in 0..3 {
            client.write_all(b"x").expect("it fits");
            let reads = host.turn().iter().filter(|line| line.ends_with("bytes")).count();
            assert_eq!((reads, host.door.unread.tokens.len()), (READS_PER_TURN, 1), "turn {turn}");
        }
    }

    /// Clients that came as fast as they were let in kept a loop from those that it had.
    #[test]
    fn a_turn_takes_no_more_messages_than_it_allows_and_the_next_ones_take_the_rest() {
        let mut host = host([]);
        for _ in 0..2 * MESSAGES_PER_TURN + 1 {
            host.handle.send(Message::Drain).expect("it is read");
        }
        let mut turn = || {
            let (mut events, now) = (Events::with_capacity(EVENTS_PER_TURN), host.door.clock.now());
            host.door.wait(&mut events, Some(now), now).expect("it can wait");
            read_ready(&mut host, &events);
            mem::take(&mut host.heard).len()
        };
        assert_eq!([turn(), turn(), turn(), turn()], [MESSAGES_PER_TURN, MESSAGES_PER_TURN, 1, 0]);
    }

    /// A client that reads nothing would seem to take bytes as long as it talks.
    #[test]
    fn what_the_transport_has_to_say_goes_out_after_a_read_and_nobody_hears_that_bytes_are_taken() {
        let mut host = host([VecDeque::from([bytes(5)])]);
        host.wants_write = true;
        host.door.read_later(Fake::token(0));
        assert_eq!(host.turn(), ["0: tended", "0: 5 bytes", "0: tended"]);
    }

    #[test]
    fn who_comes_is_seated_or_heard_and_a_drain_reads_each_once_more() {
        let mut host = host([VecDeque::from([bytes(FULL), bytes(3), bytes(4)])]);
        let places = ClientLimit::new(2);
        let come = |host: &Fake| {
            let (client, ours) = UnixStream::pair().expect("descriptors are free");
            ours.set_nonblocking(true).expect("a socket");
            let stream = Stream::Unix(mio::net::UnixStream::from_std(ours));
            let admitted = Admitted::new(stream, places.enter().expect("one is free"));
            host.handle.send(Message::Accept(admitted)).expect("it is read");
            client
        };
        // The first client's socket is reported as writable at some time.
        let news = |host: &mut Fake| -> Vec<_> {
            host.turn().into_iter().filter(|line| !line.ends_with("writable")).collect()
        };
        let _first = come(&host);
        assert_eq!(news(&mut host), ["seated 0"]);
        host.is_full = true;
        let mut second = come(&host);
        assert_eq!(news(&mut host), [""; 0]);
        let mut text = String::new();
        second.read_to_string(&mut text).expect("it is closed");
        assert_eq!(text, "ERROR Too many open connections\r\n");
        assert_eq!(host.door.drain_until(), None);
        host.handle.send(Message::Drain).expect("it is read");
        assert_eq!(news(&mut host), [format!("0: {FULL} bytes").as_str(), "0: 3 bytes", "drain"]);
        assert!(host.door.drain_until().is_some());
    }
}

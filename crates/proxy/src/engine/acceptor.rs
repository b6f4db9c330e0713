//! Accepts clients and hands them to the event loops of their group in turn, so that even few clients are spread evenly.
//!
//! There is a listener for each place of the configuration (`config/listeners.rs`). Of one no more than [`ACCEPTED_PER_TURN`] are taken
//! before the others are looked at, who was refused is counted, and a stop is heard: a rush at one place delays neither. Where the mailboxes
//! of all loops of a group are full, one client of the group waits here and the others in the kernel; other groups go on.
//!
//! Whoever cannot be served gets an error in memcached's words, and the connection is closed: because as many clients are connected as may
//! be, or because the process has no descriptor for one more. For the answer to the latter a descriptor is held ([`Reserve`]): it is
//! closed, the client takes its place, is answered and closed, and it is held again.

use crate::{
    Config,
    config::listeners::{Listen, ListenPlace},
    connections::{
        client_limit::{Admitted, Refused},
        descriptors::{
            Descriptors, TELL_EVERY_NS,
            reserve::{Reserve, is_out_of_descriptors},
        },
        inherited::Port,
        listener::Listener,
        listener_counts::ListenerCounts,
        sockets,
        tls::Inbound,
    },
    mailbox::{LoopHandle, Message},
    notices::notice::Tell,
    process::clock::Clock,
};
use mio::{Events, Poll, Token};
use std::{
    io::{self, ErrorKind},
    mem,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use weir_dataplane::Login;
use weir_timing::Instant;

/// Listeners have the numbers of their places.
const WAKER: Token = Token(usize::MAX);

/// How many clients of one listener are taken before the others are looked at.
const ACCEPTED_PER_TURN: usize = 64;

/// Readiness events taken per turn; the others wait in the kernel.
const EVENTS_PER_TURN: usize = 8;

/// How many clients may wait at a listener that was handed over: as many as kernels allow, where nobody has raised that.
const INHERITED_BACKLOG: usize = 4096;

/// Pause while no loop of a group has room in its mailbox.
const PAUSE_FOR_ROOM: Duration = Duration::from_millis(1);

/// Pause after a failure: accepting at once would only fail again.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_millis(100);

pub(crate) struct Acceptor {
    poll: Poll,
    entrances: Vec<Entrance>,
    /// By group.
    doors: Vec<Doors>,
    descriptors: Arc<Descriptors>,
    spare: Reserve,
    /// Clients that were refused, which a loop has counted, and of which the operator was not informed yet.
    unreported: Refused,
    tell_at: Instant,
    clock: Clock,
    tell: Tell,
    stop: Arc<AtomicBool>,
    /// Nothing else is left to do than to hand over those who wait.
    is_stopping: bool,
}

/// The loops of one group, and which of them gets the next client.
struct Doors {
    loops: Vec<LoopHandle>,
    next: usize,
    /// Clients of the group that were refused and which no loop has counted yet.
    uncounted: Refused,
    /// A client for whom no loop had room.
    waiting: Option<Message>,
}

impl Doors {
    fn new(loops: Vec<LoopHandle>) -> Self {
        Self { loops, next: 0, uncounted: Refused::default(), waiting: None }
    }

    /// Of whom the next client is.
    fn in_turn(&mut self) -> &LoopHandle {
        let turn = self.next;
        self.next = (turn + 1) % self.loops.len();
        &self.loops[turn]
    }

    /// Hands a client to a loop that has room for it; it waits where none has. A loop that has ended cannot serve: there the connection is
    /// closed.
    fn hand_over(&mut self, admitted: Admitted) {
        self.waiting = Some(Message::Accept(admitted));
        self.has_room();
    }

    /// Whether nobody waits any more.
    fn has_room(&mut self) -> bool {
        for _ in 0..self.loops.len() {
            let Some(message) = self.waiting.take() else { return true };
            self.waiting = self.in_turn().offer(message);
        }
        self.waiting.is_none()
    }

    /// Waits until a loop has taken who waits, as long as that may be.
    fn wait_for_room(&mut self) {
        if let Some(message) = self.waiting.take() {
            let _ = self.in_turn().send(message);
        }
    }

    /// A loop counts what it hears of, so that windows have it, too. Returns what was counted; a loop with much to do hears of it later.
    fn count_refused(&mut self) -> Refused {
        let is_counted =
            !self.uncounted.is_none() && self.loops[self.next].try_send(Message::Refused(self.uncounted));
        if is_counted { mem::take(&mut self.uncounted) } else { Refused::default() }
    }
}

/// One place where clients come in.
struct Entrance {
    listener: Listener,
    /// The number of the group that serves them.
    group: usize,
    /// What is spoken there, if that is TLS.
    inbound: Option<Arc<Inbound>>,
    login: Login,
    /// Where it is, with the port that the kernel chose if it was to.
    at: Listen,
    counts: Arc<ListenerCounts>,
    /// How many may wait there to be accepted.
    backlog: usize,
    /// Somebody may wait there: the kernel says so once, and then not before all were accepted.
    may_have_more: bool,
}

/// What came of accepting some who wait at a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Accepted {
    /// All of them.
    All,
    /// As many as are taken at a time.
    Part,
    /// None, or some: no loop has room for more.
    Full,
    /// Accepting has failed.
    Failed,
}

impl Accepted {
    /// How long to wait before more are accepted; `None`: until somebody comes.
    fn pause(self) -> Option<Duration> {
        match self {
            Self::All => None,
            Self::Part => Some(Duration::ZERO),
            Self::Full => Some(PAUSE_FOR_ROOM),
            Self::Failed => Some(PAUSE_AFTER_FAILURE),
        }
    }
}

/// Ends an acceptor.
pub(crate) struct AcceptorHandle {
    waker: mio::Waker,
    stop: Arc<AtomicBool>,
}

impl AcceptorHandle {
    pub(crate) fn stop(&self) -> io::Result<()> {
        self.stop.store(true, Ordering::Release);
        self.waker.wake()
    }
}

impl Acceptor {
    /// Listens at all places, at those of `ports` that were handed over; nothing is accepted before [`Acceptor::run`]. The listeners are the
    /// last descriptors that it opens. `loops`: those of each group. `spare` is held for the answer to a client for which there is no
    /// descriptor. An error comes with the place where nobody can listen.
    pub(crate) fn bind(
        config: &Config,
        ports: Vec<Option<Port>>,
        loops: Vec<Vec<LoopHandle>>,
        descriptors: Arc<Descriptors>,
        spare: Reserve,
        clock: Clock,
        tell: Tell,
    ) -> Result<(Self, AcceptorHandle), (Listen, io::Error)> {
        let places = &config.listeners;
        let at_first = |error| (places[0].at.clone(), error);
        let poll = Poll::new().map_err(at_first)?;
        let waker = mio::Waker::new(poll.registry(), WAKER).map_err(at_first)?;
        let mut ports = ports.into_iter();
        let mut entrances = Vec::new();
        for (number, place) in places.iter().enumerate() {
            let port = ports.next().flatten();
            let entrance = Entrance::open(place, port, config, &poll, Token(number));
            entrances.push(entrance.map_err(|error| (place.at.clone(), error))?);
        }
        let stop = Arc::new(AtomicBool::new(false));
        let handle = AcceptorHandle { waker, stop: Arc::clone(&stop) };
        let acceptor = Self {
            poll,
            entrances,
            doors: loops.into_iter().map(Doors::new).collect(),
            descriptors,
            spare,
            unreported: Refused::default(),
            tell_at: Instant::ZERO,
            clock,
            tell,
            stop,
            is_stopping: false,
        };
        Ok((acceptor, handle))
    }

    /// Where clients connect, in the order of the places, with the ports that the kernel chose.
    pub(crate) fn places(&self) -> Vec<Listen> {
        self.entrances.iter().map(|entrance| entrance.at.clone()).collect()
    }

    /// What each listener counts.
    pub(crate) fn counts(&self) -> Vec<Arc<ListenerCounts>> {
        self.entrances.iter().map(|entrance| Arc::clone(&entrance.counts)).collect()
    }

    pub(crate) fn run(mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(EVENTS_PER_TURN);
        let mut pause = None;
        while !self.stop.load(Ordering::Acquire) {
            match self.poll.poll(&mut events, pause) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                other => other?,
            }
            for event in &events {
                if let Some(entrance) = self.entrances.get_mut(event.token().0) {
                    entrance.may_have_more = true;
                }
            }
            pause = self.turn();
        }
        self.accept_last();
        Ok(())
    }

    /// Accepts some who wait at each listener, counts who was refused, and tells the operator. Returns how long to wait for others at most.
    fn turn(&mut self) -> Option<Duration> {
        self.descriptors.look();
        let mut pauses = Vec::new();
        for number in 0..self.entrances.len() {
            if self.entrances[number].may_have_more {
                let accepted = self.accept_some(number);
                self.entrances[number].may_have_more = accepted != Accepted::All;
                pauses.extend(accepted.pause());
            }
        }
        self.count_refused();
        pauses.extend(self.tell_refused());
        pauses.into_iter().min()
    }

    /// Who has connected before the stop is served. Whoever connects meanwhile does not put it off: of each listener no more are taken than
    /// may have waited there, and a few.
    fn accept_last(&mut self) {
        self.is_stopping = true;
        for number in 0..self.entrances.len() {
            let mut turns = 1 + self.entrances[number].backlog / ACCEPTED_PER_TURN;
            while turns > 0 && self.accept_some(number) == Accepted::Part {
                turns -= 1;
            }
            self.doors[self.entrances[number].group].wait_for_room();
        }
        self.count_refused();
        // Who is asked to stop does not wait to say more.
        let _ = self.tell_refused();
    }

    /// Accepts some who wait at one listener.
    fn accept_some(&mut self, number: usize) -> Accepted {
        for _ in 0..ACCEPTED_PER_TURN {
            let doors = &mut self.doors[self.entrances[number].group];
            if !doors.has_room() {
                if !self.is_stopping {
                    return Accepted::Full;
                }
                doors.wait_for_room();
            }
            match self.entrances[number].listener.accept() {
                Ok(stream) => self.take(stream, number),
                Err(error) if is_out_of_descriptors(&error) => match self.refuse_next(number) {
                    Ok(()) => {}
                    Err(error) if error.kind() == ErrorKind::WouldBlock => return Accepted::All,
                    Err(_) => return Accepted::Failed,
                },
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock => return Accepted::All,
                    ErrorKind::Interrupted | ErrorKind::ConnectionAborted => {}
                    _ => return Accepted::Failed,
                },
            }
        }
        Accepted::Part
    }

    /// A client has connected at this listener.
    fn take(&mut self, stream: sockets::Stream, number: usize) {
        let entrance = &self.entrances[number];
        let doors = &mut self.doors[entrance.group];
        if !self.descriptors.refill() {
            doors.uncounted.note_no_descriptor();
            entrance.refuse(stream);
            return self.descriptors.note_closed();
        }
        let Some(place) = self.descriptors.clients().enter() else {
            doors.uncounted.note_too_many();
            return entrance.refuse(stream);
        };
        let tls = entrance.inbound.as_ref().map(|inbound| inbound.begin(stream.address()));
        if matches!(tls, Some(None)) {
            entrance.counts.note_refused();
            return doors.uncounted.note_no_handshake();
        }
        let admitted = Admitted::new(stream, place).with_tls(tls.flatten());
        let admitted = admitted.at(entrance.counts.enter(), entrance.login);
        doors.hand_over(admitted);
    }

    /// Answers the next client of this listener, for which there is no descriptor but the one that is held for this.
    #[cold]
    fn refuse_next(&mut self, number: usize) -> io::Result<()> {
        self.spare.let_go();
        let entrance = &self.entrances[number];
        let accepted = entrance.listener.accept();
        if let Ok(stream) = accepted {
            self.doors[entrance.group].uncounted.note_no_descriptor();
            entrance.refuse(stream);
            self.spare.refill();
            return Ok(());
        }
        self.spare.refill();
        accepted.map(drop)
    }

    /// A loop of each group counts those of its clients that were refused.
    fn count_refused(&mut self) {
        for doors in &mut self.doors {
            self.unreported += doors.count_refused();
        }
    }

    /// Tells the operator, if that was not done a moment ago; else returns when it is to be done.
    fn tell_refused(&mut self) -> Option<Duration> {
        if self.unreported.is_none() && self.doors.iter().all(|doors| doors.uncounted.is_none()) {
            return None;
        }
        let now = self.clock.now();
        if now < self.tell_at || self.unreported.is_none() {
            let rest = self.tell_at.saturating_since(now);
            return Some(Duration::from_nanos(rest).max(PAUSE_AFTER_FAILURE));
        }
        let refused = mem::take(&mut self.unreported);
        (self.tell)(refused.notice(self.descriptors.clients().most()));
        self.tell_at = now.plus(TELL_EVERY_NS);
        None
    }
}

impl Entrance {
    /// Listens at a place, at `port` if that was handed over.
    fn open(
        place: &ListenPlace,
        port: Option<Port>,
        config: &Config,
        poll: &Poll,
        token: Token,
    ) -> io::Result<Self> {
        let backlog = config.settings.listen_backlog;
        let (mut listener, backlog) = match port {
            Some(port) => (Listener::of(port), INHERITED_BACKLOG),
            None => (Listener::bind(&place.at, backlog)?, backlog as usize),
        };
        listener.keep_alive(config.tcp())?;
        listener.register(poll.registry(), token)?;
        let at = listener.address()?.map_or_else(|| place.at.clone(), Listen::Tcp);
        let inbound = config.inbound().filter(|_| place.speaks_tls).cloned();
        let counts = ListenerCounts::new(at.to_string(), place.pool.clone());
        let group = config.groups().of_place(place.pool.as_deref()).unwrap_or_default();
        let login = if place.wants_login { Login::Wanted } else { Login::NotWanted };
        Ok(Self { listener, group, inbound, login, at, counts, backlog, may_have_more: true })
    }

    /// Who waits for a handshake could not read the words.
    fn refuse(&self, stream: sockets::Stream) {
        self.counts.note_refused();
        if self.inbound.is_none() {
            sockets::refuse(stream);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::settings::Layer;
    use std::{
        env,
        os::unix::net::UnixStream,
        path::PathBuf,
        process,
        sync::mpsc::{Receiver, channel},
        thread,
    };
    use weir_dataplane::Counters;
    use weir_routing::{Placement, Router, Server};

    /// An acceptor for a loop that is nothing but a mailbox. One client may be connected.
    struct Rush {
        path: PathBuf,
        acceptor: Acceptor,
        handle: AcceptorHandle,
        mailbox: Receiver<Message>,
        door: LoopHandle,
        _poll: Poll,
    }

    fn rush(name: &str) -> Rush {
        let path = env::temp_dir().join(format!("weir-{}-{name}.sock", process::id()));
        let listen = path.to_str().expect("it is text");
        let said = [("listen", listen), ("listen_backlog", "300"), ("max_connections", "1")];
        let server = Server::new("127.0.0.1", 21_210);
        let table = Router::new(vec![server], Placement::Modulo, 1).expect("one server is a pool");
        let config = Config::new(table.into(), &Layer::of(&said)).expect("valid");
        let tell: Tell = Arc::new(|_| {});
        let descriptors = Descriptors::start(&config, Arc::clone(&tell)).expect("there are enough");
        let poll = Poll::new().expect("descriptors are free");
        let (door, mailbox) = LoopHandle::new(&poll).expect("descriptors are free");
        let (ports, spare) = (vec![None], Reserve::new(1));
        let bound = Acceptor::bind(
            &config,
            ports,
            vec![vec![door.clone()]],
            descriptors,
            spare,
            Clock::start(),
            tell,
        );
        let (acceptor, handle) = bound.expect("the path is free");
        Rush { path, acceptor, handle, mailbox, door, _poll: poll }
    }

    #[test]
    fn a_turn_takes_a_part_of_a_rush_and_counts_who_was_refused() {
        let mut rush = rush("turn");
        let connect = |_| UnixStream::connect(&rush.path).expect("there is room for it to wait");
        let _clients: Vec<_> = (0..200).map(connect).collect();
        let (mut served, mut counters) = (Vec::new(), Counters::default());
        for refused in [63, 127, 191, 199] {
            let pause = rush.acceptor.turn();
            assert_eq!(pause == Some(Duration::ZERO), refused < 199, "{pause:?}");
            for message in rush.mailbox.try_iter() {
                match message {
                    Message::Accept(client) => served.push(client),
                    Message::Refused(some) => some.count(&mut counters),
                    _ => unreachable!("nobody else sends anything"),
                }
            }
            assert_eq!((served.len(), counters.sessions_refused), (1, refused));
        }
    }

    /// Clients of all other groups waited for the loop of one.
    #[test]
    fn a_group_whose_loops_have_no_room_holds_up_nobody_else() {
        let mut rush = rush("full");
        while rush.door.try_send(Message::Ping(Arc::default())) {}
        let _client = UnixStream::connect(&rush.path).expect("there is room for it to wait");
        for _ in 0..3 {
            assert_eq!(rush.acceptor.turn(), Some(PAUSE_FOR_ROOM));
        }
        assert!(rush.mailbox.try_iter().all(|it| matches!(it, Message::Ping(_))));
        assert_eq!(rush.acceptor.turn(), None);
        assert!(matches!(rush.mailbox.try_recv(), Ok(Message::Accept(_))));
    }

    #[test]
    fn a_stop_is_heard_while_clients_rush() {
        let Rush { path, acceptor, handle, mailbox, door: _, _poll } = rush("stop");
        let rushing = [(); 3].map(|()| {
            let path = path.clone();
            thread::spawn(move || while UnixStream::connect(&path).is_ok() {})
        });
        let (sender, ended) = channel();
        thread::spawn(move || sender.send(acceptor.run()));
        let first = mailbox.recv().expect("a client comes");
        assert!(matches!(first, Message::Accept(_)));
        handle.stop().expect("it can be woken");
        let ended = ended.recv_timeout(Duration::from_secs(5));
        ended.expect("it goes on for ever").expect("nothing has failed");
        for it in rushing {
            it.join().expect("nobody panics");
        }
    }
}

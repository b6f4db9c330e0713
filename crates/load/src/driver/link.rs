//! A connection with its socket and buffers.
//!
//! ```text
//!   Up --break--> Waiting --pause over--> Connecting --> Up
//!                    ^                        |
//!                    +------- refused --------+      RECONNECTS_MAX in a row without an answer: GivenUp
//! ```

use std::io::{self, Read, Write};
use std::time::Duration;

use mio::{Interest, Registry, Token};
use weir_timing::Instant;

use super::clock::Clock;
use super::socket::{Socket, Terms};
use super::target::Address;
use crate::config::Config;
use crate::connection::Connection;
use crate::pacing::pace::Pace;
use crate::recorder::Recorder;
use crate::workload::mix::Source;
use crate::workload::verify::Fault;

/// One connection of a worker.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) connection: Connection,
    address: Address,
    /// What is spoken there, if that is TLS.
    terms: Option<Terms>,
    state: State,
    input: Input,
    output: Output,
    /// Breaks and refusals since the last answer.
    attempts: u32,
    /// Whether it is on the worker's list of links that have something to send.
    pub(crate) is_listed: bool,
}

#[derive(Debug)]
enum State {
    Up(Socket),
    Connecting { stream: Socket, until: Instant },
    Waiting { until: Instant },
    GivenUp,
}

/// What a link needs to know and to tell while it handles an event.
pub(crate) struct Context<'a> {
    pub(crate) clock: Clock,
    /// When the kernel was last asked for something that is being handled.
    pub(crate) now: Instant,
    pub(crate) registry: &'a Registry,
    pub(crate) recorder: &'a mut Recorder,
    /// No request is issued at or after this moment.
    pub(crate) issue_until: Instant,
    pub(crate) timeout: Duration,
}

impl Link {
    /// A link over a socket that is connected to `address` and does not block.
    pub(crate) fn new(
        connection: Connection,
        stream: Socket,
        address: Address,
        terms: Option<Terms>,
        config: &Config,
    ) -> Link {
        Link {
            connection,
            address,
            terms,
            state: State::Up(stream),
            input: Input::new(config.reply_bytes_max()),
            output: Output::default(),
            attempts: 0,
            is_listed: false,
        }
    }

    /// Asks for the events of this link.
    ///
    /// Both interests are registered once: a socket that is always writable causes no events of its own, because readiness
    /// is reported by edge.
    pub(crate) fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        match &mut self.state {
            State::Up(stream) | State::Connecting { stream, .. } => {
                registry.register(stream, token, Interest::READABLE | Interest::WRITABLE)
            }
            State::Waiting { .. } | State::GivenUp => Ok(()),
        }
    }

    /// Takes requests from `source` from now on, at the given pace, and sends what is due.
    pub(crate) fn begin(&mut self, source: Source, pace: Pace, depth: usize, context: &mut Context<'_>) {
        self.connection.set_source(source, pace, depth);
        self.connection.pace().freed(context.now);
        self.issue(context);
    }

    /// A request is due that should be sent at `intended`, as was noticed at `now`. It is sent by [`Link::issue`].
    pub(crate) fn handle_due(&mut self, intended: Instant, now: Instant, recorder: &mut Recorder) {
        if matches!(self.state, State::GivenUp) {
            self.connection.miss_arrival(intended, recorder);
            return;
        }
        if !self.connection.source_has_more() {
            return;
        }
        let pace = self.connection.pace();
        recorder.record_arrival(intended, pace.waiting());
        if !pace.handle_due(intended, now) {
            recorder.record_unsent(intended);
        }
    }

    /// The run is over, and the request that was to be sent at `intended` was not even noticed.
    pub(crate) fn handle_unnoticed(&mut self, intended: Instant, recorder: &mut Recorder) {
        let is_arrival = self.connection.miss_arrival(intended, recorder);
        if is_arrival && !matches!(self.state, State::GivenUp) {
            recorder.record_unnoticed(intended);
        }
    }

    /// The socket is ready for something.
    pub(crate) fn handle_event(&mut self, event: &mio::event::Event, context: &mut Context<'_>) {
        if let State::Connecting { .. } = self.state {
            self.finish_connecting(context);
            return;
        }
        if event.is_writable()
            && let State::Up(stream) = &mut self.state
        {
            // Where that fails, a read says so.
            let _ = stream.flush();
        }
        let handled = if event.is_readable() || event.is_read_closed() || event.is_error() {
            self.read(event.is_read_closed() || event.is_error(), context)
        } else {
            Ok(())
        };
        match handled {
            Ok(()) => self.issue(context),
            Err(fault) => self.break_off(&fault, context),
        }
        if self.connection.is_spent()
            && context.now < context.issue_until
            && matches!(self.state, State::Up(_))
        {
            self.renew(event.token(), context);
        }
    }

    /// Looks after what no event announces: deadlines and pauses. `token` is for a socket that is opened anew.
    pub(crate) fn handle_tick(&mut self, now: Instant, token: Token, context: &mut Context<'_>) {
        match self.state {
            State::Up(_) if self.connection.is_overdue(now, context.timeout) => {
                self.break_off(&Fault::Timeout(context.timeout), context);
            }
            State::Connecting { until, .. } if now >= until => {
                self.refused(&Fault::Connect(format!("no answer within {:?}", context.timeout)), context);
            }
            State::Waiting { until } if now >= until => self.connect(now, token, context),
            _ => {}
        }
    }

    /// Whether nothing is outstanding and nothing more will be sent.
    pub(crate) fn is_done(&self) -> bool {
        self.connection.is_done() || matches!(self.state, State::GivenUp)
    }

    /// Reads and verifies until a read does not fill its room, or, where the other side has closed, until the end.
    fn read(&mut self, to_the_end: bool, context: &mut Context<'_>) -> Result<(), Fault> {
        let State::Up(stream) = &mut self.state else { return Ok(()) };
        loop {
            let room = self.input.room()?;
            let room_bytes = room.len();
            let read = match stream.read(room) {
                Ok(0) => return Err(Fault::Closed),
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error.into()),
            };
            context.now = context.clock.now();
            self.input.filled(read);
            let taken = self.connection.handle_bytes(self.input.bytes(), context.now, context.recorder)?;
            self.input.take(taken);
            if taken > 0 {
                self.attempts = 0;
            }
            if read < room_bytes && !to_the_end && stream.ends_with_a_short_read() {
                return Ok(());
            }
        }
    }

    /// Composes the requests that are due and hands them to the kernel in one write, as far as it takes them.
    pub(crate) fn issue(&mut self, context: &mut Context<'_>) {
        let State::Up(stream) = &mut self.state else { return };
        if context.now < context.issue_until {
            let now = if self.connection.pace().waiting() > 0 { context.clock.now() } else { context.now };
            self.connection.poll_requests(now, &mut self.output.bytes, context.recorder);
        }
        if self.output.is_empty() {
            return;
        }
        let mut began = context.clock.now();
        let fault = loop {
            match stream.write(self.output.rest()) {
                Ok(written) => {
                    self.connection.handle_sent(written, began);
                    self.output.written(written);
                    if self.output.is_empty() {
                        return;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => break Fault::from(error),
            }
            began = context.clock.now();
        };
        self.break_off(&fault, context);
    }

    /// Closes the socket because of `fault` and waits before it is opened anew.
    fn break_off(&mut self, fault: &Fault, context: &mut Context<'_>) {
        self.connection.handle_broken(fault, context.clock.now(), context.recorder);
        self.input.clear();
        self.output.clear();
        self.pause(context);
    }

    /// Closes the socket, with which nothing is wrong, and opens a new one.
    fn renew(&mut self, token: Token, context: &mut Context<'_>) {
        self.connection.handle_renewed();
        self.input.clear();
        self.output.clear();
        self.connect(context.now, token, context);
    }

    /// An attempt to connect failed.
    fn refused(&mut self, fault: &Fault, context: &mut Context<'_>) {
        self.connection.handle_broken(fault, context.clock.now(), context.recorder);
        self.pause(context);
    }

    fn pause(&mut self, context: &mut Context<'_>) {
        self.attempts += 1;
        if self.attempts > RECONNECTS_MAX {
            let fault = Fault::GivenUp(RECONNECTS_MAX);
            self.connection.handle_broken(&fault, context.clock.now(), context.recorder);
            self.state = State::GivenUp;
            self.connection.abandon(context.recorder);
            return;
        }
        let pause_ns = (PAUSE_MIN_NS << (self.attempts - 1)).min(PAUSE_MAX_NS);
        self.state = State::Waiting { until: context.clock.now().plus(pause_ns) };
    }

    fn connect(&mut self, now: Instant, token: Token, context: &mut Context<'_>) {
        if self.connection.is_done() {
            return;
        }
        let until = now.plus(context.timeout.as_nanos() as u64);
        let opened = self.address.connect(self.terms.as_ref()).and_then(|stream| {
            self.state = State::Connecting { stream, until };
            self.register(context.registry, token)
        });
        if let Err(error) = opened {
            self.refused(&Fault::Connect(error.to_string()), context);
        }
    }

    fn finish_connecting(&mut self, context: &mut Context<'_>) {
        let State::Connecting { stream, .. } = &mut self.state else { return };
        match stream.connect() {
            Ok(true) => {
                let state = std::mem::replace(&mut self.state, State::GivenUp);
                if let State::Connecting { stream, .. } = state {
                    self.state = State::Up(stream);
                }
                self.connection.pace().freed(context.now);
                self.issue(context);
            }
            Ok(false) => {}
            Err(error) => self.refused(&Fault::Connect(error.to_string()), context),
        }
    }
}

#[cfg(test)]
impl Link {
    /// For tests: one that found no way to its target.
    pub(crate) fn given_up(connection: Connection) -> Link {
        Link {
            connection,
            address: Address::Unix("/nowhere".into()),
            terms: None,
            state: State::GivenUp,
            input: Input::new(0),
            output: Output::default(),
            attempts: 0,
            is_listed: false,
        }
    }
}

/// Bytes read and not yet taken, and room for more. Grows to the longest right reply, and no further.
#[derive(Debug)]
struct Input {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
    bytes_max: usize,
}

impl Input {
    fn new(reply_bytes_max: usize) -> Input {
        let bytes = vec![0; INPUT_BYTES_MIN];
        Input { bytes, start: 0, end: 0, bytes_max: reply_bytes_max.max(INPUT_BYTES_MIN) }
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// Where the next bytes go; not empty.
    fn room(&mut self) -> Result<&mut [u8], Fault> {
        if self.end == self.bytes.len() {
            if self.start > 0 {
                self.bytes.copy_within(self.start..self.end, 0);
                self.end -= self.start;
                self.start = 0;
            } else if self.bytes.len() < self.bytes_max {
                self.bytes.resize((2 * self.bytes.len()).min(self.bytes_max), 0);
            } else {
                return Err(Fault::TooLong { bytes: self.end });
            }
        }
        Ok(&mut self.bytes[self.end..])
    }

    fn filled(&mut self, bytes: usize) {
        self.end += bytes;
    }

    fn take(&mut self, bytes: usize) {
        self.start += bytes;
        if self.start == self.end {
            self.clear();
        }
    }

    fn clear(&mut self) {
        self.start = 0;
        self.end = 0;
    }
}

/// Bytes composed and not yet handed to the kernel. Bounded by the requests that may be outstanding.
#[derive(Debug, Default)]
struct Output {
    bytes: Vec<u8>,
    start: usize,
}

impl Output {
    fn is_empty(&self) -> bool {
        self.start == self.bytes.len()
    }

    fn rest(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    fn written(&mut self, bytes: usize) {
        self.start += bytes;
        if self.is_empty() {
            self.clear();
        } else if self.start > self.bytes.len() / 2 {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.start = 0;
    }
}

const INPUT_BYTES_MIN: usize = 16 << 10;
/// Attempts in a row that bring no answer, before a connection is given up: with the pauses below, about six seconds.
const RECONNECTS_MAX: u32 = 12;
const PAUSE_MIN_NS: u64 = 10_000_000;
const PAUSE_MAX_NS: u64 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::config::Settings;
    use crate::pacing::schedule::Process;
    use crate::recorder::phase::{NEVER, Timeline};
    use crate::workload::Workload;

    /// A link that issues nothing any more, and the recorder of a run that measures all.
    fn abandoned() -> (Link, Recorder) {
        let settings = Settings { pacing: Settings::offered("10", Process::Fixed), ..Settings::example() };
        let config = Config::check(settings).expect("the settings are valid");
        let workload = Arc::new(Workload::new(&config, 7, None));
        let mut connection = Connection::new(0, "here:1".into(), workload);
        connection.set_source(Source::FirstKey { fill: false }, Pace::new(&config, 0), 1);
        let mut recorder = Recorder::new(false);
        let (warmup, measured) = (Instant::ZERO, Instant::ZERO);
        recorder.set_timeline(Timeline { warmup, measured, end: NEVER });
        connection.abandon(&mut recorder);
        (Link::given_up(connection), recorder)
    }

    #[test]
    fn arrivals_of_a_connection_that_is_given_up_are_never_sent() {
        let (mut link, mut recorder) = abandoned();
        for nanos in [5, 6] {
            link.handle_due(Instant::from_nanos(nanos), Instant::from_nanos(nanos), &mut recorder);
        }
        let counts = recorder.scheduled();
        assert_eq!((counts.arrivals, counts.unsent, counts.late), (2, 2, 0));
    }

    #[test]
    fn what_a_generator_does_not_come_to_is_late() {
        for (state, late) in [(State::Waiting { until: NEVER }, 1), (State::GivenUp, 0)] {
            let (link, mut recorder) = abandoned();
            let mut link = Link { state, ..link };
            link.handle_unnoticed(Instant::from_nanos(5), &mut recorder);
            let counts = recorder.scheduled();
            assert_eq!((counts.arrivals, counts.unsent, counts.late), (1, 1, late));
        }
    }

    #[test]
    fn input_makes_room_by_moving_then_growing_then_refuses() {
        let mut input = Input::new(2 * INPUT_BYTES_MIN - 1);
        let room = input.room().expect("an empty buffer has room").len();
        assert_eq!(room, INPUT_BYTES_MIN);
        input.filled(room);
        input.take(100);
        assert_eq!(input.room().expect("room by moving").len(), 100);
        input.filled(100);
        assert_eq!(input.room().expect("room by growing").len(), INPUT_BYTES_MIN - 1);
        input.filled(INPUT_BYTES_MIN - 1);
        assert_eq!(input.room().err(), Some(Fault::TooLong { bytes: 2 * INPUT_BYTES_MIN - 1 }));
    }

    #[test]
    fn output_keeps_what_is_not_written() {
        let mut output = Output { bytes: b"abcdef".to_vec(), start: 0 };
        output.written(2);
        assert_eq!(output.rest(), b"cdef");
        output.written(3);
        output.bytes.extend_from_slice(b"gh");
        assert_eq!(output.rest(), b"fgh");
        output.written(3);
        assert!(output.is_empty() && output.rest().is_empty());
    }
}

//! When a connection's requests are due.
//!
//! ```text
//! closed loop, no thinking   a request is due whenever fewer than `depth` are outstanding
//! closed loop, thinking      answered --think time--> ready --handle_due--> [ due ] --> sent
//! open loop                  arrival, fixed in advance  --handle_due--> [ due ] --> sent
//! ```
//!
//! In an open loop `due` is the backlog: arrivals that wait because `depth` requests are unanswered. It is bounded.

use std::collections::VecDeque;

use rand::rngs::SmallRng;
use weir_timing::Instant;

use crate::config::{Config, Pacing};
use crate::pacing::arrivals::{exponential, generator};
use crate::pacing::schedule::ThinkTime;

/// The pace of one connection.
#[derive(Debug)]
pub(crate) struct Pace {
    kind: Kind,
    /// Requests whose moment has come and that wait for their turn, oldest first.
    due: VecDeque<Waiting>,
    due_max: usize,
    /// Moments at which thinking clients will be ready, not yet taken by [`Pace::pop_ready`].
    ready: Vec<Instant>,
    /// Clients that think, or whose next request is due: those for whom no request is outstanding.
    idle: usize,
    /// Since when something could have been sent: the last answer that made room, or the last time the socket came up.
    free_since: Instant,
    is_stopped: bool,
}

/// A request whose moment has come.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    intended: Instant,
    /// When the generator took notice.
    noticed: Instant,
}

#[derive(Debug)]
enum Kind {
    Eager,
    Thinking { think_time: ThinkTime, rng: SmallRng },
    Open,
}

impl Pace {
    /// A request is due whenever there is room for it.
    pub(crate) fn eager() -> Pace {
        Pace::of(Kind::Eager, 0)
    }

    /// The pace of connection `id`.
    pub(crate) fn new(config: &Config, id: u32) -> Pace {
        match config.pacing {
            Pacing::Closed { think_time: ThinkTime::None } => Pace::eager(),
            Pacing::Closed { think_time } => {
                let rng = generator(config.seed, b"think", u64::from(id));
                Pace::of(Kind::Thinking { think_time, rng }, config.depth)
            }
            Pacing::Open { .. } => Pace::of(Kind::Open, config.backlog_max()),
        }
    }

    fn of(kind: Kind, due_max: usize) -> Pace {
        Pace {
            kind,
            due: VecDeque::new(),
            due_max,
            ready: Vec::new(),
            idle: 0,
            free_since: Instant::ZERO,
            is_stopped: false,
        }
    }

    /// Whether requests are due at moments that were fixed in advance.
    pub(crate) fn is_open(&self) -> bool {
        matches!(self.kind, Kind::Open)
    }

    /// The clients of a thinking connection begin: their first requests are spread over a think time, so that they do not
    /// come all at once. `place` is this connection's, from 0 to 1, among all.
    pub(crate) fn begin(&mut self, now: Instant, clients: usize, place: f64) {
        self.ready.reserve(clients);
        self.due.reserve(if self.is_open() { 0 } else { clients });
        if let Kind::Thinking { think_time: ThinkTime::Fixed(length), .. } = &self.kind {
            for client in 0..clients {
                let part = (client as f64 + place) / clients as f64;
                self.ready.push(now.plus((length.as_nanos() as f64 * part) as u64));
            }
            self.idle = clients;
        }
        self.think(now, clients);
    }

    /// A request is due that should be sent at `intended`, as was noticed at `now`. Tells whether there was room for it.
    pub(crate) fn handle_due(&mut self, intended: Instant, now: Instant) -> bool {
        let has_room = self.due.len() < self.due_max;
        if has_room {
            self.due.push_back(Waiting { intended, noticed: now });
        }
        has_room
    }

    /// Requests were answered or lost, so that `idle` clients have none outstanding: those of them that neither think nor wait
    /// begin to think.
    pub(crate) fn think(&mut self, now: Instant, idle: usize) {
        let Kind::Thinking { think_time, rng } = &mut self.kind else { return };
        while self.idle < idle {
            let length_ns = match think_time {
                ThinkTime::None => 0,
                ThinkTime::Fixed(length) => length.as_nanos() as u64,
                ThinkTime::Exponential(mean) => (exponential(rng) * mean.as_nanos() as f64) as u64,
            };
            self.ready.push(now.plus(length_ns));
            self.idle += 1;
        }
    }

    /// The moment at which a client that began to think will be ready: [`Pace::handle_due`] is to be called then.
    pub(crate) fn pop_ready(&mut self) -> Option<Instant> {
        self.ready.pop()
    }

    /// There is room again, since `now`.
    pub(crate) fn freed(&mut self, now: Instant) {
        self.free_since = now;
    }

    /// Takes the next request that is due, if there is one.
    pub(crate) fn take(&mut self, now: Instant) -> Option<Due> {
        match self.kind {
            Kind::Eager => Some(Due { intended: now, late_ns: None }),
            Kind::Thinking { .. } | Kind::Open => {
                let Waiting { intended, noticed } = self.due.pop_front()?;
                self.idle = self.idle.saturating_sub(1);
                let kept_ns = now.saturating_since(noticed.max(self.free_since));
                let late_ns = noticed.saturating_since(intended).saturating_add(kept_ns);
                Some(Due { intended, late_ns: Some(late_ns) })
            }
        }
    }

    /// No request becomes due any more; those that are will still be sent in an open loop, because their clients did not
    /// know of the end.
    pub(crate) fn stop(&mut self) {
        self.is_stopped = true;
        if !self.is_open() {
            self.due.clear();
        }
    }

    /// Whether no request will be due any more.
    pub(crate) fn is_over(&self) -> bool {
        self.is_stopped && self.due.is_empty()
    }

    /// How many requests are due and not taken.
    pub(crate) fn waiting(&self) -> usize {
        self.due.len()
    }

    /// Gives up what is due, one at a time.
    pub(crate) fn abandon(&mut self) -> Option<Instant> {
        self.due.pop_front().map(|waiting| waiting.intended)
    }
}

/// A request that is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Due {
    /// When it should have been sent.
    pub(crate) intended: Instant,
    /// The generator's own delay: until it noticed that the request was due, and then while there was room for it and it was not
    /// sent. Not reported where nothing is scheduled.
    pub(crate) late_ns: Option<u64>,
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::config::Settings;
    use crate::pacing::schedule::Process;

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    fn pace(pacing: Pacing) -> Pace {
        let settings = Settings { pacing, depth: 4, backlog: Some(2), ..Settings::example() };
        Pace::new(&Config::check(settings).expect("the settings are valid"), 3)
    }

    fn open() -> Pace {
        pace(Settings::offered("10", Process::Fixed))
    }

    #[test]
    fn an_eager_client_is_always_ready() {
        let mut pace = Pace::eager();
        assert_eq!(pace.take(at(5)), Some(Due { intended: at(5), late_ns: None }));
        pace.think(at(6), 1);
        assert_eq!(pace.pop_ready(), None);
    }

    #[test]
    fn lateness_is_what_the_generator_alone_is_to_blame_for() {
        let mut pace = open();
        assert!(pace.handle_due(at(10), at(11)) && pace.handle_due(at(20), at(24)));
        assert_eq!(pace.take(at(13)), Some(Due { intended: at(10), late_ns: Some(3) }));
        pace.freed(at(50));
        assert_eq!(
            pace.take(at(51)),
            Some(Due { intended: at(20), late_ns: Some(4 + 1) }),
            "not the wait for room"
        );
        assert_eq!(pace.take(at(99)), None);
    }

    #[test]
    fn the_backlog_is_bounded_and_outlives_the_end() {
        let mut pace = open();
        assert_eq!([1, 2, 3].map(|nanos| pace.handle_due(at(nanos), at(nanos))), [true, true, false]);
        pace.stop();
        assert!(!pace.is_over());
        assert_eq!((pace.abandon(), pace.abandon(), pace.abandon()), (Some(at(1)), Some(at(2)), None));
        assert!(pace.is_over());
    }

    #[test]
    fn thinking_clients_begin_spread_out_and_think_after_each_answer() {
        let mut pace = pace(Pacing::Closed { think_time: ThinkTime::Fixed(Duration::from_micros(4)) });
        pace.begin(at(1000), 4, 0.5);
        let mut ready: Vec<_> = std::iter::from_fn(|| pace.pop_ready()).collect();
        ready.sort();
        assert_eq!(ready, [1500, 2500, 3500, 4500].map(at));
        pace.think(at(5000), 4);
        assert_eq!(pace.pop_ready(), None, "all four think already");
        assert!(pace.handle_due(at(1500), at(1500)) && pace.take(at(1500)).is_some());
        pace.think(at(5000), 4);
        assert_eq!((pace.pop_ready(), pace.pop_ready()), (Some(at(9000)), None));
    }

    #[test]
    fn exponential_think_times_have_their_mean() {
        let mean = Duration::from_micros(1);
        let mut pace = pace(Pacing::Closed { think_time: ThinkTime::Exponential(mean) });
        let count = 100_000;
        let mut sum = 0.0;
        for idle in 1..=count {
            pace.think(Instant::ZERO, idle);
            sum += pace.pop_ready().map_or(0.0, |ready| ready.as_nanos() as f64);
        }
        // Standard error 0.3 %: four of them to either side. The seed is fixed.
        let mean = sum / count as f64;
        assert!((988.0..=1012.0).contains(&mean), "{mean}");
    }
}

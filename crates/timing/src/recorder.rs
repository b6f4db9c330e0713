use std::collections::VecDeque;

use crate::report::{LoopReport, OperationReport, Report};
use crate::window::WindowRing;
use crate::{Distribution, Instant, Measurements, Operation, Outcome, Stamps};

/// Everything that one event loop measures. Nothing here is shared: each loop owns its recorder and hands out a
/// [`Report`] between two turns.
///
/// What is recorded goes into the open window alone; when that is over it is added to what was before, once a second. Recording
/// allocates only for times of a magnitude that an operation has not shown in this second yet; otherwise a request costs
/// seven histogram updates and a few additions.
#[derive(Debug)]
pub struct Recorder {
    /// All that was measured before the open window.
    before: Measurements,
    open: Measurements,
    /// Something belongs to the open window that should not wait for another one.
    is_open_used: bool,
    windows: WindowRing,
    /// Windows that are over and wait to be collected.
    ended: VecDeque<EndedWindow>,
    keeps_ended: bool,
}

/// What one loop measured in one window that is over.
#[derive(Debug)]
pub struct EndedWindow {
    /// The window covers this second since [`Instant::ZERO`], counted from 0.
    pub index: u64,
    /// What was measured in it.
    pub measured: Measurements,
}

/// Ended windows that may wait to be collected: a driver collects once per turn, in which at most two end. Beyond this the newest takes
/// up what comes.
const ENDED_MAX: usize = 4;

impl Recorder {
    /// A recorder for a loop that begins at `now` and talks to `servers` memcached servers.
    pub fn new(now: Instant, servers: usize) -> Self {
        Self {
            before: Measurements::of_servers(servers),
            open: Measurements::of_servers(servers),
            is_open_used: false,
            windows: WindowRing::new(now),
            ended: VecDeque::new(),
            keeps_ended: false,
        }
    }

    /// Whether [`Self::poll_ended`] would hand out a window.
    #[inline]
    pub fn has_ended(&self) -> bool {
        !self.ended.is_empty()
    }

    /// From now on windows that end are kept for [`Self::poll_ended`].
    pub fn keep_ended(&mut self) {
        self.keeps_ended = true;
    }

    /// The oldest window that is over and was not collected yet. Seconds in which nothing happened are left out.
    pub fn poll_ended(&mut self) -> Option<EndedWindow> {
        self.ended.pop_front()
    }

    /// A request was answered, at `stamps.answered`, until which [`Recorder::advance`] was called.
    // What is inlined here keeps its registers; as a call it costs a tenth more.
    #[inline(always)]
    pub fn record_request(&mut self, operation: Operation, outcome: Outcome, stamps: &Stamps) {
        if cfg!(feature = "untimed") {
            return;
        }
        self.is_open_used = true;
        let report = &mut self.open.operations[operation.index()];
        report.count(operation, outcome);
        report.record(stamps);
    }

    /// From now on there is a server of this number, of which nothing was recorded.
    pub fn begin_server(&mut self, server: usize) {
        for measured in [&mut self.before, &mut self.open] {
            if server >= measured.server_times.len() {
                measured.server_times.resize_with(server + 1, Distribution::new);
            }
            measured.server_times[server] = Distribution::new();
        }
    }

    /// Time in nanoseconds that one server took, from its request handed to the kernel to its reply complete; empty for a
    /// server that does not exist.
    pub fn server_time(&self, server: usize) -> Distribution {
        let mut sum = self.before.server_time(server).clone();
        sum.merge(self.open.server_time(server));
        sum
    }

    /// Times of one server's replies, from its request handed to the kernel until its reply is complete, belong to the open window. A
    /// server that does not exist is ignored.
    pub fn add_server_times(&mut self, server: usize, times: &Distribution) {
        debug_assert!(server < self.open.server_times.len(), "server {server} is not in the pool");
        if let Some(server_time) = self.open.server_times.get_mut(server) {
            self.is_open_used = true;
            server_time.merge(times);
        }
    }

    /// The loop worked for `nanos` nanoseconds between two waits: bytes that arrive meanwhile lie in socket buffers,
    /// before the first stamp of any request. A turn alone does not make a window that is collected: it waits for one in which
    /// something else happens.
    pub fn record_turn(&mut self, nanos: u64) {
        if !cfg!(feature = "untimed") {
            self.open.turn_time.record(nanos);
        }
    }

    /// Something happened that is counted elsewhere, and belongs to the open window.
    #[inline]
    pub fn use_window(&mut self) {
        self.is_open_used = true;
    }

    /// The open window, if it is to be collected when it is over; and when that is.
    pub fn used_window(&self) -> Option<(u64, Instant)> {
        (self.keeps_ended && self.is_open_used).then(|| (self.windows.open(), self.windows.open_ends()))
    }

    /// Whether [`Recorder::advance`] would close a window.
    #[inline]
    pub fn is_over(&self, now: Instant) -> bool {
        now >= self.windows.open_ends()
    }

    /// Closes every window that is over at `now`. To be called in every turn of the loop, so that a quiet second
    /// becomes a row of zeros; costs one comparison where nothing is over.
    #[inline]
    pub fn advance(&mut self, now: Instant) {
        if self.is_over(now) {
            self.close_until(now);
        }
    }

    #[cold]
    fn close_until(&mut self, now: Instant) {
        let index = self.windows.open();
        self.windows.close_until(now, &self.open);
        if !std::mem::take(&mut self.is_open_used) {
            // Turns, at most: they stay for the next window.
            return;
        }
        let next = Measurements::like(&self.open);
        let mut measured = std::mem::replace(&mut self.open, next);
        measured.operations.iter_mut().for_each(OperationReport::settle);
        self.before.merge(&measured);
        if !self.keeps_ended {
            return;
        }
        if self.ended.len() < ENDED_MAX {
            self.ended.push_back(EndedWindow { index, measured });
        } else if let Some(newest) = self.ended.back_mut() {
            newest.measured.merge(&measured);
        }
    }

    /// Requests of which a stamp lay before its predecessor, and counted as equal to it.
    pub fn stamps_clamped(&self) -> u64 {
        let operations = self.before.operations.iter().chain(self.open.operations.iter());
        operations.map(|it| it.clamped).sum()
    }

    /// A copy of all that was recorded until now.
    pub fn report(&self) -> Report {
        let mut operations = self.before.operations.clone();
        operations.iter_mut().zip(self.open.operations.iter()).for_each(|(sum, open)| sum.merge(open));
        let mut turn_time = self.before.turn_time.clone();
        turn_time.merge(&self.open.turn_time);
        Report {
            operations,
            loops: vec![LoopReport { turns: turn_time.count(), turn_time }],
            windows: self.windows.closed().clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Stage;

    fn stamps(start: u64, steps: [u64; 6]) -> Stamps {
        let mut moment = Instant::from_nanos(start);
        let mut next = |step| {
            moment = moment.plus(step);
            moment
        };
        let first_byte = next(0);
        let [created, enqueued, dequeued, forwarded, received, answered] = steps.map(&mut next);
        Stamps {
            first_byte,
            created,
            enqueued,
            dequeued,
            first_sent: dequeued,
            forwarded,
            received,
            answered,
        }
    }

    fn record(recorder: &mut Recorder, operation: Operation, outcome: Outcome, stamps: &Stamps) {
        recorder.advance(stamps.answered);
        recorder.record_request(operation, outcome, stamps);
    }

    fn times(nanos: &[u64]) -> Distribution {
        let mut times = Distribution::new();
        nanos.iter().for_each(|&it| times.record(it));
        times
    }

    #[test]
    fn a_request_is_in_its_operation_and_in_its_window() {
        let mut recorder = Recorder::new(Instant::ZERO, 0);
        let outcome = Outcome { error: false, keys: 3, hits: 2 };
        record(&mut recorder, Operation::MultiGet, outcome, &stamps(2_100_000_000, [1, 2, 3, 4, 5, 6]));
        let failed = Outcome { error: true, ..outcome };
        record(&mut recorder, Operation::MultiGet, failed, &stamps(2_200_000_000, [10, 20, 30, 40, 50, 60]));
        recorder.advance(Instant::from_nanos(3_000_000_000));

        let report = recorder.report();
        let multiget = report.operation(Operation::MultiGet);
        assert_eq!(
            (multiget.requests, multiget.errors, multiget.keys(), multiget.hits, multiget.misses()),
            (2, 1, 6, 2, 1)
        );
        for (stage, sum) in Stage::ALL.into_iter().zip([11, 22, 33, 44, 55, 66]) {
            assert_eq!(multiget.stage(stage).sum(), sum, "{}", stage.name());
            assert_eq!(multiget.stage(stage).count(), 2);
        }
        assert_eq!(multiget.total.sum(), 231);

        let windows: Vec<_> = report.windows().iter().collect();
        assert_eq!(windows.iter().map(|window| window.index).collect::<Vec<_>>(), [0, 1, 2]);
        let counts = windows[2].counts(Operation::MultiGet);
        assert_eq!((counts.requests, counts.errors), (2, 1));
        assert_eq!(counts.stage_sum_ns, [11, 22, 33, 44, 55, 66]);
        assert_eq!(counts.total_sum_ns, 231);
    }

    #[test]
    fn an_answer_opens_its_own_window_and_a_late_one_counts_in_the_open_window() {
        let mut recorder = Recorder::new(Instant::ZERO, 0);
        record(&mut recorder, Operation::Get, Outcome::default(), &stamps(5_000_000_000, [0; 6]));
        record(&mut recorder, Operation::Get, Outcome::default(), &stamps(4_999_999_999, [0; 6]));
        recorder.advance(Instant::from_nanos(6_000_000_000));
        let requests: Vec<_> =
            recorder.report().windows().iter().map(|window| window.counts(Operation::Get).requests).collect();
        assert_eq!(requests, [0, 0, 0, 0, 0, 2]);
    }

    #[test]
    fn a_window_that_is_over_can_be_collected_and_stays_in_the_report() {
        let mut recorder = Recorder::new(Instant::ZERO, 1);
        recorder.keep_ended();
        assert_eq!(recorder.used_window(), None);
        record(&mut recorder, Operation::Get, Outcome::default(), &stamps(100, [1; 6]));
        recorder.add_server_times(0, &times(&[40]));
        recorder.record_turn(7);
        assert_eq!(recorder.used_window(), Some((0, Instant::from_nanos(1_000_000_000))));
        record(&mut recorder, Operation::Get, Outcome::default(), &stamps(1_000_000_000, [2; 6]));
        let ended = recorder.poll_ended().expect("a second is over");
        assert_eq!(ended.index, 0);
        let get = ended.measured.operation(Operation::Get);
        assert_eq!((get.requests, get.total.sum()), (1, 6));
        assert_eq!(ended.measured.server_time(0).sum(), 40);
        assert_eq!(ended.measured.turn_time().sum(), 7);
        assert!(recorder.poll_ended().is_none());
        let report = recorder.report();
        assert_eq!(report.operation(Operation::Get).total.sum(), 18);
        assert_eq!(recorder.server_time(0).sum(), 40);
    }

    #[test]
    fn a_quiet_window_is_not_collected_and_its_turns_wait_for_the_next() {
        let mut recorder = Recorder::new(Instant::ZERO, 0);
        recorder.keep_ended();
        recorder.record_turn(5);
        recorder.advance(Instant::from_nanos(3_000_000_000));
        assert!(recorder.poll_ended().is_none());
        recorder.use_window();
        recorder.advance(Instant::from_nanos(4_000_000_000));
        let ended = recorder.poll_ended().expect("it was used");
        assert_eq!((ended.index, ended.measured.turn_time().sum()), (3, 5));
        assert_eq!(recorder.report().windows().iter().len(), 4);
    }

    #[test]
    fn windows_that_nobody_collects_are_bounded_and_lose_nothing() {
        let mut recorder = Recorder::new(Instant::ZERO, 0);
        recorder.keep_ended();
        for second in 0..20 {
            let start = second * 1_000_000_000;
            record(&mut recorder, Operation::Set, Outcome::default(), &stamps(start, [0; 6]));
        }
        let counts: Vec<_> = std::iter::from_fn(|| recorder.poll_ended())
            .map(|ended| ended.measured.operation(Operation::Set).requests)
            .collect();
        assert_eq!(counts, [1, 1, 1, 16]);
    }

    #[test]
    fn requests_with_a_stamp_before_its_predecessor_are_counted() {
        let mut recorder = Recorder::new(Instant::ZERO, 0);
        let good = stamps(100, [1; 6]);
        record(&mut recorder, Operation::Get, Outcome::default(), &good);
        assert_eq!(recorder.stamps_clamped(), 0);
        let bad = Stamps { received: good.dequeued, ..good };
        record(&mut recorder, Operation::Get, Outcome::default(), &bad);
        assert_eq!(recorder.stamps_clamped(), 1);
    }

    #[test]
    fn servers_and_turns_have_distributions_of_their_own() {
        let mut recorder = Recorder::new(Instant::ZERO, 2);
        recorder.add_server_times(1, &times(&[300]));
        recorder.record_turn(10);
        recorder.record_turn(20);
        assert!(recorder.server_time(0).is_empty() && recorder.server_time(7).is_empty());
        assert_eq!(recorder.server_time(1).max(), Some(300));
        recorder.begin_server(1);
        recorder.begin_server(3);
        recorder.add_server_times(3, &times(&[20]));
        assert!(recorder.server_time(1).is_empty());
        assert_eq!(recorder.server_time(3).max(), Some(20));
        let report = recorder.report();
        assert_eq!(report.loops()[0].turns, 2);
        assert_eq!(report.loops()[0].turn_time.sum(), 30);
    }
}

use crate::report::{LoopReport, OperationReport, Report};
use crate::window::WindowRing;
use crate::{Distribution, Instant, Operation, Outcome, Stamps};

/// Everything that one event loop measures. Nothing here is shared: each loop owns its recorder and hands out a
/// [`Report`] between two turns.
///
/// Recording allocates only for times of a magnitude that an operation has not shown yet; otherwise a request costs
/// seven histogram updates and a few additions.
#[derive(Debug)]
pub struct Recorder {
    operations: Box<[OperationReport; Operation::COUNT]>,
    server_times: Vec<Distribution>,
    turn_time: Distribution,
    windows: WindowRing,
}

impl Recorder {
    /// A recorder for a loop that begins at `now` and talks to `servers` memcached servers.
    pub fn new(now: Instant, servers: usize) -> Self {
        Self {
            operations: Box::default(),
            server_times: vec![Distribution::new(); servers],
            turn_time: Distribution::new(),
            windows: WindowRing::new(now),
        }
    }

    /// A request was answered, at `stamps.answered`. It belongs to that second's window; should that window be closed
    /// already, to the open one, so that no request is lost.
    pub fn record_request(&mut self, operation: Operation, outcome: Outcome, stamps: &Stamps) {
        let stages = stamps.stages();
        let total = stamps.total();
        self.operations[operation.index()].record(outcome, &stages, total);
        self.windows.advance(stamps.answered);
        self.windows.open().record(operation, outcome.error, &stages, total);
    }

    /// From now on there is a server of this number, of which nothing was recorded.
    pub fn begin_server(&mut self, server: usize) {
        if server >= self.server_times.len() {
            self.server_times.resize_with(server + 1, Distribution::new);
        }
        self.server_times[server] = Distribution::new();
    }

    /// Time in nanoseconds that one server took, from its request handed to the kernel to its reply complete; empty for a
    /// server that does not exist.
    pub fn server_time(&self, server: usize) -> &Distribution {
        static NEVER: Distribution = Distribution::new();
        self.server_times.get(server).unwrap_or(&NEVER)
    }

    /// A server replied: `nanos` nanoseconds passed from the moment its request was handed to the kernel until its
    /// reply was complete. A server that does not exist is ignored.
    pub fn record_server(&mut self, server: usize, nanos: u64) {
        debug_assert!(server < self.server_times.len(), "server {server} is not in the pool");
        if let Some(server_time) = self.server_times.get_mut(server) {
            server_time.record(nanos);
        }
    }

    /// The loop worked for `nanos` nanoseconds between two waits: bytes that arrive meanwhile lie in socket buffers,
    /// before the first stamp of any request.
    pub fn record_turn(&mut self, nanos: u64) {
        self.turn_time.record(nanos);
    }

    /// Closes every window that is over at `now`. To be called in every turn of the loop, so that a quiet second
    /// becomes a row of zeros; costs one comparison where nothing is over.
    #[inline]
    pub fn advance(&mut self, now: Instant) {
        self.windows.advance(now);
    }

    /// A copy of all that was recorded until now.
    pub fn report(&self) -> Report {
        Report {
            operations: self.operations.clone(),
            loops: vec![LoopReport { turns: self.turn_time.count(), turn_time: self.turn_time.clone() }],
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

    #[test]
    fn a_request_is_in_its_operation_and_in_its_window() {
        let mut recorder = Recorder::new(Instant::ZERO, 0);
        let outcome = Outcome { error: false, keys: 3, hits: 2, misses: 1 };
        recorder.record_request(Operation::MultiGet, outcome, &stamps(2_100_000_000, [1, 2, 3, 4, 5, 6]));
        let failed = Outcome { error: true, ..outcome };
        recorder.record_request(
            Operation::MultiGet,
            failed,
            &stamps(2_200_000_000, [10, 20, 30, 40, 50, 60]),
        );
        recorder.advance(Instant::from_nanos(3_000_000_000));

        let report = recorder.report();
        let multiget = report.operation(Operation::MultiGet);
        assert_eq!(
            (multiget.requests, multiget.errors, multiget.keys, multiget.hits, multiget.misses),
            (2, 1, 6, 4, 2)
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
        recorder.record_request(Operation::Get, Outcome::default(), &stamps(5_000_000_000, [0; 6]));
        recorder.record_request(Operation::Get, Outcome::default(), &stamps(4_999_999_999, [0; 6]));
        recorder.advance(Instant::from_nanos(6_000_000_000));
        let requests: Vec<_> =
            recorder.report().windows().iter().map(|window| window.counts(Operation::Get).requests).collect();
        assert_eq!(requests, [0, 0, 0, 0, 0, 2]);
    }

    #[test]
    fn servers_and_turns_have_distributions_of_their_own() {
        let mut recorder = Recorder::new(Instant::ZERO, 2);
        recorder.record_server(1, 300);
        recorder.record_turn(10);
        recorder.record_turn(20);
        assert!(recorder.server_time(0).is_empty() && recorder.server_time(7).is_empty());
        assert_eq!(recorder.server_time(1).max(), Some(300));
        recorder.begin_server(1);
        recorder.begin_server(3);
        recorder.record_server(3, 20);
        assert!(recorder.server_time(1).is_empty());
        assert_eq!(recorder.server_time(3).max(), Some(20));
        let report = recorder.report();
        assert_eq!(report.loops()[0].turns, 2);
        assert_eq!(report.loops()[0].turn_time.sum(), 30);
    }
}

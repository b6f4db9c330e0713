//! What is shown while a run is under way: on a terminal a line that is redrawn, elsewhere plain lines.

use std::io::Write;
use std::time::Duration;

use weir_timing::{Distribution, Instant};

use crate::driver::worker::Conduct;
use crate::recorder::PhaseCounts;
use crate::recorder::phase::Phase;
use crate::report::summary::human_time;

/// Shows a run's progress: one line that is redrawn, or one line per phase and one every ten seconds.
pub struct Progress {
    output: Box<dyn Write>,
    redrawn: bool,
    /// Everything observed so far.
    total: PhaseCounts,
    /// Observed since `since`.
    second: PhaseCounts,
    recent: Distribution,
    since: Instant,
    /// Rate and percentiles of the last whole second.
    last: String,
    drawn: bool,
}

impl Progress {
    /// A line that is redrawn on a terminal.
    pub fn redrawn(output: impl Write + 'static) -> Progress {
        Progress::new(Box::new(output), true)
    }

    /// One plain line per phase, and one every ten seconds.
    pub fn lines(output: impl Write + 'static) -> Progress {
        Progress::new(Box::new(output), false)
    }

    fn new(output: Box<dyn Write>, redrawn: bool) -> Progress {
        Progress {
            output,
            redrawn,
            total: PhaseCounts::default(),
            second: PhaseCounts::default(),
            recent: Distribution::new(),
            since: Instant::ZERO,
            last: String::new(),
            drawn: false,
        }
    }

    /// A phase begins; `extent` says how much of it there is.
    pub(crate) fn begin(&mut self, phase: Phase, extent: &str) {
        if !self.redrawn {
            self.write(&format!("{}: {extent}\n", phase.name()));
        }
    }

    /// The load begins in `left`.
    pub(crate) fn wait(&mut self, left: Duration) {
        let text = format!("begins in {:.1} s", left.as_secs_f64());
        if self.redrawn {
            self.drawn = true;
            self.write(&format!("\r\x1b[K{text}"));
        } else {
            self.write(&format!("{text}\n"));
        }
    }

    /// Says what has happened, every time on a terminal and every ten seconds elsewhere.
    pub(crate) fn show(&mut self, phase: Phase, left: Option<Duration>, now: Instant, conduct: &Conduct) {
        let observed = conduct.take_observed();
        self.second.add(observed.counts);
        self.total.add(observed.counts);
        self.recent.merge(&observed.recent);
        let pause_ns = if self.redrawn { SECOND_NS } else { LINES_NS };
        let is_over = now.saturating_since(self.since) >= pause_ns;
        if is_over {
            self.close(now);
        }
        let left = left.map_or(String::new(), |left| format!("{:.0} s left  ", left.as_secs_f64().ceil()));
        let line = format!(
            "{:<9} {left}{}  {} errors  {} failures",
            phase.name(),
            self.last,
            self.total.errors,
            self.total.failures
        );
        if self.redrawn {
            self.drawn = true;
            self.write(&format!("\r\x1b[K{line}"));
        } else if is_over {
            self.write(&format!("{line}\n"));
        }
    }

    /// Puts what was observed since the last time into words.
    fn close(&mut self, now: Instant) {
        let rate = self.second.requests as f64 * 1e9 / now.saturating_since(self.since) as f64;
        let times = self.recent.report();
        let time = |nanos: Option<u64>| nanos.map_or("-".to_owned(), |nanos| human_time(nanos as f64));
        let [p50, p99, p999] = [times.p50_ns, times.p99_ns, times.p999_ns].map(time);
        self.last = format!("{rate:.0} requests/s  p50 {p50}  p99 {p99}  p99.9 {p999}");
        self.second = PhaseCounts::default();
        self.recent.clear();
        self.since = now;
    }

    /// Takes the line away.
    pub fn clear(&mut self) {
        if self.drawn {
            self.drawn = false;
            self.write("\r\x1b[K");
        }
    }

    /// A terminal that has gone away is no reason to end a run.
    fn write(&mut self, text: &str) {
        let _ = self.output.write_all(text.as_bytes());
        let _ = self.output.flush();
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}

const SECOND_NS: u64 = 1_000_000_000;
/// Between two plain lines.
const LINES_NS: u64 = 10_000_000_000;

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::io;
    use std::rc::Rc;

    use super::*;
    use crate::recorder::phase::NEVER;

    #[derive(Clone, Default)]
    struct Screen(Rc<RefCell<Vec<u8>>>);

    impl Write for Screen {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.borrow_mut().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Screen {
        fn text(&self) -> String {
            String::from_utf8(self.0.borrow().clone()).expect("progress is text")
        }
    }

    #[test]
    fn elsewhere_than_on_a_terminal_each_phase_and_ten_seconds_are_one_line() {
        let screen = Screen::default();
        let mut progress = Progress::lines(screen.clone());
        let conduct = Conduct::new(NEVER);
        progress.begin(Phase::Prefill, "10 keys");
        progress.show(Phase::Prefill, None, Instant::from_nanos(5), &conduct);
        progress.begin(Phase::Measured, "60.0 s");
        progress.second.requests = 500;
        progress.show(Phase::Measured, None, Instant::from_nanos(9_999_999_999), &conduct);
        let left = Some(Duration::from_secs(50));
        progress.show(Phase::Measured, left, Instant::from_nanos(10_000_000_000), &conduct);
        drop(progress);
        let lines = [
            "prefill: 10 keys",
            "measured: 60.0 s",
            "measured  50 s left  50 requests/s  p50 -  p99 -  p99.9 -  0 errors  0 failures",
        ];
        assert_eq!(screen.text().lines().collect::<Vec<_>>(), lines);
    }

    #[test]
    fn a_terminal_shows_the_last_whole_second_and_is_left_clean() {
        let screen = Screen::default();
        let mut progress = Progress::redrawn(screen.clone());
        let conduct = Conduct::new(NEVER);
        progress.begin(Phase::Measured, "10.0 s");
        for nanos in 1..=500 {
            progress.recent.record(nanos * 1000);
        }
        progress.second.requests = 500;
        progress.total.errors = 2;
        let left = Some(Duration::from_millis(7_300));
        progress.show(Phase::Measured, left, Instant::from_nanos(2_000_000_000), &conduct);
        drop(progress);
        let line = "\r\x1b[Kmeasured  8 s left  250 requests/s  p50 250 µs  p99 495 µs  p99.9 -  2 errors  0 failures";
        assert_eq!(screen.text(), format!("{line}\r\x1b[K"));
    }
}

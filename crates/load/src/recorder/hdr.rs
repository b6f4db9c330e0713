//! The log of response times by second that HdrHistogram's tools read.

use std::fmt;
use std::io::{self, Write};
use std::time::{Duration, UNIX_EPOCH};

use hdrhistogram::Histogram;
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, IntervalLogWriterError, Tag};
use weir_timing::Distribution;

use crate::recorder::intervals::Interval;

/// A log in HdrHistogram's interval format, version 1.2 and encoding V2: for every second one line without a tag for all
/// operations together, then one line for each operation, with its name as tag. Values are nanoseconds.
pub struct HdrLog {
    output: Box<dyn Write>,
    failed: Option<io::Error>,
}

impl HdrLog {
    /// A log that is written to `output` while the run goes on.
    pub fn new(output: impl Write + 'static) -> HdrLog {
        HdrLog { output: Box::new(output), failed: None }
    }

    /// Writes what is left, and tells what went wrong.
    pub fn finish(mut self) -> io::Result<()> {
        match self.failed {
            Some(error) => Err(error),
            None => self.output.flush(),
        }
    }

    /// The measured phase begins at `start_unix_ns`.
    pub(crate) fn begin(&mut self, start_unix_ns: u64) {
        let start = UNIX_EPOCH + Duration::from_nanos(start_unix_ns);
        let mut header = IntervalLogWriterBuilder::new();
        header
            .add_comment(&format!(
                "[Histogram log format version 1.2, weir load {}]",
                env!("CARGO_PKG_VERSION")
            ))
            .add_comment("[Values are response times in nanoseconds]")
            .with_start_time(start)
            .with_base_time(start);
        let written = header.begin_log_with(&mut self.output, &mut V2DeflateSerializer::new()).map(drop);
        self.note(written);
    }

    /// Adds intervals, which follow those before.
    pub(crate) fn write(&mut self, intervals: &[Interval]) {
        // A disk that is full is reported at the end; it is no reason to lose the rest of the run.
        if self.failed.is_none() {
            let written = self.try_write(intervals);
            self.note(written);
        }
    }

    fn try_write(&mut self, intervals: &[Interval]) -> io::Result<()> {
        let mut serializer = V2DeflateSerializer::new();
        let mut log = IntervalLogWriterBuilder::new().begin_log_with(&mut self.output, &mut serializer)?;
        for interval in intervals {
            let start = Duration::from_secs(interval.second);
            let mut write = |times: &Distribution, tag| {
                let histogram = times.histogram().unwrap_or_else(empty);
                log.write_histogram(&histogram, start, SECOND, tag).map_err(into_io)
            };
            write(&interval.all(), None)?;
            for (operation, times) in interval.operations() {
                write(times, Tag::new(operation.name()))?;
            }
        }
        Ok(())
    }

    fn note(&mut self, written: io::Result<()>) {
        if let Err(error) = written {
            self.failed.get_or_insert(error);
        }
    }
}

impl fmt::Debug for HdrLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HdrLog").field("failed", &self.failed).finish_non_exhaustive()
    }
}

/// A second in which nothing was completed.
fn empty() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 2, 3).expect("the bounds are valid constants")
}

fn into_io<E: fmt::Display + fmt::Debug>(error: IntervalLogWriterError<E>) -> io::Error {
    match error {
        IntervalLogWriterError::IoError(error) => error,
        IntervalLogWriterError::SerializeError(error) => io::Error::other(error.to_string()),
    }
}

const SECOND: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use base64::Engine as _;
    use hdrhistogram::serialization::Deserializer;
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
    use weir_timing::Operation;

    use super::*;
    use crate::recorder::intervals::{Gathering, Intervals};

    #[derive(Clone, Default)]
    struct File(Rc<RefCell<Vec<u8>>>);

    impl Write for File {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.borrow_mut().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn the_librarys_reader_finds_what_was_written() {
        let mut intervals = Intervals::default();
        for (second, operation, nanos) in
            [(0, Operation::Get, 1000), (0, Operation::Set, 5000), (2, Operation::Get, 2_000_000_000)]
        {
            intervals.record(second, operation, nanos);
        }
        let mut gathering = Gathering::new(1);
        gathering.publish(0, &intervals.take_before(3), 3);
        let intervals = gathering.take_over();

        let file = File::default();
        let mut log = HdrLog::new(file.clone());
        log.begin(1_700_000_000_250_000_000);
        log.write(&intervals[..1]);
        log.write(&intervals[1..]);
        log.finish().expect("writing to memory does not fail");

        let bytes = file.0.borrow().clone();
        let mut found = Vec::new();
        for entry in IntervalLogIterator::new(&bytes) {
            match entry.expect("the log is well-formed") {
                LogEntry::StartTime(time) | LogEntry::BaseTime(time) => {
                    assert_eq!(time.as_millis(), 1_700_000_000_250);
                }
                LogEntry::Interval(interval) => {
                    let encoded = base64::engine::general_purpose::STANDARD
                        .decode(interval.encoded_histogram())
                        .expect("base64");
                    let histogram: Histogram<u64> =
                        Deserializer::new().deserialize(&mut encoded.as_slice()).expect("a histogram");
                    let tag = interval.tag().map(|tag| tag.as_str().to_owned());
                    found.push((interval.start_timestamp().as_secs(), tag, histogram.len()));
                }
            }
        }
        let tag = |name: &str| Some(name.to_owned());
        let expected = [
            (0, None, 2),
            (0, tag("get"), 1),
            (0, tag("set"), 1),
            (1, None, 0),
            (2, None, 1),
            (2, tag("get"), 1),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_full_disk_is_reported_at_the_end() {
        struct Full;
        impl Write for Full {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::StorageFull.into())
            }

            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let mut log = HdrLog::new(Full);
        log.begin(0);
        log.write(&[Interval::default()]);
        assert_eq!(log.finish().expect_err("the disk is full").kind(), io::ErrorKind::StorageFull);
    }
}

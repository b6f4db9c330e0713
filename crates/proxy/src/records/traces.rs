//! The file of `--trace`: a header and a line per sampled request, `weir.trace/1` of `docs/reference/formats.md`.

use crate::{
    process::clock::{self, Clock},
    records::writer::{Format, Records},
};
use std::io::Write as _;
use weir_dataplane::{Dataplane, TraceRow};
use weir_timing::Instant;

/// The first line of the file.
pub(crate) const HEADER: &str = "version,time_unix_ns,client,operation,outcome,keys,hits,request_bytes,reply_bytes,servers,queue_length,\
arrived_ns,first_byte_ns,created_ns,enqueued_ns,dequeued_ns,first_sent_ns,forwarded_ns,received_ns,answered_ns";

const VERSION: u32 = 1;

/// How requests are sampled.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sampling {
    /// The probability of each request, above 0 and at most 1.
    share: f64,
    /// What the choices depend on.
    seed: u64,
}

impl Sampling {
    pub(crate) const fn new(share: f64, seed: u64) -> Self {
        Self { share, seed }
    }
}

/// Where threads get their ways to the file.
#[derive(Clone)]
pub(crate) struct Tracing {
    records: Records<(usize, TraceRow)>,
    sampling: Sampling,
}

impl Tracing {
    pub(crate) fn new(records: Records<(usize, TraceRow)>, sampling: Sampling) -> Self {
        Self { records, sampling }
    }

    /// From now on requests of this dataplane are sampled. `thread` makes the choices of threads differ; `door` is the thread that accepts
    /// its clients.
    pub(crate) fn begin(&self, thread: usize, door: usize, dataplane: &mut Dataplane) -> Traces {
        let Sampling { share, seed } = self.sampling;
        dataplane.trace(share, seed.wrapping_mul(THREADS as u64).wrapping_add(thread as u64));
        Traces { records: self.records.clone(), door }
    }
}

/// More threads than there can be: no two threads of proxies with neighbouring seeds choose alike.
pub(crate) const THREADS: usize = 4096;

/// One thread's way to the file.
pub(crate) struct Traces {
    records: Records<(usize, TraceRow)>,
    door: usize,
}

impl Traces {
    /// To be called at the end of every turn.
    pub(crate) fn hand_over(&self, dataplane: &mut Dataplane) {
        let dropped = dataplane.take_traces(|row| self.records.give((self.door, row)));
        if dropped > 0 {
            self.records.count_dropped(dropped);
        }
    }
}

/// Writes rows.
pub(crate) fn format(clock: Clock) -> Format<(usize, TraceRow)> {
    Box::new(move |(door, row), _, line| {
        let (now, now_unix_ns) = (clock.now(), clock::unix_ns());
        let since = now.saturating_since(row.stamps.first_byte);
        write_row(row, *door, now_unix_ns.saturating_sub(since), line);
    })
}

fn write_row(row: &TraceRow, door: usize, time_unix_ns: u64, line: &mut Vec<u8>) {
    let stamps = &row.stamps;
    let servers = row.servers.join(" ");
    let servers =
        if servers.contains(['"', ',']) { format!("\"{}\"", servers.replace('"', "\"\"")) } else { servers };
    write!(
        line,
        "{VERSION},{time_unix_ns},{door}-{},{},{},{},{},{},{},{servers},{},",
        row.client,
        row.operation.name(),
        row.outcome,
        row.keys,
        row.hits,
        row.request_bytes,
        row.reply_bytes,
        row.queue_length,
    )
    .expect("memory takes all bytes");
    if let Some(arrived) = row.arrived {
        write!(line, "{}", arrived.as_nanos()).expect("memory takes all bytes");
    }
    let stamps = [
        stamps.first_byte,
        stamps.created,
        stamps.enqueued,
        stamps.dequeued,
        stamps.first_sent,
        stamps.forwarded,
        stamps.received,
        stamps.answered,
    ];
    for stamp in stamps.map(Instant::as_nanos) {
        write!(line, ",{stamp}").expect("memory takes all bytes");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_timing::{Operation, Stamps};

    fn row() -> TraceRow {
        let at = Instant::from_nanos;
        TraceRow {
            client: 17,
            operation: Operation::MultiGet,
            outcome: "ok",
            keys: 3,
            hits: 2,
            request_bytes: 24,
            reply_bytes: 310,
            servers: vec!["127.0.0.1:11211".into(), "127.0.0.1:11212".into()],
            queue_length: 4,
            arrived: Some(at(1_000_000_900)),
            stamps: Stamps {
                first_byte: at(1_000_001_000),
                created: at(1_000_002_000),
                enqueued: at(1_000_002_000),
                dequeued: at(1_000_030_000),
                first_sent: at(1_000_040_000),
                forwarded: at(1_000_050_000),
                received: at(1_000_900_000),
                answered: at(1_000_910_000),
            },
        }
    }

    #[test]
    fn rows_are_as_the_sample_says() {
        let mut text = format!("{HEADER}\n").into_bytes();
        let refused = TraceRow {
            operation: Operation::Local,
            outcome: "refused",
            servers: Vec::new(),
            arrived: None,
            stamps: Stamps::at(Instant::from_nanos(2_000_000_000)),
            ..row()
        };
        let named = TraceRow { servers: vec!["a,\"b".into()], ..row() };
        for row in [row(), refused, named] {
            write_row(&row, 1, 1_700_000_000_000_000_000, &mut text);
            text.push(b'\n');
        }
        let sample = include_str!("../../../../docs/samples/trace.csv");
        assert_eq!(String::from_utf8(text).expect("it is text"), sample);
    }
}

//! The files that a proxy writes records to, from their opening to the last line.

use crate::{
    Config,
    notices::notice::{Notice, Tell},
    process::{
        clock::Clock,
        error::RunError,
        threads::{LoopThread, Watch},
    },
    records::{
        traces::{self, Tracing},
        windows::{
            collector::Taker,
            window::{self, Window},
        },
        writer::{Complaint, RecordCounts, RecordWriter, Records},
    },
};
use std::{
    io,
    path::Path,
    sync::{
        Arc,
        mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    },
    time::Duration,
};

/// Windows that may wait to be written: half a minute.
const WINDOWS_WAITING_MAX: usize = 30;

/// How long the end waits for one more record to be written. A file that takes nothing any more must not keep the process.
const WAIT_MAX: Duration = Duration::from_secs(10);

/// Rows of sampled requests that may wait to be written: a hundredth of what a fast proxy answers in three seconds.
const ROWS_WAITING_MAX: usize = 16_384;

/// The files, and their threads.
pub(crate) struct Files {
    windows: Option<Records<Arc<Window>>>,
    windows_counts: Option<Arc<RecordCounts>>,
    rows: Option<Tracing>,
    rows_counts: Option<Arc<RecordCounts>>,
    /// Ends when every writer has.
    written: Receiver<()>,
}

/// What becomes of records; without a file there are none.
#[derive(Clone)]
pub(crate) struct FileCounts {
    windows: Option<Arc<RecordCounts>>,
    rows: Option<Arc<RecordCounts>>,
}

impl FileCounts {
    /// Windows that their file did not get.
    pub(crate) fn windows_dropped(&self) -> u64 {
        self.windows.as_ref().map_or(0, |counts| counts.dropped())
    }

    /// Rows that their file has.
    pub(crate) fn rows_written(&self) -> u64 {
        self.rows.as_ref().map_or(0, |counts| counts.written())
    }

    /// Rows that their file did not get.
    pub(crate) fn rows_dropped(&self) -> u64 {
        self.rows.as_ref().map_or(0, |counts| counts.dropped())
    }
}

impl Files {
    /// Opens what the configuration names.
    pub(crate) fn open(config: &Config, clock: Clock, tell: &Tell, watch: &Watch) -> Result<Self, RunError> {
        let (writing, written) = channel();
        let mut files = Self { windows: None, windows_counts: None, rows: None, rows_counts: None, written };
        if let Some(path) = &config.settings.windows {
            let format = Box::new(|window: &Arc<Window>, dropped, line: &mut Vec<u8>| {
                line.extend_from_slice(window::record(window, dropped).to_string().as_bytes());
            });
            let opened = RecordWriter::open(path, None, WINDOWS_WAITING_MAX, format, lost(tell));
            let (records, writer) = opened.map_err(|source| refused(path, source))?;
            files.windows = Some(records);
            files.windows_counts = Some(writer.counts());
            start(watch, "weir-windows-file", writer, writing.clone())?;
        }
        if let Some(path) = &config.settings.trace {
            let (header, format) = (Some(traces::HEADER), traces::format(clock));
            let opened = RecordWriter::open(path, header, ROWS_WAITING_MAX, format, lost(tell));
            let (records, writer) = opened.map_err(|source| refused(path, source))?;
            files.rows = Some(Tracing::new(records, config.sampling()));
            files.rows_counts = Some(writer.counts());
            start(watch, "weir-trace-file", writer, writing)?;
        }
        Ok(files)
    }

    /// Takes each window, and gives it to the file if there is one.
    pub(crate) fn take_windows_taker(&mut self) -> Taker {
        match self.windows.take() {
            Some(records) => Box::new(move |window| records.give(Arc::clone(window))),
            None => Box::new(|_| {}),
        }
    }

    /// Where sampled requests go, if they do.
    pub(crate) fn take_tracing(&mut self) -> Option<Tracing> {
        self.rows.take()
    }

    /// What becomes of the records of windows, and of the rows.
    pub(crate) fn counts(&self) -> FileCounts {
        FileCounts { windows: self.windows_counts.clone(), rows: self.rows_counts.clone() }
    }

    /// Returns when all is written, or when that takes too long. Nobody gives records any more.
    pub(crate) fn finish(self) -> Result<(), RunError> {
        let Self { windows, windows_counts, rows, rows_counts, written } = self;
        drop((windows, rows));
        let count = || {
            let counts = windows_counts.iter().chain(&rows_counts);
            counts.map(|it| it.written()).sum::<u64>()
        };
        let mut before = count();
        while let Err(RecvTimeoutError::Timeout) = written.recv_timeout(WAIT_MAX) {
            let now = count();
            if std::mem::replace(&mut before, now) == now {
                break;
            }
        }
        Ok(())
    }
}

fn start<T: Send + 'static>(
    watch: &Watch,
    name: &str,
    writer: RecordWriter<T>,
    writing: Sender<()>,
) -> Result<LoopThread, RunError> {
    watch.spawn(name.to_owned(), move || {
        let written = writer.run();
        drop(writing);
        written
    })
}

fn lost(tell: &Tell) -> Complaint {
    let tell = Arc::clone(tell);
    Box::new(move |reason| tell(Notice::RecordsLost(reason.to_owned())))
}

fn refused(path: &Path, source: io::Error) -> RunError {
    RunError::Record { path: path.display().to_string(), source }
}

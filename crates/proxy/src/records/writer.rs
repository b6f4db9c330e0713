//! Files of records, written by threads of their own.
//!
//! Whoever has a record gives it away without waiting. A disk that is slower than the records come costs records, which are counted, and
//! nothing else.

use std::{
    fs::{File, OpenOptions},
    io::{self, BufRead, BufReader, BufWriter, Write},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel},
    },
    time::Duration,
};

/// What became of the records of one file.
#[derive(Debug, Default)]
pub(crate) struct RecordCounts {
    written: AtomicU64,
    /// Records that the file did not get: too many waited, or it could not be written.
    dropped: AtomicU64,
}

impl RecordCounts {
    pub(crate) fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// Records that the file did not get.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

/// Takes records for one file.
pub(crate) struct Records<T> {
    sender: SyncSender<T>,
    counts: Arc<RecordCounts>,
}

impl<T> Clone for Records<T> {
    fn clone(&self) -> Self {
        Self { sender: self.sender.clone(), counts: Arc::clone(&self.counts) }
    }
}

impl<T> Records<T> {
    /// Never waits.
    pub(crate) fn give(&self, record: T) {
        if self.sender.try_send(record).is_err() {
            self.count_dropped(1);
        }
    }

    pub(crate) fn count_dropped(&self, count: u64) {
        self.counts.dropped.fetch_add(count, Ordering::Relaxed);
    }
}

/// Appends the text of a record to a line. It gets how many records were dropped before.
pub(crate) type Format<T> = Box<dyn FnMut(&T, u64, &mut Vec<u8>) + Send>;

/// Says once what went wrong.
pub(crate) type Complaint = Box<dyn FnOnce(&str) + Send>;

/// The thread that writes. It ends when nobody gives records any more and all are written.
pub(crate) struct RecordWriter<T> {
    path: PathBuf,
    out: BufWriter<File>,
    records: Receiver<T>,
    counts: Arc<RecordCounts>,
    format: Format<T>,
    /// Says once what went wrong.
    tell: Option<Complaint>,
}

/// How long bytes may wait for more to be written with them.
const FLUSH_AFTER: Duration = Duration::from_millis(200);

impl<T> RecordWriter<T> {
    /// Opens the file, to append to it. `header` is its first line; a file that begins otherwise is refused. At most `waiting_max`
    /// records wait to be written.
    pub(crate) fn open(
        path: &Path,
        header: Option<&str>,
        waiting_max: usize,
        format: Format<T>,
        tell: Complaint,
    ) -> io::Result<(Records<T>, Self)> {
        let mut file = OpenOptions::new().create(true).append(true).open(path)?;
        if let Some(header) = header {
            begin(path, &mut file, header)?;
        }
        let (sender, records) = sync_channel(waiting_max);
        let counts = Arc::new(RecordCounts::default());
        let writer = Self {
            path: path.to_owned(),
            out: BufWriter::new(file),
            records,
            counts: Arc::clone(&counts),
            format,
            tell: Some(tell),
        };
        Ok((Records { sender, counts }, writer))
    }

    pub(crate) fn counts(&self) -> Arc<RecordCounts> {
        Arc::clone(&self.counts)
    }

    pub(crate) fn run(mut self) -> io::Result<()> {
        let mut line = Vec::new();
        loop {
            match self.records.recv_timeout(FLUSH_AFTER) {
                Ok(record) => self.write(&record, &mut line),
                Err(RecvTimeoutError::Timeout) => self.flush(),
                Err(RecvTimeoutError::Disconnected) => {
                    self.flush();
                    return Ok(());
                }
            }
        }
    }

    fn write(&mut self, record: &T, line: &mut Vec<u8>) {
        line.clear();
        (self.format)(record, self.counts.dropped(), line);
        line.push(b'\n');
        match self.out.write_all(line) {
            Ok(()) => {
                self.counts.written.fetch_add(1, Ordering::Relaxed);
            }
            Err(error) => self.fail(&error),
        }
    }

    fn flush(&mut self) {
        if let Err(error) = self.out.flush() {
            self.fail(&error);
        }
    }

    fn fail(&mut self, error: &io::Error) {
        self.counts.dropped.fetch_add(1, Ordering::Relaxed);
        if let Some(tell) = self.tell.take() {
            let path = self.path.display();
            tell(&format!("{path} cannot be written ({error}); records are dropped and counted"));
        }
    }
}

/// Writes the first line of an empty file, and checks that of another.
fn begin(path: &Path, file: &mut File, header: &str) -> io::Result<()> {
    // Pipes and devices have no length and no first line.
    if !file.metadata()?.is_file() || file.metadata()?.len() == 0 {
        return writeln!(file, "{header}");
    }
    let mut first = String::new();
    let limit = header.len() as u64 + 2;
    BufReader::new(io::Read::take(File::open(path)?, limit)).read_line(&mut first)?;
    if first.trim_end() == header {
        return Ok(());
    }
    let reason =
        "the file holds something else: its first line is not that of such records; name another file";
    Err(io::Error::new(io::ErrorKind::AlreadyExists, reason))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("weir-records-{}-{name}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        path
    }

    fn open(path: &Path, waiting_max: usize) -> io::Result<(Records<u32>, RecordWriter<u32>)> {
        let format: Format<u32> = Box::new(|record, dropped, line| {
            line.extend_from_slice(format!("{record},{dropped}").as_bytes());
        });
        RecordWriter::open(path, Some("a,b"), waiting_max, format, Box::new(|_| {}))
    }

    #[test]
    fn records_are_appended_below_one_header() {
        let path = path("append");
        for record in [1, 2] {
            let (records, writer) = open(&path, 4).expect("it can be made");
            records.give(record);
            drop(records);
            writer.run().expect("it ends");
        }
        assert_eq!(std::fs::read_to_string(&path).expect("it is there"), "a,b\n1,0\n2,0\n");
        std::fs::remove_file(&path).expect("it is there");
    }

    #[test]
    fn what_nobody_writes_is_dropped_and_counted() {
        let path = path("full");
        let (records, writer) = open(&path, 2).expect("it can be made");
        (0..5).for_each(|record| records.give(record));
        assert_eq!(writer.counts().dropped(), 3);
        drop(records);
        let counts = writer.counts();
        writer.run().expect("it ends");
        assert_eq!(std::fs::read_to_string(&path).expect("it is there"), "a,b\n0,3\n1,3\n");
        assert_eq!(counts.written(), 2);
        std::fs::remove_file(&path).expect("it is there");
    }

    #[test]
    fn another_file_is_left_alone() {
        let path = path("other");
        std::fs::write(&path, "text\n").expect("it can be written");
        let refused = open(&path, 1).map(|_| ()).expect_err("it is no such file");
        assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read_to_string(&path).expect("it is there"), "text\n");
        std::fs::remove_file(&path).expect("it is there");
    }

    #[test]
    fn a_full_disk_is_reported_once_and_counted() {
        let reported = Arc::new(AtomicU64::new(0));
        let tells = Arc::clone(&reported);
        let format: Format<u32> = Box::new(|_, _, line| line.extend_from_slice(&[b'x'; 20_000]));
        let tell = Box::new(move |_: &str| {
            tells.fetch_add(1, Ordering::Relaxed);
        });
        let (records, writer) =
            RecordWriter::open(Path::new("/dev/full"), None, 4, format, tell).expect("the device is there");
        (0..3).for_each(|record| records.give(record));
        drop(records);
        let counts = writer.counts();
        writer.run().expect("it ends");
        assert!(counts.dropped() >= 3);
        assert_eq!(reported.load(Ordering::Relaxed), 1);
    }
}

//! Requests from a trace: Twitter's cache-trace CSV, or the log that memcached's `watch` sends.
//!
//! A trace is read while it is replayed, one line for each request, and shared by all connections: whichever may send next
//! takes the next line. Nothing is kept of a line once its request is answered.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::content::Command;
use crate::workload::keyspace::KEY_SIZE_MAX;
use crate::workload::mix::Ask;

/// A key as the trace names it.
#[derive(Clone, Copy)]
pub(crate) struct KeyName {
    length: u8,
    bytes: [u8; KEY_SIZE_MAX],
}

impl KeyName {
    pub(crate) const EMPTY: KeyName = KeyName { length: 0, bytes: [0; KEY_SIZE_MAX] };

    /// The key `bytes`, with zeros behind it up to `size` bytes. `None` where memcached would not take it.
    fn new(bytes: &[u8], size: usize) -> Option<KeyName> {
        let length = bytes.len().max(size);
        let well_formed = !bytes.is_empty() && bytes.iter().all(|&byte| byte > b' ' && byte != 0x7f);
        if !well_formed || length > KEY_SIZE_MAX {
            return None;
        }
        let mut name = KeyName { length: length as u8, bytes: [b'0'; KEY_SIZE_MAX] };
        name.bytes[..bytes.len()].copy_from_slice(bytes);
        Some(name)
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }

    /// What stands for this key where keys are numbers.
    pub(crate) fn hash(&self) -> u64 {
        xxhash_rust::xxh3::xxh3_64(self.bytes())
    }
}

impl std::fmt::Debug for KeyName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "KeyName({})", self.bytes().escape_ascii())
    }
}

/// A trace that is being replayed.
pub(crate) struct Trace {
    path: PathBuf,
    reader: Mutex<Reader>,
    ended: AtomicBool,
    /// Whether a key that a read does not find is set.
    fill: bool,
}

/// What is wrong with a trace.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("--replay {}: {}{reason}", path.display(), line.map_or(String::new(), |line| format!("line {line}: ")))]
pub struct TraceError {
    /// The trace's file.
    pub path: PathBuf,
    /// The line's number from 1, where a line is at fault.
    pub line: Option<u64>,
    /// What is wrong.
    pub reason: String,
}

impl Trace {
    /// Opens the trace in the file `path`; `-` is standard input. It ends after `requests`, where a number is given.
    pub(crate) fn open(path: &Path, fill: bool, requests: Option<u64>) -> Result<Trace, TraceError> {
        let input: Box<dyn Read + Send> = if path.as_os_str() == "-" {
            Box::new(io::stdin())
        } else {
            let fault = |error: io::Error| TraceError {
                path: path.to_owned(),
                line: None,
                reason: error.to_string(),
            };
            Box::new(File::open(path).map_err(fault)?)
        };
        Ok(Trace::new(path, input, fill, requests))
    }

    fn new(path: &Path, input: Box<dyn Read + Send>, fill: bool, requests: Option<u64>) -> Trace {
        let reader = Mutex::new(Reader::new(input, requests.unwrap_or(u64::MAX)));
        Trace { path: path.to_owned(), reader, ended: AtomicBool::new(false), fill }
    }

    /// The next request, its key put into `name`. `None` when the trace has ended or cannot be read on.
    pub(crate) fn next(&self, name: &mut KeyName) -> Option<Ask> {
        if self.has_ended() {
            return None;
        }
        let (record, ended) = {
            let mut reader = self.lock();
            (reader.next_unless_ended(), reader.ended)
        };
        if ended {
            self.ended.store(true, Ordering::Release);
        }
        let record = record?;
        *name = record.key;
        Some(Ask::begin(record.command, record.ttl, Some(record.value_size), self.fill))
    }

    /// Whether there are no more requests.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Why the trace ended before its end.
    pub(crate) fn fault(&self) -> Option<TraceError> {
        let reader = self.lock();
        let reason = reader.fault.clone()?;
        Some(TraceError { path: self.path.clone(), line: Some(reader.line_number), reason })
    }

    /// A reader is whole between any two of its steps.
    fn lock(&self) -> MutexGuard<'_, Reader> {
        self.reader.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Trace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Trace").field("path", &self.path).finish_non_exhaustive()
    }
}

/// One request of a trace.
#[derive(Debug, Clone, Copy)]
struct Record {
    command: Command,
    key: KeyName,
    value_size: u32,
    ttl: u32,
}

struct Reader {
    input: BufReader<Box<dyn Read + Send>>,
    line: Vec<u8>,
    line_number: u64,
    /// A lookup in a watcher's log that may turn out to be part of the store behind it, and its client's descriptor.
    held: Option<(Record, u64)>,
    /// Requests that may still be taken.
    left: u64,
    /// No more is read: the input was at its end, or at fault, or no more may be taken.
    ended: bool,
    fault: Option<String>,
}

impl Reader {
    fn new(input: Box<dyn Read + Send>, left: u64) -> Reader {
        let input = BufReader::with_capacity(BUFFER_BYTES, input);
        Reader { input, line: Vec::new(), line_number: 0, held: None, left, ended: false, fault: None }
    }

    /// The next request, until the end or the first fault. A thread that waited here while another found the fault must not
    /// read on behind it.
    fn next_unless_ended(&mut self) -> Option<Record> {
        if self.ended {
            return None;
        }
        let record = self.next().unwrap_or_else(|reason| {
            self.fault = Some(reason);
            None
        });
        self.left = self.left.saturating_sub(1);
        self.ended = record.is_none() || self.left == 0;
        record
    }

    fn next(&mut self) -> Result<Option<Record>, String> {
        while self.read_line()? {
            let line = self.line.trim_ascii();
            if line.is_empty() || line == b"OK" {
                continue;
            }
            if !line.starts_with(b"ts=") {
                return parse_csv(line).map(Some);
            }
            let Some((record, client)) = parse_watch(line)? else { continue };
            // memcached looks an item up before it stores one, and its log tells both.
            let held = self.held.take();
            let is_lookup = record.command == Command::Get;
            let own = |(lookup, of): (Record, u64)| {
                (is_lookup || of != client || lookup.key.bytes() != record.key.bytes()).then_some(lookup)
            };
            match (held.and_then(own), is_lookup) {
                (lookup, true) => {
                    self.held = Some((record, client));
                    if lookup.is_some() {
                        return Ok(lookup);
                    }
                }
                (None, false) => return Ok(Some(record)),
                (Some(lookup), false) => {
                    self.held = Some((record, NOBODY));
                    return Ok(Some(lookup));
                }
            }
        }
        Ok(self.held.take().map(|(record, _)| record))
    }

    /// Reads one line; false at the end.
    fn read_line(&mut self) -> Result<bool, String> {
        self.line.clear();
        let read = (&mut self.input)
            .take(LINE_BYTES_MAX)
            .read_until(b'\n', &mut self.line)
            .map_err(|error| format!("cannot read on: {error}"))?;
        self.line_number += u64::from(read > 0);
        if read as u64 == LINE_BYTES_MAX && self.line.last() != Some(&b'\n') {
            return Err(format!("the line is longer than {LINE_BYTES_MAX} bytes"));
        }
        Ok(read > 0)
    }
}

/// Twitter's format: timestamp, anonymised key, key size, value size, client id, operation, TTL. Keys may hold commas.
fn parse_csv(line: &[u8]) -> Result<Record, String> {
    let expected =
        || "expected timestamp,key,key size,value size,client id,operation,TTL, or a memcached watcher's log";
    let mut columns = line.rsplitn(6, |&byte| byte == b',');
    let mut column = || columns.next().ok_or_else(expected);
    let (ttl, operation, _client) = (column()?, column()?, column()?);
    let (value_size, key_size, rest) = (column()?, column()?, column()?);
    let comma = rest.iter().position(|&byte| byte == b',').ok_or_else(expected)?;
    let command = word(operation).parse::<Command>()?;
    let value_size = number(value_size, "value size", VALUE_SIZE_MAX)? as u32;
    let key_size = number(key_size, "key size", u64::MAX)?;
    let ttl = number(ttl, "TTL", u64::MAX)?.min(TTL_MAX) as u32;
    let key = &rest[comma + 1..];
    let key = KeyName::new(key, key_size.min(KEY_SIZE_MAX as u64 + 1) as usize)
        .ok_or_else(|| format!("the key {:?} is none that memcached takes", word(key)))?;
    Ok(Record { command, key, value_size, ttl })
}

/// A line of memcached's log as words `name=value`: the request and its client's descriptor, or nothing where the line tells
/// of something else.
fn parse_watch(line: &[u8]) -> Result<Option<(Record, u64)>, String> {
    let field = |name: &str| {
        line.split(|&byte| byte == b' ')
            .find_map(|word| word.strip_prefix(name.as_bytes())?.strip_prefix(b"="))
    };
    let needed = |name: &str| field(name).ok_or_else(|| format!("the log line has no {name}="));
    let command = match needed("type")? {
        b"item_get" => Command::Get,
        b"item_store" => word(needed("cmd")?).parse()?,
        _ => return Ok(None),
    };
    let encoded = needed("key")?;
    let bad = || format!("the key {:?} is none that memcached takes", word(encoded));
    let mut room = [0; KEY_SIZE_MAX];
    let key = KeyName::new(decoded(encoded, &mut room).ok_or_else(bad)?, 0).ok_or_else(bad)?;
    let size = field("size").map_or(Ok(0), |size| number(size, "size", VALUE_SIZE_MAX))? as u32;
    // A time that has passed is written as a negative number.
    let ttl = field("ttl")
        .map_or(Ok(0), |ttl| if ttl.starts_with(b"-") { Ok(0) } else { number(ttl, "ttl", u64::MAX) })?;
    let client = field("cfd").map_or(Ok(0), |client| number(client, "cfd", u64::MAX))?;
    Ok(Some((Record { command, key, value_size: size, ttl: ttl.min(TTL_MAX) as u32 }, client)))
}

/// Text in which `%NN` stands for bytes, put into `room`. `None` where it has no room, or cannot be read.
fn decoded<'a>(text: &[u8], room: &'a mut [u8; KEY_SIZE_MAX]) -> Option<&'a [u8]> {
    let (mut rest, mut length) = (text, 0);
    while let Some((&byte, behind)) = rest.split_first() {
        let place = room.get_mut(length)?;
        length += 1;
        if byte == b'%' {
            let digits = std::str::from_utf8(behind.get(..2)?).ok()?;
            *place = u8::from_str_radix(digits, 16).ok()?;
            rest = &behind[2..];
        } else {
            *place = byte;
            rest = behind;
        }
    }
    Some(&room[..length])
}

fn number(text: &[u8], what: &str, most: u64) -> Result<u64, String> {
    let number = std::str::from_utf8(text).ok().and_then(|text| text.trim().parse().ok());
    number
        .filter(|number| *number <= most)
        .ok_or_else(|| format!("the {what} {:?} is no number up to {most}", word(text)))
}

fn word(bytes: &[u8]) -> String {
    crate::workload::verify::text(bytes)
}

/// Larger than any key with its log line, and small enough to hold.
const LINE_BYTES_MAX: u64 = 4096;
const BUFFER_BYTES: usize = 64 << 10;
const VALUE_SIZE_MAX: u64 = TRACE_VALUE_SIZE_MAX as u64;
/// memcached's largest item is a megabyte unless `-I` says otherwise; larger values of a trace are a fault in it.
pub(crate) const TRACE_VALUE_SIZE_MAX: usize = 2 << 20;
/// Thirty days: above that, memcached takes a number for a moment since 1970.
const TTL_MAX: u64 = 30 * 86_400;
/// No client's descriptor.
const NOBODY: u64 = u64::MAX;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::workload::mix::Then;

    fn trace(text: &str) -> Trace {
        Trace::new(Path::new("sample"), Box::new(io::Cursor::new(text.as_bytes().to_vec())), false, None)
    }

    fn replay(text: &str) -> (Vec<String>, Option<String>) {
        let trace = trace(text);
        let mut name = KeyName::EMPTY;
        let mut requests = Vec::new();
        while let Some(ask) = trace.next(&mut name) {
            let size = ask.value_size.expect("a trace tells sizes");
            requests.push(format!(
                "{} {} {size} {}",
                ask.command.name(),
                name.bytes().escape_ascii(),
                ask.ttl
            ));
        }
        assert!(trace.has_ended());
        (requests, trace.fault().map(|fault| fault.to_string()))
    }

    #[test]
    fn twitters_format_is_read() {
        let (requests, fault) = replay(
            "0,q:q:1:8WTfjZU14ee,17,213,4,get,0\n0,yDqF:3q,1AJrrJ1nnCJKKrnGx1A,27,27,5,get,0\n\n1,aa,4,300,2,set,86400\n2,aa,2,0,2,delete,0\n3,n,1,1,1,incr,99999999\n",
        );
        assert_eq!(fault, None);
        assert_eq!(
            requests,
            [
                "get q:q:1:8WTfjZU14ee 213 0",
                "get yDqF:3q,1AJrrJ1nnCJKKrnGx1A 27 0",
                "set aa00 300 86400",
                "delete aa 0 0",
                "incr n 1 2592000"
            ]
        );
    }

    #[test]
    fn watchers_logs_are_read_and_a_stores_own_lookup_is_left_out() {
        let (requests, fault) = replay(
            "OK\r\nts=1.2 gid=2 type=item_get key=foo status=not_found clsid=0 cfd=13 size=0\r\n\
             ts=1.3 gid=3 type=item_store key=foo status=stored cmd=set ttl=60 clsid=1 cfd=13 size=3\r\n\
             ts=1.4 gid=4 type=item_get key=a%25b status=found clsid=1 cfd=13 size=9\r\n\
             ts=1.5 gid=5 type=item_get key=foo status=found clsid=1 cfd=13 size=3\r\n\
             ts=1.6 gid=6 type=item_store key=foo status=stored cmd=append ttl=0 clsid=1 cfd=14 size=4\r\n\
             ts=1.7 gid=7 type=eviction key=foo fetch=yes ttl=0 la=1 clsid=1 size=3\r\n\
             ts=1.8 gid=8 type=item_get key=z status=not_found clsid=0 cfd=13 size=0\r\n",
        );
        assert_eq!(fault, None);
        assert_eq!(requests, ["set foo 3 60", "get a%b 9 0", "get foo 3 0", "append foo 4 0", "get z 0 0"]);
    }

    #[test]
    fn a_bad_line_is_reported_with_its_number() {
        for (line, reason) in [
            ("nonsense", "expected timestamp,key,key size"),
            ("1,k,1,1,1,fetch,0", "\"fetch\" is no command that can be sent"),
            ("1,k,1,many,1,get,0", "the value size \"many\" is no number"),
            ("1,k,1,99999999999,1,set,0", "the value size \"99999999999\" is no number up to"),
            ("1,k,251,1,1,get,0", "the key \"k\" is none that memcached takes"),
            ("1,,1,1,1,get,0", "the key \"\" is none"),
            ("1,a b,3,1,1,get,0", "the key \"a b\" is none"),
            ("ts=1 gid=1 type=item_get", "the log line has no key="),
            ("ts=1 gid=1 type=item_get key=%0", "is none that memcached takes"),
            ("ts=1 gid=1 type=item_get key=%20", "is none that memcached takes"),
        ] {
            let (requests, fault) = replay(&format!("0,k,1,1,1,get,0\n{line}\n0,k,1,1,1,get,0\n"));
            let fault = fault.expect(line);
            assert!(fault.starts_with("--replay sample: line 2: ") && fault.contains(reason), "{fault}");
            assert_eq!(requests.len(), 1, "{line}");
        }
        let (_, fault) = replay(&"x".repeat(1 << 20));
        assert_eq!(fault.expect("too long"), "--replay sample: line 1: the line is longer than 4096 bytes");
    }

    /// Seen once with two threads: the one that waited for the reader went on behind the bad line, and the fault named line 102.
    #[test]
    fn who_waited_while_another_found_the_fault_does_not_read_on() {
        let text: &[u8] = b"0,k,1,1,1,get,0\nwhat is this\n0,k,1,1,1,get,0\nand this\n";
        let trace = Trace::new(Path::new("sample"), Box::new(text), false, None);
        let taken: Vec<bool> = (0..4).map(|_| trace.lock().next_unless_ended().is_some()).collect();
        assert_eq!(taken, [true, false, false, false]);
        assert_eq!(trace.fault().and_then(|fault| fault.line), Some(2));
    }

    #[test]
    fn a_bound_on_requests_ends_a_trace_with_the_last_one() {
        let text = b"0,k,1,1,1,get,0\n0,k,1,1,1,get,0\n0,k,1,1,1,get,0\nwhat is this\n";
        let trace = Trace::new(Path::new("sample"), Box::new(io::Cursor::new(text.to_vec())), false, Some(2));
        let mut name = KeyName::EMPTY;
        assert!(trace.next(&mut name).is_some() && !trace.has_ended());
        assert!(trace.next(&mut name).is_some() && trace.has_ended(), "nobody waits for a third");
        assert!(trace.next(&mut name).is_none() && trace.fault().is_none());
    }

    #[test]
    fn a_missing_file_is_named() {
        let error =
            Trace::open(Path::new("/nonexistent/trace.csv"), false, None).expect_err("there is no such file");
        assert!(error.to_string().starts_with("--replay /nonexistent/trace.csv: No such file"), "{error}");
    }

    #[test]
    fn a_cas_begins_with_a_gets_and_a_miss_is_filled() {
        let text = "0,k,1,9,1,cas,0\n0,k,1,9,1,get,0\n";
        let trace =
            Trace::new(Path::new("sample"), Box::new(io::Cursor::new(text.as_bytes().to_vec())), true, None);
        let mut name = KeyName::EMPTY;
        let (first, second) =
            (trace.next(&mut name).expect("a line"), trace.next(&mut name).expect("a line"));
        assert_eq!((first.command, first.then), (Command::Gets, Then::Cas { fill: true }));
        assert_eq!((second.command, second.then), (Command::Get, Then::Fill));
    }

    proptest! {
        #[test]
        fn no_bytes_can_harm(text in prop::collection::vec(any::<u8>(), 0..300), prefix in 0..3_usize) {
            let mut bytes = [&b""[..], b"ts=1 type=item_get key=", b"0,k,1,1,1,"][prefix].to_vec();
            bytes.extend(text);
            let trace = Trace::new(Path::new("sample"), Box::new(io::Cursor::new(bytes)), false, None);
            let mut name = KeyName::EMPTY;
            while let Some(ask) = trace.next(&mut name) {
                prop_assert!((1..=250).contains(&name.bytes().len()), "{ask:?}");
            }
        }
    }
}

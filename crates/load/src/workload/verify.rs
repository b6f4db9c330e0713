//! Whether a reply answers its request: the right keys in request order, each with a value that was written to it and is
//! not outdated.

use std::io;
use std::time::Duration;

use weir_protocol::{ValueSpan, Violation};

use crate::workload::replay::KeyName;
use crate::workload::value::{ValueFault, verify_pieces};
use crate::workload::versions::{Origin, count};
use crate::workload::{FLAGS, Workload};

/// A key that was asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked {
    pub(crate) key: u64,
    /// The least version that may come; 0 where any may.
    pub(crate) floor: u64,
}

/// What a right reply to a read held.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) hits: u32,
    pub(crate) misses: u32,
    /// Hits whose value was written by another run.
    pub(crate) foreign: u32,
}

/// Verifies the values in a reply to a read of `asked`, and appends the keys that did not come to `missed`. With a trace,
/// the one key is `name`.
pub(crate) fn verify_values(
    workload: &Workload,
    asked: impl Iterator<Item = Asked> + Clone,
    name: Option<&KeyName>,
    values: &[ValueSpan],
    buffer: &[u8],
    missed: &mut Vec<u64>,
) -> Result<Found, Fault> {
    let mut found = Found::default();
    let mut rest = values.iter();
    let mut value = rest.next();
    for asked in asked.clone() {
        match value {
            Some(span) if is_key(workload, asked.key, name, &buffer[span.key.clone()]) => {
                found.foreign += u32::from(verify_value(workload, asked, span, buffer)? == Origin::Foreign);
                found.hits += 1;
                value = rest.next();
            }
            _ => {
                found.misses += 1;
                missed.push(asked.key);
            }
        }
    }
    match value {
        None => Ok(found),
        Some(span) => Err(misplaced(workload, asked, name, &buffer[span.key.clone()])),
    }
}

fn is_key(workload: &Workload, key: u64, name: Option<&KeyName>, bytes: &[u8]) -> bool {
    match name {
        Some(name) => name.bytes() == bytes,
        None => workload.keyspace.index_of(bytes) == Some(key),
    }
}

fn verify_value(workload: &Workload, asked: Asked, span: &ValueSpan, buffer: &[u8]) -> Result<Origin, Fault> {
    let Asked { key, floor } = asked;
    let name = || text(&buffer[span.key.clone()]);
    let mut origin = Origin::Written;
    let mut newest = 0;
    let size = workload.trace.is_none().then(|| workload.value_size(key));
    verify_pieces(key, &buffer[span.data.clone()], size, workload.is_pieced(), |version| {
        match workload.versions.origin(key, version) {
            Origin::Written => newest = newest.max(count(version)),
            Origin::Foreign => origin = Origin::Foreign,
            Origin::NeverWritten { count, issued } => return Err(Unright::NeverWritten { count, issued }),
        }
        Ok(())
    })
    .map_err(|unright| match unright {
        Unright::Value(fault) => Fault::Value { key: name(), fault },
        Unright::NeverWritten { count, issued } => Fault::NeverWritten { key: name(), count, issued },
    })?;
    if span.flags != FLAGS {
        return Err(Fault::Flags { key: name(), found: span.flags });
    }
    // A value too small for a version, or of another run alone, has none to compare.
    if (1..floor).contains(&newest) {
        return Err(Fault::Stale { key: name(), count: newest, acknowledged: floor });
    }
    Ok(origin)
}

/// What is wrong with a value, before its key has a name.
enum Unright {
    Value(ValueFault),
    NeverWritten { count: u64, issued: u64 },
}

impl From<ValueFault> for Unright {
    fn from(fault: ValueFault) -> Unright {
        Unright::Value(fault)
    }
}

/// Verifies the number that answers an `incr` or `decr` of `key`.
pub(crate) fn verify_number(workload: &Workload, key: u64, line: &[u8]) -> Result<(), Fault> {
    let digits = line.trim_ascii_end();
    // The scanner has seen that these are digits, of a number that memcached can count to.
    let found = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse::<u64>().ok());
    match (found, workload.number_max(key)) {
        (Some(found), Some(most)) if found > most => Err(Fault::Number { found, most }),
        (Some(_), _) => Ok(()),
        (None, _) => Err(Fault::Unfit { reply: text(digits) }),
    }
}

/// Why a value's key is not the one that should have come at its place.
#[cold]
fn misplaced(
    workload: &Workload,
    mut asked: impl Iterator<Item = Asked>,
    name: Option<&KeyName>,
    key: &[u8],
) -> Fault {
    let text = text(key);
    if let Some(name) = name {
        return if name.bytes() == key {
            Fault::OutOfOrder { key: text }
        } else {
            Fault::NotAsked { key: text }
        };
    }
    match workload.keyspace.index_of(key) {
        None => Fault::UnknownKey { key: text },
        Some(index) if asked.any(|asked| asked.key == index) => Fault::OutOfOrder { key: text },
        Some(_) => Fault::NotAsked { key: text },
    }
}

/// The value in a meta reply to `mg <key> f k v`: `VA <bytes> f<flags> k<key>`, and the data. As for the scanner that found the reply, its
/// line may end in a line feed alone.
pub(crate) fn meta_value(reply: &[u8]) -> Option<ValueSpan> {
    let data_start = reply.iter().position(|&byte| byte == b'\n')? + 1;
    let line = reply[..data_start - 1].strip_suffix(b"\r").unwrap_or(&reply[..data_start - 1]);
    let mut key = None;
    let mut flags = None;
    let mut at = 0;
    for word in line.split(|&byte| byte == b' ') {
        match word.first() {
            Some(b'k') => key = Some(at + 1..at + word.len()),
            Some(b'f') => flags = std::str::from_utf8(&word[1..]).ok()?.parse().ok(),
            _ => {}
        }
        at += word.len() + 1;
    }
    let data = data_start..reply.len().checked_sub(2).filter(|&end| end >= data_start)?;
    Some(ValueSpan { block: 0..reply.len(), key: key?, data, flags: flags?, cas: None })
}

/// Bytes of a peer, fit to be printed.
pub(crate) fn text(bytes: &[u8]) -> String {
    bytes[..bytes.len().min(TEXT_BYTES_MAX)].escape_ascii().to_string()
}

const TEXT_BYTES_MAX: usize = 250;

/// What is wrong with a reply, or why none came.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Fault {
    #[error("key {key}: {fault}")]
    Value { key: String, fault: ValueFault },
    #[error("key {key}: version {count} was never written, the last one issued is {issued}")]
    NeverWritten { key: String, count: u64, issued: u64 },
    #[error(
        "key {key}: version {count} is outdated: version {acknowledged} was acknowledged before the request was sent"
    )]
    Stale { key: String, count: u64, acknowledged: u64 },
    #[error("the number is {found}, but no more than {most} can have been counted")]
    Number { found: u64, most: u64 },
    #[error("key {key}: the flags are {found} instead of {FLAGS}")]
    Flags { key: String, found: u32 },
    #[error("key {key}: the value came without a cas token")]
    NoToken { key: String },
    #[error("a value came for {key}, which is no key of this run")]
    UnknownKey { key: String },
    #[error("a value came for {key}, which was not asked for")]
    NotAsked { key: String },
    #[error("the value for {key} came out of request order, or twice")]
    OutOfOrder { key: String },
    #[error("the reply {reply:?} does not fit the request")]
    Unfit { reply: String },
    #[error("malformed reply: {0}")]
    Malformed(#[from] Violation),
    #[error("the reply is longer than any right one ({bytes} bytes)")]
    TooLong { bytes: usize },
    #[error("bytes came that answer no request: \"{bytes}\"")]
    Unasked { bytes: String },
    #[error("no answer within {0:?}")]
    Timeout(Duration),
    #[error("the connection was closed by the other side")]
    Closed,
    #[error("the connection broke: {0}")]
    Io(String),
    #[error("cannot connect again: {0}")]
    Connect(String),
    #[error("the connection is given up after {0} attempts to connect again")]
    GivenUp(u32),
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Fault {
        Fault::Io(error.to_string())
    }
}

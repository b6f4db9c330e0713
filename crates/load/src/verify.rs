//! Whether a reply answers its request: the right keys in request order, each with a value that was written to it.

use std::io;
use std::time::Duration;

use weir_protocol::{ValueSpan, Violation};

use crate::value::ValueFault;
use crate::versions::Origin;
use crate::workload::{FLAGS, Workload};

/// What a right reply to a read held.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) hits: u32,
    pub(crate) misses: u32,
    /// Hits whose value was written by another run.
    pub(crate) foreign: u32,
}

/// Verifies the values in a reply to a read of `asked`.
pub(crate) fn verify_values(
    workload: &Workload,
    asked: impl Iterator<Item = u64> + Clone,
    values: &[ValueSpan],
    buffer: &[u8],
) -> Result<Found, Fault> {
    let mut found = Found::default();
    let mut rest = values.iter();
    let mut value = rest.next();
    for key in asked.clone() {
        match value {
            Some(span) if workload.keyspace.index_of(&buffer[span.key.clone()]) == Some(key) => {
                found.foreign += u32::from(verify_value(workload, key, span, buffer)? == Origin::Foreign);
                found.hits += 1;
                value = rest.next();
            }
            _ => found.misses += 1,
        }
    }
    match value {
        None => Ok(found),
        Some(span) => Err(misplaced(workload, asked, &buffer[span.key.clone()])),
    }
}

fn verify_value(workload: &Workload, key: u64, span: &ValueSpan, buffer: &[u8]) -> Result<Origin, Fault> {
    let version = workload
        .values
        .verify(key, &buffer[span.data.clone()])
        .map_err(|fault| Fault::Value { key: text(&buffer[span.key.clone()]), fault })?;
    if span.flags != FLAGS {
        return Err(Fault::Flags { key: text(&buffer[span.key.clone()]), found: span.flags });
    }
    match version.map_or(Origin::Written, |version| workload.versions.origin(key, version)) {
        Origin::NeverWritten { count, issued } => {
            Err(Fault::NeverWritten { key: text(&buffer[span.key.clone()]), count, issued })
        }
        origin => Ok(origin),
    }
}

/// Why a value's key is not the one that should have come at its place.
#[cold]
fn misplaced(workload: &Workload, mut asked: impl Iterator<Item = u64>, key: &[u8]) -> Fault {
    let name = text(key);
    match workload.keyspace.index_of(key) {
        None => Fault::UnknownKey { key: name },
        Some(index) if asked.any(|asked| asked == index) => Fault::OutOfOrder { key: name },
        Some(_) => Fault::NotAsked { key: name },
    }
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
    #[error("key {key}: the flags are {found} instead of {FLAGS}")]
    Flags { key: String, found: u32 },
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

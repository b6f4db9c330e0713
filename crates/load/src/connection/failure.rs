//! A failed request in words.

use std::fmt;

use super::{Connection, Outstanding};
use crate::workload::verify::Fault;

/// How a connection is named to the user.
pub(super) struct Name<'a>(pub(super) &'a Connection);

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "connection {} to {}", self.0.id, self.0.target)
    }
}

/// A failed request, as it is reported to the user. Valid while the request is the oldest, because its keys are looked up.
pub(super) struct Failure<'a> {
    pub(super) connection: &'a Connection,
    pub(super) request: Outstanding,
    pub(super) fault: &'a Fault,
}

impl fmt::Display for Failure<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Failure { connection, request, fault } = self;
        let keys = request.keys as usize;
        let command = if keys > 1 { request.operation.name() } else { request.ask.command.name() };
        write!(f, "{}, request {}: {command}", connection.name(), request.number)?;
        for asked in connection.keys.range(..keys.min(KEYS_NAMED_MAX)) {
            let mut name = Vec::new();
            match connection.names.front() {
                Some(named) => name.extend_from_slice(named.bytes()),
                None => connection.workload.keyspace.append(asked.key, &mut name),
            }
            write!(f, " {}", name.escape_ascii())?;
        }
        if keys > KEYS_NAMED_MAX {
            write!(f, " and {} more keys", keys - KEYS_NAMED_MAX)?;
        }
        write!(f, ": {fault}")
    }
}

const KEYS_NAMED_MAX: usize = 3;

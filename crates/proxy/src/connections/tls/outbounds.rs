//! What each server of a table is spoken to in.
//!
//! [`Outbounds`] goes with a table from the configuration to the loops, and is not changed. It knows every server of its table, the plain
//! ones as well: nothing is sent to a server of which it says nothing.

use crate::connections::tls::Outbound;
use std::{collections::HashMap, sync::Arc};
use weir_routing::{Endpoint, Server};

/// What one server is spoken to in.
#[derive(Clone, Debug)]
pub(crate) enum Spoken {
    /// Bytes go as they are.
    Plain,
    /// TLS, on these terms.
    Tls(Arc<Outbound>),
}

/// What each server of a table is spoken to in.
#[derive(Debug, Default)]
pub(crate) struct Outbounds {
    of: HashMap<(Endpoint, String), Spoken>,
}

impl Spoken {
    /// Whether settings say the same of both. Files may have changed.
    pub(crate) fn is_said_as(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Plain, Self::Plain) => true,
            (Self::Tls(ours), Self::Tls(theirs)) => ours.is_said_as(theirs),
            (Self::Plain, Self::Tls(_)) | (Self::Tls(_), Self::Plain) => false,
        }
    }
}

impl Outbounds {
    /// This server is spoken to so. Returns whether nothing else was said of it before.
    pub(crate) fn say(&mut self, server: &Server, spoken: &Spoken) -> bool {
        let before = self.of.entry(identity(server)).or_insert_with(|| spoken.clone());
        before.is_said_as(spoken)
    }

    /// What the server is spoken to in; `None` if it belongs to another table.
    pub(crate) fn of(&self, server: &Server) -> Option<&Spoken> {
        self.of.get(&identity(server))
    }
}

/// What makes two servers one.
fn identity(server: &Server) -> (Endpoint, String) {
    (server.endpoint.clone(), server.name.clone())
}

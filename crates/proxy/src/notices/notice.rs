//! What an operator should see: every change of state that is worth a line in a log.
//!
//! This crate says what happened, as values. Who runs a proxy gives it a function that shows them ([`crate::run()`]); the command line
//! writes lines. What may happen often has a [`Topic`] and perhaps a server: of one topic and server only a few are shown in a while, and of
//! the rest the last one, with their number (`rate_limit.rs`).

use crate::Config;
use std::{sync::Arc, time::Duration};

/// What happened to a proxy that its operator should see.
pub enum Notice {
    /// Clients can connect.
    Ready(Box<Config>),
    /// It listens at these ports, which the service manager holds open.
    Inherited(Vec<String>),
    /// The service manager cannot be reached, for this reason.
    ServiceManagerAway(String),
    /// Threads that serve do not answer, so that the service manager will end the proxy.
    ThreadsSilent {
        /// How many.
        silent: usize,
        /// How many there are.
        threads: usize,
        /// For how long they have not.
        since: Duration,
    },
    /// All threads that serve answer again.
    ThreadsAnswer {
        /// How long one did not.
        after: Duration,
    },
    /// A configuration was read again and is in force.
    Reloaded {
        /// How many have been, the first included.
        generation: u64,
        /// What has changed, and what has not although the new configuration says so.
        summary: String,
    },
    /// A configuration was read again and refused: the old one stays.
    ReloadRefused(String),
    /// A server's name has no address, as this says: the server is down, and the name is looked up again.
    NameUnknown(String),
    /// The name of this server has an address now.
    NameKnown(String),
    /// A file of records cannot be written.
    RecordsLost(String),
    /// Something has become of a server.
    Server {
        /// Its name.
        server: Arc<str>,
        /// What.
        what: ServerNotice,
    },
    /// Fewer clients may connect than was said, because descriptors do not suffice; or other ones than before.
    ClientsMax {
        /// As `--max-connections` says.
        wanted: usize,
        /// How many may.
        most: usize,
        /// How many descriptors the process may have.
        limit: usize,
        /// How many of them are kept for servers, the admin port and files.
        reserved: usize,
    },
    /// Clients were refused since this was reported last.
    ClientsRefused {
        /// Because as many were connected as may be.
        too_many: u64,
        /// Because there was no descriptor for them.
        no_descriptor: u64,
        /// Because too many TLS handshakes were under way.
        no_handshake: u64,
        /// How many may be connected.
        clients_max: usize,
    },
    /// There was no descriptor for connections to servers but those that are held for that.
    DescriptorsLacking {
        /// How often since this was reported last.
        count: u64,
        /// How many descriptors the process may have.
        limit: usize,
    },
    /// A signal to stop has come: the proxy is not ready any more.
    Stopping {
        /// The signal's name.
        signal: &'static str,
        /// For how long it still accepts clients.
        delay: Duration,
    },
    /// No more clients are accepted; what was taken is answered.
    Draining {
        /// How long that may take.
        timeout: Duration,
    },
    /// All clients are gone, or their time was up.
    Stopped {
        /// How long that took.
        drained: Duration,
    },
    /// This many notices could not be shown, because the lines before them were not taken.
    Lost(u64),
}

/// What has become of a server, over all threads (`server_views.rs`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerNotice {
    /// No thread finds it down any more.
    Up {
        /// For how long one did.
        after: Duration,
    },
    /// It cannot be connected to, or closes its connections.
    Unreachable {
        /// It takes connections, and closes them.
        closes: bool,
    },
    /// It takes connections, and no TLS can be spoken through them.
    NoTls {
        /// Why.
        reason: String,
    },
    /// It takes connections, and does not answer the first question on them.
    Unanswered,
    /// It was connected, and has left requests without an answer.
    MarkedDown {
        /// How many in a row.
        timeouts: u32,
    },
    /// It answers what no memcached would.
    Garbage {
        /// What it said, or what is wrong with that.
        said: String,
    },
    /// It wants a login, so it is not used.
    LoginWanted,
    /// It does not take the login that it gets, so it is not used.
    LoginRefused,
    /// A connection was replaced: it was silent while the server answers on others.
    DeadConnection,
    /// A connection was replaced: what came on it is no answer to what was asked.
    BadReply {
        /// What is wrong with it.
        said: String,
    },
    /// It closes its connections at a question of the proxy's own, and is used without it.
    QuestionUnknown,
    /// It lacks writes, or may, and is not read until it has forgotten their keys.
    Stale,
    /// The same, after a connection broke whose writes it may still carry out.
    Quarantined,
    /// It has missed more than is remembered, and is to be flushed.
    FlushWanted,
    /// It would not be flushed.
    FlushRefused,
    /// It was flushed.
    Flushed,
    /// It is read again.
    Fresh {
        /// How long it was not.
        after: Duration,
    },
}

/// What notices are about; of each topic and server only a few are shown in a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Topic {
    /// The life of the process.
    Process,
    Reload,
    Records,
    /// Names of servers.
    Names,
    /// How many clients there may be.
    Limits,
    /// Clients that were refused.
    Refused,
    /// Descriptors that servers lacked.
    Descriptors,
    /// Whether the service manager can be reached.
    ServiceManager,
    /// Whether threads that serve answer.
    Threads,
    /// Whether a server is down.
    Server,
    /// Questions that a server does not know.
    Question,
    /// Connections to a server that were replaced.
    Connection,
    /// Whether a server is read.
    Freshness,
}

impl Topic {
    /// How many are shown in a while; `None`: all. Every thread has a connection of its own, and what ends one ends others with it.
    pub(crate) const fn shown_max(self) -> Option<u32> {
        match self {
            Self::Process | Self::Reload | Self::Limits | Self::Refused | Self::Descriptors => None,
            Self::Connection | Self::Question => Some(1),
            Self::ServiceManager | Self::Threads => Some(10),
            Self::Records | Self::Names | Self::Server | Self::Freshness => Some(10),
        }
    }
}

impl Notice {
    pub(crate) const fn topic(&self) -> Topic {
        match self {
            Self::Ready(_) | Self::Stopping { .. } | Self::Draining { .. } | Self::Stopped { .. } => {
                Topic::Process
            }
            Self::Inherited(_) | Self::Lost(_) => Topic::Process,
            Self::ServiceManagerAway(_) => Topic::ServiceManager,
            Self::ThreadsSilent { .. } | Self::ThreadsAnswer { .. } => Topic::Threads,
            Self::Reloaded { .. } | Self::ReloadRefused(_) => Topic::Reload,
            Self::RecordsLost(_) => Topic::Records,
            Self::NameUnknown(_) | Self::NameKnown(_) => Topic::Names,
            Self::ClientsMax { .. } => Topic::Limits,
            // Those who tell these two count what happens within a second.
            Self::ClientsRefused { .. } => Topic::Refused,
            Self::DescriptorsLacking { .. } => Topic::Descriptors,
            Self::Server { what, .. } => what.topic(),
        }
    }

    /// The server that it is about, if it is about one.
    pub(crate) const fn server(&self) -> Option<&Arc<str>> {
        match self {
            Self::Server { server, .. } => Some(server),
            _ => None,
        }
    }
}

impl ServerNotice {
    const fn topic(&self) -> Topic {
        match self {
            Self::Up { .. }
            | Self::Unreachable { .. }
            | Self::NoTls { .. }
            | Self::Unanswered
            | Self::MarkedDown { .. }
            | Self::Garbage { .. }
            | Self::LoginWanted
            | Self::LoginRefused => Topic::Server,
            Self::QuestionUnknown => Topic::Question,
            Self::DeadConnection | Self::BadReply { .. } => Topic::Connection,
            Self::Stale
            | Self::Quarantined
            | Self::FlushWanted
            | Self::FlushRefused
            | Self::Flushed
            | Self::Fresh { .. } => Topic::Freshness,
        }
    }
}

/// Shows notices, sooner or later; nobody waits for it.
pub(crate) type Tell = Arc<dyn Fn(Notice) + Send + Sync>;

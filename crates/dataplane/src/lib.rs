//! The proxy without sockets and without a clock.
//!
//! A driver moves bytes and tells the time; everything else happens here: requests are parsed, placed, sent to one or
//! more servers, and answered in each client's order, whatever the servers do. [`Dataplane`] is the first type to read. What
//! goes in are calls named `handle_*`, with the instant at which the thing happened; what comes out is asked for by calls named
//! `poll_*`. One event loop owns one dataplane; dataplanes share only the immutable [`weir_routing::Table`], the memory budget, what is
//! known of copies that are missing, and what servers say to `version`.
//!
//! | room | holds |
//! |---|---|
//! | `dataplane` | [`Dataplane`]: the driver's border |
//! | `requests` | `Requests`: what each request asks of which servers, and what becomes of the replies: `admission`, `dispatch`, `deliver`, `turn`, `plan`, `failover`, `verdict` |
//! | `clients` | `Clients`: sessions: bytes become requests (`intake`), the order of the replies (`replies`) and of requests that are served at different places (`sequence`), clients that take too long |
//! | `replication` | `Fleet`, `Replication`: keys with several servers: who decides (`readers`, asked by `fleet` for reads and `write` for writes), what the others hear (`write`, `follow`), what they missed (`journal`), who is fresh (`freshness`) and may be read (`readers`) |
//! | `servers` | `Servers`: connections: what is queued and in flight, deadlines, health, greeting, bulk connections |
//! | `routes` | which servers there are, where keys go, and how both change |
//! | `meter` | `Meter`: counters, windows of a second, reports, sampled requests |
//! | `memory` | how much all buffers may take together, and what is given back |
//! | `config` | every limit and policy |
//! | `wire` | keys, requests, questions and faults as they are written, and the types of the numbers that all rooms use |
//!
//! A room names those below it alone. `scripts/check-walls` holds them to that.

mod clients;
mod config;
mod dataplane;
mod memory;
mod meter;
mod replication;
mod requests;
mod routes;
mod servers;
mod wire;

pub use clients::event::Event;
pub use clients::gate::Login;
pub use clients::intake::{Input, Intake, Takes};
pub use clients::overdue::{Doing, Overdue};
pub use clients::taken::Taken;
pub use clients::users::{User, Users};
pub use config::Config;
pub use config::client_timeouts::ClientTimeouts;
pub use config::multiget::{Multiget, NotWhole, OnFailure};
pub use config::mutation::Mutation;
pub use config::policy::{
    AskOnce, JoinGets, NearCheck, OnStale, ReadPolicy, ReadRepair, ReplicasRequired, WritePolicy,
};
pub use config::words::{UnknownWord, Word};
pub use dataplane::Dataplane;
pub use memory::budget::{Budget, Charge, SCARCE_LOOK_NS};
pub use meter::counters::Counters;
pub use meter::hot_keys::sketch::KeyCounts;
pub use meter::hot_keys::top_keys::TopKeys;
pub use meter::report::{CrewSize, Report, ServerReport, StationEntry};
pub use meter::server_window::ServerWindow;
pub use meter::trace::{Arrivals, TraceRow};
pub use meter::window::LoopWindow;
pub use replication::freshness::Freshness;
pub use replication::mailbox::Mail;
pub use replication::owner::owner_of;
pub use requests::lent::Unsent;
pub use servers::changes::{Change, DownReason, ReplacedReason, ServerChange};
pub use servers::credentials::{Credentials, ServerLogins};
pub use wire::fault::Fault;
pub use wire::ids::{LoopId, RequestKey, SessionId, Slot};
pub use wire::kept::{KeptRequest, parse_whole};
pub use wire::secret::Secret;
pub use wire::stats::StatsTopic;
pub use wire::version::Version;
pub use wire::written::{read_key, written_key};

//! The proxy without sockets and without a clock.
//!
//! A driver moves bytes and tells the time; everything else happens here: requests are parsed, placed, sent to one or
//! more servers, and answered in each client's order, whatever the servers do. [`Dataplane`] is the first type to read. What
//! goes in are calls named `handle_*`, with the instant at which the thing happened; what comes out is asked for by calls named
//! `poll_*`. One event loop owns one dataplane; dataplanes share nothing but the immutable [`weir_routing::Table`].
//!
//! | file | holds |
//! |---|---|
//! | `dataplane` | [`Dataplane`]: the driver's border |
//! | `dispatch` | a request becomes messages to servers |
//! | `multiget` | which servers are asked for which keys of a retrieval |
//! | `again` | keys that a replica did not have, asked of their primaries |
//! | `auto` | whole or sharded, by what either has cost |
//! | `degrade` | what becomes of a request of which a part failed |
//! | `policy` | when writes are answered, and which replicas are read |
//! | `read` | which replica a read is sent to |
//! | `replicate` | a write whose key has several replicas |
//! | `follow` | what the other replicas learn of a write that one decides |
//! | `hold` | a key between the two steps of a conditional write |
//! | `emptied` | servers that may have come back empty, and whom else to ask then |
//! | `repair` | copies that a read found missing, put back |
//! | `token` | cas tokens that name their server |
//! | `replica` | one server that has copies: how it is made to forget what it missed |
//! | `mark_down` | servers that are connected and do not answer |
//! | `second_opinion` | whether a server is silent or only one connection to it |
//! | `journal` | the keys that a server missed |
//! | `standing` | which servers may be read, for all dataplanes of a process |
//! | `deliver` | a reply of a server becomes, or becomes part of, the reply to a client |
//! | `session` | one client: partial requests, and the order of the replies |
//! | `backend` | one server: what is queued and in flight, deadlines, the state of its connection |
//! | `servers` | all of them, and which are to be looked at |
//! | `greeting` | the first exchange on a connection to a server |
//! | `clients` | what clients send becomes requests, and these are taken into service |
//! | `in_step` | whether the replies of a connection are in step with its requests |
//! | `changes` | what becomes of servers, told to the driver |
//! | `begun` | from when a deadline runs |
//! | `connection` | connections to servers: made, tried again, given up, lost |
//! | `service` | one request, from parsed to answered |
//! | `hosted` | requests that the driver took from their clients itself |
//! | `ownership` | one order per key over several loops: writes that go to another dataplane by mail |
//! | `sequence` | the order of one client's requests where some go by mail |
//! | `gather` | a split multi-get, merged |
//! | `key` | keys in base64 |
//! | `fault` | what clients are told about servers |
//! | `table` | which servers there are, where keys go, and how both change |
//! | `trace` | single requests, sampled at random |
//! | `window` | what is told of each second |
//! | `stats` | what a client may ask in band |
//! | `version` | what `version` is answered: the lowest of the servers' |
//! | `item_size` | the longest value, as the servers tell it |
//! | `apart` | large values, on a connection of their own |
//! | `budget` | how much memory all buffers may take together |
//! | `patience` | clients that take too long |
//! | `spare` | memory of parked answers, used again |
//! | `memory` | what is given back when nobody uses it |
//! | `words` | the names of choices |
//! | `config`, `counters` | every limit, every count |

mod again;
mod apart;
mod ask_alone;
mod auto;
mod backend;
mod begun;
mod budget;
mod buffer;
mod bulk_reads;
mod changes;
mod clients;
mod config;
mod connection;
mod counters;
mod dataplane;
mod degrade;
mod deliver;
mod dispatch;
mod emptied;
mod failover;
mod fault;
mod follow;
mod gather;
mod greeting;
mod hold;
mod hosted;
mod in_step;
mod item_size;
mod journal;
mod key;
mod mark_down;
mod memory;
mod multiget;
mod outbox;
mod ownership;
mod patience;
mod policy;
mod read;
mod repair;
mod replica;
mod replicate;
mod report;
mod second_opinion;
mod sequence;
mod servers;
mod service;
mod services;
mod session;
mod spare;
mod standing;
mod stats;
mod table;
mod token;
mod trace;
mod version;
mod window;
mod words;

pub use budget::{Budget, Charge, SCARCE_LOOK_NS};
pub use changes::{Change, DownReason, ReplacedReason, ServerChange};
pub use clients::intake::{Input, Intake};
pub use config::Config;
#[cfg(feature = "mutations")]
pub use config::Mutation;
pub use counters::Counters;
pub use dataplane::{Dataplane, Event, SessionId};
pub use fault::Fault;
pub use hosted::{Taken, Unsent, parse_whole, read_key, written_key};
pub use multiget::{Multiget, NotWhole, OnFailure};
pub use ownership::{Mail, owner_of};
pub use patience::{Doing, Overdue, Patience};
pub use policy::{JoinGets, OnStale, ReadPolicy, ReadRepair, ReplicasRequired, WritePolicy};
pub use report::{Report, ServerReport, StationEntry};
pub use standing::Standing;
pub use stats::StatsTopic;
pub use trace::{Arrivals, TraceRow};
pub use version::Version;
pub use window::{LoopWindow, ServerWindow};
pub use words::UnknownWord;

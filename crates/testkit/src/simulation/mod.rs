//! A proxy, its clients, its servers and the network between them, all from one seed.
//!
//! ```text
//!   clients ──link──▶ driver ─▶ Dataplane ─▶ driver ──link──▶ model servers
//!      ▲                │  (one per loop)                         │ freeze, close, refuse, swallow, answer late
//!      └──────link──────┘                    ◀──────link──────────┘
//! ```
//!
//! A proxy has one to three loops, each with a dataplane; the clients are spread over them, and every server has a connection of each.
//!
//! Links cut bytes anywhere and delay them. The kernel takes as much of a write as it likes. Time is a number, and the same seed always
//! gives the same run: [`run`] twice, and the traces are equal. Tables replace each other at any moment: servers come and go, and prefixes
//! lead elsewhere.
//!
//! Every run must show this, whatever happens to the servers. Replies come in the order of the requests and belong to them. What a client
//! reads of its own keys is what it may believe to be stored (see `beliefs`). What anybody reads of a key that all write is not older than
//! what was acknowledged (see `history`). A client's own mistakes are answered as memcached answers them. Every request is answered in its
//! time. Stages add up, counts agree, and nothing is left over when all is quiet.

mod beliefs;
mod client;
mod crew;
mod driver;
mod event_loop;
mod history;
mod link;
mod logins;
mod replies;
mod reported;
mod rows;
mod scenario;
mod script;
mod server;
mod tables;
mod tokens;
mod verdict;
mod visits;
mod watch;
mod windows;
mod wires;
mod world;

use scenario::Scenario;
use world::World;

/// What happened in one run, for comparisons between runs and to see that a set of seeds reaches everything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Hash of everything that was handed to the dataplane and came out of it, with its times.
    pub trace: u64,
    /// Replies that clients got.
    pub replies: u64,
    /// Of them, failures that a server was the reason of.
    pub failures: u64,
    /// The dataplane's own counters at the end.
    pub counters: weir_dataplane::Counters,
}

/// Runs the world of `seed` without one of the proxy's rules.
#[cfg(feature = "mutations")]
pub fn run_without(rule: weir_dataplane::Mutation, seed: u64) -> Outcome {
    let scenario = |rng: &mut _| {
        let mut scenario = Scenario::random(rng);
        scenario.config.mutation = Some(rule);
        scenario
    };
    World::new(seed, scenario).run()
}

/// The same of the world of `seed` whose clients are served through lent sessions.
#[cfg(feature = "mutations")]
pub fn run_lent_without(rule: weir_dataplane::Mutation, seed: u64) -> Outcome {
    let scenario = |rng: &mut _| {
        let mut scenario = Scenario::lent(rng);
        scenario.config.mutation = Some(rule);
        scenario
    };
    World::new(seed, scenario).run()
}

/// Runs the world of `seed` whose clients are served through lent sessions, as the threaded engines serve them (see `crew`).
pub fn run_lent(seed: u64) -> Outcome {
    World::new(seed, Scenario::lent).run()
}

/// Runs the world of `seed` until it is quiet. Panics with the seed and a reason if anything is wrong.
pub fn run(seed: u64) -> Outcome {
    World::new(seed, Scenario::random).run()
}

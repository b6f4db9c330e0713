//! The dataplane by script: bytes and instants in, bytes and events out.

mod apart;
mod clients;
mod limits;
mod memory;
mod multigets;
mod ownership;
mod patience;
mod reload;
mod replication;
mod requests;
mod servers;
mod world;

//! The dataplane by script: bytes and instants in, bytes and events out.

mod apart;
mod away;
mod base64;
mod changes;
mod clients;
mod emptied;
mod failover;
mod follow_meta;
mod frozen;
mod greeting;
mod hosted;
mod joined;
mod limits;
mod memory;
mod multigets;
mod ownership;
mod patience;
mod policies;
mod reads;
mod reload;
mod repair;
mod replication;
mod requests;
mod servers;
mod tokens;
mod world;

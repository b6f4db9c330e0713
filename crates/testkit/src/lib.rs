//! Development only: a world to test the proxy in, made from one seed.
//!
//! | module | holds |
//! |---|---|
//! | [`differential`] | random streams of commands to a real memcached, and to the proxy in front of another |
//! | [`memcached`] | a memcached server as a state machine: bytes in, bytes out |
//! | [`requests`] | random requests, right and wrong ones |
//! | [`simulation`] | clients, network and servers around one dataplane, from one seed |
//! | [`steady`] | the same requests over and over, for counting what one costs |
//!
//! Nothing here shares code with `weir-protocol`: what two authors wrote separately can check each other.

pub mod differential;
pub mod memcached;
pub mod requests;
pub mod simulation;
pub mod steady;

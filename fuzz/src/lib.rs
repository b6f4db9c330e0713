//! What the fuzz targets check, one module per target: [`requests`], [`replies`], [`session`] (of which `lent` is a variant). What `tls` checks
//! lies beside what it looks into, in `weir_proxy::fuzzing`. Run them by `scripts/fuzz`.
//!
//! Inputs are text wherever possible: a short head that says how the bytes arrive, and then the bytes as they are on the wire. So
//! the words of `dict/memcached.dict` fit anywhere, seeds are written by hand, and a finding can be read. (A structure decoded
//! from the fuzzer's bytes would hide the protocol from the mutator.)
//!
//! The sanitizers for memory are off: no code that is fuzzed is `unsafe`, but for ring's. Assertions and overflow checks are on.

mod input;
pub mod replies;
pub mod requests;
pub mod session;

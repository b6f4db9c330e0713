//! Any course of events on a connection that speaks TLS: see `weir_proxy::fuzzing`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| weir_proxy::fuzzing::check(input));

//! Any course of events around one dataplane: see `weir_fuzz::session`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| weir_fuzz::session::check(input));

//! Any course of events around one dataplane that serves requests on lent sessions: see `weir_fuzz::session::check_lent`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| weir_fuzz::session::check_lent(input));

//! Any bytes from a server: see `weir_fuzz::replies`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| weir_fuzz::replies::check(input));

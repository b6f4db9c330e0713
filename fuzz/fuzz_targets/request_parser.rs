//! Any bytes from a client: see `weir_fuzz::requests`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| weir_fuzz::requests::check(input));

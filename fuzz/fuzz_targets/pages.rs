//! Pages: the check, and everything that is done to what passes it.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    sablecat::fuzzing::page(input);
});

//! Volumes: superblocks, map blocks, pages. Checksums are put right before every run.
#![no_main]

use sablecat::fuzzing;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let mut volume = input.to_vec();
    fuzzing::seal_superblocks(&mut volume);
    fuzzing::seal_blocks(&mut volume);
    fuzzing::volume(&volume);
});

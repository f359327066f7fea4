//! Log segments: scan, records, replay. Checksums are put right before every run.
#![no_main]

use sablecat::fuzzing;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let mut segment = input.to_vec();
    let records = fuzzing::records(&segment);
    fuzzing::seal_segment(&mut segment, &records);
    fuzzing::segment(&segment);
});

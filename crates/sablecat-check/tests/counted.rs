//! A sample of all checks over counted B+trees. What the engine says of numbers is compared with what it
//! finds by going through the records, wherever a check reads a range.
//!
//! Long runs: `cargo run --release -p sablecat-check -- <check> --method counted --seeds N --from S`.

mod sample;

use sablecat::Method;

sample::sample!(Method::Counted, "counted");

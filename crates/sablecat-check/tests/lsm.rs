//! A sample of all checks over LSM trees.
//!
//! Long runs: `cargo run --release -p sablecat-check -- <check> --method lsm --seeds N --from S`.

#[path = "sample/larger.rs"]
mod larger;
mod sample;

use sablecat::Method;

sample::sample!(Method::Lsm, "lsm");

/// What changes is built beside the newest layer, which then is as large as the cache.
#[test]
fn a_commit_larger_than_the_cache_is_done_or_not() {
    larger::commits_are_done_or_not(Method::Lsm, "LSM tree", |n| n.to_be_bytes().to_vec());
}

//! A sample of all checks over hash tables.
//!
//! Long runs: `cargo run --release -p sablecat-check -- <check> --method hash --seeds N --from S`.

#[path = "sample/larger.rs"]
mod larger;
mod sample;

use sablecat::Method;

sample::sample!(Method::Hash, "hash");

/// What changes is built beside the table: buckets, directories and subtrees are copied.
#[test]
fn a_commit_larger_than_the_cache_is_done_or_not() {
    // One key of seven is nested, in few subtrees.
    larger::commits_are_done_or_not(Method::Hash, "hash table", |n| match n % 7 {
        0 => [&[b'a' + (n % 3) as u8; 60][..], &n.to_be_bytes()].concat(),
        _ => n.to_be_bytes().to_vec(),
    });
}

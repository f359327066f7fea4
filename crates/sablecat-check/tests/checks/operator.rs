//! What operators do. A long run:
//! `cargo run --release -p sablecat-check -- operator --seeds 10000 --from 1000`.

use sablecat_check::seeds;

#[test]
fn whatever_an_operator_does_to_what_killed_processes_left_the_next_finds_what_the_files_are_of() {
    seeds::all("operator", 0..100);
}

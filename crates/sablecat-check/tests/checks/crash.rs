//! Power failures. A long run:
//! `cargo run --release -p sablecat-check -- crash --seeds 100000 --from 1000000`.

use sablecat_check::seeds;

#[test]
fn a_crash_anywhere_keeps_what_was_promised() {
    seeds::all("crash", 0..600);
}

#[test]
fn a_crash_after_each_call_of_a_workload_keeps_what_was_promised() {
    seeds::all("crash-calls", 0..2);
}

#[test]
fn a_crash_of_processes_that_share_an_environment_keeps_what_was_promised() {
    seeds::all("crash-shared", 0..60);
}

#[test]
fn a_data_store_is_whole_as_of_its_last_checkpoint() {
    seeds::all("store", 0..500);
}
